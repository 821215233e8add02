use alloc::vec::Vec;

use quickcheck::quickcheck;

use super::*;

/// All of it (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What each prefix says, octet by octet, and that the answer is not taken back.
fn decided_after(octets: &[u8]) -> Option<(usize, Sniffed)> {
    let answers: Vec<_> = (0..=octets.len()).map(|len| sniff(&octets[..len])).collect();
    let at = answers.iter().position(Option::is_some)?;
    assert!(answers[at..].iter().all(|answer| *answer == answers[at]), "{}", octets.escape_ascii());
    answers[at].map(|sniffed| (at, sniffed))
}

#[track_caller]
fn assert_sniffed(octets: &[u8], after: usize, sniffed: Sniffed) {
    assert_eq!(decided_after(octets), Some((after, sniffed)), "{}", octets.escape_ascii());
}

/// `h2:B82`: the preface is known by what nothing else may begin with, and what comes behind that is HTTP/2's to judge.
#[test]
fn http2_is_known_after_four_octets() {
    assert_sniffed(PREFACE, 4, Sniffed::Http2);
    assert_sniffed(b"PRI nothing of the kind", 4, Sniffed::Http2);
    assert_sniffed(b"PRI\t* HTTP/2.0\r\n", 4, Sniffed::Unknown);
    assert_sniffed(b"PRIOR / HTTP/1.1\r\n", 4, Sniffed::Unknown);
}

/// `h2:B82`: a method is HTTP/1 at its first octet, unless HTTP/2 or the PROXY protocol may still begin so.
#[test]
fn methods_of_http1_are_known_as_soon_as_they_differ() {
    for request in ["GET / HTTP/1.1\r\n", "HEAD /", "OPTIONS *", "DELETE /", "CONNECT a:1", "get /", "!odd / HTTP/1.1"]
    {
        assert_sniffed(request.as_bytes(), 1, Sniffed::Http1);
    }
    for request in ["POST / HTTP/1.1\r\n", "PUT /", "PATCH /", "P /"] {
        assert_sniffed(request.as_bytes(), 2, Sniffed::Http1);
    }
    assert_sniffed(b"PRX / HTTP/1.1\r\n", 3, Sniffed::Http1);
    assert_sniffed(b"PROPFIND / HTTP/1.1\r\n", 4, Sniffed::Http1);
    assert_sniffed(b"PROXIMITY / HTTP/1.1\r\n", 5, Sniffed::Http1);
}

/// `h2:B82`
#[test]
fn tls_and_dubbo2_are_known_by_their_first_two_octets() {
    assert_sniffed(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01], 2, Sniffed::Tls);
    assert_sniffed(&[0x16, 0x03, 0x03], 2, Sniffed::Tls);
    assert_sniffed(&[0xda, 0xbb, 0xc2, 0x00], 2, Sniffed::Dubbo2);
    assert_sniffed(&[0x16, 0x04], 2, Sniffed::Unknown);
    assert_sniffed(&[0xda, 0xbc], 2, Sniffed::Unknown);
}

/// `h2:B82`
#[test]
fn both_versions_of_the_proxy_protocol_are_known() {
    assert_sniffed(b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nPRI * HTTP/2.0\r\n", 6, Sniffed::Proxy);
    assert_sniffed(b"\r\n\r\n\0\r\nQUIT\n\x21\x11", 12, Sniffed::Proxy);
    assert_sniffed(b"\r\n\r\n\0\r\nQUIT\r", 12, Sniffed::Unknown);
    assert_sniffed(b"\r\nGET / HTTP/1.1\r\n", 3, Sniffed::Unknown);
}

/// `h2:B82`
#[test]
fn anything_else_is_unknown_at_its_first_octet() {
    for octets in [&b"*2\r\n$4\r\n"[..], b"$5", b" GET", b"\n", b"\0\0\x12\x04", b"\x80", b"\xff", b"(", b"{\"a\":1}"] {
        assert_sniffed(octets, 1, Sniffed::Unknown);
    }
}

quickcheck! {
    /// `h2:B82`: whatever comes, twelve octets are enough, and more change nothing.
    fn twelve_octets_decide(octets: Vec<u8>, known: u8, kept: u8) -> bool {
        let beginnings: [&[u8]; 6] = [PREFACE, PROXY_V1, PROXY_V2, TLS, DUBBO2, b"PROPFIND"];
        let beginning = beginnings[usize::from(known) % beginnings.len()];
        let mut stream = beginning[..usize::from(kept) % (beginning.len() + 1)].to_vec();
        stream.extend(octets);
        match decided_after(&stream) {
            Some((after, _)) => after <= 12,
            None => stream.len() < 12,
        }
    }
}
