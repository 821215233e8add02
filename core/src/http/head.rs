//! Heads of messages: what comes before the first octet of a body.

use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::{Field, HeaderName, Headers};
use crate::Instant;

/// A request method (RFC 9110 §9).
///
/// RPC uses POST, and GET for calls without side effects; the rest is kept so that the answer to it
/// can be right (405 with `allow`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    /// GET
    Get,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// HEAD: the response has no body.
    Head,
    /// OPTIONS: the path may be `*`.
    Options,
    /// PATCH
    Patch,
    /// CONNECT: there is no scheme and no path.
    Connect,
    /// TRACE
    Trace,
    /// Any other token. Received, never sent.
    Other,
}

impl Method {
    const NAMED: [Self; 9] = [
        Self::Get,
        Self::Post,
        Self::Put,
        Self::Delete,
        Self::Head,
        Self::Options,
        Self::Patch,
        Self::Connect,
        Self::Trace,
    ];

    /// The method that `token` names; methods are case-sensitive.
    pub fn from_bytes(token: &[u8]) -> Self {
        Self::NAMED.into_iter().find(|method| method.as_str().as_bytes() == token).unwrap_or(Self::Other)
    }

    /// The token, and `OTHER` where it was not kept.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Patch => "PATCH",
            Self::Connect => "CONNECT",
            Self::Trace => "TRACE",
            Self::Other => "OTHER",
        }
    }
}

/// Head of a request.
///
/// With CONNECT, `scheme` and `path` are empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestHead {
    /// Method.
    pub method: Method,
    /// `http` or `https`.
    pub scheme: Bytes,
    /// Host and port that the request is for (`:authority`, or `host` of HTTP/1.1).
    pub authority: Bytes,
    /// Path and query.
    pub path: Bytes,
    /// The fields that follow.
    pub headers: Headers,
    /// Sent after `headers`; never there in a head that was received.
    pub deadline: Option<DeadlineField>,
}

impl RequestHead {
    /// Size of the head as SETTINGS_MAX_HEADER_LIST_SIZE counts it, pseudo fields included, in bytes.
    pub fn list_size(&self) -> usize {
        let pseudo = [
            (HeaderName::METHOD, self.method.as_str().len()),
            (HeaderName::SCHEME, self.scheme.len()),
            (HeaderName::AUTHORITY, self.authority.len()),
            (HeaderName::PATH, self.path.len()),
        ];
        let pseudo: usize = pseudo.iter().map(|(name, value)| name.as_bytes().len() + value + Field::OVERHEAD).sum();
        pseudo + self.headers.list_size() + self.deadline.map_or(0, |field| field.max_list_size())
    }
}

/// A header that tells the peer how much of the deadline is left, computed at the moment the block
/// that holds it is committed to the output; waiting for a stream is thereby counted.
#[derive(Clone, Copy)]
pub struct DeadlineField {
    /// When the call ends.
    pub at: Instant,
    /// `grpc-timeout` or its sibling. HPACK never indexes it.
    pub name: &'static HeaderName,
    /// Writes the remaining time to the front of the buffer and returns the length of the value.
    pub format: fn(Duration, &mut [u8; Self::MAX_VALUE]) -> usize,
}

impl DeadlineField {
    /// Longest value of any such header, in bytes.
    pub const MAX_VALUE: usize = 20;

    /// Largest size of the field in a header list, in bytes.
    pub fn max_list_size(&self) -> usize {
        self.name.as_bytes().len() + Self::MAX_VALUE + Field::OVERHEAD
    }

    /// Writes the value for a block committed at `now` into `buffer`.
    #[expect(clippy::indexing_slicing, reason = "cut to the length of the buffer")]
    pub fn value<'a>(&self, now: Instant, buffer: &'a mut [u8; Self::MAX_VALUE]) -> &'a [u8] {
        let len = (self.format)(self.at - now, buffer);
        &buffer[..len.min(Self::MAX_VALUE)]
    }
}

impl PartialEq for DeadlineField {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.name) == (other.at, other.name) // the name implies the format
    }
}

impl Eq for DeadlineField {}

impl fmt::Debug for DeadlineField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} until {:?}", self.name, self.at)
    }
}

/// Head of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResponseHead {
    /// Status code, 100 to 999.
    pub status: u16,
    /// The fields that follow.
    pub headers: Headers,
}

impl ResponseHead {
    /// Whether a response with such a status never has a body (RFC 9110 §6.4.1).
    pub(crate) fn has_no_body(&self) -> bool {
        matches!(self.status, 204 | 304)
    }

    /// Size of the head as SETTINGS_MAX_HEADER_LIST_SIZE counts it, `:status` included, in bytes.
    pub fn list_size(&self) -> usize {
        HeaderName::STATUS.as_bytes().len() + 3 + Field::OVERHEAD + self.headers.list_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_are_case_sensitive_and_unknown_ones_are_other() {
        for method in Method::NAMED {
            assert_eq!(Method::from_bytes(method.as_str().as_bytes()), method);
        }
        for token in [&b"get"[..], b"GETT", b"", b"OTHER", b"PROPFIND"] {
            assert_eq!(Method::from_bytes(token), Method::Other);
        }
    }

    fn millis(left: Duration, buffer: &mut [u8; DeadlineField::MAX_VALUE]) -> usize {
        let text = alloc::format!("{}m", left.as_millis());
        buffer[..text.len()].copy_from_slice(text.as_bytes());
        text.len()
    }

    /// `arch:4`: the timeout header holds what remains when the block is committed, and nothing below zero.
    #[test]
    fn a_deadline_field_tells_what_is_left_at_commit() {
        let start = Instant::from_nanos(7_000_000);
        let field =
            DeadlineField { at: start + Duration::from_millis(50), name: &HeaderName::GRPC_TIMEOUT, format: millis };
        let mut buffer = [0; DeadlineField::MAX_VALUE];
        assert_eq!(field.value(start, &mut buffer), b"50m");
        assert_eq!(field.value(start + Duration::from_millis(20), &mut buffer), b"30m");
        assert_eq!(field.value(start + Duration::from_secs(1), &mut buffer), b"0m");
    }

    #[test]
    fn head_sizes_count_pseudo_fields_and_the_deadline() {
        let mut headers = Headers::new();
        headers.push(HeaderName::TE, "trailers");
        let mut head = RequestHead {
            method: Method::Post,
            scheme: Bytes::from_static(b"http"),
            authority: Bytes::from_static(b"localhost"),
            path: Bytes::from_static(b"/a/b"),
            headers: headers.clone(),
            deadline: None,
        };
        let fields = (7 + 4) + (7 + 4) + (10 + 9) + (5 + 4) + (2 + 8) + 5 * 32;
        assert_eq!(head.list_size(), fields);
        head.deadline = Some(DeadlineField { at: Instant::ZERO, name: &HeaderName::GRPC_TIMEOUT, format: millis });
        assert_eq!(head.list_size(), fields + 12 + 20 + 32);
        assert_eq!(ResponseHead { status: 200, headers }.list_size(), (7 + 3) + (2 + 8) + 2 * 32);
    }
}
