//! The client's side of a call, as a pure machine: heads, octets and trailers in, messages and a status out.

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use super::Recv;
use super::compress::{self, Announced};
use super::envelope::{Decoder, PREFIX, peer_fault};
use super::metadata::Metadata;
use super::method::{CallKind, MethodSpec};
use super::options::{CallLimits, CallOptions};
use super::percent;
use super::protocol::{Protocol, ProtocolSpec};
use super::send::SendSide;
use super::status::{Code, Origin, Status};
use super::timeout::format_grpc_timeout;
use super::trailers;
use crate::encodings::{Encodings, IDENTITY};
use crate::error::{ErrorCode, OpenError, SendError, StreamError};
use crate::http::{DeadlineField, HeaderName, Headers, Method, RequestHead, ResponseHead};
use crate::time::Instant;

/// `user-agent` of every request.
const USER_AGENT: &str = concat!("trirpc/", env!("CARGO_PKG_VERSION"));

/// The client's side of one call.
///
/// What comes from the peer goes in through the `handle_` methods, in the order in which it came; each does work
/// bounded by what it is given. Once the call has ended they do nothing, so that the first outcome stays.
///
/// ```text
///              handle_head              handle_end
/// AwaitHead ──────────────▶ Body, NotRpc ──────────────▶ Done
///     └─── handle_head(end), handle_reset, fail, fault ───▲
/// ```
#[derive(Debug)]
pub struct ClientCall {
    spec: &'static ProtocolSpec,
    kind: CallKind,
    path: Bytes,
    codec: &'static str,
    compression: Option<&'static str>,
    accept_compressions: Encodings,
    request: Metadata,
    deadline: Option<Instant>,
    send: SendSide,
    state: State,
    response: Option<Metadata>,
    decoder: Decoder,
    wants_reset: Option<ErrorCode>,
}

#[derive(Debug)]
enum State {
    AwaitHead,
    /// The head came, with this HTTP status, and perhaps with an RPC status that counts only if nothing follows.
    Body {
        http: u16,
        early: Option<Status>,
    },
    /// An answer of plain HTTP, not RPC. The beginning of its body is kept, for people.
    NotRpc {
        status: Status,
        text: Vec<u8>,
    },
    Done(Status),
}

/// Most bytes of a plain HTTP body that go into a status message.
const MAX_TEXT: usize = 200;

impl ClientCall {
    /// A call that is yet to be sent; `codec` is the [name](super::Codec::name) of its codec.
    ///
    /// # Errors
    /// The protocol cannot carry calls of this kind.
    pub fn new(
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        limits: CallLimits,
        deadline: Option<Instant>,
    ) -> Result<Self, OpenError> {
        let kind = method.kind();
        let spec = options.protocol.unwrap_or(Protocol::Grpc).spec(kind);
        if !spec.is_carried() {
            return Err(OpenError::Unsupported);
        }
        let compression = options.compression.filter(|name| *name != IDENTITY);
        let single = kind.is_single_request();
        Ok(Self {
            spec,
            kind,
            path: method.path_bytes().clone(),
            codec,
            compression,
            accept_compressions: options.accept_compressions.clone().unwrap_or(limits.accept_compressions),
            request: options.metadata.clone(),
            deadline,
            send: SendSide::new(spec.body, single, limits.max_send_message, compression.is_some()),
            state: State::AwaitHead,
            response: None,
            decoder: Decoder::new(options.max_recv_message.unwrap_or(limits.max_recv_message)),
            wants_reset: None,
        })
    }

