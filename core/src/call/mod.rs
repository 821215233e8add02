//! Calls: one machine for each side, four wire protocols as rows of a table.
//!
//! Pure: heads, octets and trailers go in and come out, and neither side knows how HTTP carries them. A
//! [`Connection`](crate::Connection) drives these machines; they also stand alone where the platform has an HTTP
//! client of its own.

mod assembly;
mod bare;
mod base64;
mod body;
mod client;
mod codec;
mod compress;
mod decimal;
mod details;
mod envelope;
mod error_json;
mod json;
mod metadata;
mod method;
mod options;
mod percent;
mod plain;
mod prefixed;
mod protocol;
mod send;
mod server;
mod status;
mod timeout;
mod trailers;
mod unframed;
mod variant;

use crate::buf::MessageBuf;

pub use crate::buf::EncodeBuf;
pub use crate::encodings::Encodings;
pub use base64::InvalidBase64;
pub(crate) use body::Decoder as BodyDecoder;
pub use client::{ClientCall, Outcome};
pub(crate) use client::{Plan, Reply, request_rest};
pub use codec::Codec;
pub use compress::{Compression, DecompressError};
pub use metadata::{Metadata, MetadataError, Value};
pub use method::{CallKind, InvalidPath, Method, MethodCodec, MethodSpec};
pub use options::{CallLimits, CallOptions};
pub use protocol::{Protocol, TripleHeaders};
pub(crate) use send::SendSide;
pub use server::{Accept, Accepted, End, ServerCall};
pub(crate) use server::{ResponseKind, success_trailers};
pub use status::{Code, Origin, Status};
pub use timeout::{InvalidTimeout, format_grpc_timeout, parse_grpc_timeout};
pub(crate) use trailers::decode as status_of;
pub use variant::ServiceVariant;

/// Outcome of pulling a message out of a call.
#[derive(Clone, Debug)]
pub enum Recv {
    /// One whole message.
    Message(MessageBuf),
    /// Nothing yet.
    Blocked,
    /// There will be no further message.
    End,
}
