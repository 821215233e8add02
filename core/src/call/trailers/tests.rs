use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::call::Origin;

fn headers(lines: &[(&'static str, &'static [u8])]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(HeaderName::from_static(name), *value);
    }
    headers
}

fn decoded(lines: &[(&'static str, &'static [u8])]) -> Status {
    decode(headers(lines)).expect("a status")
}

fn encoded(status: &Status) -> Vec<(String, Vec<u8>)> {
    let mut headers = Headers::new();
    encode(status, &mut headers);
    headers.iter().map(|field| (field.name.as_str().into(), field.value.to_vec())).collect()
}

fn line(name: &str, value: &[u8]) -> (String, Vec<u8>) {
    (name.into(), value.to_vec())
}

/// tri:85 tri:86
#[test]
fn any_integer_is_a_status_and_anything_else_is_unknown() {
    for (text, raw) in [("0", 0), ("5", 5), ("16", 16), ("17", 17), (" 5 ", 5), ("005", 5), ("4294967295", u32::MAX)] {
        assert_eq!(decoded(&[("grpc-status", text.as_bytes())]).raw_code(), raw, "{text}");
    }
    for text in ["", "abc", "-1", "+1", "5x", "1 2", "4294967296", "99999999999999999999"] {
        let status = decoded(&[("grpc-status", text.as_bytes()), ("grpc-message", b"why")]);
        assert_eq!((status.code(), status.message()), (Code::Unknown, "why"), "{text}");
    }
    assert_eq!(decode(headers(&[("grpc-message", b"x")])), None);
}

/// tri:87 tri:Q38
#[test]
fn success_ignores_a_message_and_takes_no_memory() {
    for message in ["", "OK", "poll trailer successfully."] {
        let status = decoded(&[("grpc-status", b"0"), ("grpc-message", message.as_bytes())]);
        assert_eq!(status, Status::OK);
    }
    let status = decoded(&[("grpc-status", b"0"), ("reply", b"x")]);
    assert!(status.is_ok());
    assert_eq!(status.metadata().get("reply").unwrap().to_str(), Some("x"));
}

/// tri:91 tri:92 tri:93
#[test]
fn details_are_optional_and_cannot_fail_the_status() {
    let blob = b"\x08\x05\x12\x0cno such user";
    for text in [&b"CAUSDG5vIHN1Y2ggdXNlcg"[..], b"CAUSDG5vIHN1Y2ggdXNlcg=="] {
        let status = decoded(&[("grpc-status", b"5"), ("grpc-status-details-bin", text)]);
        assert_eq!((status.raw_code(), &status.details()[..]), (5, &blob[..]));
    }
    let status = decoded(&[("grpc-status", b"5"), ("grpc-message", b"m"), ("grpc-status-details-bin", b"*")]);
    assert_eq!((status.raw_code(), status.message(), status.details().len()), (5, "m", 0));
    // A blob with another code changes nothing.
    let status = decoded(&[("grpc-status", b"7"), ("grpc-status-details-bin", b"CAUSDG5vIHN1Y2ggdXNlcg")]);
    assert_eq!((status.code(), status.message()), (Code::PermissionDenied, ""));
}

/// tri:97 tri:183
#[test]
fn the_other_fields_are_its_metadata() {
    let status =
        decoded(&[("a", b"1"), ("grpc-status", b"5"), ("content-type", b"x"), ("a", b"2"), ("user-agent", b"y")]);
    let entries: Vec<_> = status.metadata().iter().map(|(key, value)| (key, value.to_str().unwrap())).collect();
    assert_eq!(entries, [("a", "1"), ("a", "2")]);
    assert_eq!(status.origin(), Origin::Peer);
}

/// tri:34 tri:35 tri:176
#[test]
fn only_what_there_is_to_say_is_written() {
    assert_eq!(encoded(&Status::OK), [line("grpc-status", b"0")]);
    assert_eq!(encoded(&Status::not_found("")), [line("grpc-status", b"5")]);
    let status = Status::new(Code::NotFound, "100% naïve\n").with_details(Bytes::from_static(b"\x08\x05"));
    assert_eq!(
        encoded(&status),
        [
            line("grpc-status", b"5"),
            line("grpc-message", b"100%25 na%C3%AFve%0A"),
            line("grpc-status-details-bin", b"CAU")
        ]
    );
}

/// tri:Q30: 17 is never passed on.
#[test]
fn an_unregistered_number_is_sent_as_unknown() {
    let status = decoded(&[("grpc-status", b"17"), ("grpc-message", b"biz"), ("k", b"v")]);
    assert_eq!(encoded(&status), [line("grpc-status", b"2"), line("grpc-message", b"biz"), line("k", b"v")]);
}

/// tri:Q10
#[test]
fn a_long_message_is_cut_and_large_details_are_left_out() {
    let status = Status::internal("ï".repeat(1000)).with_details(Bytes::from(vec![0; MAX_DETAILS + 1]));
    let lines = encoded(&status);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1].1.len(), MAX_MESSAGE / 6 * 6);
    let status = Status::internal("x".repeat(MAX_MESSAGE)).with_details(Bytes::from(vec![0; MAX_DETAILS]));
    assert_eq!(encoded(&status)[1].1.len(), MAX_MESSAGE);
    assert_eq!(encoded(&status).len(), 3);
}

#[test]
fn any_status_comes_back() {
    fn round_trip(code: u8, message: String, details: Vec<u8>) -> bool {
        let message: String = message.chars().take(80).collect();
        let code = Code::from_raw(u32::from(code % 16) + 1);
        let mut headers = Headers::new();
        encode(&Status::new(code, message.clone()).with_details(details.clone().into()), &mut headers);
        let valid = headers.iter().all(|field| crate::http::is_valid_value(&field.value));
        let status = decode(headers).expect("a status");
        valid && status.code() == code && status.message() == message && status.details()[..] == details[..]
    }
    quickcheck::quickcheck(round_trip as fn(u8, String, Vec<u8>) -> bool);
}
