//! Output: whose frame is next, and how frames come into the arena.
//!
//! Control frames are written the moment they are decided. Window updates are merged and written as the
//! first step of each output; then streams have turns until the target is reached.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::BytesMut;

use crate::buf::Transmit;
use crate::error::{ConnectionError, ErrorCode, Timeout};
use crate::http::{InlineField, ResponseHead, Rest};
use crate::http2::Side;
use crate::http2::bdp;
use crate::http2::connection::Http2;
use crate::http2::frame::{self, HEADER_LEN, MAX_WINDOW};
use crate::http2::settings::MAX_DATA;
use crate::http2::store::StreamKey;
use crate::http2::stream::{Closed, End, Head, Queued, StreamState};
use crate::http2::template::Block;
use crate::time::Instant;

/// Unsent control frames may be this many times `max_control_queue` before the connection ends.
const CONTROL_QUEUE_EXCESS: usize = 10;

/// How long a stream that the peer's windows let dribble waits before it tries again.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// What was handed to the transport, and how much of it was written.
///
/// What is left in [`Transmit`] is what was not written: from its length at each poll follows whether the
/// transport makes progress, and which control frames are out.
#[derive(Debug, Default)]
pub(super) struct Handed {
    /// Octets handed over since the beginning.
    octets: u64,
    /// Octets left in `Transmit` at the end of the last poll.
    left: usize,
    /// Control frames written to the arena since the last poll.
    fresh: u32,
    /// Control frames handed over, each group with the value of `octets` at its end.
    groups: VecDeque<(u64, usize)>,
    /// Sum over `groups`.
    in_groups: usize,
    /// How many of `octets` were written when the write-stall timer was armed.
    written_before: u64,
    /// The write-stall timer fired: if the next poll sees too little progress as well, the peer does not read.
    suspected: bool,
}

impl Handed {
    /// Control frames that were not written yet.
    fn control_frames(&self) -> usize {
        self.in_groups + self.fresh as usize
    }

    /// Octets that were left with the transport at the last poll.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Gives back memory that nothing is kept in.
    pub(super) fn release_idle(&mut self) {
        self.groups.shrink_to_fit();
    }

    pub(super) fn suspect_stall(&mut self) {
        self.suspected = true;
    }

    /// `left` octets are in `Transmit` now: returns how many were written since the write-stall timer was armed.
    fn note_left(&mut self, left: usize) -> u64 {
        let written = self.octets.saturating_sub(left as u64);
        while let Some(&(_, frames)) = self.groups.front().filter(|(end, _)| *end <= written) {
            self.in_groups -= frames;
            self.groups.pop_front();
        }
        written.saturating_sub(self.written_before)
    }

    /// `pushed` octets were added, which makes `left`.
    fn note_pushed(&mut self, pushed: usize, left: usize) {
        self.octets += pushed as u64;
        self.left = left;
        if self.fresh > 0 {
            let fresh = core::mem::take(&mut self.fresh) as usize;
            self.in_groups += fresh;
            self.groups.push_back((self.octets, fresh));
        }
    }
}

impl Http2 {
    /// Tops `out` up to `transmit_target`; true if more is waiting.
    pub(crate) fn poll_transmit(&mut self, out: &mut Transmit, now: Instant) -> bool {
        self.tick(now);
        self.watch_writes(out);
        let target = self.transmit_target();
        if self.terminal.is_none() {
            self.emit_control();
            while out.len() + self.arena.len() < target && self.turn() {}
        }
        let pushed = self.arena.len();
        self.arena.drain_into(out);
        self.handed_id = self.next_id;
        self.handed.note_pushed(pushed, out.len());
        if out.is_empty() {
            self.timers.clear(Timeout::WriteStall);
        } else if self.timers.get(Timeout::WriteStall).is_none() {
            self.handed.written_before = self.handed.octets - out.len() as u64;
            self.arm(Timeout::WriteStall, self.config.write_stall_timeout);
        }
        self.terminal.is_none() && self.is_runnable()
    }

