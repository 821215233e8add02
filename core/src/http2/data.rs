//! DATA: what the calls give, when it may leave, and how it is cut into frames (RFC 9113 §6.1).

use bytes::{Bytes, BytesMut};

use crate::buf::{CoalesceBuf, FlushPolicy, Piece, Tails, Terms};
use crate::error::{CodecError, SendError};
use crate::http2::connection::{Http2, Incoming};
use crate::http2::frame::{self, HEADER_LEN};
use crate::http2::settings::MAX_DATA;
use crate::http2::store::StreamKey;
use crate::http2::stream::{End, Queued, Stream, StreamState};
use crate::time::{DeadlineQueue, Instant};

impl Http2 {
    // ---- commands of the calls -------------------------------------------------------------------

    /// Queues octets of the body. `prefix` leaves in the same frame as the payload where both fit.
    pub(crate) fn send_data(&mut self, key: StreamKey, prefix: Option<[u8; 5]>, payload: Bytes) {
        let now = self.now;
        let Some(stream) = self.streams.get_mut(key).filter(|stream| takes_data(stream)) else { return };
        stream.body.make(self.config.send_buffer).append(prefix, payload, now);
        self.appended(key);
    }

    /// Queues a message of `len` octets that `fill` encodes behind what the stream has to send. `None` if the stream takes
    /// no DATA; it is not decided here why.
    #[inline]
    pub(crate) fn append(
        &mut self,
        key: StreamKey,
        prefix: [u8; CoalesceBuf::PREFIX],
        len: usize,
        fill: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
    ) -> Option<Result<(), SendError>> {
        let stream = self.streams.get_mut(key).filter(|stream| takes_data(stream))?;
        let body = stream.body.make(self.config.send_buffer);
        lend_memory(body, &mut self.tails, len);
        if let Err(error) = body.push_with(Some(prefix), len, fill, self.now) {
            return Some(Err(error));
        }
        if body.len() >= self.config.send_buffer {
            stream.was_full = true;
        }
        self.is_burst = body.is_burst(len);
        watch_linger(&mut self.lingers, key, stream);
        self.sched.enqueue(key, stream);
        Some(Ok(()))
    }

    /// Whether the message that was appended last joined others that leave with the next output.
    #[inline]
    pub(crate) const fn is_burst(&self) -> bool {
        self.is_burst
    }

    /// How much [`append_burst`](Self::append_burst) takes if nothing else happens, in messages of up to `max_message` bytes.
    pub(crate) fn burst_terms(&mut self, key: StreamKey, max_message: usize) -> Terms {
        let stream = self.streams.get_mut(key).filter(|stream| takes_data(stream));
        let body = stream.and_then(|stream| stream.body.made());
        body.map_or_else(Terms::default, |body| body.burst_terms(max_message))
    }

    /// Queues messages with their prefixes behind what the stream has to send, as [`append`](Self::append) would one by one.
    pub(crate) fn append_burst(&mut self, key: StreamKey, octets: &[u8]) {
        let stream = self.streams.get_mut(key).filter(|stream| takes_data(stream));
        let Some(body) = stream.and_then(|stream| stream.body.made()) else { return };
        body.append_burst(octets);
        self.appended(key);
    }

    /// Lets `fill` encode a message of `len` octets behind what the stream has to send: to be decided upon by
    /// [`commit`](Self::commit) or [`retract`](Self::retract) before anything else happens to the stream.
    ///
    /// # Errors
    /// `fill` failed, or wrote another number of octets; there is nothing to decide then.
    pub(crate) fn stage(
        &mut self,
        key: StreamKey,
        len: usize,
        fill: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        let body = stream.body.make(self.config.send_buffer);
        lend_memory(body, &mut self.tails, len);
        body.stage(len, fill)
    }

    /// Queues the message that was staged.
    pub(crate) fn commit(&mut self, key: StreamKey, prefix: Option<[u8; 5]>, now: Instant) {
        self.tick(now);
        let now = self.now;
        let Some(stream) = self.streams.get_mut(key) else { return };
        let takes_data = takes_data(stream);
        let Some(body) = stream.body.made() else { return };
        if !takes_data {
            return body.retract();
        }
        body.commit(prefix, now);
        self.appended(key);
    }

    /// Forgets the message that was staged.
    pub(crate) fn retract(&mut self, key: StreamKey) {
        if let Some(body) = self.streams.get_mut(key).and_then(|stream| stream.body.made()) {
            body.retract();
        }
    }

