//! Which service handles a path.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use trirpc_core::call::{Accepted, CallKind, Compression, MethodSpec, ServiceVariant, Status};

use super::call::IncomingCall;
use super::handling::Handling;
use super::http::{self, Fallback, HttpRequest, HttpResponse};
use super::inline::InlineHandlers;
use super::service::Service;
use crate::compress::Compressions;
use crate::intercept::{Chain, Interceptor};
use crate::marker::{MaybeSend, MaybeSync};

/// Services by path. The lookup is exact: one hash of the whole path.
///
/// Several implementations of one service can be told apart by Dubbo's group and version
/// ([`add_variant`](Self::add_variant)). A call goes to the implementation with its group and version, or else to the
/// one that differs only in having no version where the call has `1.0.0` or `0.0.0`, or the reverse. Anything else is
/// `Unimplemented`, unless the router is [lenient](Self::lenient_variants).
#[derive(Clone, Default)]
pub struct Router {
    services: Vec<Served>,
    methods: HashMap<&'static str, Vec<Route>>,
    names: Vec<&'static str>,
    /// Who answers what is of no service.
    fallback: Option<Route>,
    is_lenient: bool,
    inlines: InlineHandlers,
    compressions: Compressions,
    interceptors: Chain,
}

#[derive(Clone)]
struct Served {
    service: Arc<dyn Service>,
    variant: ServiceVariant,
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
    pub fn add_shared<S: Service>(self, service: Arc<S>) -> Self {
        self.add_variant(ServiceVariant::DEFAULT, service)
    }

    /// Adds one of several implementations of a service.
    ///
    /// # Panics
    /// When a path is served already by an implementation with this group and version.
    #[must_use]
    pub fn add_variant<S: Service>(mut self, variant: ServiceVariant, service: Arc<S>) -> Self {
        let descriptor = service.descriptor();
        for (method, spec) in descriptor.methods().iter().copied().enumerate() {
            let place = Route { service: self.services.len() as u32, method: method as u32, spec };
            let places = self.methods.entry(spec.path()).or_default();
            let taken = places.iter().any(|place| self.services[place.service as usize].variant == variant);
            assert!(!taken, "the router serves {} already", spec.path());
            places.push(place);
        }
        if !self.names.contains(&descriptor.name()) {
            self.names.push(descriptor.name());
        }
        self.services.push(Served { service, variant });
        self
    }

    /// Lets `handler` answer what is of no service: requests in plain HTTP of any method but CONNECT, and calls too, whose
    /// clients see an HTTP status in place of `Unimplemented`. A health check for a load balancer, metrics and a page for
    /// people find their place beside the services.
    ///
    /// A path is of a service if all before its last segment is the path of one, whether or not there is such a method.
    /// Interceptors and layers see calls only. A later fallback takes the place of an earlier one.
    ///
    /// ```
    /// use trirpc_rpc::{HttpMethod, HttpRequest, HttpResponse, Router};
    ///
    /// let router = Router::new().fallback(|mut request: HttpRequest| async move {
    ///     match (request.method(), request.path()) {
    ///         (HttpMethod::Get | HttpMethod::Head, "/healthz") => Ok(HttpResponse::new(200).body("ok\n")),
    ///         (HttpMethod::Put, "/mirror") => {
    ///             let body = request.body().await?;
    ///             Ok(HttpResponse::new(200).header("content-type", "application/octet-stream").body(body))
    ///         }
    ///         _ => Ok(HttpResponse::new(404)),
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn fallback<F, Fut>(mut self, handler: F) -> Self
    where
        F: Fn(HttpRequest) -> Fut + MaybeSend + MaybeSync + 'static,
        Fut: Future<Output: Into<HttpResponse>> + MaybeSend + 'static,
    {
        self.fallback = Some(Route { service: self.services.len() as u32, method: 0, spec: &http::REQUEST });
        self.services.push(Served { service: Arc::new(Fallback(handler)), variant: ServiceVariant::DEFAULT });
        self
    }

    /// Which paths are the fallback's, if there is one.
    pub(crate) fn is_plain(&self) -> Option<impl Fn(&str) -> bool + Send + Sync + 'static> {
        self.fallback?;
        let mut services: Vec<&'static str> = self.methods.keys().filter_map(|path| service_of(path)).collect();
        services.sort_unstable();
        services.dedup();
        Some(move |path: &str| service_of(path).is_none_or(|service| services.binary_search(&service).is_err()))
    }

    /// Whether a service with one implementation serves every group and version. Some Dubbo clients send ones that
    /// nobody configured. Off at first, as in dubbo-go.
    #[must_use]
    pub fn lenient_variants(mut self, is_lenient: bool) -> Self {
        self.is_lenient = is_lenient;
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

    /// Looks at every call of a method that is here, inside those that were added before. Calls that are refused
    /// by their head, or by their path, are not seen.
    #[must_use]
    pub fn interceptor(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(interceptor);
        self
    }

    /// Which handlers the connection polls itself, once, where it has read their request. The default is
    /// [`InlineHandlers::Within`] [`QUICK`](InlineHandlers::QUICK).
    #[must_use]
    pub const fn inline_handlers(mut self, inlines: InlineHandlers) -> Self {
        self.inlines = inlines;
        self
    }

    pub(crate) const fn inlines(&self) -> InlineHandlers {
        self.inlines
    }

    pub(crate) const fn interceptors(&self) -> &Chain {
        &self.interceptors
    }

    pub(crate) const fn compressions(&self) -> &Compressions {
        &self.compressions
    }

    /// Full names of the services, in the order in which they were added.
    pub fn services(&self) -> &[&'static str] {
        &self.names
    }

    /// Where a request goes, or what to answer.
    pub(crate) fn find(&self, request: &Accepted) -> Result<Route, Status> {
        let (path, variant) = (request.path(), request.variant());
        if let (Some(_), Some(route)) = (request.http(), self.fallback) {
            return Ok(route);
        }
        let Some(places) = self.methods.get(path) else { return Err(self.unknown(path)) };
        let served = |matches: &dyn Fn(&ServiceVariant) -> bool| {
            places.iter().find(|place| matches(&self.services[place.service as usize].variant))
        };
        let only = || places.first().filter(|_| self.is_lenient && places.len() == 1);
        let place = served(&|served| served == variant).or_else(|| served(&|served| served.is_equivalent(variant)));
        match place.or_else(only) {
            Some(route) => Ok(*route),
            None => {
                let (group, version) = (variant.group(), variant.version());
                Err(Status::unimplemented(format!(
                    "no implementation of {path} for group `{group}`, version `{version}`"
                )))
            }
        }
    }

    /// Lets the method to which `route` leads handle a call.
    #[inline]
    pub(crate) fn call(&self, route: Route, call: IncomingCall) -> Handling {
        Arc::clone(&self.services[route.service as usize].service).call(route.method as usize, call)
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

/// All of a path before its last segment.
fn service_of(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(service, _)| service)
}

/// Where a path leads: a method of a service of one [`Router`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    service: u32,
    method: u32,
    pub(crate) spec: &'static MethodSpec,
}

impl Route {
    pub(crate) fn kind(self) -> CallKind {
        self.spec.kind()
    }
}
