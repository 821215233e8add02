//! What goes to the client: a head, messages, and the outcome, in the order of the dialect.

use bytes::Bytes;

use super::ServerCall;
use crate::call::envelope::PREFIX;
use crate::call::metadata::Metadata;
use crate::call::method::CallKind;
use crate::call::protocol::{ErrorForm, Trailers};
use crate::call::status::Status;
use crate::call::{decimal, error_json, prefixed, trailers};
use crate::error::SendError;
use crate::http::{HeaderName, Headers, ResponseHead};

/// The end of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing had been sent: this is all of the response. With an empty body the head ends it.
    Whole {
        /// The head, with `content-length` where there may be a body.
        head: ResponseHead,
        /// The message, or what explains an error.
        body: Bytes,
    },
    /// Trailers behind what had been sent.
    Trailers(Headers),
}

impl End {
    /// Size of the field list, as [`ResponseHead::list_size`] counts it.
    fn list_size(&self) -> usize {
        match self {
            Self::Whole { head, .. } => head.list_size(),
            Self::Trailers(headers) => headers.list_size(),
        }
    }
}

impl ServerCall {
    /// The response's head; `None` in a dialect whose head tells the outcome: it is kept until then.
    ///
    /// # Errors
    /// `Sealed` if it was sent already, or the call is finished; `Failed` after a reset.
    pub fn head(&mut self, metadata: &Metadata) -> Result<Option<ResponseHead>, SendError> {
        self.head_in(&mut Headers::new(), metadata)
    }

    /// [`head`](Self::head) in a list that is empty and brings its memory; it is taken if there is a head.
    pub(crate) fn head_in(
        &mut self,
        fields: &mut Headers,
        metadata: &Metadata,
    ) -> Result<Option<ResponseHead>, SendError> {
        self.send.check()?;
        if self.is_head_sent {
            return Err(SendError::Sealed);
        }
        self.is_head_sent = true;
        if self.keeps_response() {
            if !metadata.is_empty() {
                self.kept.get_or_insert_default().metadata = metadata.clone();
            }
            return Ok(None);
        }
        let fields = core::mem::take(fields);
        let mut head = self.bare_head(fields, self.request.spec.http_statuses[0], self.request.content_type.clone());
        self.announce_encoding(&mut head.headers);
        head.headers.extend(metadata.as_headers().iter().cloned());
        Ok(Some(head))
    }

    /// Whether [`head`](Self::head) was called.
    pub fn is_head_sent(&self) -> bool {
        self.is_head_sent
    }

    /// Accounts for one message of `len` bytes and returns its prefix, if the protocol has one. The message itself goes
    /// through [`keep`](Self::keep).
    ///
    /// # Errors
    /// `NoHead` before [`head`](Self::head); `TooLarge`; `Sealed` after [`finish`](Self::finish) and for a second
    /// message where there is only one; `Failed` after a reset; `Codec` for a compressed message on a response
    /// without encoding. Nothing is to be sent then.
    pub fn envelope(&mut self, len: usize, compressed: bool) -> Result<Option<[u8; PREFIX]>, SendError> {
        self.send.check()?;
        if !self.is_head_sent {
            return Err(SendError::NoHead);
        }
        self.send.envelope(len, compressed)
    }

    /// The message of the last [`envelope`](Self::envelope), if it is to be sent now; `None` in a dialect whose head
    /// tells the outcome: it comes out of [`finish`](Self::finish).
    pub fn keep(&mut self, message: Bytes) -> Option<Bytes> {
        if !self.keeps_response() {
            return Some(message);
        }
        self.kept.get_or_insert_default().message = message;
        None
    }

    /// Ends the response. `status` and `trailers` both give trailers; success without the one message that a single
    /// response needs is answered as `Internal`. Where the client takes no field list larger than `limit`, in bytes as
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts them, the outcome is that, for a reset would lose it altogether.
    ///
    /// # Errors
    /// `Sealed` the second time; `Failed` after a reset.
    pub fn finish(&mut self, status: &Status, trailers: &Metadata, limit: usize) -> Result<End, SendError> {
        self.finish_in(Headers::new(), status, trailers, limit)
    }

