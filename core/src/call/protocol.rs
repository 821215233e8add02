//! The wire protocols, as rows of a table. The call machines branch on the flags of a row, never on its name.

use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::method::CallKind;
use super::status::tables::{self, HttpCodes, HttpStatuses};
use super::timeout::TimeoutFormat;
use crate::http::{HeaderName, Headers};

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
    /// No call, but a request of plain HTTP. Servers only, where somebody answers such.
    Http,
}

/// By which names a client's Triple unary calls carry version and timeout. Servers of ours read all of them, and
/// Connect's too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TripleHeaders {
    /// `triple-protocol-version` and `triple-timeout-ms`, as dubbo-go has them.
    #[default]
    DubboGo,
    /// `tri-protocol-version` and `tri-service-timeout`, as the specification and dubbo-js have them.
    DubboJs,
}

/// What the body of a message stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// One message, nothing around it; `content-length` is exact.
    Bare,
    /// Messages behind a prefix of five octets.
    Envelopes,
    /// No messages: octets as they come.
    Plain,
}

/// Where trailers and the end of the call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// In HTTP trailers.
    Http,
    /// In a last envelope that has this flag.
    #[allow(dead_code, reason = "read by the rows that are not carried yet")]
    Envelope(u8),
    /// In the response head, under this prefix: a response can begin only when all of it is known.
    HeaderPrefix(&'static str),
}

/// How a status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// `grpc-status`, `grpc-message`, `grpc-status-details-bin`, wherever the trailers are.
    GrpcStatus,
    /// HTTP status and a JSON body; with `number`, the code is in it as a number too.
    HttpJson { number: bool },
    /// A JSON object in the last envelope.
    EndStreamJson,
    /// HTTP status alone.
    HttpStatus,
}

/// A field that tells how long the client waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeoutField {
    pub(crate) name: &'static HeaderName,
    pub(crate) format: TimeoutFormat,
}

/// One row of the table: a protocol, for unary calls or for streams.
#[derive(Debug)]
pub(crate) struct ProtocolSpec {
    pub(crate) protocol: Protocol,
    /// Media type before the name of the codec.
    pub(crate) media_prefix: &'static str,
    /// Media type that stands for the codec `proto` without naming it.
    pub(crate) media_bare: Option<&'static str>,
    pub(crate) body: Body,
    pub(crate) trailers: Trailers,
    pub(crate) error: ErrorForm,
    /// Fixed field that every request carries.
    pub(crate) marker: (&'static HeaderName, &'static str),
    /// The marker is a version of the protocol: a request with another one is refused.
    pub(crate) is_versioned: bool,
    /// The field that a client sends; a server reads the first that is there.
    pub(crate) timeouts: &'static [TimeoutField],
    pub(crate) encoding: &'static HeaderName,
    pub(crate) accept_encoding: &'static HeaderName,
    /// HTTP status of a response with each code.
    pub(crate) http_statuses: HttpStatuses,
    /// Code of a response that has an HTTP status alone.
    pub(crate) http_codes: HttpCodes,
}

/// The row that a client's call is written by; `None` if the machines do not carry it.
#[expect(clippy::indexing_slicing, reason = "a row for every protocol")]
pub(crate) fn for_client(protocol: Protocol, headers: TripleHeaders, kind: CallKind) -> Option<&'static ProtocolSpec> {
    let [unary, streaming] = &SPECS[protocol as usize];
    let spec = match (kind, protocol, headers) {
        (CallKind::Unary, Protocol::Triple, TripleHeaders::DubboJs) => &TRIPLE_JS,
        (CallKind::Unary, ..) => unary,
        _ => streaming,
    };
    spec.is_carried().then_some(spec)
}

