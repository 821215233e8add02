//! Hooks into every call: what runs before it, between request and response, and when it is over.

mod info;
mod observed;

use std::fmt;
use std::sync::Arc;

use trirpc_core::call::Status;

pub use info::{CallInfo, CallSide, Timeline, Traffic};
pub(crate) use observed::{Hooks, Observed};

use crate::marker::{MaybeSend, MaybeSync};

/// Looks at every call of a [`Channel`](crate::Channel), a [`ClientSession`](crate::ClientSession) or a
/// [`Router`](crate::Router), and may change or refuse it.
///
/// The hooks of one call run one after the other, with no lock held, in the task that waits for the call or serves
/// it; they must not block. Whatever needs to wait is the matter of a [`CallLayer`](crate::CallLayer) or a
/// [`ServiceLayer`](crate::ServiceLayer). Of several interceptors the first is the outermost: its `on_request` runs
/// first, its `on_response` and `on_finish` last.
///
/// A call with interceptors costs one allocation; a call without costs a look.
pub trait Interceptor: MaybeSend + MaybeSync + 'static {
    /// Before the request leaves, or before its handler starts.
    ///
    /// # Errors
    /// Whatever is returned is the outcome of the call; nothing of it is sent, or handled.
    fn on_request(&self, call: &mut CallInfo) -> Result<(), Status> {
        let _ = call;
        Ok(())
    }

    /// With the response's head: before it leaves a server, or before a client's caller gets anything of the
    /// response. A response without messages may have no head.
    fn on_response(&self, call: &mut CallInfo) {
        let _ = call;
    }

    /// At the end of every call whose `on_request` succeeded, once. On a client that is when the caller learns the
    /// status or lets go of the call, on a server when the call was answered or nobody waits for the answer.
    fn on_finish(&self, call: &CallInfo, status: &Status) {
        let _ = (call, status);
    }
}

/// Interceptors, the outermost first. One pointer; none is the common case.
#[derive(Clone, Default)]
pub(crate) struct Chain(Option<Arc<Vec<Arc<dyn Interceptor>>>>);

impl Chain {
    pub(crate) const NONE: Self = Self(None);

    pub(crate) fn push(&mut self, interceptor: impl Interceptor) {
        Arc::make_mut(self.0.get_or_insert_default()).push(Arc::new(interceptor));
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    fn interceptors(&self) -> &[Arc<dyn Interceptor>] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.interceptors().len()).finish()
    }
}
