//! Triple's unary calls between two connections: what goes on the wire, in how many writes, and in any split.

use bytes::{Buf, Bytes};
use trirpc_core::buf::Encoded;
use trirpc_core::call::{
    CallKind, CallOptions, Code, Metadata, MethodSpec, Origin, Protocol, Recv, Status, TripleHeaders,
};
use trirpc_core::{CallId, Event, SendError};
use trirpc_tests::pair::{Pair, Setup};
use trirpc_tests::pipe::{Chunks, Pipe};
use trirpc_tests::random::Random;
use trirpc_tests::trace::{Frame, Side};

static UNARY: MethodSpec = MethodSpec::new("/trirpc.test.v1.Echo/Say", CallKind::Unary, false);

fn encoded(message: &[u8]) -> Encoded {
    Encoded { bytes: Bytes::copy_from_slice(message), compressed: false }
}

fn options(protocol: Protocol, triple_headers: TripleHeaders) -> CallOptions {
    let mut options = CallOptions::default();
    options.protocol = Some(protocol);
    options.triple_headers = triple_headers;
    options
}

fn rows() -> [CallOptions; 4] {
    [
        options(Protocol::Grpc, TripleHeaders::DubboGo),
        options(Protocol::Triple, TripleHeaders::DubboGo),
        options(Protocol::Triple, TripleHeaders::DubboJs),
        options(Protocol::Connect, TripleHeaders::DubboGo),
    ]
}

fn open(pair: &mut Pair, options: &CallOptions, request: &[u8]) -> CallId {
    let now = pair.now();
    pair.client.open_unary_encoded(&UNARY, options, "proto", encoded(request), now).expect("a call")
}

/// Echoes message and metadata, or fails as the message says.
fn exchange(pair: &mut Pair) {
    loop {
        pair.drive();
        let now = pair.now();
        for event in std::mem::take(&mut pair.server_events) {
            match event {
                Event::Incoming => {
                    while let Some(id) = pair.server.accept() {
                        pair.server_call(id).expect(CallKind::Unary, now);
                    }
                }
                Event::Readable(id) => {
                    let mut call = pair.server_call(id);
                    let Recv::Message(mut message) = call.recv() else { panic!("no message in {id:?}") };
                    let message = message.copy_to_bytes(message.len());
                    let metadata = call.metadata().expect("metadata").clone();
                    if message == "fail" {
                        let head = call.send_head(&metadata, now);
                        call.finish(&Status::not_found("as asked"), &metadata, now).expect("an answer");
                        tolerable(head);
                    } else {
                        let echo = Encoded { bytes: message, compressed: false };
                        tolerable(call.respond_encoded(echo, &metadata, &metadata, now));
                    }
                }
                _ => {}
            }
        }
        if !pair.client.wants_poll() && !pair.server.wants_poll() {
            return;
        }
    }
}

/// Metadata may be more than the client takes, which it is told.
fn tolerable(sent: Result<(), SendError>) {
    assert!(matches!(sent, Ok(()) | Err(SendError::TooLarge { .. })), "{sent:?}");
}

/// The response, the head's metadata and the status of a finished call, which is let go.
fn outcome(pair: &mut Pair, id: CallId) -> (Option<Vec<u8>>, Metadata, Status) {
    let mut call = pair.client_call(id);
    let response = match call.recv() {
        Recv::Message(mut message) => Some(message.copy_to_bytes(message.len()).to_vec()),
        Recv::Blocked | Recv::End => None,
    };
    let metadata = call.metadata().cloned().unwrap_or_default();
    (response, metadata, call.release().expect("a status"))
}

fn frames(pair: &Pair, side: Side, stream: u32) -> Vec<(usize, Frame)> {
    let sent = pair.trace.sent_by(side).enumerate().filter(|(_, entry)| entry.stream == stream);
    sent.map(|(at, entry)| (at, entry.frame.clone())).collect()
}

fn field<'a>(fields: &'a [(String, String)], name: &str) -> &'a str {
    fields.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// bg:B2, tri:115 tri:186: HEADERS and one DATA each way, side by side and in one write.
