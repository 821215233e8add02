use alloc::vec::Vec;

use super::super::status::tables::{HTTP_CODES_CONNECT, HTTP_CODES_TRIPLE};
use super::*;
use crate::call::Origin;

fn written(status: &Status, number: bool) -> String {
    String::from_utf8(encode(status, number).to_vec()).expect("UTF-8")
}

fn decoded(body: &str, http: u16) -> Status {
    decode(body.as_bytes(), http, HTTP_CODES_TRIPLE, Metadata::new())
}

#[track_caller]
fn reads(body: &str, http: u16, raw: u32, message: &str) {
    let status = decoded(body, http);
    assert_eq!((status.raw_code(), status.message()), (raw, message), "{body}");
    assert_eq!(status.origin(), Origin::Peer);
}

/// tri:120 tri:121, golden: the error bodies of Appendix A2 and A3 and of triple-protocol §1.3.
#[test]
fn errors_are_written_as_dubbo_go_and_connect_write_them() {
    assert_eq!(written(&Status::not_found("as asked"), false), r#"{"code":"not_found","message":"as asked"}"#);
    assert_eq!(written(&Status::unimplemented("as asked"), false), r#"{"code":"unimplemented","message":"as asked"}"#);
    assert_eq!(encode(&Status::not_found("no such user"), false).len(), 45);
    assert_eq!(written(&Status::internal(""), false), r#"{"code":"internal"}"#);
    let message = Status::data_loss("a\"b\\c\n\u{1}é");
    assert_eq!(written(&message, false), "{\"code\":\"data_loss\",\"message\":\"a\\\"b\\\\c\\n\\u0001é\"}");
}

/// tri:185
#[test]
fn dubbo_js_gets_the_number_too() {
    let text = r#"{"code":"not_found","status":5,"message":"gone"}"#;
    assert_eq!(written(&Status::not_found("gone"), true), text);
    reads(text, 404, 5, "gone");
}

/// tri:122
#[test]
fn details_are_listed_without_prefix_and_padding() {
    let details = [
        Detail { type_url: Bytes::from_static(b"type.googleapis.com/google.rpc.ErrorInfo"), value: vec(&[1, 2, 3, 4]) },
        Detail { type_url: Bytes::from_static(b"example.com/a.B"), value: Bytes::new() },
    ];
    let blob = details::encode(5, "gone", &details);
    let text = written(&Status::not_found("gone").with_details(blob.clone()), false);
    let list = r#"[{"type":"google.rpc.ErrorInfo","value":"AQIDBA"},{"type":"example.com/a.B","value":""}]"#;
    assert_eq!(text, format!(r#"{{"code":"not_found","message":"gone","details":{list}}}"#));
    let status = decoded(&text, 404);
    assert_eq!((status.code(), status.message(), status.details()), (Code::NotFound, "gone", &blob));
}

fn vec(octets: &[u8]) -> Bytes {
    Bytes::copy_from_slice(octets)
}

/// tri:130: whatever the HTTP status is.
#[test]
fn every_code_comes_back_by_its_name() {
    for code in Code::ALL.into_iter().skip(1) {
        for number in [false, true] {
            for http in [400, 404, 500, 503] {
                reads(&written(&Status::new(code, "x"), number), http, code as u32, "x");
            }
        }
    }
    reads(r#"{"message":"x","code":"deadline_exceeded","debug":{"y":[1,{}]},"z":null}"#, 408, 4, "x");
}

/// tri:132 tri:133 tri:184: dubbo-java, dubbo-go's business errors, connect-es, dubbo-js, dubbo-go's transcoding, and the
/// written specification.
#[test]
fn every_known_shape_is_read() {
    reads(r#"{"message":"Invoker not found","status":"404"}"#, 404, 12, "Invoker not found");
    reads(r#"{"status":"404","message":"x"}"#, 404, 12, "x");
    reads(r#"{"status":"500","message":"x"}"#, 500, 2, "x");
    reads(r#"{"code":"code_17","message":"x"}"#, 500, 17, "x");
    reads(r#"{"code":"17","message":"x"}"#, 500, 17, "x");
    reads(r#"{"status":5,"message":"gone"}"#, 404, 5, "gone");
    reads(r#"{"status":17,"message":"x"}"#, 500, 17, "x");
    reads(r#"{"status":5}"#, 500, 5, "");
    reads(r#"{"code":5,"message":"gone","details":[]}"#, 500, 5, "gone");
    reads(r#"{"status":60,"message":"x"}"#, 404, 12, "x");
    reads(r#"{"code":"unknown","status":5}"#, 404, 2, "");
}

/// tri:134 tri:157
#[test]
fn a_code_that_is_none_leaves_the_http_status_to_decide() {
    for code in [
        r#""nonsense""#,
        "null",
        "0",
        "-1",
        "20",
        "99999999999",
        "5.0",
        "true",
        "[5]",
        r#""""#,
        r#""ok""#,
        r#""0""#,
        r#""code_""#,
        r#""code_0""#,
        r#""-5""#,
        r#""NOT_FOUND""#,
        r#""code_99999999999""#,
    ] {
        reads(&format!(r#"{{"code":{code},"message":"x"}}"#), 503, 14, "x");
        // A number beside it is still one.
        reads(&format!(r#"{{"code":{code},"status":7,"message":"x"}}"#), 503, 7, "x");
    }
    reads(r#"{"message":"x"}"#, 401, 16, "x");
    reads("{}", 401, 16, "HTTP status 401");
    reads(r#"{"code":"not_found","message":null}"#, 500, 5, "");
}

/// tri:131
#[test]
fn a_body_that_is_no_json_error_is_shown_and_the_http_status_decides() {
    for (http, code) in [(409, 2), (412, 9), (413, 8), (431, 8), (408, 4), (400, 3), (429, 14), (302, 2), (100, 2)] {
        reads("<html>no</html>\n", http, code, &format!("HTTP status {http}: <html>no</html>"));
        reads("", http, code, &format!("HTTP status {http}"));
    }
    let connect = decode(b"", 400, HTTP_CODES_CONNECT, Metadata::new());
    assert_eq!(connect.code(), Code::Internal);
    for body in ["[]", "\"x\"", "5", "{\"code\":", "{\"code\":\"not_found\"}x", "{\"code\":\"not_found\",}"] {
        assert_eq!(decoded(body, 403).code(), Code::PermissionDenied, "{body}");
    }
    let long = decoded(&"x".repeat(10_000), 500);
    assert_eq!(long.message().len(), "HTTP status 500: ".len() + MAX_TEXT);
    let control = decode(b"a\nb\xff\x1b", 500, HTTP_CODES_TRIPLE, Metadata::new());
    assert_eq!(control.message(), "HTTP status 500: a\\nbÿ\\u{1b}");
}

/// tri:135
#[test]
fn a_bad_detail_costs_only_itself() {
    let good = r#"{"type":"a.B","value":"AQ=="}"#;
    for bad in [
        r#"{"type":"a.B","value":"!"}"#,
        r#"{"type":"a.B"}"#,
        r#"{"value":"AQ"}"#,
        r#"{"type":5,"value":"AQ"}"#,
        "null",
        "5",
        "[]",
        "{}",
        r#"{"type":"a.B","value":["AQ"]}"#,
    ] {
        let status = decoded(&format!(r#"{{"code":"aborted","details":[{bad},{good}],"message":"x"}}"#), 409);
        assert_eq!((status.code(), status.message()), (Code::Aborted, "x"), "{bad}");
        let details: Vec<Detail> = details::decode(status.details());
        assert_eq!(details, [Detail { type_url: "type.googleapis.com/a.B".into(), value: vec(&[1]) }], "{bad}");
    }
    for list in ["null", "{}", "5", "\"x\""] {
        let status = decoded(&format!(r#"{{"code":"aborted","details":{list}}}"#), 409);
        assert_eq!((status.code(), status.details().len()), (Code::Aborted, 0), "{list}");
    }
}

#[test]
fn an_error_is_never_success_whatever_the_octets_are() {
    fn fails(body: Vec<u8>, http: u16) -> bool {
        !decode(&body, http, HTTP_CODES_TRIPLE, Metadata::new()).is_ok()
    }
    quickcheck::quickcheck(fails as fn(Vec<u8>, u16) -> bool);
}

/// tri:121
#[test]
fn any_status_comes_back() {
    fn round_trip(code: u8, message: String, details: Vec<(String, Vec<u8>)>) -> bool {
        let code = Code::ALL[usize::from(code) % 16 + 1];
        let details: Vec<Detail> = details
            .into_iter()
            .map(|(kind, value)| Detail { type_url: format!("a/{kind}").into(), value: value.into() })
            .collect();
        let status = Status::new(code, message.clone()).with_details(details::encode(code as u32, &message, &details));
        let read = decode(&encode(&status, false), 500, HTTP_CODES_TRIPLE, Metadata::new());
        (read.code(), read.message(), read.details()) == (code, &*message, status.details())
    }
    quickcheck::quickcheck(round_trip as fn(u8, String, Vec<(String, Vec<u8>)>) -> bool);
}
