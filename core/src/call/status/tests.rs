use alloc::string::ToString;

use super::*;
use crate::error::{GoAway, PeerMisbehaved, Timeout, TransportError};

#[test]
fn a_status_is_one_pointer_wide_and_success_is_none() {
    assert_eq!(size_of::<Status>(), size_of::<usize>());
    assert_eq!(size_of::<Result<(), Status>>(), 2 * size_of::<usize>());
    assert_eq!(Status::default(), Status::OK);
    assert!(Status::OK.is_ok());
    assert_eq!(Status::from_peer(0, "".into(), Bytes::new(), Metadata::new()), Status::OK);
    assert_eq!(Status::OK.to_string(), "OK");
}

#[test]
fn every_code_has_a_constructor_and_its_number() {
    let constructors: [fn(&'static str) -> Status; 16] = [
        Status::cancelled,
        Status::unknown,
        Status::invalid_argument,
        Status::deadline_exceeded,
        Status::not_found,
        Status::already_exists,
        Status::permission_denied,
        Status::resource_exhausted,
        Status::failed_precondition,
        Status::aborted,
        Status::out_of_range,
        Status::unimplemented,
        Status::internal,
        Status::unavailable,
        Status::data_loss,
        Status::unauthenticated,
    ];
    for (constructor, number) in constructors.iter().zip(1..) {
        let status = constructor("text");
        assert_eq!((status.code() as u32, status.raw_code(), status.message()), (number, number, "text"));
        assert_eq!(Code::from_raw(number), status.code());
        assert!(!status.is_ok() && status.is_local() && !status.is_unprocessed());
    }
    for (number, code) in Code::ALL.into_iter().enumerate() {
        assert_eq!(code as usize, number);
    }
}

/// tri:86 tri:Q30
#[test]
fn an_unregistered_number_is_kept_beside_unknown() {
    for raw in [17, 1000, u32::MAX] {
        let status = Status::from_peer(raw, "biz".into(), Bytes::new(), Metadata::new());
        assert_eq!((status.code(), status.raw_code()), (Code::Unknown, raw));
        assert_eq!(status.to_string(), alloc::format!("UNKNOWN ({raw}): biz [by the peer]"));
    }
}

#[test]
fn text_says_who_failed_with_what_code_and_whether_the_call_may_have_been_processed() {
    let cases = [
        (
            Status::from_peer(5, "no such user".into(), Bytes::new(), Metadata::new()),
            "NOT_FOUND: no such user [by the peer]",
        ),
        (
            Status::from_reset(ErrorCode::REFUSED_STREAM),
            "UNAVAILABLE: stream reset: REFUSED_STREAM [by the peer, which did not process the call]",
        ),
        (
            StreamError::Deadline.into(),
            "DEADLINE_EXCEEDED: deadline exceeded [on this side; the peer may have processed the call]",
        ),
        (Status::cancelled("").with_unprocessed(), "CANCELLED [on this side; the peer did not process the call]"),
        (
            Status::from_connection(&ConnectionError::Transport(TransportError::Reset)),
            "UNAVAILABLE: connection reset [in transport; the peer may have processed the call]",
        ),
        (
            Status::from_connection(&ConnectionError::Transport(TransportError::Eof)).with_unprocessed(),
            "UNAVAILABLE: connection closed by the peer [in transport; the peer did not process the call]",
        ),
    ];
    for (status, text) in cases {
        assert_eq!(status.to_string(), text);
    }
}

/// h2:B53 tri:101 tri:102 tri:Q21: a row for each code of RFC 9113 §7, and one that it does not have.
#[test]
fn each_reset_code_means_a_status() {
    let rows = [
        (ErrorCode::NO_ERROR, Code::Internal),
        (ErrorCode::PROTOCOL_ERROR, Code::Internal),
        (ErrorCode::INTERNAL_ERROR, Code::Internal),
        (ErrorCode::FLOW_CONTROL_ERROR, Code::Internal),
        (ErrorCode::SETTINGS_TIMEOUT, Code::Internal),
        (ErrorCode::STREAM_CLOSED, Code::Internal),
        (ErrorCode::FRAME_SIZE_ERROR, Code::Internal),
        (ErrorCode::REFUSED_STREAM, Code::Unavailable),
        (ErrorCode::CANCEL, Code::Cancelled),
        (ErrorCode::COMPRESSION_ERROR, Code::Internal),
        (ErrorCode::CONNECT_ERROR, Code::Internal),
        (ErrorCode::ENHANCE_YOUR_CALM, Code::ResourceExhausted),
        (ErrorCode::INADEQUATE_SECURITY, Code::PermissionDenied),
        (ErrorCode::HTTP_1_1_REQUIRED, Code::Internal),
        (ErrorCode(14), Code::Unknown),
        (ErrorCode(404), Code::Unknown),
    ];
    for (reset, code) in rows {
        let status = Status::from_reset(reset);
        assert_eq!((status.code(), status.origin()), (code, Origin::Peer), "{reset}");
        assert_eq!(status.is_unprocessed(), reset == ErrorCode::REFUSED_STREAM, "{reset}");
    }
}

/// tri:79 tri:182: the three columns of the digest, row by row.
#[test]
fn each_http_status_means_a_code_in_each_dialect() {
    use Code::*;
    let rows = [
        (100, Unknown, Internal, Unknown),
        (199, Unknown, Internal, Unknown),
        (200, Unknown, Unknown, Unknown),
        (400, InvalidArgument, Internal, Internal),
        (401, Unauthenticated, Unauthenticated, Unauthenticated),
        (403, PermissionDenied, PermissionDenied, PermissionDenied),
        (404, Unimplemented, Unimplemented, Unimplemented),
        (408, DeadlineExceeded, Unknown, Unknown),
        (409, Unknown, Unknown, Unknown),
        (412, FailedPrecondition, Unknown, Unknown),
        (413, ResourceExhausted, Unknown, Unknown),
        (415, Unknown, Unknown, Unknown),
        (418, Unknown, Unknown, Unknown),
        (429, Unavailable, Unavailable, Unavailable),
        (431, ResourceExhausted, Internal, Unknown),
        (500, Unknown, Unknown, Unknown),
        (502, Unavailable, Unavailable, Unavailable),
        (503, Unavailable, Unavailable, Unavailable),
        (504, Unavailable, Unavailable, Unavailable),
        (505, Unknown, Unknown, Unknown),
        (800, Unknown, Unknown, Unknown),
    ];
    for (status, triple, grpc, connect) in rows {
        assert_eq!(tables::HTTP_CODES_TRIPLE.code(status), triple, "{status}");
        assert_eq!(tables::HTTP_CODES_GRPC.code(status), grpc, "{status}");
        assert_eq!(tables::HTTP_CODES_CONNECT.code(status), connect, "{status}");
    }
}

/// tri:118 tri:119: the two columns of the digest, row by row.
#[test]
fn each_code_has_an_http_status_in_each_dialect() {
    let rows = [
        (Code::Ok, 200, 200),
        (Code::Cancelled, 408, 499),
        (Code::Unknown, 500, 500),
        (Code::InvalidArgument, 400, 400),
        (Code::DeadlineExceeded, 408, 504),
        (Code::NotFound, 404, 404),
        (Code::AlreadyExists, 409, 409),
        (Code::PermissionDenied, 403, 403),
        (Code::ResourceExhausted, 429, 429),
        (Code::FailedPrecondition, 412, 400),
        (Code::Aborted, 409, 409),
        (Code::OutOfRange, 400, 400),
        (Code::Unimplemented, 404, 501),
        (Code::Internal, 500, 500),
        (Code::Unavailable, 503, 503),
        (Code::DataLoss, 500, 500),
        (Code::Unauthenticated, 401, 401),
    ];
    for (code, triple, connect) in rows {
        assert_eq!(tables::HTTP_STATUSES_TRIPLE[code as usize], triple, "{code}");
        assert_eq!(tables::HTTP_STATUSES_CONNECT[code as usize], connect, "{code}");
        assert_eq!(tables::HTTP_STATUSES_ENVELOPED[code as usize], 200, "{code}");
    }
}

/// tri:108 tri:109: every way in which a connection ends, and every code of a GOAWAY.
#[test]
fn each_end_of_a_connection_means_a_status() {
    let misbehaved = PeerMisbehaved { code: ErrorCode::PROTOCOL_ERROR, detail: "DATA on stream 0" };
    let rows = [
        (ConnectionError::Shutdown, Code::Unavailable, Origin::Local),
        (ConnectionError::Aborted(ErrorCode::CANCEL), Code::Unavailable, Origin::Local),
        (ConnectionError::Misbehaved(misbehaved), Code::Internal, Origin::Peer),
        (ConnectionError::Transport(TransportError::Reset), Code::Unavailable, Origin::Transport),
        (ConnectionError::Timeout(Timeout::KeepAlive), Code::Unavailable, Origin::Transport),
    ];
    for (error, code, origin) in rows {
        let status = Status::from_connection(&error);
        assert_eq!((status.code(), status.origin()), (code, origin), "{error}");
        assert!(status.message().contains(&error.to_string()));
    }
    for raw in 0..16 {
        let code = ErrorCode(raw);
        let status = Status::from_connection(&ConnectionError::PeerClosed(GoAway { code, debug: Bytes::new() }));
        let expected = if code == ErrorCode::INADEQUATE_SECURITY { Code::PermissionDenied } else { Code::Unavailable };
        assert_eq!((status.code(), status.origin()), (expected, Origin::Peer), "{code}");
    }
}

#[test]
fn each_stream_error_means_a_status() {
    let rows = [
        (StreamError::Reset(ErrorCode::CANCEL), Code::Cancelled, Origin::Peer),
        (StreamError::Deadline, Code::DeadlineExceeded, Origin::Local),
        (StreamError::Cancelled, Code::Cancelled, Origin::Local),
        (StreamError::Connection, Code::Unavailable, Origin::Transport),
    ];
    for (error, code, origin) in rows {
        let status = Status::from(error);
        assert_eq!((status.code(), status.origin()), (code, origin), "{error}");
    }
}
