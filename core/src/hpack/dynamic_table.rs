//! The dynamic table (RFC 7541 §2.3.2, §4), the same for both directions.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::collections::VecDeque;

use bytes::Bytes;

use super::strings::Strings;
use crate::buf::capacity;
use crate::http::{Field, HeaderName};

/// One entry; `T` is what the encoder keeps beside it.
pub(super) struct Entry<T> {
    pub(super) name: HeaderName,
    pub(super) value: Bytes,
    pub(super) extra: T,
}

impl<T> Entry<T> {
    /// Size that the RFC charges for it (§4.1), in bytes.
    fn size(&self) -> usize {
        entry_size(&self.name, &self.value)
    }
}

/// Size of an entry of `name` and `value` (§4.1), in bytes.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "lengths of what lies in memory; sizes are those of the entries that are there"
)]
pub(super) fn entry_size(name: &HeaderName, value: &[u8]) -> usize {
    name.as_bytes().len() + value.len() + Field::OVERHEAD
}

/// Memory for entries that is taken at once, in bytes, to begin with. Neighbours share it: they come and go together.
const CHUNK: usize = 512;

/// How many times the table's size its chunks may take that are full and yet to be free: an end of each is unused, and a
/// field that was handed out keeps its chunk.
const MAX_SIZES: usize = 2;

/// First in, first out, bounded by size.
///
/// The sum of the entries' sizes is at most `max_size`, so there are at most `max_size / 32` of them.
/// Entries are copies: none holds on to the buffer that it was read from. Their strings take at most twice `max_size`,
/// and those of a table that is full take the place of others: no insertion allocates any more.
pub(super) struct DynamicTable<T = ()> {
    /// Newest first.
    entries: VecDeque<Entry<T>>,
    /// Where the entries' names and values are copied to.
    strings: Strings,
    is_sparing: bool,
    size: usize,
    max_size: usize,
    /// Insertions so far; the newest entry is number `inserted`, the first one ever was number 1.
    inserted: u64,
}

impl<T> DynamicTable<T> {
    /// An empty table; allocates nothing.
    pub(super) fn new(max_size: usize) -> Self {
        let strings = Strings::new(CHUNK, max_size.saturating_mul(MAX_SIZES));
        Self { entries: VecDeque::new(), strings, is_sparing: false, size: 0, max_size, inserted: 0 }
    }

    /// Most bytes of memory that a table of `max_size` holds. Half of its places are free at best, or strings are no longer
    /// than half of its size.
    #[expect(clippy::arithmetic_side_effects, reason = "small constants, and three quarters of a number")]
    pub(super) const fn max_bytes(max_size: usize, is_sparing: bool) -> usize {
        let entries = capacity(max_size / Field::OVERHEAD).saturating_mul(size_of::<Entry<T>>());
        let strings = if is_sparing { max_size / 4 * 3 } else { max_size.saturating_mul(MAX_SIZES + 1) };
        entries.saturating_add(strings).saturating_add(2 * CHUNK)
    }

    /// Keeps no memory for strings to come, and lets little be left over.
    pub(super) fn spare(&mut self) {
        self.strings = Strings::sparing();
        self.is_sparing = true;
    }

    /// Gives back memory that no entry lies in.
    pub(super) fn release_idle(&mut self) {
        self.entries.shrink_to_fit();
        self.strings.release_idle();
    }

    pub(super) fn max_size(&self) -> usize {
        self.max_size
    }

    /// Sets the bound, evicting what no longer fits.
    pub(super) fn set_max_size(&mut self, max_size: usize) {
        self.max_size = max_size;
        self.make_room(0);
        if !self.is_sparing {
            self.strings.set_max_full(max_size.saturating_mul(MAX_SIZES));
        }
    }

    /// Bytes in use.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// The entry at `position`, counted from 0, the newest.
    pub(super) fn entry(&self, position: usize) -> Option<&Entry<T>> {
        self.entries.get(position)
    }

