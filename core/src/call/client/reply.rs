//! What the head of a response says to the calls of a plan.

use alloc::borrow::Cow;
use alloc::format;
use core::ptr;

use bytes::Bytes;

use super::Plan;
use crate::call::compress::{self, Announced};
use crate::call::envelope::peer_fault;
use crate::call::metadata::Metadata;
use crate::call::protocol::Trailers;
use crate::call::status::{Code, Origin, Status};
use crate::call::{decimal, prefixed, trailers};
use crate::http::{HeaderName, Headers, ResponseHead};

/// What the head of a response says. Equal heads say the same to plans that [read alike](Plan::reads_like).
#[derive(Debug)]
pub(crate) struct Reply {
    pub(super) http: u16,
    pub(super) metadata: Metadata,
    /// Encoding of the messages; each may still be uncompressed.
    pub(super) encoding: Option<&'static str>,
    pub(super) content_length: Option<u64>,
    /// The head told the outcome, with the trailers; the body is the message, or explains the error.
    pub(super) is_whole: bool,
    pub(super) trailers: Metadata,
    /// The outcome, where the head told it and it is success.
    pub(super) success: Option<Status>,
    /// A status in a head that does not tell the outcome, which counts only if nothing follows.
    pub(super) early: Option<Status>,
    /// Why the body cannot be taken.
    pub(super) unusable: Option<Status>,
    /// An answer of plain HTTP, not RPC, as a status.
    pub(super) not_rpc: Option<Status>,
}

impl Reply {
    fn new(http: u16) -> Self {
        Self {
            http,
            metadata: Metadata::new(),
            encoding: None,
            content_length: None,
            is_whole: false,
            trailers: Metadata::new(),
            success: None,
            early: None,
            unusable: None,
            not_rpc: None,
        }
    }

    /// Whether the body has the messages of a call.
    pub(super) const fn is_usable(&self) -> bool {
        self.unusable.is_none() && self.not_rpc.is_none()
    }

    /// The metadata of an error are fields of the head, as those before a response are.
    pub(super) fn error_metadata(&self) -> Metadata {
        let mut metadata = self.metadata.clone();
        metadata.merge(self.trailers.clone());
        metadata
    }
}

impl Plan {
    /// Whether a head says the same to calls of both plans.
    pub(crate) fn reads_like(&self, other: &Self) -> bool {
        ptr::eq(self, other)
            || (ptr::eq(self.spec, other.spec)
                && self.codec == other.codec
                && self.accept_compressions == other.accept_compressions)
    }

    /// Reads a head that is not all of a response, unless it tells the outcome.
    pub(crate) fn read(&self, head: ResponseHead) -> Reply {
        match self.spec.trailers {
            Trailers::HeaderPrefix(prefix) => self.read_whole(head, prefix),
            Trailers::Http | Trailers::Envelope(_) => self.read_begin(head),
        }
    }

    /// The head of a response whose status comes at its end.
    fn read_begin(&self, head: ResponseHead) -> Reply {
        let mut reply = Reply::new(head.status);
        match self.check_content_type(&head) {
            Ok(()) => {}
            Err(status) if head.status == 200 => {
                reply.unusable = Some(status);
                return reply;
            }
            Err(status) => {
                reply.not_rpc = Some(status);
                return reply;
            }
        }
        match self.read_encoding(&head.headers) {
            Ok(encoding) => reply.encoding = encoding,
            Err(status) => {
                reply.unusable = Some(status);
                return reply;
            }
        }
        if head.headers.contains(&HeaderName::GRPC_STATUS) {
            reply.early = trailers::decode(head.headers.clone());
        }
        reply.metadata = Metadata::from_headers(head.headers);
        reply
    }

    /// The head of a response that tells the outcome.
    fn read_whole(&self, head: ResponseHead, prefix: &str) -> Reply {
        let mut reply = Reply { is_whole: true, ..Reply::new(head.status) };
        if head.status == 200 {
            match self.check_content_type(&head).and_then(|()| self.read_encoding(&head.headers)) {
                Ok(encoding) => reply.encoding = encoding,
                Err(status) => reply.unusable = Some(status),
            }
        }
        reply.content_length = head.headers.get(&HeaderName::CONTENT_LENGTH).and_then(|value| decimal::parse(value));
        (reply.metadata, reply.trailers) = prefixed::decode(head.headers, prefix);
        if head.status == 200 {
            let trailers = reply.trailers.clone();
            let status = Status::from_peer(Code::Ok as u32, Cow::Borrowed(""), Bytes::new(), trailers);
            reply.success = Some(status);
        }
        reply
    }

    /// # Errors
    /// The messages are in an encoding that was not offered.
    fn read_encoding(&self, headers: &Headers) -> Result<Option<&'static str>, Status> {
        let encoding = headers.get(self.spec.encoding).map(|value| &**value);
        match compress::announced(encoding, self.accept_compressions.names()) {
            Announced::Identity => Ok(None),
            Announced::Known(name) => Ok(Some(name)),
            Announced::Unknown => {
                let name = encoding.unwrap_or_default().escape_ascii();
                Err(peer_fault(format!("response in the encoding `{name}`, which was not offered")))
            }
        }
    }

    /// # Errors
    /// The status that stands for a response whose content type is not what was asked for.
    pub(super) fn check_content_type(&self, head: &ResponseHead) -> Result<(), Status> {
        // Some servers leave it out of otherwise good responses.
        let Some(content_type) = head.headers.get(&HeaderName::CONTENT_TYPE) else { return Ok(()) };
        match self.spec.codec(content_type) {
            Some(codec) if codec == self.codec || head.status != 200 => Ok(()),
            // A bare type names no codec: some servers answer with it whatever the request's was.
            Some(_) if self.spec.is_bare(content_type) => Ok(()),
            Some(codec) => Err(peer_fault(format!(
                "response in codec `{}` to a request in `{}`",
                codec.escape_ascii(),
                self.codec
            ))),
            None => Err(Status::new(
                self.spec.http_codes.code(head.status),
                format!("HTTP status {} with content-type `{}`", head.status, content_type.escape_ascii()),
            )
            .with_origin(Origin::Peer)),
        }
    }
}
