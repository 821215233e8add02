//! Flow control (RFC 9113 §5.2, §6.9; checklist §3).

use super::*;

const INITIAL_WINDOW_SIZE: u16 = 4;

fn data_lens(frames: &[Sent]) -> Vec<usize> {
    frames.iter().filter(|frame| frame.kind == Kind::DATA).map(|frame| frame.payload.len()).collect()
}

fn updates(frames: &[Sent]) -> Vec<(u32, u32)> {
    let updates = frames.iter().filter(|frame| frame.kind == Kind::WINDOW_UPDATE);
    updates.map(|frame| (frame.stream, frame.number())).collect()
}

fn server_with_window(window: u32) -> (Bench, StreamKey) {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(INITIAL_WINDOW_SIZE, window)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.sent();
    (server, key)
}

/// `h2:W5`, h2spec 6.9.2/2: a window shrunk below zero blocks until updates lift it above zero.
#[test]
fn a_window_may_go_negative_and_come_back() {
    let (mut server, key) = server_with_window(3);
    server.engine.send_data(key, None, Bytes::from_static(b"hello"));
    assert_eq!(data_lens(&server.sent()), [3]);
    server.feed(&settings_frame(&[(INITIAL_WINDOW_SIZE, 2)]));
    assert_eq!(data_lens(&server.sent()), []);
    server.feed(&window_update(1, 2));
    assert_eq!(data_lens(&server.sent()), [1]);
}

/// `h2:W5`, `h2:DL3`: raising INITIAL_WINDOW_SIZE wakes every stream that waits.
#[test]
fn raising_the_initial_window_wakes_waiting_streams() {
    let (mut server, key) = server_with_window(0);
    server.engine.send_data(key, None, Bytes::from_static(b"hello"));
    assert_eq!(data_lens(&server.sent()), []);
    server.feed(&settings_frame(&[(INITIAL_WINDOW_SIZE, 4)]));
    let frames = server.sent();
    assert_eq!(frames[0].flags, frame::ACK, "the acknowledgement precedes what relies on it");
    assert_eq!(data_lens(&frames), [4]);
}

/// `h2:W5`, `h2:B62`: an overflow by SETTINGS is a fault of the connection.
#[test]
fn settings_that_overflow_a_window_end_the_connection() {
    let (mut server, _) = server_with_window(0);
    assert_eq!(server.feed(&window_update(1, frame::MAX_WINDOW)), []);
    let events = server.feed(&settings_frame(&[(INITIAL_WINDOW_SIZE, 1)]));
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
}

/// `h2:B14`: streams whose send half has ended do not take part.
#[test]
fn settings_skip_streams_that_send_nothing_more() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.finish(key, None);
    client.sent();
    client.feed(&window_update(1, frame::MAX_WINDOW - 65_535));
    assert_eq!(client.feed(&settings_frame(&[(INITIAL_WINDOW_SIZE, 1 << 30)])), []);
}

/// `h2:W6`, `h2:B60`, `h2:DL10`: an empty DATA with END_STREAM needs no window.
#[test]
fn end_stream_needs_no_window() {
    let (mut server, key) = server_with_window(1);
    server.engine.send_data(key, None, Bytes::from_static(b"x"));
    server.sent();
    server.feed(&settings_frame(&[(INITIAL_WINDOW_SIZE, 0)]));
    server.engine.finish(key, None);
    let frames = server.sent();
    assert_eq!(data_lens(&frames), [0]);
    assert!(frames.last().unwrap().ends());
}

/// `h2:W2`, `h2:B61`: INITIAL_WINDOW_SIZE does not touch the connection's window.
#[test]
fn the_initial_window_does_not_touch_the_connections() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 100_000]));
    assert_eq!(data_lens(&server.sent()).iter().sum::<usize>(), 65_535);
    server.feed(&window_update(0, 10_000));
    assert_eq!(data_lens(&server.sent()), [10_000]);
}

/// RFC 9113 §6.9.1, h2spec 6.9.1/2: an overflow of the connection's window.
#[test]
fn an_overflow_of_the_connection_window_ends_the_connection() {
    let mut server = Bench::server();
    let events = server.feed(&window_update(0, frame::MAX_WINDOW));
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
}

