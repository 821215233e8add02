//! A status as a JSON body, the errors of Triple and Connect unary calls: written as dubbo-go and Connect write it, read
//! in every shape that is known to be sent.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;

use super::details::{self, Detail};
use super::json::{self, Kind, Malformed, Reader};
use super::metadata::Metadata;
use super::status::tables::HttpCodes;
use super::status::{Code, Status};
use super::{base64, decimal, percent};

/// `content-type` of a JSON error, whatever the codec of the call.
pub(crate) const CONTENT_TYPE: &str = "application/json";

/// Most octets of a body that is no JSON error that go into a status message.
pub(crate) const MAX_TEXT: usize = 200;

/// What a type in a JSON error lacks to be that of a `google.protobuf.Any`.
const TYPE_PREFIX: &str = "type.googleapis.com/";

/// Numbers from here on are not codes of gRPC but of Dubbo or HTTP.
const MAX_NUMBER: u32 = 20;

/// The body that says `status`; with `number` the code is there as a number too, under `status`.
pub(crate) fn encode(status: &Status, number: bool) -> Bytes {
    let mut out = Vec::with_capacity(64 + status.message().len());
    out.extend_from_slice(b"{\"code\":");
    json::write_string(name(status.code()), &mut out);
    if number {
        out.extend_from_slice(format!(",\"status\":{}", status.code() as u8).as_bytes());
    }
    if !status.message().is_empty() {
        out.extend_from_slice(b",\"message\":");
        json::write_string(status.message(), &mut out);
    }
    let mut separator = &b",\"details\":["[..];
    for detail in details::decode(status.details()) {
        out.extend_from_slice(separator);
        separator = b",";
        let type_url = percent::text(&detail.type_url);
        out.extend_from_slice(b"{\"type\":");
        json::write_string(type_url.strip_prefix(TYPE_PREFIX).unwrap_or(&type_url), &mut out);
        out.extend_from_slice(b",\"value\":\"");
        out.extend_from_slice(&base64::encode(&detail.value));
        out.extend_from_slice(b"\"}");
    }
    if separator == b"," {
        out.push(b']');
    }
    out.push(b'}');
    out.into()
}

/// The status of a response with the HTTP status `http` and this body. Never success; where the body does not name a
/// code, the HTTP status does.
pub(crate) fn decode(body: &[u8], http: u16, codes: HttpCodes, metadata: Metadata) -> Status {
    let Ok(error) = read(body) else {
        return plain(body, http, codes, metadata);
    };
    let raw = error.code.or(error.status).unwrap_or_else(|| codes.code(http) as u32);
    let message = match (error.message, error.code.or(error.status)) {
        (Some(message), _) => Cow::Owned(message),
        (None, Some(_)) => Cow::Borrowed(""),
        (None, None) => Cow::Owned(format!("HTTP status {http}")),
    };
    let details = details::encode(raw, &message, &error.details);
    Status::from_peer(raw, message, details, metadata)
}

/// The status of a response whose body is no JSON error; what it begins with is shown to people.
pub(crate) fn plain(body: &[u8], http: u16, codes: HttpCodes, metadata: Metadata) -> Status {
    let text = percent::text(body.get(..MAX_TEXT).unwrap_or(body).trim_ascii());
    let message = match &*text {
        "" => format!("HTTP status {http}"),
        text => format!("HTTP status {http}: {}", text.escape_debug()),
    };
    Status::from_peer(codes.code(http) as u32, message.into(), Bytes::new(), metadata)
}

/// What was understood of a JSON error.
#[derive(Debug, Default)]
struct Error {
    /// `code`: a name, `code_17`, `"17"`, or a number.
    code: Option<u32>,
    /// `status` as a number. As a string it is an HTTP status, which the response has anyway.
    status: Option<u32>,
    message: Option<String>,
    details: Vec<Detail>,
}

fn read(body: &[u8]) -> Result<Error, Malformed> {
    let mut error = Error::default();
    let mut reader = Reader::new(body);
    reader.object(&mut |key, reader| {
        match (key, reader.kind()) {
            ("code", Kind::String) => error.code = code(&reader.string()?),
            ("code", Kind::Number) => error.code = small(reader.number()?),
            ("status", Kind::Number) => error.status = small(reader.number()?),
            ("message", Kind::String) => error.message = Some(reader.string()?),
            ("details", Kind::Array) => reader.array(&mut |reader| read_detail(reader, &mut error.details))?,
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    reader.end()?;
    Ok(error)
}

/// A detail that cannot be used costs neither the code nor the message nor the other details.
fn read_detail(reader: &mut Reader<'_>, details: &mut Vec<Detail>) -> Result<(), Malformed> {
    if reader.kind() != Kind::Object {
        return reader.skip();
    }
    let (mut kind, mut value) = (None, None);
    reader.object(&mut |key, reader| {
        match (key, reader.kind()) {
            ("type", Kind::String) => kind = Some(reader.string()?),
            ("value", Kind::String) => value = base64::decode(reader.string()?.as_bytes()).ok(),
            _ => reader.skip()?,
        }
        Ok(())
    })?;
    if let (Some(kind), Some(value)) = (kind, value) {
        let type_url = if kind.contains('/') { kind } else { [TYPE_PREFIX, &kind].concat() };
        details.push(Detail { type_url: type_url.into(), value: value.into() });
    }
    Ok(())
}

/// A number that can only be a code of gRPC, and no success.
fn small(number: Option<u32>) -> Option<u32> {
    number.filter(|number| (1..MAX_NUMBER).contains(number))
}

/// A code by its name, or by its number where it has none.
fn code(text: &str) -> Option<u32> {
    let named = Code::ALL.into_iter().skip(1).find(|&code| name(code) == text).map(|code| code as u32);
    let number =
        || decimal::parse_u32(text.strip_prefix("code_").unwrap_or(text).as_bytes()).filter(|&number| number > 0);
    named.or_else(number)
}

/// The name of a code in JSON.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "canceled",
        Code::Unknown => "unknown",
        Code::InvalidArgument => "invalid_argument",
        Code::DeadlineExceeded => "deadline_exceeded",
        Code::NotFound => "not_found",
        Code::AlreadyExists => "already_exists",
        Code::PermissionDenied => "permission_denied",
        Code::ResourceExhausted => "resource_exhausted",
        Code::FailedPrecondition => "failed_precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out_of_range",
        Code::Unimplemented => "unimplemented",
        Code::Internal => "internal",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data_loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests;
