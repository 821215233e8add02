//! Rules of the checklist about what we send, in which order, and what we keep to ourselves (§1.3, §4.2, §5, §8.2),
//! where no test of a topic shows them.

use super::*;

/// Octets that one poll hands out, as kinds of frames.
fn order(bench: &mut Bench) -> Vec<(Kind, u32)> {
    kinds(&bench.sent())
}

/// A server with a request whose response of `len` octets waits for the peer's window.
fn waiting(len: usize) -> (Bench, StreamKey) {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(4, 0)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; len]));
    server.engine.finish(key, Some(trailers()));
    server.sent();
    (server, key)
}

/// `h2:F27`: no frame of ours is padded, has priority fields or promises anything.
#[test]
fn we_send_no_padding_no_priority_and_no_promise() {
    let mut pair = Pair::new(Config::default(), Config::default());
    let key = pair.client.open(request_head(), 1).expect("room");
    pair.client.send_data(key, Some([0; 5]), Bytes::from(vec![0; 40_000]));
    pair.client.finish(key, None);
    let mut out = Transmit::new();
    let mut seen = Vec::new();
    for _ in 0..10 {
        pair.client.poll_transmit(&mut out, pair.now);
        seen.extend(out.chunks().flatten().copied());
        out.advance(out.len());
    }
    let frames = parse(&seen[frame::PREFACE.len()..]);
    assert!(frames.len() >= 5);
    for frame in frames {
        assert!(!matches!(frame.kind, Kind::PRIORITY | Kind::PUSH_PROMISE), "{frame:?}");
        if matches!(frame.kind, Kind::DATA | Kind::HEADERS) {
            assert_eq!(frame.flags & !(frame::END_STREAM | frame::END_HEADERS), 0, "{frame:?}");
        }
    }
}

/// `h2:Q1`, `h2:Q3`: what we owe comes before what streams have, and neither waits for the other's end.
#[test]
fn control_frames_come_before_streams() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 30_000]));
    let pings: Vec<u8> = (0..100).flat_map(|_| frame_of(Kind::PING, 0, 0, &[0; 8])).collect();
    server.feed(&[settings_frame(&[]), pings].concat());
    let order = order(&mut server);
    assert_eq!(order[0], (Kind::SETTINGS, 0));
    assert!(order[1..101].iter().all(|&frame| frame == (Kind::PING, 0)));
    assert_eq!(order[101..], [(Kind::HEADERS, 1), (Kind::DATA, 1), (Kind::DATA, 1)]);
}

/// `h2:Q2`, `h2:Q14`: what a stream says stays in order. A reset drops what was not cut into frames yet, and follows
/// what was.
#[test]
fn a_stream_speaks_in_order() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 20_000]));
    server.engine.finish(key, Some(trailers()));
    assert_eq!(order(&mut server), [(Kind::HEADERS, 1), (Kind::DATA, 1), (Kind::DATA, 1), (Kind::HEADERS, 1)]);

    let mut config = Config::default();
    config.transmit_target = 1;
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 40_000]));
    let first = parse(&server.written_by_one_poll());
    assert_eq!(kinds(&first), [(Kind::HEADERS, 1), (Kind::DATA, 1)]);
    server.engine.reset(key, ErrorCode::CANCEL);
    assert_eq!(order(&mut server), [(Kind::RST_STREAM, 1)]);
}

/// `h2:Q5`: no DATA frame is larger than 16 KiB, whatever the peer allows, so that others have their turn.
#[test]
fn frames_stay_small_whatever_the_peer_allows() {
    let settings = [(5, frame::MAX_MAX_FRAME_SIZE), (4, 1 << 20)];
    let mut server = Bench::connected(Side::Server, Config::default(), &settings);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 60_000]));
    let lens: Vec<usize> = server.sent().iter().skip(1).map(|frame| frame.payload.len()).collect();
    assert_eq!(lens, [16_384, 16_384, 16_384, 10_848]);
}

/// `h2:Q9`, `h2:DL6`: calls that wait for a stream take no window from those that have one.
#[test]
fn waiting_calls_take_no_window() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 1)]);
    let first = client.engine.open(request_head(), 1).expect("room");
    let second = client.engine.open(request_head(), 2).expect("it waits");
    client.engine.send_data(second, None, Bytes::from(vec![0; 60_000]));
    client.engine.send_data(first, None, Bytes::from(vec![0; 65_535]));
    let sent: usize = client.sent().iter().filter(|f| f.kind == Kind::DATA).map(|f| f.payload.len()).sum();
    assert_eq!(sent, 65_535);
}

/// `h2:Q11`: weights and dependencies change nothing in whose turn it is.
#[test]
fn priorities_do_not_change_the_order() {
    let mut server = Bench::server();
    let keys: Vec<StreamKey> = [1, 3, 5].map(|id| server.request(id, true)).into();
    // The first is to wait for the last, and weighs least.
    server.feed(&frame_of(Kind::PRIORITY, 0, 1, &[0x80, 0, 0, 5, 0]));
    for key in keys {
        server.engine.send_head(key, response_head(), true);
    }
    assert_eq!(order(&mut server), [(Kind::HEADERS, 1), (Kind::HEADERS, 3), (Kind::HEADERS, 5)]);
}

