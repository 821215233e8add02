//! Decoding of header blocks (RFC 7541 §3, §6), bounded and in step with the peer whatever the list holds.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;

use bytes::Bytes;

use super::dynamic_table::DynamicTable;
use super::strings::Strings;
use super::{DEFAULT_TABLE_SIZE, DecodeError, FIRST_DYNAMIC, huffman, integer, static_table};
use crate::http::{Field, HeaderName};

/// Room for Huffman strings that is made at once, in bytes.
const ROOM: usize = 1024;

/// Most room for them that is kept for the next block, in bytes.
const KEPT_ROOM: usize = 8 * 1024;

/// Room made at once for the strings of fields, in bytes, to begin with. Neighbours share it: they come and go together.
const FIRST_CHUNK: usize = 256;

/// Most of it at once, where strings are not longer.
const CHUNK: usize = 512;

/// Most bytes of such room that is full and waited for until the strings in it are let go.
const MAX_CHUNKS: usize = 8 * CHUNK;

/// Table size updates that may begin a block (RFC 7541 §4.2): the smallest size, then the last.
const MAX_SIZE_UPDATES: usize = 2;

/// How many times the limits a list may reach before decoding stops.
const HARD_LIMIT_FACTOR: usize = 4;

/// What a list may hold before its fields are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// Size as [`Field::list_size`] counts it, in bytes.
    pub bytes: usize,
    /// Number of fields.
    pub fields: usize,
}

/// What a list held, dropped fields included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListSize {
    /// Size as [`Field::list_size`] counts it, in bytes.
    pub bytes: usize,
    /// Number of fields.
    pub fields: usize,
}

impl ListSize {
    /// Whether the list is within `limits`, and so was emitted whole.
    pub const fn is_within(&self, limits: ListLimits) -> bool {
        self.bytes <= limits.bytes && self.fields <= limits.fields
    }
}

/// Decodes header blocks in the order of their arrival.
///
/// Memory: the dynamic table, at most the larger of 4 KiB and the sizes ever allowed, by the RFC's
/// count; twice as much for strings of it that are held elsewhere; 1 KiB for the Huffman string at hand; and half a KiB for
/// those handed out last, up to 4.5 KiB while they are held. What fields keep alive is the chunks that their strings lie in,
/// never the block, nor what it was read into.
pub struct Decoder {
    table: DynamicTable,
    /// Largest table size that the peer may choose.
    limit: usize,
    /// The limit fell below the table's size: the next block must begin with an update to this or less.
    demanded: Option<usize>,
    /// The Huffman string at hand; initialised.
    decoded: Vec<u8>,
    /// Where strings are copied to that are handed out and enter no table.
    strings: Strings,
    /// Fields share no memory with the table.
    copies_entries: bool,
    /// How often the table, or what the next block must begin with, has changed.
    generation: u64,
    poisoned: bool,
}

/// How a literal field is to be treated by tables, here and further on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Indexing {
    Insert,
    None,
    Never,
}

impl Decoder {
    /// A decoder whose peer's table starts with `max_table_size` bytes: on a connection, that is
    /// [`DEFAULT_TABLE_SIZE`](super::DEFAULT_TABLE_SIZE), whatever our SETTINGS will say.
    pub fn new(max_table_size: u32) -> Self {
        Self {
            table: DynamicTable::new(max_table_size as usize),
            limit: max_table_size as usize,
            demanded: None,
            decoded: Vec::new(),
            strings: Strings::new(FIRST_CHUNK, MAX_CHUNKS),
            copies_entries: false,
            generation: 0,
            poisoned: false,
        }
    }

    /// Whether memory is spared with a table that is going to have only `size` bytes: who makes it small has little.
    const fn is_sparing(size: u32) -> bool {
        size < DEFAULT_TABLE_SIZE
    }

    /// Spares memory, if the table is going to have less than the RFC's size: nothing is kept for strings to come, and
    /// fields hold copies of what the table has.
    pub(crate) fn spare(mut self, size: u32) -> Self {
        if Self::is_sparing(size) {
            self.table.spare();
            self.strings = Strings::sparing();
            self.copies_entries = true;
        }
        self
    }

