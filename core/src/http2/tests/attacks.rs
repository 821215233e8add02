//! Peers that mean harm (checklist §6.2), as far as a test of one limit in `limits` does not show it: what each gets
//! is bounded, and honest peers that look alike are served.

use super::*;

/// Requests that reached the application, and whether the connection lives.
fn count(events: &[Incoming]) -> (usize, bool) {
    let requests = events.iter().filter(|event| matches!(event, Incoming::Request { .. })).count();
    (requests, !events.iter().any(|event| matches!(event, Incoming::Closed(_))))
}

/// Asserts that the connection ended with ENHANCE_YOUR_CALM, and that its GOAWAY says this.
fn assert_ended_because(server: &mut Bench, events: &[Incoming], why: &str) {
    let Some(Incoming::Closed(ConnectionError::Misbehaved(fault))) = events.last() else {
        panic!("the connection lives: {events:?}");
    };
    assert_eq!((fault.code, fault.detail), (ErrorCode::ENHANCE_YOUR_CALM, why));
    let frames = server.sent();
    assert!(frames.last().expect("a GOAWAY").payload.ends_with(why.as_bytes()));
}

/// `h2:A2` (MadeYouReset), `h2:P11`: frames that make a server reset a stream it has handed on. Handlers that go on
/// keep their slots, and the connection ends after the budget of faults, whichever frame it is.
#[test]
fn making_us_reset_streams_is_bounded() {
    type Frames = fn(&mut Bench, u32) -> Vec<u8>;
    let primitives: [(&str, Frames); 8] = [
        ("an update of zero", |_, id| window_update(id, 0)),
        ("an update that overflows", |_, id| window_update(id, frame::MAX_WINDOW)),
        ("PRIORITY of four octets", |_, id| frame_of(Kind::PRIORITY, 0, id, &[0; 4])),
        ("PRIORITY on itself", |_, id| frame_of(Kind::PRIORITY, 0, id, &[&id.to_be_bytes()[..], &[0]].concat())),
        ("HEADERS again, without an end", |server, id| server.headers(id, TRAILERS, false)),
        ("trailers with a pseudo field", |server, id| server.headers(id, &[(":status", "200")], true)),
        ("DATA beyond content-length", |_, id| data_frame(id, b"123456", false)),
        ("DATA short of content-length", |_, id| data_frame(id, b"1234", true)),
    ];
    for (name, primitive) in primitives {
        for handlers_end in [false, true] {
            let mut server = Bench::server();
            let (mut rounds, mut live, mut most) = (0, 0, 0);
            loop {
                let id = 2 * rounds + 1;
                rounds += 1;
                let mut octets = server.headers(id, &[REQUEST, &[("content-length", "5")]].concat(), false);
                octets.extend(primitive(&mut server, id));
                let events = server.feed(&octets);
                server.sent();
                let (requests, alive) = count(&events);
                live += requests;
                most = most.max(live);
                if !alive {
                    break;
                }
                for event in events {
                    if let (true, Incoming::Request { stream, .. }) = (handlers_end, event) {
                        server.engine.release(stream);
                        live -= 1;
                    }
                }
            }
            // A fifth of the budget, or else the updates and refusals of that long.
            assert!(rounds <= 201 + 1024, "{name}: {rounds} rounds");
            assert!(!handlers_end || rounds <= 201, "{name}: {rounds} rounds");
            assert!(most <= Config::default().max_concurrent_streams as usize, "{name}: {most} handlers");
        }
    }
}

/// `h2:A1`, `h2:P11`: open and cancel, all in one read: never more handlers than streams are allowed, and the
/// connection ends.
#[test]
fn rapid_reset_in_one_read_is_bounded() {
    let mut server = server_with(|config| {
        config.max_concurrent_streams = 100;
        config.max_refused_streams = 400;
    });
    let mut octets = Vec::new();
    for n in 0..10_000 {
        octets.extend(server.headers(2 * n + 1, REQUEST, true));
        octets.extend(rst_frame(2 * n + 1, ErrorCode::CANCEL));
    }
    let events = server.feed(&octets);
    assert_eq!(count(&events), (100, false), "nobody let go of a handler");
    assert_ended_because(&mut server, &events, "too many streams refused in a row");
}

/// `h2:A1`: open and cancel, with handlers that let go at once: slots do not help, the share of early resets does.
#[test]
fn rapid_reset_of_quick_handlers_ends_the_connection() {
    let mut server = Bench::server();
    for n in 0..=500 {
        let key = server.request(2 * n + 1, true);
        let events = server.feed(&rst_frame(2 * n + 1, ErrorCode::CANCEL));
        if n == 500 {
            return assert_ended_because(&mut server, &events, "too many streams reset early");
        }
        server.engine.release(key);
    }
}

