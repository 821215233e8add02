//! The judge is judged: what RFC 9113 allows passes, and each fault is seen.

use trirpc_tests::frames::{
    PREFACE, block, data, envelope, frame, go_away, grpc_request, headers, ping, reset, settings, settings_ack,
    window_update,
};
use trirpc_tests::trace::{Frame, Side, Trace};

use Side::{Client, Server};

/// A connection after both SETTINGS and with stream 1 open, its request ended.
fn established() -> Trace {
    let mut trace = Trace::new();
    trace.observe(Client, &[PREFACE, &settings(&[(2, 0), (4, 100_000)])].concat());
    trace.observe(Server, &[settings(&[(3, 2)]), settings_ack()].concat());
    trace.observe(Client, &[settings_ack(), grpc_request(1, "/s/m"), data(1, &envelope(b"hi"), true)].concat());
    trace
}

fn response(stream: u32) -> Vec<u8> {
    headers(stream, &[(":status", "200"), ("content-type", "application/grpc")], false)
}

fn trailers(stream: u32) -> Vec<u8> {
    headers(stream, &[("grpc-status", "0")], true)
}

#[test]
fn an_honest_exchange_is_legal_in_any_split() {
    let steps: Vec<(Side, Vec<u8>)> = vec![
        (Server, [response(1), data(1, &envelope(b"ho"), false), trailers(1)].concat()),
        (Client, [window_update(0, 1000), ping(*b"pingpong", false)].concat()),
        (Server, [ping(*b"pingpong", true), window_update(0, 7)].concat()),
        (Client, [grpc_request(3, "/s/m"), window_update(3, 100), reset(3, 8)].concat()),
        (Server, [go_away(u32::MAX >> 1, 0), go_away(3, 0)].concat()),
    ];
    let mut whole = established();
    let mut bytewise = established();
    for (from, bytes) in &steps {
        whole.observe(*from, bytes);
        bytes.iter().for_each(|byte| bytewise.observe(*from, &[*byte]));
    }
    whole.assert_legal();
    assert_eq!(whole.entries(), bytewise.entries());
    assert_eq!(whole.entries().len(), 19);
    let shown = whole.to_string();
    assert!(shown.contains("grpc-status: 0;") && shown.contains("RST_STREAM CANCEL"), "{shown}");
}

#[test]
fn header_blocks_are_put_together_and_decoded() {
    let mut trace = established();
    let block = block(&[(":status", "200"), ("x", "y")]);
    trace.observe(Server, &frame(1, 0, 1, &block[..3]));
    trace.observe(Server, &frame(9, 0, 1, &block[3..5]));
    trace.observe(Server, &frame(9, 4, 1, &block[5..]));
    trace.assert_legal();
    let last = trace.sent_by(Server).last().expect("a frame");
    let fields = vec![(":status".to_owned(), "200".to_owned()), ("x".to_owned(), "y".to_owned())];
    assert_eq!(last.frame, Frame::Headers { fields, end: false });
}

/// Each row: who sends what after the exchange has begun, and a part of the complaint.
#[test]
fn every_fault_is_seen() {
    let long = vec![0; 16_385];
    let rows: Vec<(&str, Side, Vec<u8>)> = vec![
        ("frame of 16385 bytes", Client, [grpc_request(3, "/s/m"), data(3, &long, false)].concat()),
        ("reserved bit", Client, window_update(1 << 31, 1)),
        ("inside the header block", Server, [frame(1, 0, 1, &[]), ping([0; 8], false)].concat()),
        ("malformed frame: type 9", Server, frame(9, 4, 1, &[])),
        ("malformed frame: type 6", Server, frame(6, 0, 0, &[0; 7])),
        ("malformed frame: type 4", Server, frame(4, 0, 0, &[0; 7])),
        ("malformed frame: type 0", Server, frame(0, 8, 1, &[2, 0])),
        ("flags 0x8", Server, [response(1), frame(0, 8, 1, &[0])].concat()),
        ("flags 0x24", Client, frame(1, 0x24, 3, &[&[0; 5], &block(&[])[..]].concat())),
        ("frame of type 0 on stream 0", Client, data(0, b"x", false)),
        ("frame of type 6 on stream 1", Client, frame(6, 0, 1, &[0; 8])),
        ("does not decode", Server, frame(1, 4, 1, &[0xff, 0xff, 0xff])),
        ("acknowledged that was never sent", Server, settings_ack()),
        ("setting 2 = 1", Client, settings(&[(2, 1)])),
        ("setting 3 = 6", Client, settings(&[(3, 5), (3, 6)])),
        ("setting 5 = 16383", Client, settings(&[(5, 16_383)])),
        ("PING that was not sent", Client, ping([1; 8], true)),
        ("GOAWAY raised", Server, [go_away(1, 0), go_away(3, 0)].concat()),
        ("WINDOW_UPDATE of 0", Client, window_update(0, 0)),
        ("makes a window of 2147483648", Client, window_update(0, 2_147_483_648 - 65_535)),
        ("WINDOW_UPDATE on an idle stream", Client, window_update(3, 1)),
        ("RST_STREAM on an idle stream", Client, reset(3, 8)),
        ("second RST_STREAM", Client, [reset(1, 8), reset(1, 8)].concat()),
        ("WINDOW_UPDATE after RST_STREAM", Client, [reset(1, 8), window_update(1, 1)].concat()),
        ("ids must be odd", Client, grpc_request(2, "/s/m")),
        ("ids must be odd and rise", Client, [grpc_request(7, "/s/m"), grpc_request(5, "/s/m")].concat()),
        ("more than 2 streams", Client, [grpc_request(3, "/s/m"), grpc_request(5, "/s/m")].concat()),
        ("response to an idle stream", Server, response(3)),
        ("DATA on an idle stream", Client, data(3, b"x", false)),
        ("DATA before HEADERS", Server, data(1, b"x", false)),
        ("DATA after the end", Client, data(1, b"x", false)),
        ("HEADERS after the end", Server, [response(1), trailers(1), trailers(1)].concat()),
        ("trailers without END_STREAM", Server, [response(1), headers(1, &[("a", "b")], false)].concat()),
        ("pseudo-fields", Server, headers(1, &[("a", "b")], false)),
        ("pseudo-fields", Server, headers(1, &[("a", "b"), (":status", "200")], false)),
        ("pseudo-fields", Client, headers(3, &[(":method", "POST"), (":scheme", "http")], false)),
        ("pseudo-fields", Server, [response(1), headers(1, &[(":status", "200")], true)].concat()),
        ("END_STREAM on an informational", Server, headers(1, &[(":status", "100")], true)),
        ("field \"X\"", Server, headers(1, &[(":status", "200"), ("X", "y")], false)),
        ("field \"connection\"", Server, headers(1, &[(":status", "200"), ("connection", "close")], false)),
        ("field \"te\"", Server, headers(1, &[(":status", "200"), ("te", "gzip")], false)),
        ("field \"a\"", Server, headers(1, &[(":status", "200"), ("a", "b\nc")], false)),
        ("PRIORITY", Client, frame(2, 0, 1, &[0; 5]).clone()),
        ("is never sent", Server, frame(5, 4, 1, &[0; 4])),
        ("Unknown(11) is never sent", Server, frame(11, 0, 1, &[])),
    ];
    for (complaint, from, bytes) in rows {
        let mut trace = established();
        trace.assert_legal();
        trace.observe(from, &bytes);
        let seen = trace.faults().iter().any(|fault| fault.to_lowercase().contains(&complaint.to_lowercase()));
        assert!(seen, "`{complaint}` was not seen: {:?}\n{trace}", trace.faults());
    }
}

