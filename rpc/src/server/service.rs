//! What a router serves.

use std::sync::Arc;

use trirpc_core::call::MethodSpec;

use super::call::IncomingCall;
use super::handling::Handling;
use crate::marker::{MaybeSend, MaybeSync};

/// Name and methods of a service: a static of generated code.
#[derive(Debug)]
pub struct ServiceDescriptor {
    name: &'static str,
    methods: &'static [&'static MethodSpec],
}

impl ServiceDescriptor {
    /// A service called `name` (`package.Service`), whose methods are numbered by their place.
    pub const fn new(name: &'static str, methods: &'static [&'static MethodSpec]) -> Self {
        Self { name, methods }
    }

    /// Full name, `package.Service`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its methods; the place of each is its number in [`Service::call`].
    pub const fn methods(&self) -> &'static [&'static MethodSpec] {
        self.methods
    }
}

/// A service that a [`Router`](crate::Router) can serve: generated code, or written by hand.
pub trait Service: MaybeSend + MaybeSync + 'static {
    /// Name and methods.
    fn descriptor(&self) -> &'static ServiceDescriptor;

    /// Handles one call of the method with this number. What this returns is polled by the connection, once, and goes
    /// on in a task of its own if it is not done by then (see [`Router::inline_handlers`](crate::Router::inline_handlers));
    /// it is dropped when the call is cancelled. A panic, here or in there, is answered with `Internal`.
    fn call(self: Arc<Self>, method: usize, call: IncomingCall) -> Handling;
}
