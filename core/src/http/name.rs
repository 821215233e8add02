//! Field names (RFC 9110 §5.1, RFC 9113 §8.2): a number for the known ones, bytes for the rest.

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use bytes::Bytes;

/// A field name, in lower case.
///
/// Names of HPACK's static table and of the RPC protocols are *known*: they are a number, compare as
/// numbers, and HPACK finds their place in its tables without looking at their text. Every
/// constructor interns, so a known text is never held as bytes.
#[derive(Clone)]
pub struct HeaderName(Repr);

#[derive(Clone)]
enum Repr {
    /// Index into [`TEXTS`].
    Known(u8),
    /// Any other name. Never the text of a known one.
    Custom(Bytes),
}

/// Bytes that are no field name: empty, or with anything but the lower-case `tchar`s of RFC 9110 §5.6.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidHeaderName;

impl fmt::Display for InvalidHeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a field name: it takes lower-case letters, digits and !#$%&'*+-.^_`|~")
    }
}

impl core::error::Error for InvalidHeaderName {}

macro_rules! known_names {
    ($($name:ident $text:literal)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u8)]
        enum Index {
            $($name,)*
        }

        impl HeaderName {
            $(
                #[doc = concat!("`", $text, "`.")]
                #[allow(clippy::declare_interior_mutable_const)] // the known form holds no `Bytes`
                pub const $name: Self = Self(Repr::Known(Index::$name as u8));
            )*

            /// How many names are known; every known index is below it.
            pub(crate) const KNOWN: usize = TEXTS.len();
        }

        /// Texts of the known names, by index.
        const TEXTS: &[&str] = &[$($text),*];
    };
}

// Pseudo fields first (`is_pseudo` relies on it). The numbers are private to this process.
known_names! {
    AUTHORITY ":authority"
    METHOD ":method"
    PATH ":path"
    SCHEME ":scheme"
    STATUS ":status"
    PROTOCOL ":protocol"

    ACCEPT_CHARSET "accept-charset"
    ACCEPT_ENCODING "accept-encoding"
    ACCEPT_LANGUAGE "accept-language"
    ACCEPT_RANGES "accept-ranges"
    ACCEPT "accept"
    ACCESS_CONTROL_ALLOW_ORIGIN "access-control-allow-origin"
    AGE "age"
    ALLOW "allow"
    AUTHORIZATION "authorization"
    CACHE_CONTROL "cache-control"
    CONTENT_DISPOSITION "content-disposition"
    CONTENT_ENCODING "content-encoding"
    CONTENT_LANGUAGE "content-language"
    CONTENT_LENGTH "content-length"
    CONTENT_LOCATION "content-location"
    CONTENT_RANGE "content-range"
    CONTENT_TYPE "content-type"
    COOKIE "cookie"
    DATE "date"
    ETAG "etag"
    EXPECT "expect"
    EXPIRES "expires"
    FROM "from"
    HOST "host"
    IF_MATCH "if-match"
    IF_MODIFIED_SINCE "if-modified-since"
    IF_NONE_MATCH "if-none-match"
    IF_RANGE "if-range"
    IF_UNMODIFIED_SINCE "if-unmodified-since"
    LAST_MODIFIED "last-modified"
    LINK "link"
    LOCATION "location"
    MAX_FORWARDS "max-forwards"
    PROXY_AUTHENTICATE "proxy-authenticate"
    PROXY_AUTHORIZATION "proxy-authorization"
    RANGE "range"
    REFERER "referer"
    REFRESH "refresh"
    RETRY_AFTER "retry-after"
    SERVER "server"
    SET_COOKIE "set-cookie"
    STRICT_TRANSPORT_SECURITY "strict-transport-security"
    TRANSFER_ENCODING "transfer-encoding"
    USER_AGENT "user-agent"
    VARY "vary"
    VIA "via"
    WWW_AUTHENTICATE "www-authenticate"

    ACCEPT_POST "accept-post"
    CONNECTION "connection"
    KEEP_ALIVE "keep-alive"
    PRIORITY "priority"
    PROXY_CONNECTION "proxy-connection"
    TE "te"
    TRAILER "trailer"
    UPGRADE "upgrade"

    BAGGAGE "baggage"
    TRACEPARENT "traceparent"
    TRACESTATE "tracestate"
    X_FORWARDED_FOR "x-forwarded-for"
    X_REQUEST_ID "x-request-id"

    GRPC_ACCEPT_ENCODING "grpc-accept-encoding"
    GRPC_ENCODING "grpc-encoding"
    GRPC_MESSAGE "grpc-message"
    GRPC_PREVIOUS_RPC_ATTEMPTS "grpc-previous-rpc-attempts"
    GRPC_RETRY_PUSHBACK_MS "grpc-retry-pushback-ms"
    GRPC_STATUS "grpc-status"
    GRPC_STATUS_DETAILS_BIN "grpc-status-details-bin"
    GRPC_TAGS_BIN "grpc-tags-bin"
    GRPC_TIMEOUT "grpc-timeout"
    GRPC_TRACE_BIN "grpc-trace-bin"
    X_GRPC_WEB "x-grpc-web"
    X_USER_AGENT "x-user-agent"

    TRI_CONSUMER_APPNAME "tri-consumer-appname"
    TRI_EXCEPTION_CODE "tri-exception-code"
    TRI_HEADER_CONVERT "tri-header-convert"
    TRI_PROTOCOL_VERSION "tri-protocol-version"
    TRI_REQ_ID "tri-req-id"
    TRI_SERVICE_GROUP "tri-service-group"
    TRI_SERVICE_TIMEOUT "tri-service-timeout"
    TRI_SERVICE_VERSION "tri-service-version"
    TRI_TRACE_PROTO_BIN "tri-trace-proto-bin"
    TRI_TRACE_RPCID "tri-trace-rpcid"
    TRI_TRACE_TRACEID "tri-trace-traceid"
    TRI_UNIT_INFO "tri-unit-info"
    REST_SERVICE_GROUP "rest-service-group"
    REST_SERVICE_TIMEOUT "rest-service-timeout"
    REST_SERVICE_VERSION "rest-service-version"
    TRIPLE_PROTOCOL_VERSION "triple-protocol-version"
    TRIPLE_TIMEOUT_MS "triple-timeout-ms"

    CONNECT_ACCEPT_ENCODING "connect-accept-encoding"
    CONNECT_CONTENT_ENCODING "connect-content-encoding"
    CONNECT_PROTOCOL_VERSION "connect-protocol-version"
    CONNECT_TIMEOUT_MS "connect-timeout-ms"
}

