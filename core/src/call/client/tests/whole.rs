//! The rows whose response is one message or one error, with the outcome in its head: Triple and Connect unary.

use super::*;
use crate::call::{ServiceVariant, TripleHeaders};

const PROTO: (&str, &str) = ("content-type", "application/proto");
const JSON: (&str, &str) = ("content-type", "application/json");

fn options(protocol: Protocol) -> CallOptions {
    CallOptions { protocol: Some(protocol), ..CallOptions::default() }
}

fn open_whole(protocol: Protocol, limits: CallLimits) -> ClientCall {
    ClientCall::new(&method(CallKind::Unary), &options(protocol), "proto", limits, None).expect("carried")
}

/// A Triple call whose response was `body` behind a head with `status` and `fields`.
fn answer(status: u16, fields: &[(&'static str, &'static str)], body: &'static str) -> ClientCall {
    let mut call = open_whole(Protocol::Triple, LIMITS);
    call.handle_head(head(status, fields), false);
    call.handle_data(Bytes::from_static(body.as_bytes()));
    call.handle_end(None);
    call
}

#[track_caller]
fn outcome(call: &ClientCall) -> (u32, &str) {
    let status = call.status().expect("done");
    (status.raw_code(), status.message())
}

/// tri:186, golden: the head of dubbo-go's client over HTTP/2, as ours.
#[test]
fn the_request_head_is_that_of_the_dialect() {
    let at = Instant::from_nanos(30_000_000_000);
    let rows = [
        (Protocol::Triple, TripleHeaders::DubboGo, "triple-protocol-version", "0.1.0", "triple-timeout-ms"),
        (Protocol::Triple, TripleHeaders::DubboJs, "tri-protocol-version", "1.0.0", "tri-service-timeout"),
        (Protocol::Connect, TripleHeaders::DubboGo, "connect-protocol-version", "1", "connect-timeout-ms"),
    ];
    for (protocol, triple_headers, version, value, timeout) in rows {
        let mut options = CallOptions { triple_headers, ..options(protocol) };
        options.metadata.append("k", "v").unwrap();
        options.metadata.append("tri-service-group", "ignored").unwrap();
        options.variant = ServiceVariant::new("blue", "2.0.0").unwrap();
        let mut call = ClientCall::new(&method(CallKind::Unary), &options, "proto", GZIP, Some(at)).unwrap();
        assert_eq!(call.envelope(23, false), Ok(None), "nothing is in front of the message");
        call.finish().unwrap();
        let head = call.request_head(&options, Bytes::from_static(b"http"), Bytes::from_static(b"127.0.0.1:22212"));
        let expected = [
            (version, value),
            ("content-type", "application/proto"),
            ("accept-encoding", "gzip"),
            ("user-agent", USER_AGENT),
            ("content-length", "23"),
            ("k", "v"),
            ("tri-service-group", "blue"),
            ("tri-service-version", "2.0.0"),
        ];
        assert_eq!(lines(&head.headers), expected.map(|(name, value)| (name.into(), value.into())));
        let deadline = head.deadline.expect("a deadline");
        assert_eq!((deadline.name.as_str(), head.method), (timeout, Method::Post));
        assert_eq!(deadline.value(Instant::from_nanos(1_000_000), &mut [0; 20]), b"29999");
        // What ten digits do not hold is left out.
        assert_eq!(
            DeadlineField { at: Instant::from_nanos(u64::MAX), ..deadline }.value(Instant::ZERO, &mut [0; 20]),
            b""
        );
    }
}

/// tri:186
#[test]
fn the_length_of_the_body_is_told_once_it_is_known() {
    let mut call = open_whole(Protocol::Triple, LIMITS);
    let length = |call: &ClientCall| {
        call.request_head(&options(Protocol::Triple), Bytes::new(), Bytes::new())
            .headers
            .get(&HeaderName::CONTENT_LENGTH)
            .cloned()
    };
    assert_eq!(length(&call), None);
    assert_eq!(call.envelope(0, false), Ok(None));
    assert_eq!(length(&call), None);
    call.finish().unwrap();
    assert_eq!(length(&call).unwrap(), "0");
    assert_eq!(call.envelope(1, false), Err(SendError::Sealed));
    // A gRPC body has no length of interest.
    let mut call = open(CallKind::Unary, LIMITS);
    call.finish().unwrap();
    assert_eq!(length(&call), None);
}

#[test]
fn an_encoding_is_announced_only_for_a_message_that_has_it() {
    let announced = |len, compressed| {
        let options = CallOptions { compression: Some("gzip"), ..options(Protocol::Triple) };
        let mut call = ClientCall::new(&method(CallKind::Unary), &options, "proto", LIMITS, None).unwrap();
        assert_eq!(call.envelope(len, compressed), Ok(None));
        call.finish().unwrap();
        call.request_head(&options, Bytes::new(), Bytes::new()).headers.contains(&HeaderName::CONTENT_ENCODING)
    };
    assert_eq!((announced(27, true), announced(27, false), announced(0, true)), (true, false, false));
    let mut call = open_whole(Protocol::Triple, LIMITS);
    assert!(matches!(call.envelope(27, true), Err(SendError::Codec(_))));
    assert_eq!(call.envelope(201, false), Err(SendError::TooLarge { size: 201, limit: 200 }));
}