    /// Most bytes of memory that the decoder of a connection holds, whose table has `size` bytes and whose largest block
    /// `block`, while it decodes a string of Huffman code.
    pub(crate) const fn max_bytes(size: u32, block: usize) -> usize {
        let is_sparing = Self::is_sparing(size);
        // Until the peer knows the size, its table is that of the RFC.
        let size = if is_sparing { DEFAULT_TABLE_SIZE } else { size };
        let chunks = if is_sparing { Strings::SMALL } else { CHUNK + MAX_CHUNKS };
        let string = huffman::max_decoded_len(block).saturating_add(ROOM);
        DynamicTable::<()>::max_bytes(size as usize, is_sparing).saturating_add(string).saturating_add(chunks)
    }

    /// Most bytes of memory that the strings of a list keep alive which has `bytes` of them, decoded with a table of
    /// `table` bytes: chunks that were not filled, those at both ends, and those of the table.
    pub(crate) const fn max_strings(bytes: usize, table: u32) -> usize {
        if Self::is_sparing(table) {
            return (bytes / 2).saturating_mul(3).saturating_add(2 * Strings::SMALL);
        }
        bytes.saturating_mul(2).saturating_add(2 * CHUNK).saturating_add((table as usize).saturating_mul(2))
    }

    /// Gives back memory for strings that are not there.
    pub(crate) fn release_idle(&mut self) {
        self.decoded = Vec::new();
        self.strings.release_idle();
        self.table.release_idle();
    }

