//! What a unary call takes in one step, beside the many steps that every call has.
//!
//! A driver of many small calls looks each of them up once where its request is there, and once where its outcome is:
//! [`CallMut::expect_request`] is [`expect`](CallMut::expect) and [`recv`](CallMut::recv), and
//! [`Connection::take_outcome`] is `recv`, [`metadata`](CallMut::metadata) and [`release`](CallMut::release). The many
//! steps stay, for calls that come in parts; both ways give the same.

use super::Connection;
use super::role::{Client, Server};
use super::view::CallMut;
use crate::buf::{FlushPolicy, MessageBuf};
use crate::call::{CallKind, Metadata, Recv, Status};
use crate::event::CallId;
use crate::time::Instant;

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

impl CallMut<'_, Server> {
    /// The router's answer, as [`expect`](Self::expect), and the request itself if the method takes a single one and it
    /// is there: no [`Event::Readable`](crate::Event::Readable) tells of it then.
    ///
    /// With `None` the call goes on as after `expect`.
    pub fn expect_request(&mut self, kind: CallKind, now: Instant) -> Option<MessageBuf> {
        self.conn.advance(now);
        let call = self.conn.calls.get_mut(self.id)?;
        call.machine.expect(kind);
        if kind.is_single_request() && call.machine.is_readable() {
            if let Recv::Message(message) = self.recv() {
                self.conn.set_flush_policy(self.id, FlushPolicy::from(&*self.conn.config));
                return Some(message);
            }
        }
        self.conn.set_flush_policy(self.id, FlushPolicy::from(&*self.conn.config));
        self.conn.settle(self.id);
        None
    }
}

impl Connection<Client> {
    /// Frees the slot of a call that has ended, and returns its outcome: for calls with a single response. `None`, and
    /// nothing happened, while there is no outcome, and once the slot was released.
    ///
    /// Messages of a stream of responses that were not pulled are dropped, but for the first.
    pub fn take_outcome(&mut self, id: CallId) -> Option<Outcome> {
        let mut call = self.call(id)?;
        call.status()?;
        let message = match call.recv() {
            Recv::Message(message) => Some(message),
            Recv::Blocked | Recv::End => None,
        };
        let metadata = call.metadata().cloned().unwrap_or_default();
        Some(Outcome { message, metadata, status: call.release()? })
    }
}