#[test]
fn a_connection_must_begin_as_it_should() {
    for (from, bytes, complaint) in [
        (Client, [b"GET / HTTP/1.1\r\n\r\n  ".to_vec(), settings(&[])].concat(), "no preface"),
        (Client, [PREFACE.to_vec(), window_update(0, 1)].concat(), "before SETTINGS"),
        (Server, window_update(0, 1), "before SETTINGS"),
    ] {
        let mut trace = Trace::new();
        trace.observe(from, &bytes);
        assert!(trace.faults().iter().any(|fault| fault.contains(complaint)), "{:?}", trace.faults());
    }
}

/// Windows bind from the sender's acknowledgement on: a smaller one may go below zero, and DATA must then wait.
#[test]
fn both_windows_are_counted() {
    let chunk = vec![0; 16_000];
    let mut trace = established();
    trace.observe(Client, &window_update(0, 1_000_000));
    trace.observe(Server, &response(1));
    for _ in 0..6 {
        trace.observe(Server, &data(1, &chunk, false));
    }
    trace.assert_legal();
    trace.observe(Client, &settings(&[(4, 90_000)]));
    trace.observe(Server, &data(1, &chunk[..4000], false));
    trace.assert_legal();
    trace.observe(Server, &settings_ack());
    trace.observe(Client, &window_update(1, 10_000));
    trace.observe(Server, &data(1, b"", false));
    trace.assert_legal();
    trace.observe(Server, &data(1, b"x", false));
    assert!(trace.faults()[0].contains("stream window overrun by 1"), "{:?}", trace.faults());

    let mut trace = established();
    trace.observe(Server, &response(1));
    let credit = trace.connection_credit(Server);
    for _ in 0..4 {
        trace.observe(Server, &data(1, &chunk, false));
    }
    trace.assert_legal();
    assert_eq!(trace.connection_credit(Server), credit - 64_000);
    trace.observe(Server, &data(1, &chunk, false));
    assert!(trace.faults()[0].contains("connection window overrun"), "{:?}", trace.faults());
}

/// After the encoder acknowledged a smaller table, its next block must say that it obeys (RFC 7541 §4.2).
#[test]
fn a_reduced_header_table_must_be_announced() {
    let reduced = || {
        let mut trace = established();
        trace.observe(Client, &settings(&[(1, 100)]));
        trace.observe(Server, &settings_ack());
        trace
    };
    let mut trace = reduced();
    trace.observe(Server, &response(1));
    assert!(
        trace.faults()[0].contains("a table of 100 is allowed, 4096 is in use, updates []"),
        "{:?}",
        trace.faults()
    );
    let mut trace = reduced();
    let announced = [&[0x3f, 69][..], &block(&[(":status", "200")])].concat();
    trace.observe(Server, &frame(1, 4, 1, &announced));
    trace.assert_legal();
    let mut trace = reduced();
    let too_large = [&[0x3f, 70][..], &block(&[(":status", "200")])].concat();
    trace.observe(Server, &frame(1, 4, 1, &too_large));
    assert!(
        trace.faults()[0].contains("a table of 100 is allowed, 4096 is in use, updates [101]"),
        "{:?}",
        trace.faults()
    );
}

/// With a hostile peer only the other side is judged, by what the hostile one allowed it.
#[test]
fn a_hostile_side_is_heard_but_not_judged() {
    let mut trace = Trace::with_hostile(Client);
    trace.observe(Client, &[PREFACE, &settings(&[(4, 5), (2, 7)])].concat());
    trace.observe(Client, &grpc_request(2, "/s/m"));
    trace.observe(Server, &[settings(&[]), settings_ack(), response(2), data(2, b"12345", false)].concat());
    trace.assert_legal();
    trace.observe(Server, &data(2, b"6", false));
    assert_eq!(trace.faults().len(), 1);
}
