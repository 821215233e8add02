//! A response that lies in memory, all of it.

use bytes::Bytes;

use super::{HeaderName, Headers, ResponseHead, is_valid_value};
use crate::error::SendError;

/// Head, body and trailers of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status and fields. `content-length` need not be among them: where there is a body, it is told by the body.
    pub head: ResponseHead,
    /// Content; not sent where the method or the status forbids it.
    pub body: Bytes,
    /// Fields behind the body; not sent where there may be no body.
    pub trailers: Headers,
}

impl Response {
    /// A response that is a status alone.
    pub const fn from_status(status: u16) -> Self {
        Self { head: ResponseHead { status, headers: Headers::new() }, body: Bytes::new(), trailers: Headers::new() }
    }

    /// Whether it may be sent to a peer that takes field lists of up to `limit` bytes, as
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts them.
    ///
    /// # Errors
    /// `Invalid` if the status is not a final one of three digits (RFC 9110 §15), or a field is not one that an
    /// application may send (RFC 9113 §8.2); `TooLarge`.
    pub fn check(&self, limit: usize) -> Result<(), SendError> {
        if !(200..1000).contains(&self.head.status) {
            return Err(SendError::Invalid("its status is not a final one"));
        }
        for (size, headers) in
            [(self.head.list_size(), &self.head.headers), (self.trailers.list_size(), &self.trailers)]
        {
            if size > limit {
                return Err(SendError::TooLarge { size, limit });
            }
            for field in headers.iter() {
                let name = &field.name;
                if name.is_pseudo() || !name.is_valid() || name.is_connection_specific() || *name == HeaderName::TE {
                    return Err(SendError::Invalid("a name is not one of a response's fields"));
                }
                if !is_valid_value(&field.value) {
                    return Err(SendError::Invalid("a value has octets that are not allowed in fields"));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: HeaderName, value: &'static str) -> Response {
        let mut response = Response::from_status(200);
        response.head.headers.push(name, value);
        response
    }

    /// `h2:V12`
    #[test]
    fn what_an_application_adds_obeys_the_rules_of_fields() {
        assert_eq!(Response::from_status(200).check(100), Ok(()));
        assert_eq!(with(HeaderName::CONTENT_TYPE, "text/plain; charset=utf-8").check(1000), Ok(()));
        for status in [0, 99, 100, 103, 199, 1000] {
            assert!(matches!(Response::from_status(status).check(100), Err(SendError::Invalid(_))), "{status}");
        }
        for response in [
            with(HeaderName::CONNECTION, "close"),
            with(HeaderName::TRANSFER_ENCODING, "chunked"),
            with(HeaderName::TE, "trailers"),
            with(HeaderName::STATUS, "200"),
            with(HeaderName::from_wire(Bytes::from_static(b"Upper")), "x"),
            with(HeaderName::DATE, "a\r\nb: c"),
            with(HeaderName::DATE, " x"),
        ] {
            assert!(matches!(response.check(1000), Err(SendError::Invalid(_))), "{response:?}");
            let Response { head, .. } = response;
            let response = Response { trailers: head.headers, ..Response::from_status(200) };
            assert!(matches!(response.check(1000), Err(SendError::Invalid(_))), "{response:?}");
        }
    }

    /// `h2:N7`
    #[test]
    fn a_head_above_the_limit_is_refused() {
        let response = with(HeaderName::DATE, "x");
        let size = response.head.list_size();
        assert_eq!(response.check(size), Ok(()));
        assert_eq!(response.check(size - 1), Err(SendError::TooLarge { size, limit: size - 1 }));
    }
}