    /// Position of the entry with this number, if it is still there.
    pub(super) fn position(&self, number: u64) -> Option<usize> {
        let position = usize::try_from(self.inserted.checked_sub(number)?).ok()?;
        (position < self.entries.len()).then_some(position)
    }

    /// Inserts a copy of the field and returns the entry. A field larger than the whole table empties
    /// it and is not inserted (§4.4), which is no error.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory; sizes are those of the entries that are there"
    )]
    pub(super) fn insert(&mut self, name: &HeaderName, value: &[u8], extra: T) -> Option<&Entry<T>> {
        let size = entry_size(name, value);
        if size > self.max_size {
            self.make_room(usize::MAX);
            return None;
        }
        // A copy first: the name may be that of an entry that makes room.
        let name = name.detached(|text| self.strings.copy(text));
        let entry = Entry { name, value: self.strings.copy(value), extra };
        self.make_room(size);
        self.size += size;
        self.inserted += 1;
        self.entries.push_front(entry);
        self.entries.front()
    }

    /// Evicts the oldest entries until one of `size` bytes fits, or none is left.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory; sizes are those of the entries that are there"
    )]
    fn make_room(&mut self, size: usize) {
        while self.size.saturating_add(size) > self.max_size {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.size -= oldest.size();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: HeaderName = HeaderName::from_static("abcd");

    fn values<T>(table: &DynamicTable<T>) -> alloc::vec::Vec<&[u8]> {
        (0..).map_while(|i| table.entry(i)).map(|entry| &entry.value[..]).collect()
    }

    /// `h2:K6`
    #[test]
    fn the_oldest_entries_make_room() {
        let mut table = DynamicTable::new(80); // two entries of 40
        for value in [b"1111", b"2222", b"3333"] {
            assert!(table.insert(&NAME, value, ()).is_some());
        }
        assert_eq!(values(&table), [b"3333", b"2222"]);
        assert_eq!((table.size(), table.inserted()), (80, 3));
        assert_eq!([1, 2, 3, 4].map(|n| table.position(n)), [None, Some(1), Some(0), None]);
        assert_eq!(table.position(0), None);
    }

    /// `h2:K6`: an entry larger than the table empties it.
    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut table = DynamicTable::new(80);
        table.insert(&NAME, b"1111", ());
        assert!(table.insert(&NAME, &[b'x'; 45], ()).is_none());
        assert!(values(&table).is_empty());
        assert_eq!((table.size(), table.inserted()), (0, 1));
    }

    /// `h2:K8`
    #[test]
    fn a_table_of_size_zero_holds_nothing_until_it_grows_again() {
        let mut table = DynamicTable::new(80);
        table.insert(&NAME, b"1111", ());
        table.set_max_size(0);
        assert!(table.insert(&NAME, b"", ()).is_none());
        assert!(values(&table).is_empty());
        table.set_max_size(36);
        assert!(table.insert(&NAME, b"", ()).is_some());
        assert_eq!(table.size(), 36);
    }

    /// `h2:K13`: nor do the strings of a table that is full take new memory, whatever their lengths.
    #[test]
    fn strings_of_a_full_table_take_the_place_of_others() {
        let mut table = DynamicTable::new(4096);
        let mut held = 0;
        for i in 0..2000 {
            table.insert(&NAME, &[b'v'; 400][..i * 37 % 400], ());
            if i == 200 {
                held = table.strings.bytes();
            }
        }
        assert_eq!(table.strings.bytes(), held);
        assert!(held <= 4096 + 3 * 1024, "{held} bytes");
    }

    /// `h2:K13`, `arch:9`: whatever is inserted, there are at most `max_size / 32` entries.
    #[test]
    fn the_number_of_entries_is_bounded_by_the_size() {
        let mut table = DynamicTable::new(4096);
        let empty = HeaderName::from_wire(Bytes::new());
        for _ in 0..1000 {
            table.insert(&empty, b"", ());
        }
        assert_eq!(values(&table).len(), 128);
    }
}
