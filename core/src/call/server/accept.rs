//! What a request's head says: whether it is a call, in which dialect, and what is wrong with it already.

use alloc::format;
use alloc::string::String;

use bytes::Bytes;

use super::{Kept, ServerCall, State};
use crate::call::body::Decoder;
use crate::call::compress::{self, Announced};
use crate::call::decimal;
use crate::call::metadata::Metadata;
use crate::call::method::CallKind;
use crate::call::options::CallLimits;
use crate::call::protocol::{self, ProtocolSpec};
use crate::call::send::SendSide;
use crate::call::status::Status;
use crate::call::variant::ServiceVariant;
use crate::error::StreamError;
use crate::http::{HeaderName, Headers, Method, RequestHead, ResponseHead};
use crate::time::Instant;

/// What a request is.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved once, into the slot of the call")]
pub enum Accept {
    /// A call. It may have [failed](ServerCall::failure) already.
    Call(ServerCall),
    /// Not RPC, or not in a dialect of ours: the whole answer, without a body.
    Reject(ResponseHead),
}

impl ServerCall {
    /// Looks at the head of a request.
    pub fn accept(head: RequestHead, limits: CallLimits, now: Instant) -> Accept {
        if head.method != Method::Post {
            return Accept::Reject(refusal(405, HeaderName::ALLOW, Method::Post.as_str().into()));
        }
        let content_type = head.headers.get(&HeaderName::CONTENT_TYPE).cloned().unwrap_or_default();
        match protocol::detect(&content_type, &head.headers) {
            Some((spec, codec)) => Accept::Call(Self::new(spec, head, content_type, codec, limits, now)),
            // Routing is by path, so that neither the codecs of the method nor its kind are known.
            None => Accept::Reject(unsupported(protocol::accept_post(&[protocol::PROTO], CallKind::Unary))),
        }
    }

    fn new(
        spec: &'static ProtocolSpec,
        head: RequestHead,
        content_type: Bytes,
        codec: Bytes,
        limits: CallLimits,
        now: Instant,
    ) -> Self {
        let known = limits.accept_compressions.names();
        let announced = compress::announced(head.headers.get(spec.encoding).map(|v| &**v), known);
        let accepted = head.headers.get_all(spec.accept_encoding).map(|value| &**value);
        let encoding = compress::negotiate(announced, accepted, limits.send_compressions.names());
        let path = head.path.iter().position(|&octet| octet == b'?').unwrap_or(head.path.len());
        let mut call = Self {
            spec,
            path: head.path.slice(..path),
            authority: head.authority,
            content_type,
            codec,
            accept_compressions: limits.accept_compressions,
            encoding,
            metadata: Metadata::new(),
            deadline: None,
            kind: None,
            state: State::Receiving,
            decoder: Decoder::new(spec.body, limits.max_recv_message),
            send: SendSide::new(spec.body, false, limits.max_send_message, encoding.is_some()),
            is_head_sent: false,
            kept: Kept::default(),
            variant: ServiceVariant::from_headers(&head.headers),
            refusal: None,
        };
        if let Err(status) = call.read_head(announced, &head.headers, now) {
            call.fault(status);
        }
        call.metadata = Metadata::from_headers(head.headers);
        call
    }

    /// # Errors
    /// The request cannot be served, whatever its body is.
    fn read_head(&mut self, announced: Announced, headers: &Headers, now: Instant) -> Result<(), Status> {
        let (version, expected) = self.spec.marker;
        if let Some(value) = headers.get(version).filter(|value| self.spec.is_versioned && *value != expected) {
            let text = format!("{version} is `{}`: this server speaks `{expected}`", value.escape_ascii());
            return Err(Status::invalid_argument(text));
        }
        let timeouts = self.spec.timeouts.iter();
        if let Some((field, value)) = timeouts.filter_map(|field| Some((field, headers.get(field.name)?))).next() {
            let timeout = field.format.parse(value);
            let timeout = timeout.map_err(|error| Status::invalid_argument(format!("{}: {error}", field.name)))?;
            self.deadline = Some(now + timeout);
            if timeout.is_zero() {
                return Err(StreamError::Deadline.into());
            }
        }
        match announced {
            Announced::Identity => {}
            Announced::Known(name) => self.decoder.allow_compressed(name),
            Announced::Unknown => {
                return Err(Status::unimplemented(match self.accept_compressions.names() {
                    [] => "unknown request encoding: this server knows none but identity".into(),
                    known => format!("unknown request encoding: this server knows {}", known.join(", ")),
                }));
            }
        }
        let len = headers.get(&HeaderName::CONTENT_LENGTH).and_then(|value| decimal::parse(value));
        len.map_or(Ok(()), |len| self.decoder.expect_len(len))
    }
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
