//! Budgets against peers that make us work for nothing: each reached, and not reached by an honest peer that does nearly
//! the same. The older ones are in `limits`, whole attacks in `attacks`.

use super::*;

/// Why the connection ended, if it did.
fn end(events: &[Incoming]) -> Option<&'static str> {
    match events.last() {
        Some(Incoming::Closed(ConnectionError::Misbehaved(fault))) => Some(fault.detail),
        Some(Incoming::Closed(error)) => panic!("{error:?}"),
        _ => None,
    }
}

/// Server: opens a stream and resets it; the handler lets go at once.
fn open_and_reset(server: &mut Bench, id: u32) -> Option<&'static str> {
    let key = server.request(id, true);
    let events = server.feed(&rst_frame(id, ErrorCode::CANCEL));
    server.engine.release(key);
    end(&events)
}

/// Server: a call that is answered.
fn serve(server: &mut Bench, id: u32) {
    let key = server.request(id, true);
    server.engine.send_head(key, response_head(), true);
    server.engine.release(key);
    server.sent();
}

/// `max_peer_resets`, `peer_resets_per_second`, `h2:A41`: time makes up for resets, and so does each call that ends
/// otherwise: who makes many calls may cancel many.
#[test]
fn calls_that_are_served_make_up_for_resets() {
    let quiet = |config: &mut Config| {
        config.max_peer_resets = 10;
        config.peer_resets_per_second = 2;
        config.early_reset = None;
    };
    let mut server = server_with(quiet);
    let mut ids = (1..).step_by(2);
    let mut next = || ids.next().expect("there are many");
    for _ in 0..10 {
        assert_eq!(open_and_reset(&mut server, next()), None);
    }
    server.wait(Duration::from_secs(1));
    for _ in 0..2 {
        assert_eq!(open_and_reset(&mut server, next()), None, "two came back in a second");
    }
    for _ in 0..1000 {
        serve(&mut server, next());
        assert_eq!(open_and_reset(&mut server, next()), None, "a call made up for it");
    }
    assert_eq!(open_and_reset(&mut server, next()), Some("too many resets"));
}

/// `max_early_resets`, `h2:A1`: that many are borne whatever else there is; more only while most calls end otherwise.
#[test]
fn max_early_resets() {
    let mut server = server_with(|config| config.max_early_resets = 20);
    for n in 0..20 {
        assert_eq!(open_and_reset(&mut server, 2 * n + 1), None);
    }
    assert_eq!(open_and_reset(&mut server, 41), Some("too many streams reset early"));

    let mut server = server_with(|config| config.max_early_resets = 20);
    for n in 0..200 {
        serve(&mut server, 4 * n + 1);
        assert_eq!(open_and_reset(&mut server, 4 * n + 3), None, "no more than half of all");
    }
    assert_eq!(open_and_reset(&mut server, 1001), Some("too many streams reset early"));
}

/// `early_resets_per_second`, `h2:A41`: the honest twin, a client that asks three servers and takes the first answer: on
/// most of its connections most calls are cancelled early, and no connection ends for it, however long it lives.
#[test]
fn hedged_calls_are_no_rapid_reset() {
    let mut server = Bench::server();
    for n in 0..5000 {
        if n % 3 == 0 {
            serve(&mut server, 2 * n + 1);
        } else {
            assert_eq!(open_and_reset(&mut server, 2 * n + 1), None, "{n}");
        }
        server.wait(Duration::from_millis(7));
    }
}

/// `early_reset`, `h2:A1`, `h2:B87`: the honest twin, a client that gives up many server streams at once. They are
/// answered or old, or the limit is off.
#[test]
fn mass_cancellation_of_server_streams_is_no_rapid_reset() {
    for (within, age) in [(Some(Duration::from_secs(1)), 1002), (Some(Duration::from_secs(3)), 3002), (None, 0)] {
        let mut server = server_with(|config| config.early_reset = within);
        for round in 0..4 {
            let ids = (0..250).map(|n| 2 * (250 * round + n) + 1);
            let opened: Vec<(u32, StreamKey)> = ids.map(|id| (id, server.request(id, true))).collect();
            for &(_, key) in &opened {
                server.engine.send_head(key, response_head(), false);
                server.engine.send_data(key, None, Bytes::from_static(b"event"));
            }
            server.sent();
            server.wait(Duration::from_millis(age));
            for (id, key) in opened {
                assert_eq!(end(&server.feed(&rst_frame(id, ErrorCode::CANCEL))), None);
                server.engine.release(key);
            }
        }
    }
}

