//! The client's side of a call, as a pure machine: heads, octets and trailers in, messages and a status out.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use super::Recv;
use super::body::Decoder;
use super::decimal;
use super::envelope::PREFIX;
use super::metadata::Metadata;
use super::method::{CallKind, MethodSpec};
use super::options::{CallLimits, CallOptions};
use super::send::SendSide;
use super::status::Status;
use crate::buf::{BufferPool, MessageBuf, Run};
use crate::error::{ErrorCode, OpenError, SendError};
use crate::http::{HeaderName, Headers, RequestHead, Rest};
use crate::time::Instant;

mod plan;
mod receive;
mod reply;

pub(crate) use plan::Plan;
pub(crate) use reply::Reply;

static NO_METADATA: Metadata = Metadata::new();

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
    plan: Arc<Plan>,
    deadline: Option<Instant>,
    send: SendSide,
    state: State,
    head: Head,
    decoder: Decoder,
    wants_reset: Option<ErrorCode>,
}

#[derive(Debug)]
enum State {
    AwaitHead,
    /// The head came, and says what the body is.
    Body,
    /// An answer of plain HTTP, not RPC. The beginning of its body is kept, for people.
    NotRpc(Box<NotRpc>),
    Done(Status),
}

#[derive(Debug)]
struct NotRpc {
    status: Status,
    text: Vec<u8>,
}

/// What came of the response's head.
#[derive(Debug)]
enum Head {
    Awaited,
    Reply(Arc<Reply>),
    /// It was all of the response, and is in the outcome.
    Outcome,
}

/// How a call of a client ended: all there is to know of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The message that was not pulled yet, if there is one. An error leaves none where only one is expected.
    pub message: Option<MessageBuf>,
    /// Metadata of the response's head; empty if there was no head.
    pub metadata: Metadata,
    /// The status, whose metadata are the trailers.
    pub status: Status,
}

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
        let plan = Plan::new(method, options, codec, &limits)?;
        Ok(Self::of(Arc::new(plan), deadline))
    }

    /// A call by a plan.
    pub(crate) fn of(plan: Arc<Plan>, deadline: Option<Instant>) -> Self {
        let send = plan.send_side();
        Self::sending(plan, deadline, send)
    }

    /// A call by a plan, of which `send` tells what was sent.
    #[inline]
    pub(crate) fn sending(plan: Arc<Plan>, deadline: Option<Instant>, send: SendSide) -> Self {
        Self {
            send,
            decoder: plan.decoder(),
            plan,
            deadline,
            state: State::AwaitHead,
            head: Head::Awaited,
            wants_reset: None,
        }
    }

    /// What the call has in common with others.
    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The request's head, with `options` as they were at the call's beginning. The deadline is a field of its own, so
    /// that it tells what is left when the head leaves.
    ///
    /// In a dialect whose body is the message alone, `content-length` and the encoding are those of the message, so that
    /// the head is to be asked for behind [`envelope`](Self::envelope) and [`finish`](Self::finish). Asked for earlier
    /// it has neither, which peers understand too.
    pub fn request_head(&self, options: &CallOptions, scheme: Bytes, authority: Bytes) -> RequestHead {
        let mut head = self.plan.head(self.send.announces_encoding(), scheme, authority);
        let mut own = Headers::new();
        request_rest(options, self.send.body_len(), &mut own).append_to(&mut head.headers);
        head.deadline = self.deadline.and_then(|at| self.plan.deadline_field(at));
        head
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

    pub(crate) const fn send_side(&self) -> &SendSide {
        &self.send
    }

    /// The same, if nothing has to be sent before the next message.
    pub(crate) fn next_side(&mut self) -> Option<&mut SendSide> {
        Some(&mut self.send)
    }

    /// Why nothing more can be sent, if the call has ended.
    pub fn send_error(&self) -> Option<SendError> {
        self.send.error()
    }

    /// The next message. For a single response, `Blocked` until the outcome of the call is known, and `End` at once
    /// if that is an error.
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
        self.status().is_some() || (!self.plan.kind.is_single_response() && self.decoder.is_ready())
    }

    /// [`recv`](Self::recv), [`metadata`](Self::metadata) and [`status`](Self::status) of a call that has ended, and is
    /// of no use any more; `None` of one that has not. `pool` is as in [`recv_in`](Self::recv_in).
    #[inline]
    pub(crate) fn take_outcome(&mut self, pool: &mut BufferPool) -> Option<Outcome> {
        let State::Done(status) = &mut self.state else { return None };
        let metadata = match &self.head {
            Head::Reply(reply) if !reply.metadata.is_empty() => reply.metadata.clone(),
            Head::Awaited | Head::Reply(_) | Head::Outcome => Metadata::new(),
        };
        let status = mem::take(status);
        let message = self.decoder.pull(pool);
        message.iter().for_each(|message| pool.keep_message(message));
        Some(Outcome { message, metadata, status })
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
        if self.plan.kind == CallKind::Unary && self.status().is_none() {
            return None;
        }
        match &self.head {
            Head::Awaited => None,
            Head::Reply(reply) => Some(&reply.metadata),
            Head::Outcome => Some(&NO_METADATA),
        }
    }

    /// The outcome with the trailers, once it is known; messages may still wait to be pulled.
    pub fn status(&self) -> Option<&Status> {
        match &self.state {
            State::Done(status) => Some(status),
            State::AwaitHead | State::Body | State::NotRpc(_) => None,
        }
    }

    /// The code with which the stream is to be reset, after the machine gave up on the response.
    pub fn wants_reset(&self) -> Option<ErrorCode> {
        self.wants_reset
    }

    /// Number of messages each way.
    pub fn kind(&self) -> CallKind {
        self.plan.kind
    }

    /// When the call ends at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

/// What is in a request's head beside what the [plan](Plan) puts there, and the deadline: `body_len` if the body is a
/// message and nothing else. `own` lends memory.
#[inline]
pub(crate) fn request_rest<'a>(options: &'a CallOptions, body_len: Option<usize>, own: &'a mut Headers) -> Rest<'a> {
    let fields = if options.variant.is_default() {
        options.metadata.as_headers()
    } else {
        own.clear();
        own.extend(options.metadata.as_headers().iter().cloned());
        options.variant.encode(own);
        own
    };
    let first = body_len.map(|len| decimal::field(&HeaderName::CONTENT_LENGTH, len as u64));
    Rest { first, fields, last: None }
}

#[cfg(test)]
mod tests;
