use super::*;

const KINDS: [CallKind; 4] = [CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi];

fn codec(content_type: &'static str) -> Option<Bytes> {
    GRPC.codec(&Bytes::from_static(content_type.as_bytes()))
}

#[test]
fn each_protocol_finds_its_own_row_if_it_is_carried() {
    use Protocol::{Connect, Grpc, GrpcWeb, Triple};
    for headers in [TripleHeaders::DubboGo, TripleHeaders::DubboJs] {
        for kind in KINDS {
            let row = |protocol| for_client(protocol, headers, kind).map(|spec| spec.protocol);
            let is_unary = kind == CallKind::Unary;
            // Triple has no stream of its own (triple-protocol §0).
            assert_eq!(row(Triple), Some(if is_unary { Triple } else { Grpc }), "{kind:?}");
            assert_eq!(row(Connect), is_unary.then_some(Connect), "{kind:?}");
            assert_eq!((row(Grpc), row(GrpcWeb)), (Some(Grpc), None), "{kind:?}");
        }
    }
    let marker = |headers| for_client(Triple, headers, CallKind::Unary).unwrap().marker.0.as_str();
    assert_eq!(marker(TripleHeaders::DubboGo), "triple-protocol-version");
    assert_eq!(marker(TripleHeaders::DubboJs), "tri-protocol-version");
}

fn detected(content_type: &'static str, names: &[&'static str]) -> Option<(Protocol, bool, Bytes)> {
    let mut headers = Headers::new();
    for name in names {
        headers.push(HeaderName::from_static(name), "1");
    }
    let (spec, codec) = detect(&Bytes::from_static(content_type.as_bytes()), &headers)?;
    Some((spec.protocol, spec.error == ErrorForm::HttpJson { number: true }, codec))
}

/// tri:115 tri:118 tri:125 tri:185: triple-protocol §1.1 and the dialects of §1.3.
#[test]
fn bare_bodies_are_told_apart_by_the_fields_that_one_dialect_has() {
    for (content_type, codec) in [
        ("application/proto", "proto"),
        ("application/json", "json"),
        ("Application/JSON; charset=utf-8", "json"),
        ("application/hessian2", "hessian2"),
        ("application/x-msgpack", "x-msgpack"),
    ] {
        let row = |names: &[&'static str]| {
            let (protocol, number, name) = detected(content_type, names).expect(content_type);
            assert_eq!(name, codec);
            (protocol, number)
        };
        for names in [&[][..], &["triple-protocol-version"], &["triple-timeout-ms"], &["tri-service-group", "x"]] {
            assert_eq!(row(names), (Protocol::Triple, false), "{names:?}");
        }
        for names in ["tri-protocol-version", "tri-service-timeout", "rest-service-version", "rest-service-group"] {
            assert_eq!(row(&[names]), (Protocol::Triple, true), "{names}");
            assert_eq!(row(&[names, "triple-protocol-version"]), (Protocol::Triple, false), "{names}");
        }
        for names in ["connect-protocol-version", "connect-timeout-ms"] {
            assert_eq!(row(&[names]).0, Protocol::Connect);
            assert_eq!(row(&["triple-timeout-ms", "tri-protocol-version", names]).0, Protocol::Connect);
        }
    }
    // The fields of a dialect do not make one of another content type.
    let names = ["connect-protocol-version", "triple-protocol-version", "tri-protocol-version"];
    assert_eq!(detected("application/grpc", &names).unwrap().0, Protocol::Grpc);
}

/// tri:27 tri:123 tri:177
#[test]
fn other_protocols_are_not_taken_for_a_codec() {
    for content_type in [
        "",
        "application/",
        "text/plain",
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/grpc-web-text",
        "application/grpc-web-text+proto",
        "application/grpcx",
        "application/GRPC-foo",
        "application/connect+proto",
        "application/vnd.api+json",
        "application/a b",
        "application/a/b",
        "application/\u{e9}",
        "json",
    ] {
        assert_eq!(detected(content_type, &[]), None, "{content_type}");
    }
}

/// tri:123
#[test]
fn accept_post_lists_what_is_served_in_order() {
    let both = "application/grpc, application/grpc+json, application/grpc+proto, application/json, application/proto";
    assert_eq!(accept_post(&["proto", "json"], CallKind::Unary), both);
    assert_eq!(accept_post(&["proto"], CallKind::Unary), "application/grpc, application/grpc+proto, application/proto");
    assert_eq!(accept_post(&["proto"], CallKind::Bidi), "application/grpc, application/grpc+proto");
    assert_eq!(accept_post(&["text"], CallKind::Unary), "application/grpc+text, application/text");
}

/// tri:71
#[test]
fn content_types_carry_no_parameter_and_proto_is_bare() {
    assert_eq!(GRPC.content_type("proto"), "application/grpc");
    assert_eq!(GRPC.content_type("json"), "application/grpc+json");
    assert_eq!(TRIPLE.content_type("proto"), "application/proto");
    assert_eq!(CONNECT_STREAM.content_type("proto"), "application/connect+proto");
}

/// tri:21 tri:23 tri:25 tri:177
#[test]
fn content_types_are_read_without_case_and_parameters() {
    for bare in ["application/grpc", "Application/GRPC", "application/grpc;charset=utf-8", "application/grpc ; a=b"] {
        assert_eq!(codec(bare).expect(bare), "proto");
    }
    assert_eq!(codec("application/grpc+proto").unwrap(), "proto");
    assert_eq!(codec("application/grpc+JSON;x=y").unwrap(), "json");
    assert_eq!(codec("application/grpc+foo").unwrap(), "foo");
    for foreign in [
        "",
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/grpc-web-text",
        "application/grpcx",
        "application/grpc+",
        "application/json",
        "text/plain",
        "application/grp",
        "application/grpc+\u{e9}",
    ] {
        assert_eq!(codec(foreign), None, "{foreign}");
    }
}
