//! One incoming call, untyped until its method's glue takes it.

use std::future::poll_fn;

use trirpc_core::Instant;
use trirpc_core::call::{Code, Metadata, Method, MethodCodec, MethodSpec, Protocol, Status};

use super::context::{Context, Extensions};
use crate::decode::decode;
use crate::marker::BoxFuture;
use crate::raw::{RawCall, RawReceiver, Received};
use crate::session::{CallSeat, RequestInfo};
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
    request: RequestInfo,
}

impl IncomingCall {
    /// `None` if the call is over already, or an interceptor refused it.
    pub(crate) fn new(seat: CallSeat, method: &'static MethodSpec) -> Option<Self> {
        let mut request = seat.request()?;
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
    pub const fn metadata(&self) -> &Metadata {
        &self.request.metadata
    }

    /// The metadata of the request, for changing what the handler gets.
    pub const fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.request.metadata
    }

    /// When the client stops waiting.
    pub const fn deadline(&self) -> Option<Instant> {
        self.request.deadline
    }

    /// The client's address, where the transport knows one.
    pub fn peer(&self) -> Option<&str> {
        self.request.peer.as_deref()
    }

    /// Values that the handler finds in its [`Context`].
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.request.extensions
    }

    /// Takes the request of a unary call.
    pub async fn unary<Req, Res>(self, method: &'static Method<Req, Res>) -> Option<(Context, Req)> {
        let (cx, call, codec) = self.begin(method)?;
        let request = single_request(cx.protocol, call.into_receiver(), codec).await;
        answer_failure(cx, request)
    }

    /// Takes the request of a server-streaming call.
    pub async fn server_streaming<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Req, Sender<Res>)> {
        let (cx, call, codec) = self.begin(method)?;
        let (tx, rx) = call.split();
        let request = single_request(cx.protocol, rx, codec).await;
        let (cx, request) = answer_failure(cx, request)?;
        Some((cx, request, Sender::new(tx, codec.response)))
    }

    /// Takes a client-streaming call.
    pub async fn client_streaming<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Streaming<Req>)> {
        let (cx, call, codec) = self.begin(method)?;
        Some((cx, Streaming::new(call.into_receiver(), codec.request, None)))
    }

    /// Takes a call with any number of messages each way.
    pub async fn bidi<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, Streaming<Req>, Sender<Res>)> {
        let (cx, call, codec) = self.begin(method)?;
        let (tx, rx) = call.split();
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

    fn begin<Req, Res>(
        self,
        method: &'static Method<Req, Res>,
    ) -> Option<(Context, RawCall, &'static MethodCodec<Req, Res>)> {
        let Some(codec) = method.codec(&self.request.codec) else {
            let offered: Vec<&str> = method.codecs().iter().map(MethodCodec::name).collect();
            self.seat.refuse_codec(&offered);
            return None;
        };
        let (carrier, key) = self.seat.carrier();
        let request = self.request;
        let cx = Context {
            seat: self.seat,
            method: self.method,
            metadata: request.metadata,
            deadline: request.deadline,
            protocol: request.protocol,
            codec: codec.name(),
            peer: request.peer,
            compressor: request.compressor,
            trailers: Metadata::new(),
            extensions: request.extensions,
        };
        Some((cx, RawCall::new(carrier, key), codec))
    }
}

/// The one request message. It is there already when the handler starts.
async fn single_request<Req, Res>(
    protocol: Protocol,
    mut rx: RawReceiver,
    codec: &'static MethodCodec<Req, Res>,
) -> Result<Req, Status> {
    let request = match poll_fn(|cx| rx.poll_recv(cx)).await {
        Ok(Received::Message(mut message)) => decode(codec.request, &mut message),
        Ok(Received::End(_)) => return Err(Status::unimplemented("the call has no request message")),
        Err(status) => Err(status),
    };
    request.map_err(|status| match protocol {
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
