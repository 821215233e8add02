//! Memory for strings that come and go in turn.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem;

use bytes::{Bytes, BytesMut};

/// Copies strings behind each other into chunks, and uses a chunk again once nobody holds a string of it.
///
/// What comes first goes first, so the chunk that was filled first is the first to be free. Strings that follow each
/// other at the rate at which older ones are let go cost no allocation.
pub(super) struct Strings {
    /// Where the next string goes.
    chunk: BytesMut,
    /// Its size, in bytes; 0 if there is none.
    size: usize,
    /// Size of the next chunk, in bytes; a longer string has one of its own.
    next_size: usize,
    /// Strings of this length and more have memory of their own where they do not fit, in bytes.
    alone_from: usize,
    /// Most bytes of full chunks that are waited for. Others are freed with the last of their strings.
    max_full: usize,
    /// Chunks that are full, with their sizes, the oldest first.
    #[expect(clippy::box_collection, reason = "most connections never fill one")]
    full: Option<Box<VecDeque<(BytesMut, usize)>>>,
}

impl Strings {
    /// Chunks double up to this part of those that may be full.
    const PART: usize = 8;

    /// Size of the chunks where memory is spared, in bytes.
    pub(super) const SMALL: usize = 512;

    /// Chunks of `size` bytes to begin with, and at most `max_full` bytes of them that are full; allocates nothing.
    pub(super) fn new(size: usize, max_full: usize) -> Self {
        Self { chunk: BytesMut::new(), size: 0, next_size: size, alone_from: usize::MAX, max_full, full: None }
    }

    /// For who has little memory: chunks of 512 bytes, of which nothing is kept when they are full, and of which less than
    /// a quarter is left over.
    pub(super) fn sparing() -> Self {
        Self { alone_from: Self::SMALL / 4, ..Self::new(Self::SMALL, 0) }
    }

    /// Gives back memory that no string lies in.
    pub(super) fn release_idle(&mut self) {
        self.chunk = BytesMut::new();
        self.size = 0;
        self.full = None;
    }

    /// Changes the limit of the chunks that are full.
    pub(super) fn set_max_full(&mut self, max_full: usize) {
        self.max_full = max_full;
        self.return_to_limit();
    }

    /// A copy of `octets`.
    #[inline]
    pub(super) fn copy(&mut self, octets: &[u8]) -> Bytes {
        if self.chunk.capacity() < octets.len() {
            if octets.len() >= self.alone_from {
                return Bytes::copy_from_slice(octets);
            }
            self.make_room(octets.len());
        }
        self.chunk.extend_from_slice(octets);
        self.chunk.split().freeze()
    }

    /// Begins the chunk anew if less than half of one is left and nobody holds a string of it: worth a look when the
    /// strings are likely to have been let go.
    pub(super) fn begin_anew(&mut self) {
        if self.chunk.capacity() < self.size / 2 {
            let _ = self.chunk.try_reclaim(self.size);
        }
    }

    #[cold]
    fn make_room(&mut self, n: usize) {
        if n <= self.size && self.chunk.try_reclaim(self.size) {
            return;
        }
        // The whole of it: there may be room behind strings that somebody holds.
        let oldest = self.full.as_mut().and_then(|full| full.front_mut());
        let is_free = oldest.is_some_and(|(chunk, size)| n <= *size && chunk.try_reclaim(*size));
        let free = if is_free { self.full.as_mut().and_then(|full| full.pop_front()) } else { None };
        let (chunk, size) = free.unwrap_or_else(|| {
            let size = self.next_size.max(n);
            self.next_size = (2 * self.next_size).min(self.max_full / Self::PART).max(self.next_size);
            (BytesMut::with_capacity(size), size)
        });
        let full = (mem::replace(&mut self.chunk, chunk), mem::replace(&mut self.size, size));
        if full.1 > 0 {
            self.full.get_or_insert_default().push_back(full);
            self.return_to_limit();
        }
    }

