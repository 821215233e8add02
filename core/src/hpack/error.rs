//! What is wrong with a block.

use core::fmt;

use crate::ErrorCode;

/// Why a block could not be decoded.
///
/// Both ends' tables can no longer be kept in step, so the connection ends; see [`code`](Self::code).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// An index is 0 where a field was due, or beyond the tables (RFC 7541 §2.3.3).
    Index,
    /// An integer above 2^32−1, or of more than five continuation octets (RFC 7541 §5.1).
    Integer,
    /// The block ends within a field, or a string is longer than what is left of the block.
    Truncated,
    /// A Huffman-coded string holds EOS, or its padding is not the at most seven first bits of EOS
    /// (RFC 7541 §5.2).
    Huffman,
    /// A table size update above our limit, after a field, or the third of one block (RFC 7541 §6.3).
    SizeUpdate,
    /// Our limit was lowered and the block does not begin by saying so (RFC 9113 §4.3.1).
    SizeUpdateMissing,
    /// The list exceeds four times the [limits](super::ListLimits): decoding on would be work for nothing.
    TooLarge,
    /// An earlier block failed.
    Poisoned,
}

impl DecodeError {
    /// The code of the GOAWAY that answers it.
    pub const fn code(self) -> ErrorCode {
        match self {
            Self::TooLarge => ErrorCode::ENHANCE_YOUR_CALM,
            _ => ErrorCode::COMPRESSION_ERROR,
        }
    }

    /// Which rule was broken, in a few words.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Index => "HPACK index outside of the tables",
            Self::Integer => "HPACK integer too large",
            Self::Truncated => "HPACK block truncated",
            Self::Huffman => "HPACK string is not Huffman code",
            Self::SizeUpdate => "HPACK table size update too large or misplaced",
            Self::SizeUpdateMissing => "HPACK table size update missing",
            Self::TooLarge => "header list far above the limit",
            Self::Poisoned => "HPACK block after a failed one",
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl core::error::Error for DecodeError {}
