//! Call builders: what the methods of a generated client return. Nothing is sent before a builder is
//! awaited or opened.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use trirpc_core::call::{Method, Status};

use super::invoke::Invoke;
use super::options::{Setup, setters};
use super::unary::{FirstHead, SingleRequest};
use crate::cancel::{Cancelled, poll_parent};
use crate::decode::decode;
use crate::raw::{Outcome, RawCall, RawReceiver};
use crate::response::Response;
use crate::streaming::{Sender, Streaming};

/// One request, one response.
#[must_use = "a call is started by awaiting it"]
pub struct UnaryCall<C, Req: 'static, Res: 'static> {
    invoke: C,
    method: &'static Method<Req, Res>,
    request: Req,
    setup: Setup,
}

impl<C: Invoke, Req, Res> UnaryCall<C, Req, Res> {
    /// A call of `method` with `request`.
    pub fn new(invoke: C, method: &'static Method<Req, Res>, request: Req) -> Self {
        Self { invoke, method, request, setup: Setup::default() }
    }

    setters!();

    /// Awaits the response with the metadata around it.
    pub fn full(self) -> UnaryResponse<C, Req, Res> {
        UnaryResponse(Some(SingleRequest::new(self.invoke, self.method, self.request, self.setup)))
    }
}

impl<C: Invoke, Req, Res> IntoFuture for UnaryCall<C, Req, Res> {
    type Output = Result<Res, Status>;
    type IntoFuture = UnaryMessage<C, Req, Res>;

    fn into_future(self) -> Self::IntoFuture {
        UnaryMessage(self.full())
    }
}

/// A unary call that runs; its output is the message.
#[must_use = "futures do nothing unless polled"]
pub struct UnaryMessage<C, Req: 'static, Res: 'static>(UnaryResponse<C, Req, Res>);

impl<C: Invoke, Req, Res> Future for UnaryMessage<C, Req, Res> {
    type Output = Result<Res, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_by(cx, |message, _| message)
    }
}

/// A unary call that runs; its output is the message with the metadata around it.
#[must_use = "futures do nothing unless polled"]
pub struct UnaryResponse<C, Req: 'static, Res: 'static>(Option<SingleRequest<C, Req, Res>>);

impl<C: Invoke, Req, Res> Future for UnaryResponse<C, Req, Res> {
    type Output = Result<Response<Res>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_by(cx, |message, outcome| Response::new(message, outcome.headers, outcome.trailers))
    }
}

impl<C: Invoke, Req, Res> UnaryResponse<C, Req, Res> {
    /// What `output` makes of the message and of the outcome that it was read from.
    fn poll_by<T>(&mut self, cx: &mut Context<'_>, output: impl FnOnce(Res, Outcome) -> T) -> Poll<Result<T, Status>> {
        let call = self.0.as_mut().expect("polled after its output");
        let codec = *call.response_codec();
        let mut outcome = ready!(call.poll_outcome(cx))?;
        // Nothing is repeated any more: the memory of the request may serve the response.
        self.0 = None;
        let message = decode(codec, &mut outcome.message)?;
        Poll::Ready(Ok(output(message, outcome)))
    }
}

/// One request, any number of responses.
#[must_use = "a call is started by awaiting or opening it"]
pub struct ServerStreamingCall<C, Req: 'static, Res: 'static> {
    invoke: C,
    method: &'static Method<Req, Res>,
    request: Req,
    setup: Setup,
}

impl<C: Invoke, Req, Res> ServerStreamingCall<C, Req, Res> {
    /// A call of `method` with `request`.
    pub fn new(invoke: C, method: &'static Method<Req, Res>, request: Req) -> Self {
        Self { invoke, method, request, setup: Setup::default() }
    }

    setters!();

    /// Starts the call and returns at once, before the server has answered. Awaiting the builder
    /// instead waits for the server's headers, and may replay the call until then.
    pub fn open(self) -> Streaming<Res> {
        let codec = &self.method.default_codec().response;
        let mut single = SingleRequest::new(self.invoke, self.method, self.request, self.setup);
        let rx = single.start_now(None);
        Streaming::new(rx, codec, None).within(single.into_parent())
    }
}

impl<C: Invoke, Req, Res> IntoFuture for ServerStreamingCall<C, Req, Res> {
    type Output = Result<Streaming<Res>, Status>;
    type IntoFuture = FirstHead<C, Req, Res>;

