//! Reuse of the buffers of large messages.

use alloc::vec::Vec;
use core::{fmt, mem};

use bytes::{Bytes, BytesMut};

/// Buffers for messages that are encoded outside a connection, kept for the next message.
///
/// Encode into [`get`](Self::get)'s buffer, freeze it, send a clone, [`keep`](Self::keep) the other: the
/// memory is handed out again only when nobody else holds a slice of it, so it does not matter how early
/// `keep` is called, or whether the call failed. Static and owner-backed `Bytes` are never handed out.
///
/// Keeps at most 16 buffers of 512 B to 8 MiB and at most the given bytes in all; the rest goes back to
/// the allocator. Buffers still in flight count with the length that `keep` saw, until they are free.
pub struct BufferPool {
    /// Oldest first.
    pub(super) slots: Vec<Slot>,
    max_bytes: usize,
}

pub(super) enum Slot {
    /// Nobody else holds a slice; empty, and at the start of its memory.
    Free(BytesMut),
    /// Somebody may still hold a slice.
    InFlight(Bytes),
}

impl BufferPool {
    /// Capacity of the smallest buffer, in bytes.
    pub const MIN_BUFFER: usize = 512;
    /// Capacity of the largest buffer that is kept, in bytes.
    pub const MAX_BUFFER: usize = 8 * 1024 * 1024;
    /// Most buffers that are kept.
    pub const MAX_SLOTS: usize = 16;

    /// An empty pool that keeps at most `max_bytes` bytes (`Config::pool_bytes`).
    pub const fn new(max_bytes: usize) -> Self {
        Self { slots: Vec::new(), max_bytes }
    }

    /// An empty buffer of at least `min` bytes (and at least 512), kept or new.
    pub fn get(&mut self, min: usize) -> BytesMut {
        let min = min.max(Self::MIN_BUFFER);
        self.settle();
        let fitting = self.slots.iter().enumerate().filter_map(|(i, slot)| match slot {
            Slot::Free(buffer) if buffer.capacity() >= min => Some((buffer.capacity(), i)),
            _ => None,
        });
        match fitting.min().map(|(_, i)| self.slots.remove(i)) {
            Some(Slot::Free(buffer)) => buffer,
            _ => BytesMut::with_capacity(min),
        }
    }

    /// Keeps the memory of `bytes` for a later [`get`](Self::get), once every other handle is gone. Any
    /// slice of a buffer gives the whole buffer back.
    ///
    /// Makes room by dropping the oldest buffers.
    pub fn keep(&mut self, bytes: Bytes) {
        if !bytes.is_empty() && bytes.len() <= Self::MAX_BUFFER.min(self.max_bytes) {
            self.slots.push(Slot::InFlight(bytes));
        }
        self.settle();
    }

    /// Bytes kept: the capacity of free buffers, the known length of those in flight.
    pub fn bytes(&self) -> usize {
        self.slots.iter().map(Slot::bytes).sum()
    }

    /// Gives everything back to the allocator, for a session that has fallen idle.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
    }

    /// Finds out which buffers are free by now, and returns to the limits.
    fn settle(&mut self) {
        self.slots.retain_mut(|slot| {
            slot.settle();
            match slot {
                Slot::Free(buffer) => (Self::MIN_BUFFER..=Self::MAX_BUFFER).contains(&buffer.capacity()),
                Slot::InFlight(_) => true,
            }
        });
        let mut bytes = self.bytes();
        let mut excess = 0;
        while self.slots.len() - excess > Self::MAX_SLOTS || bytes > self.max_bytes {
            bytes -= self.slots[excess].bytes();
            excess += 1;
        }
        self.slots.drain(..excess);
    }
}

impl Slot {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Free(buffer) => buffer.capacity(),
            Self::InFlight(bytes) => bytes.len(),
        }
    }

    fn settle(&mut self) {
        if let Self::InFlight(bytes) = self {
            *self = match mem::take(bytes).try_into_mut() {
                Ok(mut buffer) => {
                    buffer.clear();
                    // The handle may be a slice from the middle: move back to the start of the memory.
                    let _ = buffer.try_reclaim(buffer.capacity() + 1);
                    Self::Free(buffer)
                }
                Err(bytes) => Self::InFlight(bytes),
            };
        }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("slots", &self.slots.len()).field("bytes", &self.bytes()).finish()
    }
}