/// Pseudo fields come first in [`TEXTS`].
const PSEUDO: u8 = Index::PROTOCOL as u8 + 1;

impl HeaderName {
    /// A name from a constant.
    ///
    /// # Panics
    /// If `name` is not a valid name (upper case, blanks, an unknown pseudo field); in a `const` that
    /// is an error of the compiler.
    pub const fn from_static(name: &'static str) -> Self {
        match lookup(name.as_bytes()) {
            Some(index) => Self(Repr::Known(index)),
            None => {
                assert!(is_valid(name.as_bytes()), "not a lower-case field name");
                Self(Repr::Custom(Bytes::from_static(name.as_bytes())))
            }
        }
    }

    /// A name from bytes, which are kept without a copy.
    ///
    /// # Errors
    /// The bytes are no lower-case field name, or name a pseudo field: those exist as constants only.
    pub fn from_bytes(name: Bytes) -> Result<Self, InvalidHeaderName> {
        if !is_valid(&name) {
            return Err(InvalidHeaderName);
        }
        Ok(Self::from_wire(name))
    }

    /// A name as a peer sent it: interned, but valid only if [`is_valid`](Self::is_valid) says so.
    pub fn from_wire(name: Bytes) -> Self {
        match lookup(&name) {
            Some(index) => Self(Repr::Known(index)),
            None => Self(Repr::Custom(name)),
        }
    }

    /// [`from_wire`](Self::from_wire), where `keep` gives the bytes of a name that must be kept.
    pub(crate) fn from_wire_with(name: &[u8], keep: impl FnOnce() -> Bytes) -> Self {
        match lookup(name) {
            Some(index) => Self(Repr::Known(index)),
            None => Self(Repr::Custom(keep())),
        }
    }

