//! The server's side of a call, as a pure machine: a request in, a response out.

use alloc::boxed::Box;
use alloc::format;
use alloc::sync::Arc;
use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::Recv;
use super::body::Decoder;
use super::envelope::peer_fault;
use super::metadata::Metadata;
use super::method::CallKind;
use super::protocol::{self, Body};
use super::send::SendSide;
use super::status::{Origin, Status};
use crate::buf::{BufferPool, Landing, LentMemory, MessageBuf, Run};
use crate::error::{ErrorCode, SendError, StreamError};
use crate::http::{Headers, ResponseHead};
use crate::time::Instant;

mod accept;
mod plain;
mod respond;

pub use accept::{Accept, Accepted};
pub use respond::End;
pub(crate) use respond::{ResponseKind, success_trailers};

/// The server's side of one call.
///
/// The request goes in through the `handle_` methods, the response comes out of [`head`](Self::head),
/// [`envelope`](Self::envelope) with [`keep`](Self::keep), and [`finish`](Self::finish), in this order. In a dialect
/// whose head tells the outcome, all of it comes out at the end. When the request is at fault,
/// [`failure`](Self::failure) is the status to finish with.
#[derive(Debug)]
pub struct ServerCall {
    request: Arc<Accepted>,
    deadline: Option<Instant>,
    kind: Option<CallKind>,
    state: State,
    decoder: Decoder,
    send: SendSide,
    is_head_sent: bool,
    /// What waits for the outcome, in a dialect whose head tells it.
    kept: Option<Box<Kept>>,
}

/// A response as far as the handler gave it.
#[derive(Debug, Default)]
struct Kept {
    metadata: Metadata,
    message: Bytes,
}

/// The receiving side.
#[derive(Debug)]
enum State {
    Receiving,
    Ended,
    Failed(Status),
    /// The request is no call.
    Refused(Box<Refusal>),
    Reset,
}

#[derive(Debug)]
struct Refusal {
    /// HTTP's answer.
    head: ResponseHead,
    /// For this side only.
    status: Status,
}

impl ServerCall {
    /// A call whose head says `request`, and arrived at `now`.
    pub fn new(request: Arc<Accepted>, now: Instant) -> Self {
        let mut call = Self::of(request, now);
        call.heed_head();
        call
    }

    /// A call that has its head, and is yet to [heed](Self::heed_head) it: made in its place at once.
    #[inline]
    pub(crate) fn of(request: Arc<Accepted>, now: Instant) -> Self {
        let (body, limits) = (request.spec.body, &request.limits);
        let compresses = request.response_encoding().is_some();
        Self {
            deadline: request.timeout().map(|timeout| now + timeout),
            kind: None,
            state: State::Receiving,
            decoder: Decoder::new(body, limits.max_recv_message),
            send: SendSide::new(body, false, limits.max_send_message, compresses),
            is_head_sent: false,
            kept: None,
            request,
        }
    }

    /// Does what the head asks for, which mostly is nothing.
    #[inline]
    pub(crate) fn heed_head(&mut self) {
        let Accepted { request_encoding, content_length, fault, .. } = &*self.request;
        if request_encoding.is_some() || content_length.is_some() || fault.is_some() {
            self.heed_fields();
        }
    }

    fn heed_fields(&mut self) {
        if let Some(encoding) = self.request.request_encoding {
            self.decoder.allow_compressed(encoding);
        }
        let len = self.request.content_length.map_or(Ok(()), |len| self.decoder.expect_len(len));
        if let Some(status) = self.request.fault.clone().or_else(|| len.err()) {
            self.fault(status);
        }
    }

    /// The router's answer: what kind of method the path names. Nothing can be received before it.
    ///
    /// A stream cannot be called in a dialect whose body is one message: the call [fails](Self::failure), and is
    /// answered by HTTP's 415 with the content types that would do.
    #[inline]
    pub fn expect(&mut self, kind: CallKind) {
        self.kind = Some(kind);
        self.send.set_single(kind.is_single_response());
        if self.request.spec.body == Body::Bare && kind != CallKind::Unary {
            self.refuse_type(
                Status::unimplemented("a stream cannot be called by this content type"),
                &[protocol::PROTO],
            );
        } else {
            self.check_cardinality();
        }
    }

