//! GOAWAY and the ends of a connection (RFC 9113 §6.8; checklist §2.4), and the connection's timers.

use super::*;
use crate::error::{GoAway, OpenError, Timeout, TransportError};

fn goaways(frames: &[Sent]) -> Vec<(u32, ErrorCode)> {
    let goaways = frames.iter().filter(|frame| frame.kind == Kind::GOAWAY);
    goaways.map(|frame| (frame.number(), frame.code())).collect()
}

fn ack_ping(frame: &Sent) -> Vec<u8> {
    assert_eq!(frame.kind, Kind::PING);
    frame_of(Kind::PING, frame::ACK, 0, &frame.payload)
}

/// `h2:B75`, `h2:P7`, checklist §2.4 "server graceful": GOAWAY(2^31−1) and PING, requests under way are served, then
/// GOAWAY(last), later ones are dropped, and the end comes with the last stream.
#[test]
fn a_server_shuts_down_in_two_steps() {
    let mut server = Bench::server();
    let first = server.request(1, true);
    server.engine.shutdown(server.now);
    let frames = server.sent();
    assert_eq!(goaways(&frames), [(frame::MAX_WINDOW, ErrorCode::NO_ERROR)]);
    let under_way = server.request(3, true);
    assert_eq!(server.feed(&ack_ping(&frames[1])), []);
    assert_eq!(goaways(&server.sent()), [(3, ErrorCode::NO_ERROR)]);
    let late = server.headers(5, &[(":method", "POST"), ("x-late", "indexed")], false);
    assert_eq!(server.feed(&[late, data_frame(5, b"x", true)].concat()), []);
    assert_eq!(server.sent(), [], "h2:B33: neither refused nor an error");
    for key in [first, under_way] {
        server.engine.send_head(key, response_head(), true);
        server.engine.release(key);
    }
    assert_eq!(kinds(&server.sent()), [(Kind::HEADERS, 1), (Kind::HEADERS, 3)]);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Shutdown)]);
    assert_eq!(server.sent(), [], "h2:B75: one GOAWAY for each last id and code");
    assert!(server.is_closed());
}

/// `h2:B2`: DATA above the last id is paid back to the connection.
#[test]
fn data_above_the_last_id_is_paid_back() {
    let config = Config { initial_connection_window: 1 << 20, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    server.request(1, false);
    server.engine.shutdown(server.now);
    let frames = server.sent();
    server.feed(&ack_ping(&frames[1]));
    server.sent();
    let late = server.headers(3, REQUEST, false);
    server.feed(&late);
    let credit: u32 = (0..100)
        .flat_map(|_| {
            assert_eq!(server.feed(&data_frame(3, &[0; 16_384], false)), []);
            server.sent()
        })
        .map(|frame| if frame.stream == 0 { frame.number() } else { panic!("{frame:?}") })
        .sum();
    assert!(credit > 1_000_000);
}

/// Checklist §2.4: a peer that does not answer the PING delays the second step by five seconds.
#[test]
fn the_second_step_waits_five_seconds_at_most() {
    let mut server = Bench::server();
    server.request(1, true);
    server.engine.shutdown(server.now);
    server.sent();
    server.wait(Duration::from_secs(5));
    assert_eq!(goaways(&server.sent()), [(1, ErrorCode::NO_ERROR)]);
}

/// `arch:9` `drain_timeout`: a drain that takes too long is cut short.
#[test]
fn a_drain_ends_at_its_deadline() {
    for mut bench in [Bench::server(), Bench::client()] {
        match bench.engine.side {
            Side::Server => bench.request(1, true),
            Side::Client => bench.opened(1),
        };
        bench.engine.shutdown(bench.now);
        bench.wait(Duration::from_secs(6));
        bench.wait(Duration::from_secs(23));
        assert_eq!(bench.events(), []);
        bench.wait(Duration::from_secs(1));
        assert_eq!(bench.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);
    }
}

/// A client that shuts down opens nothing more, finishes what is open and queued, and says GOAWAY last.
#[test]
fn a_client_shuts_down_after_its_calls() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 1)]);
    let first = client.opened(1);
    let queued = client.engine.open(request_head(), 2).unwrap();
    client.engine.shutdown(client.now);
    assert_eq!(client.engine.open(request_head(), 3), Err(OpenError::GoingAway));
    client.engine.release(first);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1), (Kind::HEADERS, 3)]);
    let response = client.headers(3, RESPONSE, true);
    assert!(matches!(client.feed(&response)[..], [Incoming::Response { call: 2, .. }, Incoming::Closed(_)]));
    client.engine.release(queued);
    assert_eq!(goaways(&client.sent()), [(0, ErrorCode::NO_ERROR)]);
    assert_eq!(client.engine.open(request_head(), 4), Err(OpenError::Closed));
}

