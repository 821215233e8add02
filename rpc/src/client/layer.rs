//! What may wait before, around and after a call that is made.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use trirpc_core::call::{CallKind, CallOptions, EncodeBuf, Metadata, MethodSpec, Status};
use trirpc_core::{CodecError, Instant};

use super::deferred::Deferred;
use super::invoke::Invoke;
use crate::marker::{BoxFuture, MaybeSend, MaybeSync};
use crate::raw::{CallKey, Encode, Outcome, RawCall, encode};

/// Goes around the typed calls of a [`Channel`](crate::Channel) or a [`ClientSession`](crate::ClientSession), and
/// may wait: for a token, for a second attempt, for a place in a queue.
///
/// [`prepare`](Self::prepare) alone is enough for what comes before a call. [`unary`](Self::unary) and
/// [`stream`](Self::stream) have the whole call in their hands, and may make it more than once, also at the same time.
/// The deadline of the call runs while a layer waits. Of several layers the first is the outermost.
pub trait CallLayer: MaybeSend + MaybeSync + 'static {
    /// Before a call of any kind.
    ///
    /// # Errors
    /// The outcome of the call, which is not made.
    fn prepare<'a>(&'a self, call: &'a mut OutgoingCall) -> BoxFuture<'a, Result<(), Status>> {
        let _ = call;
        Box::pin(async { Ok(()) })
    }

    /// Around a unary call, from before its request to its response.
    ///
    /// # Errors
    /// The outcome of the call.
    fn unary<'a>(&'a self, mut call: OutgoingCall, next: NextCall<'a>) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            self.prepare(&mut call).await?;
            next.unary(call).await
        })
    }

    /// Around the start of any other call. Whoever made it can send already, which waits for this.
    ///
    /// # Errors
    /// The outcome of the call.
    fn stream<'a>(&'a self, mut call: OutgoingCall, next: NextCall<'a>) -> BoxFuture<'a, Result<RawCall, Status>> {
        Box::pin(async move {
            self.prepare(&mut call).await?;
            next.stream(call).await
        })
    }
}

/// A call that is not made yet. A clone is another attempt; a request is encoded once and shared.
#[derive(Clone, Debug)]
pub struct OutgoingCall {
    method: MethodSpec,
    options: CallOptions,
    codec: &'static str,
    request: Option<Bytes>,
    deadline: Option<Instant>,
}

impl OutgoingCall {
    /// The method that is called.
    pub const fn method(&self) -> &MethodSpec {
        &self.method
    }

    /// The request's metadata.
    pub const fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.options.metadata
    }

    /// Everything that can be chosen for the call, its time apart: see [`set_deadline`](Self::set_deadline).
    pub const fn options_mut(&mut self) -> &mut CallOptions {
        &mut self.options
    }

    /// When the call ends at the latest.
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Gives what is made of this call another deadline; that of the caller stays.
    pub const fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// The request as its codec encoded it, of a call that has a single one.
    pub const fn request(&self) -> Option<&Bytes> {
        self.request.as_ref()
    }

    /// What remains of the call's time, in its options.
    fn start_clock(&mut self, now: Instant) {
        self.options.timeout = self.deadline.map(|deadline| deadline - now);
    }
}

/// The rest of the way to the connection. A copy is another way.
#[derive(Clone, Copy)]
pub struct NextCall<'a> {
    layers: &'a [Arc<dyn CallLayer>],
    start: &'a dyn Start,
}

impl<'a> NextCall<'a> {
    /// Makes a unary call.
    pub fn unary(self, mut call: OutgoingCall) -> BoxFuture<'a, Result<Outcome, Status>> {
        if let Some((layer, layers)) = self.layers.split_first() {
            return layer.unary(call, Self { layers, ..self });
        }
        Box::pin(async move {
            call.start_clock(self.now());
            let mut rx = self.start.start(&call).into_receiver();
            poll_fn(|cx| rx.poll_outcome(cx)).await
        })
    }

    /// Starts any other call.
    pub fn stream(self, mut call: OutgoingCall) -> BoxFuture<'a, Result<RawCall, Status>> {
        if let Some((layer, layers)) = self.layers.split_first() {
            return layer.stream(call, Self { layers, ..self });
        }
        Box::pin(async move {
            call.start_clock(self.now());
            Ok(self.start.start(&call))
        })
    }

    /// The clock of deadlines.
    pub fn now(self) -> Instant {
        self.start.now()
    }

    /// Ends at `until`, by that clock; `None` where there is no timer, as on a bare session.
    pub fn sleep(self, until: Instant) -> Option<BoxFuture<'static, ()>> {
        self.start.sleep(until)
    }
}

impl fmt::Debug for NextCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextCall").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

/// [`Invoke`] without its type.
trait Start: MaybeSend + MaybeSync {
    fn start(&self, call: &OutgoingCall) -> RawCall;
    fn now(&self) -> Instant;
    fn sleep(&self, until: Instant) -> Option<BoxFuture<'static, ()>>;
}

impl<C: Invoke> Start for C {
    fn start(&self, call: &OutgoingCall) -> RawCall {
        match &call.request {
            Some(request) => self.start_unary(&call.method, &call.options, call.codec, &Encoded(request), None),
            None => Invoke::start(self, &call.method, &call.options, call.codec),
        }
    }

    fn now(&self) -> Instant {
        Invoke::now(self)
    }

    fn sleep(&self, until: Instant) -> Option<BoxFuture<'static, ()>> {
        Invoke::sleep(self, until)
    }
}

/// A message whose codec has done its work.
struct Encoded<'a>(&'a Bytes);

impl Encode for Encoded<'_> {
    fn encoded_len(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn encode(&self, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(self.0);
        Ok(())
    }
}

/// Layers, the outermost first. Cheap to clone.
#[derive(Clone, Default)]
pub struct CallLayers(Arc<Vec<Arc<dyn CallLayer>>>);

impl CallLayers {
    pub(crate) fn push(&mut self, layer: impl CallLayer) {
        Arc::make_mut(&mut self.0).push(Arc::new(layer));
    }

    /// Starts a call whose messages follow.
    pub(super) fn start<C: Invoke>(
        &self,
        invoke: &C,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
    ) -> RawCall {
        self.begin(invoke, method, options, codec, None)
    }

    /// Starts a call with a single request.
    pub(super) fn start_unary<C: Invoke>(
        &self,
        invoke: &C,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
    ) -> RawCall {
        match encode(request, BytesMut::new(), usize::MAX) {
            Ok(request) => self.begin(invoke, method, options, codec, Some(request.bytes)),
            Err(status) => RawCall::failed(status),
        }
    }

    fn begin<C: Invoke>(
        &self,
        invoke: &C,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: Option<Bytes>,
    ) -> RawCall {
        let deadline = options.timeout.map(|timeout| Invoke::now(invoke) + timeout);
        let sleep = deadline.and_then(|deadline| Invoke::sleep(invoke, deadline));
        let call = OutgoingCall { method: method.clone(), options: options.clone(), codec, request, deadline };
        let (layers, invoke) = (Arc::clone(&self.0), invoke.clone());
        let deferred = if method.kind() == CallKind::Unary {
            Deferred::unary(
                Box::pin(async move { NextCall { layers: &layers, start: &invoke }.unary(call).await }),
                sleep,
            )
        } else {
            Deferred::stream(
                Box::pin(async move { NextCall { layers: &layers, start: &invoke }.stream(call).await }),
                sleep,
            )
        };
        RawCall::new(Arc::new(deferred), CallKey::ONLY)
    }
}

impl fmt::Debug for CallLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CallLayers").field(&self.0.len()).finish()
    }
}