    /// Chooses when the octets of a stream leave.
    pub(crate) fn set_flush_policy(&mut self, key: StreamKey, policy: FlushPolicy) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if policy == FlushPolicy::Immediate && stream.body.made().is_none() {
            return; // as a body is that is not made yet
        }
        stream.body.make(self.config.send_buffer).set_policy(policy);
        self.sched.enqueue(key, stream);
    }

    /// Lets everything leave that the stream holds back.
    pub(crate) fn flush(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        // What failed has nothing to flush; the call knows why.
        if stream.body.made().is_some_and(|body| body.flush().is_ok()) {
            self.sched.enqueue(key, stream);
        }
    }

    /// Octets queued and not yet cut into frames. At `send_buffer` and above the stream is full;
    /// [`Incoming::Writable`] follows when half of that is left.
    pub(crate) fn send_buffered(&self, key: StreamKey) -> usize {
        self.streams.get(key).map_or(0, |stream| stream.body.len())
    }

    /// The stream has more to send.
    fn appended(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.body.len() >= self.config.send_buffer {
            stream.was_full = true;
        }
        watch_linger(&mut self.lingers, key, stream);
        self.sched.enqueue(key, stream);
    }

    // ---- timers ----------------------------------------------------------------------------------

    /// Lets go of what was held back for long enough.
    pub(super) fn end_lingers(&mut self) {
        while let Some(key) = self.lingers.pop_expired(self.now) {
            let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.linger_watched) else { continue };
            if let Some(body) = stream.body.made() {
                body.handle_timeout(self.now);
            }
            // A flush in between put the end off. A stream that dribbles tries again, parked or not.
            let next = stream.body.poll_timeout();
            if stream.queued == Queued::Parked && self.send_window.available() > 0 {
                self.sched.remove(key, stream);
            }
            stream.linger_watched = next.is_some();
            self.sched.enqueue(key, stream);
            if let Some(at) = next {
                self.lingers.insert(at, key);
            }
        }
    }

    // ---- turns -----------------------------------------------------------------------------------

    /// Cuts one DATA frame, as large as the windows and the frame limit allow.
    pub(super) fn cut_data(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let eligible = stream.body.eligible();
        let allowed = stream.send_window.available().min(self.send_window.available());
        let n = stream.body.frame_len(eligible.min(allowed).min(MAX_DATA));
        let dribbles = self.dribbles.would(eligible, allowed);
        if n == 0 || (dribbles && !self.dribbles.take(self.now)) {
            return;
        }
        let end = n == stream.body.len() && matches!(stream.end, End::OnData);
        frame::data_header(self.arena.reserve(HEADER_LEN), stream.id, n as u32, end);
        if let Some(body) = stream.body.made() {
            body.cut(n, |piece| match piece {
                Piece::Copied(octets) => self.arena.put(octets),
                Piece::Shared(octets) => self.arena.chain(octets),
            });
            if let Some(memory) = body.retire() {
                self.tails.give_back(memory);
            }
        }
        self.sent_data(key, n, dribbles);
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.was_full && stream.body.len() <= self.config.send_buffer / 2 {
            stream.was_full = false;
            if !stream.released && !end {
                self.events.push_back(Incoming::Writable { stream: key, call: stream.call });
            }
        }
        if end {
            self.sent_end(key);
        }
    }

    /// `n` octets of DATA were written: both windows pay.
    fn sent_data(&mut self, key: StreamKey, n: usize, dribbles: bool) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.send_window.take(n);
        self.send_window.take(n);
        if dribbles {
            stream.dribbled = stream.dribbled.saturating_add(n as u32);
            if !self.dribbles.add_up(stream.dribbled) {
                return;
            }
        } else {
            self.dribbles.sent(n);
        }
        stream.dribbled = 0;
        stream.stalled_since = None;
        self.abuse.useful_frame();
    }
}

/// Sees to it that there is room for a message of `len` octets: in memory that other streams are done with, if need be.
#[inline]
fn lend_memory(body: &mut CoalesceBuf, tails: &mut Tails, len: usize) {
    if let Some(size) = body.lacks_memory(CoalesceBuf::PREFIX + len) {
        let (memory, size) = tails.take(size);
        if let Some(spent) = body.lend(memory, size) {
            tails.give_back(spent);
        }
    }
}

/// Notes when what the stream holds back is to leave.
fn watch_linger(lingers: &mut DeadlineQueue<StreamKey>, key: StreamKey, stream: &mut Stream) {
    if let Some(at) = stream.body.poll_timeout().filter(|_| !stream.linger_watched) {
        stream.linger_watched = true;
        lingers.insert(at, key);
    }
}

/// Is our half of the stream open, or about to be?
fn takes_data(stream: &Stream) -> bool {
    !stream.is_finished() && (stream.state.local().is_some() || stream.state == StreamState::Idle)
}
