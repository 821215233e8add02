//! A request that is no call: what of it is kept, and how a response in plain HTTP becomes one that may be sent.

use alloc::sync::Arc;

use bytes::Bytes;

use super::{Accepted, ServerCall};
use crate::call::decimal;
use crate::call::metadata::Metadata;
use crate::call::options::CallLimits;
use crate::call::protocol;
use crate::call::variant::ServiceVariant;
use crate::error::SendError;
use crate::http::{HeaderName, Headers, Method, RequestHead, Response};

impl Accepted {
    /// A request that is taken for no call, whatever its head says. Its body comes in pieces as if they were messages.
    pub fn plain(head: Arc<RequestHead>, limits: &CallLimits) -> Self {
        Self {
            spec: &protocol::PLAIN,
            path: super::accept::path_of(&head),
            authority: head.authority.clone(),
            content_type: Bytes::new(),
            codec: Bytes::new(),
            request_encoding: None,
            response_encoding: None,
            metadata: Metadata::new(),
            variant: ServiceVariant::DEFAULT,
            timeout: None,
            content_length: None,
            fault: None,
            limits: limits.clone(),
            http: Some(head),
        }
    }

    /// The head of a request that is no call; `None` for calls.
    pub const fn http(&self) -> Option<&Arc<RequestHead>> {
        self.http.as_ref()
    }
}

impl ServerCall {
    /// Ends the response with one in plain HTTP, which is all of it, and returns that as it is to be sent: without a body
    /// where there may be none (RFC 9110 §6.4.1), else with its length.
    ///
    /// # Errors
    /// `Sealed` if the response has begun; `Failed` after a reset.
    pub fn finish_plain(&mut self, mut response: Response) -> Result<Response, SendError> {
        self.begin()?;
        self.seal()?;
        let is_head = self.request.http().is_some_and(|head| head.method == Method::Head);
        let has_none = response.head.has_no_body();
        let headers = &mut response.head.headers;
        // A head alone may tell what the length would be; the length of a body is its own.
        if has_none || !is_head || !response.body.is_empty() {
            headers.remove(&HeaderName::CONTENT_LENGTH);
        }
        if !has_none && (!is_head || !response.body.is_empty()) {
            headers.push_field(decimal::field(&HeaderName::CONTENT_LENGTH, response.body.len() as u64).into());
        }
        if has_none || is_head {
            (response.body, response.trailers) = (Bytes::new(), Headers::new());
        }
        Ok(response)
    }
}