/// `max_refused_streams`, `h2:A1`: streams that are refused in a row; one that is accepted begins the count anew. That a
/// handler holds the slot of a stream that is closed is no fault of the peer's.
#[test]
fn max_refused_streams() {
    let mut server = server_with(|config| {
        config.max_concurrent_streams = 1;
        config.max_refused_streams = 10;
        config.max_stream_faults = 1;
    });
    let mut ids = (1..).step_by(2);
    let mut next = || ids.next().expect("there are many");
    for _ in 0..10 {
        let id = next();
        let held = server.request(id, true);
        assert_eq!(server.feed(&rst_frame(id, ErrorCode::CANCEL)).len(), 1);
        for _ in 0..10 {
            let octets = server.headers(next(), REQUEST, true);
            assert_eq!(server.feed(&octets), []);
        }
        server.engine.release(held);
        server.sent();
    }
    let id = next();
    server.request(id, true);
    server.feed(&rst_frame(id, ErrorCode::CANCEL));
    for _ in 0..10 {
        let octets = server.headers(next(), REQUEST, true);
        assert_eq!(server.feed(&octets), []);
    }
    let octets = server.headers(next(), REQUEST, true);
    assert_eq!(end(&server.feed(&octets)), Some("too many streams refused in a row"));
}

/// `h2:A2`: a fault on a stream that was handed on counts five times, one on a request that was not counts once.
#[test]
fn faults_on_streams_that_were_handed_on_count_five_times() {
    for (handed_on, most) in [(true, 20), (false, 100)] {
        let mut server = server_with(|config| config.max_stream_faults = 100);
        for n in 0..=most {
            let id = 2 * n + 1;
            let mut octets = server.headers(id, if handed_on { REQUEST } else { &[(":method", "GET")] }, false);
            if handed_on {
                octets.extend(server.headers(id, TRAILERS, false));
            }
            let events = server.feed(&octets);
            for event in &events {
                if let Incoming::Request { stream, .. } = event {
                    server.engine.release(*stream);
                }
            }
            server.sent();
            assert_eq!(end(&events), (n == most).then_some("too many stream faults"), "{n}");
        }
    }
}

/// `max_stream_faults` on a client: a server whose responses are malformed wastes no work of ours; each counts once.
#[test]
fn faults_of_responses_count_once() {
    let mut client = client_with(|config| config.max_stream_faults = 20);
    for call in 0..=20 {
        client.opened(call);
        let octets = client.headers(2 * call + 1, &[("no-status", "1")], true);
        let events = client.feed(&octets);
        client.sent();
        assert_eq!(end(&events), (call == 20).then_some("too many stream faults"));
    }
}

/// `h2:A17`: an answer to a PING that we did not send is a fault; to one that we sent, it is not.
#[test]
fn answers_to_pings_that_were_not_sent_are_faults() {
    let mut server = server_with(|config| config.max_stream_faults = 3);
    server.request(1, true);
    server.engine.shutdown(server.now);
    let ping = server.sent().pop().expect("the PING of a drain");
    assert_eq!(ping.kind, Kind::PING);
    for _ in 0..100 {
        assert_eq!(server.feed(&frame_of(Kind::PING, frame::ACK, 0, &ping.payload)), []);
    }
    let mut server = server_with(|config| config.max_stream_faults = 3);
    let answer = frame_of(Kind::PING, frame::ACK, 0, b"whatever");
    for _ in 0..3 {
        assert_eq!(server.feed(&answer), []);
    }
    assert_eq!(end(&server.feed(&answer)), Some("too many stream faults"));
}

/// `h2:B87`: the honest twin, a client that cancels thousands of server streams while each has a window of DATA, and
/// trailers, under way. The oldest are forgotten by then.
#[test]
fn late_frames_of_many_cancelled_streams_are_no_fault() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 3000)]);
    let mut keys = Vec::new();
    for call in 0..2000 {
        keys.push(client.opened(call));
        let octets = client.headers(2 * call + 1, RESPONSE, false);
        client.feed(&octets);
    }
    for key in keys {
        client.engine.reset(key, ErrorCode::CANCEL);
        client.engine.release(key);
        client.sent();
    }
    for call in 0..2000 {
        for _ in 0..4 {
            assert_eq!(client.feed(&data_frame(2 * call + 1, &[0; 100], false)), []);
        }
        let octets = client.headers(2 * call + 1, TRAILERS, true);
        assert_eq!(client.feed(&octets), []);
        client.sent();
    }
}

