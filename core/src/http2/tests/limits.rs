//! Each limit of `Config` that belongs to HTTP/2, hit (architecture §9). Limits of time are in `goaway`,
//! `max_reserved` in `reservations`, `max_frame_size` in `settings`, `max_closed_streams` also in `store`.

use super::*;
use crate::error::OpenError;

/// `max_concurrent_streams`, h2spec 5.1.2: the stream above the limit is refused (see `streams` for what
/// becomes of it).
#[test]
fn max_concurrent_streams() {
    let mut server = server_with(|config| config.max_concurrent_streams = 3);
    for n in 0..3 {
        server.request(2 * n + 1, true);
    }
    let octets = server.headers(7, REQUEST, true);
    assert_eq!(server.feed(&octets), []);
    assert_eq!(server.sent()[0].code(), ErrorCode::REFUSED_STREAM);
}

/// `max_pending`: calls that wait for a stream; the next one is told to wait for `Capacity`.
#[test]
fn max_pending() {
    let config = Config { max_pending: 2, ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[(3, 1)]);
    let first = client.opened(0);
    let waiting: Vec<StreamKey> = (1..3).map(|call| client.engine.open(request_head(), call).unwrap()).collect();
    assert!(!client.engine.can_open());
    assert_eq!(client.engine.open(request_head(), 3), Err(OpenError::NoCapacity));
    assert_eq!(client.events(), []);
    client.engine.release(waiting[1]);
    assert_eq!(client.events(), [Incoming::Capacity]);
    client.engine.open(request_head(), 4).unwrap();
    assert_eq!(client.engine.open(request_head(), 5), Err(OpenError::NoCapacity));
    client.engine.release(first);
    assert_eq!(client.events(), [Incoming::Capacity]);
    assert_eq!(client.events(), [], "once");
}

/// `max_pending` also bounds the heads of admitted calls while the transport takes nothing.
#[test]
fn max_pending_bounds_unsent_heads_when_streams_are_unlimited() {
    let mut client = client_with(|config| config.max_pending = 10);
    let opened = (0..1000).take_while(|call| client.engine.open(request_head(), *call).is_ok()).count();
    assert_eq!(opened, 20, "ten admitted and ten waiting");
}

/// `max_header_list`, `h2:L2`, `h2:P5`: a request above it is answered 431, with HPACK in step; a reset
/// follows only while the request goes on.
#[test]
fn max_header_list_of_a_request() {
    let mut server = server_with(|config| config.max_header_list = 1000);
    let value = "v".repeat(1000);
    let large = [REQUEST, &[("x-large", value.as_str()), ("x-kept", "in-the-table")]].concat();
    for (id, end) in [(1, false), (3, true)] {
        let octets = server.headers(id, &large, end);
        assert_eq!(server.feed(&octets), []);
        let frames = server.sent();
        assert_eq!(server.fields(&frames[..1]), [(b":status".to_vec(), b"431".to_vec())]);
        assert!(frames[0].ends());
        let resets: Vec<ErrorCode> = frames[1..].iter().map(Sent::code).collect();
        assert_eq!(resets, if end { vec![] } else { vec![ErrorCode::NO_ERROR] });
    }
    let octets = server.headers(5, &[REQUEST, &[("x-kept", "in-the-table")]].concat(), true);
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { .. }]));
}

/// `max_header_list` of a response, and of trailers: they cost the stream.
#[test]
fn max_header_list_of_a_response() {
    let value = "v".repeat(1000);
    let large = [(":status", "200"), ("x-large", value.as_str())];
    let mut client = client_with(|config| config.max_header_list = 1000);
    client.opened(1);
    let octets = client.headers(1, &large, false);
    let events = client.feed(&octets);
    assert!(matches!(events[..], [Incoming::Reset { by_peer: false, code: ErrorCode::ENHANCE_YOUR_CALM, .. }]));
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1)]);
    client.opened(2);
    let octets = [client.headers(3, RESPONSE, false), client.headers(3, &large[1..], true)].concat();
    assert!(matches!(
        client.feed(&octets)[..],
        [Incoming::Response { .. }, Incoming::Reset { by_peer: false, code: ErrorCode::ENHANCE_YOUR_CALM, .. }]
    ));
}

