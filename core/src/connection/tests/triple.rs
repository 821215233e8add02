//! Unary calls of the rows with bare bodies, through two connections.

use super::*;
use crate::call::{ServiceVariant, TripleHeaders};

fn options(protocol: Protocol, triple_headers: TripleHeaders) -> CallOptions {
    CallOptions { protocol: Some(protocol), triple_headers, ..CallOptions::default() }
}

/// Every dialect with bare bodies.
fn dialects() -> [CallOptions; 3] {
    [
        options(Protocol::Triple, TripleHeaders::DubboGo),
        options(Protocol::Triple, TripleHeaders::DubboJs),
        options(Protocol::Connect, TripleHeaders::DubboGo),
    ]
}

#[test]
fn a_call_carries_message_metadata_variant_and_trailers() {
    for mut options in dialects() {
        let mut pair = Pair::new();
        options.metadata = metadata(&[("tenant", "blue")]);
        options.variant = ServiceVariant::new("g", "2").unwrap();
        options.timeout = Some(Duration::from_millis(1500));
        let id = pair.open_unary(&options, b"ping");
        let call = pair.accept(CallKind::Unary);
        pair.drive();
        assert_eq!(pair.server_events.iter().filter(|e| **e == Event::Readable(call)).count(), 1);
        let seen = pair.server_call(call);
        assert_eq!(
            (seen.protocol(), seen.codec_name(), seen.path()),
            (options.protocol.unwrap(), "proto", "/t.Echo/Say")
        );
        assert_eq!((seen.variant(), seen.deadline()), (options.variant, Some(Instant::from_nanos(1_500_000_000))));
        assert_eq!(seen.metadata().unwrap().get("tenant").unwrap().to_str(), Some("blue"));
        assert_eq!(message(pair.server_call(call).recv()), b"ping");
        let (head, trailers) = (metadata(&[("x-head", "1")]), metadata(&[("x-trail", "2")]));
        let now = pair.now;
        pair.server_call(call).respond(&Octets, &Bytes::from_static(b"pong"), &head, &trailers, now).unwrap();
        pair.drive();
        let raised: Vec<_> = pair.client_events.iter().filter(|e| !matches!(e, Event::Connected { .. })).collect();
        assert_eq!(raised, [&Event::Finished(id)]);
        assert_eq!(pair.client_call(id).metadata().unwrap().get("x-head").unwrap().to_str(), Some("1"));
        assert_eq!(message(pair.client_call(id).recv()), b"pong");
        let status = pair.status(id);
        assert!(status.is_ok());
        assert_eq!(status.metadata().get("x-trail").unwrap().to_str(), Some("2"));
        pair.assert_quiet();
    }
}

/// tri:123 and the handler's errors, with details: what the application says is what arrives.
#[test]
fn an_error_carries_code_message_details_and_metadata() {
    let details = Bytes::from_static(b"\x08\x05\x12\x04gone\x1a\x1c\x0a\x17type.googleapis.com/a.B\x12\x01\x01");
    for options in dialects() {
        let mut pair = Pair::new();
        let id = pair.open_unary(&options, b"ping");
        let call = pair.accept(CallKind::Unary);
        let status = Status::not_found("gone").with_details(details.clone()).with_metadata(metadata(&[("x", "1")]));
        let now = pair.now;
        pair.server_call(call).send_head(&metadata(&[("h", "2")]), now).unwrap();
        pair.server_call(call).finish(&status, &metadata(&[("t", "3")]), now).unwrap();
        let status = pair.status(id);
        assert_eq!((status.code(), status.message(), status.origin()), (Code::NotFound, "gone", Origin::Peer));
        assert_eq!(status.details(), &details);
        for (key, value) in [("x", "1"), ("h", "2"), ("t", "3")] {
            assert_eq!(status.metadata().get(key).unwrap().to_str(), Some(value));
        }
        pair.assert_quiet();
    }
}

