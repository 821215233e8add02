//! What a request's head says: whether it is a call, in which dialect, and what is wrong with it already.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;

use super::ServerCall;
use crate::call::compress::{self, Announced};
use crate::call::decimal;
use crate::call::metadata::Metadata;
use crate::call::method::CallKind;
use crate::call::options::CallLimits;
use crate::call::protocol::{self, Protocol, ProtocolSpec};
use crate::call::status::Status;
use crate::call::variant::ServiceVariant;
use crate::error::StreamError;
use crate::http::{HeaderName, Headers, Method, RequestHead, ResponseHead};
use crate::time::Instant;

/// Most octets of a peer's value that a status repeats.
pub(super) const MAX_QUOTED: usize = 64;

/// What a request is.
#[derive(Debug)]
pub enum Accept {
    /// A call. It may have [failed](ServerCall::failure) already.
    Call(ServerCall),
    /// Not RPC, or not in a dialect of ours: the whole answer, without a body.
    Reject(ResponseHead),
}

/// What the head of a request says about its call, and nothing that changes while the call runs.
///
/// Equal heads give equal values, so that calls whose heads are the same share one: who keeps something for each
/// method or each client, such as the way to a handler, may find it by the identity of this.
#[derive(Debug)]
pub struct Accepted {
    pub(super) spec: &'static ProtocolSpec,
    pub(super) path: Bytes,
    pub(super) authority: Bytes,
    /// As the request has it; the response repeats it.
    pub(super) content_type: Bytes,
    pub(super) codec: Bytes,
    /// Encoding of the request's messages; each may still be uncompressed.
    pub(super) request_encoding: Option<&'static str>,
    pub(super) response_encoding: Option<&'static str>,
    pub(super) metadata: Metadata,
    pub(super) variant: ServiceVariant,
    pub(super) timeout: Option<Duration>,
    pub(super) content_length: Option<u64>,
    /// Why the request cannot be served, whatever its body is.
    pub(super) fault: Option<Status>,
    pub(super) limits: CallLimits,
    /// The head of a request that is no call.
    pub(super) http: Option<Arc<RequestHead>>,
}

impl Accepted {
    /// Looks at the head of a request.
    ///
    /// # Errors
    /// It is no call, or not in a dialect of ours: the whole answer, without a body.
    pub fn read(head: RequestHead, limits: &CallLimits) -> Result<Self, ResponseHead> {
        if head.method != Method::Post {
            return Err(refusal(405, HeaderName::ALLOW, Method::Post.as_str().into()));
        }
        let content_type = head.headers.get(&HeaderName::CONTENT_TYPE).cloned().unwrap_or_default();
        match protocol::detect(&content_type, &head.headers) {
            Some((spec, codec)) => Ok(Self::new(spec, head, content_type, codec, limits.clone())),
            // Routing is by path, so that neither the codecs of the method nor its kind are known.
            None => Err(unsupported(protocol::accept_post(&[protocol::PROTO], CallKind::Unary))),
        }
    }

    fn new(
        spec: &'static ProtocolSpec,
        head: RequestHead,
        content_type: Bytes,
        codec: Bytes,
        limits: CallLimits,
    ) -> Self {
        let known = limits.accept_compressions.names();
        let announced = compress::announced(head.headers.get(spec.encoding).map(|v| &**v), known);
        let accepted = head.headers.get_all(spec.accept_encoding).map(|value| &**value);
        let response_encoding = compress::negotiate(announced, accepted, limits.send_compressions.names());
        let mut accepted = Self {
            spec,
            path: path_of(&head),
            authority: head.authority,
            content_type,
            codec,
            request_encoding: None,
            response_encoding,
            metadata: Metadata::new(),
            variant: ServiceVariant::from_headers(&head.headers),
            timeout: None,
            content_length: None,
            fault: None,
            limits,
            http: None,
        };
        accepted.fault = accepted.read_fields(announced, &head.headers).err();
        accepted.metadata = Metadata::from_headers(head.headers);
        accepted
    }

    /// # Errors
    /// The request cannot be served, whatever its body is.
    fn read_fields(&mut self, announced: Announced, headers: &Headers) -> Result<(), Status> {
        let (version, expected) = self.spec.marker;
        if let Some(value) = headers.get(version).filter(|value| self.spec.is_versioned && *value != expected) {
            let quoted = value.get(..MAX_QUOTED).unwrap_or(value).escape_ascii();
            let text = format!("{version} is `{quoted}`: this server speaks `{expected}`");
            return Err(Status::invalid_argument(text));
        }
        let timeouts = self.spec.timeouts.iter();
        if let Some((field, value)) = timeouts.filter_map(|field| Some((field, headers.get(field.name)?))).next() {
            let timeout = field.format.parse(value);
            let timeout = timeout.map_err(|error| Status::invalid_argument(format!("{}: {error}", field.name)))?;
            self.timeout = Some(timeout);
            if timeout.is_zero() {
                return Err(StreamError::Deadline.into());
            }
        }
        match announced {
            Announced::Identity => {}
            Announced::Known(name) => self.request_encoding = Some(name),
            Announced::Unknown => {
                return Err(Status::unimplemented(match self.limits.accept_compressions.names() {
                    [] => "unknown request encoding: this server knows none but identity".into(),
                    known => format!("unknown request encoding: this server knows {}", known.join(", ")),
                }));
            }
        }
        self.content_length = headers.get(&HeaderName::CONTENT_LENGTH).and_then(|value| decimal::parse(value));
        Ok(())
    }

    /// Path without the query, as the peer sent it: `/package.Service/Method`.
    pub fn path(&self) -> &str {
        core::str::from_utf8(&self.path).unwrap_or_default()
    }

    /// Host and port that the request is for; may be empty.
    pub fn authority(&self) -> &str {
        core::str::from_utf8(&self.authority).unwrap_or_default()
    }

    /// Name of the codec that the request's content type names, in lower case.
    pub fn codec_name(&self) -> &str {
        core::str::from_utf8(&self.codec).unwrap_or_default()
    }

    /// Whether that is `name`.
    pub fn is_codec(&self, name: &str) -> bool {
        self.codec == name
    }

    /// Wire protocol of the request.
    pub fn protocol(&self) -> Protocol {
        self.spec.protocol
    }

    /// Which implementation of the service the call is for.
    pub fn variant(&self) -> &ServiceVariant {
        &self.variant
    }

    /// Metadata of the request.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// How long the client waits, from when the head arrived.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Encoding that is announced for the response's messages; each may still be sent uncompressed.
    pub fn response_encoding(&self) -> Option<&'static str> {
        self.response_encoding
    }
}

impl ServerCall {
    /// Looks at the head of a request, and begins its call if it is one.
    pub fn accept(head: RequestHead, limits: CallLimits, now: Instant) -> Accept {
        match Accepted::read(head, &limits) {
            Ok(accepted) => Accept::Call(Self::new(Arc::new(accepted), now)),
            Err(answer) => Accept::Reject(answer),
        }
    }
}

/// The path without its query.
pub(super) fn path_of(head: &RequestHead) -> Bytes {
    let end = head.path.iter().position(|&octet| octet == b'?').unwrap_or(head.path.len());
    head.path.slice(..end)
}

/// HTTP's answer to a content type by which nothing can be called here.
pub(super) fn unsupported(accept_post: String) -> ResponseHead {
    refusal(415, HeaderName::ACCEPT_POST, accept_post)
}

fn refusal(status: u16, name: HeaderName, value: String) -> ResponseHead {
    let mut headers = Headers::with_capacity(1);
    headers.push(name, value);
    ResponseHead { status, headers }
}
