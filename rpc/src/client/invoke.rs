//! The seam below typed calls.

use std::task::Waker;

use trirpc_core::Instant;
use trirpc_core::call::{CallOptions, MethodSpec};

use super::layer::CallLayers;
use crate::marker::{BoxFuture, MaybeSend, MaybeSync};
use crate::raw::{Encode, RawCall};

/// Starts calls: a [`Channel`](crate::Channel), a [`ClientSession`](crate::ClientSession), middleware, a
/// test double.
///
/// Both methods return at once. What goes wrong, also at the start, is the outcome of the call.
pub trait Invoke: Clone + MaybeSend + MaybeSync + 'static {
    /// Starts a call whose messages follow.
    fn start(&self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> RawCall;

    /// Starts a call with a single request, which is encoded before this returns; its send side is
    /// finished.
    ///
    /// A `waiter` is going to ask for the outcome at once. Whoever keeps its waker, as the first
    /// [`poll_outcome`](crate::RawReceiver::poll_outcome) would, says so by [`RawCall::awaited`], and is spared that poll.
    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
        waiter: Option<&Waker>,
    ) -> RawCall;

    /// The clock by which deadlines of these calls are measured.
    fn now(&self) -> Instant;

    /// Ends at `until`, by that clock; `None` where there is no timer to ask.
    fn sleep(&self, until: Instant) -> Option<BoxFuture<'static, ()>> {
        let _ = until;
        None
    }

    /// What typed calls go through before they are started here. `start` and `start_unary` know nothing of it.
    fn layers(&self) -> Option<&CallLayers> {
        None
    }
}
