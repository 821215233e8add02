//! Which protocol is spoken on a connection, by the first octets that the client sends.

use core::fmt;

/// Beginning of HTTP/2's preface that nothing else has: its method is reserved (RFC 9113 §11.6).
const HTTP2: &[u8] = b"PRI ";

/// First line of the PROXY protocol, version 1, up to where it differs from one connection to another.
const PROXY_V1: &[u8] = b"PROXY ";
/// Signature of the PROXY protocol, version 2.
const PROXY_V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// A TLS record that holds a handshake, of any version.
const TLS: &[u8] = &[0x16, 0x03];
/// Magic number of dubbo2, the binary protocol of Dubbo.
const DUBBO2: &[u8] = &[0xda, 0xbb];

/// A protocol that begins with what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sniffed {
    /// HTTP/2 with prior knowledge (RFC 9113 §3.3): its preface, or at least the first four octets of it.
    Http2,
    /// HTTP/1: the beginning of a method.
    Http1,
    /// A ClientHello of TLS.
    Tls,
    /// Dubbo's binary protocol.
    Dubbo2,
    /// A header of the PROXY protocol, version 1 or 2; the connection's own protocol comes behind it.
    Proxy,
    /// Nothing that is known here.
    Unknown,
}

impl fmt::Display for Sniffed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http2 => "HTTP/2",
            Self::Http1 => "HTTP/1",
            Self::Tls => "TLS",
            Self::Dubbo2 => "dubbo2",
            Self::Proxy => "the PROXY protocol",
            Self::Unknown => "an unknown protocol",
        })
    }
}

/// Looks at the first octets of a connection, without consuming them. `None` while there are too few to tell.
///
/// At most 12 are looked at, and whether it is HTTP/2 is known after four. More octets never change an answer.
///
/// ```
/// use trirpc_core::{Sniffed, sniff};
///
/// assert_eq!(sniff(b"PR"), None);
/// assert_eq!(sniff(b"PRI * HTTP/2.0\r\n"), Some(Sniffed::Http2));
/// assert_eq!(sniff(b"PROPFIND / HTTP/1.1\r\n"), Some(Sniffed::Http1));
/// ```
pub fn sniff(octets: &[u8]) -> Option<Sniffed> {
    let first = *octets.first()?;
    let known = [
        (HTTP2, Sniffed::Http2),
        (PROXY_V1, Sniffed::Proxy),
        (PROXY_V2, Sniffed::Proxy),
        (TLS, Sniffed::Tls),
        (DUBBO2, Sniffed::Dubbo2),
    ];
    if let Some((_, sniffed)) = known.iter().find(|(beginning, _)| octets.starts_with(beginning)) {
        return Some(*sniffed);
    }
    if known.iter().any(|(beginning, _)| beginning.starts_with(octets)) {
        return None;
    }
    // HTTP/1 has no method of this name, and none that begins so is registered.
    let is_reserved = octets.starts_with(HTTP2.trim_ascii_end());
    Some(if begins_method(first) && !is_reserved { Sniffed::Http1 } else { Sniffed::Unknown })
}

/// Whether a method of HTTP/1 begins so: a token (RFC 9110 §5.6.2), without the two signs by which other protocols with
/// lines of text begin theirs.
fn begins_method(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || b"!#%&'+-.^_`|~".contains(&octet)
}

#[cfg(test)]
mod tests;
