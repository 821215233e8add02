//! Whose turn it is to send.
//!
//! Four FIFO queues of streams. `pending` holds a client's calls that wait for one of the streams the
//! peer allows; `ready` those that have something to send; `bulk` those that have more after a turn; `parked` those that
//! have DATA while the connection's window is exhausted. A turn is a head, if one waits, and one DATA frame, or a few if
//! they are all. Parked streams are the first to have a turn when the window opens again, so the stream that
//! has waited longest gets the credit. A stream is in at most one queue, which it knows.
//!
//! **Small before large.** `ready` goes before `bulk`, so that what is short waits for no body, but `bulk` has a frame for
//! each frame's worth of octets that went before it: neither starves the other.
//!
//! **One body after the other.** The first in `bulk` stays there for a [`SPELL`] of frames, and no longer than
//! [`SPELL_TIME`]. Bodies that are sent in turns of one frame are all received at once, and all are unfinished until the
//! last round: as many messages leave the caches of both sides before they are read. Sent one after the other they are
//! complete earlier on average; a body that comes behind several others is complete later than by turns. Where a body takes
//! long, as on a slow way, the time makes the spells short.

use alloc::collections::VecDeque;
use core::time::Duration;

use crate::http2::settings::MAX_DATA;
use crate::http2::store::{Store, StreamKey};
use crate::http2::stream::{Queued, Stream, StreamState};
use crate::time::Instant;

/// Frames that a large body may send before the next one's: 1 MiB.
const SPELL: u32 = 64;

/// How long a large body may be the first.
const SPELL_TIME: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    pending: VecDeque<StreamKey>,
    ready: VecDeque<StreamKey>,
    bulk: VecDeque<StreamKey>,
    parked: VecDeque<StreamKey>,
    /// Octets of output that went before `bulk` since it had a turn.
    before_bulk: usize,
    turn: Turn,
    spell: Option<Spell>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    /// Of a stream that has no more than it sends now, as far as is known.
    #[default]
    Short,
    /// The first of one that has more.
    First,
    /// One of `bulk`.
    Bulk,
}

/// Of the stream that is first in `bulk`, or was until its turn.
#[derive(Clone, Copy, Debug)]
struct Spell {
    key: StreamKey,
    /// Turns it had.
    turns: u32,
    ends: Instant,
}

impl Scheduler {
    /// Calls that wait for a stream.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Puts `stream` at the end of `ready` if it has something to send that its own window lets through.
    #[inline]
    pub(crate) fn enqueue(&mut self, key: StreamKey, stream: &mut Stream) {
        if stream.queued == Queued::No && stream.is_sendable() {
            stream.queued = Queued::Ready;
            self.ready.push_back(key);
        }
    }

    /// Puts a stream that has no slot yet at the end of `pending`.
    pub(crate) fn wait_for_slot(&mut self, key: StreamKey, stream: &mut Stream) {
        debug_assert_eq!(stream.queued, Queued::No);
        stream.queued = Queued::Pending;
        self.pending.push_back(key);
    }

    /// The call that has waited longest for a stream.
    pub(crate) fn next_pending(&mut self, store: &mut Store) -> Option<StreamKey> {
        Self::pop(&mut self.pending, store)
    }

    /// Sends up to `excess` calls back to the front of `pending`, the youngest first: the peer takes fewer
    /// streams than when they got a slot, and their heads are not written yet. Returns how many.
    pub(crate) fn withdraw(&mut self, excess: usize, store: &mut Store) -> usize {
        let mut withdrawn = 0;
        for at in (0..self.ready.len()).rev() {
            if withdrawn == excess {
                break;
            }
            let Some(&key) = self.ready.get(at) else { continue };
            let Some(stream) = store.get_mut(key).filter(|stream| stream.state == StreamState::Idle) else { continue };
            stream.queued = Queued::Pending;
            self.ready.remove(at);
            self.pending.push_front(key);
            withdrawn += 1;
        }
        withdrawn
    }

