//! Which protocol speaks on a byte stream, by its first octets.
//!
//! Nothing is consumed, and no more than three octets are ever needed: `PRI` begins no method of HTTP/1, so whatever
//! follows it is HTTP/2 or a fault of HTTP/2, which its engine answers.

/// What the first octets say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sniffed {
    /// Too few to say.
    Undecided,
    /// The preface of HTTP/2 (RFC 9113 §3.4), or what only it can become.
    Http2,
    /// A request line of HTTP/1, by the first octet of its method (RFC 9112 §3).
    Http1,
    /// A ClientHello of TLS, in its record (RFC 8446 §5.1).
    Tls,
    /// The binary protocol of Dubbo 2, which older clients of a service speak.
    Dubbo,
    /// None of them. Whoever sent it is owed no answer: it would not be understood.
    Unknown,
}

/// Octets after which there is always a decision.
pub const SNIFF_LEN: usize = 3;

/// Judges the first octets of a stream; later ones, if there are any, do not matter.
#[must_use]
pub const fn sniff(octets: &[u8]) -> Sniffed {
    match octets {
        [] | [b'P'] | [b'P', b'R'] | [0x16] | [0xda] => Sniffed::Undecided,
        [b'P', b'R', b'I', ..] => Sniffed::Http2,
        [0x16, 0x03, ..] => Sniffed::Tls,
        [0xda, 0xbb, ..] => Sniffed::Dubbo,
        // Every method that is registered begins with a letter, and so do those that people make up.
        [first, ..] if first.is_ascii_alphabetic() => Sniffed::Http1,
        _ => Sniffed::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::frame::PREFACE;

    /// `h2:B82`, checklist §9.3: each protocol by as few octets as it takes.
    #[test]
    fn first_octets_decide() {
        for (octets, expected) in [
            (&b""[..], Sniffed::Undecided),
            (b"P", Sniffed::Undecided),
            (b"PR", Sniffed::Undecided),
            (b"PRI", Sniffed::Http2),
            (b"PRI * HTTP/2.0", Sniffed::Http2),
            (b"PRINT / HTTP/1.1", Sniffed::Http2),
            (b"PROPFIND / HTTP/1.1", Sniffed::Http1),
            (b"PO", Sniffed::Http1),
            (b"PUT / HTTP/1.1", Sniffed::Http1),
            (b"G", Sniffed::Http1),
            (b"get / HTTP/1.1", Sniffed::Http1),
            (b"\x16", Sniffed::Undecided),
            (b"\x16\x03", Sniffed::Tls),
            (b"\x16\x04", Sniffed::Unknown),
            (b"\xda", Sniffed::Undecided),
            (b"\xda\xbb\xc2\x00", Sniffed::Dubbo),
            (b"\xda\xbc", Sniffed::Unknown),
            (b"*1\r\n", Sniffed::Unknown),
            (b"$", Sniffed::Unknown),
            (b" GET", Sniffed::Unknown),
            (b"\0\0\0\x04\0", Sniffed::Unknown),
        ] {
            assert_eq!(sniff(octets), expected, "{:?}", octets.escape_ascii());
        }
    }

    /// More octets never change a decision, and three always make one.
    #[test]
    fn a_decision_stays() {
        quickcheck::quickcheck(property as fn(alloc::vec::Vec<u8>) -> bool);
        fn property(octets: alloc::vec::Vec<u8>) -> bool {
            let decisions = (0..=octets.len()).map(|n| sniff(&octets[..n]));
            let mut decided = None;
            for (n, decision) in decisions.enumerate() {
                match (decided, decision) {
                    (None, Sniffed::Undecided) => assert!(n < SNIFF_LEN),
                    (None, decision) => decided = Some(decision),
                    (Some(before), decision) => assert_eq!(before, decision),
                }
            }
            true
        }
        assert!((0..PREFACE.len()).all(|n| matches!(sniff(&PREFACE[..n]), Sniffed::Undecided | Sniffed::Http2)));
    }
}