/// `max_header_list`, `h2:L3`, `h2:A6`: a block twice as large encoded is not even gathered.
#[test]
fn max_header_list_bounds_the_encoded_block() {
    for piece in [usize::MAX, 1000] {
        let mut server = server_with(|config| config.max_header_list = 1000);
        let octets = frame_of(Kind::HEADERS, 0, 1, &[0x82; 2001]);
        let events = server.feed_in_pieces(&octets, piece);
        server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
    }
}

/// `max_headers`, `h2:A16`.
#[test]
fn max_headers() {
    let mut server = server_with(|config| config.max_headers = 8);
    let extra = [("a", "1"), ("b", "2"), ("c", "3")];
    let octets = server.headers(1, &[REQUEST, &extra[..2]].concat(), true);
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { .. }]));
    let octets = server.headers(3, &[REQUEST, &extra].concat(), true);
    assert_eq!(server.feed(&octets), []);
    let frames = server.sent();
    assert_eq!(server.fields(&frames[..1]), [(b":status".to_vec(), b"431".to_vec())]);
}

/// `max_header_list` also bounds all informational responses of a stream together (`h2:H3`, `h2:A32`).
#[test]
fn max_header_list_bounds_informational_responses() {
    let mut client = client_with(|config| config.max_header_list = 1000);
    client.opened(1);
    let octets = client.headers(1, &[(":status", "103")], false);
    let events: Vec<Incoming> = (0..100).flat_map(|_| client.feed(&octets)).collect();
    assert!(matches!(events[..], [Incoming::Reset { by_peer: false, .. }]), "{events:?}");
}

/// `max_send_header_list`, and the peer's own limit: such a call is refused before anything is sent
/// (`h2:N7`); a response head is not sent either.
#[test]
fn max_send_header_list() {
    for (ours, theirs) in [(500, u32::MAX), (8192, 500)] {
        let config = Config { max_send_header_list: ours, ..Config::default() };
        let mut client = Bench::connected(Side::Client, config.clone(), &[(6, theirs)]);
        let mut head = request_head();
        head.headers.push(HeaderName::from_static("x-large"), vec![b'v'; 300]);
        let size = head.list_size();
        assert_eq!(client.engine.open(head, 1), Err(OpenError::TooLarge { size, limit: 500 }));
        assert_eq!(client.sent(), []);

        let mut server = Bench::connected(Side::Server, config, &[(6, theirs)]);
        let key = server.request(1, true);
        let mut head = response_head();
        head.headers.push(HeaderName::from_static("x-large"), vec![b'v'; 500]);
        server.engine.send_head(key, head, false);
        assert!(matches!(server.events()[..], [Incoming::Reset { code: ErrorCode::INTERNAL_ERROR, .. }]));
        assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
    }
}

/// `max_continuations`, `h2:A8`.
#[test]
fn max_continuations() {
    let mut server = server_with(|config| config.max_continuations = 3);
    server.feed(&frame_of(Kind::HEADERS, 0, 1, &[0x82]));
    for _ in 0..3 {
        assert_eq!(server.feed(&frame_of(Kind::CONTINUATION, 0, 1, b"")), []);
    }
    let events = server.feed(&frame_of(Kind::CONTINUATION, 0, 1, b""));
    server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
}

/// `max_settings_entries`, `h2:A18`.
#[test]
fn max_settings_entries() {
    let mut server = server_with(|config| config.max_settings_entries = 10);
    assert_eq!(server.feed(&settings_frame(&[(0xf0, 0); 10])), []);
    let events = server.feed(&settings_frame(&[(0xf0, 0); 11]));
    server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
}