/// Sizes around every window and limit, each way; the requests of some peers do not tell their length.
#[test]
fn messages_of_every_size_arrive() {
    for options in dialects() {
        let mut pair = Pair::new();
        for size in [0, 1, 1023, 1024, 16_384, 65_535, 65_536, 200_000, 3_900_000, 4 * 1024 * 1024] {
            for tells_length in [true, false] {
                let now = pair.now;
                let request = Bytes::from(alloc::vec![7; size]);
                let id = if tells_length {
                    pair.client.open_unary(&UNARY, &options, &Octets, &request, now).unwrap()
                } else {
                    let id = pair.client.open(&UNARY, &options, "proto", now).unwrap();
                    pair.drive();
                    pair.client_call(id).send(&Octets, &request, now).unwrap();
                    pair.client_call(id).finish(now).unwrap();
                    id
                };
                let call = pair.accept(CallKind::Unary);
                pair.drive();
                let Recv::Message(mut received) = pair.server_call(call).recv() else { panic!("{size}: no message") };
                let received = Octets.decode(&mut received).unwrap();
                assert!(received == request, "{size}");
                let none = Metadata::new();
                pair.server_call(call).respond(&Octets, &received, &none, &none, now).unwrap();
                pair.drive();
                assert!(message(pair.client_call(id).recv()) == request, "{size}");
                assert!(pair.status(id).is_ok());
            }
        }
        pair.assert_quiet();
    }
}

/// tri:110 tri:129 and `arch:9`: the limits of both sides name themselves, and the connection lives.
#[test]
fn a_message_over_a_limit_ends_its_call_alone() {
    let mut small = Config::default();
    small.max_recv_message = 100;
    let mut pair = Pair::with(Config::default(), small);
    let mut options = options(Protocol::Triple, TripleHeaders::DubboGo);
    let long: &[u8] = &[b'x'; 101];
    let id = pair.open_unary(&options, long);
    pair.drive();
    assert!(pair.server.accept().is_none(), "refused by its head");
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Peer));

    // Without a length it is refused where it passes the limit.
    let now = pair.now;
    let id = pair.client.open(&UNARY, &options, "proto", now).unwrap();
    let call = pair.accept(CallKind::Unary);
    pair.client_call(id).send(&Octets, &Bytes::from_static(long), now).unwrap();
    assert_eq!(pair.status(id).code(), Code::ResourceExhausted);
    pair.server_call(call).release();

    options.max_recv_message = Some(100);
    let id = pair.open_unary(&options, b"short");
    let call = pair.accept(CallKind::Unary);
    let none = Metadata::new();
    pair.server_call(call).respond(&Octets, &Bytes::from_static(long), &none, &none, now).unwrap();
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Local));

    // The error body of a failed call is bounded too: its HTTP status is what stays.
    let id = pair.open_unary(&options, b"short");
    let call = pair.accept(CallKind::Unary);
    let status = Status::permission_denied("no".repeat(100));
    pair.server_call(call).finish(&status, &none, now).unwrap();
    let status = pair.status(id);
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "HTTP status 403"));
    pair.assert_quiet();
}

/// A response over the sender's own limit is told to the client, in the dialect.
#[test]
fn a_response_over_the_send_limit_becomes_an_error() {
    let mut small = Config::default();
    small.max_send_message = 10;
    let mut pair = Pair::with(Config::default(), small);
    let id = pair.open_unary(&options(Protocol::Connect, TripleHeaders::DubboGo), b"short");
    let call = pair.accept(CallKind::Unary);
    let (now, none) = (pair.now, Metadata::new());
    let refused = pair.server_call(call).respond(&Octets, &Bytes::from_static(b"eleven octets"), &none, &none, now);
    assert_eq!(refused, Err(SendError::TooLarge { size: 13, limit: 10 }));
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Peer));
    assert!(status.message().contains("max_send_message of 10"), "{status}");
    pair.assert_quiet();
}

