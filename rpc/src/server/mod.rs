//! Serving calls.

mod call;
mod context;
mod handling;
mod http;
mod inline;
mod layer;
mod router;
mod serve;
mod service;
mod task;

pub use call::IncomingCall;
pub use context::{Context, Extensions, HeadersMut};
pub use handling::Handling;
pub use http::{HttpRequest, HttpResponse};
pub use inline::InlineHandlers;
pub use layer::{Layered, NextService, ServiceLayer};
pub use router::Router;
pub use serve::serve_connection;
pub use service::{Service, ServiceDescriptor};
pub use task::ServerTask;

pub(crate) use call::Request;
pub(crate) use handling::Spare;
pub(crate) use router::Route;
