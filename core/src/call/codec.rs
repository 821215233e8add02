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

/// The longest rest of a region that is written beside its buffer, and copied into it, in bytes.
const SHORT: usize = 256;

/// Where a [`Codec`] writes: a region of bounded length.
///
/// It lies at the end of a buffer that grows, or in memory that is there for it. Which of them it is shows in nothing but
/// the cost.
#[derive(Debug)]
pub struct EncodeBuf<'a> {
    buf: &'a mut BytesMut,
    /// Most bytes that `buf` may hold.
    end: usize,
    /// Length of the region.
    limit: usize,
    /// What was not written of memory that is there for the region, if there is any; what is in `buf` comes next.
    place: &'a mut [u8],
}

impl<'a> EncodeBuf<'a> {
    /// A region of at most `limit` bytes behind what `buf` holds.
    #[inline]
    pub fn new(buf: &'a mut BytesMut, limit: usize) -> Self {
        let end = buf.len().saturating_add(limit);
        Self { buf, end, limit, place: &mut [] }
    }

    /// The region `place`. `beside` is for codecs that ask for a [buffer](Self::buf), and is empty.
    #[inline]
    pub(crate) const fn within(place: &'a mut [u8], beside: &'a mut BytesMut) -> Self {
        Self { buf: beside, end: place.len(), limit: place.len(), place }
    }

    /// Puts what lies beside the place into it, and returns [how much](Self::written) was written.
    #[inline]
    pub(crate) fn settle(self) -> usize {
        let Self { buf, place, .. } = &self;
        if !buf.is_empty() && buf.len() <= place.len() {
            return self.settle_beside();
        }
        self.written()
    }

    #[cold]
    fn settle_beside(self) -> usize {
        let written = self.written();
        if let Some(place) = self.place.get_mut(..self.buf.len()) {
            place.copy_from_slice(self.buf);
        }
        written
    }

    /// The rest of the region, for writing. It panics when it is overrun, as every [`BufMut`] does: a codec
    /// compares with [`remaining`](Self::remaining) first.
    pub fn buf(&mut self) -> Limit<&mut BytesMut> {
        let remaining = self.remaining();
        (&mut *self.buf).limit(remaining)
    }

    /// Lets `write` overwrite octets that become the rest of the region, if that is short or there already: the cheapest way
    /// to write a little. It advances the slice, which is a [`BufMut`] as long as the rest, behind what it has written.
    /// `None` if the rest is longer than 256 bytes, and is not there; nothing happened then.
    ///
    /// # Errors
    /// Those of `write`, which has written nothing then.
    #[inline]
    pub fn overwrite<E>(&mut self, write: impl FnOnce(&mut &mut [u8]) -> Result<(), E>) -> Option<Result<(), E>> {
        let remaining = self.remaining();
        let is_placed = remaining > 0 && self.place.len() == remaining;
        let mut short: [u8; SHORT];
        let place = if is_placed {
            &mut *self.place
        } else {
            short = [0; SHORT];
            short.get_mut(..remaining)?
        };
        let mut unwritten = &mut *place;
        if let Err(error) = write(&mut unwritten) {
            return Some(Err(error));
        }
        let written = remaining.saturating_sub(unwritten.len());
        if is_placed {
            self.end -= written;
            self.place = core::mem::take(&mut self.place).get_mut(written..)?;
        } else {
            self.buf.extend_from_slice(place.get(..written)?);
        }
        Some(Ok(()))
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
        self.limit.saturating_sub(self.remaining())
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

    /// What is overwritten, and what is put otherwise, comes in order, in either kind of region.
    #[test]
    fn a_region_is_overwritten_where_it_is_short() {
        fn overwrite(region: &mut EncodeBuf<'_>, octets: &[u8]) -> Option<bool> {
            let written = region.overwrite(|free| {
                if free.len() < octets.len() {
                    return Err(());
                }
                free.put_slice(octets);
                Ok(())
            });
            written.map(|written| written.is_ok())
        }
        fn write(mut region: EncodeBuf<'_>) -> usize {
            assert_eq!(overwrite(&mut region, b"nine much"), Some(false));
            assert_eq!((region.written(), region.remaining()), (0, 8));
            assert_eq!(overwrite(&mut region, b"ab"), Some(true));
            assert_eq!((region.written(), region.remaining()), (2, 6));
            region.put_slice(b"cd");
            region.buf().put_slice(b"e");
            assert_eq!((region.written(), region.remaining()), (5, 3));
            assert_eq!(overwrite(&mut region, b"fgh"), Some(true));
            assert_eq!((region.written(), region.remaining()), (8, 0));
            assert_eq!(overwrite(&mut region, b""), Some(true));
            region.settle()
        }
        let (mut buf, mut place) = (BytesMut::from(&b"before"[..]), [b'x'; 8]);
        write(EncodeBuf::new(&mut buf, 8));
        assert_eq!(&buf[..], b"beforeabcdefgh");
        buf.clear();
        assert_eq!(write(EncodeBuf::within(&mut place, &mut buf)), 8);
        assert_eq!(&place, b"abcdefgh");
        buf.clear();
        let mut region = EncodeBuf::within(&mut place, &mut buf);
        assert_eq!(overwrite(&mut region, b"ABCDEFGH"), Some(true));
        assert_eq!((region.remaining(), region.settle()), (0, 8));
        assert_eq!(&place, b"ABCDEFGH");
        let mut region = EncodeBuf::within(&mut place, &mut buf);
        region.put_slice(b"twelve");
        assert_eq!((region.written(), region.settle(), &place), (6, 6, b"twelveGH"));
        buf.clear();
        let (mut long, len) = ([0; 1000], SHORT + 1);
        assert_eq!(overwrite(&mut EncodeBuf::within(&mut long, &mut buf), b"a"), Some(true));
        assert_eq!(overwrite(&mut EncodeBuf::new(&mut buf, len), b"a"), None);
        assert_eq!(overwrite(&mut EncodeBuf::new(&mut buf, len - 1), b"a"), Some(true));
        assert_eq!((&buf[..], long[0]), (&b"a"[..], b'a'));
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
