//! The rows whose response is one message or one error, with the outcome in its head: Triple and Connect unary.

use super::*;

const PROTO: (&str, &str) = ("content-type", "application/proto");
const VERSION: (&str, &str) = ("triple-protocol-version", "0.1.0");
const CONNECT: (&str, &str) = ("connect-protocol-version", "1");
const JS: (&str, &str) = ("tri-protocol-version", "1.0.0");

/// A unary call with the whole request `body`.
#[track_caller]
fn called(limits: CallLimits, lines: &[(&'static str, &'static str)], body: &'static [u8]) -> ServerCall {
    let mut call = accepted(limits, lines);
    call.expect(CallKind::Unary);
    call.handle_data(Bytes::from_static(body));
    call.handle_end(None);
    call
}

/// The whole response.
#[track_caller]
fn end(call: &mut ServerCall, status: &Status, trailers: &Metadata) -> (ResponseHead, String) {
    match call.finish(status, trailers, usize::MAX).expect("an answer") {
        End::Whole { head, body } => (head, String::from_utf8(body.to_vec()).expect("text")),
        End::Trailers(trailers) => panic!("{trailers:?}"),
    }
}

/// The answer to a call that failed.
#[track_caller]
fn failed(mut call: ServerCall) -> (u16, String) {
    let status = call.failure().expect("a failure").clone();
    let (head, body) = end(&mut call, &status, &Metadata::new());
    (head.status, body)
}

fn metadata(lines: &[(&str, &str)]) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in lines {
        metadata.append(key, value).unwrap();
    }
    metadata
}

/// tri:114 tri:115 tri:117 tri:126, golden: the request of dubbo-go's client over HTTP/2, answered as its server does.
#[test]
fn a_call_of_dubbo_go_is_answered_whole() {
    let content_types = ["application/proto", "application/json", "application/json; charset=utf-8"];
    for (content_type, version) in content_types.into_iter().zip([Some(VERSION), None, Some(VERSION)]) {
        let fields = [("content-type", content_type), ("accept-encoding", "gzip"), ("user-agent", "x"), ("k", "v")];
        let fields: Vec<_> = version.into_iter().chain(fields).collect();
        let mut call = called(LIMITS, &fields, b"\x0a\x05hello");
        assert_eq!(call.request().protocol(), Protocol::Triple);
        assert!(content_type.contains(call.request().codec_name()));
        assert_eq!(
            (call.request().metadata().len(), call.request().metadata().get("k").unwrap().to_str()),
            (1, Some("v"))
        );
        assert_eq!(pull(&mut call).unwrap(), b"\x0a\x05hello");
        assert!(matches!(call.recv(), Recv::End));

        // Nothing of the response leaves before its outcome.
        assert_eq!(call.head(&metadata(&[("x-head", "1")])), Ok(None));
        assert!(call.is_head_sent());
        assert_eq!(call.envelope(4, false), Ok(None));
        assert_eq!(call.keep(Bytes::from_static(b"echo")), None);
        assert_eq!(call.envelope(4, false), Err(SendError::Sealed));
        let (head, body) = end(&mut call, &Status::OK, &metadata(&[("x-trail", "2"), ("x-trail", "3")]));
        let expected = [
            ("content-type", content_type),
            ("x-head", "1"),
            ("trailer-x-trail", "2"),
            ("trailer-x-trail", "3"),
            ("content-length", "4"),
        ];
        assert_eq!((head.status, lines(&head.headers), &*body), (200, owned(&expected), "echo"));
        assert_eq!(call.finish(&Status::OK, &Metadata::new(), usize::MAX), Err(SendError::Sealed));
    }
}

/// tri:116: an empty request is a message, and an empty response ends on its head.
#[test]
fn empty_messages_are_messages() {
    let mut call = called(LIMITS, &[PROTO, ("content-length", "0")], b"");
    assert_eq!(pull(&mut call).unwrap(), b"");
    call.head(&Metadata::new()).unwrap();
    call.envelope(0, false).unwrap();
    assert_eq!(call.keep(Bytes::new()), None);
    let (head, body) = end(&mut call, &Status::OK, &Metadata::new());
    assert_eq!((head.headers.get(&HeaderName::CONTENT_LENGTH).unwrap(), &*body), (&Bytes::from_static(b"0"), ""));
}

