//! The seam below typed calls.

use trirpc_core::Instant;
use trirpc_core::call::{CallOptions, MethodSpec};

use crate::marker::{MaybeSend, MaybeSync};
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
    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
    ) -> RawCall;

    /// The clock by which deadlines of these calls are measured.
    fn now(&self) -> Instant;
}
