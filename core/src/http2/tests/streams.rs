//! The life of streams (RFC 9113 §5.1, §8.1): unary and streaming exchanges, both roles.

use super::*;

/// `h2:F28`, `bg:S3`: the server's first octets are SETTINGS, before it has read anything.
#[test]
fn a_server_begins_with_settings() {
    let mut server = Bench::fresh(Side::Server, Config::default());
    let frames = server.sent();
    assert_eq!(kinds(&frames), [(Kind::SETTINGS, 0), (Kind::WINDOW_UPDATE, 0)]);
    assert_eq!(frames[0].flags, 0);
}

/// `h2:Q6`, `arch:6`: preface, SETTINGS and the first request with its message leave in one write; the
/// request is HEADERS and one DATA with END_STREAM, prefix and payload together.
#[test]
fn preface_and_first_request_leave_in_one_write() {
    let mut client = Bench::fresh(Side::Client, Config::default());
    let key = client.engine.open(request_head(), 7).unwrap();
    client.engine.send_data(key, Some([0, 0, 0, 0, 3]), Bytes::from_static(b"abc"));
    client.engine.finish(key, None);
    assert!(!client.engine.was_written(key));
    let octets = client.written_by_one_poll();
    assert!(client.engine.was_written(key));
    let frames = parse(octets.strip_prefix(frame::PREFACE).expect("the preface comes first"));
    assert_eq!(kinds(&frames), [(Kind::SETTINGS, 0), (Kind::WINDOW_UPDATE, 0), (Kind::HEADERS, 1), (Kind::DATA, 1)]);
    assert!(!frames[2].ends(), "an enveloped request never ends on HEADERS");
    assert!(frames[3].ends());
    assert_eq!(frames[3].payload, b"\0\0\0\0\x03abc");
    assert!(client.written_by_one_poll().is_empty());
}

/// `h2:Q6`, `bg:S7`: a server's unary response is HEADERS, DATA and trailers in one run.
#[test]
fn a_unary_response_leaves_as_one_run() {
    let mut server = Bench::server();
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, Some([0, 0, 0, 0, 2]), Bytes::from_static(b"ok"));
    server.engine.finish(key, Some(trailers()));
    server.engine.release(key);
    let frames = parse(&server.written_by_one_poll());
    assert_eq!(kinds(&frames), [(Kind::HEADERS, 1), (Kind::DATA, 1), (Kind::HEADERS, 1)]);
    assert_eq!(frames.iter().map(Sent::ends).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(server.fields(&frames[..1])[0], (b":status".to_vec(), b"200".to_vec()));
    assert_eq!(server.fields(&frames[2..]), [(b"grpc-status".to_vec(), b"0".to_vec())]);
    assert_eq!(server.engine.streams.len(), 0, "the slot is free");
}
