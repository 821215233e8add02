//! Windows raised beyond what streams begin with: for large messages, and for long ways.
//!
//! **Large messages.** A stream's credit returns when the application takes a whole message, so a message larger than the
//! stream's window could never arrive. Whoever waits for it says how many octets are missing, and the
//! window is raised by what it lacks: a *reservation*, taken back when the message is consumed.
//!
//! One octet more is granted than the message has. A sender that looks for the end of its data only while the
//! window is open (nghttp2: Node, for one) could otherwise not end the stream after a message that fills it.
//!
//! Reservations are admitted oldest first while their sum stays within `max_reserved`. A client
//! always admits one incomplete message, whatever finished but unread answers hold, for its application
//! opened all these calls and may be waiting for this one. A server is strict, for the peer opened them.
//!
//! **Long ways.** A stream that is read grows towards what the way holds ([`bdp`](super::bdp)), by twice what was read
//! since the last update: who reads little grows little. Growth comes out of what reservations leave of `max_reserved`,
//! less the largest message, which therefore never waits for it. Streams share it by dynamic thresholds (Choudhury and
//! Hahne, 1998): none grows beyond a multiple of what is still free, and one that has more, because others came or
//! messages wait, returns some with each update. So some is always free for the next, and equals end up equal.
//!
//! **What is held.** Octets are returned as they are read, so that `max_reserved` bounds, beside the windows that streams
//! begin with, what they may hold. A stream that has ended keeps what its unread octets need, until they are read or it
//! is released.

use alloc::collections::VecDeque;

use crate::config::Config;
use crate::error::ErrorCode;
use crate::http2::Side;
use crate::http2::connection::{Http2, note_update};
use crate::http2::frame::MAX_WINDOW;
use crate::http2::store::{Store, StreamKey};
use crate::http2::stream::Stream;

#[derive(Debug)]
pub(crate) struct Reservations {
    side: Side,
    max: usize,
    /// Growth ends where the sum of both is this.
    max_with_growth: usize,
    /// Octets by which windows are raised now, for messages and for long ways.
    total: usize,
    /// Streams with a reservation whose message is incomplete.
    incomplete: usize,
    waiting: VecDeque<StreamKey>,
}

/// Keeps the window open behind a message, so that its sender can end the stream.
const FOR_THE_END: usize = 1;

/// What a message may need beside its octets: the prefix, and the room for the end.
const AROUND_A_MESSAGE: usize = 5 + FOR_THE_END;

/// No stream grows beyond this many times what is still free.
const SHARE: u64 = 3;

/// What became of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The window suffices, or its credit does once announced, or the wish waits.
    Noted,
    /// Even alone it exceeds `max_reserved`, and this is a server.
    Impossible,
}

impl Reservations {
    pub(crate) fn new(side: Side, config: &Config) -> Self {
        let max = config.max_reserved;
        let largest = config.max_recv_message.saturating_add(AROUND_A_MESSAGE);
        let max_with_growth = max.saturating_sub(largest);
        Self { side, max, max_with_growth, total: 0, incomplete: 0, waiting: VecDeque::new() }
    }

    /// Most octets by which windows may be raised, the message left out that a client admits in any case.
    pub(crate) fn limit(&self) -> usize {
        self.max
    }

