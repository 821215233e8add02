//! What HTTP/1.1 and HTTP/2 share: field names, field lists, heads of requests and responses.
//!
//! The types carry `bytes` only, so that they exist without std and cost one reference count to move.

mod head;
mod headers;
mod name;
mod response;
mod rest;

pub use head::{DeadlineField, Method, RequestHead, ResponseHead};
pub use headers::{Field, Headers, is_valid_value};
pub(crate) use name::hash;
pub use name::{HeaderName, InvalidHeaderName};
pub use response::Response;
pub(crate) use rest::{InlineField, Rest};
