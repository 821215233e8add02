//! Buffers of streams that had something to send, for those that will.

use alloc::collections::VecDeque;

use bytes::BytesMut;

use super::CoalesceBuf;

/// Memory for small messages that wait, used by one stream after the other.
///
/// A stream whose messages have left needs none until the next one, and the next stream's may lie where its did, once
/// the transport has dropped every slice. So streams in turn cost no allocation, and a stream at rest no memory.
pub(crate) struct Tails {
    /// With their sizes. Those that were given back first are the first to be free of slices.
    buffers: VecDeque<(BytesMut, usize)>,
    /// Their sizes together, in bytes.
    bytes: usize,
    max_bytes: usize,
}

impl Tails {
    /// Keeps at most `max_bytes`. Takes no memory before the first is given back.
    pub(crate) const fn new(max_bytes: usize) -> Self {
        Self { buffers: VecDeque::new(), bytes: 0, max_bytes }
    }

    /// An empty buffer of `size` bytes at least, and its size: one that is free, or a new one.
    pub(crate) fn take(&mut self, size: usize) -> (BytesMut, usize) {
        let free = self.buffers.iter_mut().position(|(buffer, _)| buffer.try_reclaim(size));
        let Some(kept) = free.and_then(|at| self.buffers.remove(at)) else {
            return (BytesMut::with_capacity(size), size);
        };
        self.bytes -= kept.1;
        kept
    }

    /// Takes a buffer of `size` bytes that is not used any more, whether or not slices of it are.
    pub(crate) fn give_back(&mut self, (mut buffer, size): (BytesMut, usize)) {
        if size <= CoalesceBuf::MAX_TAIL && self.bytes + size <= self.max_bytes {
            buffer.clear();
            self.bytes += size;
            self.buffers.push_back((buffer, size));
        }
    }

    /// Gives all memory back.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.max_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_once_nobody_holds_a_slice_of_it() {
        let mut tails = Tails::new(64 * 1024);
        let (mut first, size) = tails.take(4096);
        first.extend_from_slice(&[7; 4096]);
        let memory = first.as_ptr();
        let slice = first.split().freeze();
        tails.give_back((first, size));
        let (other, _) = tails.take(4096);
        assert_ne!(other.as_ptr(), memory, "somebody holds a slice");
        drop(slice);
        let (again, size) = tails.take(1000);
        assert_eq!((again.as_ptr(), again.len(), size), (memory, 0, 4096));
        assert_eq!(tails.bytes, 0);
    }

    #[test]
    fn no_more_is_kept_than_the_limit_and_nothing_that_is_unusually_large() {
        let mut tails = Tails::new(40 * 1024);
        for kept in [16, 32, 32] {
            tails.give_back((BytesMut::with_capacity(16 * 1024), 16 * 1024));
            assert_eq!(tails.bytes, kept * 1024);
        }
        tails.clear();
        tails.give_back((BytesMut::with_capacity(17 * 1024), 17 * 1024));
        assert_eq!((tails.bytes, tails.buffers.len()), (0, 0));
    }
}