    /// Would [`poll_transmit`](Self::poll_transmit) have something to hand out?
    pub(crate) fn wants_transmit(&self) -> bool {
        if !self.arena.is_empty() {
            return true;
        }
        self.terminal.is_none() && (!self.updates.is_empty() || self.recv_window.is_due() || self.is_runnable())
    }

    /// How much output is prepared ahead of the transport.
    pub(super) fn transmit_target(&self) -> usize {
        self.config.transmit_target.max(1)
    }

    /// False while reading on would only make us owe more control frames than may be queued.
    pub(crate) fn wants_read(&self) -> bool {
        self.terminal.is_none() && self.handed.control_frames() <= self.config.max_control_queue
    }

    /// Is the queue of control frames far above its limit?
    pub(super) fn owes_far_too_much(&self) -> bool {
        self.handed.control_frames() > self.config.max_control_queue.saturating_mul(CONTROL_QUEUE_EXCESS)
    }

    pub(super) fn is_runnable(&self) -> bool {
        self.sched.is_runnable(self.is_window_open())
    }

    /// Does the connection's window let DATA through that is worth a frame, or may a few octets leave?
    fn is_window_open(&self) -> bool {
        self.dribbles.opens(self.send_window.available())
    }

    fn watch_writes(&mut self, out: &Transmit) {
        let progress = self.handed.note_left(out.len());
        if out.is_empty() || progress >= self.config.min_write_progress.max(1) as u64 {
            self.handed.suspected = false;
            self.timers.clear(Timeout::WriteStall);
        } else if core::mem::take(&mut self.handed.suspected) && self.terminal.is_none() {
            // A GOAWAY could not be written either.
            self.end(ConnectionError::Timeout(Timeout::WriteStall));
            self.lose_output();
        }
    }

    // ---- control frames --------------------------------------------------------------------------

    /// The window updates that are due, each window's in one frame.
    #[inline]
    pub(super) fn emit_control(&mut self) {
        if self.recv_window.is_due() || !self.updates.is_empty() {
            self.write_updates();
        }
    }

    fn write_updates(&mut self) {
        let best = self.bdp.window();
        let mut taken = 0;
        if let Some(increment) = self.recv_window.update() {
            self.bdp.granted(increment);
            frame::window_update(self.control(frame::WINDOW_UPDATE_LEN), 0, increment);
        }
        while let Some(key) = self.updates.pop() {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.update_noted = false;
            // Of what nobody reads there should not come more.
            if stream.id == 0 || stream.state.remote().is_none() || stream.ignores_rest() {
                continue;
            }
            if let Some(best) = best.filter(|_| stream.taken > 0) {
                let wish = i64::from(best) - stream.recv_window.target();
                self.reservations.grow(stream, u32::try_from(wish).unwrap_or(0));
            }
            let id = stream.id;
            if let Some(increment) = stream.recv_window.update() {
                taken += u64::from(core::mem::take(&mut stream.taken));
                frame::window_update(self.control(frame::WINDOW_UPDATE_LEN), id, increment);
            }
        }
        // Behind the updates: who counts the PINGs between other frames sees that there are some.
        if self.bdp.begin(taken, self.recv_window.window(), self.now) {
            self.write_ping(bdp::PAYLOAD, false);
        }
    }

    /// Answers a request that gets no stream of ours: with a frame that waits for nothing, like those of control.
    pub(super) fn answer_refused(&mut self, id: u32, head: &ResponseHead) {
        self.handed.fresh += 1;
        self.write_block(id, true, &mut Block::response(head));
    }

    pub(super) fn write_rst(&mut self, id: u32, code: ErrorCode) {
        frame::rst_stream(self.control(frame::RST_STREAM_LEN), id, code);
    }

    pub(super) fn write_ping(&mut self, payload: [u8; 8], ack: bool) {
        frame::ping(self.control(frame::PING_LEN), payload, ack);
    }

    pub(super) fn write_settings_ack(&mut self) {
        frame::settings_ack(self.control(HEADER_LEN));
    }