/// `h2:S2`, `h2:S8`: one SETTINGS frame of ours, and in the first seconds of silence nothing but it, our window update
/// and the acknowledgement.
#[test]
fn a_server_says_nothing_unasked() {
    let mut config = Config::default();
    config.keepalive_interval = Some(Duration::from_secs(10));
    let mut server = Bench::fresh(Side::Server, config);
    server.feed(&[frame::PREFACE.to_vec(), settings_frame(&[])].concat());
    let kinds: Vec<Kind> = server.sent().iter().map(|frame| frame.kind).collect();
    assert_eq!(kinds, [Kind::SETTINGS, Kind::WINDOW_UPDATE, Kind::SETTINGS]);
    server.feed(&SETTINGS_ACK);
    for _ in 0..20 {
        server.wait(Duration::from_millis(100));
        assert_eq!(server.sent(), []);
    }
}

/// `h2:S3`, `h2:S7`: what loosens a limit is honoured from the start, what tightens it from the acknowledgement on.
#[test]
fn limits_that_loosen_hold_before_the_acknowledgement() {
    let config = Config { max_frame_size: 32 * 1024, initial_stream_window: 5, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    server.feed(&[frame::PREFACE.to_vec(), settings_frame(&[])].concat());
    server.request(1, false);
    assert_eq!(server.feed(&data_frame(1, &[0; 30_000], false)).len(), 1, "a large frame, in the old window");
    server.feed(&SETTINGS_ACK);
    server.request(3, false);
    let events = server.feed(&data_frame(3, &[0; 6], false));
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
}

/// `h2:S5`: as many entries as any peer is known to send are taken.
#[test]
fn many_settings_in_one_frame_are_taken() {
    let mut server = Bench::server();
    let entries: Vec<(u16, u32)> = (0xf000..0xf000 + 32).map(|id| (id, 1)).collect();
    assert_eq!(server.feed(&settings_frame(&entries)), []);
    assert_eq!(order(&mut server), [(Kind::SETTINGS, 0)]);
}

/// `h2:S6`, `h2:DL4`: acknowledgements wait in a queue with an end; where it is full we stop to read, and go on when
/// the peer takes them. Both sides that block each other are set free by the timer.
#[test]
fn acknowledgements_are_bounded_and_a_blocked_peer_is_left() {
    let mut config = Config::default();
    config.max_control_queue = 20;
    let mut server = Bench::connected(Side::Server, config, &[]);
    server.feed(&settings_frame(&[]).repeat(50));
    assert!(!server.engine.wants_read());
    for _ in 0..2 {
        server.engine.poll_transmit(&mut server.out, server.now);
        server.wait(Duration::from_secs(31));
    }
    server.engine.poll_transmit(&mut server.out, server.now);
    assert!(matches!(server.events()[..], [Incoming::Closed(ConnectionError::Timeout(_))]));
}

/// `h2:T1`, `h2:T2`: commands out of order make no frame out of order.
#[test]
fn commands_out_of_order_make_no_frames() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_data(key, None, Bytes::from_static(b"before the head"));
    assert_eq!(server.sent(), []);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_head(key, response_head(), true);
    server.engine.finish(key, None);
    server.engine.send_data(key, None, Bytes::from_static(b"after the end"));
    server.engine.finish(key, Some(trailers()));
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::HEADERS, 1), (Kind::DATA, 1)]);
    assert_eq!(frames[1].payload, b"before the head");
    server.engine.send_data(key, None, Bytes::from_static(b"after the end"));
    server.engine.reset(key, ErrorCode::CANCEL);
    assert_eq!(server.sent(), []);
}

/// `h2:L5`: a literal that is too large for the list still enters the table; one too large for the table empties it.
#[test]
fn fields_beyond_the_list_still_reach_the_table() {
    let mut config = Config::default();
    config.max_header_list = 3000;
    let mut server = Bench::connected(Side::Server, config, &[]);
    // By hand, for the encoder of the bench does not know what is put behind its back into the table.
    const REQUEST: &[u8] = b"\x83\x86\x04\x02/p\x01\x09localhost";
    let mut block = [REQUEST, b"\x00\x06x-fill\x7f\xb9\x16", &[b'f'; 3000]].concat();
    block.extend(b"\x40\x06x-kept\x01k");
    let head = frame::END_HEADERS | frame::END_STREAM;
    assert_eq!(server.feed(&frame_of(Kind::HEADERS, head, 1, &block)), []);
    server.sent();
    let block = [REQUEST, &[0xbe]].concat();
    let events = server.feed(&frame_of(Kind::HEADERS, head, 3, &block));
    let [Incoming::Request { head: request, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(request.headers.get(&HeaderName::from_static("x-kept")).unwrap(), "k");
    // 4,097 octets and more: nothing is left to refer to.
    let mut block = b"\x40\x05x-big\x7f\x81\x1f".to_vec();
    block.resize(block.len() + 127 + 0x81 - 0x80 + (0x1f << 7), b'b');
    block.push(0xbe);
    let events = server.feed(&frame_of(Kind::HEADERS, head, 5, &block));
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
}

/// `h2:L6`: trailers have a list of their own, as large as that of the head.
#[test]
fn trailers_have_their_own_limit() {
    let mut config = Config::default();
    config.max_header_list = 1000;
    let mut server = Bench::connected(Side::Server, config, &[]);
    let value = "v".repeat(600);
    let octets = [
        server.headers(1, &[REQUEST, &[("x-head", value.as_str())]].concat(), false),
        server.headers(1, &[("x-trailer", value.as_str())], true),
    ]
    .concat();
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { .. }, Incoming::Trailers { .. }]));
}