/// tri:41 tri:124
#[test]
fn a_deadline_is_the_servers_too() {
    for options in dialects() {
        let mut pair = Pair::new();
        let options = CallOptions { timeout: Some(Duration::from_millis(20)), ..options };
        let id = pair.open_unary(&options, b"slow");
        let call = pair.accept(CallKind::Unary);
        assert_eq!(pair.server_call(call).deadline(), Some(Instant::from_nanos(20_000_000)));
        pair.pass(Duration::from_millis(20));
        assert!(pair.server_call(call).is_over());
        pair.server_call(call).release();
        assert_eq!(pair.status(id).code(), Code::DeadlineExceeded);
        pair.assert_quiet();
    }
}

/// A time that ten digits of milliseconds do not hold is not told, and not cut short.
#[test]
fn a_deadline_that_the_dialect_cannot_tell_is_the_clients_alone() {
    for options in dialects() {
        let mut pair = Pair::new();
        let options = CallOptions { timeout: Some(Duration::from_secs(10_000_000)), ..options };
        let id = pair.open_unary(&options, b"slow");
        let call = pair.accept(CallKind::Unary);
        assert_eq!(pair.server_call(call).deadline(), None);
        assert!(pair.client_call(id).deadline().is_some());
        pair.server_call(call).release();
        assert_eq!(pair.status(id).code(), Code::Cancelled);
        pair.assert_quiet();
    }
}

/// tri:139 and triple-protocol §0: Triple's streams are gRPC; a stream that is called as unary is refused by HTTP.
#[test]
fn streams_of_triple_are_grpc() {
    let mut pair = Pair::new();
    let now = pair.now;
    let triple = options(Protocol::Triple, TripleHeaders::DubboGo);
    let id = pair.client.open(&CHAT, &triple, "proto", now).unwrap();
    let call = pair.accept(CallKind::Bidi);
    assert_eq!(pair.server_call(call).protocol(), Protocol::Grpc);
    pair.server_call(call).finish(&Status::OK, &Metadata::new(), now).unwrap();
    assert!(pair.status(id).is_ok());
    let connect = options(Protocol::Connect, TripleHeaders::DubboGo);
    assert_eq!(pair.client.open(&CHAT, &connect, "proto", now), Err(OpenError::Unsupported));

    let id = pair.open_unary(&triple, b"ping");
    let call = pair.accept(CallKind::ServerStreaming);
    assert!(pair.server_call(call).is_over());
    pair.server_call(call).release();
    let status = pair.status(id);
    assert_eq!((status.code(), status.message()), (Code::Unknown, "HTTP status 415"));
    pair.assert_quiet();
}

#[test]
fn a_codec_is_refused_in_the_way_of_the_dialect() {
    for (options, code) in [(CallOptions::default(), Code::Unimplemented), (dialects()[0].clone(), Code::Unknown)] {
        let mut pair = Pair::new();
        let id = pair.open_unary(&options, b"ping");
        let call = pair.accept(CallKind::Unary);
        let now = pair.now;
        pair.server_call(call).refuse_codec(&["json"], now);
        assert_eq!(pair.status(id).code(), code);
        pair.assert_quiet();
    }
}

/// Cancelling, and a handler that gives up, cost one stream.
#[test]
fn a_cancelled_call_ends_on_both_sides() {
    let mut pair = Pair::new();
    let triple = options(Protocol::Triple, TripleHeaders::DubboGo);
    let id = pair.open_unary(&triple, b"ping");
    let call = pair.accept(CallKind::Unary);
    let now = pair.now;
    pair.client_call(id).cancel(Code::Cancelled, now);
    assert_eq!(pair.status(id).code(), Code::Cancelled);
    assert!(pair.server_call(call).is_over());
    pair.server_call(call).release();
    let id = pair.open_unary(&triple, b"ping");
    let call = pair.accept(CallKind::Unary);
    pair.server_call(call).release();
    assert_eq!(pair.status(id).code(), Code::Cancelled);
    pair.assert_quiet();
}