    /// The request's head. The deadline is a field of its own, so that it tells what is left when the head leaves.
    pub fn request_head(&self, scheme: Bytes, authority: Bytes) -> RequestHead {
        let mut headers = Headers::with_capacity(6 + self.request.len());
        let (name, value) = self.spec.marker;
        headers.push(name.clone(), value);
        headers.push(HeaderName::CONTENT_TYPE, self.spec.content_type(self.codec));
        if let Some(name) = self.compression {
            headers.push(self.spec.encoding.clone(), name);
        }
        if !self.accept_compressions.is_empty() {
            headers.push(self.spec.accept_encoding.clone(), self.accept_compressions.header());
        }
        headers.push(HeaderName::USER_AGENT, USER_AGENT);
        headers.extend(self.request.as_headers().iter().cloned());
        let deadline =
            self.deadline.map(|at| DeadlineField { at, name: self.spec.timeout, format: format_grpc_timeout });
        RequestHead { method: Method::Post, scheme, authority, path: self.path.clone(), headers, deadline }
    }

    /// Accounts for one message of `len` bytes and returns its prefix, if the protocol has one.
    ///
    /// # Errors
    /// `TooLarge`; `Sealed` after [`finish`](Self::finish) and for a second message where there is only one;
    /// `Finished` or `Failed` after the end of the call; `Codec` for a compressed message on a call without
    /// compression. Nothing is to be sent then.
    pub fn envelope(&mut self, len: usize, compressed: bool) -> Result<Option<[u8; PREFIX]>, SendError> {
        self.send.envelope(len, compressed)
    }

    /// Ends the request; a second time changes nothing.
    ///
    /// # Errors
    /// `Finished` or `Failed` after the end of the call.
    pub fn finish(&mut self) -> Result<(), SendError> {
        self.send.seal()
    }

    /// Whether nothing may be sent any more.
    pub fn is_send_finished(&self) -> bool {
        self.send.is_finished()
    }

    /// Why nothing more can be sent, if the call has ended.
    pub fn send_error(&self) -> Option<SendError> {
        self.send.error()
    }

    /// The final head of the response; `end` if the response ends with it.
    pub fn handle_head(&mut self, head: ResponseHead, end: bool) {
        match (&self.state, end) {
            (State::Done(_), _) => {}
            (State::AwaitHead, true) => {
                let fallback = self.check_content_type(&head).err();
                self.response = Some(Metadata::new());
                let status =
                    trailers::decode(head.headers).or(fallback).unwrap_or_else(|| self.plain_http(head.status));
                self.end(status);
            }
            (State::Body { .. } | State::NotRpc { .. }, true) => self.handle_end(Some(head.headers)),
            (State::AwaitHead, false) => self.begin(head),
            (State::Body { .. } | State::NotRpc { .. }, false) => {
                self.give_up(peer_fault("second response head"), ErrorCode::PROTOCOL_ERROR);
            }
        }
    }

    fn begin(&mut self, head: ResponseHead) {
        match self.check_content_type(&head) {
            Ok(()) => {}
            Err(status) if head.status == 200 => return self.give_up(status, ErrorCode::CANCEL),
            Err(status) => {
                self.state = State::NotRpc { status, text: Vec::new() };
                return;
            }
        }
        let encoding = head.headers.get(self.spec.encoding).map(|value| &**value);
        match compress::announced(encoding, self.accept_compressions.names()) {
            Announced::Identity => {}
            Announced::Known(name) => self.decoder.allow_compressed(name),
            Announced::Unknown => {
                let name = encoding.unwrap_or_default().escape_ascii();
                let status = peer_fault(format!("response in the encoding `{name}`, which was not offered"));
                return self.give_up(status, ErrorCode::CANCEL);
            }
        }
        let early =
            head.headers.contains(&HeaderName::GRPC_STATUS).then(|| trailers::decode(head.headers.clone())).flatten();
        self.response = Some(Metadata::from_headers(head.headers));
        self.state = State::Body { http: head.status, early };
    }