/// `h2:A4`: streams that are reset before anybody accepted them are still held, and no more of them than may be open.
#[test]
fn streams_reset_before_they_are_accepted_are_bounded() {
    let mut server = Bench::server();
    for n in 0..1000 {
        let octets = [server.headers(2 * n + 1, REQUEST, true), rst_frame(2 * n + 1, ErrorCode::CANCEL)].concat();
        server.feed(&octets);
        server.sent();
    }
    assert_eq!(server.engine.streams.len(), Config::default().max_concurrent_streams as usize);
}

/// `h2:A3`: a peer that takes no header list has no response sent, and is not served for long.
#[test]
fn responses_that_the_peers_limit_forbids_are_counted() {
    for trailers_only in [false, true] {
        let mut server = Bench::connected(Side::Server, Config::default(), &[(6, 1)]);
        for n in 0..1001 {
            let key = server.request(2 * n + 1, true);
            if trailers_only {
                server.engine.finish(key, Some(trailers()));
            } else {
                server.engine.send_head(key, response_head(), true);
            }
            server.engine.release(key);
            let events = server.events();
            if n == 1000 {
                return assert_ended_because(&mut server, &events, "too many stream faults");
            }
            assert!(events.is_empty(), "{n}: {events:?}");
            assert_eq!(server.sent()[0].code(), ErrorCode::INTERNAL_ERROR);
        }
    }
}

/// `h2:A3`: what our own limit forbids is no fault of the peer's.
#[test]
fn responses_that_our_own_limit_forbids_are_not_counted() {
    let mut server = server_with(|config| {
        config.max_send_header_list = 10;
        config.max_stream_faults = 0;
    });
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), true);
    assert!(matches!(server.events()[..], [Incoming::Reset { .. }]));
}

/// `h2:A12`, `h2:K12`: a block in fragments of one octet is decoded once, when it is whole.
#[test]
fn a_block_in_fragments_of_one_octet_is_decoded_once() {
    let mut server = server_with(|config| {
        config.max_continuations = usize::MAX;
        config.max_short_continuations = usize::MAX;
        config.max_control_frames = u32::MAX;
    });
    let value = "v".repeat(20_000);
    let block = server.block(&[REQUEST, &[("x-long", value.as_str())]].concat());
    let (last, front) = block.split_last().expect("not empty");
    let mut octets = frame_of(Kind::HEADERS, frame::END_STREAM, 1, &[]);
    octets.extend(front.iter().flat_map(|octet| frame_of(Kind::CONTINUATION, 0, 1, &[*octet])));
    octets.extend(frame_of(Kind::CONTINUATION, frame::END_HEADERS, 1, &[*last]));
    let events = server.feed(&octets);
    let [Incoming::Request { head, end: true, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(head.headers.get(&HeaderName::from_static("x-long")).map(|value| value.len()), Some(20_000));
}

/// `h2:A15`, `h2:K4`: a string that is announced as 128 MiB and is not there.
#[test]
fn a_string_that_is_not_there_ends_the_connection() {
    let mut server = Bench::server();
    let literal = [0x40, 0x01, 0x61, 0x7f, 0x81, 0xff, 0xff, 0x3f];
    let events = server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS | frame::END_STREAM, 1, &literal));
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
}

/// `h2:A9`, `h2:A10`, `h2:L1`: thousands of references to one entry, large or empty: the list is counted by what it
/// says, with 32 octets a field, before anything is kept.
#[test]
fn references_to_one_entry_count_in_full() {
    for value_len in [0_usize, 3900] {
        let mut server = server_with(|config| config.max_headers = usize::MAX);
        let mut block = server.block(&[(":method", "POST")]);
        // Literal with indexing: the name, and a value whose length is an integer of seven bits and more.
        block.extend(b"\x40\x06x-bomb");
        match value_len {
            0 => block.push(0),
            len => block.extend([0x7f, (len - 127) as u8 | 0x80, ((len - 127) >> 7) as u8]),
        }
        block.resize(block.len() + value_len, b'v');
        block.resize(16_000, 0xbe);
        let events = server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS | frame::END_STREAM, 1, &block));
        server.assert_ended(&events, ErrorCode::ENHANCE_YOUR_CALM);
    }
}

/// `h2:A25`: with all windows open, a peer that reads nothing from its socket makes us prepare no more than
/// `transmit_target` and what one stream may queue.
#[test]
fn open_windows_do_not_make_us_buffer_without_end() {
    let config = Config::default();
    let bound = config.transmit_target + config.send_buffer + 2 * 16 * 1024;
    let mut server = Bench::connected(Side::Server, config.clone(), &[(4, frame::MAX_WINDOW)]);
    server.feed(&window_update(0, frame::MAX_WINDOW - frame::DEFAULT_WINDOW));
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    let mut queued = 0;
    for _ in 0..1000 {
        while server.engine.send_buffered(key) < config.send_buffer {
            server.engine.send_data(key, None, Bytes::from_static(&[0; 16 * 1024]));
            queued += 16 * 1024;
        }
        server.engine.poll_transmit(&mut server.out, server.now);
    }
    assert!(queued <= bound, "{queued}");
    assert!(server.out.len() <= config.transmit_target + 16 * 1024 + 9);
}

