//! Where a message is encoded.

use bytes::buf::Limit;
use bytes::{BufMut, BytesMut};

/// Where a [`Codec`](crate::call::Codec) writes: a region of bounded length.
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

    /// Lets `write` overwrite the rest of the region, if there is memory for it: the cheapest way to write. It advances the
    /// slice, which is a [`BufMut`] as long as the rest, behind what it has written. `None` if there is no such memory, and
    /// nothing happened.
    ///
    /// # Errors
    /// Those of `write`, which has written nothing then.
    #[inline]
    pub fn overwrite<E>(&mut self, write: impl FnOnce(&mut &mut [u8]) -> Result<(), E>) -> Option<Result<(), E>> {
        let remaining = self.remaining();
        if remaining == 0 || self.place.len() != remaining {
            return None;
        }
        let place = core::mem::take(&mut self.place);
        let mut unwritten = &mut *place;
        let result = write(&mut unwritten);
        let written = if result.is_ok() { remaining.saturating_sub(unwritten.len()) } else { 0 };
        self.end -= written;
        self.place = place.get_mut(written..)?;
        Some(result)
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
    fn a_region_is_overwritten_where_it_is_memory() {
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
        let (mut beside, mut place) = (BytesMut::new(), [b'x'; 8]);
        assert_eq!(overwrite(&mut EncodeBuf::new(&mut beside, 8), b"a"), None);

        let mut region = EncodeBuf::within(&mut place, &mut beside);
        assert_eq!(overwrite(&mut region, b"nine much"), Some(false));
        assert_eq!((region.written(), region.remaining()), (0, 8));
        assert_eq!(overwrite(&mut region, b"ab"), Some(true));
        assert_eq!((region.written(), region.remaining()), (2, 6));
        region.put_slice(b"cd");
        assert_eq!(overwrite(&mut region, b"x"), None, "something lies beside");
        region.buf().put_slice(b"e");
        assert_eq!((region.written(), region.remaining()), (5, 3));
        assert_eq!((region.settle(), &place), (5, b"abcdexxx"));

        beside.clear();
        let mut region = EncodeBuf::within(&mut place, &mut beside);
        assert_eq!(overwrite(&mut region, b"ABCDEFGH"), Some(true));
        assert_eq!((region.remaining(), overwrite(&mut region, b"")), (0, None));
        assert_eq!((region.settle(), &place), (8, b"ABCDEFGH"));
    }
}