    /// Octets of the response's body, in any split.
    pub fn handle_data(&mut self, data: Bytes) {
        match &mut self.state {
            State::Done(_) => {}
            State::NotRpc { text, .. } => {
                text.extend_from_slice(&data[..data.len().min(MAX_TEXT - text.len())]);
                if text.len() == MAX_TEXT {
                    self.end_plain(Some(ErrorCode::CANCEL));
                }
            }
            State::AwaitHead => self.give_up(peer_fault("data before the response head"), ErrorCode::PROTOCOL_ERROR),
            State::Body { .. } => {
                if let Err(status) = self.decoder.push(data) {
                    self.give_up(status, ErrorCode::CANCEL);
                } else if self.kind.is_single_response() && self.decoder.begun() > 1 {
                    self.give_up(cardinality("more than one message in a response of one"), ErrorCode::CANCEL);
                }
            }
        }
    }

    /// The end of the response: its trailers, or `None` if it ended without.
    pub fn handle_end(&mut self, trailers: Option<Headers>) {
        let (http, early) = match &mut self.state {
            State::Body { http, early } => (*http, early.take()),
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
        if matches!(self.state, State::NotRpc { .. }) {
            return self.end_plain(None);
        }
        self.close(Status::from_reset(code), SendError::Failed(StreamError::Reset(code)));
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

    /// The next message. For a single response, `Blocked` until the outcome of the call is known, and `End` at once
    /// if that is an error.
    pub fn recv(&mut self) -> Recv {
        if !self.is_readable() {
            return Recv::Blocked;
        }
        self.decoder.pull().map_or(Recv::End, Recv::Message)
    }

    /// Whether [`recv`](Self::recv) would return something other than `Blocked`.
    pub fn is_readable(&self) -> bool {
        self.status().is_some() || (!self.kind.is_single_response() && self.decoder.is_ready())
    }

    /// Bytes still missing of the message at the front, once its length is known: for window reservations.
    pub fn need(&self) -> usize {
        self.decoder.need()
    }

    /// Bytes received and neither pulled nor dropped, prefixes included. What `handle_data` was given and does not
    /// show here was dropped.
    pub fn buffered(&self) -> usize {
        self.decoder.buffered()
    }

    /// Metadata of the response's head, once it came; for unary calls, once the outcome is known.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.response.as_ref().filter(|_| self.kind != CallKind::Unary || self.status().is_some())
    }

    /// The outcome with the trailers, once it is known; messages may still wait to be pulled.
    pub fn status(&self) -> Option<&Status> {
        match &self.state {
            State::Done(status) => Some(status),
            State::AwaitHead | State::Body { .. } | State::NotRpc { .. } => None,
        }
    }

    /// The code with which the stream is to be reset, after the machine gave up on the response.
    pub fn wants_reset(&self) -> Option<ErrorCode> {
        self.wants_reset
    }

    /// Number of messages each way.
    pub fn kind(&self) -> CallKind {
        self.kind
    }

    /// When the call ends at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// The peer ended the response with this status; the messages must fit it.
    fn end(&mut self, status: Status) {
        let status = if !status.is_ok() {
            status
        } else if self.decoder.is_partial() {
            peer_fault("the response ended inside a message")
        } else if self.kind.is_single_response() && self.decoder.begun() == 0 {
            cardinality("no message in a response of one")
        } else {
            status
        };
        self.close(status, SendError::Finished);
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
        if self.kind.is_single_response() && !status.is_ok() {
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
        match self.spec.codec(content_type) {
            Some(codec) if codec == self.codec || head.status != 200 => Ok(()),
            // A bare type names no codec: some servers answer with it whatever the request's was.
            Some(_) if self.spec.is_bare(content_type) => Ok(()),
            Some(codec) => Err(peer_fault(format!(
                "response in codec `{}` to a request in `{}`",
                codec.escape_ascii(),
                self.codec
            ))),
            None => Err(Status::new(
                self.spec.http_codes.code(head.status),
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
        Status::new(self.spec.http_codes.code(http), message).with_origin(Origin::Peer)
    }
}

/// The wrong number of messages.
fn cardinality(message: &'static str) -> Status {
    Status::unimplemented(message).with_origin(Origin::Peer)
}

#[cfg(test)]
mod tests;
