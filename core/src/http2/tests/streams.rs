//! The life of streams (RFC 9113 §5.1, §8.1): unary and streaming exchanges, both roles.

use super::*;

/// `h2:F28`, `bg:S3`: the server's first octets are SETTINGS, before it has read anything.
#[test]
fn a_server_begins_with_settings() {
    let mut server = Bench::fresh(Side::Server, Config::default());
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::SETTINGS, 0), (Kind::WINDOW_UPDATE, 0)]);
    assert_eq!(frames[0].flags, 0);
}

/// `h2:Q6`, `arch:6`: preface, SETTINGS and the first request with its message leave in one write; the
/// request is HEADERS and one DATA with END_STREAM, prefix and payload together.
#[test]
fn preface_and_first_request_leave_in_one_write() {
    let mut client = Bench::fresh(Side::Client, Config::default());
    let key = client.engine.open(request_head(), 7).unwrap();
    client.engine.send_data(key, Some([0, 0, 0, 0, 3]), Bytes::from_static(b"abc"));
    client.engine.finish(key, None);
    assert!(!client.engine.was_written(key));
    let octets = client.written_by_one_poll();
    assert!(client.engine.was_written(key));
    let frames = parse(octets.strip_prefix(frame::PREFACE).expect("the preface comes first"));
    assert_eq!(kinds(&frames), [(Kind::SETTINGS, 0), (Kind::WINDOW_UPDATE, 0), (Kind::HEADERS, 1), (Kind::DATA, 1)]);
    assert!(!frames[2].ends(), "an enveloped request never ends on HEADERS");
    assert!(frames[3].ends());
    assert_eq!(frames[3].payload, b"\0\0\0\0\x03abc");
    assert!(client.written_by_one_poll().is_empty());
}

/// `h2:Q6`, `bg:S7`: a server's unary response is HEADERS, DATA and trailers in one run.
#[test]
fn a_unary_response_leaves_as_one_run() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, Some([0, 0, 0, 0, 2]), Bytes::from_static(b"ok"));
    server.engine.finish(key, Some(trailers()));
    server.engine.release(key);
    let frames = parse(&server.written_by_one_poll());
    assert_eq!(kinds(&frames), [(Kind::HEADERS, 1), (Kind::DATA, 1), (Kind::HEADERS, 1)]);
    assert_eq!(frames.iter().map(Sent::ends).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(server.fields(&frames[..1])[0], (b":status".to_vec(), b"200".to_vec()));
    assert_eq!(server.fields(&frames[2..]), [(b"grpc-status".to_vec(), b"0".to_vec())]);
    assert_eq!(server.engine.streams.len(), 0, "the slot is free");
}

/// `h2:F22`, `h2:B11`: ids follow the order on the wire, not the order of opening; a queued call has none.
#[test]
fn ids_follow_the_wire() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 1)]);
    let first = client.engine.open(request_head(), 1).unwrap();
    let second = client.engine.open(request_head(), 2).unwrap();
    let third = client.engine.open(request_head(), 3).unwrap();
    assert_eq!(kinds(&client.sent()), [(Kind::HEADERS, 1)]);
    client.engine.reset(second, ErrorCode::CANCEL);
    client.engine.release(second);
    client.engine.release(first);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1), (Kind::HEADERS, 3)]);
    assert!(client.engine.was_written(third));
}

/// `h2:F23`, `h2:B9`, `bg:S14`: cancelling a call that was not sent leaves no trace, waiting or admitted.
#[test]
fn cancelling_an_unsent_call_leaves_no_trace() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 2)]);
    let keys: Vec<StreamKey> = (0..4).map(|call| client.engine.open(request_head(), call).unwrap()).collect();
    client.engine.send_data(keys[0], None, Bytes::from_static(b"never"));
    for key in keys {
        client.engine.reset(key, ErrorCode::CANCEL);
        client.engine.release(key);
    }
    assert_eq!(client.sent(), []);
    assert_eq!((client.engine.streams.len(), client.engine.active, client.engine.uncommitted), (0, 0, 0));
    assert_eq!(client.opened(5), client.engine.streams.by_id(1).unwrap());
}