    /// GOAWAY, unless it would say nothing new. The last id never rises (§6.8).
    pub(super) fn write_goaway(&mut self, last: u32, code: ErrorCode, debug: &[u8]) {
        let last = self.goaway_sent.map_or(last, |(earlier, _)| earlier.min(last));
        if self.goaway_sent != Some((last, code)) {
            self.goaway_sent = Some((last, code));
            frame::goaway(self.control(HEADER_LEN + 8 + debug.len()), last, code, debug);
        }
    }

    /// Room for one control frame, which is counted.
    fn control(&mut self, len: usize) -> &mut BytesMut {
        self.handed.fresh += 1;
        self.arena.reserve(len)
    }

    // ---- turns -----------------------------------------------------------------------------------

    /// The next stream's turn: its head if one waits, one DATA frame, or all of them if they are few, and its end if nothing
    /// is left. False if no stream has anything that may be sent.
    fn turn(&mut self) -> bool {
        let window_open = self.is_window_open();
        let Some(key) = self.sched.next(window_open, &mut self.streams, self.now) else { return false };
        let before = self.arena.len();
        if self.commit_head(key) {
            for _ in 0..self.frames_of_turn(key) {
                self.cut_data(key);
            }
            self.commit_end(key);
            self.requeue(key);
        }
        self.sched.took(self.arena.len() - before);
        true
    }

    /// DATA frames that a stream may send in a turn. What is short goes whole, as it does where it is encoded in place: a
    /// receiver finds it in one piece.
    fn frames_of_turn(&self, key: StreamKey) -> usize {
        let Some(stream) = self.streams.get(key) else { return 0 };
        let octets = stream.body.eligible();
        if octets <= MAX_DATA {
            return 1;
        }
        let allowed = stream.send_window.available().min(self.send_window.available());
        if octets <= allowed.min(self.max_whole_body()) { octets.div_ceil(MAX_DATA) } else { 1 }
    }

    /// Writes the head that waits, if one does. False if the stream is over by now.
    fn commit_head(&mut self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        let Some(head) = stream.head.take() else { return true };
        let end = matches!(stream.end, End::OnHead);
        match head {
            Head::Request(head) => {
                let deadline = head.deadline.and_then(|deadline| InlineField::deadline(deadline, self.now));
                let rest = Rest { last: deadline, ..Rest::NONE };
                self.write_head(key, end, &mut Block::request(&head, &rest))
            }
            Head::Shared(head, deadline) => {
                let deadline = deadline.and_then(|deadline| InlineField::deadline(*deadline, self.now));
                let rest = Rest { last: deadline, ..Rest::NONE };
                let mut head = self.shared_heads.take(head);
                let goes_on = self.write_head(key, end, &mut Block::of_request(&mut head, &rest));
                self.shared_heads.give_back(head);
                goes_on
            }
            Head::Response(head) => self.write_head(key, end, &mut Block::response(&head)),
        }
    }