/// The row by which a request is written, and the codec it names: by its content type, which several bare rows share,
/// and among those by the fields that only one of them has. `None` if it is none that the machines carry.
pub(crate) fn detect(content_type: &Bytes, headers: &Headers) -> Option<(&'static ProtocolSpec, Bytes)> {
    let has = |names: &[HeaderName]| headers.iter().any(|field| names.contains(&field.name));
    let [[triple, grpc], _, [grpc_web, _], [connect, connect_stream], _] = &SPECS;
    // What most clients send, letter by letter: no need to look for anything else in it.
    if grpc.media_bare.is_some_and(|bare| bare.as_bytes() == content_type) {
        return Some((grpc, Bytes::from_static(PROTO.as_bytes())));
    }
    let mut found =
        [grpc_web, grpc, connect_stream].into_iter().filter_map(|spec| Some((spec, spec.codec(content_type)?)));
    let (spec, codec) = match found.next() {
        Some(found) => found,
        None => (triple, triple.codec(content_type)?),
    };
    let spec = match spec.body {
        Body::Bare if has(&CONNECT_NAMES) => connect,
        Body::Bare if !has(&TRIPLE_NAMES) && has(&TRIPLE_JS_NAMES) => &TRIPLE_JS,
        _ => spec,
    };
    spec.is_carried().then_some((spec, codec))
}

/// Value of `accept-post` for a method with these codecs: every content type by which a request may come.
pub(crate) fn accept_post(codecs: &[&str], kind: CallKind) -> String {
    let mut types: Vec<Bytes> = Vec::new();
    for codec in codecs {
        types.extend(GRPC.media_bare.filter(|_| *codec == PROTO).map(Bytes::from));
        types.push([GRPC.media_prefix, codec].concat().into());
        if kind == CallKind::Unary {
            types.push(TRIPLE.content_type(codec));
        }
    }
    types.sort_unstable();
    let types: Vec<&str> = types.iter().filter_map(|media| core::str::from_utf8(media).ok()).collect();
    types.join(", ")
}

impl ProtocolSpec {
    /// Whether the machines carry rows with these flags.
    pub(crate) const fn is_carried(&self) -> bool {
        matches!(
            (self.body, self.trailers, self.error),
            (Body::Envelopes, Trailers::Http, ErrorForm::GrpcStatus)
                | (Body::Bare, Trailers::HeaderPrefix(_), ErrorForm::HttpJson { .. })
        )
    }

    /// The field by which a client tells its timeout.
    pub(crate) fn timeout(&self) -> Option<TimeoutField> {
        self.timeouts.first().copied()
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
        // `application/grpc-web-text` and `application/vnd.x+json` name no codec: they are other protocols.
        if self.body == Body::Bare && !is_codec_name(codec) {
            return None;
        }
        if codec.iter().any(u8::is_ascii_uppercase) {
            let lower: Vec<u8> = codec.to_ascii_lowercase();
            return Some(lower.into());
        }
        Some(content_type.slice_ref(codec))
    }
}

/// Whether the subtype of a bare body's media type can be a codec.
fn is_codec_name(subtype: &[u8]) -> bool {
    let foreign = |prefix: &[u8]| subtype.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    let is_word = subtype.iter().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'_' | b'.'));
    is_word && !foreign(b"grpc") && !foreign(b"connect")
}

/// A content type without its parameters.
fn media_type(content_type: &[u8]) -> &[u8] {
    content_type.split(|&octet| octet == b';').next().unwrap_or_default().trim_ascii()
}

/// The codec that a bare media type stands for.
pub(crate) const PROTO: &str = "proto";

const GRPC: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Grpc,
    media_prefix: "application/grpc+",
    media_bare: Some("application/grpc"),
    body: Body::Envelopes,
    trailers: Trailers::Http,
    error: ErrorForm::GrpcStatus,
    marker: (&HeaderName::TE, "trailers"),
    is_versioned: false,
    timeouts: &[TimeoutField { name: &HeaderName::GRPC_TIMEOUT, format: TimeoutFormat::Grpc }],
    encoding: &HeaderName::GRPC_ENCODING,
    accept_encoding: &HeaderName::GRPC_ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_ENVELOPED,
    http_codes: tables::HTTP_CODES_GRPC,
};

const GRPC_WEB: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::GrpcWeb,
    media_prefix: "application/grpc-web+",
    media_bare: Some("application/grpc-web"),
    trailers: Trailers::Envelope(0x80),
    marker: (&HeaderName::X_GRPC_WEB, "1"),
    ..GRPC
};