/// 10,000 calls that are dropped while they wait leave nothing behind.
#[test]
fn dropped_calls_leave_no_queue_entries() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 0)]);
    for call in 0..10_000 {
        let key = client.engine.open(request_head(), call).unwrap();
        client.engine.release(key);
    }
    assert_eq!((client.engine.streams.len(), client.engine.sched.pending()), (0, 0));
    assert_eq!(client.sent(), []);
}

/// `h2:H1`: a whole exchange on the client, told in order, and the stream is gone from the wire.
#[test]
fn a_client_sees_head_data_and_trailers() {
    let mut client = Bench::client();
    let key = client.opened(9);
    client.engine.finish(key, None);
    assert!(client.sent()[0].ends());
    let octets =
        [client.headers(1, RESPONSE, false), data_frame(1, b"abc", false), client.headers(1, TRAILERS, true)].concat();
    let events = client.feed(&octets);
    let [
        Incoming::Response { stream, call: 9, head, end: false },
        Incoming::Data { len: 3, end: false, .. },
        Incoming::Trailers { headers, .. },
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!((*stream, head.status, &client.taken[..]), (key, 200, &b"abc"[..]));
    assert_eq!(headers.get(&HeaderName::GRPC_STATUS).unwrap(), "0");
    assert_eq!(client.engine.streams.on_wire(), 0);
    client.engine.release(key);
    assert_eq!(client.sent(), [], "h2:F24: both sides have ended, there is nothing to reset");
}

/// `h2:H10`: trailers-only.
#[test]
fn a_response_may_be_its_head_alone() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.finish(key, None);
    client.sent();
    let octets = client.headers(1, &[(":status", "200"), ("grpc-status", "12")], true);
    assert!(matches!(client.feed(&octets)[..], [Incoming::Response { end: true, .. }]));

    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), true);
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::HEADERS, 1)]);
    assert!(frames[0].ends());
}

/// `h2:P1`, h2:E1: the same octets in any split give the same events and the same answers.
#[test]
fn any_split_of_the_input_gives_the_same_outcome() {
    let run = |piece: usize| {
        let mut server = Bench::fresh(Side::Server, Config::default());
        let block = server.block(REQUEST);
        let (front, back) = block.split_at(3);
        let mut padded_headers = vec![4, 0, 0, 0, 0, 7];
        padded_headers.extend_from_slice(front);
        padded_headers.extend_from_slice(&[0; 4]);
        let mut padded_data = vec![3];
        padded_data.extend_from_slice(b"hello\0\0\0");
        let octets = [
            frame::PREFACE.to_vec(),
            settings_frame(&[(4, 70_000), (3, 10)]),
            SETTINGS_ACK.to_vec(),
            frame_of(Kind::PRIORITY, 0, 7, &[0, 0, 0, 1, 3]),
            frame_of(Kind::HEADERS, frame::PADDED | frame::PRIORITY, 13, &padded_headers),
            frame_of(Kind::CONTINUATION, 0, 13, b""),
            frame_of(Kind::CONTINUATION, frame::END_HEADERS, 13, back),
            frame_of(Kind(0xbe), 0xff, 99, b"unknown frame"),
            frame_of(Kind::PING, 0x16, 0, b"abcdefgh"),
            frame_of(Kind::DATA, frame::PADDED, 13, &padded_data),
            data_frame(13, &[7; 9000], false),
            window_update(13, 5),
            window_update(0, 5),
            server.headers(13, TRAILERS, true),
            server.headers(15, REQUEST, false),
            data_frame(15, b"", true),
            rst_frame(15, ErrorCode(77)),
            goaway_frame(0, ErrorCode::NO_ERROR),
        ]
        .concat();
        let events = joined(server.feed_in_pieces(&octets, piece));
        (events, server.sent())
    };
    let whole = run(usize::MAX);
    assert!(
        matches!(
            whole.0[..],
            [
                Incoming::Connected,
                Incoming::Request { end: false, .. },
                Incoming::Data { end: false, .. },
                Incoming::Trailers { .. },
                Incoming::Request { end: false, .. },
                Incoming::Data { end: true, .. },
                Incoming::Reset { code: ErrorCode(77), .. },
                Incoming::GoAway,
            ]
        ),
        "something is missing of {} events",
        whole.0.len()
    );
    for piece in [1, 2, 3, 5, 7, 9, 10, 17, 64, 1000, 8192] {
        assert!(run(piece) == whole, "pieces of {piece} differ");
    }
}

