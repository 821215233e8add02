//! Metadata: the headers and trailers of a call that belong to the application (gRPC over HTTP/2,
//! "Custom-Metadata").
//!
//! It is kept in wire form: what came from the peer is decoded on access, what goes out is moved into the header
//! block, and no value is copied on the way.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use core::fmt;

use bytes::Bytes;

use super::base64::{self, InvalidBase64};
use super::percent;
use crate::http::{Field, HeaderName, Headers, is_valid_value};

/// An ordered list of keys and values; keys may repeat.
///
/// Keys are lower case: `a`–`z`, `0`–`9`, `_`, `.`, `-`. Values of keys that end in `-bin` are bytes, all others are
/// text. The names that the protocol owns are never part of it.
///
/// ```
/// use trirpc_core::call::Metadata;
///
/// let mut metadata = Metadata::new();
/// metadata.append("tenant", "blue")?;
/// metadata.append_bin("trace-bin", &[0, 159])?;
/// assert_eq!(metadata.get("tenant").and_then(|value| value.to_str()), Some("blue"));
/// assert_eq!(metadata.get("trace-bin").unwrap().to_bytes().as_deref(), Ok(&[0, 159][..]));
/// assert!(metadata.append("grpc-status", "0").is_err());
/// # Ok::<(), trirpc_core::call::MetadataError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    fields: Headers,
}

impl Metadata {
    /// No entries; allocates nothing.
    pub const fn new() -> Self {
        Self { fields: Headers::new() }
    }

    /// Appends a text value. Blanks at its ends are not significant and are dropped; it may be empty.
    ///
    /// # Errors
    /// `key` is no legal key, is reserved, or ends in `-bin`; `value` is not printable ASCII.
    pub fn append(&mut self, key: &str, value: &str) -> Result<(), MetadataError> {
        self.append_ascii(key, value, false)
    }

    /// As [`append`](Self::append), for a secret: header compression never keeps it, and it is never printed.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn append_sensitive(&mut self, key: &str, value: &str) -> Result<(), MetadataError> {
        self.append_ascii(key, value, true)
    }

    /// Appends a text value as it is on the wire, which may hold bytes from 0x80 up: for proxies. Peers that see
    /// such bytes read them as Latin-1, or refuse the call.
    ///
    /// # Errors
    /// `key` is no legal key, is reserved, or ends in `-bin`; `value` holds a control character or a blank at an end.
    pub fn append_opaque(&mut self, key: &str, value: Bytes) -> Result<(), MetadataError> {
        self.append_text(key, value, false)
    }

    /// Appends a binary value; base64 is added here. It may be empty.
    ///
    /// # Errors
    /// `key` is no legal key, is reserved, or does not end in `-bin`.
    pub fn append_bin(&mut self, key: &str, value: &[u8]) -> Result<(), MetadataError> {
        let name = name(key)?;
        if !is_binary(&name) {
            return Err(MetadataError::new(key, Reason::NotBinary));
        }
        self.fields.push(name, base64::encode(value));
        Ok(())
    }

    fn append_ascii(&mut self, key: &str, value: &str, sensitive: bool) -> Result<(), MetadataError> {
        if let Some(character) = value.chars().find(|c| !matches!(c, ' '..='~')) {
            return Err(MetadataError::new(key, Reason::Text(character)));
        }
        self.append_text(key, Bytes::copy_from_slice(value.trim_matches(' ').as_bytes()), sensitive)
    }

    fn append_text(&mut self, key: &str, value: Bytes, sensitive: bool) -> Result<(), MetadataError> {
        let name = name(key)?;
        if is_binary(&name) {
            return Err(MetadataError::new(key, Reason::Binary));
        }
        if !is_valid_value(&value) {
            return Err(MetadataError::new(key, Reason::Opaque));
        }
        self.fields.push_field(Field { name, value, sensitive });
        Ok(())
    }

    /// The first value of `key`, in any case.
    pub fn get(&self, key: &str) -> Option<Value<'_>> {
        self.fields.iter().filter(|field| is_named(field, key)).flat_map(values).next()
    }

    /// Every value of `key`, in any case, in order.
    pub fn get_all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = Value<'a>> {
        self.fields.iter().filter(move |field| is_named(field, key)).flat_map(values)
    }

    /// Every entry, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Value<'_>)> {
        self.fields.iter().flat_map(|field| values(field).map(|value| (field.name.as_str(), value)))
    }

    /// Removes every value of `key`, in any case; returns whether there was one.
    pub fn remove(&mut self, key: &str) -> bool {
        let before = self.fields.len();
        self.fields.retain(|field| !is_named(field, key));
        self.fields.len() < before
    }

    /// Number of lines on the wire; a line of a `-bin` key may hold several values.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Appends the entries of `other`.
    pub fn merge(&mut self, other: Self) {
        if self.fields.is_empty() {
            self.fields = other.fields;
        } else {
            self.fields.extend(other.fields);
        }
    }

    /// The metadata among the fields of a head or of trailers: all but the names that the protocol owns.
    pub fn from_headers(mut headers: Headers) -> Self {
        headers.retain(|field| !is_reserved(&field.name));
        Self { fields: headers }
    }

    /// The lines as they go on the wire.
    pub const fn as_headers(&self) -> &Headers {
        &self.fields
    }

    /// Gives the lines away.
    pub fn into_headers(self) -> Headers {
        self.fields
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.fields, f)
    }
}

