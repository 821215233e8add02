//! Header blocks that are recognised instead of decoded.
//!
//! A peer that makes the same call again sends the same few octets, all of them indices into a table that has not
//! changed. A block that left HPACK's tables as they were means the same list for as long as they stay so: its octets,
//! and the [generation](crate::hpack::Decoder::generation) of the tables, stand for the list. What it came to is
//! shared, so that who receives it may recognise it in turn, by its address.
//!
//! A block is kept when it is seen for the second time: those that hold a time or an identifier of their own come only
//! once, and must not drive out the rest. The plain way, [`Decoder`](crate::hpack::Decoder) and
//! [`FieldList`](crate::http2::validate::FieldList), gives the same answers; it is what the tests compare with.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::http::hash;
use crate::http2::validate::{List, ListKind};

/// Longest block that is kept, in octets. One of indices has an octet a field.
const MAX_OCTETS: usize = 256;
/// Largest list that is kept, by the count of SETTINGS_MAX_HEADER_LIST_SIZE.
pub(crate) const MAX_LIST: usize = 4 * 1024;

/// Blocks and what they came to, at most `Config::max_known_heads`.
#[derive(Debug)]
pub(super) struct Memo {
    /// A block has its place by its hash. Made when the first one is seen.
    places: Vec<Place>,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Place {
    /// Hash of the last block that was not known.
    seen: u32,
    /// Boxed: most places have none.
    known: Option<Box<Known>>,
}

#[derive(Debug)]
struct Known {
    kind: ListKind,
    generation: u64,
    octets: Box<[u8]>,
    list: List,
}

impl Known {
    /// Is it what stands for such a block now?
    fn is(&self, kind: ListKind, generation: u64, octets: &[u8]) -> bool {
        *self.octets == *octets && self.generation == generation && self.kind == kind
    }
}

/// The answer of [`Memo::recall`].
pub(super) enum Recalled {
    Known(List),
    /// To be decoded, and to be [kept](Memo::keep) if that changes nothing in the tables.
    Again(Candidate),
    Unknown,
}

/// A block that was seen before.
pub(super) struct Candidate {
    place: usize,
    kind: ListKind,
    generation: u64,
}

impl Memo {
    pub(super) fn new(capacity: usize) -> Self {
        Self { places: Vec::new(), capacity }
    }

    /// Forgets all blocks, and gives their memory back.
    pub(super) fn clear(&mut self) {
        self.places = Vec::new();
    }

    /// Most bytes of memory that it holds, the lists left out.
    pub(crate) const fn max_bytes(capacity: usize) -> usize {
        capacity.saturating_mul(size_of::<Place>() + size_of::<Known>() + MAX_OCTETS)
    }

    /// The list of a block that is known. Leaves no trace of one that is not.
    pub(super) fn known(&self, kind: ListKind, generation: u64, octets: &[u8]) -> Option<&List> {
        let known = self.places.get(self.place(hash(0, octets)))?.known.as_ref()?;
        known.is(kind, generation, octets).then_some(&known.list)
    }

    /// Where a block has its place, if there are any.
    fn place(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.places.len() as u64) >> 32) as usize
    }

    /// What is known of a block.
    #[inline]
    pub(super) fn recall(&mut self, kind: ListKind, generation: u64, octets: &[u8]) -> Recalled {
        if octets.len() > MAX_OCTETS || self.capacity == 0 {
            return Recalled::Unknown;
        }
        if self.places.is_empty() {
            self.places.resize_with(self.capacity, Place::default);
        }
        let hash = hash(0, octets);
        let at = self.place(hash);
        let Some(place) = self.places.get_mut(at) else { return Recalled::Unknown };
        if let Some(known) = &place.known {
            if known.is(kind, generation, octets) {
                return Recalled::Known(known.list.clone());
            }
        }
        if core::mem::replace(&mut place.seen, hash) != hash {
            return Recalled::Unknown;
        }
        Recalled::Again(Candidate { place: at, kind, generation })
    }

    /// Keeps what a block came to, a list of `size`, unless that left the tables in another `generation`.
    pub(super) fn keep(&mut self, candidate: Candidate, octets: &[u8], generation: u64, size: usize, list: &List) {
        let Candidate { place, kind, .. } = candidate;
        if generation != candidate.generation || size > MAX_LIST {
            return;
        }
        if let Some(place) = self.places.get_mut(place) {
            let octets = Box::from(octets);
            place.known = Some(Box::new(Known { kind, generation, octets, list: list.clone() }));
        }
    }
}
