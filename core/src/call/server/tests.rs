use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Buf;

use super::accept::MAX_QUOTED;
use super::*;
use crate::call::{CallLimits, Code, Encodings, Protocol, ServiceVariant};
use crate::http::{HeaderName, Method, RequestHead};

const LIMITS: CallLimits = limits(&[]);
const GZIP: CallLimits = limits(&["gzip"]);

const fn limits(compressions: &'static [&'static str]) -> CallLimits {
    CallLimits {
        max_recv_message: 100,
        max_send_message: 200,
        accept_compressions: Encodings::from_static(compressions),
        send_compressions: Encodings::from_static(compressions),
    }
}
const GRPC: (&str, &str) = ("content-type", "application/grpc");
const NOW: Instant = Instant::from_nanos(1_000);

fn request(method: Method, lines: &[(&'static str, &'static str)]) -> RequestHead {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(HeaderName::from_static(name), *value);
    }
    RequestHead {
        method,
        scheme: Bytes::from_static(b"http"),
        authority: Bytes::from_static(b"localhost:50051"),
        path: Bytes::from_static(b"/trirpc.test.v1.Echo/Say"),
        headers,
        deadline: None,
    }
}

#[track_caller]
fn accepted(limits: CallLimits, lines: &[(&'static str, &'static str)]) -> ServerCall {
    match ServerCall::accept(request(Method::Post, lines), limits, NOW) {
        Accept::Call(call) => call,
        Accept::Reject(head) => panic!("rejected with {}", head.status),
    }
}

fn expecting(kind: CallKind) -> ServerCall {
    let mut call = accepted(LIMITS, &[GRPC]);
    call.expect(kind);
    call
}

fn message(payload: &[u8]) -> Bytes {
    let prefix = crate::call::envelope::prefix(payload.len(), false).unwrap();
    [&prefix[..], payload].concat().into()
}

fn pull(call: &mut ServerCall) -> Option<Vec<u8>> {
    match call.recv() {
        Recv::Message(mut message) => Some(message.copy_to_bytes(message.len()).to_vec()),
        Recv::Blocked | Recv::End => None,
    }
}

fn lines(headers: &Headers) -> Vec<(String, String)> {
    let text = |octets: &[u8]| String::from_utf8(octets.to_vec()).expect("text");
    headers.iter().map(|field| (field.name.to_string(), text(&field.value))).collect()
}

