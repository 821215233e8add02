use alloc::string::ToString;
use alloc::vec::Vec;

use super::*;
use crate::call::{Code, Status};

fn wire(lines: &[(&'static str, &'static [u8])]) -> Metadata {
    let mut headers = Headers::new();
    for (name, value) in lines {
        headers.push(HeaderName::from_static(name), *value);
    }
    Metadata::from_headers(headers)
}

fn lines(metadata: &Metadata) -> Vec<(&str, &[u8])> {
    metadata.as_headers().iter().map(|field| (field.name.as_str(), &field.value[..])).collect()
}

/// tri:53 tri:97 tri:175
#[test]
fn repeated_keys_keep_their_order_and_values_may_be_empty() {
    let mut metadata = Metadata::new();
    metadata.append("K", "one, two").unwrap();
    metadata.append("retries", "").unwrap();
    metadata.append("k", "  three ").unwrap();
    assert_eq!(lines(&metadata), [("k", &b"one, two"[..]), ("retries", b""), ("k", b"three")]);
    let values: Vec<_> = metadata.get_all("K").filter_map(Value::to_str).collect();
    assert_eq!(values, ["one, two", "three"]);
    assert_eq!(metadata.get("retries").and_then(Value::to_str), Some(""));
    assert!(metadata.remove("k"));
    assert!(!metadata.remove("k"));
    assert_eq!(metadata.iter().map(|(key, _)| key).collect::<Vec<_>>(), ["retries"]);
}

/// tri:181
#[test]
fn binary_values_leave_as_one_unpadded_line_each() {
    let mut metadata = Metadata::new();
    metadata.append_bin("trace-bin", &[0, 1, 199, 62]).unwrap();
    metadata.append_bin("trace-bin", b"").unwrap();
    assert_eq!(lines(&metadata), [("trace-bin", &b"AAHHPg"[..]), ("trace-bin", b"")]);
    let values: Vec<_> = metadata.get_all("trace-bin").map(|value| value.to_bytes().unwrap()).collect();
    assert_eq!(values, [&[0, 1, 199, 62][..], b""]);
}

/// tri:53 tri:98
#[test]
fn received_binary_values_may_be_padded_and_joined_and_text_is_not_split() {
    let metadata = wire(&[("a-bin", b"AAH/Pg, Zg==,Zm8="), ("a-bin", b"Zg"), ("list", b"a, b")]);
    let values: Vec<_> = metadata.get_all("a-bin").map(|value| value.to_bytes().unwrap()).collect();
    assert_eq!(values, [&[0, 1, 255, 62][..], b"f", b"fo", b"f"]);
    assert_eq!(metadata.get("list").and_then(Value::to_str), Some("a, b"));
    assert_eq!(metadata.iter().count(), 5);
    assert_eq!(metadata.len(), 3);
}

/// tri:54
#[test]
fn bad_base64_is_an_error_of_that_value_alone() {
    let metadata = wire(&[("a-bin", b"*"), ("b", b"fine")]);
    let value = metadata.get("a-bin").unwrap();
    assert!(value.is_binary());
    assert_eq!((value.to_bytes(), value.to_str()), (Err(InvalidBase64), None));
    assert_eq!(value.as_wire(), b"*");
    assert_eq!(metadata.get("b").unwrap().to_bytes().unwrap(), "fine");
}

/// tri:175 tri:Q74
#[test]
fn values_with_high_octets_are_kept_and_read_as_utf_8_or_latin_1() {
    let metadata = wire(&[("latin", b"na\xefve"), ("utf", "naïve".as_bytes())]);
    let value = metadata.get("latin").unwrap();
    assert_eq!((value.to_str(), value.to_text().as_ref(), value.as_wire()), (None, "naïve", &b"na\xefve"[..]));
    assert_eq!(metadata.get("utf").unwrap().to_str(), Some("naïve"));
    let mut forwarded = Metadata::new();
    forwarded.append_opaque("latin", Bytes::from_static(b"na\xefve")).unwrap();
    assert_eq!(lines(&forwarded), [("latin", &b"na\xefve"[..])]);
}

