//! What a server does with the first octets of a client of which it knows nothing.

use super::*;
use crate::error::Timeout;
use crate::http2::frame::{FrameHeader, HEADER_LEN, Kind, PREFACE};
use crate::sniff::Sniffed;

/// A server that has to find out, and what it sent.
struct Detecting {
    server: Connection<Server>,
    input: RecvBuf,
    out: Transmit,
    sent: Vec<u8>,
    now: Instant,
}

impl Detecting {
    fn new() -> Self {
        Self::of(None)
    }

    fn of(version: Option<HttpVersion>) -> Self {
        let now = Instant::from_nanos(5_000_000_000);
        let server = Connection::<Server>::new(Arc::new(Config::default()), version, now);
        Self { server, input: RecvBuf::new(4096), out: Transmit::new(), sent: Vec::new(), now }
    }

    fn receive(&mut self, octets: &[u8]) {
        self.input.extend(octets);
        self.server.handle_input(&mut self.input, self.now);
        self.flush();
    }

    fn flush(&mut self) {
        while self.server.poll_transmit(&mut self.out, self.now) || !self.out.is_empty() {
            self.sent.extend(self.out.chunks().flatten().copied());
            self.out.advance(self.out.len());
        }
    }

    /// Kinds of the frames that were sent.
    fn kinds(&self) -> Vec<Kind> {
        let (mut kinds, mut rest) = (Vec::new(), &self.sent[..]);
        while let Some((header, behind)) = rest.split_first_chunk::<HEADER_LEN>() {
            let header = FrameHeader::decode(*header);
            kinds.push(header.kind);
            rest = &behind[header.len as usize..];
        }
        kinds
    }

    fn error(&mut self) -> Option<ConnectionError> {
        loop {
            match self.server.poll_event()? {
                Event::Closed(error) => return Some(error),
                event => assert_ne!(event, Event::Incoming),
            }
        }
    }

    #[track_caller]
    fn assert_ended_silently(&mut self, error: &ConnectionError) {
        self.flush();
        assert_eq!(self.error().as_ref(), Some(error));
        assert!(self.server.is_closed() && self.sent.is_empty(), "{:?}", self.sent);
        self.receive(PREFACE);
        assert!(self.sent.is_empty() && self.input.is_empty() && self.server.poll_timeout().is_none());
    }
}

/// Each way to cut `octets` in two, none of them at all among these.
fn splits(octets: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    (0..=octets.len()).map(|at| octets.split_at(at))
}

/// `h2:B82`, `h2:B43`: SETTINGS wait for the fourth octet of the preface, and for nothing else.
#[test]
fn a_server_greets_once_it_knows_that_http2_is_spoken() {
    for (first, rest) in splits(PREFACE) {
        let mut detecting = Detecting::new();
        detecting.receive(first);
        let greets = first.len() >= 4;
        assert_eq!(detecting.kinds().first(), greets.then_some(&Kind::SETTINGS), "after {}", first.len());
        assert!(!detecting.server.wants_poll() && !detecting.server.is_closed());
        detecting.receive(rest);
        assert_eq!(detecting.kinds().first(), Some(&Kind::SETTINGS));
        assert!(detecting.input.is_empty() && detecting.error().is_none());
    }
}

/// `h2:B82`: octet by octet, a client is served as if its version had been known.
#[test]
fn a_call_succeeds_whose_connection_was_detected() {
    let mut pair = Pair::new();
    pair.server = Connection::<Server>::new(Arc::new(Config::default()), None, pair.now);
    let id = pair.open_unary(&CallOptions::default(), b"ping");
    let (out, input) = &mut pair.to_server;
    while pair.client.poll_transmit(out, pair.now) || !out.is_empty() {
        let octets: Vec<u8> = out.chunks().flatten().copied().collect();
        out.advance(octets.len());
        for octet in octets {
            input.extend(&[octet]);
            pair.server.handle_input(input, pair.now);
        }
    }
    let call = pair.accept(CallKind::Unary);
    let now = pair.now;
    let pong = Bytes::from_static(b"pong");
    pair.server_call(call).respond(&Octets, &pong, &Metadata::new(), &Metadata::new(), now).unwrap();
    pair.drive();
    assert_eq!(message(pair.client_call(id).recv()), b"pong");
    assert!(pair.status(id).is_ok());
    pair.assert_quiet();
}