    /// Refuses the codec that the request names: the method has `offered` ones only. [`failure`](Self::failure) is the
    /// answer, unless the call has ended otherwise.
    pub fn refuse_codec(&mut self, offered: &[&str]) {
        if !self.send.is_finished() && self.failure().is_none() {
            let (path, codec, takes) = (self.request.path(), self.request.codec_name(), offered.join(", "));
            let status = Status::unimplemented(format!("{path} does not take the codec {codec}, but {takes}"));
            self.refuse_type(status, offered);
        }
    }

    /// What the request's head says. Calls with the same head share it.
    pub fn request(&self) -> &Arc<Accepted> {
        &self.request
    }

    /// Number of messages each way, once it is known.
    pub fn kind(&self) -> Option<CallKind> {
        self.kind
    }

    /// When the client gives up.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Octets of the request's body, in any split.
    pub fn handle_data(&mut self, data: Bytes) {
        self.handle_data_in(data, &mut Landing::alone(&mut BufferPool::new(0)));
    }

    /// As [`handle_data`](Self::handle_data); `landing` has the memory for a large message.
    pub(crate) fn handle_data_in(&mut self, data: Bytes, landing: &mut Landing<'_>) {
        if !self.is_receiving() {
            return;
        }
        let pushed = self.decoder.push(data, landing);
        // The number comes first: how the octets are split must not decide what is wrong with them.
        self.check_cardinality();
        if let (Err(status), State::Receiving) = (pushed, &self.state) {
            self.fault(status);
        }
    }

    /// Moves what was received and not pulled out of the receive windows.
    pub(crate) fn detach(&mut self) {
        self.decoder.detach();
    }

    /// As [`handle_data_in`](Self::handle_data_in) of octets that are a part of one large message, by copying them.
    /// False if they are not, and then nothing happened.
    pub(crate) fn extend_message(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        let is_taken = self.is_receiving() && self.decoder.extend(octets, landing);
        if is_taken {
            self.check_cardinality();
        }
        is_taken
    }