fn owned(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[track_caller]
fn failure(call: &ServerCall) -> Code {
    call.failure().expect("a failure").code()
}

/// The whole response of a call that failed before its head.
fn trailers_only(call: &mut ServerCall) -> ResponseHead {
    let status = call.failure().expect("a failure").clone();
    match call.finish(&status, &Metadata::new(), usize::MAX).expect("an answer") {
        End::Whole { head, body } if body.is_empty() => head,
        other => panic!("not a head alone: {other:?}"),
    }
}

/// A whole request in one step is what its body and its end come to, for every kind of method, however it is accepted.
#[test]
fn a_request_in_one_step_is_the_request_in_two() {
    let heads: [&[(&str, &str)]; 6] = [
        &[GRPC],
        &[GRPC, ("grpc-encoding", "gzip")],
        &[GRPC, ("grpc-encoding", "unknown")],
        &[GRPC, ("grpc-timeout", "0n")],
        &[("content-type", "application/proto")],
        &[("content-type", "application/proto"), ("content-length", "101")],
    ];
    let bodies: [&[u8]; 9] = [
        b"",
        b"abc",
        b"\0\0\0\0\0",
        b"\0\0\0\0\x03abc",
        b"\x01\0\0\0\x03abc",
        b"\0\0\0\0\x04abc",
        b"\0\0\0\0\x03abcd",
        b"\0\0\0\0\x01a\0\0\0\0\x01b",
        &[b'x'; 101],
    ];
    let kinds = [CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi];
    let mut requests = 0;
    let cases = (0..kinds.len() * heads.len() * bodies.len())
        .map(|n| (kinds[n % kinds.len()], heads[n / kinds.len() % heads.len()], bodies[n / kinds.len() / heads.len()]));
    for (kind, head, body) in cases {
        let (body, pool) = (Bytes::from_static(body), &mut BufferPool::new(0));
        let (mut one, mut two) = (accepted(GZIP, head), accepted(GZIP, head));
        if let Err(body) = one.handle_whole(body.clone()) {
            one.handle_data(body);
            one.handle_end(None);
        }
        two.handle_data(body.clone());
        two.handle_end(None);
        let request = one.expect_request(kind, pool).map(|mut message| message.copy_to_bytes(message.len()).to_vec());
        two.expect(kind);
        assert!(request.is_none() || kind.is_single_request());
        requests += usize::from(request.is_some());
        let plain = if request.is_some() { pull(&mut two) } else { None };
        assert_eq!(request, plain, "{kind:?} {head:?} {body:?}");
        let [one, two] = [one, two].map(|mut call| {
            let rest = (call.failure().cloned(), call.is_readable(), call.buffered(), call.need());
            (rest, pull(&mut call), pull(&mut call))
        });
        assert_eq!(one, two, "{kind:?} {head:?} {body:?}");
    }
    assert!(requests > 10, "{requests} were there at once");
}

/// tri:26 tri:27 tri:123 tri:177
#[test]
fn what_is_not_rpc_is_answered_in_http_method_first() {
    for method in [Method::Get, Method::Put, Method::Delete, Method::Options, Method::Other] {
        for content_type in [GRPC, ("content-type", "text/plain")] {
            let Accept::Reject(head) = ServerCall::accept(request(method, &[content_type]), LIMITS, NOW) else {
                panic!("{method:?} accepted")
            };
            assert_eq!((head.status, lines(&head.headers)), (405, owned(&[("allow", "POST")])));
        }
    }
    for content_type in ["", "text/plain", "application/grpc-web", "application/grpc-web+proto"] {
        let head = request(Method::Post, &[("content-type", content_type)]);
        let Accept::Reject(head) = ServerCall::accept(head, LIMITS, NOW) else { panic!("{content_type} accepted") };
        let accept_post = owned(&[("accept-post", "application/grpc, application/grpc+proto, application/proto")]);
        assert_eq!((head.status, lines(&head.headers)), (415, accept_post));
    }
    assert!(matches!(ServerCall::accept(request(Method::Post, &[]), LIMITS, NOW), Accept::Reject(_)));
}

/// tri:21 tri:22 tri:23 tri:25 tri:36 tri:37
#[test]
fn the_response_echoes_the_requests_content_type() {
    let types = [
        ("application/grpc", "proto"),
        ("application/grpc+proto", "proto"),
        ("application/grpc+json", "json"),
        ("Application/gRPC+JSON;charset=utf-8", "json"),
        ("application/grpc;charset=utf-8", "proto"),
    ];
    for (content_type, codec) in types {
        let mut call = accepted(LIMITS, &[("content-type", content_type)]);
        assert_eq!((call.request().codec_name(), call.request().protocol()), (codec, Protocol::Grpc));
        let head = call.head(&Metadata::new()).unwrap().unwrap();
        assert_eq!((head.status, lines(&head.headers)), (200, owned(&[("content-type", content_type)])));
    }
}

/// tri:53 tri:174 tri:175 tri:183
#[test]
fn a_handler_sees_path_authority_and_metadata() {
    let mut head = request(Method::Post, &[GRPC, ("te", "trailers"), ("retries", ""), ("k", "1"), ("k", "2")]);
    head.path = Bytes::from_static(b"/a.B/C?x=/y");
    let Accept::Call(call) = ServerCall::accept(head, LIMITS, NOW) else { panic!("rejected") };
    assert_eq!((call.request().path(), call.request().authority(), call.kind()), ("/a.B/C", "localhost:50051", None));
    let entries: Vec<_> = call.request().metadata().iter().map(|(key, value)| (key, value.to_str().unwrap())).collect();
    assert_eq!(entries, [("retries", ""), ("k", "1"), ("k", "2")]);
    assert!(!call.is_readable());
}

/// tri:38 tri:39 tri:40
#[test]
fn the_timeout_becomes_a_deadline_or_a_failure() {
    let call = accepted(LIMITS, &[GRPC, ("grpc-timeout", "250m")]);
    assert_eq!(call.deadline(), Some(NOW + Duration::from_millis(250)));
    assert!(call.failure().is_none());
    let call = accepted(LIMITS, &[GRPC, ("grpc-timeout", "99999999H")]);
    assert_eq!((call.deadline(), call.failure()), (Some(Instant::from_nanos(u64::MAX)), None));
    assert_eq!(accepted(LIMITS, &[GRPC]).deadline(), None);

    let mut call = accepted(LIMITS, &[GRPC, ("grpc-timeout", "0n")]);
    assert_eq!(failure(&call), Code::DeadlineExceeded);
    let expired = [GRPC, ("grpc-status", "4"), ("grpc-message", "deadline exceeded")];
    assert_eq!(lines(&trailers_only(&mut call).headers), owned(&expired));
    for bad in ["123456789S", "5", "5x", "-1S", " 1S", ""] {
        let mut call = accepted(LIMITS, &[GRPC, ("grpc-timeout", bad)]);
        assert_eq!(failure(&call), Code::InvalidArgument, "{bad:?}");
        let head = trailers_only(&mut call);
        assert_eq!(head.status, 200);
        assert_eq!(head.headers.get(&HeaderName::GRPC_STATUS).unwrap(), "3");
    }
}

/// `h2:A43`, `h2:E5`: of a version that is not ours no more is repeated than tells which it is.
#[test]
fn a_foreign_version_is_quoted_no_longer_than_need_be() {
    const LONG: &str =
        "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999";
    for (value, quoted) in [("2", "2"), (LONG, LONG.split_at(MAX_QUOTED).0)] {
        let lines = [("content-type", "application/proto"), ("connect-protocol-version", value)];
        let call = accepted(LIMITS, &lines);
        let text = call.failure().expect("a version that is not ours").message().to_string();
        assert_eq!(text, format!("connect-protocol-version is `{quoted}`: this server speaks `1`"));
    }
}

/// tri:58
#[test]
fn an_unknown_encoding_is_refused_with_the_list_of_known_ones() {
    let mut call = accepted(GZIP, &[GRPC, ("grpc-encoding", "br")]);
    let answer = owned(&[
        GRPC,
        ("grpc-accept-encoding", "gzip"),
        ("grpc-status", "12"),
        ("grpc-message", "unknown request encoding: this server knows gzip"),
    ]);
    assert_eq!(lines(&trailers_only(&mut call).headers), answer);
    assert_eq!(failure(&accepted(LIMITS, &[GRPC, ("grpc-encoding", "gzip")])), Code::Unimplemented);
    assert!(accepted(LIMITS, &[GRPC, ("grpc-encoding", "identity")]).failure().is_none());
}

/// tri:6 tri:59 tri:60 tri:61 tri:63
#[test]
fn the_response_is_encoded_as_negotiated() {
    let mut call = accepted(GZIP, &[GRPC, ("grpc-accept-encoding", "zstd, gzip")]);
    assert_eq!(call.request().response_encoding(), Some("gzip"));
    let head = call.head(&Metadata::new()).unwrap().unwrap();
    let expected = [GRPC, ("grpc-accept-encoding", "gzip"), ("grpc-encoding", "gzip")];
    assert_eq!(lines(&head.headers), owned(&expected));
    assert_eq!(call.envelope(27, true), Ok(Some([1, 0, 0, 0, 27])));
    assert_eq!(call.envelope(0, true), Ok(Some([0; 5])));
    assert_eq!(call.envelope(201, true), Err(SendError::TooLarge { size: 201, limit: 200 }));

    let mut call = accepted(GZIP, &[GRPC]);
    assert_eq!(call.request().response_encoding(), None);
    call.head(&Metadata::new()).unwrap().unwrap();
    assert!(matches!(call.envelope(27, true), Err(SendError::Codec(_))));

    let mut call = accepted(GZIP, &[GRPC, ("grpc-encoding", "gzip")]);
    call.expect(CallKind::Bidi);
    call.handle_data(Bytes::from_static(b"\x01\0\0\0\x01x"));
    let Recv::Message(message) = call.recv() else { panic!("a message") };
    assert_eq!(message.encoding(), Some("gzip"));

    // A server that only inflates compresses what answers a compressed request, and nothing unasked.
    let inflates = || CallLimits { send_compressions: Encodings::NONE, ..GZIP };
    let both = [GRPC, ("grpc-encoding", "gzip"), ("grpc-accept-encoding", "gzip")];
    assert_eq!(accepted(inflates(), &both).request().response_encoding(), Some("gzip"));
    assert_eq!(accepted(inflates(), &both[..2]).request().response_encoding(), Some("gzip"));
    assert_eq!(accepted(inflates(), &[GRPC, both[2]]).request().response_encoding(), None);
}

/// tri:30 tri:176, golden: triple-protocol §1.2 and Appendix A1.
#[test]
fn a_unary_call_is_head_message_and_trailers() {
    let mut call = expecting(CallKind::Unary);
    call.handle_data(Bytes::from_static(b"\0\0\0\0\x07\x0a\x05world"));
    assert!(!call.is_readable(), "until the request has ended");
    call.handle_end(None);
    assert!(call.is_readable());
    assert_eq!(pull(&mut call).unwrap(), b"\x0a\x05world");
    assert!(matches!(call.recv(), Recv::End));
    let mut metadata = Metadata::new();
    metadata.append("reply", "x").unwrap();
    assert_eq!(lines(&call.head(&metadata).unwrap().unwrap().headers), owned(&[GRPC, ("reply", "x")]));
    assert_eq!(call.envelope(13, false), Ok(Some([0, 0, 0, 0, 13])));
    assert_eq!(call.envelope(13, false), Err(SendError::Sealed), "a single response");
    let End::Trailers(trailers) = call.finish(&Status::OK, &Metadata::new(), usize::MAX).unwrap() else {
        panic!("a head was sent")
    };
    assert_eq!(lines(&trailers), owned(&[("grpc-status", "0")]));
    assert_eq!(call.finish(&Status::OK, &Metadata::new(), usize::MAX), Err(SendError::Sealed));
    assert_eq!(call.envelope(1, false), Err(SendError::Sealed));
}

/// tri:1 tri:171: one message in three DATA frames, the last of them empty.
#[test]
fn prefix_payload_and_end_may_come_apart() {
    let mut call = expecting(CallKind::Unary);
    call.handle_data(Bytes::from_static(b"\0\0\0\0\x07"));
    assert_eq!(call.need(), 7);
    call.handle_data(Bytes::from_static(b"\x0a\x05world"));
    assert_eq!((call.need(), call.buffered()), (0, 12));
    call.handle_data(Bytes::new());
    call.handle_end(None);
    assert_eq!(pull(&mut call).unwrap(), b"\x0a\x05world");
    assert_eq!(call.buffered(), 0);
}

/// tri:31 tri:28
#[test]
fn an_error_before_anything_was_sent_is_trailers_only_with_status_200() {
    let mut call = accepted(LIMITS, &[("content-type", "application/grpc+proto")]);
    let mut trailers = Metadata::new();
    trailers.append_bin("why-bin", b"f").unwrap();
    let mut status = Status::unimplemented("no such method").with_details(Bytes::from_static(b"\x08\x0c"));
    status.metadata_mut().append("k", "v").unwrap();
    let End::Whole { head, .. } = call.finish(&status, &trailers, usize::MAX).unwrap() else {
        panic!("nothing was sent")
    };
    let expected = [
        ("content-type", "application/grpc+proto"),
        ("grpc-status", "12"),
        ("grpc-message", "no such method"),
        ("grpc-status-details-bin", "CAw"),
        ("k", "v"),
        ("why-bin", "Zg"),
    ];
    assert_eq!((head.status, lines(&head.headers)), (200, owned(&expected)));
}

/// tri:32
#[test]
fn an_error_after_messages_goes_into_the_trailers() {
    let mut call = expecting(CallKind::ServerStreaming);
    call.head(&Metadata::new()).unwrap().unwrap();
    call.envelope(3, false).unwrap();
    call.envelope(3, false).unwrap();
    let End::Trailers(trailers) = call.finish(&Status::aborted("lost"), &Metadata::new(), usize::MAX).unwrap() else {
        panic!("a head was sent")
    };
    assert_eq!(lines(&trailers), owned(&[("grpc-status", "10"), ("grpc-message", "lost")]));
}

/// tri:44 tri:45 tri:46 tri:47 tri:173
#[test]
fn a_single_request_is_exactly_one_message() {
    for kind in [CallKind::Unary, CallKind::ServerStreaming] {
        let mut call = expecting(kind);
        call.handle_end(None);
        assert_eq!(failure(&call), Code::Unimplemented, "none");
        assert_eq!(trailers_only(&mut call).headers.get(&HeaderName::GRPC_STATUS).unwrap(), "12");
        let mut call = expecting(kind);
        call.handle_data(message(b"one"));
        call.handle_data(message(b"two"));
        assert_eq!((failure(&call), call.buffered()), (Code::Unimplemented, 0), "two");
        assert!(matches!(call.recv(), Recv::End));
        // The router may be slower than the request.
        let mut call = accepted(LIMITS, &[GRPC]);
        call.handle_end(None);
        assert!(call.failure().is_none());
        call.expect(kind);
        assert_eq!(failure(&call), Code::Unimplemented, "none, late");
    }
    for kind in [CallKind::ClientStreaming, CallKind::Bidi] {
        let mut call = expecting(kind);
        call.handle_end(None);
        assert!(call.failure().is_none() && matches!(call.recv(), Recv::End));
    }
}

/// tri:49
#[test]
fn a_stream_delivers_messages_before_the_request_has_ended() {
    let mut call = expecting(CallKind::Bidi);
    assert!(matches!(call.recv(), Recv::Blocked));
    call.handle_data([message(b"one"), message(b"two")].concat().into());
    assert_eq!((pull(&mut call).unwrap(), pull(&mut call).unwrap()), (b"one".to_vec(), b"two".to_vec()));
    assert!(!call.is_readable());
    call.handle_end(None);
    assert!(matches!(call.recv(), Recv::End));
}

/// tri:7 tri:9 tri:10 tri:11 tri:12 tri:62
#[test]
fn a_request_that_breaks_the_framing_fails() {
    let bodies: [(&[u8], Code); 6] = [
        (b"\x01\0\0\0\x01x", Code::Internal),
        (b"\x02\0\0\0\x01x", Code::Internal),
        (b"\x80\0\0\0\0", Code::Internal),
        (b"\0\0\0\0", Code::Internal),
        (b"\0\0\0\0\x02x", Code::Internal),
        (b"\0\0\0\0\x65", Code::ResourceExhausted),
    ];
    for (body, code) in bodies {
        for kind in [CallKind::Unary, CallKind::Bidi] {
            let mut call = expecting(kind);
            call.handle_data(Bytes::copy_from_slice(body));
            call.handle_end(None);
            assert_eq!((failure(&call), call.buffered()), (code, 0), "{body:?}");
            assert!(matches!(call.recv(), Recv::End));
        }
    }
}

/// tri:48
#[test]
fn success_without_the_message_of_a_single_response_is_internal() {
    let mut call = expecting(CallKind::Unary);
    let End::Whole { head, .. } = call.finish(&Status::OK, &Metadata::new(), usize::MAX).unwrap() else {
        panic!("nothing sent")
    };
    assert_eq!(head.headers.get(&HeaderName::GRPC_STATUS).unwrap(), "13");
    let mut call = expecting(CallKind::ServerStreaming);
    let End::Whole { head, .. } = call.finish(&Status::OK, &Metadata::new(), usize::MAX).unwrap() else {
        panic!("nothing sent")
    };
    assert_eq!(lines(&head.headers), owned(&[GRPC, ("grpc-status", "0")]));
}

/// tri:42 tri:Q65
#[test]
fn a_reset_ends_the_call_unless_it_is_over() {
    let mut call = expecting(CallKind::Bidi);
    call.handle_data(message(b"dropped"));
    call.handle_reset(ErrorCode::CANCEL);
    assert!(call.is_reset() && call.failure().is_none() && matches!(call.recv(), Recv::End));
    let error = SendError::Failed(StreamError::Reset(ErrorCode::CANCEL));
    assert_eq!(call.head(&Metadata::new()), Err(error.clone()));
    assert_eq!(call.envelope(1, false), Err(error.clone()));
    assert_eq!(call.finish(&Status::OK, &Metadata::new(), usize::MAX), Err(error));

    let mut call = expecting(CallKind::Unary);
    call.finish(&StreamError::Deadline.into(), &Metadata::new(), usize::MAX).unwrap();
    call.handle_reset(ErrorCode::NO_ERROR);
    call.handle_data(Bytes::from_static(b"\x80\0\0\0\0"));
    call.handle_end(None);
    assert!(!call.is_reset() && call.failure().is_none());
}

#[test]
fn the_head_is_sent_once_and_before_any_message() {
    let mut call = expecting(CallKind::Bidi);
    assert_eq!(call.envelope(1, false), Err(SendError::NoHead));
    call.head(&Metadata::new()).unwrap().unwrap();
    assert!(call.is_head_sent());
    assert_eq!(call.head(&Metadata::new()), Err(SendError::Sealed));
}

#[test]
fn no_order_of_input_panics() {
    fn survives(steps: Vec<(u8, Vec<u8>)>) -> bool {
        let mut call = accepted(GZIP, &[GRPC, ("grpc-encoding", "gzip")]);
        let mut ends = 0;
        for (step, octets) in steps {
            match step % 8 {
                0 => call.expect(if step > 100 { CallKind::Unary } else { CallKind::Bidi }),
                1 | 2 => call.handle_data(octets.into()),
                3 => call.handle_data(message(&octets)),
                4 => call.handle_end(None),
                5 if step > 200 => call.handle_reset(ErrorCode(step.into())),
                6 => drop((call.recv(), call.head(&Metadata::new()), call.envelope(octets.len(), false))),
                7 => ends += usize::from(call.finish(&Status::OK, &Metadata::new(), usize::MAX).is_ok()),
                _ => drop(call.recv()),
            }
        }
        ends <= 1
    }
    quickcheck::quickcheck(survives as fn(Vec<(u8, Vec<u8>)>) -> bool);
}

/// tri:45: as on the client, the number of messages comes first.
#[test]
fn a_second_message_that_is_too_large_is_one_too_many() {
    let body = [&message(b"one")[..], b"\0\xff\xff\xff\xff"].concat();
    for split in 0..body.len() {
        let mut call = expecting(CallKind::Unary);
        call.handle_data(Bytes::copy_from_slice(&body[..split]));
        call.handle_data(Bytes::copy_from_slice(&body[split..]));
        assert_eq!(failure(&call), Code::Unimplemented, "{split}");
    }
}

mod whole;
