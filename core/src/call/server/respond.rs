//! What goes to the client: a head, messages, and the outcome, in the order of the dialect.

use bytes::Bytes;

use super::{Accepted, ServerCall, State};
use crate::call::envelope::PREFIX;
use crate::call::metadata::Metadata;
use crate::call::method::CallKind;
use crate::call::protocol::{Body, ErrorForm, ProtocolSpec, Trailers};
use crate::call::status::Status;
use crate::call::{decimal, error_json, prefixed, trailers};
use crate::error::SendError;
use crate::http::{Field, HeaderName, Headers, ResponseHead, Rest};

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
        self.begin()?;
        if self.keeps_response() {
            if !metadata.is_empty() {
                self.kept.get_or_insert_default().metadata = metadata.clone();
            }
            return Ok(None);
        }
        let mut head = self.request.message_head(self.request.content_type.clone());
        head.headers.extend(metadata.as_headers().iter().cloned());
        Ok(Some(head))
    }

    /// The response begins, which it does once.
    ///
    /// # Errors
    /// As [`head`](Self::head).
    pub(crate) fn begin(&mut self) -> Result<(), SendError> {
        self.send.check()?;
        if self.is_head_sent {
            return Err(SendError::Sealed);
        }
        self.is_head_sent = true;
        Ok(())
    }

    /// Whether a message of `len` bytes can be all of the response, and its only one; should it fail, there has to be a
    /// way to tell.
    pub(crate) fn is_response_due(&self, len: usize) -> bool {
        // Where the head tells the outcome and is all of the response, nothing could revoke it any more.
        let is_revocable = len > 0 || !self.keeps_response();
        self.kind == Some(CallKind::Unary)
            && !self.is_head_sent
            && is_revocable
            && self.failure().is_none()
            && !self.send.is_finished()
    }

    /// Begins a response that [is due](Self::is_response_due) with its only message, of `len` bytes, and returns its
    /// prefix: as [`begin`](Self::begin) and [`envelope`](Self::envelope) do, and [`seal`](Self::seal) where the head
    /// tells the outcome.
    #[inline]
    pub(crate) fn begin_with(&mut self, len: usize) -> Option<[u8; PREFIX]> {
        debug_assert!(self.is_response_due(len));
        self.is_head_sent = true;
        let prefix = self.send.send_only(len);
        if self.keeps_response() {
            // It is open, or nothing would be due.
            let _ = self.seal();
        }
        prefix
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
        self.seal()?;
        let kept = self.kept.take().map(|kept| *kept).unwrap_or_default();
        let lacks_message = self.kind.is_some_and(CallKind::is_single_response) && !self.send.has_sent();
        let missing = (status.is_ok() && lacks_message).then(|| Status::internal("the handler sent no response"));
        let status = missing.as_ref().unwrap_or(status);
        let end = self.end(status, &kept.metadata, kept.message, trailers);
        if end.list_size() <= limit {
            return Ok(end);
        }
        let text = alloc::format!("response trailers exceed the limit of {limit} bytes");
        let (status, none) = (Status::resource_exhausted(text), Metadata::new());
        Ok(self.end(&status, &none, Bytes::new(), &none))
    }

    /// The response ends, which it does once; the request is of no interest any more.
    ///
    /// # Errors
    /// As [`finish`](Self::finish).
    pub(crate) fn seal(&mut self) -> Result<(), SendError> {
        self.send.check()?;
        self.send.seal()?;
        self.decoder.discard();
        Ok(())
    }

    fn end(&self, status: &Status, metadata: &Metadata, message: Bytes, trailers: &Metadata) -> End {
        if let State::Refused(refusal) = &self.state {
            return End::Whole { head: refusal.head.clone(), body: Bytes::new() };
        }
        match (self.request.spec.trailers, self.request.spec.error) {
            (Trailers::HeaderPrefix(prefix), ErrorForm::HttpJson { number }) => {
                let (head, body) = self.whole(status, metadata, message, trailers, (prefix, number));
                End::Whole { head, body }
            }
            (_, ErrorForm::HttpStatus) => {
                let head = ResponseHead { status: self.request.http_status(status), headers: Headers::new() };
                End::Whole { head, body: Bytes::new() }
            }
            _ if self.is_head_sent => {
                let mut headers = Headers::new();
                encode_trailers(status, trailers, &mut headers);
                End::Trailers(headers)
            }
            _ => {
                let mut head = self.request.response_head();
                encode_trailers(status, trailers, &mut head.headers);
                End::Whole { head, body: Bytes::new() }
            }
        }
    }

    /// A response whose head tells the outcome.
    fn whole(
        &self,
        status: &Status,
        metadata: &Metadata,
        message: Bytes,
        trailers: &Metadata,
        (prefix, number): (&str, bool),
    ) -> (ResponseHead, Bytes) {
        if status.is_ok() {
            // A message that was not kept follows: only its length is known here.
            let mut head = self.request.message_head(self.request.content_type.clone());
            let mut own = Headers::new();
            self.whole_rest(metadata, [status.metadata(), trailers], prefix, &mut own).append_to(&mut head.headers);
            return (head, message);
        }
        let http = self.request.http_status(status);
        let json = Bytes::from_static(error_json::CONTENT_TYPE.as_bytes());
        let (mut head, body) = (self.request.bare_head(http, json), error_json::encode(status, number));
        // The metadata of an error are fields of the head.
        for metadata in [metadata, status.metadata()] {
            head.headers.extend(metadata.as_headers().iter().cloned());
        }
        prefixed::encode(trailers, prefix, &mut head.headers);
        head.headers.extend([decimal::field(&HeaderName::CONTENT_LENGTH, body.len() as u64).into()]);
        (head, body)
    }

    /// What is in the head of success beside [`Accepted::message_head`], in a dialect whose head tells the outcome, once
    /// nothing can be added; `own` lends memory.
    fn whole_rest<'a>(
        &self,
        metadata: &'a Metadata,
        trailers: [&Metadata; 2],
        prefix: &str,
        own: &'a mut Headers,
    ) -> Rest<'a> {
        let encoding = self.request.response_encoding().filter(|_| self.send.announces_encoding());
        let is_plain = encoding.is_none() && trailers.iter().all(|trailers| trailers.is_empty());
        let fields = if is_plain {
            metadata.as_headers()
        } else {
            own.clear();
            own.extend(metadata.as_headers().iter().cloned());
            own.extend(encoding.map(|name| Field::new(self.request.spec.encoding.clone(), name)));
            trailers.iter().for_each(|trailers| prefixed::encode(trailers, prefix, own));
            own
        };
        let len = self.send.body_len().unwrap_or_default();
        Rest { fields, last: Some(decimal::field(&HeaderName::CONTENT_LENGTH, len as u64)), ..Rest::NONE }
    }

    /// What the head of plain success holds beside [`Accepted::message_head`]. In a dialect whose head tells the outcome
    /// that is for when nothing can be added any more; `own` lends memory.
    #[inline]
    pub(crate) fn success_rest<'a>(
        &self,
        metadata: &'a Metadata,
        trailers: &Metadata,
        own: &'a mut Headers,
    ) -> Rest<'a> {
        match self.request.spec.trailers {
            Trailers::HeaderPrefix(prefix) => self.whole_rest(metadata, [Status::OK.metadata(), trailers], prefix, own),
            Trailers::Http | Trailers::Envelope(_) => Rest { fields: metadata.as_headers(), ..Rest::NONE },
        }
    }

    /// Most by which a field list of a response with success exceeds the fields that every response has, as
    /// SETTINGS_MAX_HEADER_LIST_SIZE counts it.
    pub(crate) fn max_own_list_size(&self, metadata: &Metadata, trailers: &Metadata) -> usize {
        let prefix = match self.request.spec.trailers {
            Trailers::HeaderPrefix(prefix) => prefix.len() * trailers.len(),
            Trailers::Http | Trailers::Envelope(_) => 0,
        };
        let accept: usize = self.request.limits.accept_compressions.names().iter().map(|name| name.len() + 1).sum();
        let values = self.request.content_type.len() + accept;
        values + metadata.as_headers().list_size() + prefix + trailers.as_headers().list_size()
    }

    /// Whether the response leaves as a whole, with its outcome in front.
    pub(crate) fn keeps_response(&self) -> bool {
        matches!(self.request.spec.trailers, Trailers::HeaderPrefix(_))
    }
}