/// RFC 9113 §6.9.1, h2spec 6.9.1/3, `h2:B77`, `h2:B88`: an overflow of a stream's window costs the stream,
/// with the RST_STREAM on the wire, also when its send half has ended.
#[test]
fn an_overflow_of_a_stream_window_costs_the_stream() {
    let mut client = Bench::client();
    let key = client.opened(1);
    client.engine.finish(key, None);
    client.sent();
    let events = client.feed(&window_update(1, frame::MAX_WINDOW));
    assert!(matches!(
        events[..],
        [Incoming::Reset { call: 1, by_peer: false, code: ErrorCode::FLOW_CONTROL_ERROR, .. }]
    ));
    let frames = client.sent();
    assert_eq!((frames[0].kind, frames[0].code()), (Kind::RST_STREAM, ErrorCode::FLOW_CONTROL_ERROR));
    client.opened(2);
}

/// RFC 9113 §6.9: an increment of zero, on the connection or a stream (`h2:B88`).
#[test]
fn an_increment_of_zero_ends_the_connection() {
    for stream in [0, 1] {
        let mut server = Bench::server();
        server.request(1, false);
        let events = server.feed(&window_update(stream, 0));
        server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
}

/// `h2:W3`: more than the windows allow is a fault; padding counts.
#[test]
fn overrunning_a_window_ends_the_connection() {
    let config = Config { initial_stream_window: 16_384, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    server.request(1, false);
    server.feed(&data_frame(1, &[0; 16_384], false));
    let padding_only = frame_of(Kind::DATA, frame::PADDED, 1, &[0]);
    let events = server.feed(&padding_only);
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
}

/// `h2:W4`, `h2:B15`: before the acknowledgement of our SETTINGS the old window holds, after it the new
/// one, for streams that were open as well.
#[test]
fn our_window_binds_from_the_acknowledgement_on() {
    let config = Config { initial_stream_window: 10, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    let request = server.headers(1, REQUEST, false);
    let octets = [frame::PREFACE, &settings_frame(&[])[..], &request, &data_frame(1, &[0; 60], false)].concat();
    let events = server.feed(&octets);
    let Some(Incoming::Request { stream, .. }) = events.get(1) else { panic!("{events:?}") };
    server.engine.bind(*stream, 1);
    assert!(matches!(events[2], Incoming::Data { .. }), "65,535 octets were allowed");
    // The window is now 10 − 60: fifty consumed octets are a debt, and the rest is credit.
    server.feed(&SETTINGS_ACK);
    server.sent();
    server.engine.consumed(*stream, 60);
    assert_eq!(updates(&server.sent()), [(1, 60)]);
    server.feed(&data_frame(1, &[0; 10], false));
    let events = server.feed(&data_frame(1, &[0], false));
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
}

/// `arch:8`: the connection's credit returns on arrival, a stream's when the application takes the octets.
#[test]
fn connection_credit_returns_on_arrival_and_stream_credit_on_consumption() {
    let config = Config { initial_connection_window: 1 << 20, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let keys: Vec<StreamKey> = (0..20).map(|n| server.request(2 * n + 1, false)).collect();
    let mut connection_credit = 0;
    for n in 0..20 {
        for _ in 0..4 {
            assert_eq!(joined(server.feed(&data_frame(2 * n + 1, &[0; 16_384], false))).len(), 1);
        }
        let updates = updates(&server.sent());
        assert!(updates.iter().all(|(stream, _)| *stream == 0), "nobody has taken anything yet");
        connection_credit += updates.iter().map(|(_, increment)| increment).sum::<u32>();
    }
    assert!(connection_credit >= 20 * 65_536 - 512 * 1024);
    server.engine.consumed(keys[3], 16_383);
    assert_eq!(updates(&server.sent()), [], "below a quarter of the window");
    server.engine.consumed(keys[3], 49_153);
    assert_eq!(updates(&server.sent()), [(7, 65_536)]);
}

/// `arch:4`, `h2:Q10`: updates are merged, and come before other output.
#[test]
fn updates_are_merged_and_come_first() {
    let config = Config { adaptive_window: false, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    server.feed(&data_frame(1, &[0; 16_384], false));
    server.feed(&data_frame(1, &[0; 16_384], false));
    server.engine.send_head(key, response_head(), false);
    server.engine.consumed(key, 20_000);
    server.engine.consumed(key, 5000);
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::WINDOW_UPDATE, 1), (Kind::HEADERS, 1)]);
    assert_eq!(frames[0].number(), 25_000);
}

/// `h2:W8`, `h2:DL5`, `h2:B36`, `h2:B37`: DATA that nobody will read is paid back to the connection, and
/// never to its stream.
#[test]
fn data_on_a_dead_stream_is_paid_back_to_the_connection() {
    let config = Config { initial_connection_window: 1 << 20, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    server.engine.reset(key, ErrorCode::CANCEL);
    server.engine.release(key);
    assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
    let mut credit = 0;
    for _ in 0..200 {
        assert_eq!(server.feed(&data_frame(1, &[0; 16_384], false)), []);
        for (stream, increment) in updates(&server.sent()) {
            assert_eq!(stream, 0);
            credit += increment as usize;
        }
    }
    assert!(credit > 200 * 16_384 - 600_000, "{credit}");
}

/// `h2:W9`, `h2:B3`, `h2:B4`, `h2:A22`: padding is paid back on both levels; nobody else ever would.
#[test]
fn padding_is_paid_back_to_stream_and_connection() {
    let config = Config { max_empty_data: 1000, initial_connection_window: 65_535, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    server.request(1, false);
    let mut payload = vec![255];
    payload.resize(256, 0);
    for _ in 0..64 {
        assert_eq!(server.feed(&frame_of(Kind::DATA, frame::PADDED, 1, &payload)), []);
    }
    assert_eq!(updates(&server.sent()), [(0, 64 * 256), (1, 64 * 256)]);
}

/// `h2:W10`: credit for the octets of a stream is given once, whatever the owner calls.
#[test]
fn a_released_stream_gives_no_credit_twice() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    server.feed(&data_frame(1, &[0; 1000], false));
    server.engine.consumed(key, 5000);
    server.engine.release(key);
    server.engine.consumed(key, 5000);
    server.engine.release(key);
    assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
}

/// `h2:W11`, `h2:F25`, `h2:B54`: no update for a stream that receives nothing any more.
#[test]
fn an_ended_stream_gets_no_update() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    for end in [false, false, false, true] {
        server.feed(&data_frame(1, &[0; 16_384], end));
    }
    server.engine.consumed(key, 65_536);
    assert_eq!(updates(&server.sent()), []);
}

/// `h2:B41`, `h2:DL7`: late updates for closed streams are ignored.
#[test]
fn late_updates_are_ignored() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), true);
    server.engine.release(key);
    server.sent();
    assert_eq!(server.feed(&window_update(1, 100)), []);
    assert_eq!(server.sent(), []);
}