    /// The text of the name.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Known(index) => text(*index).as_bytes(),
            Repr::Custom(bytes) => bytes,
        }
    }

    /// The text of the name; empty for an invalid name off the wire that is not even UTF-8.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(index) => text(*index),
            Repr::Custom(bytes) => core::str::from_utf8(bytes).unwrap_or_default(),
        }
    }

    /// Whether the name begins with a colon (RFC 9113 §8.3), known or not.
    pub fn is_pseudo(&self) -> bool {
        match &self.0 {
            Repr::Known(index) => *index < PSEUDO,
            Repr::Custom(bytes) => bytes.first() == Some(&b':'),
        }
    }

    /// Whether the field is about a connection of HTTP/1, so that HTTP/2 does not carry it (RFC 9113 §8.2.2).
    pub fn is_connection_specific(&self) -> bool {
        const NAMES: [HeaderName; 5] = [
            HeaderName::CONNECTION,
            HeaderName::KEEP_ALIVE,
            HeaderName::PROXY_CONNECTION,
            HeaderName::TRANSFER_ENCODING,
            HeaderName::UPGRADE,
        ];
        NAMES.contains(self)
    }

    /// Whether this is a known pseudo field or a lower-case token. Only names
    /// [from the wire](Self::from_wire) can fail.
    pub fn is_valid(&self) -> bool {
        match &self.0 {
            Repr::Known(_) => true,
            Repr::Custom(bytes) => is_valid(bytes),
        }
    }

    /// Index of the known name `text`, below [`KNOWN`](Self::KNOWN).
    pub(crate) const fn known(text: &[u8]) -> Option<u8> {
        lookup(text)
    }

    /// The known name with this index.
    pub(crate) const fn from_known(index: u8) -> Self {
        assert!((index as usize) < Self::KNOWN);
        Self(Repr::Known(index))
    }

    /// Index of this name if it is known, below [`KNOWN`](Self::KNOWN).
    pub(crate) const fn known_index(&self) -> Option<usize> {
        match &self.0 {
            Repr::Known(index) => Some(*index as usize),
            Repr::Custom(_) => None,
        }
    }

    /// Whether values of this name are credentials: never indexed by HPACK, never printed.
    pub(crate) fn is_secret(&self) -> bool {
        const SECRET: [u8; 4] = [
            Index::AUTHORIZATION as u8,
            Index::COOKIE as u8,
            Index::PROXY_AUTHORIZATION as u8,
            Index::SET_COOKIE as u8,
        ];
        matches!(&self.0, Repr::Known(index) if SECRET.contains(index))
    }

    /// The same name in memory that `copy` finds, for whoever keeps it longer than a receive window may live.
    pub(crate) fn detached(&self, copy: impl FnOnce(&[u8]) -> Bytes) -> Self {
        match &self.0 {
            Repr::Known(index) => Self(Repr::Known(*index)),
            Repr::Custom(bytes) => Self(Repr::Custom(copy(bytes))),
        }
    }
}

impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Known(a), Repr::Known(b)) => a == b,
            (Repr::Custom(a), Repr::Custom(b)) => a == b,
            _ => false, // known texts are always interned
        }
    }
}

impl Eq for HeaderName {}

impl Hash for HeaderName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl PartialOrd for HeaderName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for HeaderName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl AsRef<[u8]> for HeaderName {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

impl fmt::Debug for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[expect(clippy::indexing_slicing, reason = "an index is only ever made from `Index` or `lookup`")]
const fn text(index: u8) -> &'static str {
    TEXTS[index as usize]
}

/// The `tchar`s of RFC 9110 §5.6.2 less the upper-case letters, which RFC 9113 §8.2.1 forbids.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = matches!(i as u8, b'a'..=b'z' | b'0'..=b'9' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\''
            | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        i += 1;
    }
    table
};

#[expect(clippy::indexing_slicing, reason = "`i` is below the length, an octet below 256")]
const fn is_valid(name: &[u8]) -> bool {
    let mut i = 0;
    while i < name.len() {
        if !TOKEN[name[i] as usize] {
            return false;
        }
        i += 1;
    }
    !name.is_empty()
}

/// A quick hash for tables that live in one process and hold few entries; not for untrusted growth.
pub(crate) const fn hash(seed: u32, bytes: &[u8]) -> u32 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15; // 2^64 / golden ratio
    let mut state = (seed as u64) ^ (bytes.len() as u64);
    let mut rest = bytes;
    while let Some((chunk, tail)) = rest.split_first_chunk::<8>() {
        state = (state.rotate_left(23) ^ u64::from_le_bytes(*chunk)).wrapping_mul(MULTIPLIER);
        rest = tail;
    }
    let mut last = 0u64;
    if let Some(chunk) = bytes.last_chunk::<8>() {
        last = u64::from_le_bytes(*chunk); // some of it for the second time
    } else if let (Some(front), Some(back)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        last = ((u32::from_le_bytes(*front) as u64) << 32) | u32::from_le_bytes(*back) as u64;
    } else {
        while let Some((&byte, tail)) = rest.split_first() {
            last = (last << 8) | byte as u64;
            rest = tail;
        }
    }
    state = (state.rotate_left(23) ^ last).wrapping_mul(MULTIPLIER);
    (state >> 32) as u32
}

const SLOTS: usize = 256;
const EMPTY: u8 = u8::MAX;

