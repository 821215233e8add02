//! The preface and SETTINGS (RFC 9113 §3.4, §6.5; checklist §4).

use super::*;

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;

fn entries(frame: &Sent) -> Vec<(u16, u32)> {
    frame::decode_settings(&frame.payload).collect()
}

/// `h2:F26`, checklist §4.4: what each side advertises, without duplicates or defaults.
#[test]
fn each_side_advertises_its_limits_once() {
    let mut server = Bench::fresh(Side::Server, Config::default());
    let sent = entries(&server.sent()[0]);
    assert_eq!(
        sent,
        [(MAX_CONCURRENT_STREAMS, 256), (9, 1), (MAX_HEADER_LIST_SIZE, 32 * 1024), (INITIAL_WINDOW_SIZE, 65_536)]
    );
    let mut config = Config::embedded();
    config.max_frame_size = 1; // below what the RFC allows
    let mut client = Bench::fresh(Side::Client, config);
    let frames = client.sent();
    assert_eq!(
        entries(&frames[0]),
        [(ENABLE_PUSH, 0), (MAX_HEADER_LIST_SIZE, 768), (HEADER_TABLE_SIZE, 0), (INITIAL_WINDOW_SIZE, 4224)]
    );
    assert_eq!(frames.len(), 1, "the connection window is the RFC's: nothing to update");
}

/// `h2:F25`: the first WINDOW_UPDATE lifts the connection's window to what is configured, from 65,535.
#[test]
fn the_connection_window_is_raised_with_the_preface() {
    let mut client = Bench::fresh(Side::Client, Config::default());
    let frames = client.sent();
    assert_eq!((frames[1].kind, frames[1].number()), (Kind::WINDOW_UPDATE, 16 * 1024 * 1024 - 65_535));
}

/// `h2:S1`: one acknowledgement for each SETTINGS frame, unknown identifiers included.
#[test]
fn each_settings_frame_is_acknowledged() {
    let mut server = Bench::server();
    let octets = [settings_frame(&[(0xfe03, 7)]), settings_frame(&[]), settings_frame(&[(0, 0)])].concat();
    assert_eq!(server.feed(&octets), []);
    let frames = server.sent();
    assert_eq!(frames.len(), 3);
    assert!(frames.iter().all(|frame| frame.kind == Kind::SETTINGS && frame.flags == frame::ACK));
}

/// `h2:S1`, `h2:B76`: the last of duplicate identifiers wins.
#[test]
fn the_last_of_duplicates_wins() {
    let settings = [(INITIAL_WINDOW_SIZE, 100), (INITIAL_WINDOW_SIZE, 1)];
    let mut server = Bench::connected(Side::Server, Config::default(), &settings);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from_static(b"hello"));
    assert_eq!(server.sent()[1].payload, b"h");
}

/// Checklist §4.1, `h2:A33`, `h2:B64`, `h2:B71`: values out of range end the connection before use.
#[test]
fn values_out_of_range_end_the_connection() {
    use ErrorCode as E;
    for (side, settings, code) in [
        (Side::Server, vec![(ENABLE_PUSH, 2)], E::PROTOCOL_ERROR),
        (Side::Client, vec![(ENABLE_PUSH, 1)], E::PROTOCOL_ERROR),
        (Side::Server, vec![(INITIAL_WINDOW_SIZE, 1 << 31)], E::FLOW_CONTROL_ERROR),
        (Side::Server, vec![(MAX_FRAME_SIZE, 0)], E::PROTOCOL_ERROR),
        (Side::Server, vec![(MAX_FRAME_SIZE, 16_383)], E::PROTOCOL_ERROR),
        (Side::Client, vec![(MAX_FRAME_SIZE, 1 << 24)], E::PROTOCOL_ERROR),
        (Side::Server, vec![(8, 2)], E::PROTOCOL_ERROR),
        (Side::Server, vec![(8, 1), (8, 0)], E::PROTOCOL_ERROR),
        (Side::Server, vec![(9, 1)], E::PROTOCOL_ERROR),
    ] {
        let mut bench = Bench::connected(side, Config::default(), &[]);
        let events = bench.feed(&settings_frame(&settings));
        bench.assert_ended(&events, code);
    }
    let mut server = Bench::connected(Side::Server, Config::default(), &[(ENABLE_PUSH, 1), (9, 1), (8, 1)]);
    assert_eq!(server.feed(&settings_frame(&[(8, 1), (9, 1)])), []);
}

/// `h2:F3`: the first frame is SETTINGS, and not an acknowledgement.
#[test]
fn the_first_frame_must_be_settings() {
    for first in [frame_of(Kind::PING, 0, 0, &[0; 8]), SETTINGS_ACK.to_vec()] {
        let mut server = Bench::fresh(Side::Server, Config::default());
        let events = server.feed(&[frame::PREFACE, &first[..]].concat());
        server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
    }
}

