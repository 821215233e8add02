//! The messages of a stream, when nothing is in their way: each is one look at its call and one at its stream, and those
//! that came together are taken together. What is in the way is for the [general way](super::view), which gives the same.

use super::calls::Signal;
use super::encode::Fill;
use super::role::{Machine, Role};
use super::{CallMut, Connection};
use crate::buf::{Burst, Run};
use crate::call::EncodeBuf;
use crate::error::SendError;
use crate::event::CallId;
use crate::time::Instant;

impl<R: Role> Connection<R> {
    /// Sends a further message of a stream, of `len` bytes that `fill` encodes where it waits; `None` if that is not all
    /// there is to do, or cannot be done, and then nothing happened.
    #[inline]
    pub(super) fn send_next(&mut self, id: CallId, len: usize, fill: Fill<'_>) -> Option<Result<(), SendError>> {
        let call = self.calls.get_mut(id)?;
        let side = call.machine.next_side()?;
        let prefix = side.next_prefix(len)?;
        self.http.tick(self.now);
        let sent = self.http.append(call.stream, prefix, len, |dst| fill(&mut EncodeBuf::new(dst, len)))?;
        match &sent {
            Ok(()) => side.note_sent(len),
            Err(SendError::Blocked) => call.signals.arm(Signal::Writable),
            Err(_) => {}
        }
        Some(sent)
    }
}

impl<R: Role> CallMut<'_, R> {
    /// Whether a [burst](Self::begin_burst) is worth its while: the message that was sent last did not wait alone, and
    /// leaves with the next output.
    #[inline]
    pub fn is_burst(&self) -> bool {
        self.conn.http.is_burst()
    }

    /// Begins a burst of small messages of this call, which are not compressed, behind what it has sent. Nothing is taken
    /// if they are to be sent one by one.
    ///
    /// It [is sent](Self::send_burst) before anything else happens to the connection.
    pub fn begin_burst(&mut self, burst: &mut Burst) {
        let call = self.conn.calls.get_mut(self.id);
        let terms = call.and_then(|call| {
            let max_message = call.machine.next_side()?.max_next()?;
            Some(self.conn.http.burst_terms(call.stream, max_message))
        });
        burst.begin(terms.unwrap_or_default());
    }

    /// Queues the messages of a burst, as [`send`](Self::send) would one by one.
    pub fn send_burst(&mut self, burst: &Burst, now: Instant) {
        self.conn.advance(now);
        let Some(call) = self.conn.calls.get_mut(self.id).filter(|_| !burst.is_empty()) else { return };
        let Some(side) = call.machine.next_side() else { return };
        side.note_sent(burst.last());
        self.conn.http.tick(self.conn.now);
        self.conn.http.append_burst(call.stream, burst.octets());
    }

    /// Takes messages that are there already, for a receiver that has taken one: as many as lie behind each other in one
    /// piece of memory, uncompressed, up to `max` bytes of them with their prefixes; none otherwise. Their credit returns
    /// to the peer as that of messages that [`recv`](Self::recv) takes.
    pub fn recv_ahead(&mut self, max: usize) -> Run {
        let Some(call) = self.conn.calls.get_mut(self.id) else { return Run::default() };
        let held = call.machine.buffered();
        let run = call.machine.recv_run(max, &mut self.conn.landing_pool);
        let taken = held.saturating_sub(call.machine.buffered());
        let need = call.machine.need();
        if taken > 0 {
            self.conn.http.consumed(call.stream, taken);
            if need > 0 {
                self.conn.http.need(call.stream, need);
            }
        }
        run
    }
}