/// One value of [`Metadata`], in wire form.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    line: &'a Bytes,
    wire: &'a [u8],
    binary: bool,
}

impl<'a> Value<'a> {
    /// Whether its key ends in `-bin`.
    pub const fn is_binary(self) -> bool {
        self.binary
    }

    /// The octets on the wire: base64 for a binary value.
    pub const fn as_wire(self) -> &'a [u8] {
        self.wire
    }

    /// The text, if it is a text value in ASCII or UTF-8.
    pub fn to_str(self) -> Option<&'a str> {
        if self.binary { None } else { core::str::from_utf8(self.wire).ok() }
    }

    /// The octets on the wire as text: UTF-8, else Latin-1.
    pub fn to_text(self) -> Cow<'a, str> {
        percent::text(self.wire)
    }

    /// The bytes: decoded if it is a binary value, else shared with the metadata.
    ///
    /// # Errors
    /// The peer sent a binary value that is not base64.
    pub fn to_bytes(self) -> Result<Bytes, InvalidBase64> {
        if self.binary { base64::decode(self.wire).map(Bytes::from) } else { Ok(self.line.slice_ref(self.wire)) }
    }
}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.wire.escape_ascii())
    }
}

/// The values of one line: a `-bin` line may hold several, for receivers join lines with commas. In a text value
/// commas are data.
fn values(field: &Field) -> impl Iterator<Item = Value<'_>> {
    let binary = is_binary(&field.name);
    let parts = field.value.split(move |&octet| binary && octet == b',');
    parts.map(move |part| Value { line: &field.value, wire: part.trim_ascii(), binary })
}

fn is_named(field: &Field, key: &str) -> bool {
    field.name.as_bytes().eq_ignore_ascii_case(key.as_bytes())
}

fn is_binary(name: &HeaderName) -> bool {
    name.as_bytes().ends_with(b"-bin")
}

/// A key as a field name.
fn name(key: &str) -> Result<HeaderName, MetadataError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if let Some(character) = key.chars().find(|&c| !legal(c)) {
        return Err(MetadataError::new(key, Reason::Key(character)));
    }
    if key.is_empty() {
        return Err(MetadataError::new(key, Reason::Empty));
    }
    let name = HeaderName::from_wire(Bytes::from(key.to_ascii_lowercase()));
    if is_reserved(&name) { Err(MetadataError::new(key, Reason::Reserved)) } else { Ok(name) }
}

/// Names that the protocol or HTTP owns: never taken from an application, never shown to one.
fn is_reserved(name: &HeaderName) -> bool {
    const NAMES: [HeaderName; 16] = [
        HeaderName::TE,
        HeaderName::CONNECTION,
        HeaderName::KEEP_ALIVE,
        HeaderName::PROXY_CONNECTION,
        HeaderName::TRANSFER_ENCODING,
        HeaderName::UPGRADE,
        HeaderName::HOST,
        HeaderName::CONTENT_LENGTH,
        HeaderName::CONTENT_TYPE,
        HeaderName::CONTENT_ENCODING,
        HeaderName::ACCEPT_ENCODING,
        HeaderName::USER_AGENT,
        HeaderName::TRAILER,
        HeaderName::DATE,
        HeaderName::TRI_PROTOCOL_VERSION,
        HeaderName::TRI_SERVICE_TIMEOUT,
    ];
    // What begins with `trailer-` is a trailer in some dialects, by another name.
    const PREFIXES: [&[u8]; 4] = [b"grpc-", b"connect-", b"triple-", b"trailer-"];
    name.is_pseudo() || NAMES.contains(name) || PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix))
}

/// An entry that [`Metadata`] refused, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataError {
    key: String,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Empty,
    Key(char),
    Reserved,
    Text(char),
    Opaque,
    Binary,
    NotBinary,
}

impl MetadataError {
    fn new(key: &str, reason: Reason) -> Self {
        Self { key: key.to_string(), reason }
    }

    /// The key that was given.
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl fmt::Display for MetadataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key.escape_debug();
        match self.reason {
            Reason::Empty => f.write_str("a metadata key is empty: give it a name"),
            Reason::Key(c) => {
                write!(f, "metadata key `{key}` holds {c:?}: use letters, digits, `_`, `.` and `-`")
            }
            Reason::Reserved => write!(f, "metadata key `{key}` belongs to the protocol: choose another name"),
            Reason::Text(c) => write!(
                f,
                "the value of metadata key `{key}` holds {c:?}: text is printable ASCII; for anything else use a key \
                 that ends in `-bin` and append_bin"
            ),
            Reason::Opaque => write!(
                f,
                "the value of metadata key `{key}` holds a control character, or a blank at an end: remove it, or use \
                 a key that ends in `-bin` and append_bin"
            ),
            Reason::Binary => write!(f, "metadata key `{key}` ends in `-bin`: give its value as bytes, to append_bin"),
            Reason::NotBinary => write!(f, "metadata key `{key}` takes text: let it end in `-bin` to send bytes"),
        }
    }
}

impl core::error::Error for MetadataError {}

#[cfg(test)]
mod tests;