    /// Sets the limit of the table; to be called when the peer acknowledges our
    /// SETTINGS_HEADER_TABLE_SIZE. If the limit falls below what the peer's encoder uses, the next
    /// block must begin with an update (RFC 9113 §4.3.1).
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "64 bits count everything that a connection can carry; a field takes an octet of its block"
    )]
    pub fn set_max_table_size(&mut self, size: u32) {
        let size = size as usize;
        self.generation += 1;
        self.limit = size;
        if size < self.table.max_size() {
            self.demanded = Some(self.demanded.map_or(size, |demanded| demanded.min(size)));
        }
    }

    /// A number that rises whenever the meaning of later blocks may have changed. A block that left it as it was
    /// decodes to the same fields, and may be left out, as long as it stays.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Decodes one whole block, CONTINUATIONs joined.
    ///
    /// Calls `emit` for each field while the list is within `limits`. Beyond them it decodes on, so
    /// that the tables stay in step, without emitting; the result tells. Names and values are not
    /// judged: see [`HeaderName::is_valid`] and [`is_valid_value`](crate::http::is_valid_value).
    ///
    /// The fields hold copies of their strings, so that a few octets that are kept never keep the window alive that they
    /// were read into.
    ///
    /// # Errors
    /// The block is no HPACK, or its list reaches four times the limits. The decoder is of no use
    /// afterwards: every later block is [`DecodeError::Poisoned`].
    pub fn decode(
        &mut self,
        block: &[u8],
        limits: ListLimits,
        emit: &mut dyn FnMut(Field),
    ) -> Result<ListSize, DecodeError> {
        if self.poisoned {
            return Err(DecodeError::Poisoned);
        }
        self.poisoned = true; // also should `emit` unwind: the table would then be out of step
        // Between two blocks it is most likely that nobody holds a string any more.
        self.strings.begin_anew();
        let size = self.decode_block(&mut Reader { rest: block }, limits, emit)?;
        self.poisoned = false;
        if self.decoded.len() > KEPT_ROOM {
            self.decoded = Vec::new();
        }
        Ok(size)
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "64 bits count everything that a connection can carry; a field takes an octet of its block"
    )]
    fn decode_block(
        &mut self,
        reader: &mut Reader<'_>,
        limits: ListLimits,
        emit: &mut dyn FnMut(Field),
    ) -> Result<ListSize, DecodeError> {
        self.size_updates(reader)?;
        let mut size = ListSize::default();
        while let Some(first) = reader.peek() {
            let field = match first {
                0x80.. => {
                    let index = reader.integer(7)?;
                    let (name, value) = self.entry(index)?;
                    self.apart(Field { name, value, sensitive: false })
                }
                0x40..0x80 => self.literal(reader, 6, Indexing::Insert)?,
                0x20..0x40 => return Err(DecodeError::SizeUpdate),
                0x10..0x20 => self.literal(reader, 4, Indexing::Never)?,
                0x00..0x10 => self.literal(reader, 4, Indexing::None)?,
            };
            size.bytes = size.bytes.saturating_add(field.list_size());
            size.fields += 1;
            if size.is_within(limits) {
                emit(field);
            } else if size.bytes > limits.bytes.saturating_mul(HARD_LIMIT_FACTOR)
                || size.fields > limits.fields.saturating_mul(HARD_LIMIT_FACTOR)
            {
                return Err(DecodeError::TooLarge);
            }
        }
        Ok(size)
    }

    /// The updates at the front of a block (RFC 7541 §6.3).
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "64 bits count everything that a connection can carry; a field takes an octet of its block"
    )]
    fn size_updates(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        for _ in 0..MAX_SIZE_UPDATES {
            if !matches!(reader.peek(), Some(0x20..0x40)) {
                break;
            }
            let size = reader.integer(5)?;
            if size > self.limit {
                return Err(DecodeError::SizeUpdate);
            }
            self.generation += 1;
            self.table.set_max_size(size);
            if self.demanded.is_some_and(|demanded| size <= demanded) {
                self.demanded = None;
            }
        }
        match self.demanded {
            Some(_) => Err(DecodeError::SizeUpdateMissing),
            None => Ok(()),
        }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "64 bits count everything that a connection can carry; a field takes an octet of its block"
    )]
    fn literal(&mut self, reader: &mut Reader<'_>, prefix: u32, indexing: Indexing) -> Result<Field, DecodeError> {
        let name = match reader.integer(prefix)? {
            0 => {
                let name = reader.text(&mut self.decoded)?;
                HeaderName::from_wire_with(name, || self.strings.copy(name))
            }
            index => self.entry(index)?.0, // its own copy: inserting this field may evict that entry
        };
        let value = reader.text(&mut self.decoded)?;
        if indexing == Indexing::Insert {
            self.generation += 1;
            if let Some(entry) = self.table.insert(&name, value, ()) {
                let field = Field { name: entry.name.clone(), value: entry.value.clone(), sensitive: false };
                return Ok(self.apart(field));
            }
        }
        let value = self.strings.copy(value);
        Ok(Field { name, value, sensitive: indexing == Indexing::Never })
    }

    /// A field out of the table, as it may be kept.
    #[inline]
    fn apart(&mut self, field: Field) -> Field {
        if !self.copies_entries {
            return field;
        }
        let Field { name, value, sensitive } = field;
        let name = name.detached(|name| self.strings.copy(name));
        Field { name, value: self.strings.copy(&value), sensitive }
    }

    #[inline]
    fn entry(&self, index: usize) -> Result<(HeaderName, Bytes), DecodeError> {
        match index.checked_sub(FIRST_DYNAMIC) {
            Some(position) => {
                let entry = self.table.entry(position).ok_or(DecodeError::Index)?;
                Ok((entry.name.clone(), entry.value.clone()))
            }
            None => {
                let (name, value) = static_table::entry(index).ok_or(DecodeError::Index)?;
                Ok((name, Bytes::from_static(value.as_bytes())))
            }
        }
    }
}

/// A cursor over a block.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    #[inline]
    fn integer(&mut self, prefix: u32) -> Result<usize, DecodeError> {
        let mut octet = || {
            let (&octet, rest) = self.rest.split_first().ok_or(DecodeError::Truncated)?;
            self.rest = rest;
            Ok(octet)
        };
        let value = integer::decode(prefix, octet()?, octet)?;
        usize::try_from(value).map_err(|_| DecodeError::Integer)
    }

    /// The next string. `decoded` is where one out of Huffman code is put.
    fn text<'t>(&mut self, decoded: &'t mut Vec<u8>) -> Result<&'t [u8], DecodeError>
    where
        'a: 't,
    {
        let is_huffman = self.peek().ok_or(DecodeError::Truncated)? & 0x80 != 0;
        let len = self.integer(7)?;
        // That they are there comes first, so that nothing is allocated for octets that are not.
        let (octets, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        if !is_huffman {
            return Ok(octets);
        }
        let room = huffman::max_decoded_len(len);
        if decoded.len() < room {
            decoded.resize(room.max(ROOM), 0);
        }
        let len = huffman::decode(octets, decoded).ok_or(DecodeError::Huffman)?;
        Ok(decoded.get(..len).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
