//! All streams of a connection: slots, the index from wire ids to slots, and the memory of closed ids.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::num::NonZeroU32;

use crate::buf::capacity;
use crate::http2::stream::{Closed, Stream, StreamState};

/// Identity of a stream on one connection, from before it has an id until after it was released.
///
/// A slot is reused with another generation, so a stale key never names another stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct StreamKey {
    index: u32,
    generation: NonZeroU32,
}

#[cfg(test)]
impl StreamKey {
    /// A key of no stream, for tests of tables that hold keys.
    pub(crate) const fn for_test() -> Self {
        Self { index: u32::MAX, generation: NonZeroU32::MIN }
    }
}

#[derive(Debug)]
struct Slot {
    generation: NonZeroU32,
    stream: Option<Stream>,
}

/// What is known about an id that has no live stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PastId {
    /// Remembered.
    Closed(Closed),
    /// The peer jumped over it when it opened a higher one (§5.1.1).
    Skipped,
    /// Closed too long ago.
    Forgotten,
}

/// The streams, by key and by id.
///
/// A stream keeps its slot until it is closed *and* released by its owner, so that a peer which resets
/// streams cannot make more calls alive than it may have open. Its id leaves the index when it closes.
#[derive(Debug)]
pub(crate) struct Store {
    slots: Vec<Slot>,
    free: Vec<u32>,
    len: usize,
    ids: IdIndex,
    closed: ClosedIds,
    /// Generation of slots that are new: no key of those that were given back has it.
    generation: NonZeroU32,
}

impl Store {
    pub(crate) fn new(max_closed: usize) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            len: 0,
            ids: IdIndex::default(),
            closed: ClosedIds::new(max_closed),
            generation: NonZeroU32::MIN,
        }
    }

    /// Most bytes of memory that it holds for `streams` at once and `max_closed` ids.
    pub(crate) const fn max_bytes(streams: usize, max_closed: usize) -> usize {
        let places = capacity(streams.saturating_mul(2)).saturating_add(2 * IdIndex::MIN_PLACES);
        let slots = capacity(streams).saturating_mul(size_of::<Slot>() + size_of::<u32>());
        // Those that are on their places, and those that are displaced.
        let ids = places.saturating_mul(2 * size_of::<(u32, u32)>());
        let closed = capacity(max_closed).saturating_mul(size_of::<(u32, Closed)>());
        let skipped = capacity(ClosedIds::MAX_SKIPPED) * size_of::<(u32, u32)>();
        slots.saturating_add(ids).saturating_add(closed).saturating_add(skipped)
    }

    /// Streams that hold a slot.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Streams that are open on the wire.
    pub(crate) fn on_wire(&self) -> usize {
        self.ids.len
    }

    /// A stream with these [beginnings](Stream::new), made where it stays.
    #[inline(always)]
    #[expect(clippy::indexing_slicing, reason = "a free slot, or the one that was pushed")]
    pub(crate) fn insert(&mut self, state: StreamState, send: u32, recv: u32) -> (StreamKey, &mut Stream) {
        self.len += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: self.generation, stream: None });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        let key = StreamKey { index, generation: slot.generation };
        (key, slot.stream.insert(Stream::new(state, send, recv)))
    }

    pub(crate) fn get(&self, key: StreamKey) -> Option<&Stream> {
        let slot = self.slots.get(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.stream.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Stream> {
        let slot = self.slots.get_mut(key.index as usize).filter(|slot| slot.generation == key.generation)?;
        slot.stream.as_mut()
    }

    /// Frees the slot. False if the stream was gone.
    pub(crate) fn remove(&mut self, key: StreamKey) -> bool {
        let Some(slot) = self.slots.get_mut(key.index as usize) else { return false };
        if slot.generation != key.generation || slot.stream.is_none() {
            return false;
        }
        slot.stream = None;
        // After 2^32 reuses a generation comes round again; no key is kept that long.
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(key.index);
        self.len -= 1;
        true
    }

    /// Gives memory back that no stream needs, once there is none. Keys that were given out stay stale.
    pub(crate) fn release_idle(&mut self) {
        if self.len == 0 {
            self.generation = self.slots.iter().map(|slot| slot.generation).fold(self.generation, NonZeroU32::max);
            self.slots = Vec::new();
            self.free = Vec::new();
            self.ids = IdIndex::default();
        }
    }

    /// All streams, in no particular order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (StreamKey, &mut Stream)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let key = StreamKey { index: index as u32, generation: slot.generation };
            slot.stream.as_mut().map(|stream| (key, stream))
        })
    }

    /// The stream is on the wire as `id` from now on.
    #[inline]
    pub(crate) fn bind_id(&mut self, id: u32, key: StreamKey) {
        self.ids.insert(id, key.index);
    }

    /// The live stream with this id.
    #[inline]
    pub(crate) fn by_id(&self, id: u32) -> Option<StreamKey> {
        let index = self.ids.get(id)?;
        let generation = self.slots.get(index as usize)?.generation;
        Some(StreamKey { index, generation })
    }

    /// The id is closed: it leaves the index and is remembered.
    #[inline]
    pub(crate) fn close_id(&mut self, id: u32, how: Closed) {
        self.ids.remove(id);
        self.closed.push(id, how);
    }

    /// Remembers that the peer opened `id` and thereby closed the idle ids from `previous` on (§5.1.1).
    pub(crate) fn note_opened(&mut self, previous: u32, id: u32) {
        self.closed.note_opened(previous, id);
    }

    /// What is known about an id that was used or skipped and is not live.
    pub(crate) fn past(&self, id: u32) -> PastId {
        self.closed.find(id)
    }

    /// Remembers an id that has no live stream as closed in this way, whatever was known about it.
    pub(crate) fn remember(&mut self, id: u32, how: Closed) {
        match self.closed.ring.iter_mut().find(|(known, _)| *known == id) {
            Some(entry) => entry.1 = how,
            None => self.closed.push(id, how),
        }
    }
}

