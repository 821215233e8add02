//! From a message to its bytes, before anything of the call is touched: a codec that fails or unwinds
//! leaves no trace.

use bytes::{Bytes, BytesMut};

use crate::call::{Codec, EncodeBuf};
use crate::error::{CodecError, OpenError, SendError};

/// Why a message was not encoded.
pub(super) enum EncodeError {
    TooLarge { size: usize, limit: usize },
    Codec(CodecError),
}

impl From<EncodeError> for OpenError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            EncodeError::Codec(error) => Self::Codec(error),
        }
    }
}

impl From<EncodeError> for SendError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            EncodeError::Codec(error) => Self::Codec(error),
        }
    }
}

/// Capacity that a message of unknown length starts with, in bytes.
const UNKNOWN_LEN: usize = 512;

/// Encodes `item` into a buffer of its own, of the exact size where the codec knows it.
pub(super) fn encode<T>(codec: &dyn Codec<T>, item: &T, limit: usize) -> Result<Bytes, EncodeError> {
    encode_with(codec.encoded_len(item), limit, &mut |dst| codec.encode(item, dst))
}

fn encode_with(
    len: Option<usize>,
    limit: usize,
    fill: &mut dyn FnMut(&mut EncodeBuf<'_>) -> Result<(), CodecError>,
) -> Result<Bytes, EncodeError> {
    if let Some(size) = len.filter(|&len| len > limit) {
        return Err(EncodeError::TooLarge { size, limit });
    }
    let mut buf = BytesMut::with_capacity(len.unwrap_or_else(|| UNKNOWN_LEN.min(limit)));
    fill(&mut EncodeBuf::new(&mut buf, len.unwrap_or(limit))).map_err(EncodeError::Codec)?;
    match len {
        Some(len) if len != buf.len() => Err(EncodeError::Codec(CodecError::new(alloc::format!(
            "the codec announced {len} bytes and wrote {}",
            buf.len()
        )))),
        _ => Ok(buf.freeze()),
    }
}
