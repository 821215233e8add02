//! Which service handles a path.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use trirpc_core::call::{CallKind, Compression, MethodSpec, Status};

use super::service::Service;
use crate::compress::Compressions;

/// Services by path. The lookup is exact: one hash of the whole path.
#[derive(Clone, Default)]
pub struct Router {
    services: Vec<Arc<dyn Service>>,
    methods: HashMap<&'static str, Place>,
    names: Vec<&'static str>,
    compressions: Compressions,
}

/// Where a path leads: a method of a service.
#[derive(Clone, Copy)]
struct Place {
    service: usize,
    method: usize,
    spec: &'static MethodSpec,
}

impl Router {
    /// A router without services: every call is `Unimplemented`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a service; it may be shared by giving an `Arc`-backed clone to several routers.
    ///
    /// # Panics
    /// When a path is served already: two services of one name are a mistake at start-up.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "nobody adds a service to a number")]
    pub fn add<S: Service>(self, service: S) -> Self {
        self.add_shared(Arc::new(service))
    }

    /// Adds a service that is used elsewhere too.
    ///
    /// # Panics
    /// As [`add`](Self::add).
    #[must_use]
    pub fn add_shared<S: Service>(mut self, service: Arc<S>) -> Self {
        let descriptor = service.descriptor();
        for (method, spec) in descriptor.methods().iter().copied().enumerate() {
            let place = Place { service: self.services.len(), method, spec };
            let before = self.methods.insert(spec.path(), place);
            assert!(before.is_none(), "the router serves {} already", spec.path());
        }
        self.names.push(descriptor.name());
        self.services.push(service);
        self
    }

    /// Takes requests that are compressed so, and tells clients; the first is preferred. What answers a compressed
    /// request is compressed too.
    #[must_use]
    pub fn accept_compression(mut self, compression: impl Compression + 'static) -> Self {
        self.compressions.accept(Arc::new(compression));
        self
    }

    /// Compresses the responses of all clients that accept it. Of several, the client's order decides.
    ///
    /// Messages below [`compress_min`](trirpc_core::Config::compress_min) bytes stay as they are, as do those that
    /// would not become smaller. Requests that are compressed need
    /// [`accept_compression`](Self::accept_compression) as well.
    #[must_use]
    pub fn send_compression(mut self, compression: impl Compression + 'static) -> Self {
        self.compressions.send(Arc::new(compression));
        self
    }

    pub(crate) const fn compressions(&self) -> &Compressions {
        &self.compressions
    }

    /// Full names of the services, in the order in which they were added.
    pub fn services(&self) -> &[&'static str] {
        &self.names
    }

    /// The method at `path`, or what to answer.
    pub(crate) fn find(&self, path: &str) -> Result<Route, Status> {
        match self.methods.get(path) {
            Some(place) => {
                let service = Arc::clone(&self.services[place.service]);
                Ok(Route { service, method: place.method, spec: place.spec })
            }
            None => Err(self.unknown(path)),
        }
    }

    fn unknown(&self, path: &str) -> Status {
        let service = path.strip_prefix('/').and_then(|path| path.rsplit_once('/'));
        match service {
            Some((service, method)) if self.names.contains(&service) => {
                Status::unimplemented(format!("service {service} has no method {method}"))
            }
            Some((service, _)) => Status::unimplemented(format!("no service {service} here")),
            None => Status::unimplemented(format!("{path} is no method path: it has the form /package.Service/Method")),
        }
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router").field("services", &self.names).finish_non_exhaustive()
    }
}

/// A method of a service, found.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) method: usize,
    pub(crate) spec: &'static MethodSpec,
}

impl Route {
    pub(crate) fn kind(&self) -> CallKind {
        self.spec.kind()
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Route").field(&self.spec.path()).finish()
    }
}