/// `h2:A46`: field blocks for a stream that we have reset cost the peer something.
#[test]
fn field_blocks_of_a_stream_that_was_reset_are_counted() {
    let mut server = server_with(|config| config.max_control_frames = 100);
    let key = server.request(1, false);
    server.engine.reset(key, ErrorCode::CANCEL);
    server.engine.release(key);
    let octets = server.headers(1, TRAILERS, true);
    for _ in 0..100 {
        assert_eq!(server.feed(&octets), []);
    }
    assert_eq!(end(&server.feed(&octets)), Some("too many control frames"));
}

/// `h2:A17`, `max_control_frames`: who pings too much is told in gRPC's words, at which its clients probe less often. One
/// that probes every ten seconds never is, with calls or without.
#[test]
fn too_many_pings_are_told_in_the_words_of_grpc() {
    let ping = frame_of(Kind::PING, 0, 0, &[1; 8]);
    let mut server = server_with(|config| config.max_control_frames = 101);
    // The client's SETTINGS were the first.
    for _ in 0..100 {
        assert_eq!(server.feed(&ping), []);
        server.sent();
    }
    assert_eq!(end(&server.feed(&ping)), Some("too_many_pings"));
    let goaway = server.sent().pop().expect("the last word");
    assert_eq!((goaway.code(), &goaway.payload[8..]), (ErrorCode::ENHANCE_YOUR_CALM, &b"too_many_pings"[..]));

    for calls in [0, 1] {
        let mut server = server_with(|config| config.max_control_frames = 100);
        for call in 0..calls {
            server.request(2 * call + 1, false);
        }
        for _ in 0..8640 {
            server.wait(Duration::from_secs(10));
            assert_eq!(server.feed(&ping), []);
            assert_eq!(kinds(&server.sent()), [(Kind::PING, 0)]);
        }
    }
}

/// `control_frames_per_second`, `control_frames_earned`: what time and work give back.
#[test]
fn time_and_work_make_up_for_control_frames() {
    let ping = frame_of(Kind::PING, 0, 0, &[0; 8]);
    for (earned, per_second) in [(7, 3), (0, 0)] {
        let mut server = server_with(|config| {
            config.max_control_frames = 40;
            config.control_frames_earned = earned;
            config.control_frames_per_second = per_second;
        });
        let spend =
            |server: &mut Bench| (0..).take_while(|_| server.engine.abuse.control_frame(1, server.now).is_ok()).count();
        assert_eq!(server.feed(&ping), []);
        assert_eq!(spend(&mut server), 38, "the peer's SETTINGS were one");
        server.request(1, true);
        assert_eq!(spend(&mut server), earned as usize);
        server.wait(Duration::from_secs(1));
        assert_eq!(spend(&mut server), per_second as usize);
    }
}

/// `max_empty_data`, `empty_data_per_second`: the honest twin sends one now and then.
#[test]
fn empty_data_now_and_then_is_borne() {
    let mut server = server_with(|config| {
        config.max_empty_data = 2;
        config.empty_data_per_second = 5;
    });
    server.request(1, false);
    for _ in 0..100 {
        assert_eq!(server.feed(&data_frame(1, b"", false)), []);
        server.wait(Duration::from_millis(200));
    }
    server.feed(&data_frame(1, b"", false));
    server.feed(&data_frame(1, b"", false));
    assert_eq!(end(&server.feed(&data_frame(1, b"", false))), Some("too many empty DATA frames"));
}

/// `useful_data`: smaller DATA earns nothing, and is no fault.
#[test]
fn useful_data() {
    for (len, earns) in [(99, false), (100, true)] {
        let mut server = server_with(|config| {
            config.useful_data = 100;
            config.max_empty_data = 1;
        });
        server.request(1, false);
        server.feed(&data_frame(1, b"", false));
        server.feed(&data_frame(1, &vec![0; len], false));
        assert_eq!(end(&server.feed(&data_frame(1, b"", false))).is_none(), earns, "{len}");
    }
}

/// `max_short_continuations`, `h2:A8`, `h2:L4`: fragments that bring nothing are borne three times, the last one apart.
#[test]
fn max_short_continuations() {
    for len in [0, 63] {
        let mut server = server_with(|config| config.max_continuations = 100);
        let fragment = |flags| frame_of(Kind::CONTINUATION, flags, 1, &[0x82; 63][..len]);
        assert_eq!(server.feed(&frame_of(Kind::HEADERS, 0, 1, &[0x82])), []);
        for _ in 0..3 {
            assert_eq!(server.feed(&fragment(0)), []);
        }
        assert_eq!(end(&server.feed(&fragment(0))), Some("too many short CONTINUATION frames"));
    }
}

