//! Field lists to heads (RFC 9113 §8.1–§8.3): what makes a message malformed, and nothing of HPACK.
//!
//! Every field of a block is pushed, also after a fault, because HPACK must not stop early; the first fault
//! decides. A malformed message costs its stream, never the connection.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use crate::http::{Field, HeaderName, Headers, Method, RequestHead, ResponseHead, is_valid_value};

/// Why a message is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Which kind of field list is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Request,
    /// Of a response; `lenient` turns CR and LF of `grpc-message` into blanks.
    Response {
        lenient: bool,
    },
    RequestTrailers,
    ResponseTrailers {
        lenient: bool,
    },
}

/// What a field list came to. Heads and trailers are shared: see [`memo`](super::memo).
#[derive(Clone, Debug)]
pub(crate) enum List {
    Request {
        head: Arc<RequestHead>,
        content_length: Option<u64>,
    },
    /// Of an informational response, too. `size` is that of [`FieldList::finish`].
    Response {
        head: Arc<ResponseHead>,
        content_length: Option<u64>,
        size: usize,
    },
    Trailers(Arc<Headers>),
}

/// Room that the head of a request begins with, in fields.
const USUAL_FIELDS: usize = 8;

/// A field list under construction.
pub(crate) struct FieldList {
    kind: ListKind,
    method: Option<Bytes>,
    scheme: Option<Bytes>,
    authority: Option<Bytes>,
    path: Option<Bytes>,
    status: Option<Bytes>,
    host: Option<Bytes>,
    content_length: Option<u64>,
    headers: Headers,
    fault: Option<Malformed>,
}

impl FieldList {
    pub(crate) fn new(kind: ListKind) -> Self {
        Self {
            kind,
            method: None,
            scheme: None,
            authority: None,
            path: None,
            status: None,
            host: None,
            content_length: None,
            headers: Headers::with_capacity(if kind == ListKind::Request { USUAL_FIELDS } else { 0 }),
            fault: None,
        }
    }

    pub(crate) fn push(&mut self, field: Field) {
        if self.fault.is_none() {
            self.fault = self.add(field).err();
        }
    }

    fn add(&mut self, mut field: Field) -> Result<(), Malformed> {
        if field.name.is_pseudo() {
            return self.add_pseudo(field);
        }
        if !field.name.is_valid() {
            return Err(Malformed("invalid field name"));
        }
        if !is_valid_value(&field.value) {
            field = self.mend(field)?;
        }
        if field.name.is_connection_specific() {
            return Err(Malformed("connection-specific field"));
        }
        if field.name == HeaderName::TE {
            // Not defined for responses, and yet dubbo-java sends it with each of them.
            if !field.value.eq_ignore_ascii_case(b"trailers") {
                return Err(Malformed("te other than trailers"));
            }
        } else if field.name == HeaderName::CONTENT_LENGTH {
            let length = parse_content_length(&field.value).ok_or(Malformed("content-length is not a number"))?;
            match self.content_length {
                None => self.content_length = Some(length),
                Some(first) if first == length => return Ok(()),
                Some(_) => return Err(Malformed("contradicting content-length")),
            }
        } else if field.name == HeaderName::HOST && self.kind == ListKind::Request {
            if self.host.replace(field.value).is_some() {
                return Err(Malformed("more than one host"));
            }
            return Ok(());
        }
        self.headers.push_field(field);
        Ok(())
    }

    /// Makes the value valid where that is allowed.
    #[cold]
    fn mend(&self, mut field: Field) -> Result<Field, Malformed> {
        field.value = without_outer_blanks(&field.value);
        if is_valid_value(&field.value) {
            return Ok(field);
        }
        let lenient =
            matches!(self.kind, ListKind::Response { lenient: true } | ListKind::ResponseTrailers { lenient: true });
        if lenient && field.name == HeaderName::GRPC_MESSAGE {
            field.value = without_line_breaks(&field.value);
            if is_valid_value(&field.value) {
                return Ok(field);
            }
        }
        Err(Malformed("invalid field value"))
    }

