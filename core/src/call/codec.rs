//! How messages become bytes: chosen per method, named on the wire by the content type.

use bytes::buf::Limit;
use bytes::{BufMut, BytesMut};

use crate::buf::{Contiguous, MessageBuf};
use crate::error::CodecError;

/// Encodes and decodes messages of type `T`. Object safe: the content type of a call picks it at run time.
pub trait Codec<T>: Send + Sync {
    /// Name on the wire, which is also the content subtype: `proto`, `json`, …
    fn name(&self) -> &'static str;

    /// Length of `item` when encoded, where it is known without encoding.
    ///
    /// After `Some(n)`, [`encode`](Self::encode) writes exactly `n` bytes; a codec that does not costs the call
    /// its stream, for the length is on the wire already.
    fn encoded_len(&self, item: &T) -> Option<usize>;

    /// Appends `item` to `dst`.
    ///
    /// # Errors
    /// The message cannot be expressed, or does not fit into `dst`.
    fn encode(&self, item: &T, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError>;

    /// Reads one message, the whole of `src`.
    ///
    /// # Errors
    /// `src` is no message of this type.
    fn decode(&self, src: &mut MessageBuf) -> Result<T, CodecError>;

    /// [`decode`](Self::decode) for a message that lies in one piece: of a stream most do. By default it becomes a
    /// [`MessageBuf`], which costs a handle of its memory; a codec that reads it as it is saves that.
    ///
    /// # Errors
    /// As there.
    fn decode_contiguous(&self, src: Contiguous<'_>) -> Result<T, CodecError> {
        self.decode(&mut src.into())
    }
}

/// Where a [`Codec`] writes: a region of bounded length at the end of a buffer.
#[derive(Debug)]
pub struct EncodeBuf<'a> {
    buf: &'a mut BytesMut,
    start: usize,
    end: usize,
}

impl<'a> EncodeBuf<'a> {
    /// A region of at most `limit` bytes behind what `buf` holds.
    #[inline]
    pub fn new(buf: &'a mut BytesMut, limit: usize) -> Self {
        let start = buf.len();
        Self { start, end: start.saturating_add(limit), buf }
    }

    /// The rest of the region, for writing. It panics when it is overrun, as every [`BufMut`] does: a codec
    /// compares with [`remaining`](Self::remaining) first.
    pub fn buf(&mut self) -> Limit<&mut BytesMut> {
        let remaining = self.remaining();
        (&mut *self.buf).limit(remaining)
    }

    /// Appends `octets`.
    ///
    /// # Panics
    /// As [`buf`](Self::buf), if there are more than [`remaining`](Self::remaining).
    #[inline]
    pub fn put_slice(&mut self, octets: &[u8]) {
        assert!(octets.len() <= self.remaining(), "{} bytes do not fit into {}", octets.len(), self.remaining());
        self.buf.extend_from_slice(octets);
    }

    /// Bytes written so far.
    #[inline]
    pub fn written(&self) -> usize {
        self.buf.len().saturating_sub(self.start)
    }

    /// Bytes that may still be written.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.buf.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_over_several_loans() {
        let mut buf = BytesMut::from(&b"before"[..]);
        let mut region = EncodeBuf::new(&mut buf, 5);
        region.buf().put_slice(b"abc");
        assert_eq!((region.written(), region.remaining(), region.buf().remaining_mut()), (3, 2, 2));
        region.put_slice(b"de");
        assert_eq!((region.written(), region.buf().remaining_mut()), (5, 0));
        assert_eq!(&buf[..], b"beforeabcde");
    }

    #[test]
    fn codecs_are_object_safe() {
        fn name(codec: &dyn Codec<u8>) -> &'static str {
            codec.name()
        }
        struct Byte;
        impl Codec<u8> for Byte {
            fn name(&self) -> &'static str {
                "byte"
            }
            fn encoded_len(&self, _: &u8) -> Option<usize> {
                Some(1)
            }
            fn encode(&self, item: &u8, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
                dst.buf().put_u8(*item);
                Ok(())
            }
            fn decode(&self, src: &mut MessageBuf) -> Result<u8, CodecError> {
                bytes::Buf::try_get_u8(src).map_err(|_| CodecError::new("empty"))
            }
        }
        assert_eq!(name(&Byte), "byte");
        assert_eq!(Byte.decode(&mut MessageBuf::default()), Err(CodecError::new("empty")));
    }
}
