//! Mistakes that other implementations shipped (checklist §10), one test each where the rule has none elsewhere.

use alloc::format;
use alloc::string::String;

use super::*;
use crate::error::OpenError;

/// Client with room for one stream.
fn narrow_client() -> Bench {
    Bench::connected(Side::Client, Config::default(), &[(3, 1)])
}

/// `h2:B5`: a stream that is cancelled while its DATA waits for the connection's window takes none of it along.
#[test]
fn a_cancelled_stream_keeps_no_window() {
    let mut server = Bench::server();
    let (first, second) = (server.request(1, true), server.request(3, true));
    for key in [first, second] {
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 65_535]));
    }
    server.engine.reset(first, ErrorCode::CANCEL);
    let sent: usize = server.sent().iter().filter(|frame| frame.kind == Kind::DATA).map(|f| f.payload.len()).sum();
    assert_eq!(sent, 65_535, "all of it is there for the other");
}

/// `h2:B10`, `h2:A16`: many thousands of different names, with limits that allow them.
#[test]
fn thousands_of_names_are_a_list_as_any_other() {
    let mut config = Config::default();
    (config.max_headers, config.max_header_list, config.max_continuations) = (usize::MAX, 16 << 20, usize::MAX);
    let mut server = Bench::connected(Side::Server, config, &[]);
    let names: Vec<String> = (0..25_000).map(|n| format!("x{n:x}")).collect();
    let fields: Vec<(&str, &str)> =
        REQUEST.iter().copied().chain(names.iter().map(|name| (name.as_str(), ""))).collect();
    let block = server.block(&fields);
    let mut frames = Vec::new();
    let mut parts = block.chunks(16_384).enumerate().peekable();
    while let Some((n, part)) = parts.next() {
        let kind = if n == 0 { Kind::HEADERS } else { Kind::CONTINUATION };
        let end = if parts.peek().is_none() { frame::END_HEADERS } else { 0 };
        frames.extend(frame_of(kind, end | u8::from(n == 0), 1, part));
    }
    let events = server.feed(&frames);
    let [Incoming::Request { head, .. }] = &events[..] else { panic!("{} events", events.len()) };
    assert_eq!(head.headers.iter().count(), 25_000 + 2);
}

/// `h2:B12`: informational responses and the final one are one stream of those that may be open.
#[test]
fn informational_responses_do_not_count_as_streams() {
    let mut client = narrow_client();
    let first = client.opened(1);
    client.engine.finish(first, None);
    let octets = [
        client.headers(1, &[(":status", "103")], false),
        client.headers(1, &[(":status", "103")], false),
        client.headers(1, RESPONSE, true),
    ]
    .concat();
    client.sent();
    client.feed(&octets);
    client.engine.release(first);
    client.opened(2);
    client.engine.open(request_head(), 3).expect("it waits");
    assert_eq!(client.sent(), [], "two would be one too many");
}

/// `h2:B13`: the slot of a stream that we reset is free once the reset is on the wire before the next request.
#[test]
fn a_reset_precedes_the_request_that_takes_its_slot() {
    let mut client = narrow_client();
    let first = client.opened(1);
    client.engine.open(request_head(), 2).expect("it waits");
    client.engine.release(first);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1), (Kind::HEADERS, 3)]);
}

/// `h2:B18`, `h2:K12`: what only a block may begin with may not begin a fragment.
#[test]
fn a_size_update_within_a_block_ends_the_connection() {
    let mut server = Bench::server();
    let octets = [
        frame_of(Kind::HEADERS, frame::END_STREAM, 1, &[0x82]),
        frame_of(Kind::CONTINUATION, frame::END_HEADERS, 1, &[0x20, 0x86]),
    ]
    .concat();
    let events = server.feed(&octets);
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
}

/// `h2:B19`, `h2:B21`, `h2:B22`, `h2:A13`, `h2:N1`: whatever table the peer offers, our next block says so in its first
/// octets, and uses no more than that and our own limit.
#[test]
fn our_blocks_obey_every_table_size() {
    for size in [0, 1, 30, 31, 32, 127, 128, 158, 159, 4095, 4096, 4097, 65_536, u32::MAX] {
        let mut server = Bench::connected(Side::Server, Config::default(), &[(1, size)]);
        server.decoder = Decoder::new(4096);
        server.decoder.set_max_table_size(size.min(4096));
        for id in [1, 3, 5] {
            let key = server.request(id, true);
            let mut head = response_head();
            head.headers.push(HeaderName::from_static("x-again"), "and again");
            server.engine.send_head(key, head, true);
            let frames = server.sent();
            let fields = server.fields(&frames);
            assert_eq!(fields.last(), Some(&(b"x-again".to_vec(), b"and again".to_vec())), "{size}");
            server.engine.release(key);
        }
    }
}