    fn return_to_limit(&mut self) {
        while self.full_bytes() > self.max_full {
            let _ = self.full.as_mut().and_then(|full| full.pop_front());
        }
    }

    /// Memory of the full chunks, in bytes.
    fn full_bytes(&self) -> usize {
        self.full.iter().flat_map(|full| full.iter()).map(|(_, size)| size).sum()
    }

    /// Memory of all chunks, in bytes.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.full_bytes() + self.size
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn full(strings: &Strings) -> usize {
        strings.full.as_ref().map_or(0, |full| full.len())
    }

    #[test]
    fn chunks_are_used_again_in_the_order_in_which_they_were_filled() {
        let mut strings = Strings::new(64, 128);
        let (mut held, mut chunks) = (VecDeque::new(), Vec::new());
        for i in 0..100u8 {
            held.push_back(strings.copy(&[i; 32]));
            if held.len() > 4 {
                held.pop_front();
            }
            assert!(held.iter().rev().zip((0..=i).rev()).all(|(string, i)| string[..] == [i; 32]));
            let chunk = strings.chunk.as_ptr() as usize - (64 - strings.chunk.capacity());
            if !chunks.contains(&chunk) {
                chunks.push(chunk);
            }
        }
        assert_eq!(chunks.len(), 3, "four strings lie in two chunks, and a third is being filled");
    }

    #[test]
    fn chunks_double_up_to_a_limit() {
        let mut strings = Strings::new(64, 1600);
        let (mut held, mut sizes) = (Vec::new(), Vec::new());
        while sizes.len() < 5 {
            held.push(strings.copy(&[1; 32]));
            if strings.chunk.capacity() < 32 {
                sizes.push(strings.size);
            }
        }
        assert_eq!(sizes, [64, 128, 200, 200, 200]);
    }

    #[test]
    fn no_more_than_the_limit_is_waited_for() {
        let mut strings = Strings::new(64, 128);
        let held: Vec<_> = (0..20).map(|_| strings.copy(&[7; 40])).collect();
        assert_eq!((full(&strings), strings.full_bytes()), (2, 128));
        strings.set_max_full(64);
        assert_eq!((full(&strings), strings.full_bytes()), (1, 64));
        drop(held);
        let long = strings.copy(&[8; 500]);
        assert_eq!((strings.size, long.len()), (500, 500));
        drop(strings.copy(&[9; 500]));
        assert_eq!((full(&strings), strings.full_bytes()), (0, 0), "it is longer than the limit");
    }

    #[test]
    fn a_chunk_begins_anew_once_its_strings_are_gone() {
        let mut strings = Strings::new(64, 0);
        let first = strings.copy(&[1; 40]);
        strings.begin_anew();
        assert_eq!(strings.chunk.capacity(), 24, "somebody holds a string");
        let memory = first.as_ptr();
        drop(first);
        strings.begin_anew();
        assert_eq!((strings.chunk.capacity(), strings.copy(&[2; 8]).as_ptr()), (64, memory));
        strings.begin_anew();
        assert_eq!(strings.chunk.capacity(), 56, "more than half is left");
    }

    /// `h2:E5`: where memory is spared, strings take half more than their octets, whatever their lengths.
    #[test]
    fn sparing_memory_leaves_little_of_it_over() {
        for len in [1, 50, 100, 127, 128, 257, 400, 3000] {
            let mut strings = Strings::sparing();
            let (mut held, mut chunks) = (Vec::new(), 0);
            for _ in 0..64 {
                let before = strings.chunk.capacity();
                held.push(strings.copy(&alloc::vec![7; len]));
                chunks += usize::from(strings.chunk.capacity() > before);
            }
            assert!(chunks * Strings::SMALL <= 64 * len / 2 * 3 + 2 * Strings::SMALL, "{len}: {chunks} chunks");
            assert_eq!(strings.full_bytes(), 0);
        }
    }
}
