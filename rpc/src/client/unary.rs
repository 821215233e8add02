//! Calls with a single request: owned here, so that a call that nobody processed can be replayed.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use trirpc_core::call::{Code, Codec, Metadata, Method, Origin, Status};

use super::invoke::Invoke;
use super::options::Setup;
use crate::cancel::{Cancelled, poll_parent};
use crate::raw::{Outcome, RawCall, RawReceiver, Typed};
use crate::streaming::Streaming;

/// A call with a single request, from before its start to its first answer.
///
/// If the peer is known not to have processed the call (refused stream, GOAWAY), or if the connection was
/// lost and the method is idempotent, it is started once more, with what remains of its time. Any other
/// failure is the caller's to judge.
pub(crate) struct SingleRequest<C, Req: 'static, Res: 'static> {
    invoke: C,
    method: &'static Method<Req, Res>,
    request: Req,
    setup: Setup,
    running: Option<RawReceiver>,
    replays_left: u8,
}

// Nothing is pinned: every part is moved or borrowed as a whole.
impl<C, Req, Res> Unpin for SingleRequest<C, Req, Res> {}

impl<C: Invoke, Req, Res> SingleRequest<C, Req, Res> {
    pub(crate) fn new(invoke: C, method: &'static Method<Req, Res>, request: Req, setup: Setup) -> Self {
        Self { invoke, method, request, setup, running: None, replays_left: 1 }
    }

    pub(crate) fn response_codec(&self) -> &'static &'static dyn Codec<Res> {
        &self.method.default_codec().response
    }

    pub(crate) fn into_parent(self) -> Option<Cancelled> {
        self.setup.parent
    }

    /// Starts the call, or starts it again. A `waiter` asks for its outcome at once.
    pub(crate) fn start_now(&mut self, waiter: Option<&Waker>) -> RawReceiver {
        let codec = self.method.default_codec();
        let call = match self.setup.start(|| self.invoke.now()) {
            Ok(options) => {
                let request = Typed::new(codec.request, &self.request);
                match self.invoke.layers() {
                    None => self.invoke.start_unary(&self.method.spec, options, codec.name(), &request, waiter),
                    Some(layers) => {
                        layers.start_unary(&self.invoke, &self.method.spec, options, codec.name(), &request)
                    }
                }
            }
            Err(status) => RawCall::failed(status),
        };
        call.into_receiver()
    }

    /// The peer did not process the call, and it was not this side that ended it; or nobody knows whether it did, and
    /// once more does no harm.
    fn may_replay(&self, status: &Status) -> bool {
        let is_lost = status.origin() == Origin::Transport && status.code() == Code::Unavailable;
        status.is_unprocessed() && !status.is_local() || is_lost && self.method.spec.is_idempotent()
    }

    /// Polls for the outcome of the call.
    pub(crate) fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        if self.running.is_none() {
            let rx = self.start_now(Some(cx.waker()));
            let is_awaited = rx.is_awaited();
            self.running = Some(rx);
            if is_awaited {
                return self.poll_parent(cx);
            }
        }
        self.poll_with(cx, RawReceiver::poll_outcome)
    }

    /// Polls the running call by `poll`. A call that has not failed goes on running.
    fn poll_with<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl Fn(&mut RawReceiver, &mut Context<'_>) -> Poll<Result<T, Status>>,
    ) -> Poll<Result<T, Status>> {
        loop {
            let Some(rx) = &mut self.running else {
                self.running = Some(self.start_now(None));
                continue;
            };
            match poll(rx, cx) {
                Poll::Ready(Ok(answer)) => return Poll::Ready(Ok(answer)),
                Poll::Ready(Err(status)) => {
                    self.running = None;
                    if self.replays_left == 0 || !self.may_replay(&status) {
                        return Poll::Ready(Err(status));
                    }
                    self.replays_left -= 1;
                    self.setup.options.replays += 1;
                }
                Poll::Pending => return self.poll_parent(cx),
            }
        }
    }

    /// Nothing is there yet: the call may still end with the one that it belongs to.
    fn poll_parent<T>(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, Status>> {
        let cancelled = poll_parent(&mut self.setup.parent, cx);
        if cancelled.is_ready() {
            self.running = None;
        }
        cancelled.map(Err)
    }
}

/// A server-streaming call that waits for the server's headers.
#[must_use = "futures do nothing unless polled"]
pub struct FirstHead<C, Req: 'static, Res: 'static>(SingleRequest<C, Req, Res>);

