//! One incoming call, untyped until its method's glue takes it.

use std::future::Future;
use std::sync::Arc;
use std::task::{self, Poll, Waker};

use trirpc_core::Instant;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{Accepted, Code, Metadata, Method, MethodCodec, MethodSpec, Protocol, Status};

use super::context::{Context, Extensions};
use super::handling::{Handling, Spare};
use crate::compress::Compressor;
use crate::decode::decode;
use crate::marker::MaybeSend;
use crate::raw::{RawReceiver, RawSender, Received};
use crate::session::CallSeat;
use crate::streaming::{Sender, Streaming};

/// A call that a [`Service`](crate::Service) is to answer. One that is dropped unanswered ends with
/// `Internal`.
///
/// Each of the four methods gives a handler of that kind what it takes, unless the call can be answered at once: its
/// request is no message of the method, or its codec is not offered. The handler's result goes to
/// [`Context::respond`] (single response) or [`Context::finish`].
#[derive(Debug)]
pub struct IncomingCall {
    seat: CallSeat,
    method: &'static MethodSpec,
    request: Box<Request>,
    /// Memory for the future of the handler, if there is some at hand.
    spare: Spare,
}

/// What a call brought with it. It is boxed once, where the call comes in, for it passes through many hands; the
/// [session](crate::session) uses the memory of those that were answered again.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) accepted: Arc<Accepted>,
    /// In place of those that came with the request, once somebody has changed them.
    pub(crate) metadata: Option<Box<Metadata>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) compressor: Compressor,
    pub(crate) extensions: Extensions,
    /// The message of a single request, pulled when the call was handed to its handler. Its place is made with the first
    /// one, and stays with the memory of the request: what a stream takes has none.
    message: Option<Box<Option<MessageBuf>>>,
}

impl Request {
    pub(crate) fn new(accepted: Arc<Accepted>) -> Self {
        let (compressor, extensions) = (Compressor::default(), Extensions::default());
        Self { accepted, metadata: None, deadline: None, compressor, extensions, message: None }
    }

    pub(crate) fn metadata(&self) -> &Metadata {
        self.metadata.as_deref().unwrap_or_else(|| self.accepted.metadata())
    }

    /// The metadata, for changing them.
    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        self.metadata.get_or_insert_with(|| Box::new(self.accepted.metadata().clone()))
    }

    pub(crate) fn has_message(&self) -> bool {
        self.message.as_deref().is_some_and(Option::is_some)
    }

    #[inline]
    pub(crate) fn put_message(&mut self, message: MessageBuf) {
        match &mut self.message {
            Some(place) => **place = Some(message),
            None => self.message = Some(Box::new(Some(message))),
        }
    }

    #[inline]
    fn take_message(&mut self) -> Option<MessageBuf> {
        self.message.as_deref_mut()?.take()
    }

    /// Drops what is this call's own. The head stays, which the next call may share.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.metadata = None;
        self.compressor = Compressor::default();
        if let Some(message) = &mut self.message {
            **message = None;
        }
        self.extensions.clear();
    }
}

impl IncomingCall {
    /// `None` if an interceptor refused it.
    #[inline]
    pub(crate) fn new(
        seat: CallSeat,
        method: &'static MethodSpec,
        mut request: Box<Request>,
        spare: Spare,
    ) -> Option<Self> {
        match seat.intercept(&mut request) {
            Ok(()) => Some(Self { seat, method, request, spare }),
            Err(status) => {
                seat.end(status, Metadata::new());
                None
            }
        }
    }