/// Dubbo's Java and Go clients begin at 3, nghttp at 13 (checklist §3.2); skipped ids are closed.
#[test]
fn the_first_stream_may_have_any_odd_id() {
    for first in [3, 13] {
        let mut server = Bench::server();
        server.request(first, true);
        server.request(first + 2, true);
        let events = server.feed(&data_frame(1, b"x", false));
        server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
}

/// `h2:B78`, `h2:B79`, `h2:B6`, checklist §2.2: frames on streams that do not exist.
#[test]
fn frames_on_idle_streams_end_the_connection() {
    let mut bench = Bench::server();
    let headers = bench.block(REQUEST);
    for (name, octets) in [
        ("DATA", data_frame(5, b"x", false)),
        ("RST_STREAM", rst_frame(5, ErrorCode::CANCEL)),
        ("WINDOW_UPDATE", window_update(5, 1)),
        ("HEADERS on an even id", frame_of(Kind::HEADERS, frame::END_HEADERS, 2, &headers)),
        ("HEADERS on a lower id", frame_of(Kind::HEADERS, frame::END_HEADERS, 1, &headers)),
        ("CONTINUATION", frame_of(Kind::CONTINUATION, frame::END_HEADERS, 5, &headers)),
    ] {
        let mut server = Bench::server();
        server.request(3, false);
        let events = server.feed(&octets);
        assert_eq!(events.len(), 1, "{name}");
        server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
    for stream in [2, 3] {
        for octets in [
            data_frame(stream, b"x", false),
            frame_of(Kind::HEADERS, frame::END_HEADERS, stream, &headers),
            rst_frame(stream, ErrorCode::CANCEL),
            window_update(stream, 1),
        ] {
            let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 1)]);
            client.opened(1);
            client.engine.open(request_head(), 2).unwrap(); // queued: 3 is still idle
            let events = client.feed(&octets);
            client.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
        }
    }
}

/// RFC 9113 §5.1 "half-closed (remote)" and "closed": DATA or HEADERS after END_STREAM.
#[test]
fn frames_after_end_stream_end_the_connection() {
    for answered in [false, true] {
        for trailers in [false, true] {
            let mut server = Bench::server();
            let key = server.request(1, true);
            if answered {
                server.engine.send_head(key, response_head(), true);
                server.engine.release(key);
                server.sent();
            }
            let octets = if trailers { server.headers(1, TRAILERS, true) } else { data_frame(1, b"x", true) };
            let events = server.feed(&octets);
            server.assert_ended(&events, ErrorCode::STREAM_CLOSED);
        }
    }
}

/// RFC 9113 §5.1 "closed" by the peer's RST_STREAM: late frames are refused once, with STREAM_CLOSED, and
/// HPACK stays in step (`h2:P5`).
#[test]
fn late_frames_of_a_peer_that_reset_are_refused_once() {
    for trailers in [true, false] {
        let mut server = Bench::server();
        let key = server.request(1, false);
        assert!(matches!(
            server.feed(&rst_frame(1, ErrorCode::CANCEL))[..],
            [Incoming::Reset { call: 1, by_peer: true, code: ErrorCode::CANCEL, .. }]
        ));
        server.engine.release(key);
        let late = |server: &mut Bench| match trailers {
            true => server.headers(1, &[("x-late", "into-the-table")], true),
            false => data_frame(1, b"x", true),
        };
        let octets = [late(&mut server), late(&mut server)].concat();
        assert_eq!(server.feed(&octets), []);
        let frames = server.sent();
        assert_eq!(kinds(&frames), [(Kind::RST_STREAM, 1)]);
        assert_eq!(frames[0].code(), ErrorCode::STREAM_CLOSED);
        server.request(3, true);
    }
}