/// `h2:B30`, `h2:F6`: frames of streams on the connection, and the other way round.
#[test]
fn frames_on_the_wrong_kind_of_id_end_the_connection() {
    for side in [Side::Server, Side::Client] {
        let mut bench = Bench::connected(side, Config::default(), &[]);
        let block = bench.block(if side == Side::Server { REQUEST } else { RESPONSE });
        for octets in [
            frame_of(Kind::DATA, 0, 0, b"x"),
            frame_of(Kind::HEADERS, frame::END_HEADERS, 0, &block),
            frame_of(Kind::PUSH_PROMISE, frame::END_HEADERS, 0, &[&[0, 0, 0, 2], &block[..]].concat()),
            frame_of(Kind::PRIORITY, 0, 0, &[0, 0, 0, 1, 0]),
            frame_of(Kind::RST_STREAM, 0, 0, &[0; 4]),
            frame_of(Kind::CONTINUATION, frame::END_HEADERS, 0, &block),
            frame_of(Kind::SETTINGS, 0, 1, &[]),
            frame_of(Kind::PING, 0, 1, &[0; 8]),
            frame_of(Kind::GOAWAY, 0, 1, &[0; 8]),
        ] {
            let mut bench = Bench::connected(side, Config::default(), &[]);
            let events = bench.feed(&octets);
            bench.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
        }
    }
}

/// `h2:B35`: a field that is malformed, found while its block still goes on: the rest of the block belongs to it, and
/// the tables stay in step.
#[test]
fn a_malformed_block_is_read_to_its_end() {
    let mut server = Bench::server();
    let block = server.block(&[REQUEST, &[("X-Upper", "1"), ("x-kept", "in the table")]].concat());
    let (front, back) = block.split_at(block.len() - 6);
    let octets = [
        frame_of(Kind::HEADERS, frame::END_STREAM, 1, front),
        frame_of(Kind::CONTINUATION, 0, 1, &back[..3]),
        frame_of(Kind::CONTINUATION, frame::END_HEADERS, 1, &back[3..]),
    ]
    .concat();
    assert_eq!(server.feed(&octets), []);
    assert_eq!(server.sent()[0].code(), ErrorCode::PROTOCOL_ERROR);
    let again = server.headers(3, &[REQUEST, &[("x-kept", "in the table")]].concat(), true);
    let events = server.feed(&again);
    let [Incoming::Request { head, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(head.headers.get(&HeaderName::from_static("x-kept")).unwrap(), "in the table");
}

/// `h2:B46`, `h2:B47`, `h2:F8`, `h2:F9`, `h2:F11`: a frame that carries a field block and cannot be read loses the state of
/// HPACK, and with it the connection.
#[test]
fn a_head_that_cannot_be_read_ends_the_connection() {
    for (flags, payload, code) in [
        (frame::PADDED, &[5, 0x82, 0, 0, 0][..], ErrorCode::PROTOCOL_ERROR),
        (frame::PADDED, &[][..], ErrorCode::FRAME_SIZE_ERROR),
        (frame::PRIORITY, &[0, 0, 0, 0][..], ErrorCode::FRAME_SIZE_ERROR),
        (frame::PADDED | frame::PRIORITY, &[1, 0, 0, 0, 0, 0][..], ErrorCode::PROTOCOL_ERROR),
    ] {
        let mut server = Bench::server();
        let events = server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS | flags, 1, payload));
        server.assert_ended(&events, code);
    }
    // Padding up to the edge is right, and what it holds is nobody's business (`h2:F9`).
    let mut server = Bench::server();
    let block = server.block(REQUEST);
    let mut payload = vec![200];
    payload.extend_from_slice(&block);
    payload.resize(payload.len() + 200, 0xee);
    let flags = frame::END_HEADERS | frame::END_STREAM | frame::PADDED;
    assert_eq!(server.feed(&frame_of(Kind::HEADERS, flags, 1, &payload)).len(), 1);
}

