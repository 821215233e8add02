//! The wire protocols, as rows of a table. The call machines branch on the flags of a row, never on its name.

use alloc::vec::Vec;

use bytes::Bytes;

use super::method::CallKind;
use super::status::tables::{self, HttpCodes, HttpStatuses};
use crate::http::HeaderName;

/// A wire protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// Triple: unary calls with a bare body, errors as HTTP status and JSON. Its streams are gRPC.
    Triple,
    /// gRPC over HTTP/2, which is also what Dubbo's clients send.
    Grpc,
    /// gRPC-Web: trailers in the body.
    GrpcWeb,
    /// Connect.
    Connect,
}

impl Protocol {
    /// The row of this protocol for calls of this kind.
    pub(crate) fn spec(self, kind: CallKind) -> &'static ProtocolSpec {
        let [unary, streaming] = &SPECS[self as usize];
        if kind == CallKind::Unary { unary } else { streaming }
    }
}

/// What the body of a message stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// One message, nothing around it; `content-length` is exact.
    Bare,
    /// Messages behind a prefix of five octets.
    Envelopes,
}

/// Where trailers and the end of the call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// In HTTP trailers.
    Http,
    /// In a last envelope that has this flag.
    #[allow(dead_code, reason = "read by the rows that are not carried yet")]
    Envelope(u8),
    /// In the response head, under this prefix.
    #[allow(dead_code, reason = "read by the rows that are not carried yet")]
    HeaderPrefix(&'static str),
}

/// How a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `grpc-status`, `grpc-message`, `grpc-status-details-bin`, wherever the trailers are.
    GrpcStatus,
    /// HTTP status and a JSON body.
    HttpJson,
    /// A JSON object in the last envelope.
    EndStreamJson,
}

/// One row of the table: a protocol, for unary calls or for streams.
#[derive(Debug)]
pub(crate) struct ProtocolSpec {
    pub(crate) protocol: Protocol,
    /// Media type before the name of the codec.
    pub(crate) media_prefix: &'static str,
    /// Media type that stands for the codec `proto` without naming it.
    pub(crate) media_bare: Option<&'static str>,
    /// Value of `accept-post` when the request's type is none of ours.
    pub(crate) accept_post: &'static str,
    pub(crate) body: Body,
    pub(crate) trailers: Trailers,
    pub(crate) error: ErrorForm,
    /// Fixed field that every request carries.
    pub(crate) marker: (&'static HeaderName, &'static str),
    pub(crate) timeout: &'static HeaderName,
    pub(crate) encoding: &'static HeaderName,
    pub(crate) accept_encoding: &'static HeaderName,
    /// HTTP status of a response with each code.
    pub(crate) http_statuses: HttpStatuses,
    /// Code of a response that has an HTTP status alone.
    pub(crate) http_codes: HttpCodes,
}

impl ProtocolSpec {
    /// Whether the machines carry rows with these flags.
    pub(crate) const fn is_carried(&self) -> bool {
        matches!((self.body, self.trailers, self.error), (Body::Envelopes, Trailers::Http, ErrorForm::GrpcStatus))
    }

    /// The content type for a codec; never with a parameter, for some servers compare the whole string.
    pub(crate) fn content_type(&self, codec: &str) -> Bytes {
        match self.media_bare {
            Some(bare) if codec == PROTO => Bytes::from_static(bare.as_bytes()),
            _ => Bytes::from([self.media_prefix, codec].concat()),
        }
    }

    /// Whether a content type is the one that names no codec.
    pub(crate) fn is_bare(&self, content_type: &[u8]) -> bool {
        self.media_bare.is_some_and(|bare| media_type(content_type).eq_ignore_ascii_case(bare.as_bytes()))
    }

    /// The codec that a content type names, or `None` if the type is not of this row. Letter case and parameters
    /// are tolerated.
    pub(crate) fn codec(&self, content_type: &Bytes) -> Option<Bytes> {
        let media = media_type(content_type);
        if self.is_bare(content_type) {
            return Some(Bytes::from_static(PROTO.as_bytes()));
        }
        let (prefix, codec) = media.split_at_checked(self.media_prefix.len())?;
        if !prefix.eq_ignore_ascii_case(self.media_prefix.as_bytes()) || codec.is_empty() || !codec.is_ascii() {
            return None;
        }
        if codec.iter().any(u8::is_ascii_uppercase) {
            let lower: Vec<u8> = codec.to_ascii_lowercase();
            return Some(lower.into());
        }
        Some(content_type.slice_ref(codec))
    }
}

/// A content type without its parameters.
fn media_type(content_type: &[u8]) -> &[u8] {
    content_type.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii()
}

/// The codec that a bare media type stands for.
const PROTO: &str = "proto";