/// Checklist §2.4 "client receives", `h2:B49`, `h2:B50`: streams above the last id and queued ones were not
/// processed; the others go on, and the connection ends with them.
#[test]
fn a_clients_unprocessed_streams_are_told() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(3, 2)]);
    let first = client.opened(1);
    let second = client.opened(2);
    let queued = client.engine.open(request_head(), 3).unwrap();
    let events = client.feed(&goaway_frame(1, ErrorCode::NO_ERROR));
    let refused = |stream, call| Incoming::Reset { stream, call, code: ErrorCode::REFUSED_STREAM, by_peer: true };
    assert_eq!(events, [refused(second, 2), refused(queued, 3), Incoming::GoAway]);
    assert!(client.engine.was_written(second) && !client.engine.was_written(queued));
    assert_eq!(client.engine.open(request_head(), 4), Err(OpenError::GoingAway));
    for key in [second, queued] {
        client.engine.release(key);
    }
    let response = client.headers(1, RESPONSE, true);
    let events = client.feed(&response);
    let go_away = GoAway { code: ErrorCode::NO_ERROR, debug: Bytes::from_static(b"why") };
    assert!(matches!(events[0], Incoming::Response { call: 1, end: true, .. }));
    assert_eq!(events[1..], [Incoming::Closed(ConnectionError::PeerClosed(go_away))]);
    client.engine.release(first);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1), (Kind::GOAWAY, 0)]);
}

/// Checklist §2.4: a second GOAWAY with a smaller id refuses more; a larger id is a fault.
#[test]
fn a_second_goaway_may_only_lower_the_last_id() {
    let mut client = Bench::client();
    client.opened(1);
    client.opened(2);
    assert_eq!(client.feed(&goaway_frame(frame::MAX_WINDOW, ErrorCode::NO_ERROR)), [Incoming::GoAway]);
    assert_eq!(client.feed(&goaway_frame(1, ErrorCode::NO_ERROR)).len(), 2);
    let events = client.feed(&goaway_frame(3, ErrorCode::NO_ERROR));
    client.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
}

/// Checklist §2.4: a last id that a client cannot have used is a fault.
#[test]
fn a_last_id_that_is_not_ours_is_a_fault() {
    let mut client = Bench::client();
    let events = client.feed(&goaway_frame(2, ErrorCode::NO_ERROR));
    client.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
}

/// `h2:B1`: a client's GOAWAY is about streams of the server; those of the client go on.
#[test]
fn a_clients_goaway_does_not_kill_its_streams() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    assert_eq!(server.feed(&goaway_frame(0, ErrorCode::NO_ERROR)), [Incoming::GoAway]);
    assert_eq!(server.feed(&data_frame(1, b"x", true)).len(), 1);
    server.feed(&frame_of(Kind::PING, 0, 0, &[0; 8]));
    server.engine.send_head(key, response_head(), true);
    server.engine.release(key);
    assert_eq!(kinds(&server.sent()), [(Kind::PING, 0), (Kind::HEADERS, 1)]);
    assert!(matches!(server.events()[..], [Incoming::Closed(ConnectionError::PeerClosed(_))]));
    assert_eq!(goaways(&server.sent()), [(1, ErrorCode::NO_ERROR)]);
}