/// `max_control_queue`, `h2:A17`: answers that the peer does not take stop the reading; when they are
/// written it goes on.
#[test]
fn max_control_queue_pauses_input() {
    let mut server = server_with(|config| config.max_control_queue = 10);
    let pings: Vec<u8> = (0..30).flat_map(|_| frame_of(Kind::PING, 0, 0, &[0; 8])).collect();
    server.feed(&pings);
    assert!(!server.engine.wants_read());
    server.engine.poll_transmit(&mut server.out, server.now);
    assert_eq!(server.out.len(), 11 * frame::PING_LEN);
    assert!(!server.engine.wants_read(), "handed over is not written");
    server.out.advance(server.out.len() - 1);
    server.engine.poll_transmit(&mut server.out, server.now);
    assert!(!server.engine.wants_read(), "the last frame is cut");
    let mut answers = 11;
    while !server.input.is_empty() {
        server.out.advance(server.out.len());
        server.engine.poll_transmit(&mut server.out, server.now);
        assert_eq!(server.events(), []);
        server.engine.poll_transmit(&mut server.out, server.now);
        answers += server.out.len() / frame::PING_LEN;
    }
    assert_eq!(answers, 30);
}

/// `max_control_queue`, `h2:A5`: answers of HTTP's own wait for no window either, and count as well.
#[test]
fn refusals_count_as_control_frames() {
    let mut server = server_with(|config| {
        config.max_control_queue = 10;
        config.max_header_list = 200;
    });
    let value = "v".repeat(200);
    for n in 0..11 {
        assert!(server.engine.wants_read(), "{n} of ten");
        let octets = server.headers(2 * n + 1, &[("x", value.as_str())], true);
        assert_eq!(server.feed(&octets), []);
    }
    assert!(!server.engine.wants_read());
}

/// `max_control_queue`: written frames do not count, also when `Transmit` is never empty.
#[test]
fn written_control_frames_do_not_count() {
    let mut server = server_with(|config| config.max_control_queue = 10);
    for _ in 0..100 {
        server.feed(&frame_of(Kind::PING, 0, 0, &[0; 8]));
        server.engine.poll_transmit(&mut server.out, server.now);
        server.out.advance(server.out.len() - 1);
        assert!(server.engine.wants_read());
    }
}

/// `max_control_queue`: ten times as many, which only resets of our own can add up to, end the connection.
#[test]
fn ten_times_max_control_queue_ends_the_connection() {
    let mut client = client_with(|config| config.max_control_queue = 2);
    for call in 0..21 {
        let key = client.engine.open(request_head(), call).unwrap();
        client.engine.poll_transmit(&mut client.out, client.now);
        client.engine.release(key);
    }
    let events = client.events();
    assert!(matches!(events[..], [Incoming::Closed(ConnectionError::Misbehaved(_))]), "{events:?}");
}

/// `max_stream_faults`, `h2:A5`, `h2:A46`.
#[test]
fn max_stream_faults() {
    let mut server = server_with(|config| {
        config.max_stream_faults = 30;
        config.stream_faults_per_second = 1;
    });
    for n in 0..30 {
        let octets = server.headers(2 * n + 1, &[(":method", "GET")], true);
        assert_eq!(server.feed(&octets), []);
        server.sent();
    }
    server.wait(Duration::from_secs(1));
    let octets = server.headers(61, &[(":method", "GET")], true);
    assert_eq!(server.feed(&octets), [], "one came back in a second");
    let octets = server.headers(63, &[(":method", "GET")], true);
    let events = server.feed(&octets);
    server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
}

/// `max_control_frames`, `h2:A23`, `h2:A28`, `h2:A30`: each kind of frame without use counts;
/// messages earn credit.
#[test]
fn max_control_frames() {
    for octets in [
        frame_of(Kind::PING, 0, 0, &[0; 8]),
        frame_of(Kind::PING, frame::ACK, 0, &[0; 8]),
        settings_frame(&[]),
        window_update(0, 1),
        frame_of(Kind::PRIORITY, 0, 3, &[0; 5]),
        frame_of(Kind(0xbb), 0, 0, b"x"),
    ] {
        let mut server = server_with(|config| config.max_control_frames = 40);
        // The peer's first SETTINGS was one.
        for _ in 0..39 {
            assert_eq!(server.feed(&octets), []);
            server.sent();
        }
        server.request(1, true);
        for _ in 0..4 {
            assert_eq!(server.feed(&octets), [], "a request earned four");
            server.sent();
        }
        let events = server.feed(&octets);
        server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
    }
}

