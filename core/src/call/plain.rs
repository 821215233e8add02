//! A body without messages: its octets are handed on as they come.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use crate::buf::MessageBuf;

/// Least memory that is taken at a time, in bytes, so that octets which come one by one lie together.
const MIN_PIECE: usize = 1024;

/// Collects what was not taken yet. The stream's window bounds it, for credit is given when a piece is taken.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// All but the last are full.
    pieces: VecDeque<BytesMut>,
    buffered: usize,
    is_discarded: bool,
}

impl Decoder {
    /// Copies the next octets of the body, so that they do not hold the receive window.
    pub(crate) fn extend(&mut self, mut octets: &[u8]) {
        if self.is_discarded || octets.is_empty() {
            return;
        }
        self.buffered += octets.len();
        if let Some(last) = self.pieces.back_mut() {
            let (fitting, rest) = octets.split_at(octets.len().min(last.capacity() - last.len()));
            last.extend_from_slice(fitting);
            octets = rest;
        }
        if !octets.is_empty() {
            let mut piece = BytesMut::with_capacity(octets.len().max(MIN_PIECE));
            piece.extend_from_slice(octets);
            self.pieces.push_back(piece);
        }
    }

    /// The next octets, as many as lie together.
    pub(crate) fn pull(&mut self) -> Option<MessageBuf> {
        let piece: Bytes = self.pieces.pop_front()?.freeze();
        self.buffered -= piece.len();
        Some(MessageBuf::received(piece, None))
    }

    /// Whether there are octets to be pulled.
    pub(crate) fn is_ready(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Octets received and not pulled.
    pub(crate) const fn buffered(&self) -> usize {
        self.buffered
    }

    /// Drops everything received and refuses what is still to come.
    pub(crate) fn discard(&mut self) {
        *self = Self { is_discarded: true, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use bytes::Buf;

    use super::*;

    fn pulled(decoder: &mut Decoder) -> Vec<u8> {
        let pieces = core::iter::from_fn(|| decoder.pull());
        pieces.flat_map(|mut piece| piece.copy_to_bytes(piece.len())).collect()
    }

    #[test]
    fn any_split_gives_the_same_octets() {
        let body: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
        for size in [1, 7, 1023, 1024, 1025, 4999, 5000] {
            let mut decoder = Decoder::default();
            let (mut taken, mut come) = (Vec::new(), 0);
            for (i, piece) in body.chunks(size).enumerate() {
                decoder.extend(piece);
                come += piece.len();
                assert_eq!(decoder.buffered(), come - taken.len());
                if i % 3 == 0 {
                    taken.extend(pulled(&mut decoder));
                    assert!(!decoder.is_ready() && decoder.buffered() == 0);
                }
            }
            taken.extend(pulled(&mut decoder));
            assert_eq!(taken, body, "{size}");
        }
    }

    /// `h2:A21`: what comes octet by octet takes a kilobyte more than its octets.
    #[test]
    fn single_octets_lie_together() {
        let mut decoder = Decoder::default();
        (0..10_000).for_each(|_| decoder.extend(b"x"));
        let memory: usize = decoder.pieces.iter().map(BytesMut::capacity).sum();
        assert!(memory <= 10_000 + MIN_PIECE, "{memory}");
        assert_eq!(pulled(&mut decoder).len(), 10_000);
    }

    #[test]
    fn what_is_discarded_stays_away() {
        let mut decoder = Decoder::default();
        decoder.extend(b"some");
        decoder.discard();
        decoder.extend(b"more");
        assert!(!decoder.is_ready() && decoder.buffered() == 0 && decoder.pull().is_none());
    }
}