    /// Puts a stream that had a turn, and has more that may be sent, where it waits for the next.
    pub(crate) fn go_on(&mut self, key: StreamKey, stream: &mut Stream) {
        debug_assert_eq!(stream.queued, Queued::No);
        stream.queued = Queued::Bulk;
        if self.turn == Turn::Short {
            self.turn = Turn::First;
        }
        match self.spell {
            // It stays the first; whether its spell is over is seen when its turn comes.
            Some(spell) if spell.key == key => self.bulk.push_front(key),
            _ => self.bulk.push_back(key),
        }
    }

    /// The stream whose turn it is. `window_open` tells whether DATA can be sent at all.
    pub(crate) fn next(&mut self, window_open: bool, store: &mut Store, now: Instant) -> Option<StreamKey> {
        let parked = if window_open { Self::pop(&mut self.parked, store) } else { None };
        let bulk_is_next = self.before_bulk >= MAX_DATA && !self.bulk.is_empty();
        let first = if bulk_is_next { parked } else { parked.or_else(|| Self::pop(&mut self.ready, store)) };
        self.turn = if first.is_some() { Turn::Short } else { Turn::Bulk };
        first.or_else(|| self.next_bulk(store, now))
    }

    /// The turn took `octets` of output. The first of a large body is not one that others of its kind wait for.
    pub(crate) fn took(&mut self, octets: usize) {
        self.before_bulk = match self.turn {
            // Where no body waits nothing is counted, as nothing is of what is written in place.
            Turn::Short if self.bulk.is_empty() => 0,
            Turn::Short => self.before_bulk.saturating_add(octets),
            Turn::First => self.before_bulk,
            Turn::Bulk => 0,
        };
    }

    fn next_bulk(&mut self, store: &mut Store, now: Instant) -> Option<StreamKey> {
        if let Some(Spell { key, .. }) = self.spell.take_if(|spell| spell.turns >= SPELL || spell.ends <= now) {
            if self.bulk.front() == Some(&key) {
                self.bulk.rotate_left(1);
            }
        }
        let key = Self::pop(&mut self.bulk, store)?;
        match &mut self.spell {
            Some(spell) if spell.key == key => spell.turns += 1,
            spell => *spell = Some(Spell { key, turns: 1, ends: now + SPELL_TIME }),
        }
        Some(key)
    }

    /// The stream's DATA waits for the connection's window.
    pub(crate) fn park(&mut self, key: StreamKey, stream: &mut Stream) {
        debug_assert_eq!(stream.queued, Queued::No);
        stream.queued = Queued::Parked;
        self.parked.push_back(key);
    }

    /// The stream that waits longest for the connection's window.
    pub(crate) fn first_parked(&self) -> Option<StreamKey> {
        self.parked.front().copied()
    }

    /// Takes a stream out of its queue.
    pub(crate) fn remove(&mut self, key: StreamKey, stream: &mut Stream) {
        let queue = match core::mem::replace(&mut stream.queued, Queued::No) {
            Queued::No => return,
            Queued::Pending => &mut self.pending,
            Queued::Ready => &mut self.ready,
            Queued::Bulk => &mut self.bulk,
            Queued::Parked => &mut self.parked,
        };
        // Cancelled calls are usually the youngest or the oldest.
        if queue.back() == Some(&key) {
            queue.pop_back();
        } else if let Some(at) = queue.iter().position(|&queued| queued == key) {
            queue.remove(at);
        }
    }

    /// Gives back memory that nothing is queued in.
    pub(crate) fn release_idle(&mut self) {
        for queue in [&mut self.pending, &mut self.ready, &mut self.bulk, &mut self.parked] {
            queue.shrink_to_fit();
        }
    }

    /// Would [`next`](Self::next) return a stream?
    pub(crate) fn is_runnable(&self, window_open: bool) -> bool {
        !self.ready.is_empty() || !self.bulk.is_empty() || (window_open && !self.parked.is_empty())
    }

    fn pop(queue: &mut VecDeque<StreamKey>, store: &mut Store) -> Option<StreamKey> {
        let key = queue.pop_front()?;
        let stream = store.get_mut(key);
        debug_assert!(stream.is_some(), "a queued stream has a slot");
        stream?.queued = Queued::No;
        Some(key)
    }
}
