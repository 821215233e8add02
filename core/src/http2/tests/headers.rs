//! Header blocks and what makes a message malformed (RFC 9113 §4.3, §8; checklist §2.5, §2.6).

use alloc::sync::Arc;

use super::*;

/// `base` with `name` set to `value`, or without it.
fn with<'a>(base: &[(&'a str, &'a str)], name: &'a str, value: Option<&'a str>) -> Vec<(&'a str, &'a str)> {
    let mut fields: Vec<_> = base.iter().copied().filter(|(known, _)| *known != name).collect();
    if let Some(value) = value {
        let at = if name.starts_with(':') { 0 } else { fields.len() };
        fields.insert(at, (name, value));
    }
    fields
}

/// Asserts that the request costs its stream and nothing else: PROTOCOL_ERROR, and the next one is served
/// with HPACK in step.
fn assert_malformed_request(fields: &[(&str, &str)], end: bool) {
    let mut server = Bench::server();
    let octets = server.headers(1, fields, end);
    assert_eq!(server.feed(&octets), [], "{fields:?}");
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::RST_STREAM, 1)], "{fields:?}");
    assert_eq!(frames[0].code(), ErrorCode::PROTOCOL_ERROR);
    let octets = server.headers(3, REQUEST, true);
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { .. }]), "{fields:?}");
}

fn assert_served(fields: &[(&str, &str)], end: bool) -> RequestHead {
    let mut server = Bench::server();
    let octets = server.headers(1, fields, end);
    let mut events = server.feed(&octets);
    match events.pop() {
        Some(Incoming::Request { head, .. }) if events.is_empty() => Arc::unwrap_or_clone(head),
        other => panic!("{fields:?}: {other:?}"),
    }
}

