//! Compression of messages: the algorithm as a trait, and the names on the wire (gRPC "Compression").

use core::fmt;

use bytes::{Buf, BytesMut};

use crate::encodings::IDENTITY;
use crate::error::CodecError;

/// A compression algorithm for whole messages. It runs outside any lock.
pub trait Compression: Send + Sync {
    /// Token on the wire: `gzip`, …
    fn name(&self) -> &'static str;

    /// Appends `src`, compressed, to `dst`.
    ///
    /// # Errors
    /// The algorithm failed.
    fn compress(&self, src: &mut dyn Buf, dst: &mut BytesMut) -> Result<(), CodecError>;

    /// Appends the whole of `src`, inflated, to `dst`; at most `limit` bytes, however many `src` would give.
    ///
    /// # Errors
    /// What is in `dst` then is of no use.
    fn decompress(&self, src: &mut dyn Buf, dst: &mut BytesMut, limit: usize) -> Result<(), DecompressError>;
}

/// Why a message could not be inflated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecompressError {
    /// It inflates to more than the limit.
    TooLarge,
    /// It is damaged or cut short, or something that is not compressed data follows.
    Malformed(CodecError),
}

impl From<CodecError> for DecompressError {
    fn from(error: CodecError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str("the message inflates to more than the limit"),
            Self::Malformed(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for DecompressError {}

/// What a peer announced for the messages it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// Nothing, an empty value, or `identity`.
    Identity,
    /// One that we know.
    Known(&'static str),
    /// One that we do not know.
    Unknown,
}

/// Reads an encoding header.
pub(crate) fn announced(value: Option<&[u8]>, known: &[&'static str]) -> Announced {
    match value.map(<[u8]>::trim_ascii) {
        None | Some(b"") => Announced::Identity,
        Some(token) if token == IDENTITY.as_bytes() => Announced::Identity,
        Some(token) => find(token, known).map_or(Announced::Unknown, Announced::Known),
    }
}

/// The encoding of a response: the request's own if it has one, else the first of the client's `accept` lists that
/// is in `send`; `None` is identity. Weights are not compared, but `q=0` excludes.
pub(crate) fn negotiate<'a>(
    request: Announced,
    accept: impl Iterator<Item = &'a [u8]>,
    send: &[&'static str],
) -> Option<&'static str> {
    if let Announced::Known(name) = request {
        return Some(name);
    }
    accept.flat_map(|list| list.split(|&octet| octet == b',')).find_map(|item| {
        let mut parts = item.split(|&octet| octet == b';').map(<[u8]>::trim_ascii);
        let token = parts.next()?;
        let excluded = parts.any(|parameter| matches!(parameter, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"));
        if excluded { None } else { find(token, send) }
    })
}

/// The name in `known` that equals `token`; names are exact, in lower case.
pub(crate) fn find(token: &[u8], known: &[&'static str]) -> Option<&'static str> {
    known.iter().copied().find(|name| name.as_bytes() == token)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["gzip", "zstd"];

    fn chosen(request: Announced, accept: &[&str]) -> Option<&'static str> {
        negotiate(request, accept.iter().map(|list| list.as_bytes()), KNOWN)
    }

    /// tri:Q69
    #[test]
    fn an_empty_or_identity_encoding_is_none() {
        for value in [None, Some("".as_bytes()), Some(b"identity"), Some(b" identity ")] {
            assert_eq!(announced(value, KNOWN), Announced::Identity);
        }
        assert_eq!(announced(Some(b"gzip"), KNOWN), Announced::Known("gzip"));
        for value in ["GZIP", "gzip,zstd", "br"] {
            assert_eq!(announced(Some(value.as_bytes()), KNOWN), Announced::Unknown);
        }
    }

    /// tri:59 tri:60 tri:61
    #[test]
    fn a_response_takes_the_requests_encoding_or_the_first_that_both_know() {
        assert_eq!(chosen(Announced::Known("zstd"), &["gzip"]), Some("zstd"));
        assert_eq!(chosen(Announced::Identity, &[]), None);
        assert_eq!(chosen(Announced::Identity, &["identity, deflate, zstd,gzip"]), Some("zstd"));
        assert_eq!(chosen(Announced::Identity, &["br", "snappy, gzip"]), Some("gzip"));
        assert_eq!(chosen(Announced::Identity, &["zstd;q=0, gzip;q=0.5"]), Some("gzip"));
        assert_eq!(chosen(Announced::Identity, &["", "GZIP"]), None);
    }
}