/// What happened to a stream is not told to an owner that has let go of it in the meantime.
#[test]
fn a_released_stream_says_nothing_more() {
    let mut client = Bench::client();
    client.opened(1);
    let second = client.opened(2);
    client.input.extend(&goaway_frame(0, ErrorCode::NO_ERROR));
    assert!(matches!(client.engine.next(&mut client.input, client.now), Some(Incoming::Reset { call: 1, .. })));
    client.engine.release(second);
    assert!(matches!(client.events()[..], [Incoming::GoAway, Incoming::Closed(_)]));
}

/// Checklist §2.2 "Closed(OurRst)", `h2:B87`: what was under way when we reset a stream is dropped, with
/// HPACK in step and no answer.
#[test]
fn late_frames_on_a_stream_we_reset_are_dropped() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.reset(key, ErrorCode::CANCEL);
    client.engine.release(key);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1)]);
    let late = [
        client.headers(1, &[(":status", "200"), ("x-late", "indexed")], false),
        data_frame(1, b"late", false),
        client.headers(1, &[("grpc-status", "0"), ("x-late", "indexed")], true),
        rst_frame(1, ErrorCode::NO_ERROR),
    ]
    .concat();
    assert_eq!(client.feed(&late), []);
    assert_eq!(client.sent(), []);
    client.opened(2);
    let response = client.headers(3, &[(":status", "200"), ("x-late", "indexed")], false);
    let events = client.feed(&response);
    let [Incoming::Response { head, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(head.headers.get(&HeaderName::from_static("x-late")).unwrap(), "indexed");
}

/// `h2:B7`, `h2:B39`, `h2:H9`, `h2:B45`: after a complete response any RST_STREAM, also a second one,
/// changes nothing.
#[test]
fn a_reset_after_a_complete_response_changes_nothing() {
    for code in [ErrorCode::NO_ERROR, ErrorCode::CANCEL, ErrorCode(0xdead)] {
        let mut client = Bench::client();
        let key = client.opened(1);
        client.engine.finish(key, None);
        client.sent();
        let octets = [
            client.headers(1, RESPONSE, false),
            client.headers(1, TRAILERS, true),
            rst_frame(1, code),
            rst_frame(1, code),
        ]
        .concat();
        let events = client.feed(&octets);
        assert!(matches!(events[..], [Incoming::Response { .. }, Incoming::Trailers { .. }]), "{events:?}");
        assert_eq!(client.sent(), []);
    }
}

/// `h2:T4`, `h2:B39`: a response that ends before the request stops the request, so that the server can
/// free the stream; what was queued is dropped.
#[test]
fn a_complete_response_stops_the_request() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(4, 5)]);
    let key = client.opened(1);
    client.engine.send_data(key, None, Bytes::from_static(b"more than the window"));
    client.sent();
    let response = client.headers(1, &[(":status", "200"), ("grpc-status", "8")], true);
    assert!(matches!(client.feed(&response)[..], [Incoming::Response { end: true, .. }]));
    let frames = client.sent();
    assert_eq!((frames.len(), frames[0].kind, frames[0].code()), (1, Kind::RST_STREAM, ErrorCode::NO_ERROR));
    client.engine.release(key);
    assert_eq!(client.sent(), []);
}

/// `h2:T3`, `h2:B38`: a server that answers before the request ended says RST_STREAM(NO_ERROR), after the
/// trailers, and drops what still comes.
#[test]
fn an_early_response_is_followed_by_a_reset() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    server.engine.send_head(key, response_head(), false);
    server.engine.finish(key, Some(trailers()));
    server.engine.release(key);
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::HEADERS, 1), (Kind::HEADERS, 1), (Kind::RST_STREAM, 1)]);
    assert_eq!(frames[2].code(), ErrorCode::NO_ERROR);
    assert_eq!(server.feed(&data_frame(1, b"late", true)), []);
    assert_eq!(server.engine.streams.len(), 0);
}

