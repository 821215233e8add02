//! What may wait before, around and after a call that is served.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use super::call::IncomingCall;
use super::handling::Handling;
use super::service::{Service, ServiceDescriptor};
use crate::marker::{MaybeSend, MaybeSync};

/// Goes around the calls of a service, of every kind, and may wait: for the rights of the caller, for a place in a
/// queue.
///
/// ```
/// use trirpc_rpc::{IncomingCall, NextService, ServiceLayer, Status};
///
/// struct Guests;
///
/// impl ServiceLayer for Guests {
///     async fn call(&self, mut call: IncomingCall, next: NextService) {
///         if call.metadata().get("authorization").is_none() {
///             return call.reject(Status::unauthenticated("who are you?"));
///         }
///         next.call(call).await;
///     }
/// }
/// ```
pub trait ServiceLayer: MaybeSend + MaybeSync + 'static {
    /// Handles a call, most often by [`NextService::call`]. It is over when the future ends, and the future is
    /// dropped when the call is cancelled.
    fn call(&self, call: IncomingCall, next: NextService) -> impl Future<Output = ()> + MaybeSend;
}

/// The rest of the way to a handler.
pub struct NextService {
    service: Arc<dyn Service>,
    method: usize,
}

impl NextService {
    /// Lets the handler, or the next layer, have the call.
    pub fn call(self, call: IncomingCall) -> Handling {
        self.service.call(self.method, call)
    }
}

impl fmt::Debug for NextService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextService").field("service", &self.service.descriptor().name()).finish_non_exhaustive()
    }
}

/// A service inside a [`ServiceLayer`], which is a service again.
pub struct Layered<L> {
    service: Arc<dyn Service>,
    layer: L,
}

impl<L: ServiceLayer> Layered<L> {
    /// `service` inside `layer`.
    pub fn new(service: impl Service, layer: L) -> Self {
        Self { service: Arc::new(service), layer }
    }
}

impl<L: ServiceLayer> Service for Layered<L> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        self.service.descriptor()
    }

    fn call(self: Arc<Self>, method: usize, mut call: IncomingCall) -> Handling {
        let next = NextService { service: Arc::clone(&self.service), method };
        Handling::within(call.take_spare(), async move { self.layer.call(call, next).await })
    }
}

impl<L> fmt::Debug for Layered<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered").field("service", &self.service.descriptor().name()).finish_non_exhaustive()
    }
}