    /// The method that was called.
    pub const fn method(&self) -> &'static MethodSpec {
        self.method
    }

    /// The metadata of the request.
    pub fn metadata(&self) -> &Metadata {
        self.request.metadata()
    }

    /// The metadata of the request, for changing what the handler gets.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        self.request.metadata_mut()
    }

    /// When the client stops waiting.
    pub const fn deadline(&self) -> Option<Instant> {
        self.request.deadline
    }

    /// The client's address, where the transport knows one.
    pub fn peer(&self) -> Option<&str> {
        self.seat.peer()
    }

    pub(super) fn into_parts(self) -> (CallSeat, Box<Request>, Spare) {
        (self.seat, self.request, self.spare)
    }

    /// Memory for a future that is to hold the call itself.
    pub(super) fn take_spare(&mut self) -> Spare {
        std::mem::take(&mut self.spare)
    }

    /// Values that the handler finds in its [`Context`].
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.request.extensions
    }

    /// Takes the request of a unary call, and lets `handler` do what it asks for.
    pub fn unary<Req, Res, F>(
        self,
        method: &'static Method<Req, Res>,
        handler: impl FnOnce(Context, Req) -> F,
    ) -> Handling
    where
        F: Future<Output = ()> + MaybeSend + 'static,
    {
        let Some(begun) = self.begin(method) else { return Handling::DONE };
        let Some((cx, request, spare)) = begun.single_request() else { return Handling::DONE };
        Handling::within(spare, handler(cx, request))
    }

    /// Takes the request of a server-streaming call, and lets `handler` do what it asks for.
    pub fn server_streaming<Req, Res, F>(
        self,
        method: &'static Method<Req, Res>,
        handler: impl FnOnce(Context, Req, Sender<Res>) -> F,
    ) -> Handling
    where
        F: Future<Output = ()> + MaybeSend + 'static,
    {
        let Some(begun) = self.begin(method) else { return Handling::DONE };
        let codec = &begun.codec.response;
        let Some((cx, request, spare)) = begun.single_request() else { return Handling::DONE };
        let tx = Sender::new(sender(&cx), codec);
        Handling::within(spare, handler(cx, request, tx))
    }

    /// Lets `handler` serve a client-streaming call.
    pub fn client_streaming<Req, Res, F>(
        self,
        method: &'static Method<Req, Res>,
        handler: impl FnOnce(Context, Streaming<Req>) -> F,
    ) -> Handling
    where
        F: Future<Output = ()> + MaybeSend + 'static,
    {
        let Some(Begun { cx, codec, spare }) = self.begin(method) else { return Handling::DONE };
        let rx = Streaming::new(receiver(&cx), &codec.request, None);
        Handling::within(spare, handler(cx, rx))
    }

    /// Lets `handler` serve a call with any number of messages each way.
    pub fn bidi<Req, Res, F>(
        self,
        method: &'static Method<Req, Res>,
        handler: impl FnOnce(Context, Streaming<Req>, Sender<Res>) -> F,
    ) -> Handling
    where
        F: Future<Output = ()> + MaybeSend + 'static,
    {
        let Some(Begun { cx, codec, spare }) = self.begin(method) else { return Handling::DONE };
        let rx = Streaming::new(receiver(&cx), &codec.request, None);
        let tx = Sender::new(sender(&cx), &codec.response);
        Handling::within(spare, handler(cx, rx, tx))
    }

    /// Answers that the method is not there.
    pub fn unimplemented(self) -> Handling {
        self.reject(Status::unimplemented(format!("{} is not implemented", self.method.path())));
        Handling::DONE
    }

    /// Answers with `status`, which should be an error.
    pub fn reject(&self, status: Status) {
        self.seat.end(status, Metadata::new());
    }

    #[inline]
    fn begin<Req, Res>(self, method: &'static Method<Req, Res>) -> Option<Begun<Req, Res>> {
        let Self { seat, method: spec, request, spare } = self;
        let codecs = method.codecs();
        let Some(place) = codecs.iter().position(|codec| request.accepted.is_codec(codec.name())) else {
            let offered: Vec<&str> = codecs.iter().map(MethodCodec::name).collect();
            seat.refuse_codec(&offered);
            return None;
        };
        let cx = Context { seat, method: spec, request, codec: place, trailers: None };
        Some(Begun { cx, codec: &codecs[place], spare })
    }
}

/// A call whose codec is known.
struct Begun<Req: 'static, Res: 'static> {
    cx: Context,
    codec: &'static MethodCodec<Req, Res>,
    spare: Spare,
}

impl<Req, Res> Begun<Req, Res> {
    /// The one request message. `None` if there is no such message, and the call has been answered so.
    #[inline]
    fn single_request(self) -> Option<(Context, Req, Spare)> {
        let Self { mut cx, codec, spare } = self;
        let message = match cx.request.take_message() {
            Some(message) => cx.seat.open(message),
            None => missing(&cx),
        };
        match message.and_then(|mut message| decode(codec.request, &mut message)) {
            Ok(request) => Some((cx, request, spare)),
            Err(status) => {
                let status = match cx.protocol() {
                    // A body that is the message alone is an argument; HTTP has a status for a bad one.
                    Protocol::Triple | Protocol::Connect if status.code() == Code::Internal => {
                        Status::invalid_argument(status.message().to_owned())
                    }
                    _ => status,
                };
                cx.finish(Err(status));
                None
            }
        }
    }
}

/// Why a single request, which is complete when its call is started, has no message.
fn missing(cx: &Context) -> Result<MessageBuf, Status> {
    match receiver(cx).poll_recv(&mut task::Context::from_waker(Waker::noop()), None) {
        Poll::Ready(Ok(Received::Message(message))) => Ok(message),
        Poll::Ready(Err(status)) => Err(status),
        Poll::Ready(Ok(Received::End(_))) | Poll::Pending => {
            Err(Status::unimplemented("the call has no request message"))
        }
    }
}

fn sender(cx: &Context) -> RawSender {
    let (carrier, key) = cx.seat.carrier();
    RawSender::new(carrier, key)
}

fn receiver(cx: &Context) -> RawReceiver {
    let (carrier, key) = cx.seat.carrier();
    RawReceiver::new(carrier, key)
}