const TRIPLE: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Triple,
    media_prefix: "application/",
    media_bare: None,
    body: Body::Bare,
    trailers: Trailers::HeaderPrefix("trailer-"),
    error: ErrorForm::HttpJson { number: false },
    marker: (&HeaderName::TRIPLE_PROTOCOL_VERSION, "0.1.0"),
    is_versioned: true,
    timeouts: &[TRIPLE_TIMEOUT, TRIPLE_JS_TIMEOUT],
    encoding: &HeaderName::CONTENT_ENCODING,
    accept_encoding: &HeaderName::ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_TRIPLE,
    http_codes: tables::HTTP_CODES_TRIPLE,
};

/// Triple by the names of dubbo-js: the same wire otherwise.
static TRIPLE_JS: ProtocolSpec = ProtocolSpec {
    error: ErrorForm::HttpJson { number: true },
    marker: (&HeaderName::TRI_PROTOCOL_VERSION, "1.0.0"),
    is_versioned: false,
    timeouts: &[TRIPLE_JS_TIMEOUT],
    ..TRIPLE
};

const CONNECT: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Connect,
    marker: (&HeaderName::CONNECT_PROTOCOL_VERSION, "1"),
    timeouts: &[CONNECT_TIMEOUT, TRIPLE_JS_TIMEOUT, TRIPLE_TIMEOUT],
    http_statuses: tables::HTTP_STATUSES_CONNECT,
    http_codes: tables::HTTP_CODES_CONNECT,
    ..TRIPLE
};

const CONNECT_STREAM: ProtocolSpec = ProtocolSpec {
    media_prefix: "application/connect+",
    body: Body::Envelopes,
    trailers: Trailers::Envelope(0x02),
    error: ErrorForm::EndStreamJson,
    encoding: &HeaderName::CONNECT_CONTENT_ENCODING,
    accept_encoding: &HeaderName::CONNECT_ACCEPT_ENCODING,
    http_statuses: tables::HTTP_STATUSES_ENVELOPED,
    ..CONNECT
};

const TRIPLE_TIMEOUT: TimeoutField =
    TimeoutField { name: &HeaderName::TRIPLE_TIMEOUT_MS, format: TimeoutFormat::Millis { signed: true } };
const TRIPLE_JS_TIMEOUT: TimeoutField =
    TimeoutField { name: &HeaderName::TRI_SERVICE_TIMEOUT, format: TimeoutFormat::Millis { signed: true } };
const CONNECT_TIMEOUT: TimeoutField =
    TimeoutField { name: &HeaderName::CONNECT_TIMEOUT_MS, format: TimeoutFormat::Millis { signed: false } };

/// Fields that only clients of one bare row send.
const CONNECT_NAMES: [HeaderName; 2] = [HeaderName::CONNECT_PROTOCOL_VERSION, HeaderName::CONNECT_TIMEOUT_MS];
const TRIPLE_NAMES: [HeaderName; 2] = [HeaderName::TRIPLE_PROTOCOL_VERSION, HeaderName::TRIPLE_TIMEOUT_MS];
const TRIPLE_JS_NAMES: [HeaderName; 5] = [
    HeaderName::TRI_PROTOCOL_VERSION,
    HeaderName::TRI_SERVICE_TIMEOUT,
    HeaderName::REST_SERVICE_GROUP,
    HeaderName::REST_SERVICE_VERSION,
    HeaderName::REST_SERVICE_TIMEOUT,
];

/// What is no call. Of its columns only those matter by which a body is received and a failure is answered.
const HTTP: ProtocolSpec = ProtocolSpec {
    protocol: Protocol::Http,
    media_prefix: "",
    body: Body::Plain,
    trailers: Trailers::Http,
    error: ErrorForm::HttpStatus,
    is_versioned: false,
    timeouts: &[],
    ..CONNECT
};

/// Unary and streaming row of each protocol, in the order of [`Protocol`].
static SPECS: [[ProtocolSpec; 2]; 5] =
    [[TRIPLE, GRPC], [GRPC, GRPC], [GRPC_WEB, GRPC_WEB], [CONNECT, CONNECT_STREAM], [HTTP, HTTP]];

/// The row of requests that are no calls.
pub(crate) static PLAIN: ProtocolSpec = HTTP;

#[cfg(test)]
mod tests;