/// Wire id to slot. Ids follow each other, so that nearly every one has a place of its own by its low bits; those whose
/// place was taken when they came are looked for elsewhere.
#[derive(Debug, Default)]
struct IdIndex {
    /// Id 0 marks an empty place. The length is zero or a power of two, at least twice `len`.
    places: Vec<(u32, u32)>,
    len: usize,
    displaced: Displaced,
}

impl IdIndex {
    const MIN_PLACES: usize = 16;

    /// Where `id` would be, if there are places.
    fn home(&self, id: u32) -> usize {
        // The lowest bit tells who opened the stream, and one end opens them all.
        (id >> 1) as usize & self.places.len().wrapping_sub(1)
    }

    fn get(&self, id: u32) -> Option<u32> {
        match self.places.get(self.home(id)) {
            Some(&(found, index)) if found == id && id != 0 => Some(index),
            _ if self.displaced.len == 0 => None,
            _ => self.displaced.get(id),
        }
    }

    fn insert(&mut self, id: u32, index: u32) {
        debug_assert!(id != 0 && self.get(id).is_none());
        self.len += 1;
        if self.len * 2 > self.places.len() {
            self.grow();
        }
        self.place(id, index);
    }

    #[inline(always)]
    fn place(&mut self, id: u32, index: u32) {
        let home = self.home(id);
        match self.places.get_mut(home) {
            Some(place) if place.0 == 0 => *place = (id, index),
            _ => self.displaced.insert(id, index),
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.places.len() * 2).max(Self::MIN_PLACES);
        let old = mem::replace(&mut self.places, alloc::vec![(0, 0); size]);
        let displaced = mem::take(&mut self.displaced);
        for (id, index) in old.into_iter().chain(displaced.places).filter(|(id, _)| *id != 0) {
            self.place(id, index);
        }
    }

    #[inline]
    fn remove(&mut self, id: u32) {
        let home = self.home(id);
        match self.places.get_mut(home) {
            Some(place) if place.0 == id && id != 0 => *place = (0, 0),
            _ if !self.displaced.remove(id) => return,
            _ => {}
        }
        self.len -= 1;
    }
}

/// Ids that did not find their place free, as when a stream lives much longer than those around it: open addressing with
/// linear probing. Ids are scattered, for a run of neighbours makes the oldest of them slow to remove; a peer that picks
/// colliding ids makes a lookup as slow as a scan of its own streams, no worse.
#[derive(Debug, Default)]
struct Displaced {
    /// Id 0 marks an empty place. The length is zero or a power of two, at least twice `len`.
    places: Vec<(u32, u32)>,
    len: usize,
}

