//! Field lists, judged by a connection and by the rules as they are written (RFC 9113 §8.2, §8.3).

use std::sync::Arc;

use bytes::Bytes;
use trirpc_core::buf::{Encoded, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, MethodSpec};
use trirpc_core::{Client, Config, Connection, Endpoint, HttpVersion, Instant, Role, Server};

use crate::input::Input;
use crate::trace::{Frame, Side, Trace};

static METHOD: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

const PROTOCOL_ERROR: u32 = 1;
const STREAM: u32 = 1;

type Field = (Vec<u8>, Vec<u8>);

/// Names and values that mean something to somebody, and some that only look so.
const NAMES: &[&str] = &[
    ":method",
    ":scheme",
    ":authority",
    ":path",
    ":status",
    ":protocol",
    ":",
    "",
    "host",
    "content-length",
    "te",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
    "upgrade-insecure-requests",
    "cookie",
    "content-type",
    "grpc-message",
    "grpc-status",
    "grpc-timeout",
    "UPPER",
    "x-a",
    "x a",
    "te:",
];
const VALUES: &[&str] = &[
    "",
    "POST",
    "GET",
    "CONNECT",
    "OPTIONS",
    "http",
    "localhost",
    "user@localhost",
    "[::1]:80",
    "a/b",
    "/",
    "/t.Echo/Say",
    "*",
    "t.Echo/Say",
    "200",
    "204",
    "304",
    "103",
    "101",
    "099",
    "20",
    "trailers",
    "Trailers",
    "gzip",
    "0",
    "5",
    "+5",
    "5, 5",
    "18446744073709551616",
    " x",
    "x\t",
    "a\r\nb",
    "a\0b",
    "application/grpc",
    "\u{e9}",
];

/// Makes a field list of the input, sends it as the head of a request or of a response, and compares what the
/// connection says of it with what a reading of the rules says. Whatever the list: the connection lives.
pub fn validate(data: &[u8]) {
    let mut input = Input::new(data);
    let switches = input.octet();
    let end = switches & 1 != 0;
    let is_request = switches & 2 == 0;
    let mut fields: Vec<Field> = match (switches & 4 != 0, is_request) {
        (false, _) => Vec::new(),
        (true, true) => owned(&[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")]),
        (true, false) => owned(&[(":status", "200")]),
    };
    while !input.is_empty() && fields.len() < 24 {
        let name = choose(&mut input, NAMES);
        let value = choose(&mut input, VALUES);
        fields.push((name, value));
    }
    let block = block(&fields);
    let (refused, lives) = if is_request { server(&block, end) } else { client(&block, end) };
    assert!(lives, "a field list ended the connection: {fields:?}");
    let expected =
        if is_request { is_request_well_formed(&fields, end) } else { is_response_well_formed(&fields, end) };
    assert_eq!(!refused, expected, "END_STREAM {end}: {fields:?}");
}

fn owned(fields: &[(&str, &str)]) -> Vec<Field> {
    fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// One of `known`, or octets of the input's own.
fn choose(input: &mut Input<'_>, known: &[&str]) -> Vec<u8> {
    let which = usize::from(input.octet());
    match known.get(which) {
        Some(known) => known.as_bytes().to_vec(),
        None => input.bytes(which % 16).to_vec(),
    }
}

/// Literals that no table hears of.
fn block(fields: &[Field]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("short"));
            block.extend_from_slice(text);
        }
    }
    block
}

fn headers(block: &[u8], end: bool) -> Vec<u8> {
    let len = u32::try_from(block.len()).expect("short").to_be_bytes();
    [&len[1..], &[1, 4 | u8::from(end)], &STREAM.to_be_bytes(), block].concat()
}

const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];

/// Whether the request was refused as malformed, and whether the connection lives.
fn server(block: &[u8], end: bool) -> (bool, bool) {
    let conn = Connection::<Server>::new(Arc::new(Config::default()), Some(HttpVersion::Http2), Instant::ZERO);
    verdict(conn, Side::Client, &[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &SETTINGS[..], &headers(block, end)].concat())
}

/// The same for the response to a call whose request is complete.
fn client(block: &[u8], end: bool) -> (bool, bool) {
    let (config, endpoint) = (Arc::new(Config::default()), Endpoint::http("localhost"));
    let mut conn = Connection::<Client>::new(config, endpoint, HttpVersion::Http2, Instant::ZERO);
    let request = Encoded { bytes: Bytes::from_static(b"request"), compressed: false };
    conn.open_unary_encoded(&METHOD, &CallOptions::default(), "proto", request, Instant::ZERO).expect("room");
    verdict(conn, Side::Server, &[&SETTINGS[..], &headers(block, end)].concat())
}

fn verdict<R: Role>(mut conn: Connection<R>, hostile: Side, octets: &[u8]) -> (bool, bool) {
    let (mut input, mut output, mut trace) = (RecvBuf::new(16 * 1024), Transmit::new(), Trace::with_hostile(hostile));
    let mut turn = |octets: &[u8]| {
        trace.observe(hostile, octets);
        input.extend(octets);
        conn.handle_input(&mut input, Instant::ZERO);
        conn.poll_transmit(&mut output, Instant::ZERO);
        let mut written = vec![0; output.len()];
        output.copy_to(&mut written);
        output.advance(written.len());
        trace.observe(hostile.peer(), &written);
    };
    // A client's request leaves first: there is no response to what was not sent.
    turn(&[]);
    turn(octets);
    turn(&PING);
    let sent: Vec<_> = trace.sent_by(hostile.peer()).collect();
    let refused = sent.iter().any(|entry| entry.stream == STREAM && entry.frame == Frame::Reset(PROTOCOL_ERROR));
    let lives = sent.iter().any(|entry| matches!(entry.frame, Frame::PingAck(_)));
    (refused, lives)
}