/// A released server stream whose response waits for a window still sends it, then ends.
#[test]
fn a_released_response_is_still_sent() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(4, 2)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from_static(b"abcd"));
    server.engine.finish(key, Some(trailers()));
    server.engine.release(key);
    assert_eq!(kinds(&server.sent()), [(Kind::HEADERS, 1), (Kind::DATA, 1)]);
    server.feed(&window_update(1, 2));
    assert_eq!(kinds(&server.sent()), [(Kind::DATA, 1), (Kind::HEADERS, 1)]);
    assert_eq!(server.engine.streams.len(), 0);
}

/// A handler that goes away without an answer, and a call that is dropped while it is open.
#[test]
fn releasing_an_open_stream_cancels_it() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.release(key);
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.release(key);
    for mut bench in [server, client] {
        let frames = bench.sent();
        assert_eq!((frames.len(), frames[0].kind, frames[0].code()), (1, Kind::RST_STREAM, ErrorCode::CANCEL));
        assert_eq!(bench.engine.streams.len(), 0);
    }
}

/// `h2:F24`: at most one RST_STREAM a stream, whatever is asked for.
#[test]
fn a_stream_is_reset_at_most_once() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.reset(key, ErrorCode::CANCEL);
    client.engine.reset(key, ErrorCode::INTERNAL_ERROR);
    client.engine.finish(key, None);
    client.engine.send_data(key, None, Bytes::from_static(b"x"));
    client.engine.release(key);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1)]);
}

/// `h2:B40`: a reset in the middle of a response is an error, and what was delivered stays.
#[test]
fn a_reset_within_a_response_is_told() {
    let mut client = Bench::client();
    client.opened(1);
    let octets =
        [client.headers(1, RESPONSE, false), data_frame(1, b"abc", false), rst_frame(1, ErrorCode::NO_ERROR)].concat();
    let events = client.feed(&octets);
    assert!(matches!(
        events[..],
        [
            Incoming::Response { .. },
            Incoming::Data { end: false, .. },
            Incoming::Reset { by_peer: true, code: ErrorCode::NO_ERROR, .. }
        ]
    ));
}

/// RFC 9113 §7, h2spec 7/2: unknown codes end the stream, not the connection.
#[test]
fn an_unknown_code_ends_the_stream_alone() {
    let mut client = Bench::client();
    client.opened(1);
    let events = client.feed(&rst_frame(1, ErrorCode(0xffff_ffff)));
    assert!(matches!(events[..], [Incoming::Reset { code: ErrorCode(0xffff_ffff), .. }]));
    client.opened(2);
}

/// `h2:F10`, checklist §1.2: a PING is answered with its octets, undefined flags or not; an answer to
/// nothing is ignored.
#[test]
fn a_ping_is_answered() {
    let mut server = Bench::server();
    server.feed(&frame_of(Kind::PING, 0x16, 0, b"01234567"));
    server.feed(&frame_of(Kind::PING, frame::ACK, 0, b"unwanted"));
    let frames = server.sent();
    assert_eq!((frames.len(), frames[0].flags, &frames[0].payload[..]), (1, frame::ACK, &b"01234567"[..]));
}

/// RFC 9113 §5.3.2, h2spec 5.3.1/2: priority is ignored, except that a stream cannot depend on itself.
#[test]
fn priority_is_ignored() {
    let mut server = Bench::server();
    assert_eq!(server.feed(&frame_of(Kind::PRIORITY, 0, 9, &[0x80, 0, 0, 3, 9])), []);
    server.request(1, true);
    let events = server.feed(&frame_of(Kind::PRIORITY, 0, 9, &[0x80, 0, 0, 9, 9]));
    server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
}