/// `h2:B57`, `h2:W4`: our SETTINGS shrink a window below what has arrived: credit is counted from the
/// acknowledgement, and what is consumed opens the window again.
#[test]
fn a_window_that_settings_shrank_opens_again() {
    let config = Config { initial_stream_window: 16_384, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    let octets = [frame::PREFACE.to_vec(), settings_frame(&[])].concat();
    server.feed(&octets);
    let key = server.request(1, false);
    server.feed(&data_frame(1, &[0; 15_000], false));
    server.feed(&data_frame(1, &[0; 15_000], false));
    server.feed(&SETTINGS_ACK);
    server.sent();
    assert_eq!(server.engine.may_come(key), 0);
    server.engine.consumed(key, 30_000);
    let updates: u32 = server.sent().iter().filter(|frame| frame.stream == 1).map(Sent::number).sum();
    assert_eq!(updates, 30_000);
    assert_eq!(server.engine.may_come(key), 16_384);
    server.feed(&data_frame(1, &[0; 16_384], true));
    assert!(server.engine.terminal.is_none());
}

/// `h2:B59`, `h2:H5`: an end that does not fit `content-length` is an error also where our half has ended.
#[test]
fn a_short_body_on_a_half_closed_stream_is_an_error() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.finish(key, None);
    client.sent();
    let octets =
        [client.headers(1, &[(":status", "200"), ("content-length", "5")], false), data_frame(1, b"123", true)]
            .concat();
    let events = client.feed(&octets);
    assert!(
        matches!(
            events[..],
            [
                Incoming::Response { end: false, .. },
                Incoming::Reset { by_peer: false, code: ErrorCode::PROTOCOL_ERROR, .. }
            ]
        ),
        "{events:?}"
    );
}

/// `h2:B67`, `h2:H8`, h2spec generic 4/4: a server takes trailers of a request.
#[test]
fn a_server_takes_trailers() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    let octets = [data_frame(1, b"body", false), server.headers(1, &[("x-sum", "1")], true)].concat();
    let events = server.feed(&octets);
    assert!(matches!(events[..], [Incoming::Data { end: false, .. }, Incoming::Trailers { .. }]), "{events:?}");
    server.engine.send_head(key, response_head(), true);
    assert_eq!(kinds(&server.sent()), [(Kind::HEADERS, 1)]);
}

/// `h2:B68`: a reset is not accompanied by a PING.
#[test]
fn resets_come_without_pings() {
    let mut client = Bench::client();
    let keys: Vec<StreamKey> = (0..50).map(|call| client.opened(call)).collect();
    for key in keys {
        client.engine.release(key);
    }
    assert!(client.sent().iter().all(|frame| frame.kind == Kind::RST_STREAM));
}

/// `h2:B80`, `h2:DL1`: streams that nobody reads hold their own windows, not the connection's.
#[test]
fn slow_readers_leave_the_connection_to_others() {
    let config = Config { initial_connection_window: 128 * 1024, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    for n in 0..20 {
        server.request(2 * n + 1, false);
        for _ in 0..4 {
            assert_eq!(server.feed(&data_frame(2 * n + 1, &[0; 16_384], false)).len(), 1);
        }
        server.sent();
    }
    server.request(99, false);
    assert_eq!(server.feed(&data_frame(99, &[0; 16_384], true)).len(), 1);
}

/// `h2:B83`, `h2:F24`: RST_STREAM is never answered by RST_STREAM, on any stream that ever was.
#[test]
fn a_reset_is_not_answered() {
    let mut server = Bench::server();
    let (ended, ours, theirs) = (server.request(1, true), server.request(3, false), server.request(5, false));
    server.engine.send_head(ended, response_head(), true);
    server.engine.reset(ours, ErrorCode::CANCEL);
    server.feed(&rst_frame(5, ErrorCode::CANCEL));
    for key in [ended, ours, theirs] {
        server.engine.release(key);
    }
    server.sent();
    for id in [1, 3, 5] {
        for _ in 0..3 {
            assert_eq!(server.feed(&rst_frame(id, ErrorCode::PROTOCOL_ERROR)), []);
        }
    }
    assert_eq!(server.sent(), []);
}

/// `h2:B44`, `h2:T9`: after the last id there is none, and it is neither zero nor one above the last.
#[test]
fn ids_end_without_wrapping() {
    let mut client = Bench::client();
    client.engine.next_id = frame::MAX_WINDOW;
    // Beyond the mark from which on a connection drains there is no new call at all.
    assert_eq!(client.engine.open(request_head(), 1), Err(OpenError::GoingAway));
    assert_eq!(client.engine.next_id, frame::MAX_WINDOW);
}
