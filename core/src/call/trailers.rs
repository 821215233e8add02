//! A status as header fields: `grpc-status`, `grpc-message` and `grpc-status-details-bin`
//! (gRPC over HTTP/2, "Responses").

use alloc::borrow::Cow;

use bytes::Bytes;

use super::metadata::Metadata;
use super::status::{Code, Status};
use super::{base64, decimal, percent};
use crate::http::{HeaderName, Headers};

/// Longest `grpc-message` we send, in bytes; the rest is cut off. Many peers take header lists of 8 KiB only.
const MAX_MESSAGE: usize = 1024;
/// Largest details we send, in bytes before base64; larger ones are left out.
const MAX_DETAILS: usize = 4096;

/// Reads the status out of `headers`, and what else is in them as its metadata; `None` if there is no status.
///
/// Any number is a status. What explains it cannot make it fail: a malformed message is read as far as it goes,
/// malformed details are dropped.
pub(crate) fn decode(headers: Headers) -> Option<Status> {
    let raw = headers.get(&HeaderName::GRPC_STATUS)?;
    let raw = decimal::parse_u32(raw.trim_ascii()).unwrap_or(Code::Unknown as u32);
    let message = match headers.get(&HeaderName::GRPC_MESSAGE) {
        // Some peers send a message with success; it means nothing.
        Some(value) if raw != 0 => Cow::Owned(percent::decode(value)),
        _ => Cow::Borrowed(""),
    };
    let details = match headers.get(&HeaderName::GRPC_STATUS_DETAILS_BIN) {
        Some(value) if raw != 0 => base64::decode(value.trim_ascii()).unwrap_or_default().into(),
        _ => Bytes::new(),
    };
    Some(Status::from_peer(raw, message, details, Metadata::from_headers(headers)))
}

/// Appends `status` and its metadata.
pub(crate) fn encode(status: &Status, headers: &mut Headers) {
    // An unregistered number is another protocol's business; it is passed on as the code that stands for it.
    headers.push(HeaderName::GRPC_STATUS, digits(status.code()));
    if !status.is_ok() {
        if !status.message().is_empty() {
            headers.push(HeaderName::GRPC_MESSAGE, percent::encode(status.message(), MAX_MESSAGE));
        }
        if !status.details().is_empty() && status.details().len() <= MAX_DETAILS {
            headers.push(HeaderName::GRPC_STATUS_DETAILS_BIN, base64::encode(status.details()));
        }
    }
    headers.extend(status.metadata().as_headers().iter().cloned());
}

#[expect(clippy::indexing_slicing, reason = "digits for every code")]
fn digits(code: Code) -> &'static str {
    const DIGITS: [&str; 17] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];
    DIGITS[code as usize]
}

#[cfg(test)]
mod tests;