/// `h2:B74`: a PING after our GOAWAY is still answered.
#[test]
fn a_ping_is_answered_while_draining() {
    let mut server = Bench::server();
    server.request(1, true);
    server.engine.shutdown(server.now);
    server.feed(&frame_of(Kind::PING, 0, 0, &[1; 8]));
    assert_eq!(server.sent().last().unwrap().payload, [1; 8]);
}

/// `h2:B51`: the last id of an error's GOAWAY includes the stream that caused it.
#[test]
fn a_fault_names_the_stream_that_caused_it() {
    let mut server = Bench::server();
    server.request(5, true);
    let events = server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS, 7, &[0x80]));
    assert!(matches!(events[..], [Incoming::Closed(_)]));
    assert_eq!(goaways(&server.sent()), [(7, ErrorCode::COMPRESSION_ERROR)]);
}

/// `h2:A34`, `h2:B56`, h2:E6: after a fault everything is dropped, in the same buffer and later.
#[test]
fn nothing_is_read_after_a_fault() {
    let config = Config { idle_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    assert!(server.engine.poll_timeout().is_some(), "a timer that the end must stop");
    let request = server.headers(1, REQUEST, true);
    let octets = [frame_of(Kind::PING, 0, 3, &[0; 8]), request.clone(), frame_of(Kind::PING, 0, 0, &[0; 8])].concat();
    let events = server.feed(&octets);
    assert_eq!(events.len(), 1);
    assert_eq!(server.engine.poll_timeout(), None);
    assert_eq!(server.feed(&request), []);
    server.engine.handle_eof(server.now);
    server.wait(Duration::from_secs(1000));
    assert_eq!(server.events(), [], "h2:P7: the end is told once");
    assert_eq!(kinds(&server.sent()), [(Kind::GOAWAY, 0)]);
    assert!(server.is_closed() && !server.engine.wants_read() && server.engine.poll_timeout().is_none());
}

/// The GOAWAY of a fault carries its reason as text.
#[test]
fn a_fault_says_why_in_its_goaway() {
    let mut server = Bench::server();
    server.feed(&window_update(0, 0));
    assert_eq!(server.sent()[0].payload[8..], *b"WINDOW_UPDATE of zero");
}

/// An abort says its code and ends at once.
#[test]
fn an_abort_ends_at_once() {
    let mut server = Bench::server();
    server.request(1, false);
    server.engine.abort(ErrorCode::INTERNAL_ERROR, server.now);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Aborted(ErrorCode::INTERNAL_ERROR))]);
    assert_eq!(goaways(&server.sent()), [(1, ErrorCode::INTERNAL_ERROR)]);
}

/// An end of the transport is an error unless the connection was going away with nothing left.
#[test]
fn an_end_of_the_transport_is_told() {
    let mut client = Bench::client();
    client.opened(1);
    client.engine.handle_eof(client.now);
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Transport(TransportError::Eof))]);

    let mut client = Bench::client();
    client.opened(1);
    client.feed(&goaway_frame(1, ErrorCode::ENHANCE_YOUR_CALM));
    client.engine.handle_eof(client.now);
    assert!(matches!(client.events()[..], [Incoming::Closed(ConnectionError::PeerClosed(_))]));

    let mut client = Bench::client();
    client.opened(1);
    client.engine.handle_transport_error(TransportError::Reset, client.now);
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Transport(TransportError::Reset))]);
    assert!(client.sent().is_empty() && client.is_closed());
}

