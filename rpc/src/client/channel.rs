//! A client's way to a target, whatever becomes of single connections.

use std::fmt;
use std::sync::Arc;

use bytes::BytesMut;
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallOptions, MethodSpec};
use trirpc_core::{Instant, OpenError};

use super::invoke::Invoke;
use super::pending::{PendingCall, Request};
use super::pool::{ChannelOptions, Connectivity, Connector, Pool};
use super::target::Target;
use crate::raw::{CallKey, Carrier, Encode, RawCall, encode};

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
}

impl Channel {
    /// A channel to `target`; nothing is connected yet.
    pub fn new(target: Target, connector: impl Connector, options: ChannelOptions) -> Self {
        Self { pool: Pool::new(Box::new(connector), target, options), waits_for_ready: false }
    }

    /// A handle whose calls wait through failed attempts, as long as their deadline lets them.
    #[must_use]
    pub fn wait_for_ready(&self, wait: bool) -> Self {
        Self { pool: Arc::clone(&self.pool), waits_for_ready: wait }
    }

    /// Whether calls can be carried now.
    pub fn connectivity(&self) -> Connectivity {
        self.pool.connectivity()
    }

    /// Waits for a connection, so that a wrong address shows before the first call.
    ///
    /// # Errors
    /// The attempt failed; a call would have failed by the same status.
    pub async fn ready(&self) -> Result<(), trirpc_core::call::Status> {
        self.pool.ready().await
    }

    /// Where it leads.
    pub fn target(&self) -> &Target {
        self.pool.target()
    }

    /// Starts a call on a session, or lets it wait for one.
    fn start_with(
        &self,
        on_session: impl Fn(&crate::ClientSession) -> Result<RawCall, (trirpc_core::call::Status, OpenError)>,
        request: impl FnOnce() -> Result<Request, trirpc_core::call::Status>,
    ) -> RawCall {
        while let Some(session) = self.pool.pick() {
            match on_session(&session) {
                Ok(call) => return call,
                // It was on its way out: nothing was sent, and the next session takes the call.
                Err((_, OpenError::GoingAway | OpenError::Closed)) => self.pool.remove(&session),
                Err((status, _)) => return RawCall::failed(status),
            }
        }
        let request = match request() {
            Ok(request) => request,
            Err(status) => return RawCall::failed(status),
        };
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
            |session| session.try_start(method, options, codec),
            || Ok(Request { method: method.clone(), options: options.clone(), codec, message: None }),
        )
    }

    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
    ) -> RawCall {
        self.start_with(
            |session| session.try_start_unary(method, options, codec, request),
            || {
                let message: Option<Encoded> = Some(encode(request, BytesMut::new(), usize::MAX)?);
                Ok(Request { method: method.clone(), options: options.clone(), codec, message })
            },
        )
    }

    fn now(&self) -> Instant {
        self.pool.now()
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