impl Displaced {
    const MIN_PLACES: usize = 16;

    fn home(&self, id: u32) -> usize {
        const MULTIPLIER: u32 = 0x9e37_79b9; // 2^32 / golden ratio: neighbours lie far apart
        (id.wrapping_mul(MULTIPLIER) >> (u32::BITS - self.places.len().trailing_zeros())) as usize
    }

    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    #[expect(clippy::indexing_slicing, reason = "a masked number is below the length, a power of two")]
    fn find(&self, id: u32) -> Option<usize> {
        if self.places.is_empty() || id == 0 {
            return None;
        }
        let mut at = self.home(id);
        loop {
            match self.places[at].0 {
                0 => return None,
                found if found == id => return Some(at),
                _ => at = (at + 1) & self.mask(),
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "`find` returns a place")]
    fn get(&self, id: u32) -> Option<u32> {
        self.find(id).map(|at| self.places[at].1)
    }

    fn insert(&mut self, id: u32, index: u32) {
        debug_assert!(id != 0 && self.find(id).is_none());
        if (self.len + 1) * 2 > self.places.len() {
            let size = (self.places.len() * 2).max(Self::MIN_PLACES);
            let old = mem::replace(&mut self.places, alloc::vec![(0, 0); size]);
            for (id, index) in old.into_iter().filter(|(id, _)| *id != 0) {
                self.place(id, index);
            }
        }
        self.place(id, index);
        self.len += 1;
    }

    #[expect(clippy::indexing_slicing, reason = "a masked number is below the length, a power of two")]
    fn place(&mut self, id: u32, index: u32) {
        let mut at = self.home(id);
        while self.places[at].0 != 0 {
            at = (at + 1) & self.mask();
        }
        self.places[at] = (id, index);
    }

    /// False if it was not there.
    #[expect(clippy::indexing_slicing, reason = "a masked number is below the length, a power of two")]
    fn remove(&mut self, id: u32) -> bool {
        let Some(mut hole) = self.find(id) else { return false };
        self.len -= 1;
        // Close the gap: an entry further on moves up unless its home lies behind the hole.
        let mut at = hole;
        loop {
            self.places[hole] = (0, 0);
            loop {
                at = (at + 1) & self.mask();
                let (moving, _) = self.places[at];
                if moving == 0 {
                    return true;
                }
                let from_home = at.wrapping_sub(self.home(moving)) & self.mask();
                let from_hole = at.wrapping_sub(hole) & self.mask();
                if from_home >= from_hole {
                    break;
                }
            }
            self.places[hole] = self.places[at];
            hole = at;
        }
    }
}

/// The last closed ids and how they ended, and the ranges the peer jumped over.
///
/// Only late frames look here; that is what tells an honest race from a fault without timers.
#[derive(Debug)]
struct ClosedIds {
    /// A ring once it is as long as it may be.
    ring: Vec<(u32, Closed)>,
    max: usize,
    /// The oldest entry of the ring.
    oldest: usize,
    skipped: VecDeque<(u32, u32)>,
}

impl ClosedIds {
    const MAX_SKIPPED: usize = 8;

    fn new(max: usize) -> Self {
        Self { ring: Vec::new(), max, oldest: 0, skipped: VecDeque::new() }
    }

    fn push(&mut self, id: u32, how: Closed) {
        if self.ring.len() < self.max {
            return self.ring.push((id, how));
        }
        if let Some(oldest) = self.ring.get_mut(self.oldest) {
            *oldest = (id, how);
            self.oldest = if self.oldest + 1 < self.max { self.oldest + 1 } else { 0 };
        }
    }

    fn note_opened(&mut self, previous: u32, id: u32) {
        // Client ids are odd; before the first one `previous` is 0.
        let first = if previous == 0 { 1 } else { previous.saturating_add(2) };
        if first < id {
            if self.skipped.len() == Self::MAX_SKIPPED {
                self.skipped.pop_front();
            }
            self.skipped.push_back((first, id));
        }
    }

