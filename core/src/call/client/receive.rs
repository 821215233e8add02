//! What comes from the server: heads, octets, ends and resets, and the outcome they add up to.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::ops::RangeInclusive;

use bytes::{Buf, Bytes, BytesMut};

use super::reply::Reply;
use super::{ClientCall, Head, NotRpc, State};
use crate::buf::{BufferPool, Landing, LentMemory};
use crate::call::envelope::peer_fault;
use crate::call::protocol::Trailers;
use crate::call::status::{Code, Origin, Status};
use crate::call::{error_json, percent, trailers};
use crate::error::{ErrorCode, SendError, StreamError};
use crate::http::{Headers, ResponseHead};

impl ClientCall {
    /// The final head of the response; `end` if the response ends with it.
    pub fn handle_head(&mut self, head: ResponseHead, end: bool) {
        match (&self.state, self.plan.spec.trailers, end) {
            (State::Done(_), ..) => {}
            (State::AwaitHead, Trailers::HeaderPrefix(_), _) | (State::AwaitHead, _, false) => {
                let reply = Arc::new(self.plan.read(head));
                self.handle_reply(reply, end);
            }
            (State::AwaitHead, _, true) => {
                let fallback = self.plan.check_content_type(&head).err();
                self.head = Head::Outcome;
                let status =
                    trailers::decode(head.headers).or(fallback).unwrap_or_else(|| self.plain_http(head.status));
                self.end(status);
            }
            (_, _, true) => self.handle_end(Some(head.headers)),
            (_, _, false) => self.give_up(peer_fault("second response head"), ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// Whether [`handle_reply`](Self::handle_reply) does for a head: it is the first one, and more than the outcome.
    pub(crate) fn awaits_reply(&self, end: bool) -> bool {
        let is_whole = matches!(self.plan.spec.trailers, Trailers::HeaderPrefix(_));
        matches!(self.state, State::AwaitHead) && (is_whole || !end)
    }

    /// [`handle_head`](Self::handle_head) with what the [plan](Self::plan) reads out of the head.
    pub(crate) fn handle_reply(&mut self, reply: Arc<Reply>, end: bool) {
        debug_assert!(self.awaits_reply(end));
        if let Some(status) = &reply.not_rpc {
            self.state = State::NotRpc(Box::new(NotRpc { status: status.clone(), text: Vec::new() }));
            return;
        }
        if let Some(status) = reply.unusable.as_ref().filter(|_| !reply.is_whole) {
            return self.give_up(status.clone(), ErrorCode::CANCEL);
        }
        if let Some(encoding) = reply.encoding {
            self.decoder.allow_compressed(encoding);
        }
        let len = reply.content_length.map_or(Ok(()), |len| self.decoder.expect_len(len));
        let unusable = reply.unusable.clone().or_else(|| len.err());
        self.state = State::Body;
        self.head = Head::Reply(reply);
        if let Some(status) = unusable {
            self.refuse_body(status);
        }
        if end {
            self.handle_end(None);
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
            State::NotRpc(answer) => {
                let text = &mut answer.text;
                let room = error_json::MAX_TEXT.saturating_sub(text.len());
                text.extend_from_slice(data.get(..room).unwrap_or(&data));
                if text.len() == error_json::MAX_TEXT {
                    self.end_plain(Some(ErrorCode::CANCEL));
                }
            }
            State::AwaitHead => self.give_up(peer_fault("data before the response head"), ErrorCode::PROTOCOL_ERROR),
            State::Body => {
                let pushed = self.decoder.push(data, landing);
                self.note_pushed(pushed);
            }
        }
    }

    /// Moves what was received and not pulled out of the receive windows.
    pub(crate) fn detach(&mut self) {
        self.decoder.detach();
    }

    /// As [`handle_data_in`](Self::handle_data_in) of octets that are a part of one large message, by copying them.
    /// False if they are not, and then nothing happened.
    pub(crate) fn extend_message(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        let is_taken = matches!(self.state, State::Body) && self.decoder.extend(octets, landing);
        if is_taken {
            self.note_pushed(Ok(()));
        }
        is_taken
    }

    /// Lends the memory of a large message that is arriving.
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        if matches!(self.state, State::Body) { self.decoder.lend(room) } else { None }
    }

    /// Takes back what was lent, unless the message is not wanted any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        if matches!(self.state, State::Body) { self.decoder.restore(memory, filled) } else { Err(memory) }
    }

    /// The next `n` octets of the body lie in the memory of their message.
    pub(crate) fn landed(&mut self, n: usize) {
        if matches!(self.state, State::Body) {
            self.decoder.landed(n);
            self.note_pushed(Ok(()));
        }
    }

    fn note_pushed(&mut self, pushed: Result<(), Status>) {
        // The number comes first: how the octets are split must not decide what is wrong with them.
        if self.plan.kind.is_single_response() && self.decoder.begun() > 1 {
            self.give_up(cardinality("more than one message in a response of one"), ErrorCode::CANCEL);
        } else if let Err(status) = pushed {
            self.refuse_body(status);
        }
    }

    /// The end of the response: its trailers, or `None` if it ended without.
    pub fn handle_end(&mut self, trailers: Option<Headers>) {
        let status = trailers.map(trailers::decode);
        self.handle_outcome(status.as_ref().map(Option::as_ref));
    }

    /// [`handle_end`](Self::handle_end) with the status in the trailers, if they have one.
    pub(crate) fn handle_outcome(&mut self, trailers: Option<Option<&Status>>) {
        match &self.state {
            State::Body => {}
            State::NotRpc(_) => return self.end_plain(None),
            State::AwaitHead => return self.end(peer_fault("the response ended before its head")),
            State::Done(_) => return,
        }
        let Head::Reply(reply) = &self.head else { return };
        if reply.is_whole {
            return self.end_whole(&Arc::clone(reply));
        }
        let status = match trailers {
            Some(status) => status.cloned().unwrap_or_else(|| self.plain_http(reply.http)),
            None => match reply.early.as_ref().filter(|_| self.decoder.begun() == 0) {
                Some(status) => status.clone(),
                None if reply.http == 200 => peer_fault("the response ended without a status"),
                None => self.plain_http(reply.http),
            },
        };
        self.end(status);
    }

    /// A whole response that is a success of one message, as it mostly is: [`handle_reply`](Self::handle_reply),
    /// [`handle_data`](Self::handle_data) and [`handle_outcome`](Self::handle_outcome) in one step. `trailers` is the
    /// status in them; without trailers the head has told it.
    ///
    /// # Errors
    /// It is another response, and nothing happened that these steps do not do as well.
    #[inline]
    pub(crate) fn handle_success(
        &mut self,
        reply: &Arc<Reply>,
        body: Bytes,
        trailers: Option<&Status>,
    ) -> Result<(), Bytes> {
        let is_awaited = matches!(self.state, State::AwaitHead) && self.plan.kind.is_single_response();
        let status = if reply.is_whole { reply.success.as_ref() } else { trailers };
        let status = status.filter(|status| is_awaited && status.is_ok() && reply.is_usable());
        let Some(status) = status else { return Err(body) };
        if let Some(encoding) = reply.encoding {
            self.decoder.allow_compressed(encoding);
        }
        self.decoder.push_whole(body)?;
        self.head = Head::Reply(Arc::clone(reply));
        self.state = State::Done(status.clone());
        self.send.end(SendError::Finished);
        Ok(())
    }

    /// The peer reset the stream. Complete messages of a stream can still be pulled.
    pub fn handle_reset(&mut self, code: ErrorCode) {
        match (&self.state, &self.head) {
            (State::NotRpc(_), _) => self.end_plain(None),
            // The head has told the outcome, and what came of the body may still explain it.
            (State::Body, Head::Reply(reply)) if reply.is_whole && reply.http != 200 => {
                self.end_whole(&Arc::clone(reply));
            }
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
    fn end_whole(&mut self, reply: &Reply) {
        self.decoder.end();
        if let Some(status) = &reply.success {
            return self.end(status.clone());
        }
        let body = self.decoder.pull(&mut BufferPool::new(0));
        let body = body.map(|mut body| body.copy_to_bytes(body.len())).unwrap_or_default();
        self.end(error_json::decode(&body, reply.http, self.plan.spec.http_codes, reply.error_metadata()));
    }

    /// The body cannot be taken. That matters for a message; an error is known without the text that explains it.
    fn refuse_body(&mut self, status: Status) {
        let status = match &self.head {
            Head::Reply(reply) if reply.is_whole && reply.http != 200 => {
                error_json::plain(&[], reply.http, self.plan.spec.http_codes, reply.error_metadata())
            }
            _ => status,
        };
        self.give_up(status, ErrorCode::CANCEL);
    }

    /// Ends an answer of plain HTTP, as far as it came.
    fn end_plain(&mut self, reset: Option<ErrorCode>) {
        let State::NotRpc(answer) = &mut self.state else { return };
        let text = percent::text(answer.text.trim_ascii());
        let mut status = mem::take(&mut answer.status);
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