/// `h2:T9`, `h2:A37`, `h2:B44`: ids that run out end in a drain on either side, and never wrap.
#[test]
fn running_out_of_ids_drains_the_connection() {
    let mut client = Bench::client();
    client.engine.next_id = 0x6000_0001;
    assert_eq!(client.engine.open(request_head(), 1), Err(OpenError::GoingAway));
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Shutdown)]);

    let mut server = Bench::server();
    server.request(1, true);
    server.request(frame::MAX_WINDOW, true);
    assert_eq!(goaways(&server.sent()), [(frame::MAX_WINDOW, ErrorCode::NO_ERROR)]);
}

/// `arch:9` `handshake_timeout`: a peer that says nothing.
#[test]
fn a_silent_peer_ends_the_handshake() {
    for side in [Side::Client, Side::Server] {
        let mut bench = Bench::fresh(side, Config::default());
        bench.wait(Duration::from_millis(9999));
        assert_eq!(bench.events(), []);
        bench.wait(Duration::from_millis(1));
        assert_eq!(bench.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Handshake))]);
        assert_eq!(goaways(&bench.sent()), [(0, ErrorCode::SETTINGS_TIMEOUT)]);
    }
}

/// `arch:9` `settings_timeout`, `h2:S4`, `h2:A40`: a peer that never acknowledges.
#[test]
fn unacknowledged_settings_end_the_connection() {
    let mut client = Bench::fresh(Side::Client, Config::default());
    client.feed(&settings_frame(&[]));
    client.wait(Duration::from_secs(10));
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Settings))]);
    assert_eq!(goaways(&client.sent()), [(0, ErrorCode::SETTINGS_TIMEOUT)]);
}

/// `arch:9` `header_block_timeout`, `h2:A27`: a header block that is never completed, cut in a frame or
/// between frames.
#[test]
fn a_header_block_must_be_completed_in_time() {
    let whole = Bench::server().headers(1, REQUEST, true);
    let mut without_end = whole.clone();
    without_end[4] &= !frame::END_HEADERS;
    for octets in [&whole[..20], &without_end[..]] {
        let mut server = Bench::server();
        server.feed(octets);
        server.wait(Duration::from_secs(9));
        server.feed(&octets[..0]);
        server.wait(Duration::from_secs(1));
        assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::HeaderBlock))]);
    }
    let mut server = Bench::server();
    server.feed(&whole);
    server.wait(Duration::from_secs(100));
    assert_eq!(server.events(), []);
}

/// `arch:9` `keepalive_interval`, `keepalive_timeout`: a silent peer is probed once while streams are open.
#[test]
fn keepalive_probes_a_silent_peer() {
    let config = Config { keepalive_interval: Some(Duration::from_secs(60)), ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[]);
    client.wait(Duration::from_secs(600));
    assert_eq!(client.sent(), [], "nothing is open");
    client.opened(1);
    client.wait(Duration::from_secs(30));
    client.feed(&settings_frame(&[]));
    client.sent();
    client.wait(Duration::from_secs(30));
    assert_eq!(client.sent(), [], "the peer was heard of");
    client.wait(Duration::from_secs(30));
    let frames = client.sent();
    assert_eq!(kinds(&frames), [(Kind::PING, 0)]);
    client.wait(Duration::from_secs(19));
    client.feed(&ack_ping(&frames[0]));
    client.wait(Duration::from_secs(60));
    assert_eq!(kinds(&client.sent()), [(Kind::PING, 0)]);
    client.wait(Duration::from_secs(20));
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::KeepAlive))]);
}

/// `arch:9` `idle_timeout`: a connection without streams shuts down, gracefully.
#[test]
fn an_idle_connection_shuts_down() {
    let config = Config { idle_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[]);
    client.wait(Duration::from_secs(59));
    let key = client.opened(1);
    client.wait(Duration::from_secs(100));
    assert_eq!(client.events(), []);
    client.engine.release(key);
    client.wait(Duration::from_secs(59));
    assert_eq!(client.events(), []);
    client.wait(Duration::from_secs(1));
    assert_eq!(client.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Idle))]);
    assert_eq!(goaways(&client.sent()), [(0, ErrorCode::NO_ERROR)]);
}

