//! What comes from the server: heads, octets, ends and resets, and the outcome they add up to.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use bytes::{Buf, Bytes};

use super::{ClientCall, State};
use crate::buf::{BufferPool, Landing};
use crate::call::compress::{self, Announced};
use crate::call::envelope::peer_fault;
use crate::call::metadata::Metadata;
use crate::call::protocol::Trailers;
use crate::call::status::{Code, Origin, Status};
use crate::call::{decimal, error_json, percent, prefixed, trailers};
use crate::error::{ErrorCode, SendError, StreamError};
use crate::http::{HeaderName, Headers, ResponseHead};

impl ClientCall {
    /// The final head of the response; `end` if the response ends with it.
    pub fn handle_head(&mut self, head: ResponseHead, end: bool) {
        match (&self.state, self.plan.spec.trailers, end) {
            (State::Done(_), ..) => {}
            (State::AwaitHead, Trailers::HeaderPrefix(prefix), end) => {
                self.begin_whole(head, prefix);
                if end {
                    self.handle_end(None);
                }
            }
            (State::AwaitHead, _, true) => {
                let fallback = self.check_content_type(&head).err();
                self.response = Some(Metadata::new());
                let status =
                    trailers::decode(head.headers).or(fallback).unwrap_or_else(|| self.plain_http(head.status));
                self.end(status);
            }
            (State::AwaitHead, _, false) => self.begin(head),
            (_, _, true) => self.handle_end(Some(head.headers)),
            (_, _, false) => self.give_up(peer_fault("second response head"), ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// The head of a response whose status comes at its end.
    fn begin(&mut self, head: ResponseHead) {
        match self.check_content_type(&head) {
            Ok(()) => {}
            Err(status) if head.status == 200 => return self.give_up(status, ErrorCode::CANCEL),
            Err(status) => {
                self.state = State::NotRpc { status, text: Vec::new() };
                return;
            }
        }
        if let Err(status) = self.read_encoding(&head.headers) {
            return self.give_up(status, ErrorCode::CANCEL);
        }
        let early =
            head.headers.contains(&HeaderName::GRPC_STATUS).then(|| trailers::decode(head.headers.clone())).flatten();
        self.response = Some(Metadata::from_headers(head.headers));
        self.state = State::Body { http: head.status, early };
    }

    /// The head of a response that tells the outcome.
    fn begin_whole(&mut self, head: ResponseHead, prefix: &str) {
        let http = head.status;
        let len = head.headers.get(&HeaderName::CONTENT_LENGTH).and_then(|value| decimal::parse(value));
        let usable = if http == 200 {
            self.check_content_type(&head).and_then(|()| self.read_encoding(&head.headers))
        } else {
            Ok(())
        };
        let (metadata, trailers) = prefixed::decode(head.headers, prefix);
        self.response = Some(metadata);
        self.state = State::Whole { http, trailers };
        if let Err(status) = usable.and_then(|()| len.map_or(Ok(()), |len| self.decoder.expect_len(len))) {
            self.refuse_body(status);
        }
    }

    /// # Errors
    /// The messages are in an encoding that was not offered.
    fn read_encoding(&mut self, headers: &Headers) -> Result<(), Status> {
        let encoding = headers.get(self.plan.spec.encoding).map(|value| &**value);
        match compress::announced(encoding, self.plan.accept_compressions.names()) {
            Announced::Identity => Ok(()),
            Announced::Known(name) => {
                self.decoder.allow_compressed(name);
                Ok(())
            }
            Announced::Unknown => {
                let name = encoding.unwrap_or_default().escape_ascii();
                Err(peer_fault(format!("response in the encoding `{name}`, which was not offered")))
            }
        }
    }

    /// Octets of the response's body, in any split.
    pub fn handle_data(&mut self, data: Bytes) {
        self.handle_data_in(data, &mut Landing::alone(&mut BufferPool::new(0)));
    }

    /// As [`handle_data`](Self::handle_data); `landing` has the memory for a large message.
    pub(crate) fn handle_data_in(&mut self, data: Bytes, landing: &mut Landing<'_>) {
        match &mut self.state {
            State::Done(_) => {}
            State::NotRpc { text, .. } => {
                text.extend_from_slice(&data[..data.len().min(error_json::MAX_TEXT - text.len())]);
                if text.len() == error_json::MAX_TEXT {
                    self.end_plain(Some(ErrorCode::CANCEL));
                }
            }
            State::AwaitHead => self.give_up(peer_fault("data before the response head"), ErrorCode::PROTOCOL_ERROR),
            State::Body { .. } | State::Whole { .. } => {
                let pushed = self.decoder.push(data, landing);
                // The number comes first: how the octets are split must not decide what is wrong with them.
                if self.plan.kind.is_single_response() && self.decoder.begun() > 1 {
                    self.give_up(cardinality("more than one message in a response of one"), ErrorCode::CANCEL);
                } else if let Err(status) = pushed {
                    self.refuse_body(status);
                }
            }
        }
    }

    /// The end of the response: its trailers, or `None` if it ended without.
    pub fn handle_end(&mut self, trailers: Option<Headers>) {
        let (http, early) = match &mut self.state {
            State::Body { http, early } => (*http, early.take()),
            State::Whole { .. } => return self.end_whole(),
            State::NotRpc { .. } => return self.end_plain(None),
            State::AwaitHead => return self.end(peer_fault("the response ended before its head")),
            State::Done(_) => return,
        };
        let status = match trailers {
            Some(trailers) => trailers::decode(trailers).unwrap_or_else(|| self.plain_http(http)),
            None => match early.filter(|_| self.decoder.begun() == 0) {
                Some(status) => status,
                None if http == 200 => peer_fault("the response ended without a status"),
                None => self.plain_http(http),
            },
        };
        self.end(status);
    }

    /// The peer reset the stream. Complete messages of a stream can still be pulled.
    pub fn handle_reset(&mut self, code: ErrorCode) {
        match &self.state {
            State::NotRpc { .. } => self.end_plain(None),
            // The head has told the outcome, and what came of the body may still explain it.
            State::Whole { http, .. } if *http != 200 => self.end_whole(),
            _ => self.close(Status::from_reset(code), SendError::Failed(StreamError::Reset(code))),
        }
    }

    /// Ends the call for a reason outside it: deadline, cancellation, loss of the connection. What was received and
    /// not pulled is dropped.
    pub fn fail(&mut self, status: Status) {
        if matches!(self.state, State::Done(_)) {
            return;
        }
        self.decoder.discard();
        let error = match (status.origin(), status.code()) {
            (Origin::Transport, _) => StreamError::Connection,
            (_, Code::DeadlineExceeded) => StreamError::Deadline,
            _ => StreamError::Cancelled,
        };
        self.close(status, SendError::Failed(error));
    }

    /// The peer ended the response with this status; the messages must fit it.
    fn end(&mut self, status: Status) {
        let status = if !status.is_ok() {
            status
        } else if self.decoder.is_partial() {
            peer_fault("the response ended inside a message")
        } else if self.plan.kind.is_single_response() && self.decoder.begun() == 0 {
            cardinality("no message in a response of one")
        } else {
            status
        };
        self.close(status, SendError::Finished);
    }

    /// Ends a response whose head told the outcome: with its message, or with the error that its body explains.
    fn end_whole(&mut self) {
        let State::Whole { http, trailers } = &mut self.state else { return };
        let (http, trailers) = (*http, mem::take(trailers));
        self.decoder.end();
        if http == 200 {
            return self.end(Status::from_peer(Code::Ok as u32, Cow::Borrowed(""), Bytes::new(), trailers));
        }
        let body = self
            .decoder
            .pull(&mut BufferPool::new(0))
            .map(|mut body| body.copy_to_bytes(body.len()))
            .unwrap_or_default();
        let metadata = self.error_metadata(trailers);
        self.end(error_json::decode(&body, http, self.plan.spec.http_codes, metadata));
    }

    /// The body cannot be taken. That matters for a message; an error is known without the text that explains it.
    fn refuse_body(&mut self, status: Status) {
        let status = match &mut self.state {
            State::Whole { http, trailers } if *http != 200 => {
                let (http, trailers) = (*http, mem::take(trailers));
                let metadata = self.error_metadata(trailers);
                error_json::plain(&[], http, self.plan.spec.http_codes, metadata)
            }
            _ => status,
        };
        self.give_up(status, ErrorCode::CANCEL);
    }

    /// The metadata of an error are fields of the head, as those before a response are.
    fn error_metadata(&self, trailers: Metadata) -> Metadata {
        let mut metadata = self.response.clone().unwrap_or_default();
        metadata.merge(trailers);
        metadata
    }

    /// Ends an answer of plain HTTP, as far as it came.
    fn end_plain(&mut self, reset: Option<ErrorCode>) {
        let State::NotRpc { status, text } = &mut self.state else { return };
        let text = percent::text(text.trim_ascii());
        let mut status = mem::take(status);
        if !text.is_empty() {
            status.append_message(&format!(": {}", text.escape_debug()));
        }
        self.wants_reset = reset;
        self.close(status, SendError::Finished);
    }

    /// The response cannot be used, and the rest of it is not wanted.
    fn give_up(&mut self, status: Status, code: ErrorCode) {
        self.wants_reset = Some(code);
        self.close(status, SendError::Finished);
    }

    fn close(&mut self, status: Status, send: SendError) {
        if matches!(self.state, State::Done(_)) {
            return;
        }
        if self.plan.kind.is_single_response() && !status.is_ok() {
            self.decoder.discard();
        }
        self.send.end(send);
        self.state = State::Done(status);
    }

    /// # Errors
    /// The status that stands for a response whose content type is not what was asked for.
    fn check_content_type(&self, head: &ResponseHead) -> Result<(), Status> {
        // Some servers leave it out of otherwise good responses.
        let Some(content_type) = head.headers.get(&HeaderName::CONTENT_TYPE) else { return Ok(()) };
        match self.plan.spec.codec(content_type) {
            Some(codec) if codec == self.plan.codec || head.status != 200 => Ok(()),
            // A bare type names no codec: some servers answer with it whatever the request's was.
            Some(_) if self.plan.spec.is_bare(content_type) => Ok(()),
            Some(codec) => Err(peer_fault(format!(
                "response in codec `{}` to a request in `{}`",
                codec.escape_ascii(),
                self.plan.codec
            ))),
            None => Err(Status::new(
                self.plan.spec.http_codes.code(head.status),
                format!("HTTP status {} with content-type `{}`", head.status, content_type.escape_ascii()),
            )
            .with_origin(Origin::Peer)),
        }
    }

    /// The status that stands for a response without one.
    fn plain_http(&self, http: u16) -> Status {
        let message = match http {
            200 => Cow::Borrowed("the response has no status"),
            _ => Cow::Owned(format!("HTTP status {http}")),
        };
        Status::new(self.plan.spec.http_codes.code(http), message).with_origin(Origin::Peer)
    }
}

/// The wrong number of messages.
fn cardinality(message: &'static str) -> Status {
    Status::unimplemented(message).with_origin(Origin::Peer)
}
