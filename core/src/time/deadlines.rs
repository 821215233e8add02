//! Deadlines of calls: many, and most of them never fire.

use alloc::collections::BinaryHeap;
use core::cmp::{Ordering, Reverse};
use core::fmt;

use super::Instant;

/// Deadlines in order, each with the key of what it belongs to.
///
/// A deadline whose owner has ended stays in the heap until it comes up or until the dead outnumber the
/// rest, so ending a call costs O(1) amortised and the queue never holds more than twice as many
/// deadlines as were live at once. Whoever pops a key checks that it is still live.
pub(crate) struct DeadlineQueue<K> {
    heap: BinaryHeap<Reverse<Entry<K>>>,
    /// Breaks ties, so that equal deadlines fire in the order of their insertion.
    inserted: u64,
    /// Deadlines reported dead since the last sweep.
    dead: usize,
}

struct Entry<K> {
    at: Instant,
    sequence: u64,
    key: K,
}

impl<K: Copy> DeadlineQueue<K> {
    /// Size of an entry, in bytes.
    pub(crate) const ENTRY: usize = size_of::<Entry<K>>();

    /// An empty queue; takes no memory.
    pub(crate) const fn new() -> Self {
        Self { heap: BinaryHeap::new(), inserted: 0, dead: 0 }
    }

    /// Adds the deadline of `key`. A key may have several.
    pub(crate) fn insert(&mut self, at: Instant, key: K) {
        self.heap.push(Reverse(Entry { at, sequence: self.inserted, key }));
        self.inserted += 1;
    }

    /// The first deadline. It may belong to an owner that has ended: an early wake, never a late one.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// Removes the first deadline if it is due at `now`.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<K> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry.key)
    }

    /// Notes that the owner of one deadline has ended; `is_live` tells which keys have not.
    pub(crate) fn note_dead(&mut self, mut is_live: impl FnMut(K) -> bool) {
        self.dead += 1;
        if self.dead > self.heap.len() / 2 {
            self.heap.retain(|Reverse(entry)| is_live(entry.key));
            self.dead = 0;
        }
    }

    /// Deadlines held, dead ones included.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Drops every deadline and its memory.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<K> Eq for Entry<K> {}

impl<K> fmt::Debug for DeadlineQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineQueue").field("deadlines", &self.heap.len()).field("dead", &self.dead).finish()
    }
}