    /// Lends the memory of a large message that is arriving.
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        if self.is_receiving() { self.decoder.lend(room) } else { None }
    }

    /// Takes back what was lent, unless the message is not wanted any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        if self.is_receiving() { self.decoder.restore(memory, filled) } else { Err(memory) }
    }

    /// The next `n` octets of the body lie in the memory of their message.
    pub(crate) fn landed(&mut self, n: usize) {
        if self.is_receiving() {
            self.decoder.landed(n);
            self.check_cardinality();
        }
    }

    /// The end of the request; its trailers mean nothing in any dialect.
    pub fn handle_end(&mut self, _trailers: Option<Headers>) {
        if !self.is_receiving() {
            return;
        }
        self.state = State::Ended;
        self.decoder.end();
        if self.decoder.is_partial() {
            self.fault(peer_fault("the request ended inside a message"));
        } else {
            self.check_cardinality();
        }
    }

    /// All octets of the request's body, and its end, if they are one message that may be kept:
    /// [`handle_data`](Self::handle_data) and [`handle_end`](Self::handle_end) in one step.
    ///
    /// # Errors
    /// The body is something else, and nothing happened.
    #[inline]
    pub(crate) fn handle_whole(&mut self, body: Bytes) -> Result<(), Bytes> {
        if self.is_receiving() {
            self.decoder.push_whole(body)?;
            self.state = State::Ended;
            self.check_cardinality();
        }
        Ok(())
    }

    /// [`expect`](Self::expect), and [`recv`](Self::recv) of the message if there is to be one only and the request has
    /// ended with it.
    #[inline]
    pub(crate) fn expect_request(&mut self, kind: CallKind, pool: &mut BufferPool) -> Option<MessageBuf> {
        self.expect(kind);
        let is_there = matches!(self.state, State::Ended) && kind.is_single_request();
        if is_there { self.decoder.pull(pool) } else { None }
    }

    /// The client reset the stream: nobody waits for the response any more. After [`finish`](Self::finish) it means
    /// nothing.
    pub fn handle_reset(&mut self, code: ErrorCode) {
        if self.send.is_finished() {
            return;
        }
        self.decoder.discard();
        self.send.end(SendError::Failed(StreamError::Reset(code)));
        self.state = State::Reset;
    }

    /// The next message. For a single request, `Blocked` until the request has ended with it.
    pub fn recv(&mut self) -> Recv {
        self.recv_in(&mut BufferPool::new(0))
    }

    /// As [`recv`](Self::recv); `pool` has the memory for the message behind it.
    pub(crate) fn recv_in(&mut self, pool: &mut BufferPool) -> Recv {
        if !self.is_readable() {
            return Recv::Blocked;
        }
        self.decoder.pull(pool).map_or(Recv::End, Recv::Message)
    }

    /// Messages that [`recv`](Self::recv) would return now, up to `max` bytes of them with their prefixes.
    pub(crate) fn recv_run(&mut self, max: usize, pool: &mut BufferPool) -> Run {
        if self.is_readable() { self.decoder.pull_run(max, pool) } else { Run::default() }
    }

    /// Whether [`recv`](Self::recv) would return something other than `Blocked`.
    pub fn is_readable(&self) -> bool {
        match (&self.state, self.kind) {
            (State::Failed(_) | State::Refused(_) | State::Reset, _) => true,
            (_, None) => false,
            (State::Ended, Some(_)) => true,
            (State::Receiving, Some(kind)) => !kind.is_single_request() && self.decoder.is_ready(),
        }
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

    /// What is wrong with the request: the status to [`finish`](Self::finish) with, instead of the handler's.
    pub fn failure(&self) -> Option<&Status> {
        match &self.state {
            State::Failed(status) => Some(status),
            State::Refused(refusal) => Some(&refusal.status),
            State::Receiving | State::Ended | State::Reset => None,
        }
    }

    /// Whether the client reset the stream.
    pub fn is_reset(&self) -> bool {
        matches!(self.state, State::Reset)
    }

    /// Whether the response has ended or need not be sent.
    pub fn is_send_finished(&self) -> bool {
        self.send.is_finished()
    }

    pub(crate) const fn send_side(&self) -> &SendSide {
        &self.send
    }

    /// The same, if nothing has to be sent before the next message.
    pub(crate) fn next_side(&mut self) -> Option<&mut SendSide> {
        self.is_head_sent.then_some(&mut self.send)
    }

    /// Why nothing more can be sent, if the call has ended.
    pub fn send_error(&self) -> Option<SendError> {
        self.send.error()
    }

    /// What comes after the response, or after a fault, is of no interest.
    fn is_receiving(&self) -> bool {
        matches!(self.state, State::Receiving) && !self.send.is_finished()
    }

    #[inline]
    fn check_cardinality(&mut self) {
        if self.kind.is_some_and(CallKind::is_single_request) {
            self.check_single();
        }
    }

    #[inline]
    fn check_single(&mut self) {
        match (&self.state, self.decoder.begun()) {
            (State::Ended, 0) => self.fault(cardinality("no message in a request of one")),
            (State::Ended | State::Receiving, 2..) => {
                self.fault(cardinality("more than one message in a request of one"));
            }
            _ => {}
        }
    }

    /// The content type of the request is not one by which the method can be called. Dialects that speak HTTP say so in
    /// HTTP.
    fn refuse_type(&mut self, status: Status, codecs: &[&str]) {
        if self.request.spec.body == Body::Bare {
            let kind = self.kind.unwrap_or(CallKind::Unary);
            let head = accept::unsupported(protocol::accept_post(codecs, kind));
            self.decoder.discard();
            self.state = State::Refused(Box::new(Refusal { head, status }));
        } else {
            self.fault(status);
        }
    }

    fn fault(&mut self, status: Status) {
        self.decoder.discard();
        self.state = State::Failed(status);
    }
}

/// The wrong number of messages.
fn cardinality(message: &'static str) -> Status {
    Status::unimplemented(message).with_origin(Origin::Peer)
}

#[cfg(test)]
mod tests;