/// `h2:V1`–`h2:V7`, `h2:H4`, `h2:A11`, `h2:A38`, `h2:B29`, `h2:B48`, `h2:B63`, `h2:B65`: one vector for each
/// rule about fields.
#[test]
fn malformed_requests_cost_their_stream() {
    for (name, value) in [
        // V1: names
        ("", "x"),
        ("X-Upper", "x"),
        ("x y", "x"),
        ("x\u{7f}", "x"),
        ("x:y", "x"),
        // V2: values
        ("x-nul", "a\0b"),
        ("x-cr", "a\rb"),
        ("x-lf", "a\nb"),
        ("x-inner", "a\t\n"),
        ("x-del", "a\u{7f}"),
        ("grpc-message", "a\nb"), // lenient is for clients
        // V3: pseudo fields
        (":status", "200"),
        (":unknown", "x"),
        (":path", ""),
        (":method", ""),
        (":scheme", ""),
        // V4, V5, V6
        (":path", "no-slash"),
        (":path", "*"),
        (":authority", "user@host"),
        (":authority", "host/path"),
        (":authority", ""),
        (":protocol", "websocket"),
        ("host", "elsewhere"),
        // V7: connection-specific fields
        ("connection", "close"),
        ("proxy-connection", "x"),
        ("keep-alive", "x"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("te", "gzip"),
        ("te", "trailers, deflate"),
        // H4: content-length
        ("content-length", ""),
        ("content-length", "+5"),
        ("content-length", "-1"),
        ("content-length", "5, 5"),
        ("content-length", "1a"),
        ("content-length", "18446744073709551616"),
    ] {
        assert_malformed_request(&with(REQUEST, name, Some(value)), false);
    }
    for missing in [":method", ":scheme", ":path", ":authority"] {
        assert_malformed_request(&with(REQUEST, missing, None), false);
    }
    for repeated in [":method", ":scheme", ":path", ":authority"] {
        let value = REQUEST.iter().find(|(name, _)| *name == repeated).unwrap().1;
        assert_malformed_request(&[&[(repeated, value)], REQUEST].concat(), false);
    }
    assert_malformed_request(&[REQUEST, &[(":path", "/late")]].concat(), false);
    assert_malformed_request(
        &[&with(REQUEST, ":authority", None)[..], &[("host", "a"), ("host", "a")]].concat(),
        false,
    );
    assert_malformed_request(&[REQUEST, &[("content-length", "1"), ("content-length", "2")]].concat(), false);
    assert_malformed_request(&with(REQUEST, ":method", Some("CONNECT")), false);
}

/// What looks similar and is right: `h2:V2`, `h2:V4`, `h2:V5`, `h2:V6`, `h2:V7`, `h2:B55`.
#[test]
fn unusual_requests_are_served() {
    assert_served(&with(REQUEST, "upgrade-insecure-requests", Some("1")), true);
    assert_served(&with(REQUEST, "te", Some("TRAILERS")), true);
    assert_served(&with(REQUEST, "x-empty", Some("")), true);
    assert_served(&with(REQUEST, "x-utf8", Some("gr\u{fc}n")), true);
    for (value, trimmed) in [(" two words\t", "two words"), ("\t", ""), ("a ", "a"), (" a", "a")] {
        let head = assert_served(&with(REQUEST, "x-blanks", Some(value)), true);
        assert_eq!(head.headers.get(&HeaderName::from_static("x-blanks")).unwrap(), trimmed, "dubbo-java sends them");
    }
    assert_served(&with(REQUEST, ":authority", Some("[::1]:50051")), true);
    let head = assert_served(&[REQUEST, &[("content-length", "7"), ("content-length", "7")]].concat(), false);
    assert_eq!(head.headers.get_all(&HeaderName::CONTENT_LENGTH).count(), 1, "h2:H4: identical ones are one");
    let head = assert_served(&with(&with(REQUEST, ":authority", None), "host", Some("only-host:1")), true);
    assert_eq!((&head.authority[..], head.headers.contains(&HeaderName::HOST)), (&b"only-host:1"[..], false));
    let head = assert_served(&with(REQUEST, "host", Some("localhost")), true);
    assert_eq!((&head.authority[..], head.headers.contains(&HeaderName::HOST)), (&b"localhost"[..], false));
    let options = with(&with(REQUEST, ":method", Some("OPTIONS")), ":path", Some("*"));
    assert_eq!(assert_served(&options, true).method, Method::Options);
    let head = assert_served(&[(":method", "CONNECT"), (":authority", "there:443")], false);
    assert_eq!((head.method, head.path.len()), (Method::Connect, 0));
    let head = assert_served(&[REQUEST, &[("k-bin", "AA"), ("k", "2"), ("k-bin", "BB")]].concat(), true);
    let values: Vec<_> = head.headers.get_all(&HeaderName::from_static("k-bin")).collect();
    assert_eq!(values, ["AA", "BB"], "repeated fields keep their order");
}

/// `h2:H5`, `h2:H7`, `h2:B26`, `h2:B37`, h2spec 8.1.2.6: `content-length` against what arrives.
#[test]
fn a_body_must_have_the_announced_length() {
    let fields = with(REQUEST, "content-length", Some("5"));
    assert_malformed_request(&fields, true);
    assert_served(&with(REQUEST, "content-length", Some("0")), true);
    let trailers: &[u8] = b"trailers";
    for (pieces, right) in [
        (vec![(&b"12345"[..], true)], true),
        (vec![(b"12", false), (b"345", true)], true),
        (vec![(b"12", false), (b"345", false), (trailers, true)], true),
        (vec![(b"1234", true)], false),
        (vec![(b"123456", false)], false),
        (vec![(b"12345", false), (b"6", false)], false),
        (vec![(b"1234", false), (b"", true)], false),
        (vec![(b"1234", false), (trailers, true)], false),
    ] {
        let mut server = Bench::server();
        let mut octets = server.headers(1, &fields, false);
        for (piece, end) in &pieces {
            let frame = if *piece == trailers { server.headers(1, TRAILERS, true) } else { data_frame(1, piece, *end) };
            octets.extend(frame);
        }
        let events = server.feed(&octets);
        let fault =
            matches!(events.last(), Some(Incoming::Reset { by_peer: false, code: ErrorCode::PROTOCOL_ERROR, .. }));
        assert_eq!(fault, !right, "{pieces:?}");
        assert_eq!(server.sent().iter().any(|frame| frame.kind == Kind::RST_STREAM), !right);
    }
}

/// `h2:H1`, h2spec 8.1/1: a second field block must end the stream, on either side.
#[test]
fn trailers_must_end_the_stream() {
    let mut server = Bench::server();
    server.request(1, false);
    let octets = server.headers(1, TRAILERS, false);
    let events = server.feed(&octets);
    assert!(matches!(events[..], [Incoming::Reset { by_peer: false, code: ErrorCode::PROTOCOL_ERROR, .. }]));
    let mut client = Bench::client();
    client.opened(1);
    let octets = [client.headers(1, RESPONSE, false), client.headers(1, TRAILERS, false)].concat();
    assert!(matches!(client.feed(&octets)[..], [Incoming::Response { .. }, Incoming::Reset { by_peer: false, .. }]));
}

/// `h2:V3`, h2spec 8.1.2.1/3: pseudo fields and bad values in trailers.
#[test]
fn malformed_trailers_cost_their_stream() {
    for (name, value) in [(":status", "200"), (":path", "/"), ("x-lf", "a\nb"), ("connection", "close")] {
        let mut client = Bench::client();
        client.opened(1);
        let octets = [client.headers(1, RESPONSE, false), client.headers(1, &[(name, value)], true)].concat();
        let events = client.feed(&octets);
        assert!(matches!(events[..], [Incoming::Response { .. }, Incoming::Reset { by_peer: false, .. }]), "{name}");
        client.opened(2);
    }
}

/// `h2:V8`, `h2:H2`: responses without a status of three digits, and informational ones that end or switch.
#[test]
fn malformed_responses_cost_their_stream() {
    let cases: [(&[(&str, &str)], bool); 9] = [
        (&[], false),
        (&[(":status", "20")], false),
        (&[(":status", "2000")], false),
        (&[(":status", "+20")], false),
        (&[(":status", "099")], false),
        (&[(":path", "/"), (":status", "200")], false),
        (&[(":status", "101")], false),
        (&[(":status", "100")], true),
        (&[(":status", "200"), ("te", "gzip")], false),
    ];
    for (fields, end) in cases {
        let mut client = Bench::client();
        client.opened(1);
        let octets = client.headers(1, fields, end);
        let events = client.feed(&octets);
        assert!(matches!(events[..], [Incoming::Reset { by_peer: false, .. }]), "{fields:?}: {events:?}");
        assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1)]);
        client.opened(2);
    }
}

