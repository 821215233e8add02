//! From a message to its bytes: into a buffer of its own before anything of the call is touched, so that a codec that
//! fails or unwinds leaves no trace, or where it leaves from.

use bytes::{Bytes, BytesMut};

use crate::call::{Codec, EncodeBuf};
use crate::error::{CodecError, OpenError, SendError};

/// Encodes one message: [`Codec::encode`] with its message.
pub(super) type Fill<'a> = &'a mut dyn FnMut(&mut EncodeBuf<'_>) -> Result<(), CodecError>;

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

/// Appends a message of `len` bytes to `dst`, which has room for it. After a failure there may be less behind `dst`'s
/// end, which is the caller's to take back.
#[inline]
pub(super) fn encode_in_place(dst: &mut BytesMut, len: usize, fill: Fill<'_>) -> Result<(), CodecError> {
    let mut region = EncodeBuf::new(dst, len);
    fill(&mut region)?;
    check_len(len, region.written())
}

pub(super) fn encode_with(len: Option<usize>, limit: usize, fill: Fill<'_>) -> Result<Bytes, EncodeError> {
    if let Some(size) = len.filter(|&len| len > limit) {
        return Err(EncodeError::TooLarge { size, limit });
    }
    let mut buf = BytesMut::with_capacity(len.unwrap_or_else(|| UNKNOWN_LEN.min(limit)));
    fill(&mut EncodeBuf::new(&mut buf, len.unwrap_or(limit))).map_err(EncodeError::Codec)?;
    check_len(len.unwrap_or(buf.len()), buf.len()).map_err(EncodeError::Codec)?;
    Ok(buf.freeze())
}

fn check_len(announced: usize, written: usize) -> Result<(), CodecError> {
    if announced == written {
        return Ok(());
    }
    Err(CodecError::new(alloc::format!("the codec announced {announced} bytes and wrote {written}")))
}