/// `h2:A19`: SETTINGS that touch every stream cost more.
#[test]
fn settings_that_touch_every_stream_cost_more() {
    let mut server = server_with(|config| config.max_control_frames = 40);
    for n in 0..128 {
        server.request(2 * n + 1, true);
    }
    let mut fed = 0;
    loop {
        let window = fed % 2;
        fed += 1;
        if !server.feed(&settings_frame(&[(4, window)])).is_empty() {
            break;
        }
        server.sent();
    }
    assert_eq!(fed, 40 / 3 + 1);
}

/// `max_peer_resets`, `h2:A1`, `h2:A4`: rapid reset.
#[test]
fn max_peer_resets() {
    let mut server = server_with(|config| config.max_peer_resets = 20);
    for n in 0..21 {
        let id = 2 * n + 1;
        let key = server.request(id, true);
        let events = server.feed(&rst_frame(id, ErrorCode::CANCEL));
        if n == 20 {
            return server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
        }
        assert_eq!(events.len(), 1);
        server.engine.release(key);
    }
}

/// `max_empty_data`, `h2:A20`, `h2:A22`: empty DATA and DATA of padding alone; useful frames earn credit.
#[test]
fn max_empty_data() {
    for octets in [data_frame(1, b"", false), frame_of(Kind::DATA, frame::PADDED, 1, &[2, 0, 0])] {
        let mut server = server_with(|config| config.max_empty_data = 10);
        server.request(1, false);
        for _ in 0..10 {
            assert_eq!(server.feed(&octets), []);
        }
        server.feed(&data_frame(1, &[0; 256], false));
        assert_eq!(server.feed(&octets), [], "DATA of 256 octets earned one");
        let events = server.feed(&octets);
        server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
    }
}

/// `max_closed_streams`: ids beyond the ring are forgotten: late frames are dropped, and count as of no use.
#[test]
fn max_closed_streams() {
    let mut server = server_with(|config| {
        config.max_closed_streams = 2;
        // The peer's first SETTINGS is one.
        config.max_control_frames = 3;
        config.control_frames_earned = 0;
    });
    for n in 0..4 {
        let key = server.request(2 * n + 1, false);
        server.engine.reset(key, ErrorCode::CANCEL);
        server.engine.release(key);
    }
    server.sent();
    for _ in 0..10 {
        assert_eq!(server.feed(&data_frame(7, b"x", false)), [], "remembered: an honest race");
    }
    for _ in 0..2 {
        assert_eq!(server.feed(&data_frame(1, b"x", false)), []);
    }
    assert_eq!(server.sent(), []);
    let events = server.feed(&data_frame(1, b"x", false));
    server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
}

/// `transmit_target`: one poll hands out no more than that and one frame, and says that more is waiting.
#[test]
fn transmit_target() {
    let config = Config { transmit_target: 4096, ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[(4, 1 << 20)]);
    let keys: Vec<StreamKey> = (0..8).map(|call| client.engine.open(request_head(), call).unwrap()).collect();
    for key in keys {
        client.engine.send_data(key, None, Bytes::from(vec![0; 5000]));
    }
    let mut polls = 0;
    while client.engine.poll_transmit(&mut client.out, client.now) {
        assert!(client.out.len() <= 4096 + 16_384 + 200);
        let more = client.engine.poll_transmit(&mut client.out, client.now);
        assert!(more && client.out.len() <= 4096 + 16_384 + 200, "a full Transmit is not topped up");
        client.out.advance(client.out.len());
        polls += 1;
    }
    assert!(polls >= 7, "{polls}");
}

