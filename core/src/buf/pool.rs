//! Reuse of the buffers of large messages.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::RangeInclusive;
use core::{fmt, mem};

use bytes::{Bytes, BytesMut};

use super::MessageBuf;

/// Buffers for messages that are encoded outside a connection, kept for the next message.
///
/// Encode into [`get`](Self::get)'s buffer, freeze it, send a clone, [`keep`](Self::keep) the other: the
/// memory is handed out again only when nobody else holds a slice of it, so it does not matter how early
/// `keep` is called, or whether the call failed. Static and owner-backed `Bytes` are never handed out.
///
/// Keeps at most 16 buffers of 512 B to 8 MiB and at most the given bytes in all; the rest goes back to
/// the allocator. Buffers still in flight count with the length that `keep` saw, until they are free. Where there are
/// too many, the smallest go, which are the cheapest to get again, and of equal ones the last to come: a steady load
/// of more than fits goes on using those that do.
pub struct BufferPool {
    /// Oldest first.
    pub(super) slots: Vec<Slot>,
    max_bytes: usize,
}

/// Where the octets of a large message come to lie.
pub(crate) struct Landing<'a> {
    pub(crate) pool: &'a mut BufferPool,
    /// Octets that the peer may still send without another word from us.
    pub(crate) may_come: usize,
}

impl<'a> Landing<'a> {
    /// For a call without a connection, whose owner limits what comes.
    pub(crate) fn alone(pool: &'a mut BufferPool) -> Self {
        Self { pool, may_come: usize::MAX }
    }
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
    /// Received messages from this size on leave their memory to the next; below, the allocator is as fast.
    const LARGE: usize = 32 * 1024;

    /// An empty pool that keeps at most `max_bytes` bytes (`Config::pool_bytes`).
    pub const fn new(max_bytes: usize) -> Self {
        Self { slots: Vec::new(), max_bytes }
    }

    /// An empty buffer of at least `min` bytes (and at least 512), kept or new.
    pub fn get(&mut self, min: usize) -> BytesMut {
        let min = min.max(Self::MIN_BUFFER);
        self.reuse(min..=usize::MAX).unwrap_or_else(|| BytesMut::with_capacity(min))
    }

    /// Keeps the memory of `bytes` for a later [`get`](Self::get), once every other handle is gone. Any
    /// slice of a buffer gives the whole buffer back.
    pub fn keep(&mut self, bytes: Bytes) {
        if !bytes.is_empty() && bytes.len() <= Self::MAX_BUFFER.min(self.max_bytes) {
            self.slots.push(Slot::InFlight(bytes));
        }
        self.settle();
    }

    /// A buffer that is kept and free, of a capacity within `fitting`.
    pub(crate) fn reuse(&mut self, fitting: RangeInclusive<usize>) -> Option<BytesMut> {
        self.settle();
        let free = self.slots.iter().enumerate().filter_map(|(i, slot)| match slot {
            Slot::Free(buffer) => Some((buffer.capacity(), i)),
            Slot::InFlight(_) => None,
        });
        let (_, best) = free.filter(|(capacity, _)| fitting.contains(capacity)).min()?;
        match self.slots.remove(best) {
            Slot::Free(buffer) => Some(buffer),
            Slot::InFlight(_) => None,
        }
    }

    /// Keeps the memory of a large message for the next, once its owner has let go of it.
    pub(crate) fn keep_message(&mut self, message: &MessageBuf) {
        if message.first().len() >= Self::LARGE {
            self.keep(message.first().clone());
        }
    }

    /// Takes a buffer that turned out too small, if it is of use to another large message.
    pub(crate) fn put_back(&mut self, buffer: BytesMut) {
        if buffer.capacity() >= Self::LARGE {
            self.slots.push(Slot::Free(buffer));
            self.settle();
        }
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
        while self.slots.len() > Self::MAX_SLOTS || bytes > self.max_bytes {
            let by_worth = self.slots.iter().enumerate().map(|(i, slot)| (slot.bytes(), Reverse(i)));
            let Some((least, Reverse(i))) = by_worth.min() else { break };
            bytes -= least;
            self.slots.remove(i);
        }
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