/// `arch:9` `send_stall_timeout`, `h2:A26`: a stream that waits for a window for too long, its own or the
/// connection's; progress starts the time anew, but not that of a few octets.
#[test]
fn a_stream_that_is_never_given_a_window_is_reset() {
    for (window, credited, credit) in [(0, 1, 256), (1 << 20, 0, 256), (0, 1, 1)] {
        let mut server = Bench::connected(Side::Server, Config::default(), &[(4, window)]);
        let key = server.request(1, true);
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 100_000]));
        server.sent();
        server.wait(Duration::from_secs(40));
        server.feed(&window_update(credited, credit));
        assert_eq!(kinds(&server.sent()), [(Kind::DATA, 1)]);
        server.wait(Duration::from_secs(if credit == 1 { 19 } else { 59 }));
        assert_eq!(server.events(), []);
        server.wait(Duration::from_secs(1));
        assert_eq!(
            server.events(),
            [Incoming::Reset { stream: key, call: 1, code: ErrorCode::CANCEL, by_peer: false }]
        );
        assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
    }
}

/// `arch:9` `write_stall_timeout` and `min_write_progress`, `h2:A42`, `h2:A26`: judged from what is left in `Transmit`.
/// A transport that takes the least there may be goes on; one octet less, and it is over.
#[test]
fn output_that_is_hardly_taken_ends_the_connection() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(4, 1 << 20)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 30_000]));
    server.engine.poll_transmit(&mut server.out, server.now);
    for _ in 0..10 {
        server.wait(Duration::from_secs(29));
        server.out.advance(1024);
        server.engine.poll_transmit(&mut server.out, server.now);
        assert_eq!(server.events(), []);
    }
    server.wait(Duration::from_secs(15));
    server.out.advance(1023);
    server.engine.poll_transmit(&mut server.out, server.now);
    server.wait(Duration::from_secs(14));
    server.engine.poll_transmit(&mut server.out, server.now);
    assert_eq!(server.events(), []);
    server.wait(Duration::from_secs(1));
    server.engine.poll_transmit(&mut server.out, server.now);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::WriteStall))]);
}

/// `min_write_progress`: who takes all there is makes progress, however little it is.
#[test]
fn output_that_is_taken_whole_is_progress() {
    let mut server = Bench::server();
    for _ in 0..10 {
        server.feed(&frame_of(Kind::PING, 0, 0, &[0; 8]));
        server.engine.poll_transmit(&mut server.out, server.now);
        server.wait(Duration::from_secs(29));
        server.out.advance(server.out.len());
        server.engine.poll_transmit(&mut server.out, server.now);
        server.wait(Duration::from_secs(29));
        assert_eq!(server.events(), []);
    }
}

/// The write-stall timer does not take a driver that wrote everything and then slept for a stuck one.
#[test]
fn output_that_was_taken_is_no_stall() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.poll_transmit(&mut server.out, server.now);
    server.out.advance(server.out.len());
    server.wait(Duration::from_secs(100));
    server.engine.poll_transmit(&mut server.out, server.now);
    server.wait(Duration::from_secs(100));
    assert_eq!(server.events(), []);
}

/// A shutdown after the peer's GOAWAY has nothing more to say, but it does have a deadline.
#[test]
fn a_shutdown_after_the_peers_goaway_is_limited_in_time() {
    let mut server = Bench::server();
    server.request(1, true);
    server.feed(&goaway_frame(0, ErrorCode::NO_ERROR));
    server.wait(Duration::from_secs(1000));
    assert_eq!(server.events(), []);
    server.engine.shutdown(server.now);
    assert_eq!(server.sent(), []);
    server.wait(Duration::from_secs(30));
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);
}