    /// Writes a head; that of a request gets its id here. False if the stream is over by now.
    pub(super) fn write_head(&mut self, key: StreamKey, end: bool, head: &mut Block<'_>) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        if stream.state == StreamState::Idle {
            if self.next_id > MAX_WINDOW {
                self.give_up(key, ErrorCode::REFUSED_STREAM);
                return false;
            }
            stream.id = self.next_id;
            self.streams.bind_id(self.next_id, key);
            self.next_id += 2;
            self.uncommitted -= 1;
        }
        let Some(stream) = self.streams.get_mut(key) else { return false };
        stream.state.sent_head();
        let id = stream.id;
        self.write_block(id, end, head);
        if end {
            self.sent_end(key);
        }
        if self.side == Side::Client {
            self.admit_pending();
        }
        !end
    }

    /// Writes what ends our half, once the body is out: trailers, or an empty DATA frame, which no window
    /// holds back.
    fn commit_end(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !stream.body.is_empty() || stream.state.local().is_none() {
            return;
        }
        let id = stream.id;
        match core::mem::replace(&mut stream.end, End::Open) {
            End::Open => return,
            End::OnHead | End::OnData => frame::data_header(self.arena.reserve(HEADER_LEN), id, 0, true),
            End::Trailers(trailers) => self.write_block(id, true, &mut Block::trailers(&trailers)),
        }
        if let Some(stream) = self.streams.get_mut(key) {
            stream.end = End::OnData;
        }
        self.sent_end(key);
    }

    pub(super) fn sent_end(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.state.sent_end();
        let ignores_rest = stream.ignores_rest();
        if stream.state.is_closed() {
            self.close(key, Closed::Ended);
        } else if ignores_rest {
            // The response is complete and nobody reads the rest of the request: say so, after it.
            self.reset(key, ErrorCode::NO_ERROR);
        }
    }

    /// Puts the stream where it waits for its next turn, if it has more to send.
    fn requeue(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !stream.has_output() {
            return;
        }
        let (eligible, own, shared) =
            (stream.body.eligible(), stream.send_window.available(), self.send_window.available());
        if !stream.is_sendable() {
            self.stall(key);
        } else if self.dribbles.would(eligible, shared) && !self.dribbles.opens(shared) {
            self.park(key);
        } else if self.dribbles.would(eligible, own) && self.dribbles.is_spent() {
            self.hold(key);
            self.stall(key);
        } else if stream.queued == Queued::No {
            self.sched.go_on(key, stream);
        }
    }

    /// The stream waits for the connection's window.
    fn park(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        self.sched.park(key, stream);
        if self.send_window.available() > 0 {
            self.hold(key);
        }
        self.stall(key);
    }

    /// The connection's window was opened: is it by next to nothing?
    pub(super) fn window_opened(&mut self) {
        if let Some(key) = self.sched.first_parked().filter(|_| !self.is_window_open()) {
            self.hold(key);
        }
    }

    /// The stream dribbles: it tries again after a while, unless a larger window wakes it before.
    fn hold(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !stream.linger_watched {
            stream.linger_watched = true;
            self.lingers.insert(self.now + TRY_AGAIN, key);
        }
    }

    /// The stream waits for a window of the peer's: for no longer than `send_stall_timeout`.
    fn stall(&mut self, key: StreamKey) {
        let Some(timeout) = self.config.send_stall_timeout else { return };
        let Some(stream) = self.streams.get_mut(key) else { return };
        let since = *stream.stalled_since.get_or_insert(self.now);
        if !stream.stall_watched {
            stream.stall_watched = true;
            self.stalls.insert(since + timeout, key);
        }
    }

    /// Writes a field block as HEADERS and, if it does not fit one frame, CONTINUATION, with nothing in
    /// between. From here on it is sent whatever happens: the peer's HPACK table depends on it.
    #[inline(always)]
    pub(super) fn write_block(&mut self, id: u32, end_stream: bool, block: &mut Block<'_>) {
        let Some(len) = block.write_known(&self.encoder, &mut self.arena) else {
            return self.encode_block(id, end_stream, block);
        };
        let header = frame::headers_header(id, len as u32, end_stream, true);
        let run = self.arena.run();
        let start = run.len() - len - HEADER_LEN;
        if let Some(octets) = run.get_mut(start..start + HEADER_LEN) {
            octets.copy_from_slice(&header.to_octets());
        }
    }

    /// The plain way of [`write_block`](Self::write_block).
    #[expect(clippy::indexing_slicing, reason = "the block was written just now, behind room for its header")]
    fn encode_block(&mut self, id: u32, end_stream: bool, block: &mut Block<'_>) {
        let len = block.write(&mut self.encoder, &mut self.arena);
        let limit = self.peer.max_frame_size as usize;
        let first = frame::headers_header(id, len.min(limit) as u32, end_stream, len <= limit);
        let dst = self.arena.run();
        let before = dst.len() - len - HEADER_LEN;
        if len <= limit {
            dst[before..before + HEADER_LEN].copy_from_slice(&first.to_octets());
            return;
        }
        let block = dst[before + HEADER_LEN..].to_vec();
        dst.truncate(before);
        let mut fragments = block.chunks(limit).peekable();
        self.arena.put(&first.to_octets());
        self.arena.put(fragments.next().unwrap_or_default());
        while let Some(fragment) = fragments.next() {
            let header = frame::continuation_header(id, fragment.len() as u32, fragments.peek().is_none());
            self.arena.put(&header.to_octets());
            self.arena.put(fragment);
        }
    }
}