/// `h2:B82`: who speaks something else is left without a word, wherever the octets are cut.
#[test]
fn other_protocols_are_answered_by_nothing() {
    for (octets, protocol, text) in [
        (&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], Sniffed::Http1, "HTTP/1"),
        (b"POST /t.Echo/Say HTTP/1.1\r\n", Sniffed::Http1, "HTTP/1"),
        (b"PROPFIND / HTTP/1.1\r\n", Sniffed::Http1, "HTTP/1"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", Sniffed::Tls, "TLS"),
        (b"\xda\xbb\xc2\x00\x00\x00\x00\x00\x00\x00\x00\x01", Sniffed::Dubbo2, "dubbo2"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", Sniffed::Proxy, "the PROXY protocol"),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", Sniffed::Proxy, "the PROXY protocol"),
        (b"*1\r\n$4\r\nPING\r\n", Sniffed::Unknown, "an unknown protocol"),
        (b"\0\0\x12\x04\0\0\0\0\0", Sniffed::Unknown, "an unknown protocol"),
        (b"PRIX / HTTP/1.1\r\n", Sniffed::Unknown, "an unknown protocol"),
    ] {
        for (first, rest) in splits(octets) {
            let mut detecting = Detecting::new();
            detecting.receive(first);
            detecting.receive(rest);
            let error = ConnectionError::Foreign(protocol);
            assert_eq!(error.to_string(), format!("the peer speaks {text}, not HTTP/2"));
            detecting.assert_ended_silently(&error);
        }
    }
}

/// `h2:B82`, `h2:F28`: a preface that goes wrong later is HTTP/2 gone wrong, and is told so behind SETTINGS.
#[test]
fn a_preface_that_breaks_off_is_told_by_goaway() {
    let broken = |at: usize| {
        let mut preface = PREFACE.to_vec();
        preface[at] ^= 0x20;
        preface
    };
    for at in 4..PREFACE.len() {
        for (first, rest) in splits(&broken(at)) {
            let mut detecting = Detecting::new();
            detecting.receive(first);
            detecting.receive(rest);
            assert_eq!(detecting.kinds().first(), Some(&Kind::SETTINGS));
            assert_eq!(detecting.kinds().last(), Some(&Kind::GOAWAY), "broken at {at}");
            assert!(matches!(detecting.error(), Some(ConnectionError::Misbehaved(fault))
                if fault.code == ErrorCode::PROTOCOL_ERROR));
            assert!(detecting.server.is_closed());
        }
    }
}

/// `h2:B82`, `h2:A27`: the deadline runs from when the connection was accepted, whatever few octets come meanwhile.
#[test]
fn who_does_not_begin_in_time_is_left_without_a_word() {
    for begun in [&b""[..], b"P", b"PRI", b"PROX"] {
        let mut detecting = Detecting::new();
        let begin = detecting.now;
        let limit = Config::default().handshake_timeout.unwrap();
        detecting.now = begin + limit / 2;
        detecting.receive(begun);
        assert_eq!(detecting.server.poll_timeout(), Some(begin + limit));
        detecting.now = begin + limit;
        detecting.server.handle_timeout(detecting.now);
        detecting.assert_ended_silently(&ConnectionError::Timeout(Timeout::Handshake));
    }
}

/// `h2:B82`
#[test]
fn a_client_that_leaves_before_it_says_anything_is_answered_by_nothing() {
    let mut detecting = Detecting::new();
    detecting.receive(b"PR");
    detecting.server.handle_eof(detecting.now);
    detecting.assert_ended_silently(&ConnectionError::Transport(TransportError::Eof));
}

/// A client whose first octets are under way learns that the server goes away.
#[test]
fn a_server_that_shuts_down_says_so_once_it_is_understood() {
    let mut detecting = Detecting::new();
    detecting.server.shutdown(detecting.now);
    detecting.flush();
    assert!(detecting.sent.is_empty());
    detecting.receive(PREFACE);
    assert_eq!(detecting.kinds()[0], Kind::SETTINGS);
    assert!(detecting.kinds().contains(&Kind::GOAWAY));
}

/// `h2:F28`: where the version is known, SETTINGS leave at once, and whoever speaks something else is told by GOAWAY.
#[test]
fn with_prior_knowledge_nothing_is_waited_for() {
    let mut known = Detecting::of(Some(HttpVersion::Http2));
    known.flush();
    assert_eq!(known.kinds(), [Kind::SETTINGS, Kind::WINDOW_UPDATE]);
    known.receive(b"GET / HTTP/1.1\r\n");
    assert_eq!(known.kinds(), [Kind::SETTINGS, Kind::WINDOW_UPDATE, Kind::GOAWAY]);
    assert!(matches!(known.error(), Some(ConnectionError::Misbehaved(_))));
}

/// `h2:U8`: a server that answers our preface in HTTP/1 is named as such, at whatever split.
#[test]
fn a_client_says_that_the_server_speaks_http1() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
    for (first, rest) in splits(answer) {
        let mut pair = Pair::new();
        let id = pair.open_unary(&CallOptions::default(), b"ping");
        for piece in [first, rest] {
            let (_, input) = &mut pair.to_client;
            input.extend(piece);
            pair.client.handle_input(input, pair.now);
        }
        let status = pair.client_call(id).release().expect("an outcome");
        assert!(status.message().contains("the peer speaks HTTP/1, not HTTP/2"), "{status:?}");
        assert_eq!(status.origin(), Origin::Peer);
    }
}
