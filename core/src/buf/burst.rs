//! Messages of one stream that follow each other while nothing else happens to its connection.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use bytes::BytesMut;

use super::{EncodeBuf, SHARE_FROM};
use crate::error::CodecError;

/// Small messages that a call may send, encoded behind each other beside its connection.
///
/// A connection says how much it takes ([`begin_burst`](crate::CallMut::begin_burst)) and takes what was
/// [pushed](Self::push) as one ([`send_burst`](crate::CallMut::send_burst)). Nothing may happen to the connection in
/// between: then it is as if each message had been sent at its time, without a look at the connection.
#[derive(Default)]
pub struct Burst {
    /// Messages with their prefixes, and behind `len` memory for others. All of it is there once the first was begun.
    octets: Vec<u8>,
    /// For codecs that do not overwrite.
    beside: BytesMut,
    /// Octets of whole messages.
    len: usize,
    messages: u64,
    /// Length of the last message, without its prefix.
    last: usize,
    terms: Terms,
}

/// How much a burst takes; by default nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// Octets at which no further message is taken, which one may exceed.
    pub(crate) limit: usize,
    /// Octets that none exceeds.
    pub(crate) room: usize,
    /// Largest message.
    pub(crate) max_message: usize,
}

impl Burst {
    /// Memory of a burst that was begun, in bytes.
    pub const MEMORY: usize = 8 * 1024;
    /// Largest message, in bytes: they are copied to where they leave from.
    pub const MAX_MESSAGE: usize = SHARE_FROM;
    /// Octets in front of a message: its flags and its length.
    const PREFIX: usize = 5;

    /// Appends a message of `len` bytes that `fill` encodes. If it is not taken, nothing happened, and it may be sent the
    /// usual way: there is no room, or the burst was not begun, or `fill` failed or wrote another number of bytes.
    #[inline(always)] // once a message
    pub fn push(&mut self, len: usize, fill: impl FnOnce(&mut EncodeBuf<'_>) -> Result<(), CodecError>) -> bool {
        let Terms { limit, room, max_message } = self.terms;
        let end = self.len + Self::PREFIX + len;
        if self.len >= limit || len > max_message || end > room {
            return false;
        }
        let place = self.octets.get_mut(self.len..end).and_then(|place| place.split_first_chunk_mut());
        let Some((prefix, payload)) = place else { return false };
        let [a, b, c, d] = (len as u32).to_be_bytes();
        *prefix = [0, a, b, c, d];
        if !self.beside.is_empty() {
            self.beside.clear();
        }
        let mut region = EncodeBuf::within(payload, &mut self.beside);
        if fill(&mut region).is_err() || region.settle() != len {
            return false;
        }
        self.len = end;
        self.messages += 1;
        self.last = len;
        true
    }

    /// Whether nothing was pushed since it began.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes no more, and forgets what was pushed; the memory stays.
    pub fn end(&mut self) {
        let (octets, beside) = (core::mem::take(&mut self.octets), core::mem::take(&mut self.beside));
        *self = Self { octets, beside, ..Self::default() };
    }

    /// Begins anew, on these terms as far as its own limits allow.
    pub(crate) fn begin(&mut self, terms: Terms) {
        self.end();
        if self.octets.is_empty() {
            self.octets = vec![0; Self::MEMORY];
        }
        let (room, max_message) = (terms.room.min(Self::MEMORY), terms.max_message.min(Self::MAX_MESSAGE));
        self.terms = Terms { limit: terms.limit, room, max_message };
    }

    /// The messages that were pushed, with their prefixes.
    pub(crate) fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }

    /// How many they are.
    #[cfg(test)]
    pub(crate) const fn messages(&self) -> u64 {
        self.messages
    }

    /// Length of the last of them, in bytes.
    pub(crate) const fn last(&self) -> usize {
        self.last
    }
}

impl fmt::Debug for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Burst").field("messages", &self.messages).field("bytes", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(octets: &[u8]) -> impl FnOnce(&mut EncodeBuf<'_>) -> Result<(), CodecError> {
        move |dst| {
            if octets.len() > dst.remaining() {
                return Err(CodecError::new("too much"));
            }
            dst.put_slice(octets);
            Ok(())
        }
    }

    #[test]
    fn messages_lie_behind_each_other_up_to_the_limit() {
        let mut burst = Burst::default();
        assert!(!burst.push(0, fill(b"")), "it has not begun");
        burst.begin(Terms { limit: 14, room: 20, max_message: 4 });
        assert!(burst.is_empty() && burst.push(3, fill(b"abc")));
        assert!(!burst.push(5, fill(b"abcde")), "too large");
        assert!(burst.push(0, fill(b"")));
        assert!(burst.push(1, fill(b"d")), "13 octets are less than the limit");
        assert!(!burst.push(0, fill(b"")), "19 are not");
        assert_eq!(burst.octets(), b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x01d");
        assert_eq!((burst.messages(), burst.last()), (3, 1));
        burst.begin(Terms { limit: 14, room: 18, max_message: 4 });
        assert!(burst.push(3, fill(b"abc")) && burst.push(0, fill(b"")));
        assert!(!burst.push(1, fill(b"d")), "there is no room for it");
        burst.end();
        assert!(burst.is_empty() && !burst.push(0, fill(b"")));
        assert_eq!((burst.octets(), burst.messages(), burst.last()), (&b""[..], 0, 0));
    }

    #[test]
    fn memory_is_taken_once_and_never_exceeded() {
        let mut burst = Burst::default();
        assert_eq!(burst.octets.capacity(), 0);
        for _ in 0..3 {
            burst.begin(Terms { limit: usize::MAX, room: usize::MAX, max_message: usize::MAX });
            let taken =
                (0..1000).take_while(|_| burst.push(Burst::MAX_MESSAGE, fill(&[7; Burst::MAX_MESSAGE]))).count();
            assert_eq!(taken, Burst::MEMORY / (Burst::MAX_MESSAGE + Burst::PREFIX));
            assert!(!burst.push(Burst::MAX_MESSAGE + 1, fill(&[7; Burst::MAX_MESSAGE + 1])));
            assert_eq!(burst.octets.capacity(), Burst::MEMORY);
        }
    }

    #[test]
    fn a_codec_that_fails_leaves_no_trace() {
        let mut burst = Burst::default();
        burst.begin(Terms { limit: 100, room: 100, max_message: 100 });
        assert!(burst.push(1, fill(b"a")));
        assert!(!burst.push(3, fill(b"four")) && !burst.push(3, fill(b"2.")));
        assert!(!burst.push(3, |dst| {
            dst.put_slice(b"xyz");
            Err(CodecError::new("no"))
        }));
        assert_eq!(burst.octets(), b"\0\0\0\0\x01a");
        assert!(burst.push(1, fill(b"b")));
        assert_eq!((burst.octets(), burst.messages()), (&b"\0\0\0\0\x01a\0\0\0\0\x01b"[..], 2));
    }
}