/// `tri:Q20`: dubbo-java's responses have a field that is defined for requests alone.
#[test]
fn te_trailers_in_a_response_is_borne() {
    let mut client = Bench::client();
    client.opened(1);
    let octets = client.headers(1, &[(":status", "200"), ("te", "trailers")], false);
    assert!(matches!(client.feed(&octets)[..], [Incoming::Response { .. }]));
}

/// `h2:B28`: informational responses are swallowed, also while the request is being sent.
#[test]
fn informational_responses_are_swallowed() {
    let mut client = Bench::client();
    let key = client.opened(1);
    let octets = [client.headers(1, &[(":status", "100")], false), client.headers(1, &[(":status", "103")], false)];
    assert_eq!(client.feed(&octets.concat()), []);
    client.engine.send_data(key, None, Bytes::from_static(b"on"));
    assert_eq!(kinds(&client.sent()), [(Kind::DATA, 1)]);
    let octets = client.headers(1, RESPONSE, false);
    assert!(matches!(client.feed(&octets)[..], [Incoming::Response { .. }]));
}

/// `h2:H6`, `h2:B26`: responses that have no body whatever their `content-length` says.
#[test]
fn some_responses_have_no_body() {
    for (method, status, body, right) in [
        (Method::Head, "200", &b""[..], true),
        (Method::Head, "200", b"x", false),
        (Method::Get, "304", b"", true),
        (Method::Get, "204", b"", true),
        (Method::Get, "200", b"", false),
    ] {
        let mut client = Bench::client();
        let mut head = request_head();
        head.method = method;
        let key = client.engine.open(head, 1).unwrap();
        client.engine.finish(key, None);
        client.sent();
        let fields = [(":status", status), ("content-length", "10")];
        let octets = [client.headers(1, &fields, false), data_frame(1, body, true)].concat();
        let fault = matches!(client.feed(&octets).last(), Some(Incoming::Reset { .. }));
        assert_eq!(fault, !right, "{method:?} {status}");
    }
}

/// `arch:9` `lenient_grpc_message`: dubbo-java's line breaks become blanks on a client that allows it, in
/// `grpc-message` alone.
#[test]
fn line_breaks_in_grpc_message_become_blanks() {
    for lenient in [true, false] {
        let config = Config { lenient_grpc_message: lenient, ..Config::default() };
        let mut client = Bench::connected(Side::Client, config, &[]);
        client.opened(1);
        let fields = [(":status", "500"), ("grpc-status", "2"), ("grpc-message", "one\r\ntwo\n")];
        let octets = client.headers(1, &fields, true);
        match &client.feed(&octets)[..] {
            [Incoming::Response { head, .. }] if lenient => {
                assert_eq!(head.headers.get(&HeaderName::GRPC_MESSAGE).unwrap(), "one  two");
            }
            [Incoming::Reset { by_peer: false, .. }] if !lenient => {}
            other => panic!("{other:?}"),
        }
    }
}

/// `h2:F21`, `h2:N5`, `h2:B16`, `arch:4`: a block above the frame limit leaves as HEADERS and CONTINUATION,
/// contiguous, and decodes to the same fields; also at the limit exactly.
#[test]
fn a_large_block_leaves_as_contiguous_frames() {
    for extra in [16_000, 16_384, 40_000] {
        let config = Config { max_send_header_list: 1 << 20, ..Config::default() };
        let mut client = Bench::connected(Side::Client, config, &[]);
        let mut head = request_head();
        let value = Bytes::from(vec![0xff; extra]); // Huffman does not shrink it
        head.headers.push(HeaderName::from_static("x-large"), value.clone());
        let key = client.engine.open(head, 1).unwrap();
        client.engine.finish(key, None);
        client.feed(&frame_of(Kind::PING, 0, 0, &[0; 8]));
        let frames = client.sent();
        let blocks: Vec<Sent> = frames
            .iter()
            .skip_while(|frame| frame.kind != Kind::HEADERS)
            .take_while(|frame| matches!(frame.kind, Kind::HEADERS | Kind::CONTINUATION))
            .cloned()
            .collect();
        let (last, before) = blocks.split_last().unwrap();
        assert_eq!(blocks.len(), 1 + (extra / 16_384).min(2), "{:?}", kinds(&frames));
        assert!(before.iter().all(|frame| frame.payload.len() == 16_384 && frame.flags & frame::END_HEADERS == 0));
        assert_ne!(last.flags & frame::END_HEADERS, 0);
        let fields = client.fields(&blocks);
        assert!(fields.contains(&(b"x-large".to_vec(), value.to_vec())));
    }
}

