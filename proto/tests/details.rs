//! Details of a status: what other implementations read, and what they send.

use bytes::Bytes;
use prost::Message;
use prost_types::{Any, Duration};
use trirpc_core::call::{Code, Status};
use trirpc_proto::StatusDetails;
use trirpc_proto::google::rpc::{BadRequest, ErrorInfo, RetryInfo, bad_request::FieldViolation};

fn violation() -> BadRequest {
    let violation = FieldViolation { field: "city".into(), description: "empty".into(), ..Default::default() };
    BadRequest { field_violations: vec![violation] }
}

#[test]
fn details_come_back_by_type_in_any_number() {
    let retry = RetryInfo { retry_delay: Some(Duration { seconds: 3, nanos: 0 }) };
    let status = Status::new(Code::Unavailable, "later").with_detail(&violation()).with_detail(&retry);
    assert_eq!(status.detail(), Ok(Some(violation())));
    assert_eq!(status.detail(), Ok(Some(retry)));
    assert_eq!(status.detail::<ErrorInfo>(), Ok(None));
    let whole = status.rpc_status().expect("it decodes").expect("it is there");
    assert_eq!((whole.code, whole.message.as_str(), whole.details.len()), (14, "later", 2));
    assert_eq!(status.details().len(), whole.encoded_len(), "nothing is in the header twice");
}

/// The bytes are those of any other Protobuf implementation, written out by hand.
#[test]
fn the_blob_is_a_google_rpc_status() {
    let info = ErrorInfo { reason: "R".into(), ..Default::default() };
    let status = Status::new(Code::NotFound, "no").with_detail(&info);
    let url = b"type.googleapis.com/google.rpc.ErrorInfo";
    let mut expected = vec![0x08, 5, 0x12, 2, b'n', b'o', 0x1a, 2 + url.len() as u8 + 2 + 3, 0x0a, url.len() as u8];
    expected.extend_from_slice(url);
    expected.extend_from_slice(&[0x12, 3, 0x0a, 1, b'R']);
    assert_eq!(status.details(), &expected);
}

#[test]
fn a_status_without_details_has_none_and_a_broken_blob_is_an_error() {
    let status = Status::new(Code::Internal, "plain");
    assert_eq!(status.rpc_status(), Ok(None));
    assert_eq!(status.detail::<ErrorInfo>(), Ok(None));
    let broken = Status::new(Code::Internal, "x").with_details(Bytes::from_static(&[0x1a, 200]));
    assert!(broken.rpc_status().is_err());
    assert!(broken.detail::<ErrorInfo>().is_err());
}

/// tri:92 tri:Q43: the code of the status stands, and details that do not belong to it are nobody's.
#[test]
fn details_of_another_code_are_not_read() {
    let blob = Status::new(Code::NotFound, "no").with_detail(&violation()).details().clone();
    let status = |code| Status::new(code, "no").with_details(blob.clone());
    assert_eq!(status(Code::NotFound).detail(), Ok(Some(violation())));
    assert_eq!(status(Code::PermissionDenied).detail::<BadRequest>(), Ok(None));
    assert_eq!(status(Code::PermissionDenied).rpc_status(), Ok(None));
}

#[test]
fn the_domain_of_a_type_url_does_not_matter_but_its_name_does() {
    let any = |type_url: &str| Any { type_url: type_url.into(), value: vec![0x0a, 1, b'R'] };
    let detail = |type_url| Status::new(Code::Internal, "").with_any(any(type_url)).detail::<ErrorInfo>();
    let found = Ok(Some(ErrorInfo { reason: "R".into(), ..Default::default() }));
    assert_eq!(detail("type.googleapis.com/google.rpc.ErrorInfo"), found);
    assert_eq!(detail("example.org/a/google.rpc.ErrorInfo"), found);
    assert_eq!(detail("/google.rpc.ErrorInfo"), found);
    for foreign in
        ["google.rpc.ErrorInfo", "x/rpc.ErrorInfo", "x/google.rpc.ErrorInfoV2", "x/my.google.rpc.ErrorInfo", ""]
    {
        assert_eq!(detail(foreign), Ok(None), "{foreign}");
    }
}