/// `copy_below`: small payloads lie next to their frame header, large ones are chained by reference.
#[test]
fn copy_below() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    let small = Bytes::from(vec![1; 1023]);
    let large = Bytes::from(vec![2; 1024]);
    server.engine.send_data(key, None, small.clone());
    server.engine.send_data(key, None, large.clone());
    server.engine.poll_transmit(&mut server.out, server.now);
    let chunks: Vec<&[u8]> = server.out.chunks().collect();
    assert_eq!(chunks.last().unwrap().as_ptr(), large.as_ptr());
    assert!(chunks.iter().all(|chunk| chunk.as_ptr() != small.as_ptr()));
}

/// `h2:T6`: before the peer has acknowledged the limit of streams, going beyond it is no fault.
#[test]
fn streams_refused_before_the_acknowledgement_are_no_fault() {
    let config = Config { max_concurrent_streams: 1, max_stream_faults: 1, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    server.feed(&[frame::PREFACE, &settings_frame(&[])[..]].concat());
    server.request(1, true);
    for n in 1..5 {
        let octets = server.headers(2 * n + 1, REQUEST, true);
        assert_eq!(server.feed(&octets), []);
    }
    server.feed(&SETTINGS_ACK);
    let octets = server.headers(11, REQUEST, true);
    assert_eq!(server.feed(&octets), []);
    let octets = server.headers(13, REQUEST, true);
    let events = server.feed(&octets);
    assert!(matches!(events[..], [Incoming::Closed(ConnectionError::Misbehaved(_))]));
}

/// A server with windows of 1000 octets, and 2000 more for all streams, whose client does not know that yet.
fn server_with_small_windows() -> Bench {
    let config =
        Config { initial_stream_window: 1000, max_reserved: 2000, max_concurrent_streams: 4, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    server.feed(&[frame::PREFACE, &settings_frame(&[])[..]].concat());
    server.sent();
    server
}

/// `max_reserved`, `h2:E5`, `h2:W4`, RFC 9113 §6.9.3: who does not know that windows are small may send more, which is
/// held as far as reservations go. Beyond that the stream is reset that sent it; the connection goes on.
#[test]
fn more_than_small_windows_is_held_as_far_as_reservations_go() {
    let mut server = server_with_small_windows();
    for id in [1, 3, 5] {
        server.request(id, false);
    }
    // What was read is held by nobody.
    let first = server.feed(&data_frame(1, &[7; 3000], false));
    assert!(matches!(first[..], [Incoming::Data { len: 3000, .. }]), "1000, and all of the 2000");
    assert!(matches!(server.feed(&data_frame(3, &[7; 1000], false))[..], [Incoming::Data { .. }]), "its own window");
    let events = server.feed(&data_frame(5, &[7; 1001], false));
    assert!(
        matches!(events[..], [Incoming::Reset { by_peer: false, code: ErrorCode::FLOW_CONTROL_ERROR, .. }]),
        "{events:?}"
    );
    assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 5)]);
    assert_eq!(server.feed(&data_frame(5, &[7; 1000], false)), [], "which the peer does not know yet either");
    server.request(7, false);
}

/// The honest twin: what is read in time may be as long as it likes, and so may what comes when the peer knows.
#[test]
fn a_peer_that_does_not_know_small_windows_sends_what_is_read() {
    let mut server = server_with_small_windows();
    let key = server.request(1, false);
    for _ in 0..20 {
        assert!(matches!(server.feed(&data_frame(1, &[7; 3000], false))[..], [Incoming::Data { .. }]));
        server.engine.consumed(key, 3000);
        server.sent();
    }
    server.feed(&SETTINGS_ACK);
    let octets = [server.headers(3, REQUEST, false), data_frame(3, &[7; 1000], false)].concat();
    assert!(matches!(joined(server.feed(&octets))[..], [Incoming::Request { .. }, Incoming::Data { .. }]));
}