/// Open-addressed hash of [`TEXTS`], built by the compiler.
#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const SLOT: [u8; SLOTS] = {
    assert!(TEXTS.len() < SLOTS / 2, "a crowded table is a slow one");
    let mut slots = [EMPTY; SLOTS];
    let mut index = 0;
    while index < TEXTS.len() {
        let mut at = hash(0, TEXTS[index].as_bytes()) as usize % SLOTS;
        while slots[at] != EMPTY {
            at = (at + 1) % SLOTS;
        }
        slots[at] = index as u8;
        index += 1;
    }
    slots
};

#[expect(clippy::indexing_slicing, reason = "a remainder of `SLOTS`; a slot holds the index of a text")]
const fn lookup(name: &[u8]) -> Option<u8> {
    let mut at = hash(0, name) as usize % SLOTS;
    while SLOT[at] != EMPTY {
        if equal(TEXTS[SLOT[at] as usize].as_bytes(), name) {
            return Some(SLOT[at]);
        }
        at = (at + 1) % SLOTS;
    }
    None
}

/// `==` of slices, which is not `const`.
#[expect(clippy::indexing_slicing, reason = "`i` is below both lengths")]
const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use std::collections::HashSet;

    use super::*;

    /// `h2:K14`: whatever way a known name comes in, it is a number afterwards.
    #[test]
    fn every_known_text_is_interned_by_every_constructor() {
        for (index, text) in TEXTS.iter().enumerate() {
            assert_eq!(HeaderName::from_static(text).known_index(), Some(index), "{text}");
            let wire = HeaderName::from_wire(Bytes::from(String::from(*text)));
            assert_eq!(wire.known_index(), Some(index), "{text}");
            assert_eq!(wire.as_str(), *text);
            assert!(wire.is_valid());
            assert_eq!(wire.is_pseudo(), text.starts_with(':'), "{text}");
        }
        assert_eq!(TEXTS.iter().collect::<BTreeSet<_>>().len(), TEXTS.len(), "no text twice");
    }

    #[test]
    fn constants_are_promoted_and_compare_with_names_off_the_wire() {
        static NAME: &HeaderName = &HeaderName::GRPC_TIMEOUT;
        assert_eq!(*NAME, HeaderName::from_wire(Bytes::from_static(b"grpc-timeout")));
        const CUSTOM: HeaderName = HeaderName::from_static("x-own");
        assert_eq!(CUSTOM, HeaderName::from_bytes(Bytes::from_static(b"x-own")).unwrap());
        assert_ne!(CUSTOM, HeaderName::TE);
    }

    #[test]
    fn names_order_and_hash_by_text() {
        let texts = ["zeta", "te", "accept", "x-a", "grpc-status", "a"];
        let mut names: Vec<_> = texts.iter().map(|t| HeaderName::from_static(t)).collect();
        names.sort();
        let sorted: Vec<_> = names.iter().map(HeaderName::as_str).collect();
        assert_eq!(sorted, ["a", "accept", "grpc-status", "te", "x-a", "zeta"]);
        let set: HashSet<_> = names.into_iter().collect();
        assert!(texts.iter().all(|t| set.contains(&HeaderName::from_static(t))));
    }

    /// `h2:V1`: exactly the lower-case `tchar`s make a name.
    #[test]
    fn each_octet_is_accepted_in_a_name_only_if_it_is_a_lower_case_tchar() {
        for octet in 0..=255u8 {
            let good = octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&octet);
            for name in [&[octet][..], &[b'a', octet], &[octet, b'a']] {
                let bytes = Bytes::copy_from_slice(name);
                assert_eq!(HeaderName::from_bytes(bytes.clone()).is_ok(), good, "{name:?}");
                assert_eq!(HeaderName::from_wire(bytes).is_valid(), good, "{name:?}");
            }
        }
        assert_eq!(HeaderName::from_bytes(Bytes::new()), Err(InvalidHeaderName));
        assert!(!HeaderName::from_wire(Bytes::new()).is_valid());
        assert_eq!(HeaderName::from_bytes(Bytes::from_static(b":status")), Err(InvalidHeaderName));
    }

    #[test]
    fn an_unknown_pseudo_name_is_pseudo_and_invalid() {
        let name = HeaderName::from_wire(Bytes::from_static(b":other"));
        assert!(name.is_pseudo());
        assert!(!name.is_valid());
    }

    #[test]
    fn a_name_that_is_not_text_prints_escaped() {
        let name = HeaderName::from_wire(Bytes::from_static(b"a\xff\n"));
        assert_eq!(name.as_str(), "");
        assert_eq!(format!("{name:?}"), "a\\xff\\n");
    }

    #[test]
    #[should_panic(expected = "lower-case")]
    fn an_upper_case_constant_is_refused() {
        let _ = HeaderName::from_static("X-Own");
    }
}