/// `h2:F28`, `h2:B43`: a wrong preface is answered by SETTINGS and then GOAWAY, as soon as it differs.
#[test]
fn a_wrong_preface_is_answered_by_settings_and_goaway() {
    let mut server = Bench::fresh(Side::Server, Config::default());
    assert_eq!(server.feed(b"PRI * HT"), []);
    let events = server.feed(b"X");
    assert!(matches!(events[..], [Incoming::Closed(ConnectionError::Misbehaved(_))]));
    let sent = kinds(&server.sent());
    assert_eq!(sent, [(Kind::SETTINGS, 0), (Kind::WINDOW_UPDATE, 0), (Kind::GOAWAY, 0)]);
}

/// Checklist §9.2 U8: a server that answers in HTTP/1 is named as such.
#[test]
fn an_http1_answer_is_recognised() {
    let mut client = Bench::fresh(Side::Client, Config::default());
    let events = client.feed(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let Some(Incoming::Closed(ConnectionError::Misbehaved(fault))) = events.last() else { panic!("{events:?}") };
    assert!(fault.detail.contains("HTTP/1"), "{}", fault.detail);
}

/// Checklist §1.2: an acknowledgement of nothing is a fault.
#[test]
fn an_acknowledgement_of_nothing_ends_the_connection() {
    let mut server = Bench::server();
    let events = server.feed(&SETTINGS_ACK);
    server.assert_ended(&events, ErrorCode::PROTOCOL_ERROR);
}

/// `h2:T7`, `h2:B31`, `h2:B32`: 100 streams until the first SETTINGS, then what they say; nothing said is
/// no limit.
#[test]
fn a_client_assumes_100_streams_until_the_first_settings() {
    for (settings, expected) in [(vec![], 300), (vec![(MAX_CONCURRENT_STREAMS, 120)], 120)] {
        let mut client = Bench::fresh(Side::Client, Config::default());
        for call in 0..300 {
            client.engine.open(request_head(), call).unwrap();
        }
        let heads = |frames: Vec<Sent>| frames.iter().filter(|frame| frame.kind == Kind::HEADERS).count();
        assert_eq!(heads(client.sent()), 100);
        client.feed(&settings_frame(&settings));
        assert_eq!(heads(client.sent()), expected - 100);
    }
}

/// `h2:T7`: the limit may shrink below what is open, which closes nothing; zero queues calls.
#[test]
fn the_limit_of_streams_may_shrink_to_zero_and_rise_again() {
    let mut client = Bench::client();
    let first = client.opened(1);
    client.feed(&settings_frame(&[(MAX_CONCURRENT_STREAMS, 0)]));
    client.engine.open(request_head(), 2).unwrap();
    assert_eq!(kinds(&client.sent()), [(Kind::SETTINGS, 0)]);
    let response = client.headers(1, RESPONSE, true);
    assert!(matches!(client.feed(&response)[..], [Incoming::Response { call: 1, end: true, .. }]));
    client.engine.release(first);
    assert_eq!(kinds(&client.sent()), [(Kind::RST_STREAM, 1)]);
    client.feed(&settings_frame(&[(MAX_CONCURRENT_STREAMS, 1)]));
    assert_eq!(kinds(&client.sent()), [(Kind::SETTINGS, 0), (Kind::HEADERS, 3)]);
}

/// `h2:T8`: a client's limit is for streams of the server's, of which there are none.
#[test]
fn a_server_ignores_the_clients_limit_of_streams() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(MAX_CONCURRENT_STREAMS, 0)]);
    server.request(1, true);
}

/// Checklist §4.3, `h2:B23`: the peer's HPACK table size applies to our encoder, at the next block.
#[test]
fn the_peers_table_size_applies_to_our_encoder() {
    let mut client = Bench::connected(Side::Client, Config::default(), &[(HEADER_TABLE_SIZE, 0)]);
    client.engine.open(request_head(), 1).unwrap();
    client.engine.open(request_head(), 2).unwrap();
    let frames = client.sent();
    assert_eq!(frames[0].payload[0], 0x20, "a size update to zero comes first");
    assert_ne!(frames[1].payload[0], 0x20, "and only once");
}

/// Checklist §4.3: our own table size binds the peer from its acknowledgement on.
#[test]
fn our_table_size_binds_from_the_acknowledgement_on() {
    let config = Config { header_table: 0, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    // The encoder of the bench still fills its table, and does not say that it shrank.
    let octets = server.headers(1, REQUEST, true);
    let events = server.feed(&octets);
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
}

/// `arch:9` `max_frame_size`, `h2:F2`: what we advertise is what we accept.
#[test]
fn max_frame_size_is_advertised_and_enforced() {
    let config = Config { max_frame_size: 20_000, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    server.request(1, false);
    assert_eq!(joined(server.feed(&data_frame(1, &[0; 20_000], false))).len(), 1);
    let events = server.feed(&data_frame(1, &[0; 20_001], false));
    server.assert_ended(&events, ErrorCode::FRAME_SIZE_ERROR);
}