/// tri:120 tri:121 tri:126
#[test]
fn an_error_is_json_with_its_metadata_in_front() {
    let mut call = called(LIMITS, &[PROTO], b"");
    call.head(&metadata(&[("x-head", "1")])).unwrap();
    call.envelope(4, false).unwrap();
    call.keep(Bytes::from_static(b"lost"));
    let status = Status::not_found("as asked").with_metadata(metadata(&[("x-error", "2")]));
    let (head, body) = end(&mut call, &status, &metadata(&[("x-trail", "3")]));
    assert_eq!((head.status, &*body), (404, r#"{"code":"not_found","message":"as asked"}"#));
    let expected = [
        ("content-type", "application/json"),
        ("x-head", "1"),
        ("x-error", "2"),
        ("trailer-x-trail", "3"),
        ("content-length", "41"),
    ];
    assert_eq!(lines(&head.headers), owned(&expected));
}

/// tri:118 tri:119: both columns of triple-protocol §3.1.
#[test]
fn every_code_has_the_http_status_of_its_column() {
    let triple = [408, 500, 400, 408, 404, 409, 403, 429, 412, 409, 400, 404, 500, 503, 500, 401];
    let connect = [499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];
    for (column, lines) in [(triple, &[PROTO][..]), (connect, &[PROTO, CONNECT]), (triple, &[PROTO, JS])] {
        for (code, http) in Code::ALL.into_iter().skip(1).zip(column) {
            let mut call = called(LIMITS, lines, b"");
            let (head, body) = end(&mut call, &Status::new(code, "x"), &Metadata::new());
            assert_eq!(head.status, http, "{code:?} {lines:?}");
            assert_eq!(body.contains(&alloc::format!("\"status\":{}", code as u8)), lines.contains(&JS), "tri:185");
        }
    }
    let unregistered = Status::from_peer(17, "x".into(), Bytes::new(), Metadata::new());
    let mut call = called(LIMITS, &[PROTO], b"");
    let (head, body) = end(&mut call, &unregistered, &Metadata::new());
    assert_eq!((head.status, &*body), (500, r#"{"code":"unknown","message":"x"}"#), "17 is never sent");
}

/// tri:117 tri:118
#[test]
fn a_version_that_is_not_ours_is_refused() {
    for (name, http) in [("triple-protocol-version", 400), ("connect-protocol-version", 400)] {
        for value in ["9.9", "", "0.1"] {
            let (status, body) = failed(accepted(LIMITS, &[PROTO, (name, value)]));
            assert!(status == http && body.starts_with(r#"{"code":"invalid_argument","#), "{name}: {status} {body}");
        }
    }
    for version in [VERSION, CONNECT, JS, ("tri-protocol-version", "anything")] {
        assert!(accepted(LIMITS, &[PROTO, version]).failure().is_none(), "{version:?}");
    }
}

/// tri:124 tri:125
#[test]
fn timeouts_are_read_in_the_order_of_the_dialect() {
    let deadline = |lines: &[(&'static str, &'static str)]| {
        let call = accepted(LIMITS, &[&[PROTO], lines].concat());
        assert!(call.failure().is_none(), "{lines:?}");
        call.deadline().map(|at| at - NOW)
    };
    let millis = |millis| Some(Duration::from_millis(millis));
    let (triple, js, connect) =
        (("triple-timeout-ms", "29999"), ("tri-service-timeout", "5"), ("connect-timeout-ms", "7"));
    assert_eq!(deadline(&[]), None);
    assert_eq!(deadline(&[triple]), millis(29_999));
    assert_eq!(deadline(&[js]), millis(5));
    assert_eq!(deadline(&[js, triple]), millis(29_999));
    assert_eq!(deadline(&[js, triple, connect]), millis(7));
    assert_eq!(deadline(&[js, triple, CONNECT]), millis(5));
    assert_eq!(deadline(&[triple, CONNECT]), millis(29_999));
    // The timeout of an attachment is not the call's.
    assert_eq!(deadline(&[("timeout", "3s"), ("grpc-timeout", "1S")]), None);

    for (lines, http, code) in [
        (&[("triple-timeout-ms", "0")][..], 408, "deadline_exceeded"),
        (&[("triple-timeout-ms", "-5")], 408, "deadline_exceeded"),
        (&[("triple-timeout-ms", "12345678901")], 400, "invalid_argument"),
        (&[("triple-timeout-ms", "abc")], 400, "invalid_argument"),
        (&[("tri-service-timeout", "0")], 408, "deadline_exceeded"),
        (&[("connect-timeout-ms", "0")], 504, "deadline_exceeded"),
        (&[("connect-timeout-ms", "-5")], 400, "invalid_argument"),
    ] {
        let (status, body) = failed(accepted(LIMITS, &[&[PROTO], lines].concat()));
        assert!(status == http && body.contains(code), "{lines:?}: {status} {body}");
    }
}

/// tri:127
#[test]
fn an_unknown_encoding_is_refused_with_the_list_of_known_ones() {
    for (version, http) in [(VERSION, 404), (CONNECT, 501), (JS, 404)] {
        let mut call = accepted(GZIP, &[PROTO, version, ("content-encoding", "br")]);
        assert_eq!(failure(&call), Code::Unimplemented);
        let status = call.failure().unwrap().clone();
        let (head, body) = end(&mut call, &status, &Metadata::new());
        assert_eq!(
            (head.status, head.headers.get(&HeaderName::ACCEPT_ENCODING).unwrap()),
            (http, &Bytes::from("gzip"))
        );
        assert!(body.contains("gzip"), "{body}");
    }
    let mut call = called(GZIP, &[PROTO, ("content-encoding", "gzip")], b"\x1f\x8b");
    let Recv::Message(message) = call.recv() else { panic!("no message") };
    assert!(message.is_compressed());
    // An encoding of gRPC's is none of this dialect's.
    assert!(accepted(GZIP, &[PROTO, ("grpc-encoding", "br")]).failure().is_none());
}

/// tri:128
#[test]
fn a_response_announces_the_encoding_that_its_message_has() {
    for (compressed, expected) in [(true, Some("gzip")), (false, None)] {
        let mut call = called(GZIP, &[PROTO, ("accept-encoding", "gzip,br")], b"");
        assert_eq!(call.request().response_encoding(), Some("gzip"));
        call.head(&Metadata::new()).unwrap();
        call.envelope(4, compressed).unwrap();
        call.keep(Bytes::from_static(b"echo"));
        let (head, _) = end(&mut call, &Status::OK, &Metadata::new());
        assert_eq!(
            head.headers.get(&HeaderName::CONTENT_ENCODING).map(|value| &value[..]),
            expected.map(str::as_bytes)
        );
        assert_eq!(head.headers.get(&HeaderName::ACCEPT_ENCODING).unwrap(), "gzip");
    }
    // An error is never compressed, whatever the message before it was.
    let mut call = called(GZIP, &[PROTO, ("accept-encoding", "gzip")], b"");
    call.head(&Metadata::new()).unwrap();
    call.envelope(4, true).unwrap();
    call.keep(Bytes::from_static(b"echo"));
    let (head, _) = end(&mut call, &Status::internal(""), &Metadata::new());
    assert!(!head.headers.contains(&HeaderName::CONTENT_ENCODING));
}

/// tri:129
#[test]
fn a_body_above_the_limit_is_answered_before_it_is_there() {
    let early = accepted(LIMITS, &[PROTO, ("content-length", "101")]);
    let mut late = accepted(LIMITS, &[PROTO]);
    late.expect(CallKind::Unary);
    late.handle_data(alloc::vec![0; 100].into());
    assert!(late.failure().is_none() && late.buffered() == 100);
    late.handle_data(Bytes::from_static(&[0]));
    assert_eq!(late.buffered(), 0);
    for call in [early, late] {
        let (status, body) = failed(call);
        assert!(status == 429 && body.starts_with(r#"{"code":"resource_exhausted","#), "{status} {body}");
    }
}

/// tri:139
#[test]
fn a_stream_is_not_called_with_a_bare_body() {
    for kind in [CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi] {
        let mut call = accepted(LIMITS, &[PROTO]);
        call.expect(kind);
        let status = call.failure().expect("refused").clone();
        let (head, body) = end(&mut call, &status, &Metadata::new());
        let accept_post = owned(&[("accept-post", "application/grpc, application/grpc+proto")]);
        assert_eq!((head.status, lines(&head.headers), &*body), (415, accept_post, ""));
    }
}

/// tri:23 tri:123
#[test]
fn a_codec_that_the_method_does_not_take_is_refused_in_the_way_of_the_dialect() {
    let mut call = accepted(LIMITS, &[("content-type", "application/xml")]);
    call.expect(CallKind::Unary);
    call.refuse_codec(&["proto", "json"]);
    let status = call.failure().expect("refused").clone();
    assert_eq!(status.message(), "/trirpc.test.v1.Echo/Say does not take the codec xml, but proto, json");
    let (head, body) = end(&mut call, &status, &Metadata::new());
    let list = "application/grpc, application/grpc+json, application/grpc+proto, application/json, application/proto";
    assert_eq!((head.status, lines(&head.headers), &*body), (415, owned(&[("accept-post", list)]), ""));

    let mut call = accepted(LIMITS, &[("content-type", "application/grpc+xml")]);
    call.refuse_codec(&["proto"]);
    let head = trailers_only(&mut call);
    assert_eq!((head.status, head.headers.get(&HeaderName::GRPC_STATUS).unwrap()), (200, &Bytes::from("12")));
}

/// tri:68
#[test]
fn group_and_version_are_read_in_every_dialect() {
    let fields = [("tri-service-group", "blue"), ("tri-service-version", "2.0.0")];
    for content_type in [PROTO, GRPC] {
        let call = accepted(LIMITS, &[content_type, fields[0], fields[1]]);
        assert_eq!((call.request().variant().group(), call.request().variant().version()), ("blue", "2.0.0"));
        assert_eq!(accepted(LIMITS, &[content_type]).request().variant(), &ServiceVariant::DEFAULT);
    }
}

/// The outcome is told whatever the client's limit of field lists is.
#[test]
fn fields_above_the_clients_limit_become_an_error_without_them() {
    let mut call = called(LIMITS, &[PROTO], b"");
    call.head(&metadata(&[("x", "v")])).unwrap();
    call.envelope(4, false).unwrap();
    call.keep(Bytes::from_static(b"echo"));
    let trailers = metadata(&[("y", &"v".repeat(300))]);
    let End::Whole { head, body } = call.finish(&Status::OK, &trailers, 300).unwrap() else { panic!("whole") };
    assert_eq!(head.status, 429);
    assert!(head.list_size() <= 300 && body.starts_with(br#"{"code":"resource_exhausted","#));

    let mut call = expecting(CallKind::Bidi);
    let End::Whole { head, .. } = call.finish(&Status::OK, &trailers, 300).unwrap() else { panic!("whole") };
    assert!(head.list_size() <= 300);
    assert_eq!(head.headers.get(&HeaderName::GRPC_STATUS).unwrap(), "8");
    assert_eq!(head.headers.get(&HeaderName::CONTENT_TYPE).unwrap(), "application/grpc");
}

/// A handler that succeeds without a message, and one that is reset.
#[test]
fn a_call_without_a_message_or_without_a_client_ends_too() {
    let mut call = called(LIMITS, &[PROTO], b"");
    let (head, body) = end(&mut call, &Status::OK, &Metadata::new());
    assert_eq!((head.status, &*body), (500, r#"{"code":"internal","message":"the handler sent no response"}"#));
    let mut call = accepted(LIMITS, &[PROTO]);
    call.handle_reset(ErrorCode::CANCEL);
    assert!(matches!(call.finish(&Status::OK, &Metadata::new(), 9), Err(SendError::Failed(_))));
}
