//! Sending a message, the same in both roles.

use std::task::{Context, Poll};

use bytes::BytesMut;
use trirpc_core::buf::{Burst, Encoded};
use trirpc_core::call::Status;
use trirpc_core::{CallMut, SendError};

use super::slots::register;
use super::{INLINE, INLINE_UNARY, SessionRole, Shared};
use crate::compress::Compressor;
use crate::raw::{CallKey, Encode, Outgoing, encode, send_status};

/// Messages from this size on leave their memory to the next, in bytes. Below, more are on their way at a time than the
/// pool has room for, and the allocator is as fast.
const POOLED: usize = 32 * 1024;

/// What a look at the connection led to.
enum Step {
    /// There is room for a message that is to be encoded outside, and compressed if the call is.
    Encode(Compressor),
    Done(Poll<Result<(), Status>>),
}

impl<R: SessionRole> Shared<R> {
    /// Queues a message. A small one is encoded under the lock; one that is large or to be compressed outside,
    /// once there is room for it. A sender has one owner, so the room cannot shrink meanwhile.
    #[inline]
    pub(super) fn queue(
        &self,
        key: CallKey,
        outgoing: &mut Outgoing<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Status>> {
        if self.outbox.may_push(key) {
            self.queue_beside(key, outgoing, cx)
        } else {
            self.queue_directly(key, outgoing, cx)
        }
    }

    /// Queues a message that may join others beside the connection.
    fn queue_beside(
        &self,
        key: CallKey,
        outgoing: &mut Outgoing<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Status>> {
        if outgoing.encoded.is_none() && self.outbox.push(key, outgoing.message) {
            return Poll::Ready(Ok(()));
        }
        self.queue_directly(key, outgoing, cx)
    }

    /// Queues a message in the connection.
    #[inline(never)] // so that a message that goes beside it has less to carry
    fn queue_directly(
        &self,
        key: CallKey,
        outgoing: &mut Outgoing<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Status>> {
        let len = outgoing.message.encoded_len();
        let small = len.filter(|&len| len <= INLINE && outgoing.encoded.is_none());
        let queued = small.and_then(|len| self.queue_small(key, len, outgoing, cx));
        queued.unwrap_or_else(|| self.queue_any(key, len, outgoing, cx))
    }

    /// Queues a message of `len` bytes in one step, unless it is to be compressed or there is no such call.
    fn queue_small(
        &self,
        key: CallKey,
        len: usize,
        outgoing: &Outgoing<'_>,
        cx: &mut Context<'_>,
    ) -> Option<Poll<Result<(), Status>>> {
        self.with_at(self.about_now(), |state, now| {
            let slot = state.slots.find(key)?;
            if outgoing.compress && slot.codings.compresses(Some(len), self.compress_min) {
                return None;
            }
            let mut call = state.conn.call(slot.id)?;
            let sent = R::before_send(slot, &mut call, now)
                .and_then(|()| call.send_with(Some(len), &mut |dst| outgoing.message.encode(dst), now));
            Some(match sent {
                Ok(()) => {
                    slot.message_sent(len, now);
                    if call.is_burst() && len <= Burst::MAX_MESSAGE && slot.is_plain() {
                        self.outbox.open(key, &mut call);
                    }
                    Poll::Ready(Ok(()))
                }
                Err(SendError::Blocked) => {
                    register(&mut slot.send, cx, &mut state.stale);
                    Poll::Pending
                }
                Err(error) => refused(&call, state.cause.as_deref(), error),
            })
        })
    }

    /// Queues any message: the general way.
    fn queue_any(
        &self,
        key: CallKey,
        len: Option<usize>,
        outgoing: &mut Outgoing<'_>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Status>> {
        let is_large = len.is_none_or(|len| len > INLINE);
        loop {
            let step = self.with_at(self.about_now(), |state, now| {
                let Some(slot) = state.slots.find(key) else { return Step::Done(Poll::Ready(Err(over()))) };
                let Some(mut call) = state.conn.call(slot.id) else { return Step::Done(Poll::Ready(Err(over()))) };
                let compresses = outgoing.compress && slot.codings.compresses(len, self.compress_min);
                let sent = R::before_send(slot, &mut call, now).and_then(|()| match &*outgoing.encoded {
                    Some(encoded) => call.send_encoded(encoded.clone(), now).map(|()| true),
                    None if (is_large || compresses) && call.send_capacity() > 0 => Ok(false),
                    // A connection without room says so before it encodes.
                    None => call.send_with(len, &mut |dst| outgoing.message.encode(dst), now).map(|()| true),
                });
                Step::Done(match sent {
                    Ok(true) => {
                        let sent = outgoing.encoded.as_ref().map_or(len, |encoded| Some(encoded.bytes.len()));
                        slot.message_sent(sent.unwrap_or_default(), now);
                        Poll::Ready(Ok(()))
                    }
                    Ok(false) if compresses => return Step::Encode(slot.codings.compressor()),
                    Ok(false) => return Step::Encode(Compressor::default()),
                    Err(SendError::Blocked) => {
                        register(&mut slot.send, cx, &mut state.stale);
                        Poll::Pending
                    }
                    Err(error) => refused(&call, state.cause.as_deref(), error),
                })
            });
            match step {
                Step::Encode(compressor) => {
                    *outgoing.encoded = Some(self.compress(self.encode(outgoing.message)?, &compressor)?);
                }
                Step::Done(Poll::Pending) => return Poll::Pending,
                Step::Done(poll) => {
                    self.recycle(outgoing.encoded.take());
                    return poll;
                }
            }
        }
    }

    /// Lets everything leave that a call holds back.
    pub(super) fn flush_call(&self, key: CallKey) -> Result<(), Status> {
        self.with(|state, now| {
            let Some(slot) = state.slots.find(key) else { return Err(over()) };
            let Some(mut call) = state.conn.call(slot.id) else { return Err(over()) };
            call.flush(now)
                .map_err(|error| R::status(&call, state.cause.as_deref()).unwrap_or_else(|| send_status(error)))
        })
    }

    /// Encodes a message outside the lock, into a buffer that is used again.
    pub(super) fn encode(&self, message: &dyn Encode) -> Result<Encoded, Status> {
        let len = message.encoded_len().unwrap_or_default().min(self.max_send_message);
        let buf = if len < POOLED { BytesMut::with_capacity(len) } else { self.pool().get(len) };
        encode(message, buf, self.max_send_message)
    }

    /// Compresses a message outside the lock, if it is to be.
    pub(super) fn compress(&self, plain: Encoded, compressor: &Compressor) -> Result<Encoded, Status> {
        if !compressor.wants(Some(plain.bytes.len()), self.compress_min) {
            return Ok(plain);
        }
        let buf = self.pool().get(plain.bytes.len());
        match compressor.compress(&plain, buf)? {
            None => Ok(plain),
            Some(compressed) => {
                self.recycle(Some(plain));
                Ok(compressed)
            }
        }
    }

    /// Keeps the memory of a message that was handed to the connection.
    pub(super) fn recycle(&self, encoded: Option<Encoded>) {
        if let Some(encoded) = encoded.filter(|encoded| encoded.bytes.len() >= POOLED) {
            self.pool().keep(encoded.bytes);
        }
    }
}

/// What the call's end, or else the message itself, makes of a message that can never be sent.
#[cold]
fn refused<R: SessionRole>(call: &CallMut<'_, R>, cause: Option<&str>, error: SendError) -> Poll<Result<(), Status>> {
    Poll::Ready(Err(R::status(call, cause).unwrap_or_else(|| send_status(error))))
}

/// Whether the message of a unary call is encoded under the lock.
pub(super) fn is_inline(message: &dyn Encode) -> bool {
    message.encoded_len().is_some_and(|len| len <= INLINE_UNARY)
}

/// The call is not there any more: its other half saw the end.
pub(super) fn over() -> Status {
    Status::cancelled("the call is over")
}
