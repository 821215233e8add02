//! `expect: 100-continue` (RFC 9110 §10.1.1): who waits for leave to send gets it, once, when somebody reads.

use super::*;

/// A request whose body has not come, with this expectation.
fn expecting(server: &mut Bench, id: u32, value: &str) -> StreamKey {
    let octets = server.headers(id, &[REQUEST, &[("expect", value)]].concat(), false);
    let events = server.feed(&octets);
    let [Incoming::Request { stream, end: false, .. }] = events[..] else { panic!("{events:?}") };
    stream
}

/// `h2:DL11`: the client waits for 100 and the server for the body; 100 goes out when the request is read, once, and does
/// not begin the response.
#[test]
fn a_client_that_waits_for_leave_to_send_gets_it_when_the_request_is_read() {
    let mut server = Bench::server();
    for (id, value) in [(1, "100-continue"), (3, "100-Continue")] {
        let key = expecting(&mut server, id, value);
        assert_eq!(server.sent(), [], "nobody reads yet");
        server.engine.reads_request(key);
        server.engine.reads_request(key);
        let frames = server.sent();
        assert_eq!(kinds(&frames), [(Kind::HEADERS, id)]);
        assert!(!frames[0].ends());
        assert_eq!(server.fields(&frames), [(b":status".to_vec(), b"100".to_vec())]);
        assert_eq!(server.feed(&data_frame(id, b"body", true)).len(), 1);
        server.engine.send_head(key, response_head(), true);
        let frames = server.sent();
        assert_eq!(server.fields(&frames)[0].1, b"200");
    }
}

/// `h2:DL11`, `h2:T1`: no 100 to who did not ask for it, behind an answer, or on a stream that is gone.
#[test]
fn leave_to_send_is_given_to_those_who_wait_for_it_only() {
    let mut server = Bench::server();
    let answered = expecting(&mut server, 1, "100-continue");
    server.engine.send_head(answered, response_head(), false);
    assert_eq!(kinds(&server.sent()), [(Kind::HEADERS, 1)]);
    let cancelled = expecting(&mut server, 3, "100-continue");
    server.feed(&rst_frame(3, ErrorCode::CANCEL));
    let other = expecting(&mut server, 5, "something-else");
    let plain = server.request(7, false);
    let begun = expecting(&mut server, 9, "100-continue");
    server.feed(&data_frame(9, b"it did not wait", true));
    for key in [answered, cancelled, other, plain, begun] {
        server.engine.reads_request(key);
    }
    assert_eq!(server.sent(), []);
}
