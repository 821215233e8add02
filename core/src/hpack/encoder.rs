//! Encoding of header blocks (RFC 7541 §6): which representation each field gets, and the tables for it.

use alloc::vec;
use alloc::vec::Vec;
use core::mem;

use bytes::{BufMut, BytesMut};

use super::dynamic_table::{DynamicTable, Entry, entry_size};
use super::policy::Policy;
use super::static_table::{self, Match};
use super::{DEFAULT_TABLE_SIZE, FIRST_DYNAMIC, huffman, integer};
use crate::http::{Field, HeaderName, hash};

/// Paths in the table beyond which another one must be seen twice: a client with many methods would
/// otherwise evict everything else.
const MAX_PATHS: usize = 24;

/// Most fields that are remembered for [`Policy::Again`], by a hash each; fewer with a small table.
const SIGHTINGS: usize = 256;

/// Sightings that share a row. With one each, two fields that repeat and happen to fall on the same place would never be
/// known again, and the size of blocks would hang on what the hash makes of them.
const WAYS: usize = 4;

/// Chains for the names that are not known.
const CUSTOM_CHAINS: usize = 32;

/// Encodes header blocks in the order in which they are sent.
///
/// Every block must reach the peer once begun, whatever becomes of its stream: the peer's table
/// depends on it.
///
/// Memory: the dynamic table (at most `own_cap` bytes by the RFC's count, and the strings of it in chunks that take no
/// more than twice that) and about 1.2 KiB, both from the first insertion on; and up to 1 KiB from the first field on that no RPC protocol knows.
pub struct Encoder {
    /// Each entry keeps the number of the next older one of its chain.
    table: DynamicTable<u64>,
    /// Number of the newest entry of each chain: one for each known name, then [`CUSTOM_CHAINS`].
    /// Numbers of entries that are gone end a chain, so nothing is ever removed.
    chains: Vec<u64>,
    /// Hashes of fields that were seen. Those that fall on the same row push each other out, the latest first in it.
    sightings: Vec<[u32; WAYS]>,
    /// Largest size that we use, whatever the peer allows.
    own_cap: usize,
    /// The peer once allowed less than we used: from then on the table does not grow.
    shrunk: bool,
    /// The table's size is not what the peer believes.
    update_due: bool,
    /// Counts the states of the table.
    generation: u64,
    /// What was written since `begin` depends on the table alone, and left it as it was.
    is_repeatable: bool,
}

/// Where the dynamic table holds a field, as HPACK indices.
#[derive(Clone, Copy, Default)]
struct Found {
    field: Option<usize>,
    name: Option<usize>,
}

impl Encoder {
    /// Most bytes that [`begin`](Self::begin) appends.
    pub const MAX_BEGIN_LEN: usize = integer::MAX_LEN;

    /// An encoder whose table never exceeds `own_cap` bytes.
    pub fn new(own_cap: u32) -> Self {
        let size = if own_cap < DEFAULT_TABLE_SIZE { own_cap } else { DEFAULT_TABLE_SIZE };
        Self {
            table: DynamicTable::new(size as usize),
            chains: Vec::new(),
            sightings: Vec::new(),
            own_cap: own_cap as usize,
            shrunk: false,
            update_due: size != DEFAULT_TABLE_SIZE,
            generation: 0,
            is_repeatable: false,
        }
    }

    /// Most bytes of memory that an encoder with this cap holds.
    pub(crate) const fn max_bytes(own_cap: u32) -> usize {
        if (own_cap as usize) < Field::OVERHEAD {
            return 0;
        }
        let chains = (HeaderName::KNOWN + CUSTOM_CHAINS) * size_of::<u64>();
        DynamicTable::<u64>::max_bytes(own_cap as usize, false).saturating_add(chains + SIGHTINGS * size_of::<u32>())
    }

    /// Gives back memory that is needed for no entry; which fields were seen is forgotten with it.
    pub(crate) fn release_idle(&mut self) {
        self.sightings = Vec::new();
        self.table.release_idle();
    }

    /// Obeys the peer's SETTINGS_HEADER_TABLE_SIZE; the next block begins with an update if one is due.
    ///
    /// After it was lowered once the table stays at the lowest size seen: deployed decoders refuse
    /// the pair of updates that growing again would take.
    pub fn set_peer_max_table_size(&mut self, size: u32) {
        let size = self.own_cap.min(size as usize);
        let current = self.table.max_size();
        if size < current || (size > current && !self.shrunk) {
            self.shrunk |= size < current;
            self.table.set_max_size(size);
            self.update_due = true;
            self.generation += 1;
        }
    }

    /// Begins a block: appends the table size update that is due, at most
    /// [`MAX_BEGIN_LEN`](Self::MAX_BEGIN_LEN) bytes.
    pub fn begin(&mut self, dst: &mut BytesMut) {
        self.is_repeatable = !self.update_due;
        if self.update_due {
            self.update_due = false;
            integer::encode(self.table.max_size(), 5, 0x20, dst);
        }
    }

    /// Number of the table's present state, which changes with every insertion and every change of its size.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether the block, as far as it was written since [`begin`](Self::begin), would be written in the same bytes
    /// again, and have no other effect than them, for as long as the [generation](Self::generation) is the present one.
    pub fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Most bytes that [`field`](Self::field) appends for a name and a value of these lengths.
    pub const fn max_field_len(name_len: usize, value_len: usize) -> usize {
        1 + integer::MAX_LEN + name_len + integer::MAX_LEN + value_len
    }