/// `h2:B8`: a reset does not wait for the window of what it throws away.
#[test]
fn a_reset_does_not_wait_for_a_window() {
    let (mut server, key) = server_with_window(0);
    server.engine.send_data(key, None, Bytes::from_static(b"hello"));
    server.sent();
    server.engine.reset(key, ErrorCode::CANCEL);
    assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
    server.feed(&window_update(1, 10));
    assert_eq!(server.sent(), []);
}

/// `arch:4`, `h2:Q4`: round robin; a body of a few frames is a turn's, and a large one goes on when each had its turn.
#[test]
fn streams_take_turns() {
    let order = |len| {
        let windows = [(INITIAL_WINDOW_SIZE, 1 << 20)];
        let mut client = Bench::connected(Side::Client, Config::default(), &windows);
        client.feed(&window_update(0, 1 << 20));
        for call in 0..3 {
            let key = client.engine.open(request_head(), call).unwrap();
            client.engine.send_data(key, None, Bytes::from(vec![call as u8; len]));
            client.engine.finish(key, None);
        }
        let is_data = |frame: &&Sent| frame.kind == Kind::DATA;
        client.sent().iter().filter(is_data).map(|frame| (frame.stream, frame.payload.len())).collect::<Vec<_>>()
    };
    let frames = |len| [(1, len), (3, len), (5, len)];
    let whole = |len| {
        let parts = move |stream| (0..len).step_by(16_384).map(move |at: usize| (stream, 16_384.min(len - at)));
        [1, 3, 5].into_iter().flat_map(parts).collect::<Vec<_>>()
    };
    for len in [100, 20_000, 49_152] {
        assert_eq!(order(len), whole(len));
    }
    assert_eq!(order(16_384 + 49_153), [&frames(16_384)[..], &whole(49_153)].concat());
}