/// `h2:A29`, `h2:A51`, `h2:B42`: frames of extensions that we do not know make no state, on idle streams or none, and
/// are no more than so many control frames.
#[test]
fn frames_of_extensions_make_no_state() {
    let (altsvc, origin, priority_update) = (Kind(0x0a), Kind(0x0c), Kind(0x10));
    for kind in [altsvc, origin, priority_update] {
        for stream in [0, 1, 7, frame::MAX_WINDOW] {
            let mut server = server_with(|config| config.max_control_frames = 1000);
            let octets = frame_of(kind, 0xff, stream, b"\x00\x00\x00\x09u=1");
            // The first after the preface's SETTINGS, and then many.
            let mut fed = 0;
            while server.feed(&octets).is_empty() {
                assert_eq!((server.engine.streams.len(), server.sent()), (0, vec![]));
                fed += 1;
            }
            assert_eq!(fed, 999);
        }
    }
}

/// `h2:A30`, `h2:B72`: every type from 10 on is skipped, whatever its payload.
#[test]
fn every_unknown_type_is_skipped() {
    let mut server = Bench::server();
    for kind in 0x0a..=0xff {
        assert_eq!(server.feed(&frame_of(Kind(kind), 0xff, 5, &[kind; 300])), [], "{kind:#x}");
    }
    assert_eq!(server.sent(), []);
    server.request(1, true);
}

/// `h2:A35`, `h2:B70`: an overflow of the connection's window while streams wait for it: GOAWAY leaves although no
/// window is open, and nothing is left behind.
#[test]
fn an_overflow_while_streams_wait_ends_everything() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(4, 0)]);
    let keys: Vec<StreamKey> = (0..10).map(|n| server.request(2 * n + 1, true)).collect();
    for &key in &keys {
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from_static(&[0; 1000]));
    }
    server.sent();
    let events = server.feed(&window_update(0, frame::MAX_WINDOW));
    server.assert_ended(&events, ErrorCode::FLOW_CONTROL_ERROR);
    for key in keys {
        server.engine.release(key);
    }
    assert_eq!(server.engine.streams.len(), 0);
    assert_eq!(server.engine.poll_timeout(), None);
}

/// `h2:A41`, `h2:B86`: what honest heavy peers do. Ten minutes of 1000 calls a second of which a fifth is cancelled by
/// its deadline, in the scale of one to ten; 250 uploads in small pieces to handlers that are slow; a PING every ten
/// seconds on top.
#[test]
fn honest_heavy_traffic_trips_no_limit() {
    let config = Config::default();
    let mut server = server_with(|tenth| {
        tenth.max_peer_resets = config.max_peer_resets / 10;
        tenth.peer_resets_per_second = config.peer_resets_per_second / 10;
        tenth.max_early_resets = config.max_early_resets / 10;
        tenth.early_resets_per_second = config.early_resets_per_second / 10;
        tenth.max_control_frames = config.max_control_frames / 10;
        tenth.control_frames_per_second = config.control_frames_per_second / 10;
        tenth.max_stream_faults = 0;
    });
    for n in 0..60_000 {
        let id = 2 * n + 1;
        let key = server.request(id, true);
        if n % 5 == 0 {
            assert!(matches!(server.feed(&rst_frame(id, ErrorCode::CANCEL))[..], [Incoming::Reset { .. }]));
        } else {
            server.engine.send_head(key, response_head(), true);
        }
        server.engine.release(key);
        if n % 1000 == 0 {
            assert_eq!(server.feed(&frame_of(Kind::PING, 0, 0, &[0; 8])), []);
        }
        server.sent();
        server.wait(Duration::from_millis(10));
    }
    let first = 120_001;
    let uploads: Vec<(u32, StreamKey)> =
        (0..250).map(|n| first + 2 * n).map(|id| (id, server.request(id, false))).collect();
    for _ in 0..100 {
        for (id, _) in &uploads {
            assert_eq!(server.feed(&data_frame(*id, &[0; 20], false)).len(), 1);
        }
    }
    for (_, key) in uploads {
        server.engine.consumed(key, 2000);
        server.engine.release(key);
    }
    assert!(server.events().is_empty() && server.engine.terminal.is_none());
}

/// `h2:A50`: a connection that is opened and left costs what the greeting takes, and no table.
#[test]
fn a_new_engine_holds_its_greeting_and_no_more() {
    let server = Bench::fresh(Side::Server, Config::default());
    assert!(size_of_val(&server.engine) <= 2128, "{}", size_of_val(&server.engine));
    assert_eq!((server.engine.streams.len(), server.engine.sched.pending()), (0, 0));
}