    /// Appends one field, at most [`max_field_len`](Self::max_field_len) bytes.
    ///
    /// A `sensitive` field never enters a table, and the peer is told to keep it so.
    pub fn field(&mut self, name: &HeaderName, value: &[u8], sensitive: bool, dst: &mut BytesMut) {
        let policy = Policy::of(name, value, sensitive);
        let known = name.known_index();
        let in_static = known.map_or(Match::None, |known| static_table::find(known, value));
        match in_static {
            Match::Field(index) if policy != Policy::Never => return integer::encode(index, 7, 0x80, dst),
            _ => {}
        }
        let chain = known.unwrap_or_else(|| HeaderName::KNOWN + hash(0, name.as_bytes()) as usize % CUSTOM_CHAINS);
        let found = self.find(chain, name, value);
        match found.field {
            Some(index) if policy != Policy::Never => return integer::encode(index, 7, 0x80, dst),
            _ => {}
        }

        let insert = match policy {
            Policy::Insert => self.is_affordable(name, value) && self.is_wanted(chain, name, value),
            Policy::Again => self.is_affordable(name, value) && self.is_seen_again(name, value),
            Policy::Literal | Policy::Never => false,
        };
        let (prefix, pattern) = match policy {
            _ if insert => (6, 0x40),
            Policy::Never => (4, 0x10),
            _ => (4, 0x00),
        };
        let name_index = match in_static {
            Match::Field(index) | Match::Name(index) => Some(index),
            Match::None => found.name,
        };
        integer::encode(name_index.unwrap_or(0), prefix, pattern, dst);
        if name_index.is_none() {
            string(name.as_bytes(), dst);
        }
        string(value, dst);
        if insert {
            self.insert(chain, name, value);
        }
    }

    /// The entries of a chain, newest first, with their indices.
    fn chain(&self, chain: usize) -> impl Iterator<Item = (usize, &Entry<u64>)> {
        let mut number = self.chains.get(chain).copied().unwrap_or(0);
        core::iter::from_fn(move || {
            let position = self.table.position(number)?;
            let entry = self.table.entry(position)?;
            number = entry.extra;
            Some((FIRST_DYNAMIC + position, entry))
        })
    }

    fn find(&self, chain: usize, name: &HeaderName, value: &[u8]) -> Found {
        let mut found = Found::default();
        for (index, entry) in self.chain(chain).filter(|(_, entry)| entry.name == *name) {
            found.name = found.name.or(Some(index));
            if entry.value == value {
                found.field = Some(index);
                break;
            }
        }
        found
    }

    #[inline(never)] // seldom, and large
    #[expect(clippy::indexing_slicing, reason = "a chain for every known name and for every remainder")]
    fn insert(&mut self, chain: usize, name: &HeaderName, value: &[u8]) {
        self.generation += 1;
        self.is_repeatable = false;
        if self.chains.is_empty() {
            self.chains = vec![0; HeaderName::KNOWN + CUSTOM_CHAINS];
        }
        if self.table.insert(name, value, self.chains[chain]).is_some() {
            self.chains[chain] = self.table.inserted();
        }
    }

    /// Whether a field of [`Policy::Insert`] may be inserted now: a path beyond the first few must be
    /// seen again.
    fn is_wanted(&mut self, chain: usize, name: &HeaderName, value: &[u8]) -> bool {
        *name != HeaderName::PATH || self.chain(chain).count() < MAX_PATHS || self.is_seen_again(name, value)
    }

    /// Whether inserting evicts at most half of the table.
    fn is_affordable(&self, name: &HeaderName, value: &[u8]) -> bool {
        let max = self.table.max_size();
        let size = entry_size(name, value);
        size <= max / 4 * 3 && (self.table.size() + size).saturating_sub(max) <= max / 2
    }

    /// Whether this field was among the last that were asked about; remembers it.
    fn is_seen_again(&mut self, name: &HeaderName, value: &[u8]) -> bool {
        self.is_repeatable = false;
        if self.sightings.is_empty() {
            self.sightings = vec![[0; WAYS]; (self.own_cap / 16).clamp(WAYS, SIGHTINGS) / WAYS];
        }
        let sighting = hash(hash(0, name.as_bytes()), value);
        let row = sighting as usize % self.sightings.len();
        let Some(row) = self.sightings.get_mut(row) else { return false };
        // The latest comes first, and what it pushes out is the one that was not asked about for longest.
        let mut pushed = sighting;
        for place in row {
            pushed = mem::replace(place, pushed);
            if pushed == sighting {
                return true;
            }
        }
        false
    }
}

/// Appends a string literal (RFC 7541 §5.2), in Huffman code if that is shorter.
fn string(octets: &[u8], dst: &mut BytesMut) {
    let coded = huffman::encoded_len(octets);
    if coded < octets.len() {
        integer::encode(coded, 7, 0x80, dst);
        huffman::encode(octets, dst);
    } else {
        integer::encode(octets.len(), 7, 0x00, dst);
        dst.put_slice(octets);
    }
}

#[cfg(test)]
mod tests;
