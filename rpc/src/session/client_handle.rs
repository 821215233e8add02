//! What a client holds of a session: starting calls, and ending it.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallOptions, Compression, MethodSpec, Protocol, Status};
use trirpc_core::{Client, ErrorCode, Instant, OpenError};

use super::Shared;
use super::send::is_inline;
use super::slots::Attached;
use crate::client::{CallLayer, CallLayers, Invoke, Stack};
use crate::intercept::Interceptor;
use crate::raw::{CallKey, Carrier, Encode, Erased, RawCall};

/// What gRPC servers say in GOAWAY to clients whose PINGs they have counted.
const TOO_MANY_PINGS: &[u8] = b"too_many_pings";

/// Calls on one connection. Clones share it; the last to go shuts it down gracefully: calls in flight
/// end as they would have.
#[derive(Clone, Debug)]
pub struct ClientSession {
    handle: Arc<Handle>,
    /// Shared by clones; those of a channel have nothing.
    stack: Option<Arc<Stack>>,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared<Client>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.conn.shutdown(now));
    }
}

impl ClientSession {
    pub(crate) fn new(shared: Arc<Shared<Client>>) -> Self {
        Self { handle: Arc::new(Handle { shared }), stack: None }
    }

    /// A handle whose typed calls go through this layer, inside those that were added before. Interceptors see the
    /// calls that the layer makes.
    #[must_use]
    pub fn layer(mut self, layer: impl CallLayer) -> Self {
        self.stack_mut().layers.get_or_insert_default().push(layer);
        self
    }

    /// A handle whose calls this looks at, inside those that were added before.
    #[must_use]
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.stack_mut().interceptors.push(interceptor);
        self
    }

    /// A handle that also offers the server to compress its responses so; the first is preferred.
    #[must_use]
    pub fn accept_compression(mut self, compression: impl Compression + 'static) -> Self {
        self.stack_mut().compressions.accept(Arc::new(compression));
        self
    }

    /// A handle whose messages are compressed so; of several, by the first. As
    /// [`Channel::send_compression`](crate::Channel::send_compression).
    #[must_use]
    pub fn send_compression(mut self, compression: impl Compression + 'static) -> Self {
        let compression: Arc<dyn Compression> = Arc::new(compression);
        // A server may answer a compressed request by the same compression without looking at what is offered.
        let stack = self.stack_mut();
        stack.compressions.accept(Arc::clone(&compression));
        stack.compressions.send(compression);
        self
    }

    /// A handle whose calls are written by `protocol`, unless they choose one themselves. The default is gRPC.
    #[must_use]
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.stack_mut().protocol = Some(protocol);
        self
    }

    /// Whether calls may be started: no GOAWAY came or went, and the connection stands.
    pub fn is_open(&self) -> bool {
        self.shared().look(|state| !state.going_away)
    }

    /// How often this connection probed a server that has sent it away for that, as gRPC servers do.
    pub(crate) fn pinged_too_often(&self) -> Option<Duration> {
        self.shared().look(|state| {
            let go_away = state.conn.peer_go_away()?;
            let is_told = go_away.code == ErrorCode::ENHANCE_YOUR_CALM && &go_away.debug[..] == TOO_MANY_PINGS;
            state.conn.keepalive_interval().filter(|_| is_told)
        })
    }

    /// Probes the server no more often than every `interval`.
    pub(crate) fn slow_keepalive(&self, interval: Duration) {
        self.shared().look(|state| state.conn.slow_keepalive(interval));
    }

    /// Whether both are handles of one connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Calls that were started and whose handles still exist.
    pub fn open_calls(&self) -> usize {
        self.shared().look(|state| state.slots.len())
    }

    /// Refuses new calls, lets those that run end, then closes; at most `drain_timeout` long.
    pub fn shutdown(&self) {
        self.shared().with(|state, now| state.conn.shutdown(now));
    }

    /// Ends the connection at once, and every call with it.
    pub fn abort(&self, code: ErrorCode) {
        self.shared().with(|state, now| state.conn.abort(code, now));
    }

    /// Tasks that are to be woken by this session: none, when nobody waits.
    pub fn waiting(&self) -> usize {
        self.shared().look(|state| state.slots.wakers())
    }

    /// Starts a call whose messages follow.
    pub(crate) fn try_start(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let key =
            self.shared().open(options, attached, None, |state, now| state.conn.open(method, options, codec, now))?;
        Ok(self.raw(key))
    }

    /// Starts a call with its only request.
    pub(crate) fn try_start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let shared = self.shared();
        if !is_inline(request) || attached.codings.compresses(request.encoded_len(), shared.compress_min) {
            let encoded = shared.encode(request).map_err(|status| (status, OpenError::Unsupported))?;
            return self.try_start_encoded(method, options, codec, encoded, attached);
        }
        let is_awaited = attached.waiter.is_some();
        let key = shared.open(options, attached, request.encoded_len(), |state, now| {
            state.conn.open_unary(method, options, &Erased(codec), &request, now)
        })?;
        let call = self.raw(key);
        Ok(if is_awaited { call.awaited() } else { call })
    }

    /// Starts a call with its only request, encoded before; it is compressed here if the call is.
    pub(crate) fn try_start_encoded(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: Encoded,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let shared = self.shared();
        let request = shared.compress(request, &attached.codings.compressor());
        let request = request.map_err(|status| (status, OpenError::Unsupported))?;
        let (kept, is_awaited) = (request.clone(), attached.waiter.is_some());
        let opened = shared.open(options, attached, Some(kept.bytes.len()), |state, now| {
            state.conn.open_unary_encoded(method, options, codec, request, now)
        });
        shared.recycle(Some(kept));
        let call = self.raw(opened?);
        Ok(if is_awaited { call.awaited() } else { call })
    }

    /// Starts a call by `start` with what this handle adds to it.
    fn begin(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        waiter: Option<&Waker>,
        start: impl FnOnce(&CallOptions, &mut Attached) -> Result<RawCall, (Status, OpenError)>,
    ) -> RawCall {
        let mut prepared = match self.stack().prepare(method, options, || self.shared().now()) {
            Ok(prepared) => prepared,
            Err(status) => return RawCall::failed(status),
        };
        prepared.attached.waiter = waiter.cloned();
        let (options, attached) = prepared.parts();
        start(options, attached).unwrap_or_else(|(status, _)| {
            attached.abandon(Some(self.shared().now()), &status);
            RawCall::failed(status)
        })
    }

    fn stack(&self) -> &Stack {
        const NONE: &Stack = &Stack::NONE;
        self.stack.as_deref().unwrap_or(NONE)
    }

    fn stack_mut(&mut self) -> &mut Stack {
        Arc::make_mut(self.stack.get_or_insert_default())
    }

    fn raw(&self, key: CallKey) -> RawCall {
        RawCall::new(Arc::clone(self.shared()) as Arc<dyn Carrier>, key)
    }

    pub(super) fn shared(&self) -> &Arc<Shared<Client>> {
        &self.handle.shared
    }
}

impl Invoke for ClientSession {
    fn start(&self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> RawCall {
        self.begin(method, options, None, |options, attached| self.try_start(method, options, codec, attached))
    }

    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
        waiter: Option<&Waker>,
    ) -> RawCall {
        self.begin(method, options, waiter, |options, attached| {
            self.try_start_unary(method, options, codec, request, attached)
        })
    }

    fn now(&self) -> Instant {
        self.shared().now()
    }

    fn layers(&self) -> Option<&CallLayers> {
        self.stack.as_ref()?.layers.as_ref()
    }
}