    /// [`finish`](Self::finish) in a list that is empty and brings its memory. A message that was announced and not
    /// [kept](Self::keep) is still to be sent, behind a head that tells its length.
    pub(crate) fn finish_in(
        &mut self,
        fields: Headers,
        status: &Status,
        trailers: &Metadata,
        limit: usize,
    ) -> Result<End, SendError> {
        self.send.check()?;
        self.send.seal()?;
        self.decoder.discard();
        let kept = self.kept.take().map(|kept| *kept).unwrap_or_default();
        let lacks_message = self.kind.is_some_and(CallKind::is_single_response) && self.send.sent() == 0;
        let missing = (status.is_ok() && lacks_message).then(|| Status::internal("the handler sent no response"));
        let status = missing.as_ref().unwrap_or(status);
        let end = self.end(fields, status, &kept.metadata, kept.message, trailers);
        if end.list_size() <= limit {
            return Ok(end);
        }
        let text = alloc::format!("response trailers exceed the limit of {limit} bytes");
        let (status, none) = (Status::resource_exhausted(text), Metadata::new());
        Ok(self.end(Headers::new(), &status, &none, Bytes::new(), &none))
    }

    fn end(&self, fields: Headers, status: &Status, metadata: &Metadata, message: Bytes, trailers: &Metadata) -> End {
        if let Some(head) = &self.refusal {
            return End::Whole { head: (**head).clone(), body: Bytes::new() };
        }
        match (self.request.spec.trailers, self.request.spec.error) {
            (Trailers::HeaderPrefix(prefix), ErrorForm::HttpJson { number }) => {
                let (head, body) = self.whole(fields, status, metadata, message, trailers, (prefix, number));
                End::Whole { head, body }
            }
            _ if self.is_head_sent => {
                let mut headers = fields;
                encode_trailers(status, trailers, &mut headers);
                End::Trailers(headers)
            }
            _ => {
                let mut head =
                    self.bare_head(fields, self.request.spec.http_statuses[0], self.request.content_type.clone());
                encode_trailers(status, trailers, &mut head.headers);
                End::Whole { head, body: Bytes::new() }
            }
        }
    }

    /// A response whose head tells the outcome.
    fn whole(
        &self,
        fields: Headers,
        status: &Status,
        metadata: &Metadata,
        message: Bytes,
        trailers: &Metadata,
        (prefix, number): (&str, bool),
    ) -> (ResponseHead, Bytes) {
        let http = self.request.spec.http_statuses[status.code() as usize];
        let (mut head, body) = if status.is_ok() {
            (self.bare_head(fields, http, self.request.content_type.clone()), message)
        } else {
            let json = Bytes::from_static(error_json::CONTENT_TYPE.as_bytes());
            (self.bare_head(fields, http, json), error_json::encode(status, number))
        };
        head.headers.extend(metadata.as_headers().iter().cloned());
        if status.is_ok() {
            self.announce_encoding(&mut head.headers);
            prefixed::encode(status.metadata(), prefix, &mut head.headers);
        } else {
            // The metadata of an error are fields of the head.
            head.headers.extend(status.metadata().as_headers().iter().cloned());
        }
        prefixed::encode(trailers, prefix, &mut head.headers);
        let len = self.send.body_len().filter(|_| status.is_ok()).unwrap_or(body.len());
        head.headers.push(HeaderName::CONTENT_LENGTH, decimal::text(len as u64));
        (head, body)
    }

    /// Whether the response leaves as a whole, with its outcome in front.
    pub(crate) fn keeps_response(&self) -> bool {
        matches!(self.request.spec.trailers, Trailers::HeaderPrefix(_))
    }

    /// What every response of this call begins with.
    fn bare_head(&self, mut headers: Headers, status: u16, content_type: Bytes) -> ResponseHead {
        headers.push(HeaderName::CONTENT_TYPE, content_type);
        let inflates = self.request.accept_compressions();
        if !inflates.is_empty() {
            headers.push(self.request.spec.accept_encoding.clone(), inflates.header());
        }
        ResponseHead { status, headers }
    }

    fn announce_encoding(&self, headers: &mut Headers) {
        if let Some(name) = self.request.response_encoding().filter(|_| self.send.announces_encoding()) {
            headers.push(self.request.spec.encoding.clone(), name);
        }
    }
}

fn encode_trailers(status: &Status, trailers: &Metadata, headers: &mut Headers) {
    trailers::encode(status, headers);
    headers.extend(trailers.as_headers().iter().cloned());
}