    fn find(&self, id: u32) -> PastId {
        // Late frames are mostly for what closed last.
        let (newer, older) = self.ring.split_at(self.oldest);
        if let Some((_, how)) = newer.iter().rev().chain(older.iter().rev()).find(|(known, _)| *known == id) {
            return PastId::Closed(*how);
        }
        if self.skipped.iter().any(|&(from, to)| (from..to).contains(&id)) {
            return PastId::Skipped;
        }
        PastId::Forgotten
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    fn insert(store: &mut Store) -> StreamKey {
        store.insert(StreamState::Idle, 0, 0).0
    }

    /// `arch:3.1`: a stale key never names another stream.
    #[test]
    fn a_stale_key_never_names_another_stream() {
        let mut store = Store::new(4);
        let old = insert(&mut store);
        assert!(store.remove(old));
        let new = insert(&mut store);
        assert!(store.get(old).is_none() && store.get_mut(old).is_none());
        assert!(!store.remove(old));
        assert!(store.get(new).is_some());
        assert_eq!(store.len(), 1);
    }

    /// arch:3.1, `h2:P9`: what many streams were in is given back, and their keys stay stale.
    #[test]
    fn memory_is_given_back_when_there_is_no_stream() {
        let mut store = Store::new(0);
        let old: Vec<StreamKey> = (0..100).map(|_| insert(&mut store)).collect();
        for (n, key) in old.iter().enumerate() {
            store.bind_id(2 * n as u32 + 1, *key);
        }
        store.release_idle();
        assert_eq!(store.len(), 100, "nothing happens while there are streams");
        for (n, key) in old.iter().enumerate() {
            store.close_id(2 * n as u32 + 1, Closed::Ended);
            assert!(store.remove(*key));
        }
        store.release_idle();
        assert_eq!((store.slots.capacity(), store.free.capacity(), store.ids.places.capacity()), (0, 0, 0));
        let new = insert(&mut store);
        assert!(old.iter().all(|key| store.get(*key).is_none()) && store.get(new).is_some());
    }

    /// The index agrees with a map, also when ids collide and leave in any order.
    #[test]
    fn the_id_index_agrees_with_a_map() {
        fn property(ops: Vec<(u8, bool)>) -> bool {
            // Few homes, many collisions, there and among those that are displaced.
            let places = || alloc::vec![(0, 0); IdIndex::MIN_PLACES];
            let index = IdIndex { places: places(), ..IdIndex::default() };
            let displaced = Displaced { places: places(), len: 0 };
            let collide = |id: &u32| index.home(*id) < 2 && displaced.home(*id) % 8 < 2;
            let ids: Vec<u32> = (1..).step_by(2).filter(collide).take(24).collect();
            let mut index = IdIndex::default();
            let mut model = BTreeMap::new();
            for (step, (n, insert)) in ops.into_iter().enumerate() {
                let id = ids[usize::from(n) % ids.len()];
                if insert && !model.contains_key(&id) {
                    index.insert(id, step as u32);
                    model.insert(id, step as u32);
                } else if !insert {
                    index.remove(id);
                    model.remove(&id);
                }
                if index.len != model.len() || ids.iter().any(|&id| index.get(id) != model.get(&id).copied()) {
                    return false;
                }
            }
            true
        }
        quickcheck::quickcheck(property as fn(Vec<(u8, bool)>) -> bool);
    }

    /// `h2:T10`, `arch:9` `max_closed_streams`: closed ids are remembered up to the limit, skipped ranges
    /// as ranges.
    #[test]
    fn closed_ids_are_remembered_up_to_the_limit() {
        let mut store = Store::new(2);
        store.note_opened(0, 13);
        for id in [13, 15, 17] {
            store.close_id(id, Closed::Ended);
        }
        assert_eq!(store.past(13), PastId::Forgotten);
        assert_eq!(store.past(15), PastId::Closed(Closed::Ended));
        assert_eq!(store.past(1), PastId::Skipped);
        assert_eq!(store.past(11), PastId::Skipped);
        store.remember(17, Closed::WeReset);
        assert_eq!(store.past(17), PastId::Closed(Closed::WeReset));
        for id in (100..200).map(|n| n * 4 + 1) {
            store.note_opened(id - 4, id);
        }
        assert!(store.closed.skipped.len() <= ClosedIds::MAX_SKIPPED);
    }
}