impl<C, Req, Res> FirstHead<C, Req, Res> {
    pub(crate) fn new(call: SingleRequest<C, Req, Res>) -> Self {
        Self(call)
    }
}

impl<C: Invoke, Req, Res> Future for FirstHead<C, Req, Res> {
    type Output = Result<Streaming<Res>, Status>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let headers: Metadata = ready!(self.0.poll_with(cx, RawReceiver::poll_head))?;
        // A call that has answered goes on running.
        let Some(rx) = self.0.running.take() else { return Poll::Pending };
        let streaming = Streaming::new(rx, self.0.response_codec(), Some(headers));
        Poll::Ready(Ok(streaming.within(self.0.setup.parent.take())))
    }
}

impl<C, Req, Res> fmt::Debug for FirstHead<C, Req, Res> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FirstHead").field(&self.0.method.spec.path()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bytes::BufMut;
    use trirpc_core::buf::{MessageBuf, Run};
    use trirpc_core::call::{CallKind, CallOptions, EncodeBuf, MethodCodec, MethodSpec};
    use trirpc_core::{CodecError, Instant};

    use super::*;
    use crate::raw::{CallKey, Carrier, Encode, Half, Outgoing, Received};

    struct Byte;

    impl Codec<u8> for Byte {
        fn name(&self) -> &'static str {
            "byte"
        }
        fn encoded_len(&self, _: &u8) -> Option<usize> {
            Some(1)
        }
        fn encode(&self, item: &u8, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
            dst.buf().put_u8(*item);
            Ok(())
        }
        fn decode(&self, _: &mut MessageBuf) -> Result<u8, CodecError> {
            Ok(7)
        }
    }

    static METHOD: Method<u8, u8> =
        Method::new("/t.Echo/Say", CallKind::Unary, false, &[MethodCodec { request: &Byte, response: &Byte }]);

    /// Keeps wakers or does not; counts how often it is asked for outcomes, which are there at once.
    #[derive(Clone, Default)]
    struct Double {
        keeps: bool,
        asked: Arc<AtomicUsize>,
    }

    impl Invoke for Double {
        fn start(&self, _: &MethodSpec, _: &CallOptions, _: &'static str) -> RawCall {
            RawCall::failed(Status::internal("not here"))
        }
        fn start_unary(
            &self,
            _: &MethodSpec,
            _: &CallOptions,
            _: &'static str,
            _: &dyn Encode,
            waiter: Option<&Waker>,
        ) -> RawCall {
            assert!(waiter.is_some(), "a unary call waits for its outcome");
            let call = RawCall::new(Arc::new(self.clone()), CallKey::ONLY);
            if self.keeps { call.awaited() } else { call }
        }
        fn now(&self) -> Instant {
            Instant::ZERO
        }
    }

    impl Carrier for Double {
        fn poll_send(&self, _: CallKey, _: &mut Outgoing<'_>, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
            Poll::Pending
        }
        fn flush(&self, _: CallKey) -> Result<(), Status> {
            Ok(())
        }
        fn finish(&self, _: CallKey) -> Result<(), Status> {
            Ok(())
        }
        fn poll_head(&self, _: CallKey, _: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
            Poll::Pending
        }
        fn poll_recv(&self, _: CallKey, _: &mut Context<'_>, _: Option<&mut Run>) -> Poll<Result<Received, Status>> {
            Poll::Pending
        }
        fn poll_outcome(&self, _: CallKey, _: Half, _: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let (headers, trailers) = (Metadata::new(), Metadata::new());
            Poll::Ready(Ok(Outcome { message: MessageBuf::default(), headers, trailers }))
        }
        fn release(&self, _: CallKey, _: Half, _: bool) {}
    }

    #[test]
    fn who_keeps_the_waker_of_a_new_call_is_not_asked_before_it_wakes() {
        let mut cx = Context::from_waker(Waker::noop());
        for (keeps, asked) in [(false, [1, 1]), (true, [0, 1])] {
            let double = Double { keeps, ..Double::default() };
            let mut call = SingleRequest::new(double.clone(), &METHOD, 1, Setup::default());
            let first = call.poll_outcome(&mut cx);
            assert_eq!((first.is_ready(), double.asked.load(Ordering::Relaxed)), (!keeps, asked[0]));
            if keeps {
                assert!(call.poll_outcome(&mut cx).is_ready());
            }
            assert_eq!(double.asked.load(Ordering::Relaxed), asked[1]);
        }
    }
}