    fn into_future(self) -> Self::IntoFuture {
        FirstHead::new(SingleRequest::new(self.invoke, self.method, self.request, self.setup))
    }
}

/// Any number of requests, one response.
#[must_use = "a call is started by opening it"]
pub struct ClientStreamingCall<C, Req: 'static, Res: 'static> {
    invoke: C,
    method: &'static Method<Req, Res>,
    setup: Setup,
}

impl<C: Invoke, Req, Res> ClientStreamingCall<C, Req, Res> {
    /// A call of `method`.
    pub fn new(invoke: C, method: &'static Method<Req, Res>) -> Self {
        Self { invoke, method, setup: Setup::default() }
    }

    setters!();

    /// Starts the call. What goes wrong at the start is the outcome of both halves.
    pub fn open(mut self) -> (Sender<Req>, Reply<Res>) {
        let codec = self.method.default_codec();
        let (tx, rx) = start(&self.invoke, self.method, &mut self.setup).split();
        let reply = Reply { rx, response: codec.response, parent: self.setup.parent };
        (Sender::new(tx, &codec.request), reply)
    }
}

/// Any number of messages each way.
#[must_use = "a call is started by opening it"]
pub struct BidiCall<C, Req: 'static, Res: 'static> {
    invoke: C,
    method: &'static Method<Req, Res>,
    setup: Setup,
}

impl<C: Invoke, Req, Res> BidiCall<C, Req, Res> {
    /// A call of `method`.
    pub fn new(invoke: C, method: &'static Method<Req, Res>) -> Self {
        Self { invoke, method, setup: Setup::default() }
    }

    setters!();

    /// Starts the call and returns at once, before the server has answered.
    pub fn open(mut self) -> (Sender<Req>, Streaming<Res>) {
        let codec = self.method.default_codec();
        let (tx, rx) = start(&self.invoke, self.method, &mut self.setup).split();
        let streaming = Streaming::new(rx, &codec.response, None).within(self.setup.parent);
        (Sender::new(tx, &codec.request), streaming)
    }
}

fn start<C: Invoke, Req, Res>(invoke: &C, method: &Method<Req, Res>, setup: &mut Setup) -> RawCall {
    match setup.start(|| invoke.now()) {
        Ok(options) => {
            let codec = method.default_codec().name();
            match invoke.layers() {
                None => invoke.start(&method.spec, options, codec),
                Some(layers) => layers.start(invoke, &method.spec, options, codec),
            }
        }
        Err(status) => RawCall::failed(status),
    }
}

/// The answer to a client stream. Dropped before it is known, it cancels the call.
#[must_use = "futures do nothing unless polled"]
pub struct Reply<Res: 'static> {
    rx: RawReceiver,
    response: &'static dyn trirpc_core::call::Codec<Res>,
    parent: Option<Cancelled>,
}

impl<Res> Reply<Res> {
    /// Awaits the response with the metadata around it.
    pub fn full(self) -> FullReply<Res> {
        FullReply(self)
    }

    fn poll_response(&mut self, cx: &mut Context<'_>) -> Poll<Result<Response<Res>, Status>> {
        let mut outcome = match self.rx.poll_outcome(cx) {
            Poll::Ready(outcome) => outcome?,
            Poll::Pending => return poll_parent(&mut self.parent, cx).map(Err),
        };
        let message = decode(self.response, &mut outcome.message)?;
        Poll::Ready(Ok(Response::new(message, outcome.headers, outcome.trailers)))
    }
}

impl<Res> Future for Reply<Res> {
    type Output = Result<Res, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_response(cx).map_ok(Response::into_message)
    }
}

/// The answer to a client stream, with the metadata around it.
#[must_use = "futures do nothing unless polled"]
pub struct FullReply<Res: 'static>(Reply<Res>);

impl<Res> Future for FullReply<Res> {
    type Output = Result<Response<Res>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_response(cx)
    }
}

macro_rules! debug_by_path {
    ($($name:ident),*) => {$(
        impl<C, Req, Res> fmt::Debug for $name<C, Req, Res> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.method.spec.path()).finish()
            }
        }
    )*};
}
debug_by_path!(UnaryCall, ServerStreamingCall, ClientStreamingCall, BidiCall);
