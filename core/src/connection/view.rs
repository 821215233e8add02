//! A short-lived view of one call: what both sides may do with it.

use super::Connection;
use super::calls::Signal;
use super::encode::{Fill, encode_in_place, encode_with};
use super::role::{Machine, Role};
use crate::buf::{Encoded, FlushPolicy};
use crate::call::{Code, Codec, EncodeBuf, Metadata, Recv};
use crate::error::{CodecError, SendError};
use crate::event::CallId;
use crate::time::Instant;

/// Largest message that is encoded behind others, in bytes; larger ones are chained.
const MAX_IN_PLACE: usize = 16 * 1024;

/// One call of a connection, from [`Connection::call`].
pub struct CallMut<'a, R: Role> {
    pub(super) conn: &'a mut Connection<R>,
    pub(super) id: CallId,
}

impl<'a, R: Role> CallMut<'a, R> {
    pub(super) fn new(conn: &'a mut Connection<R>, id: CallId) -> Self {
        Self { conn, id }
    }

    /// The call's id.
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Queues one message.
    ///
    /// # Errors
    /// [`SendError::Blocked`] while the send buffer is full; otherwise the message can never be sent.
    pub fn send<T>(&mut self, codec: &dyn Codec<T>, message: &T, now: Instant) -> Result<(), SendError> {
        self.send_with(codec.encoded_len(message), &mut |dst| codec.encode(message, dst), now)
    }

    /// Queues one message that `encode` encodes, into `len` bytes if that is known: as
    /// [`Codec::encode`] and [`Codec::encoded_len`] would.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    #[inline]
    pub fn send_with(
        &mut self,
        len: Option<usize>,
        encode: &mut dyn FnMut(&mut EncodeBuf<'_>) -> Result<(), CodecError>,
        now: Instant,
    ) -> Result<(), SendError> {
        self.conn.advance(now);
        let small = len.filter(|&len| len <= MAX_IN_PLACE);
        if let Some(sent) = small.and_then(|len| self.conn.send_next(self.id, len, encode)) {
            return sent;
        }
        self.ready_to_send()?;
        match len.filter(|&len| self.joins_others(len)) {
            Some(len) => self.send_in_place(len, encode),
            None => {
                let bytes = encode_with(len, self.conn.config.max_send_message, encode)?;
                self.push(Encoded { bytes, compressed: false })
            }
        }
    }

    /// Queues one message that the caller encoded: one that is large or compressed.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_encoded(&mut self, message: Encoded, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        self.ready_to_send()?;
        self.push(message)
    }

    /// Makes what was sent so far leave with the next output, whatever the [policy](FlushPolicy) is.
    ///
    /// # Errors
    /// Why the call can send nothing more, if it has ended.
    pub fn flush(&mut self, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        if let Some(error) = self.send_error() {
            return Err(error);
        }
        if let Some(call) = self.conn.calls.get(self.id) {
            self.conn.http.flush(call.stream);
        }
        Ok(())
    }

    /// Chooses when the messages of this side leave. Where there is only one, it never waits.
    pub fn set_flush_policy(&mut self, policy: FlushPolicy, now: Instant) {
        self.conn.advance(now);
        self.conn.set_flush_policy(self.id, policy);
    }

    /// Takes the next whole message.
    ///
    /// `Blocked` arms the next [`Event::Readable`](crate::Event::Readable), and lets everything leave that this side
    /// holds back.
    pub fn recv(&mut self) -> Recv {
        let Some(call) = self.conn.calls.get_mut(self.id) else { return Recv::End };
        let held = call.machine.buffered();
        let received = call.machine.recv(&mut self.conn.landing_pool);
        if let Recv::Message(message) = &received {
            self.conn.landing_pool.keep_message(message);
        }
        let taken = held.saturating_sub(call.machine.buffered());
        let need = call.machine.need();
        if matches!(received, Recv::Blocked) {
            call.signals.arm(Signal::Readable);
            self.conn.http.flush(call.stream);
        }
        if taken > 0 {
            self.conn.http.consumed(call.stream, taken);
            if need > 0 {
                self.conn.http.need(call.stream, need);
            }
        }
        received
    }