impl Accepted {
    #[expect(clippy::indexing_slicing, reason = "a status for every code")]
    fn http_status(&self, status: &Status) -> u16 {
        self.spec.http_statuses[status.code() as usize]
    }

    /// What every response begins with, unless it is an error of HTTP's.
    fn response_head(&self) -> ResponseHead {
        self.bare_head(self.spec.http_statuses[0], self.content_type.clone())
    }

    /// What a response with messages begins with, where none of them waits for the outcome: then the head names the
    /// encoding that any of them may have.
    fn message_head(&self, content_type: Bytes) -> ResponseHead {
        let mut head = self.bare_head(self.spec.http_statuses[0], content_type);
        if self.spec.body == Body::Envelopes {
            head.headers.extend(self.response_encoding.map(|name| Field::new(self.spec.encoding.clone(), name)));
        }
        head
    }

    fn bare_head(&self, status: u16, content_type: Bytes) -> ResponseHead {
        let mut headers = Headers::with_capacity(4);
        headers.push(HeaderName::CONTENT_TYPE, content_type);
        let inflates = &self.limits.accept_compressions;
        if !inflates.is_empty() {
            headers.push(self.spec.accept_encoding.clone(), inflates.header());
        }
        ResponseHead { status, headers }
    }
}

/// What the responses to many requests begin with.
#[derive(Debug)]
pub(crate) struct ResponseKind {
    spec: &'static ProtocolSpec,
    content_type: Bytes,
    encoding: Option<&'static str>,
}

impl ResponseKind {
    /// Longest content type of a request whose responses are of a kind, in bytes; ours are shorter.
    const MAX_CONTENT_TYPE: usize = 128;

    /// Whether the response to `request` is of any kind.
    pub(crate) fn exists_for(request: &Accepted) -> bool {
        request.content_type.len() <= Self::MAX_CONTENT_TYPE
    }

    /// The kind of the response to `request`, and what it begins with. Neither shares memory with the request.
    pub(crate) fn of(request: &Accepted) -> (Self, ResponseHead) {
        let content_type = Bytes::copy_from_slice(&request.content_type);
        let head = request.message_head(content_type.clone());
        (Self { spec: request.spec, content_type, encoding: request.response_encoding }, head)
    }

    /// Whether the response to `request` begins so, on a connection whose limits are the same.
    pub(crate) fn is_for(&self, request: &Accepted) -> bool {
        core::ptr::eq(self.spec, request.spec)
            && self.content_type == request.content_type
            && self.encoding == request.response_encoding
    }
}

/// Trailers of success without any metadata.
pub(crate) fn success_trailers() -> Headers {
    let mut headers = Headers::with_capacity(1);
    trailers::encode(&Status::OK, &mut headers);
    headers
}

fn encode_trailers(status: &Status, trailers: &Metadata, headers: &mut Headers) {
    trailers::encode(status, headers);
    headers.extend(trailers.as_headers().iter().cloned());
}
