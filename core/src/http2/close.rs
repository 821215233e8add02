//! Streams that end, what they give back, and the calls that have waited for their slots.

use core::mem;

use crate::error::{ErrorCode, Timeout};
use crate::http2::Side;
use crate::http2::connection::{Drain, Http2, Incoming};
use crate::http2::store::StreamKey;
use crate::http2::stream::{Closed, Queued, StreamState};

impl Http2 {
    /// Does the peer allow another stream, and is the queue of unsent heads short enough?
    pub(super) fn has_slot(&self) -> bool {
        self.active < self.peer.max_concurrent_streams() as usize && self.uncommitted < self.config.max_pending.max(1)
    }

    /// Gives slots to the calls that have waited longest.
    pub(super) fn admit_pending(&mut self) {
        while self.sched.pending() > 0 && self.has_slot() {
            let Some(key) = self.sched.next_pending(&mut self.streams) else { return };
            let Some(stream) = self.streams.get_mut(key) else { continue };
            self.active += 1;
            self.uncommitted += 1;
            self.sched.enqueue(key, stream);
        }
    }

    /// Ends a stream for a reason of ours, and says so to its owner.
    pub(super) fn give_up(&mut self, key: StreamKey, code: ErrorCode) {
        self.reset(key, code);
        self.report_reset(key, code, false);
    }

    /// Ends a stream whose head or trailers, of `size`, may not be sent. Where it is the peer's limit that forbids them,
    /// the peer has had work done that comes to nothing.
    pub(super) fn give_up_response(&mut self, key: StreamKey, size: usize) {
        self.give_up(key, ErrorCode::INTERNAL_ERROR);
        if size > self.peer.max_header_list as usize {
            if let Err(fault) = self.abuse.stream_fault(1, self.now) {
                self.misbehaved(fault);
            }
        }
    }

    pub(super) fn report_reset(&mut self, key: StreamKey, code: ErrorCode, by_peer: bool) {
        if let Some(stream) = self.streams.get(key) {
            self.events.push_back(Incoming::Reset { stream: key, call: stream.call, code, by_peer });
        }
    }

    /// The stream is closed, or leaves the queue it waits in: everything it held is given back.
    pub(super) fn close(&mut self, key: StreamKey, how: Closed) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let (id, released) = (stream.id, stream.released);
        let (was_pending, was_idle) = (stream.queued == Queued::Pending, stream.state == StreamState::Idle);
        stream.state = StreamState::Closed(how);
        if !stream.is_quiet() {
            self.give_back(key);
        }
        if id != 0 {
            self.streams.close_id(id, how);
        }
        if self.side == Side::Client && !was_pending {
            self.active -= 1;
            self.uncommitted -= usize::from(was_idle);
            self.admit_pending();
        }
        if released {
            self.streams.remove(key);
        }
        self.admit_reservations();
        self.note_busy();
    }

    /// [`close`](Self::close) of the stream `id`, whose halves have ended, that is [quiet](Stream::is_quiet), and that
    /// nobody asks for any more.
    pub(super) fn end_quietly(&mut self, key: StreamKey, id: u32) {
        self.streams.close_id(id, Closed::Ended);
        self.streams.remove(key);
        if self.side == Side::Client {
            self.active -= 1;
            self.admit_pending();
        }
        self.admit_reservations();
        self.note_busy();
    }

    /// What a stream that is closed held elsewhere.
    fn give_back(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.discard_output();
        self.sched.remove(key, stream);
        if stream.released {
            self.reservations.forget(key, stream);
        } else {
            self.reservations.ended(key, stream);
        }
        let watched = mem::take(&mut stream.stall_watched);
        let lingered = mem::take(&mut stream.linger_watched);
        let streams = &self.streams;
        if watched {
            self.stalls.note_dead(|key| streams.get(key).is_some_and(|stream| stream.stall_watched));
        }
        if lingered {
            self.lingers.note_dead(|key| streams.get(key).is_some_and(|stream| stream.linger_watched));
        }
    }

    /// Streams began or ended: the idle timer and keepalive take turns.
    pub(super) fn note_busy(&mut self) {
        let busy = self.streams.on_wire() > 0 || self.uncommitted > 0 || self.sched.pending() > 0;
        if busy == self.busy || self.terminal.is_some() {
            return;
        }
        self.busy = busy;
        if busy {
            self.timers.clear(Timeout::Idle);
            if let Some(at) = self.keepalive.start(self.now) {
                self.timers.set(Timeout::KeepAlive, at);
            }
        } else {
            self.timers.clear(Timeout::KeepAlive);
            if self.drain == Drain::No {
                self.arm(Timeout::Idle, self.config.idle_timeout);
            }
        }
    }
}