    /// Whether [`recv`](Self::recv) would return something other than `Blocked`.
    pub fn is_readable(&self) -> bool {
        self.conn.calls.get(self.id).is_none_or(|call| call.machine.is_readable())
    }

    /// The peer's metadata: the response's on a client (once its head arrived), the request's on a server.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.conn.calls.get(self.id).and_then(|call| call.machine.metadata())
    }

    /// When the call expires.
    pub fn deadline(&self) -> Option<Instant> {
        self.conn.calls.get(self.id).and_then(|call| call.machine.deadline())
    }

    /// Bytes that may be sent before [`SendError::Blocked`]; one message may exceed it.
    pub fn send_capacity(&self) -> usize {
        let Some(call) = self.conn.calls.get(self.id) else { return 0 };
        self.conn.config.send_buffer.saturating_sub(self.conn.http.send_buffered(call.stream))
    }

    /// Ends the call from this side, for `code`: the peer sees RST_STREAM with CANCEL, if it saw the call
    /// at all.
    pub fn cancel(&mut self, code: Code, now: Instant) {
        self.conn.advance(now);
        R::cancel(self.conn, self.id, code);
        self.conn.settle(self.id);
    }

    /// Why nothing more can be sent, if the call has ended.
    pub(super) fn send_error(&self) -> Option<SendError> {
        match self.conn.calls.get(self.id) {
            Some(call) => call.machine.send_error(),
            None => Some(SendError::Finished),
        }
    }

    /// `Blocked` arms the next `Writable`.
    fn ready_to_send(&mut self) -> Result<(), SendError> {
        if let Some(error) = self.send_error() {
            return Err(error);
        }
        if self.send_capacity() > 0 {
            return Ok(());
        }
        if let Some(call) = self.conn.calls.get_mut(self.id) {
            call.signals.arm(Signal::Writable);
        }
        Err(SendError::Blocked)
    }

    /// Hands a message to the engine, however full the send buffer is.
    pub(super) fn push(&mut self, message: Encoded) -> Result<(), SendError> {
        R::before_message(self.conn, self.id)?;
        let Some(call) = self.conn.calls.get_mut(self.id) else { return Err(SendError::Finished) };
        let prefix = call.machine.envelope(message.bytes.len(), message.compressed)?;
        if let Some(payload) = call.machine.keep(message.bytes) {
            self.conn.http.tick(self.conn.now);
            self.conn.http.send_data(call.stream, prefix, payload);
        }
        Ok(())
    }

    /// Whether a message of `len` bytes is encoded behind those that wait already, and not by itself.
    fn joins_others(&self, len: usize) -> bool {
        len <= MAX_IN_PLACE
            && len <= self.conn.config.max_send_message
            && self.conn.calls.get(self.id).is_some_and(|call| call.machine.send_side().is_enveloped())
    }

    /// Sends a message of `len` bytes that `fill` encodes where it waits.
    fn send_in_place(&mut self, len: usize, fill: Fill<'_>) -> Result<(), SendError> {
        let Some(call) = self.conn.calls.get(self.id) else { return Err(SendError::Finished) };
        let stream = call.stream;
        let staged = self.conn.http.stage(stream, len, |dst| encode_in_place(dst, len, fill));
        staged.map_err(SendError::Codec)?;
        // Only now: a codec that fails leaves no trace, not even a head.
        let prefix = R::before_message(self.conn, self.id).and_then(|()| match self.conn.calls.get_mut(self.id) {
            Some(call) => call.machine.envelope(len, false),
            None => Err(SendError::Finished),
        });
        match prefix {
            Ok(prefix) => self.conn.http.commit(stream, prefix, self.conn.now),
            Err(_) => self.conn.http.retract(stream),
        }
        prefix.map(drop)
    }
}