#[test]
fn values_are_shared_with_the_header_block() {
    let value = Bytes::from(b"a value on the heap".to_vec());
    let mut headers = Headers::new();
    headers.push(HeaderName::from_static("x"), value.clone());
    let metadata = Metadata::from_headers(headers);
    assert_eq!(metadata.get("x").unwrap().to_bytes().unwrap().as_ptr(), value.as_ptr());
    assert_eq!(metadata.into_headers().iter().next().unwrap().value.as_ptr(), value.as_ptr());
}

/// `h2:V12`, tri:57 tri:183 tri:Q6 tri:Q76
#[test]
fn names_of_the_protocol_are_neither_taken_nor_shown() {
    let reserved = [
        "te",
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
        "host",
        "content-length",
        "content-type",
        "content-encoding",
        "accept-encoding",
        "user-agent",
        "trailer",
        "date",
        "grpc-timeout",
        "grpc-anything",
        "grpc-tags-bin",
        "connect-protocol-version",
        "triple-timeout-ms",
        "tri-protocol-version",
        "tri-service-timeout",
        "trailer-key",
    ];
    for name in reserved {
        let mut metadata = Metadata::new();
        let error = metadata.append(name, "x").unwrap_err();
        assert!(error.to_string().contains("belongs to the protocol"), "{error}");
        assert!(metadata.append(&name.to_ascii_uppercase(), "x").is_err());
        assert!(wire(&[(name, b"x"), ("mine", b"y")]).get(name).is_none());
        assert!(metadata.is_empty());
    }
    // What Dubbo sends beside the protocol's own names is metadata.
    for name in ["interface", "timeout", "retries", "tri-consumer-appname", "x-grpc-like"] {
        assert!(wire(&[(name, b"x")]).get(name).is_some(), "{name}");
    }
}

/// tri:72
#[test]
fn a_refused_entry_says_what_to_do() {
    let mut metadata = Metadata::new();
    let cases = [
        (metadata.append("", "x"), "give it a name"),
        (metadata.append("a b", "x"), "holds ' ': use letters"),
        (metadata.append("naïve", "x"), "holds 'ï': use letters"),
        (metadata.append(":path", "x"), "holds ':': use letters"),
        (metadata.append("k", "naïve"), "holds 'ï': text is printable ASCII; for anything else use a key that ends"),
        (metadata.append("k", "a\nb"), "holds '\\n': text is printable ASCII"),
        (metadata.append("k-bin", "x"), "give its value as bytes, to append_bin"),
        (metadata.append_bin("k", b"x"), "let it end in `-bin`"),
        (metadata.append_opaque("k", Bytes::from_static(b"a\r")), "holds a control character"),
        (metadata.append_opaque("k", Bytes::from_static(b" a")), "a blank at an end"),
    ];
    for (result, advice) in cases {
        let error = result.unwrap_err();
        assert!(error.to_string().contains(advice), "{error}");
        assert_eq!(Status::from(error).code(), Code::InvalidArgument);
    }
    assert!(metadata.is_empty());
}

#[test]
fn a_secret_is_marked_for_header_compression_and_not_printed() {
    let mut metadata = Metadata::new();
    metadata.append("tenant", "blue").unwrap();
    metadata.append_sensitive("token", "hunter2").unwrap();
    assert_eq!(metadata.as_headers().iter().map(|field| field.sensitive).collect::<Vec<_>>(), [false, true]);
    assert!(!alloc::format!("{metadata:?}").contains("hunter2"));
}

#[test]
fn any_bytes_come_back_through_a_binary_key() {
    fn round_trip(value: Vec<u8>) -> bool {
        let mut metadata = Metadata::new();
        metadata.append_bin("x-bin", &value).unwrap();
        metadata.get("x-bin").unwrap().to_bytes().unwrap() == value
    }
    quickcheck::quickcheck(round_trip as fn(Vec<u8>) -> bool);
}