#[test]
fn a_call_is_a_head_and_a_body_in_one_write_each_way() {
    let mut pair = Pair::default();
    pair.drive();
    let options = options(Protocol::Triple, TripleHeaders::DubboGo);
    for (round, request) in [&b"ping"[..], b"fail", &[7; 128]].into_iter().enumerate() {
        let (up, down) = (pair.up.writes().len(), pair.down.writes().len());
        let id = open(&mut pair, &options, request);
        exchange(&mut pair);
        outcome(&mut pair, id);
        assert_eq!((pair.up.writes().len() - up, pair.down.writes().len() - down), (1, 1), "call {round}");
        for (side, len) in [(Side::Client, request.len()), (Side::Server, if round == 1 { 41 } else { request.len() })]
        {
            let sent = frames(&pair, side, 2 * round as u32 + 1);
            let [(a, Frame::Headers { fields, end: false }), (b, Frame::Data { data, end: true, .. })] = &sent[..]
            else {
                panic!("{sent:?}")
            };
            assert_eq!((b - a, data.len()), (1, len));
            assert_eq!(field(fields, "content-length"), len.to_string());
            let is_error = side == Side::Server && round == 1;
            assert_eq!(field(fields, "content-type"), if is_error { "application/json" } else { "application/proto" });
            if is_error {
                assert_eq!(
                    (field(fields, ":status"), &data[..]),
                    ("404", &br#"{"code":"not_found","message":"as asked"}"#[..])
                );
            }
        }
    }
    pair.assert_quiet();
}

/// arch:U6, tri:186: an empty message is a head that ends the stream.
#[test]
fn an_empty_message_is_a_head_alone() {
    for options in &rows()[1..] {
        let mut pair = Pair::default();
        let id = open(&mut pair, options, b"");
        exchange(&mut pair);
        assert_eq!(outcome(&mut pair, id).0.as_deref(), Some(&b""[..]));
        for side in [Side::Client, Side::Server] {
            let sent = frames(&pair, side, 1);
            let [(_, Frame::Headers { fields, end: true })] = &sent[..] else { panic!("{sent:?}") };
            assert_eq!(field(fields, "content-length"), "0");
        }
        pair.assert_quiet();
    }
}

/// h2:P1: one cut, at every byte of both directions in turn, changes neither a frame nor the outcome.
#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let options = options(Protocol::Triple, TripleHeaders::DubboGo);
    let run = |cut: u64| {
        let pipe = || Pipe::new(Chunks::CutAt(vec![cut]));
        let mut pair = Setup { up: pipe(), down: pipe(), ..Setup::default() }.start();
        pair.drive();
        let ids = [&b"first"[..], b"fail", b""].map(|request| open(&mut pair, &options, request));
        exchange(&mut pair);
        let outcomes = ids.map(|id| outcome(&mut pair, id));
        pair.assert_quiet();
        let sent = [Side::Client, Side::Server].map(|side| pair.trace.sent_by(side).cloned().collect::<Vec<_>>());
        let len = [&pair.up, &pair.down].map(|pipe| pipe.writes().iter().sum::<usize>() as u64);
        (outcomes, sent, len)
    };
    let uncut = run(0);
    let end = *uncut.2.iter().max().expect("two directions");
    assert!(end > 200, "{end}");
    for cut in 1..end {
        assert_eq!(run(cut), uncut, "cut at {cut}");
    }
}

/// Calls of every dialect share a connection, whatever the network does to it.
#[test]
fn every_dialect_passes_through_any_network() {
    for seed in 0..30 {
        let mut pair = Setup::random_network(seed).start();
        let mut random = Random::new(seed);
        let mut calls = Vec::new();
        for round in 0..20 {
            let request = random.length(50_000);
            let request = random.bytes(request);
            calls.push((open(&mut pair, &rows()[round % 4], &request), request));
        }
        exchange(&mut pair);
        for (id, request) in calls {
            let (response, _, status) = outcome(&mut pair, id);
            assert!(status.is_ok() && response == Some(request), "seed {seed}: {status}");
        }
        pair.assert_quiet();
    }
}