const GRPC: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Grpc,
    media_prefix: "application/grpc+",
    media_bare: Some("application/grpc"),
    accept_post: "application/grpc, application/grpc+proto",
    body: Body::Envelopes,
    trailers: Trailers::Http,
    error: ErrorForm::GrpcStatus,
    marker: (&HeaderName::TE, "trailers"),
    timeout: &HeaderName::GRPC_TIMEOUT,
    encoding: &HeaderName::GRPC_ENCODING,
    accept_encoding: &HeaderName::GRPC_ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_ENVELOPED,
    http_codes: tables::HTTP_CODES_GRPC,
};

const GRPC_WEB: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::GrpcWeb,
    media_prefix: "application/grpc-web+",
    media_bare: Some("application/grpc-web"),
    accept_post: "application/grpc-web, application/grpc-web+proto",
    trailers: Trailers::Envelope(0x80),
    marker: (&HeaderName::X_GRPC_WEB, "1"),
    ..GRPC
};

const TRIPLE: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Triple,
    media_prefix: "application/",
    media_bare: None,
    accept_post: "application/json, application/proto",
    body: Body::Bare,
    trailers: Trailers::HeaderPrefix("trailer-"),
    error: ErrorForm::HttpJson,
    marker: (&HeaderName::TRIPLE_PROTOCOL_VERSION, "0.1.0"),
    timeout: &HeaderName::TRIPLE_TIMEOUT_MS,
    encoding: &HeaderName::CONTENT_ENCODING,
    accept_encoding: &HeaderName::ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_TRIPLE,
    http_codes: tables::HTTP_CODES_TRIPLE,
};

const CONNECT: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Connect,
    marker: (&HeaderName::CONNECT_PROTOCOL_VERSION, "1"),
    timeout: &HeaderName::CONNECT_TIMEOUT_MS,
    http_statuses: tables::HTTP_STATUSES_CONNECT,
    http_codes: tables::HTTP_CODES_CONNECT,
    ..TRIPLE
};

const CONNECT_STREAM: ProtocolSpec = ProtocolSpec {
    media_prefix: "application/connect+",
    accept_post: "application/connect+json, application/connect+proto",
    body: Body::Envelopes,
    trailers: Trailers::Envelope(0x02),
    error: ErrorForm::EndStreamJson,
    encoding: &HeaderName::CONNECT_CONTENT_ENCODING,
    accept_encoding: &HeaderName::CONNECT_ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_ENVELOPED,
    ..CONNECT
};

/// Unary and streaming row of each protocol, in the order of [`Protocol`].
static SPECS: [[ProtocolSpec; 2]; 4] = [[TRIPLE, GRPC], [GRPC, GRPC], [GRPC_WEB, GRPC_WEB], [CONNECT, CONNECT_STREAM]];

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [CallKind; 4] =
        [CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi];

    fn codec(content_type: &'static str) -> Option<Bytes> {
        GRPC.codec(&Bytes::from_static(content_type.as_bytes()))
    }

    #[test]
    fn each_protocol_finds_its_own_rows() {
        for protocol in [Protocol::Triple, Protocol::Grpc, Protocol::GrpcWeb, Protocol::Connect] {
            assert_eq!(protocol.spec(CallKind::Unary).protocol, protocol);
            for kind in KINDS {
                let carried = protocol == Protocol::Grpc || (protocol == Protocol::Triple && kind != CallKind::Unary);
                assert_eq!(protocol.spec(kind).is_carried(), carried, "{protocol:?} {kind:?}");
            }
        }
        // Triple has no stream of its own (triple-protocol §0).
        assert_eq!(Protocol::Triple.spec(CallKind::Bidi).protocol, Protocol::Grpc);
    }

    /// tri:71
    #[test]
    fn content_types_carry_no_parameter_and_proto_is_bare() {
        assert_eq!(GRPC.content_type("proto"), "application/grpc");
        assert_eq!(GRPC.content_type("json"), "application/grpc+json");
        assert_eq!(TRIPLE.content_type("proto"), "application/proto");
        assert_eq!(CONNECT_STREAM.content_type("proto"), "application/connect+proto");
    }

    /// tri:21 tri:23 tri:25 tri:177
    #[test]
    fn content_types_are_read_without_case_and_parameters() {
        for bare in ["application/grpc", "Application/GRPC", "application/grpc;charset=utf-8", "application/grpc ; a=b"]
        {
            assert_eq!(codec(bare).expect(bare), "proto");
        }
        assert_eq!(codec("application/grpc+proto").unwrap(), "proto");
        assert_eq!(codec("application/grpc+JSON;x=y").unwrap(), "json");
        assert_eq!(codec("application/grpc+foo").unwrap(), "foo");
        for foreign in [
            "",
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpcx",
            "application/grpc+",
            "application/json",
            "text/plain",
            "application/grp",
            "application/grpc+\u{e9}",
        ] {
            assert_eq!(codec(foreign), None, "{foreign}");
        }
    }
}