/// A server whose peer reads without limit, and bodies of 4 MiB on as many streams, of which each had its first turn.
fn server_with_large_bodies(streams: u32) -> Bench {
    let config = Config { send_buffer: 4 << 20, transmit_target: 1, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    server.feed(&window_update(0, 1 << 30));
    for id in (1..).step_by(2).take(streams as usize) {
        let key = server.request(id, true);
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 4 << 20]));
    }
    for _ in 0..streams {
        next_data(&mut server);
    }
    server
}

/// The stream of the next turn's DATA.
fn next_data(server: &mut Bench) -> u32 {
    let sent = parse(&server.written_by_one_poll());
    sent.iter().find(|frame| frame.kind == Kind::DATA).expect("a turn has DATA").stream
}

/// `h2:Q4`: a large body has a spell of 1 MiB before the next has as much.
#[test]
fn large_bodies_leave_one_after_the_other() {
    let mut server = server_with_large_bodies(3);
    let turns: Vec<u32> = (0..4 * 64).map(|_| next_data(&mut server)).collect();
    let spells: Vec<(u32, usize)> = turns.chunk_by(|a, b| a == b).map(|spell| (spell[0], spell.len())).collect();
    assert_eq!(spells, [(1, 64), (3, 64), (5, 64), (1, 64)]);
}

/// `h2:Q4`: where a body takes long, its spell is over after 5 ms, and no earlier.
#[test]
fn a_slow_way_makes_spells_short() {
    let mut server = server_with_large_bodies(2);
    let turns: Vec<u32> = (0..8)
        .map(|_| {
            let stream = next_data(&mut server);
            server.wait(Duration::from_millis(2));
            stream
        })
        .collect();
    assert_eq!(turns, [1, 1, 1, 3, 3, 3, 1, 1]);
}

/// `h2:Q4`: what is short goes before a large body in its spell, and a frame of that follows each frame's worth of it.
#[test]
fn what_is_short_waits_for_no_body_and_starves_none() {
    let mut server = server_with_large_bodies(2);
    assert_eq!(next_data(&mut server), 1);
    for id in (5..).step_by(2).take(6) {
        let key = server.request(id, true);
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 8_192]));
        server.engine.finish(key, None);
    }
    let turns: Vec<u32> = (0..10).map(|_| next_data(&mut server)).collect();
    assert_eq!(turns, [5, 7, 1, 9, 11, 1, 13, 15, 1, 1]);
}

/// `h2:DL8`: whoever has waited longest for the connection's window is served first; heads and ends are
/// not held back by it.
#[test]
fn the_connection_window_is_shared_in_order_of_waiting() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    for call in 0..3 {
        let key = client.engine.open(request_head(), call).unwrap();
        client.engine.send_data(key, None, Bytes::from(vec![0; 65_535 + 10]));
    }
    let first = client.sent();
    assert_eq!(data_lens(&first).iter().sum::<usize>(), 65_535);
    let late = client.engine.open(request_head(), 3).unwrap();
    client.engine.finish(late, None);
    assert_eq!(kinds(&client.sent()), [(Kind::HEADERS, 7), (Kind::DATA, 7)]);
    let served: Vec<u32> = (0..6)
        .flat_map(|_| {
            client.feed(&window_update(0, 5));
            client.sent().iter().map(|frame| frame.stream).collect::<Vec<_>>()
        })
        .collect();
    let mut sorted = served[..3].to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, [1, 3, 5], "each has had its turn: {served:?}");
    assert_eq!(served[..3], served[3..], "in the same order again");
}

/// `h2:B85`, `h2:Q8`: `Writable` comes once, when a full buffer is down to half.
#[test]
fn writable_comes_when_a_full_buffer_is_half_empty() {
    let config = Config { send_buffer: 1000, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[(INITIAL_WINDOW_SIZE, 400)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 1000]));
    assert_eq!(server.engine.send_buffered(key), 1000);
    server.sent();
    assert_eq!((server.engine.send_buffered(key), server.events()), (600, vec![]));
    server.feed(&window_update(1, 100));
    server.sent();
    assert_eq!(server.events(), [Incoming::Writable { stream: key, call: 1 }]);
    server.feed(&window_update(1, 100));
    server.sent();
    assert_eq!(server.events(), []);
}
