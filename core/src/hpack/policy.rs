//! Which fields are worth a place in the peer's table.
//!
//! RPC repeats a handful of fields on every call and varies the rest on every call; the table should
//! hold the former only.

use crate::http::HeaderName;

/// How a field is represented when no table holds it yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Policy {
    /// Inserted at first sight: the value is the same for the whole connection, or one of few.
    Insert,
    /// Inserted when the same name and value are seen again soon.
    Again,
    /// Never inserted: the value differs from call to call.
    Literal,
    /// Never inserted, here or at any later hop (RFC 7541 §6.2.3, §7.1.3).
    Never,
}

const INSERT: &[HeaderName] = &[
    HeaderName::AUTHORITY,
    HeaderName::PATH,
    HeaderName::CONTENT_TYPE,
    HeaderName::TE,
    HeaderName::USER_AGENT,
    HeaderName::SERVER,
    HeaderName::ACCEPT_ENCODING,
    HeaderName::GRPC_ENCODING,
    HeaderName::GRPC_ACCEPT_ENCODING,
    HeaderName::GRPC_STATUS, // "0" only, see `Policy::of`
    HeaderName::TRI_CONSUMER_APPNAME,
    HeaderName::TRI_PROTOCOL_VERSION,
    HeaderName::TRI_SERVICE_GROUP,
    HeaderName::TRI_SERVICE_VERSION,
    HeaderName::TRIPLE_PROTOCOL_VERSION,
    HeaderName::CONNECT_ACCEPT_ENCODING,
    HeaderName::CONNECT_CONTENT_ENCODING,
    HeaderName::CONNECT_PROTOCOL_VERSION,
];

const LITERAL: &[HeaderName] = &[
    HeaderName::BAGGAGE,
    HeaderName::CONTENT_LENGTH,
    HeaderName::RETRY_AFTER,
    HeaderName::TRACEPARENT,
    HeaderName::TRACESTATE,
    HeaderName::X_REQUEST_ID,
    HeaderName::GRPC_MESSAGE,
    HeaderName::GRPC_RETRY_PUSHBACK_MS,
    HeaderName::GRPC_STATUS_DETAILS_BIN,
    HeaderName::GRPC_TAGS_BIN,
    HeaderName::GRPC_TIMEOUT,
    HeaderName::GRPC_TRACE_BIN,
    HeaderName::TRI_REQ_ID,
    HeaderName::TRI_SERVICE_TIMEOUT,
    HeaderName::TRI_TRACE_PROTO_BIN,
    HeaderName::TRI_TRACE_RPCID,
    HeaderName::TRI_TRACE_TRACEID,
    HeaderName::TRIPLE_TIMEOUT_MS,
    HeaderName::CONNECT_TIMEOUT_MS,
];

const KNOWN: [Policy; HeaderName::KNOWN] = {
    #[expect(clippy::indexing_slicing, clippy::panic, reason = "evaluated by the compiler, which checks it")]
    const fn set(
        mut table: [Policy; HeaderName::KNOWN],
        names: &[HeaderName],
        policy: Policy,
    ) -> [Policy; HeaderName::KNOWN] {
        let mut i = 0;
        while i < names.len() {
            match names[i].known_index() {
                Some(known) => table[known] = policy,
                None => panic!("only known names have a policy of their own"),
            }
            i += 1;
        }
        table
    }
    set(set([Policy::Again; HeaderName::KNOWN], INSERT, Policy::Insert), LITERAL, Policy::Literal)
};

impl Policy {
    /// The policy for one field.
    #[expect(clippy::indexing_slicing, reason = "a row for every known name")]
    pub(super) fn of(name: &HeaderName, value: &[u8], sensitive: bool) -> Self {
        if sensitive || name.is_secret() {
            return Self::Never;
        }
        match name.known_index() {
            None => Self::Again,
            Some(_) if *name == HeaderName::GRPC_STATUS && value != b"0" => Self::Again,
            Some(known) => KNOWN[known],
        }
    }
}