/// tri:126, golden: the response of dubbo-go's server over HTTP/2 (without its compression).
#[test]
fn a_good_response_is_its_body_with_headers_and_trailers_in_its_head() {
    let fields = [
        PROTO,
        ("accept-encoding", "gzip"),
        ("trailer-x-trail-a", "one"),
        ("trailer-x-trail-a", "two, three"),
        ("trailer-x-trail-b-bin", "AAH/LA"),
        ("x-head-a", "one"),
        ("x-head-b-bin", "YWJj"),
        ("content-length", "7"),
        ("date", "Mon, 30 Nov 2026 09:56:02 GMT"),
    ];
    for split in 0..=7 {
        let mut call = open_whole(Protocol::Triple, LIMITS);
        call.handle_head(head(200, &fields), false);
        assert!(call.metadata().is_none() && call.status().is_none());
        let body = Bytes::from_static(b"\x0a\x05hello");
        call.handle_data(body.slice(..split));
        assert_eq!((call.is_readable(), call.need(), call.buffered()), (false, 7 - split, split));
        call.handle_data(body.slice(split..));
        assert!(!call.is_readable());
        call.handle_end(None);
        let status = call.status().expect("done");
        assert!(status.is_ok());
        let trailers: Vec<_> = status.metadata().get_all("x-trail-a").filter_map(|value| value.to_str()).collect();
        assert_eq!(trailers, ["one", "two, three"]);
        assert_eq!(status.metadata().get("x-trail-b-bin").unwrap().to_bytes().unwrap(), &[0, 1, 255, 44][..]);
        assert_eq!(status.metadata().len(), 3);
        assert_eq!((call.metadata().unwrap().len(), call.wants_reset()), (2, None));
        assert_eq!(pull(&mut call).unwrap(), body);
        assert!(matches!(call.recv(), Recv::End));
        assert_eq!(call.buffered(), 0);
    }
}

/// tri:116: an empty body ends on the head.
#[test]
fn an_empty_response_is_an_empty_message() {
    for end in [true, false] {
        let mut call = open_whole(Protocol::Triple, LIMITS);
        call.handle_head(head(200, &[PROTO]), end);
        if !end {
            call.handle_end(Some(headers(&[("x", "HTTP trailers mean nothing here")])));
        }
        assert_eq!(code(&call), Code::Ok);
        assert_eq!(pull(&mut call), Some(Vec::new()));
    }
}

/// tri:130 tri:135: in any split, with the metadata of head and trailers.
#[test]
fn an_error_is_read_from_its_body_and_carries_all_metadata() {
    let body =
        r#"{"code":"not_found","message":"gone","details":[{"type":"a.B","value":"AQ"},{"type":"x","value":"!"}]}"#;
    for split in 0..=body.len() {
        let mut call = open_whole(Protocol::Triple, CallLimits { max_recv_message: 200, ..LIMITS });
        call.handle_head(head(500, &[JSON, ("x", "1"), ("trailer-y", "2"), ("content-length", "101")]), false);
        call.handle_data(Bytes::from_static(&body.as_bytes()[..split]));
        call.handle_data(Bytes::from_static(&body.as_bytes()[split..]));
        call.handle_end(None);
        assert_eq!(outcome(&call), (5, "gone"));
        let status = call.status().unwrap();
        assert_eq!((status.origin(), status.is_unprocessed()), (Origin::Peer, false));
        assert_eq!(status.metadata().get("x").unwrap().to_str(), Some("1"));
        assert_eq!(status.metadata().get("y").unwrap().to_str(), Some("2"));
        assert_eq!(status.details(), &b"\x08\x05\x12\x04gone\x1a\x1c\x0a\x17type.googleapis.com/a.B\x12\x01\x01"[..]);
        assert!(matches!(call.recv(), Recv::End));
        assert_eq!((call.buffered(), call.wants_reset()), (0, None));
    }
}

/// tri:131 tri:134 tri:157
#[test]
fn what_is_no_json_error_goes_by_the_column_of_the_dialect() {
    let html = ("content-type", "text/html");
    assert_eq!(outcome(&answer(404, &[html], "<p>no</p>")), (12, "HTTP status 404: <p>no</p>"));
    assert_eq!(outcome(&answer(408, &[], "")), (4, "HTTP status 408"));
    assert_eq!(outcome(&answer(400, &[JSON], "{}")), (3, "HTTP status 400"));
    let mut call = open_whole(Protocol::Triple, LIMITS);
    call.handle_head(head(412, &[]), true);
    assert_eq!(code(&call), Code::FailedPrecondition);
    for (http, expected) in
        [(400, Code::Internal), (408, Code::Unknown), (412, Code::Unknown), (404, Code::Unimplemented)]
    {
        let mut call = open_whole(Protocol::Connect, LIMITS);
        call.handle_head(head(http, &[]), true);
        assert_eq!(code(&call), expected, "{http}");
    }
}

