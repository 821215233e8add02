//! What a code is called by HTTP, and what code an HTTP status, a reset or a GOAWAY stands for.

use super::Code;
use crate::error::ErrorCode;

/// HTTP status of each code, by its number.
pub(crate) type HttpStatuses = [u16; 17];

/// Enveloped dialects carry every status in trailers of a 200 response.
pub(crate) const HTTP_STATUSES_ENVELOPED: HttpStatuses = [200; 17];
/// dubbo-go's column of the bare dialects.
pub(crate) const HTTP_STATUSES_TRIPLE: HttpStatuses =
    [200, 408, 500, 400, 408, 404, 409, 403, 429, 412, 409, 400, 404, 500, 503, 500, 401];
/// Connect's column.
pub(crate) const HTTP_STATUSES_CONNECT: HttpStatuses =
    [200, 499, 500, 400, 504, 404, 409, 403, 429, 400, 409, 400, 501, 500, 503, 500, 401];

/// What code stands for an HTTP status without an RPC status; statuses not listed are `Unknown`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HttpCodes {
    /// Status 100 to 199, which cannot end a response.
    informational: Code,
    listed: &'static [(u16, Code)],
}

impl HttpCodes {
    pub(crate) fn code(self, status: u16) -> Code {
        match status {
            100..=199 => self.informational,
            _ => self.listed.iter().find(|row| row.0 == status).map_or(Code::Unknown, |row| row.1),
        }
    }
}

/// gRPC's "HTTP to gRPC status code mapping".
pub(crate) const HTTP_CODES_GRPC: HttpCodes = HttpCodes {
    informational: Code::Internal,
    listed: &[
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (431, Code::Internal),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
    ],
};

/// dubbo-go's column of Triple unary.
pub(crate) const HTTP_CODES_TRIPLE: HttpCodes = HttpCodes {
    informational: Code::Unknown,
    listed: &[
        (400, Code::InvalidArgument),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (408, Code::DeadlineExceeded),
        (412, Code::FailedPrecondition),
        (413, Code::ResourceExhausted),
        (429, Code::Unavailable),
        (431, Code::ResourceExhausted),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
    ],
};

/// Connect's column.
pub(crate) const HTTP_CODES_CONNECT: HttpCodes = HttpCodes {
    informational: Code::Unknown,
    listed: &[
        (400, Code::Internal),
        (401, Code::Unauthenticated),
        (403, Code::PermissionDenied),
        (404, Code::Unimplemented),
        (429, Code::Unavailable),
        (502, Code::Unavailable),
        (503, Code::Unavailable),
        (504, Code::Unavailable),
    ],
};

/// What the peer means by resetting the stream of a call that has no status yet; codes not listed are `Unknown`.
pub(crate) fn reset_code(code: ErrorCode) -> Code {
    RESETS.iter().find(|row| row.0 == code).map_or(Code::Unknown, |row| row.1)
}

const RESETS: [(ErrorCode, Code); 14] = [
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
];

/// What a GOAWAY means for the calls it cuts off. It is about the connection, not the call, so that another
/// connection may do: `Unavailable`, but for security, which will be no better there.
pub(crate) fn go_away_code(code: ErrorCode) -> Code {
    if code == ErrorCode::INADEQUATE_SECURITY { Code::PermissionDenied } else { Code::Unavailable }
}
