//! Buffers of streams that had something to send, for those that will.

use alloc::collections::VecDeque;

use bytes::BytesMut;

/// Memory for small messages that wait, used by one stream after the other.
///
/// A stream whose messages have left needs none until the next one, and the next stream's may lie where its did, once
/// the transport has dropped every slice. So streams in turn cost no allocation, and a stream at rest no memory.
pub(crate) struct Tails {
    /// The one that was given back first is the first to be free of slices.
    buffers: VecDeque<BytesMut>,
    max_buffers: usize,
}

impl Tails {
    /// Keeps at most `max_buffers`. Takes no memory before the first is given back.
    pub(crate) const fn new(max_buffers: usize) -> Self {
        Self { buffers: VecDeque::new(), max_buffers }
    }

    /// An empty buffer with room for at least `n` bytes, if one is free.
    pub(crate) fn take(&mut self, n: usize) -> Option<BytesMut> {
        if self.buffers.front_mut()?.try_reclaim(n) { self.buffers.pop_front() } else { None }
    }

    /// Takes an empty buffer that is not used any more, whether or not slices of it are.
    pub(crate) fn give_back(&mut self, buffer: BytesMut) {
        if self.buffers.len() < self.max_buffers {
            self.buffers.push_back(buffer);
        }
    }

    /// Gives all memory back.
    pub(crate) fn clear(&mut self) {
        self.buffers = VecDeque::new();
    }
}