/// triple-protocol §3.3: an error body above the limit is not read.
#[test]
fn an_error_body_above_the_limit_leaves_the_http_status() {
    let announced = head(403, &[JSON, ("content-length", "101"), ("k", "v")]);
    let mut early = open_whole(Protocol::Triple, LIMITS);
    early.handle_head(announced, false);
    let mut late = open_whole(Protocol::Triple, LIMITS);
    late.handle_head(head(403, &[JSON, ("k", "v")]), false);
    late.handle_data(vec![b' '; 100].into());
    assert!(late.status().is_none());
    late.handle_data(Bytes::from_static(b" "));
    for call in [&mut early, &mut late] {
        assert_eq!(outcome(call), (7, "HTTP status 403"));
        assert_eq!(call.status().unwrap().metadata().get("k").unwrap().to_str(), Some("v"));
        assert_eq!((call.wants_reset(), call.buffered()), (Some(ErrorCode::CANCEL), 0));
    }
    // At the limit it is read.
    let text = r#"{"code":"aborted"}"#;
    let mut call = open_whole(Protocol::Triple, CallLimits { max_recv_message: text.len(), ..LIMITS });
    call.handle_head(head(403, &[JSON]), false);
    call.handle_data(Bytes::from_static(text.as_bytes()));
    call.handle_end(None);
    assert_eq!(code(&call), Code::Aborted);
}

/// tri:110
#[test]
fn a_message_above_the_limit_is_refused() {
    let mut early = open_whole(Protocol::Triple, LIMITS);
    early.handle_head(head(200, &[PROTO, ("content-length", "101")]), false);
    let mut late = open_whole(Protocol::Triple, LIMITS);
    late.handle_head(head(200, &[PROTO]), false);
    late.handle_data(vec![0; 101].into());
    for call in [&mut early, &mut late] {
        assert_eq!((code(call), call.wants_reset()), (Code::ResourceExhausted, Some(ErrorCode::CANCEL)));
        assert_eq!((call.buffered(), pull(call)), (0, None));
    }
}

/// tri:81 tri:82
#[test]
fn a_good_status_needs_the_content_type_that_was_asked_for() {
    let rows = [
        ("application/json", Code::Internal),
        ("text/html", Code::Unknown),
        ("application/grpc", Code::Unknown),
        ("application/grpc+proto", Code::Unknown),
    ];
    for (content_type, expected) in rows {
        let call = answer(200, &[("content-type", content_type)], "");
        assert_eq!((code(&call), call.wants_reset()), (expected, Some(ErrorCode::CANCEL)), "{content_type}");
    }
    for fields in [&[][..], &[("content-type", "Application/Proto; charset=utf-8")]] {
        assert_eq!(code(&answer(200, fields, "")), Code::Ok);
    }
}

/// tri:99
#[test]
fn an_encoding_that_was_not_offered_is_refused_on_messages_alone() {
    let gzip = ("content-encoding", "gzip");
    assert_eq!(code(&answer(200, &[PROTO, gzip], "x")), Code::Internal);
    assert_eq!(code(&answer(404, &[JSON, gzip], "\x1f\x0b")), Code::Unimplemented);
    for (body, compressed) in [(&b"x"[..], true), (b"", false)] {
        let mut call = open_whole(Protocol::Triple, GZIP);
        call.handle_head(head(200, &[PROTO, gzip]), false);
        call.handle_data(Bytes::from_static(body));
        call.handle_end(None);
        let Recv::Message(message) = call.recv() else { panic!("no message") };
        assert_eq!(message.is_compressed(), compressed, "an empty message never is");
    }
}

/// tri:101 tri:103
#[test]
fn a_reset_counts_unless_the_head_told_an_error() {
    let mut call = open_whole(Protocol::Triple, LIMITS);
    call.handle_head(head(200, &[PROTO]), false);
    call.handle_data(Bytes::from_static(b"half"));
    call.handle_reset(ErrorCode::CANCEL);
    assert_eq!((code(&call), pull(&mut call)), (Code::Cancelled, None));
    for (body, expected) in [(r#"{"code":"aborted"}"#, Code::Aborted), (r#"{"code":"ab"#, Code::PermissionDenied)] {
        let mut call = open_whole(Protocol::Triple, LIMITS);
        call.handle_head(head(403, &[JSON]), false);
        call.handle_data(Bytes::from_static(body.as_bytes()));
        call.handle_reset(ErrorCode::INTERNAL_ERROR);
        assert_eq!(code(&call), expected);
        call.handle_end(None);
        call.handle_reset(ErrorCode::CANCEL);
        assert_eq!(code(&call), expected);
    }
    let mut call = open_whole(Protocol::Triple, LIMITS);
    call.handle_reset(ErrorCode::REFUSED_STREAM);
    assert!(call.status().unwrap().is_unprocessed());
    let mut call = open_whole(Protocol::Triple, LIMITS);
    call.handle_head(head(200, &[PROTO]), false);
    call.handle_head(head(200, &[PROTO]), false);
    assert_eq!((code(&call), call.wants_reset()), (Code::Internal, Some(ErrorCode::PROTOCOL_ERROR)));
}