/// `h2:B66`: END_STREAM is on HEADERS, also when the block goes on in CONTINUATION.
#[test]
fn end_stream_is_kept_across_continuation() {
    let mut server = Bench::server();
    let block = server.block(REQUEST);
    let octets = [
        frame_of(Kind::HEADERS, frame::END_STREAM, 1, &block[..5]),
        frame_of(Kind::CONTINUATION, frame::END_STREAM, 1, &block[5..9]),
        frame_of(Kind::CONTINUATION, frame::END_HEADERS, 1, &block[9..]),
    ]
    .concat();
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { end: true, .. }]));
    let mut server = Bench::server();
    let block = server.block(REQUEST);
    let octets = [
        frame_of(Kind::HEADERS, 0, 1, &block[..5]),
        frame_of(Kind::CONTINUATION, frame::END_HEADERS | frame::END_STREAM, 1, &block[5..]),
    ]
    .concat();
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { end: false, .. }]));
}

/// `h2:F4`, `h2:F5`, h2spec 4.3, 6.10: nothing may interrupt a block, and nothing may continue none.
#[test]
fn a_block_may_not_be_interrupted() {
    for octets in [
        frame_of(Kind::PING, 0, 0, &[0; 8]),
        frame_of(Kind::PRIORITY, 0, 1, &[0; 5]),
        frame_of(Kind(0xee), 0, 1, b""),
        frame_of(Kind::CONTINUATION, frame::END_HEADERS, 3, b""),
        data_frame(1, b"x", false),
    ] {
        let mut server = Bench::server();
        let block = server.block(REQUEST);
        server.feed(&frame_of(Kind::HEADERS, 0, 1, &block));
        let events = server.feed(&octets);
        server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
    let mut server = Bench::server();
    server.request(1, true);
    let events = server.feed(&frame_of(Kind::CONTINUATION, frame::END_HEADERS, 1, b""));
    server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
}

/// `h2:B17`, h2spec 5.3.1/1: a request that depends on itself is decoded before it is refused.
#[test]
fn a_request_that_depends_on_itself_is_decoded_and_refused() {
    let mut server = Bench::server();
    let mut payload = vec![0, 0, 0, 1, 16];
    payload.extend(server.block(&[REQUEST, &[("x-kept", "in-the-table")]].concat()));
    server.feed(&frame_of(Kind::HEADERS, frame::PRIORITY | frame::END_HEADERS, 1, &payload));
    let frames = server.sent();
    assert_eq!((frames[0].kind, frames[0].code()), (Kind::RST_STREAM, ErrorCode::PROTOCOL_ERROR));
    let octets = server.headers(3, &[REQUEST, &[("x-kept", "in-the-table")]].concat(), true);
    let events = server.feed(&octets);
    let [Incoming::Request { head, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(head.headers.get(&HeaderName::from_static("x-kept")).unwrap(), "in-the-table");
}

/// RFC 7541 through the engine: a broken block ends the connection with COMPRESSION_ERROR.
#[test]
fn a_broken_block_ends_the_connection() {
    for block in [&[0x80][..], &[0x3f], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]] {
        let mut server = Bench::server();
        let events = server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS, 1, block));
        server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
    }
}

/// `arch:4`: the deadline field holds what is left when the block is committed, not when it was opened.
#[test]
fn the_deadline_field_is_made_at_commit() {
    fn in_seconds(left: Duration, buffer: &mut [u8; 20]) -> usize {
        buffer[0] = b'0' + left.as_secs() as u8;
        1
    }
    static NAME: HeaderName = HeaderName::GRPC_TIMEOUT;
    let mut client = Bench::client();
    let mut head = request_head();
    head.deadline =
        Some(crate::http::DeadlineField { at: client.now + Duration::from_secs(9), name: &NAME, format: in_seconds });
    client.engine.open(head, 1).unwrap();
    client.wait(Duration::from_secs(2));
    let frames = client.sent();
    let fields = client.fields(&frames[..1]);
    assert_eq!(fields.last().unwrap(), &(b"grpc-timeout".to_vec(), b"7".to_vec()));
}
