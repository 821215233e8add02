//! The codec `proto`, for messages that own their bytes.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use bytes::Buf;
use prost::encoding::{DecodeContext, decode_key};
use trirpc_core::CodecError;
use trirpc_core::buf::{Contiguous, MessageBuf};
use trirpc_core::call::{Codec, EncodeBuf};

use crate::Prost;

/// [`Prost`] for messages that keep nothing of what they are decoded from: their `bytes` fields are all `Vec<u8>`, and
/// are copied once, not twice.
///
/// Generated code tells it where text and bytes go ([`ProstField`]): those fields are read without prost, at half the cost.
pub struct ProstOwned<T> {
    field: fn(&mut T, u32) -> Option<ProstField<'_>>,
}

/// A field of a message that is one piece of text or bytes, and not one of several alternatives.
#[derive(Debug)]
pub enum ProstField<'a> {
    /// A `bytes` field.
    Bytes(&'a mut Vec<u8>),
    /// A `string` field.
    Text(&'a mut String),
}

impl<T: prost::Message + Default> ProstOwned<T> {
    /// `field` gives the field of this number, for some or all of those that are a [`ProstField`].
    pub const fn new(field: fn(&mut T, u32) -> Option<ProstField<'_>>) -> Self {
        Self { field }
    }

    /// The codec of a message of which no field is known.
    pub(crate) const PLAIN: Self = Self::new(|_, _| None);

    /// Reads the field at the front of `octets`, if it is known; what is left then.
    #[inline]
    fn read_field<'a>(&self, message: &mut T, octets: &'a [u8]) -> Option<&'a [u8]> {
        let (number, value, rest) = split_first(octets)?;
        match (self.field)(message, number)? {
            ProstField::Bytes(bytes) => *bytes = value.to_vec(),
            // Prost says what is wrong with another text.
            ProstField::Text(text) => *text = core::str::from_utf8(value).ok()?.to_owned(),
        }
        Some(rest)
    }
}

impl<T: prost::Message + Default> Codec<T> for ProstOwned<T> {
    fn name(&self) -> &'static str {
        Codec::<T>::name(&Prost)
    }

    fn encoded_len(&self, item: &T) -> Option<usize> {
        Prost.encoded_len(item)
    }

    fn encode(&self, item: &T, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        Prost.encode(item, dst)
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<T, CodecError> {
        match src.read_contiguous() {
            Some(octets) => self.decode_contiguous(octets),
            None => {
                src.share_small();
                Prost.decode(src)
            }
        }
    }

    fn decode_contiguous(&self, mut src: Contiguous<'_>) -> Result<T, CodecError> {
        let (mut message, mut octets) = (T::default(), src.octets());
        while !octets.is_empty() {
            if let Some(rest) = self.read_field(&mut message, octets) {
                octets = rest;
                continue;
            }
            src.advance(src.len() - octets.len());
            merge_field(&mut message, &mut src)?;
            octets = src.octets();
        }
        Ok(message)
    }
}

/// Lets prost read the field at the front.
#[inline(never)] // its code takes nothing away from the fields that are read without it
fn merge_field<T: prost::Message>(message: &mut T, src: &mut Contiguous<'_>) -> Result<(), CodecError> {
    src.share_small();
    decode_key(src)
        .and_then(|(number, kind)| message.merge_field(number, kind, src, DecodeContext::default()))
        .map_err(|error| CodecError::new(error.to_string()))
}

impl<T> fmt::Debug for ProstOwned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProstOwned").finish_non_exhaustive()
    }
}

/// Number and value of the field that `octets` begins with, and what follows: if it has a length, that lies in `octets`,
/// and number and length are small, as they mostly are.
#[inline]
fn split_first(octets: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    /// A field with a length, in the lowest bits of its key.
    const DELIMITED: u8 = 2;
    let (&key, octets) = octets.split_first()?;
    if key & 0x87 != DELIMITED {
        return None;
    }
    let low = |octet: u8| usize::from(octet & 0x7f);
    let (len, octets) = match *octets {
        [a, ref rest @ ..] if a < 0x80 => (low(a), rest),
        [a, b, ref rest @ ..] if b < 0x80 => (low(a) | low(b) << 7, rest),
        [a, b, c, ref rest @ ..] if c < 0x80 => (low(a) | low(b) << 7 | low(c) << 14, rest),
        _ => return None,
    };
    let (value, rest) = octets.split_at_checked(len)?;
    Some((u32::from(key >> 3), value, rest))
}