    /// Gives back memory that nothing is queued in.
    pub(crate) fn release_idle(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// Does nobody wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Octets by which windows are raised now.
    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// The stream's owner misses `n` octets of its message.
    pub(crate) fn need(&mut self, key: StreamKey, stream: &mut Stream, n: usize) -> Outcome {
        self.set_need(stream, n);
        let lack = Self::lack(stream);
        if stream.recv_window.window() < Self::wanted(stream) {
            // Pending credit may be all that is missing.
            stream.recv_window.hurry();
        }
        if lack == 0 || stream.awaits_reservation {
            return Outcome::Noted;
        }
        if self.side == Side::Server && lack as usize > self.max {
            return Outcome::Impossible;
        }
        stream.awaits_reservation = true;
        self.waiting.push_back(key);
        Outcome::Noted
    }

    /// DATA of `n` octets begins to arrive on the stream: the window has paid for it.
    pub(crate) fn received(&mut self, stream: &mut Stream, n: usize) {
        if stream.need > 0 {
            self.set_need(stream, (stream.need as usize).saturating_sub(n));
        }
    }

    /// The application took `n` octets: credit, less what the reservation takes back.
    pub(crate) fn consumed(&mut self, stream: &mut Stream, n: usize) {
        let n = n.min(usize::try_from(stream.recv_window.buffered()).unwrap_or(0));
        let taken = u32::try_from(n).unwrap_or(u32::MAX);
        stream.taken = stream.taken.saturating_add(taken);
        self.take_back(stream, taken.min(stream.reserved));
        stream.recv_window.release(n);
    }

    /// The stream was read up to an update of its window, which would better be larger by `wish` octets.
    pub(crate) fn grow(&mut self, stream: &mut Stream, wish: u32) {
        let free = if self.waiting.is_empty() { self.max_with_growth.saturating_sub(self.total) } else { 0 };
        let fair = u64::try_from(free).unwrap_or(u64::MAX).saturating_mul(SHARE);
        let grown = u64::from(stream.grown);
        // The step after which the stream has SHARE times what is free then.
        if fair >= grown {
            let n = ((fair - grown) / (SHARE + 1)).min(wish.min(stream.taken.saturating_mul(2)).into()) as u32;
            if n > 0 {
                stream.grown += n;
                self.total += n as usize;
                stream.recv_window.raise(n);
            }
        } else {
            // What was announced is the peer's.
            let credit = u64::try_from(stream.recv_window.credit()).unwrap_or(0);
            let n = (grown - fair).div_ceil(SHARE + 1).min(credit) as u32;
            stream.grown -= n;
            self.total -= n as usize;
            stream.recv_window.lower(n);
        }
    }

    /// The stream receives nothing any more. What is unread of it is still paid for.
    pub(crate) fn ended(&mut self, key: StreamKey, stream: &mut Stream) {
        self.want_nothing(key, stream);
        let raised = i64::from(stream.reserved) + i64::from(stream.grown);
        let base = stream.recv_window.target() - raised;
        let kept = (stream.recv_window.buffered() - base).clamp(0, raised);
        stream.reserved += core::mem::take(&mut stream.grown);
        self.take_back(stream, (raised - kept) as u32);
    }

    /// Nobody reads the stream any more.
    pub(crate) fn forget(&mut self, key: StreamKey, stream: &mut Stream) {
        self.want_nothing(key, stream);
        stream.reserved += core::mem::take(&mut stream.grown);
        self.take_back(stream, stream.reserved);
    }

    fn want_nothing(&mut self, key: StreamKey, stream: &mut Stream) {
        self.set_need(stream, 0);
        if core::mem::take(&mut stream.awaits_reservation) {
            self.waiting.retain(|&waiting| waiting != key);
        }
    }

    /// Admits the next reservation that may be admitted now, and returns its stream: an update is due.
    pub(crate) fn admit(&mut self, store: &mut Store) -> Option<StreamKey> {
        loop {
            let key = *self.waiting.front()?;
            let Some(stream) = store.get_mut(key) else {
                self.waiting.pop_front();
                continue;
            };
            let lack = Self::lack(stream);
            let fits = self.total.saturating_add(lack as usize) <= self.max;
            // What is left of an earlier reservation of its own does not stand in its way.
            let own = usize::from(stream.reserved > 0 && stream.need > 0);
            let first_incomplete = self.side == Side::Client && self.incomplete == own;
            if lack > 0 && !fits && !first_incomplete {
                return None;
            }
            self.waiting.pop_front();
            stream.awaits_reservation = false;
            if lack == 0 {
                continue;
            }
            if stream.reserved == 0 {
                self.incomplete += 1;
            }
            stream.reserved += lack;
            self.total += lack as usize;
            stream.recv_window.raise(lack);
            return Some(key);
        }
    }

    /// Octets by which the window falls short of what is needed.
    fn lack(stream: &Stream) -> u32 {
        let lack = u32::try_from(Self::wanted(stream) - stream.recv_window.reachable()).unwrap_or(0);
        lack.min((u32::MAX - stream.reserved).saturating_sub(stream.grown))
    }

    /// The window under which the message arrives and its sender goes on.
    fn wanted(stream: &Stream) -> i64 {
        let for_the_end = if stream.need > 0 { FOR_THE_END as i64 } else { 0 };
        (i64::from(stream.need) + for_the_end).min(i64::from(MAX_WINDOW))
    }

    fn set_need(&mut self, stream: &mut Stream, n: usize) {
        let counted = stream.reserved > 0 && stream.need > 0;
        // More than any window holds is as good as all of it.
        stream.need = u32::try_from(n).unwrap_or(u32::MAX);
        let counts = stream.reserved > 0 && n > 0;
        self.incomplete = self.incomplete + usize::from(counts) - usize::from(counted);
    }

    fn take_back(&mut self, stream: &mut Stream, n: u32) {
        if n == 0 {
            return;
        }
        let was_incomplete = stream.need > 0;
        stream.reserved -= n;
        self.total -= n as usize;
        stream.recv_window.lower(n);
        if stream.reserved == 0 && was_incomplete {
            self.incomplete -= 1;
        }
    }
}

impl Http2 {
    /// The application took `n` octets of what [`Incoming::Data`](super::connection::Incoming::Data) brought.
    pub(crate) fn consumed(&mut self, key: StreamKey, n: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        self.reservations.consumed(stream, n);
        note_update(&mut self.updates, key, stream);
        self.admit_reservations();
    }

    /// The call misses `n` octets of the message it waits for.
    pub(crate) fn need(&mut self, key: StreamKey, n: usize) {
        // Behind the end nothing comes, whatever room there is.
        if self.is_end_arriving(key) {
            return;
        }
        let n = n.saturating_sub(self.arriving(key));
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.released || stream.state.remote().is_none() {
            return;
        }
        match self.reservations.need(key, stream, n) {
            Outcome::Noted => {
                self.note_update(key);
                self.admit_reservations();
            }
            Outcome::Impossible => self.give_up(key, ErrorCode::ENHANCE_YOUR_CALM),
        }
    }

    /// Octets of DATA that the peer may still send on the stream without an update from us.
    pub(crate) fn may_come(&self, key: StreamKey) -> usize {
        let window = self.streams.get(key).map_or(0, |stream| stream.recv_window.window());
        usize::try_from(window).unwrap_or(0).saturating_add(self.arriving(key))
    }
}