/// `h2:A31`, checklist §1.2: push is switched off, so a promise is a fault on either side.
#[test]
fn push_is_refused() {
    for mut bench in [Bench::client(), Bench::server()] {
        let events = bench.feed(&frame_of(Kind::PUSH_PROMISE, frame::END_HEADERS, 1, &[0, 0, 0, 2, 0x88]));
        bench.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
}

/// `h2:B27`: DATA before the final head is a malformed response.
#[test]
fn data_before_the_head_costs_the_stream() {
    let mut client = Bench::client();
    client.opened(1);
    let octets = [client.headers(1, &[(":status", "103")], false), data_frame(1, b"x", false)].concat();
    let events = client.feed(&octets);
    assert!(matches!(events[..], [Incoming::Reset { by_peer: false, code: ErrorCode::PROTOCOL_ERROR, .. }]));
    client.opened(2);
}

/// `h2:T6`, `h2:B33`: a stream above the limit is refused; its late frames are dropped.
#[test]
fn streams_above_the_limit_are_refused() {
    let config = Config { max_concurrent_streams: 1, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let first = server.request(1, false);
    let octets = [server.headers(3, REQUEST, false), data_frame(3, b"x", false), server.headers(3, TRAILERS, true)];
    assert_eq!(server.feed(&octets.concat()), []);
    let frames = server.sent();
    assert_eq!((frames.len(), frames[0].stream, frames[0].code()), (1, 3, ErrorCode::REFUSED_STREAM));
    server.engine.release(first);
    server.request(5, true);
}

/// `h2:T5`, `h2:A1`: a stream that the peer has reset holds its slot until its handler is gone.
#[test]
fn a_reset_stream_holds_its_slot_until_it_is_released() {
    let config = Config { max_concurrent_streams: 1, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let first = server.request(1, true);
    server.feed(&rst_frame(1, ErrorCode::CANCEL));
    let request = server.headers(3, REQUEST, true);
    assert_eq!(server.feed(&request), []);
    assert_eq!(server.sent()[0].code(), ErrorCode::REFUSED_STREAM);
    server.engine.release(first);
    server.request(5, true);
}

/// A stale key is ignored by every command.
#[test]
fn commands_on_a_stale_key_do_nothing() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.release(key);
    server.sent();
    server.engine.bind(key, 1);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from_static(b"x"));
    server.engine.finish(key, None);
    server.engine.reset(key, ErrorCode::CANCEL);
    server.engine.consumed(key, 1);
    server.engine.need(key, 1 << 20);
    assert_eq!((server.engine.send_buffered(key), server.sent()), (0, vec![]));
}

/// Two engines: requests and responses of many sizes pass in both directions, whatever the windows.
#[test]
fn two_engines_exchange_messages_of_many_sizes() {
    for sizes in [[0, 1, 100], [16_384, 16_385, 65_536], [65_537, 300_000, 1_000_000]] {
        let mut pair = Pair::new(Config::default(), Config::default());
        let mut got: Vec<(usize, usize)> = vec![(0, 0); sizes.len()];
        for (call, size) in sizes.into_iter().enumerate() {
            let key = pair.client.open(request_head(), call as u32).unwrap();
            pair.client.send_data(key, Some([7; 5]), Bytes::from(vec![1; size]));
            pair.client.finish(key, None);
        }
        let mut calls = 0;
        pair.run(|engine, event| match event {
            Incoming::Request { stream, .. } => {
                engine.bind(stream, calls);
                calls += 1;
            }
            Incoming::Data { stream, call, len, end } => {
                let got = &mut got[call as usize];
                let is_server = engine.side == Side::Server;
                *(if is_server { &mut got.0 } else { &mut got.1 }) += len;
                engine.consumed(stream, len);
                if is_server && end {
                    engine.send_head(stream, response_head(), false);
                    engine.send_data(stream, None, Bytes::from(vec![2; got.0]));
                    engine.finish(stream, Some(trailers()));
                    engine.release(stream);
                }
            }
            Incoming::Trailers { stream, .. } => engine.release(stream),
            Incoming::Connected | Incoming::Response { .. } | Incoming::Writable { .. } => {}
            other => panic!("{other:?}"),
        });
        assert_eq!(got, sizes.map(|size| (size + 5, size + 5)));
        assert_eq!((pair.client.streams.len(), pair.server.streams.len()), (0, 0));
    }
}
