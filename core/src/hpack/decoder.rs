//! Decoding of header blocks (RFC 7541 §3, §6), bounded and in step with the peer whatever the list holds.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::dynamic_table::DynamicTable;
use super::{DecodeError, FIRST_DYNAMIC, huffman, integer, static_table};
use crate::http::{Field, HeaderName};

/// Room made at once for decoded Huffman strings, in bytes. Neighbouring strings share it, and a
/// string that is kept keeps no more than this, or its own size.
const CHUNK: usize = 1024;

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
/// count, and 1 KiB each for the Huffman string at hand and for those handed out last.
pub struct Decoder {
    table: DynamicTable,
    /// Largest table size that the peer may choose.
    limit: usize,
    /// The limit fell below the table's size: the next block must begin with an update to this or less.
    demanded: Option<usize>,
    /// The Huffman string at hand; initialised.
    decoded: Vec<u8>,
    /// Where those are copied to that are handed out and enter no table.
    chunk: BytesMut,
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
            chunk: BytesMut::new(),
            generation: 0,
            poisoned: false,
        }
    }

    /// Sets the limit of the table; to be called when the peer acknowledges our
    /// SETTINGS_HEADER_TABLE_SIZE. If the limit falls below what the peer's encoder uses, the next
    /// block must begin with an update (RFC 9113 §4.3.1).
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
    /// Strings that are not Huffman-coded are slices of `block`, and keep alive whatever it is a
    /// slice of; strings that go into the table are copied.
    ///
    /// # Errors
    /// The block is no HPACK, or its list reaches four times the limits. The decoder is of no use
    /// afterwards: every later block is [`DecodeError::Poisoned`].
    pub fn decode(
        &mut self,
        block: &Bytes,
        limits: ListLimits,
        emit: &mut dyn FnMut(Field),
    ) -> Result<ListSize, DecodeError> {
        if self.poisoned {
            return Err(DecodeError::Poisoned);
        }
        self.poisoned = true; // also should `emit` unwind: the table would then be out of step
        if self.chunk.capacity() < CHUNK / 2 {
            // Between two blocks it is most likely that nobody holds a string any more.
            let _ = self.chunk.try_reclaim(CHUNK / 2);
        }
        let size = self.decode_block(&mut Reader { block, rest: block }, limits, emit)?;
        self.poisoned = false;
        if self.decoded.len() > CHUNK {
            self.decoded = Vec::new();
        }
        Ok(size)
    }

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
                    Field { name, value, sensitive: false }
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

    fn literal(&mut self, reader: &mut Reader<'_>, prefix: u32, indexing: Indexing) -> Result<Field, DecodeError> {
        let name = match reader.integer(prefix)? {
            0 => {
                let text = reader.text(&mut self.decoded)?;
                HeaderName::from_wire_with(text.octets(), || text.to_bytes(reader.block, &mut self.chunk))
            }
            index => self.entry(index)?.0, // its own copy: inserting this field may evict that entry
        };
        let value = reader.text(&mut self.decoded)?;
        if indexing == Indexing::Insert {
            self.generation += 1;
            if let Some(entry) = self.table.insert(&name, value.octets(), ()) {
                return Ok(Field { name: entry.name.clone(), value: entry.value.clone(), sensitive: false });
            }
        }
        let value = value.to_bytes(reader.block, &mut self.chunk);
        Ok(Field { name, value, sensitive: indexing == Indexing::Never })
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

/// A string of a literal.
enum Text<'a> {
    /// As it lies in the block.
    Plain(&'a [u8]),
    /// Out of Huffman code.
    Decoded(&'a [u8]),
}

impl<'a> Text<'a> {
    fn octets(&self) -> &'a [u8] {
        match *self {
            Self::Plain(octets) | Self::Decoded(octets) => octets,
        }
    }

    /// The string in memory that may be kept: a slice of `block`, or a copy in `chunk`.
    fn to_bytes(&self, block: &Bytes, chunk: &mut BytesMut) -> Bytes {
        match *self {
            Self::Plain(octets) => block.slice_ref(octets),
            Self::Decoded(octets) => {
                if chunk.capacity() < octets.len() && !chunk.try_reclaim(octets.len()) {
                    *chunk = BytesMut::with_capacity(octets.len().max(CHUNK));
                }
                chunk.extend_from_slice(octets);
                chunk.split().freeze()
            }
        }
    }
}

/// A cursor over a block.
struct Reader<'a> {
    block: &'a Bytes,
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
    fn text<'t>(&mut self, decoded: &'t mut Vec<u8>) -> Result<Text<'t>, DecodeError>
    where
        'a: 't,
    {
        let is_huffman = self.peek().ok_or(DecodeError::Truncated)? & 0x80 != 0;
        let len = self.integer(7)?;
        // That they are there comes first, so that nothing is allocated for octets that are not.
        let (octets, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        if !is_huffman {
            return Ok(Text::Plain(octets));
        }
        let room = huffman::max_decoded_len(len);
        if decoded.len() < room {
            decoded.resize(room.max(CHUNK), 0);
        }
        let len = huffman::decode(octets, decoded).ok_or(DecodeError::Huffman)?;
        Ok(Text::Decoded(decoded.get(..len).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests;
