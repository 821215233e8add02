//! A client's way to a target, whatever becomes of single connections.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use bytes::BytesMut;
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallOptions, Compression, MethodSpec, Protocol, Status};
use trirpc_core::{Instant, OpenError};

use super::invoke::Invoke;
use super::layer::{CallLayer, CallLayers};
use super::pending::{PendingCall, Request};
use super::pool::{ChannelOptions, Connectivity, Connector, Pool};
use super::stack::Stack;
use super::target::Target;
use crate::intercept::Interceptor;
use crate::marker::BoxFuture;
use crate::raw::{CallKey, Carrier, Encode, RawCall, encode};
use crate::session::{Attached, ClientSession};

/// Calls to one target. Cheap to clone; clones share the connections.
///
/// Connects when a call needs it, and again after a connection is lost, with growing waits while that
/// fails. A call that finds no connection waits for one, which its deadline covers; when the attempt
/// fails, the call fails with its reason, unless it [waits for ready](Self::wait_for_ready). An attempt
/// runs in a task of its own: a caller that gives up takes nothing from the others.
#[derive(Clone)]
pub struct Channel {
    pool: Arc<Pool>,
    waits_for_ready: bool,
    /// Shared by clones, of which each call has one.
    stack: Arc<Stack>,
}

impl Channel {
    /// A channel to `target`; nothing is connected yet.
    pub fn new(target: Target, connector: impl Connector, options: ChannelOptions) -> Self {
        let stack = Stack { target: Some(Arc::from(target.as_str())), ..Stack::default() };
        Self { pool: Pool::new(Box::new(connector), target, options), waits_for_ready: false, stack: Arc::new(stack) }
    }

    /// A handle whose calls wait through failed attempts, as long as their deadline lets them.
    #[must_use]
    pub fn wait_for_ready(&self, wait: bool) -> Self {
        Self { waits_for_ready: wait, ..self.clone() }
    }

    /// A handle that also offers servers to compress their responses so; the first is preferred.
    #[must_use]
    pub fn accept_compression(mut self, compression: impl Compression + 'static) -> Self {
        self.stack_mut().compressions.accept(Arc::new(compression));
        self
    }

    /// A handle whose messages are compressed so; of several, by the first. A call may choose another, or `identity`.
    /// It accepts responses that are compressed so, too.
    ///
    /// There is no telling before whether the server understands it: one that does not ends the call with
    /// `Unimplemented`. Messages below [`compress_min`](trirpc_core::Config::compress_min) bytes stay as they are,
    /// as do those that would not become smaller.
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

    /// A handle whose unary requests are encoded straight into the output, or not, unless a call chooses itself. The
    /// default is the connection's [`unary_fast_path`](trirpc_core::Config::unary_fast_path). No peer sees a difference.
    #[must_use]
    pub fn unary_fast_path(mut self, enabled: bool) -> Self {
        self.stack_mut().unary_fast_path = Some(enabled);
        self
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

    /// Whether calls can be carried now.
    pub fn connectivity(&self) -> Connectivity {
        self.pool.connectivity()
    }

    /// Waits for a connection, so that a wrong address shows before the first call.
    ///
    /// # Errors
    /// The attempt failed; a call would have failed by the same status.
    pub async fn ready(&self) -> Result<(), Status> {
        self.pool.ready().await
    }

    /// Where it leads.
    pub fn target(&self) -> &Target {
        self.pool.target()
    }

    fn stack_mut(&mut self) -> &mut Stack {
        Arc::make_mut(&mut self.stack)
    }

    /// Starts a call on a session, or lets it wait for one.
    fn start_with(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        waiter: Option<&Waker>,
        on_session: impl Fn(&ClientSession, &CallOptions, &mut Attached) -> Result<RawCall, (Status, OpenError)>,
        message: impl FnOnce() -> Result<Option<Encoded>, Status>,
        codec: &'static str,
    ) -> RawCall {
        let mut prepared = match self.stack.prepare(method, options, || self.now()) {
            Ok(prepared) => prepared,
            Err(status) => return RawCall::failed(status),
        };
        prepared.attached.waiter = waiter.cloned();
        while let Some(session) = self.pool.pick() {
            let (options, attached) = prepared.parts();
            match on_session(&session, options, attached) {
                Ok(call) => return call,
                // It was on its way out: nothing was sent, and the next session takes the call.
                Err((_, OpenError::GoingAway | OpenError::Closed)) => self.pool.remove(&session),
                Err((status, _)) => {
                    attached.abandon(Some(self.now()), &status);
                    return RawCall::failed(status);
                }
            }
        }
        let (options, mut attached) = prepared.into_owned();
        // Its waker waits for the connection first.
        attached.waiter = None;
        let message = match message() {
            Ok(message) => message,
            Err(status) => {
                attached.abandon(Some(self.now()), &status);
                return RawCall::failed(status);
            }
        };
        let request = Request { method: method.clone(), options, codec, message, attached };
        let deadline = request.options.timeout.map(|timeout| self.now() + timeout);
        let sleep = deadline.map(|deadline| self.pool.sleep(deadline));
        let call = PendingCall::new(request, deadline, sleep, self.waits_for_ready);
        self.pool.wait(&call);
        RawCall::new(call as Arc<dyn Carrier>, CallKey::ONLY)
    }
}

impl Invoke for Channel {
    fn start(&self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> RawCall {
        self.start_with(
            method,
            options,
            None,
            |session, options, attached| session.try_start(method, options, codec, attached),
            || Ok(None),
            codec,
        )
    }

    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
        waiter: Option<&Waker>,
    ) -> RawCall {
        self.start_with(
            method,
            options,
            waiter,
            |session, options, attached| session.try_start_unary(method, options, codec, request, attached),
            || encode(request, BytesMut::new(), usize::MAX).map(Some),
            codec,
        )
    }

    fn now(&self) -> Instant {
        self.pool.now()
    }

    fn sleep(&self, until: Instant) -> Option<BoxFuture<'static, ()>> {
        Some(self.pool.sleep(until))
    }

    fn layers(&self) -> Option<&CallLayers> {
        self.stack.layers.as_ref()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("target", &self.target().as_str())
            .field("connectivity", &self.connectivity())
            .finish()
    }
}
