//! One incoming call, untyped until its method's glue takes it.

use std::future::poll_fn;
use std::sync::Arc;

use trirpc_core::Instant;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{Accepted, Code, Metadata, Method, MethodCodec, MethodSpec, Protocol, Status};

use super::context::{Context, Extensions};
use crate::compress::Compressor;
use crate::decode::decode;
use crate::marker::BoxFuture;
use crate::raw::{RawReceiver, RawSender, Received};
use crate::session::CallSeat;
use crate::streaming::{Sender, Streaming};

/// A call that a [`Service`](crate::Service) is to answer. One that is dropped unanswered ends with
/// `Internal`.
///
/// Each of the four methods gives what a handler of that kind takes, or `None` if the call has been
/// answered already: its request was no message of the method, or its codec is not offered. The handler's
/// result then goes to [`Context::respond`] (single response) or [`Context::finish`].
#[derive(Debug)]
pub struct IncomingCall {
    seat: CallSeat,
    method: &'static MethodSpec,
    request: Request,
}

/// What a call brought with it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) accepted: Arc<Accepted>,
    /// In place of those that came with the request, once somebody has changed them.
    pub(crate) metadata: Option<Box<Metadata>>,
    pub(crate) deadline: Option<Instant>,
    pub(crate) compressor: Compressor,
    pub(crate) extensions: Extensions,
    /// The message of a single request, pulled when the call was handed to its handler.
    pub(crate) message: Option<MessageBuf>,
}

impl Request {
    pub(crate) fn metadata(&self) -> &Metadata {
        self.metadata.as_deref().unwrap_or_else(|| self.accepted.metadata())
    }

    /// The metadata, for changing them.
    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        self.metadata.get_or_insert_with(|| Box::new(self.accepted.metadata().clone()))
    }
}

impl IncomingCall {
    /// `None` if an interceptor refused it.
    pub(crate) fn new(seat: CallSeat, method: &'static MethodSpec, mut request: Request) -> Option<Self> {
        match seat.intercept(&mut request) {
            Ok(()) => Some(Self { seat, method, request }),
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

    /// Values that the handler finds in its [`Context`].
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.request.extensions
    }

    /// Takes the request of a unary call.
    pub async fn unary<Req, Res>(self, method: &'static Method<Req, Res>) -> Option<(Context, Req)> {
        let (cx, message, codec) = self.begin(method)?;
        let request = single_request(&cx, message, codec).await;
        answer_failure(cx, request)
    }

    /// Takes the request of a server-streaming call.
    pub async fn server_streaming<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Req, Sender<Res>)> {
        let (cx, message, codec) = self.begin(method)?;
        let request = single_request(&cx, message, codec).await;
        let (cx, request) = answer_failure(cx, request)?;
        let tx = sender(&cx);
        Some((cx, request, Sender::new(tx, codec.response)))
    }

    /// Takes a client-streaming call.
    pub async fn client_streaming<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Streaming<Req>)> {
        let (cx, _, codec) = self.begin(method)?;
        let rx = receiver(&cx);
        Some((cx, Streaming::new(rx, codec.request, None)))
    }

    /// Takes a call with any number of messages each way.
    pub async fn bidi<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Streaming<Req>, Sender<Res>)> {
        let (cx, _, codec) = self.begin(method)?;
        let (rx, tx) = (receiver(&cx), sender(&cx));
        Some((cx, Streaming::new(rx, codec.request, None), Sender::new(tx, codec.response)))
    }

    /// Answers that the method is not there.
    pub fn unimplemented(self) -> BoxFuture<'static, ()> {
        self.reject(Status::unimplemented(format!("{} is not implemented", self.method.path())));
        Box::pin(async {})
    }

    /// Answers with `status`, which should be an error.
    pub fn reject(&self, status: Status) {
        self.seat.end(status, Metadata::new());
    }

    fn begin<Req, Res>(self, method: &'static Method<Req, Res>) -> Option<Begun<Req, Res>> {
        let Self { seat, method: spec, request } = self;
        let codecs = method.codecs();
        let name = request.accepted.codec_name();
        let Some(codec) = codecs.iter().position(|codec| codec.name() == name) else {
            let offered: Vec<&str> = codecs.iter().map(MethodCodec::name).collect();
            seat.refuse_codec(&offered);
            return None;
        };
        let cx = Context {
            seat,
            method: spec,
            accepted: request.accepted,
            metadata: request.metadata,
            deadline: request.deadline,
            codec,
            compressor: request.compressor,
            trailers: Metadata::new(),
            extensions: request.extensions,
        };
        Some((cx, request.message, &codecs[codec]))
    }
}

/// What every kind of call begins with: its message if it was pulled already, and the codec that it names.
type Begun<Req, Res> = (Context, Option<MessageBuf>, &'static MethodCodec<Req, Res>);

fn sender(cx: &Context) -> RawSender {
    let (carrier, key) = cx.seat.carrier();
    RawSender::new(carrier, key)
}

fn receiver(cx: &Context) -> RawReceiver {
    let (carrier, key) = cx.seat.carrier();
    RawReceiver::new(carrier, key)
}

/// The one request message. It is there already when the handler starts.
async fn single_request<Req, Res>(
    cx: &Context,
    message: Option<MessageBuf>,
    codec: &'static MethodCodec<Req, Res>,
) -> Result<Req, Status> {
    let message = match message {
        Some(message) => cx.seat.open(message),
        None => {
            let mut rx = receiver(cx);
            match poll_fn(|task| rx.poll_recv(task)).await {
                Ok(Received::Message(message)) => Ok(message),
                Ok(Received::End(_)) => return Err(Status::unimplemented("the call has no request message")),
                Err(status) => Err(status),
            }
        }
    };
    message.and_then(|mut message| decode(codec.request, &mut message)).map_err(|status| match cx.protocol() {
        // A body that is the message alone is an argument; HTTP has a status for a bad one.
        Protocol::Triple | Protocol::Connect if status.code() == Code::Internal => {
            Status::invalid_argument(status.message().to_owned())
        }
        _ => status,
    })
}

fn answer_failure<Req>(cx: Context, request: Result<Req, Status>) -> Option<(Context, Req)> {
    match request {
        Ok(request) => Some((cx, request)),
        Err(status) => {
            cx.finish(Err(status));
            None
        }
    }
}