/// `h2:N6`: a head is encoded when it is written: one that is cancelled before leaves the tables as they were.
#[test]
fn a_cancelled_head_was_never_encoded() {
    let mut client = Bench::client();
    for n in 0..20 {
        let mut head = request_head();
        head.headers.push(HeaderName::from_static("x-name"), Bytes::from(vec![b'a' + n; 40]));
        let key = client.engine.open(head, 1).expect("room");
        if n % 2 == 0 {
            client.engine.release(key);
        }
    }
    for frame in client.sent() {
        let fields = client.fields(&[frame]);
        assert_eq!(fields.last().map(|(name, _)| &name[..]), Some(&b"x-name"[..]));
    }
}

/// `h2:V10`: long names are a matter of the list's size, and of nothing else.
#[test]
fn a_long_name_counts_towards_the_list() {
    let name = "n".repeat(5000);
    let mut server = Bench::server();
    let octets = server.headers(1, &[REQUEST, &[(name.as_str(), "v")]].concat(), true);
    assert!(matches!(server.feed(&octets)[..], [Incoming::Request { .. }]));
    let mut config = Config::default();
    config.max_header_list = 5000;
    let mut server = Bench::connected(Side::Server, config, &[]);
    let octets = server.headers(1, &[REQUEST, &[(name.as_str(), "v")]].concat(), true);
    assert_eq!(server.feed(&octets), []);
}

/// `h2:V9`: crumbs of a cookie are counted, and handed on, one by one.
#[test]
fn crumbs_of_a_cookie_count_one_by_one() {
    let crumbs = [("cookie", "a=1"); 40];
    let mut server = Bench::server();
    let octets = server.headers(1, &[REQUEST, &crumbs].concat(), true);
    let events = server.feed(&octets);
    let [Incoming::Request { head, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(head.headers.iter().filter(|field| field.value == "a=1").count(), 40);
    let mut config = Config::default();
    config.max_headers = 40;
    let mut server = Bench::connected(Side::Server, config, &[]);
    let octets = server.headers(1, &[REQUEST, &crumbs].concat(), true);
    assert_eq!(server.feed(&octets), []);
    let mut config = Config::default();
    config.max_header_list = 1500; // the crumbs alone take 40 × (6 + 3 + 32)
    let mut server = Bench::connected(Side::Server, config, &[]);
    let octets = server.headers(1, &[REQUEST, &crumbs].concat(), true);
    assert_eq!(server.feed(&octets), []);
}

/// `h2:W12`: frames without flow control have limits of their own, also where no window is open.
#[test]
fn heads_need_no_window() {
    let (mut server, _) = waiting(100);
    let key = server.request(3, true);
    server.engine.send_head(key, response_head(), true);
    assert_eq!(order(&mut server), [(Kind::HEADERS, 3)]);
}

/// `h2:DL9`: a stream whose window is the largest there is gets no update that would overflow it, also when more is
/// needed than it holds.
#[test]
fn the_largest_window_is_never_raised() {
    let mut config = Config::default();
    (config.initial_stream_window, config.max_reserved) = (frame::MAX_WINDOW, usize::MAX);
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    server.feed(&data_frame(1, &[0; 16_384], false));
    server.engine.need(key, usize::MAX);
    let total: u64 = server.sent().iter().filter(|f| f.stream == 1).map(|f| u64::from(f.number())).sum();
    assert!(total <= 16_384, "{total}");
    server.engine.consumed(key, 16_384);
    let more: u64 = server.sent().iter().filter(|f| f.stream == 1).map(|f| u64::from(f.number())).sum();
    assert!(total + more <= 16_384, "{total} and {more}");
}

/// `h2:E3`, `h2:P16`: time comes in by argument alone; it may stand still, go back, or leap.
#[test]
fn time_may_stand_still_go_back_or_leap() {
    for step in [0_i64, -1, 1 << 40] {
        let mut config = Config::default();
        config.send_stall_timeout = None;
        let mut server = Bench::connected(Side::Server, config, &[]);
        for n in 0..10 {
            let nanos = server.now.as_nanos().saturating_add_signed(step);
            server.now = Instant::from_nanos(nanos);
            server.engine.handle_timeout(server.now);
            let key = server.request(2 * n + 1, true);
            server.engine.send_head(key, response_head(), true);
            assert_eq!(order(&mut server).last(), Some(&(Kind::HEADERS, 2 * n + 1)));
        }
    }
}