/// Any metadata arrive by every row, with a response and with an error, or are refused with a reason.
#[test]
fn any_metadata_arrive_or_are_refused_with_a_reason() {
    fn survives(entries: Vec<(String, String, Vec<u8>)>, row: u8) -> bool {
        let mut metadata = Metadata::new();
        for (key, text, octets) in entries {
            let results = [
                metadata.append(&key, &text),
                metadata.append("x-text", &text),
                metadata.append_bin("x-data-bin", &octets),
                metadata.append_opaque("x-opaque", octets.into()),
            ];
            for error in results.into_iter().filter_map(Result::err) {
                assert!(error.to_string().contains(':'), "{error}");
            }
        }
        let mut pair = Pair::default();
        let mut options = rows()[usize::from(row % 4)].clone();
        options.metadata = metadata.clone();
        for request in [&b"ping"[..], b"fail"] {
            let now = pair.now();
            let id = match pair.client.open_unary_encoded(&UNARY, &options, "proto", encoded(request), now) {
                Ok(id) => id,
                // More than the peer takes.
                Err(error) => return error.to_string().contains("bytes"),
            };
            exchange(&mut pair);
            let (response, head, status) = outcome(&mut pair, id);
            // Head and trailers of a bare row are one list, which can be more than the peer takes.
            if status.code() == Code::ResourceExhausted {
                assert!(status.message().contains("bytes"), "{status}");
                continue;
            }
            assert_eq!(response.is_some(), request == b"ping");
            assert_eq!(head, metadata);
            // An error of a bare row has one list of fields, head and trailers.
            let mut expected = Metadata::new();
            if !status.is_ok() && row % 4 != 0 {
                expected.merge(metadata.clone());
            }
            expected.merge(metadata.clone());
            assert_eq!(status.metadata(), &expected);
        }
        true
    }
    // A backslash and a letter are no line end, neither for us nor for who judges our bytes.
    assert!((0..4).all(|row| survives(vec![(String::new(), r"\n".to_owned(), Vec::new())], row)));
    let property = survives as fn(Vec<(String, String, Vec<u8>)>, u8) -> bool;
    quickcheck::QuickCheck::new().tests(300).rng(quickcheck::Gen::new(30)).quickcheck(property);
}

/// triple-protocol §3.6: a body that is not as long as its head says is a fault of the stream, on both sides.
#[test]
fn a_length_that_is_not_the_bodys_ends_the_call() {
    use trirpc_core::buf::{RecvBuf, Transmit};
    use trirpc_core::{Config, Connection, HttpVersion, Instant, Server};
    for (length, body) in [(3, &b"four"[..]), (5, b"four"), (1, b"")] {
        let mut server = Connection::<Server>::new(Config::default().into(), Some(HttpVersion::Http2), Instant::ZERO);
        let mut block = b"\x83\x86\x44\x04/a/b\x41\x01h\x5f\x11application/proto\x5c\x01".to_vec();
        block.push(b'0' + length);
        let mut input = RecvBuf::new(16 * 1024);
        input.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        input.extend(&[0, 0, block.len() as u8, 1, 4, 0, 0, 0, 1]);
        input.extend(&block);
        input.extend(&[0, 0, body.len() as u8, 0, 1, 0, 0, 0, 1]);
        input.extend(body);
        server.handle_input(&mut input, Instant::ZERO);
        let mut output = Transmit::new();
        while server.poll_transmit(&mut output, Instant::ZERO) {}
        let sent: Vec<u8> = output.chunks().flatten().copied().collect();
        assert!(sent.ends_with(b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x01"), "RST_STREAM PROTOCOL_ERROR: {sent:?}");
    }
}

/// tri:123: HTTP's own refusals, as a client of ours reads them.
#[test]
fn an_unknown_method_is_404_with_an_explanation() {
    for (options, http) in [(&rows()[1], "404"), (&rows()[3], "501")] {
        let mut pair = Pair::default();
        let id = open(&mut pair, options, b"ping");
        pair.drive();
        let now = pair.now();
        let call = pair.server.accept().expect("a call");
        let status = Status::unimplemented("no such method");
        pair.server_call(call).finish(&status, &Metadata::new(), now).expect("an answer");
        pair.server_events.clear();
        pair.drive();
        let (_, _, read) = outcome(&mut pair, id);
        assert_eq!((read.code(), read.message(), read.origin()), (status.code(), status.message(), Origin::Peer));
        let sent = frames(&pair, Side::Server, 1);
        let (_, Frame::Headers { fields, .. }) = &sent[0] else { panic!("{sent:?}") };
        assert_eq!(field(fields, ":status"), http);
        pair.assert_quiet();
    }
}