    fn add_pseudo(&mut self, field: Field) -> Result<(), Malformed> {
        if !self.headers.is_empty() || self.host.is_some() {
            return Err(Malformed("pseudo field after a regular one"));
        }
        if !is_valid_value(&field.value) {
            return Err(Malformed("invalid pseudo field value"));
        }
        let place = match (self.kind, field.name.as_bytes()) {
            (ListKind::Request, b":method") => &mut self.method,
            (ListKind::Request, b":scheme") => &mut self.scheme,
            (ListKind::Request, b":authority") => &mut self.authority,
            (ListKind::Request, b":path") => &mut self.path,
            (ListKind::Response { .. }, b":status") => &mut self.status,
            _ => return Err(Malformed("pseudo field that does not belong here")),
        };
        if place.replace(field.value).is_some() {
            return Err(Malformed("repeated pseudo field"));
        }
        Ok(())
    }

    /// The whole list, which is of `size` as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    pub(crate) fn finish(self, size: usize) -> Result<List, Malformed> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        match self.kind {
            ListKind::Request => self.into_request(),
            ListKind::Response { .. } => self.into_response(size),
            ListKind::RequestTrailers | ListKind::ResponseTrailers { .. } => Ok(List::Trailers(Arc::new(self.headers))),
        }
    }

    fn into_request(self) -> Result<List, Malformed> {
        let method = Method::from_bytes(&self.method.filter(|m| !m.is_empty()).ok_or(Malformed("no :method"))?);
        if let (Some(authority), Some(host)) = (&self.authority, &self.host) {
            if authority != host {
                return Err(Malformed("host differs from :authority"));
            }
        }
        let authority = self.authority.or(self.host).ok_or(Malformed("neither :authority nor host"))?;
        if !is_valid_authority(&authority) {
            return Err(Malformed("invalid :authority"));
        }
        let (scheme, path) = match (method, self.scheme, self.path) {
            // §8.5: a CONNECT request has an authority and nothing else.
            (Method::Connect, None, None) => (Bytes::new(), Bytes::new()),
            (Method::Connect, ..) => return Err(Malformed("CONNECT with :scheme or :path")),
            (_, Some(scheme), Some(path)) if !scheme.is_empty() => (scheme, path),
            _ => return Err(Malformed("no :scheme or no :path")),
        };
        let path_ok = path.starts_with(b"/") || (method == Method::Options && path == "*");
        if method != Method::Connect && !path_ok {
            return Err(Malformed(":path does not begin with a slash"));
        }
        let head = RequestHead { method, scheme, authority, path, headers: self.headers, deadline: None };
        Ok(List::Request { head: Arc::new(head), content_length: self.content_length })
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a digit, and lengths of what lies in memory")]
    fn into_response(self, size: usize) -> Result<List, Malformed> {
        let status = match self.status.as_deref() {
            Some(&[a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9']) => {
                [a, b, c].iter().fold(0, |sum, digit| sum * 10 + u16::from(digit - b'0'))
            }
            _ => return Err(Malformed("no :status of three digits")),
        };
        let head = ResponseHead { status, headers: self.headers };
        Ok(List::Response { head: Arc::new(head), content_length: self.content_length, size })
    }
}

/// RFC 9110 §8.6: digits and nothing else, within 64 bits.
#[expect(clippy::arithmetic_side_effects, reason = "a digit, and lengths of what lies in memory")]
fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    value.iter().try_fold(0u64, |sum, octet| {
        let digit = octet.is_ascii_digit().then(|| u64::from(octet - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// RFC 3986 §3.2 without user information (RFC 9113 §8.3.1). Rules out what would change its meaning
/// elsewhere; the name itself is for whoever resolves it.
fn is_valid_authority(authority: &[u8]) -> bool {
    !authority.is_empty()
        && authority.iter().all(|octet| octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(octet))
}

/// A value without blanks at its ends. They make a message malformed (RFC 9113 §8.2.1), and yet dubbo-java sends its
/// users' values as they are, so that a call would be lost for a blank that means nothing.
#[expect(clippy::arithmetic_side_effects, reason = "a digit, and lengths of what lies in memory")]
fn without_outer_blanks(value: &Bytes) -> Bytes {
    let is_blank = |octet: &u8| matches!(octet, b' ' | b'\t');
    let start = value.iter().position(|octet| !is_blank(octet)).unwrap_or(value.len());
    let end = value.iter().rposition(|octet| !is_blank(octet)).map_or(start, |last| last + 1);
    value.slice(start..end)
}

/// `grpc-message` as some servers send it: line breaks become blanks, and none stay at either end.
fn without_line_breaks(value: &[u8]) -> Bytes {
    let blanks: Vec<u8> =
        value.iter().map(|&octet| if matches!(octet, b'\r' | b'\n') { b' ' } else { octet }).collect();
    Bytes::copy_from_slice(blanks.trim_ascii())
}