// ---- the rules, one after the other --------------------------------------------------------------

/// What the fields of a list come to, if all of them are right by themselves.
#[derive(Default)]
struct Judged<'a> {
    pseudo: Vec<(&'a [u8], &'a [u8])>,
    regular: Vec<(&'a [u8], Vec<u8>)>,
}

impl<'a> Judged<'a> {
    fn new(fields: &'a [Field], allowed: &[&[u8]]) -> Option<Self> {
        let mut judged = Self::default();
        for (name, value) in fields {
            if name.first() == Some(&b':') {
                let known = allowed.contains(&name.as_slice()) && judged.pseudo(name).is_none();
                if !known || !judged.regular.is_empty() || !is_clean(value) {
                    return None;
                }
                judged.pseudo.push((name, value));
            } else {
                let value = mended(name, value, allowed.contains(&b":status".as_slice()))?;
                if !is_right(name, &value) {
                    return None;
                }
                judged.regular.push((name, value));
            }
        }
        Some(judged)
    }

    fn pseudo(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.pseudo.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn all(&self, name: &[u8]) -> Vec<&[u8]> {
        self.regular.iter().filter(|(known, _)| *known == name).map(|(_, value)| value.as_slice()).collect()
    }

    /// The announced length; `None` if the fields contradict each other.
    fn content_length(&self) -> Option<u64> {
        let lengths = self.all(b"content-length");
        let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let first = lengths.first().map_or(Some(0), |first| number(first))?;
        lengths.iter().all(|length| number(length) == Some(first)).then_some(first)
    }
}

/// A value without blanks at its ends, which we bear; of a `grpc-message` in a response, also without line breaks.
fn mended(name: &[u8], value: &[u8], is_response: bool) -> Option<Vec<u8>> {
    let text: Vec<char> = value.iter().map(|&octet| char::from(octet)).collect();
    let trim = |text: &[char]| -> Vec<u8> {
        let text: String = text.iter().collect();
        text.trim_matches([' ', '\t']).chars().map(|c| c as u8).collect()
    };
    let trimmed = trim(&text);
    if is_clean(&trimmed) {
        return Some(trimmed);
    }
    if is_response && name == b"grpc-message" {
        let unbroken: Vec<char> = text.into_iter().map(|c| if c == '\r' || c == '\n' { ' ' } else { c }).collect();
        return Some(trim(&unbroken)).filter(|value| is_clean(value));
    }
    None
}

fn is_clean(value: &[u8]) -> bool {
    let blank = |octet: Option<&u8>| octet.is_some_and(|octet| b" \t".contains(octet));
    let control = |octet: &u8| (*octet < 0x20 && *octet != b'\t') || *octet == 0x7f;
    !blank(value.first()) && !blank(value.last()) && !value.iter().any(control)
}

/// A regular field by itself.
fn is_right(name: &[u8], value: &[u8]) -> bool {
    const FORBIDDEN: [&[u8]; 5] = [b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"];
    let token = |octet: &u8| octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(octet);
    let is_number = !value.is_empty()
        && value.iter().all(u8::is_ascii_digit)
        && std::str::from_utf8(value).is_ok_and(|text| text.parse::<u64>().is_ok());
    !name.is_empty()
        && name.iter().all(token)
        && !FORBIDDEN.contains(&name)
        && (name != b"te" || value.eq_ignore_ascii_case(b"trailers"))
        && (name != b"content-length" || is_number)
}

fn is_request_well_formed(fields: &[Field], end: bool) -> bool {
    let Some(judged) = Judged::new(fields, &[b":method", b":scheme", b":authority", b":path"]) else { return false };
    let hosts = judged.all(b"host");
    let authority = judged.pseudo(b":authority");
    let named = authority.or(hosts.first().copied());
    let in_authority = |octet: &u8| octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:[]%".contains(octet);
    let method = judged.pseudo(b":method").unwrap_or_default();
    let (scheme, path) = (judged.pseudo(b":scheme"), judged.pseudo(b":path"));
    let has_target = match method {
        b"CONNECT" => scheme.is_none() && path.is_none(),
        _ => {
            let path = path.unwrap_or_default();
            scheme.is_some_and(|scheme| !scheme.is_empty())
                && (path.starts_with(b"/") || (method == b"OPTIONS" && path == b"*"))
        }
    };
    !method.is_empty()
        && hosts.len() <= 1
        && (authority.is_none() || hosts.iter().all(|host| Some(*host) == authority))
        && named.is_some_and(|named| !named.is_empty() && named.iter().all(in_authority))
        && has_target
        && judged.content_length().is_some_and(|length| !end || length == 0)
}

fn is_response_well_formed(fields: &[Field], end: bool) -> bool {
    let Some(judged) = Judged::new(fields, &[b":status"]) else { return false };
    let Some(status) = judged.pseudo(b":status") else { return false };
    let [b'1'..=b'9', b'0'..=b'9', b'0'..=b'9'] = status else { return false };
    let Some(length) = judged.content_length() else { return false };
    match status {
        b"101" => false,
        [b'1', ..] => !end,
        b"204" | b"304" => true,
        _ => !end || length == 0,
    }
}