/// `max_short_continuations`, `max_continuations`, `h2:L4`: the honest twins. A header list at its limit in frames of
/// 16 KiB, however large that limit is; and a block whose last fragment is short.
#[test]
fn long_header_lists_at_the_limit_pass() {
    for limit in [32 * 1024, 1 << 20] {
        let mut server = server_with(|config| {
            config.max_header_list = limit;
            config.max_headers = 10_000;
            config.header_table = 0;
        });
        server.encoder = Encoder::new(0);
        server.feed(&settings_frame(&[]));
        let value = "\u{7e}".repeat(4000);
        let mut fields = REQUEST.to_vec();
        let size = |fields: &[(&str, &str)]| fields.iter().map(|(n, v)| n.len() + v.len() + 32).sum::<usize>();
        while size(&fields) + 4100 < limit as usize {
            fields.push(("x-long", &value));
        }
        let rest = "r".repeat(limit as usize - size(&fields) - 32 - "x-rest".len());
        fields.push(("x-rest", &rest));
        assert_eq!(size(&fields), limit as usize);
        let block = server.block(&fields);
        let mut fragments = block.chunks(16 * 1024).peekable();
        let mut octets = frame_of(Kind::HEADERS, frame::END_STREAM, 1, fragments.next().expect("not empty"));
        while let Some(fragment) = fragments.next() {
            let flags = if fragments.peek().is_none() { frame::END_HEADERS } else { 0 };
            octets.extend(frame_of(Kind::CONTINUATION, flags, 1, fragment));
        }
        let events = server.feed(&octets);
        assert!(matches!(events[..], [Incoming::Request { .. }]), "{limit}: {:?}", end(&events));
    }
}

/// `max_informational`, `h2:A32`, `h2:H3`: so many before a response, and no more; those of other calls do not count.
#[test]
fn max_informational() {
    let mut client = client_with(|config| config.max_informational = 5);
    for call in 0..3 {
        let key = client.opened(call);
        let id = 2 * call + 1;
        for _ in 0..5 {
            let octets = client.headers(id, &[(":status", "103")], false);
            assert_eq!(client.feed(&octets), []);
        }
        if call < 2 {
            let octets = client.headers(id, RESPONSE, true);
            assert!(matches!(client.feed(&octets)[..], [Incoming::Response { .. }]));
            client.engine.release(key);
        } else {
            let octets = client.headers(id, &[(":status", "103")], false);
            let events = client.feed(&octets);
            assert!(matches!(events[..], [Incoming::Reset { code: ErrorCode::ENHANCE_YOUR_CALM, .. }]), "{events:?}");
        }
        client.sent();
    }
}

/// `h2:A32`: informational responses of all calls together are control frames.
#[test]
fn informational_responses_are_control_frames() {
    let mut client = client_with(|config| {
        config.max_control_frames = 10;
        config.control_frames_earned = 0;
    });
    client.opened(0);
    let octets = client.headers(1, &[(":status", "103")], false);
    for _ in 0..9 {
        assert_eq!(client.feed(&octets), []);
    }
    assert_eq!(end(&client.feed(&octets)), Some("too many control frames"));
}

/// `h2:A36`: GOAWAY again and again, also while we drain; what it says is cut.
#[test]
fn goaway_floods_are_counted() {
    for drains in [false, true] {
        let mut server = server_with(|config| config.max_control_frames = 40);
        server.request(1, true);
        if drains {
            server.engine.shutdown(server.now);
        }
        let goaway = frame_of(Kind::GOAWAY, 0, 0, &[[0; 8].as_slice(), &[b'x'; 16_000]].concat());
        let mut fed = 0;
        while end(&server.feed(&goaway)).is_none() {
            server.sent();
            fed += 1;
        }
        assert_eq!(fed, 40);
        let ConnectionError::PeerClosed(said) = &server.engine.drain_reason else { panic!("the peer said it") };
        assert_eq!(said.debug.len(), 256);
    }
}

/// `h2:A36`: a GOAWAY that a client has to look through its streams for costs by their number.
#[test]
fn goaway_costs_by_the_number_of_streams() {
    let mut client = Bench::connected(Side::Client, Config { max_control_frames: 40, ..Config::default() }, &[]);
    for call in 0..128 {
        client.opened(call);
        client.engine.abuse.useful_frame();
    }
    let mut last = frame::MAX_WINDOW;
    let mut sent = 0;
    while end(&client.feed(&goaway_frame(last, ErrorCode::NO_ERROR))).is_none() {
        last -= 2;
        sent += 1;
    }
    assert_eq!(sent, 40 / 3);
}
