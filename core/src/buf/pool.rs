//! Reuse of the buffers of large messages.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::MessageBuf;

/// Buffers for messages that are encoded outside a connection, kept for the next message.
///
/// Encode into [`get`](Self::get)'s buffer, freeze it, send a clone, [`keep`](Self::keep) the other: the
/// memory is handed out again only when nobody else holds a slice of it, so it does not matter how early
/// `keep` is called, or whether the call failed. Static and owner-backed `Bytes` are never handed out.
///
/// Keeps at most 16 free buffers of 512 B to 8 MiB and at most the given bytes in all; the rest goes back to
/// the allocator. Where there are too many, the smallest go, which are the cheapest to get again, and of equal ones
/// the last to come. Buffers in flight are not counted: who uses them needs them, as many as there are. The pool finds
/// out at the next message, or by [`settle`](Self::settle), that they are free.
pub struct BufferPool {
    /// Nobody else holds a slice of these. What lies in them means nothing; that it is there spares who wants initialised
    /// memory to make it so. The first to come is the first.
    pub(super) free: Vec<BytesMut>,
    /// Somebody may still hold a slice of these. They take turns to be looked at, and begin in the order in which they
    /// are likely to come back.
    pub(super) in_flight: VecDeque<InFlight>,
    max_bytes: usize,
}

/// A buffer that somebody may still hold a slice of.
pub(super) struct InFlight {
    pub(super) bytes: Bytes,
    /// They begin where their memory does, so that what lies there can stay.
    is_at_start: bool,
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

impl BufferPool {
    /// Capacity of the smallest buffer, in bytes.
    pub const MIN_BUFFER: usize = 512;
    /// Capacity of the largest buffer that is kept, in bytes.
    pub const MAX_BUFFER: usize = 8 * 1024 * 1024;
    /// Most free buffers that are kept.
    pub const MAX_FREE: usize = 16;
    /// Most buffers in flight that are remembered.
    pub const MAX_IN_FLIGHT: usize = 128;
    /// Buffers in flight that are looked at for each message, as long as there are free ones.
    const LOOKS: usize = 4;
    /// Received messages from this size on leave their memory to the next; below, the allocator is as fast.
    const LARGE: usize = 32 * 1024;

    /// An empty pool that keeps at most `max_bytes` bytes (`Config::pool_bytes`).
    pub const fn new(max_bytes: usize) -> Self {
        Self { free: Vec::new(), in_flight: VecDeque::new(), max_bytes }
    }

    /// Most bytes of memory that a pool keeps whose free buffers have `max_bytes`.
    pub(crate) const fn max_bytes(max_bytes: usize) -> usize {
        let handles = super::capacity(Self::MAX_FREE + 1) * size_of::<BytesMut>()
            + super::capacity(Self::MAX_IN_FLIGHT) * size_of::<InFlight>();
        if max_bytes == 0 { 0 } else { max_bytes.saturating_add(handles) }
    }

    /// An empty buffer of at least `min` bytes (and at least 512), kept or new.
    pub fn get(&mut self, min: usize) -> BytesMut {
        let min = min.max(Self::MIN_BUFFER);
        let Some(mut buffer) = self.reuse(min..=usize::MAX) else { return BytesMut::with_capacity(min) };
        buffer.clear();
        buffer
    }

    /// Keeps the memory of `bytes` for a later [`get`](Self::get), once every other handle is gone. Any
    /// slice of a buffer gives the whole buffer back.
    pub fn keep(&mut self, bytes: Bytes) {
        self.remember(InFlight { bytes, is_at_start: false });
    }

    fn remember(&mut self, buffer: InFlight) {
        let bytes = &buffer.bytes;
        if !bytes.is_empty() && bytes.len() <= Self::MAX_BUFFER.min(self.max_bytes) {
            if self.in_flight.len() == Self::MAX_IN_FLIGHT {
                self.in_flight.pop_front();
            }
            self.in_flight.push_back(buffer);
        }
    }

    /// A buffer that is kept and free, of a capacity within `fitting`, with whatever lies in it.
    pub(crate) fn reuse(&mut self, fitting: RangeInclusive<usize>) -> Option<BytesMut> {
        self.look(Self::LOOKS);
        // To look at all of them costs less than a new buffer.
        self.take(&fitting).or_else(|| {
            self.look(self.in_flight.len());
            self.take(&fitting)
        })
    }

    /// The smallest free buffer of a capacity within `fitting`.
    fn take(&mut self, fitting: &RangeInclusive<usize>) -> Option<BytesMut> {
        let capacities = self.free.iter().map(BytesMut::capacity).enumerate();
        let (best, _) = capacities.filter(|(_, capacity)| fitting.contains(capacity)).min_by_key(|(_, it)| *it)?;
        Some(self.free.remove(best))
    }

    /// Keeps the memory of a large message for the next, once its owner has let go of it.
    pub(crate) fn keep_message(&mut self, message: &MessageBuf) {
        if message.first().len() >= Self::LARGE {
            self.remember(InFlight { bytes: message.first().clone(), is_at_start: message.is_at_start() });
        }
    }

    /// Takes a buffer that turned out too small, if it is of use to another large message.
    pub(crate) fn put_back(&mut self, buffer: BytesMut) {
        if buffer.capacity() >= Self::LARGE {
            self.add_free(buffer);
        }
    }

    /// Bytes kept: the capacity of free buffers.
    pub fn bytes(&self) -> usize {
        self.free.iter().map(BytesMut::capacity).sum()
    }

    /// Gives everything back to the allocator, for a session that has fallen idle.
    pub fn clear(&mut self) {
        *self = Self::new(self.max_bytes);
    }

    /// Finds out which buffers are free by now, and returns to the limits: for who has had no large message for a time.
    pub fn settle(&mut self) {
        self.look(self.in_flight.len());
    }

    /// Looks whether the next `looks` of those in flight are free by now.
    fn look(&mut self, looks: usize) {
        for _ in 0..looks.min(self.in_flight.len()) {
            let Some(InFlight { bytes, is_at_start }) = self.in_flight.pop_front() else { return };
            match bytes.try_into_mut() {
                Ok(mut buffer) => {
                    if !is_at_start {
                        buffer.clear();
                        // The handle may be a slice from the middle: move back to the start of the memory.
                        let _ = buffer.try_reclaim(buffer.capacity() + 1);
                    }
                    self.add_free(buffer);
                }
                Err(bytes) => self.in_flight.push_back(InFlight { bytes, is_at_start }),
            }
        }
    }

    /// Adds a free buffer, and returns to the limits.
    fn add_free(&mut self, buffer: BytesMut) {
        if (Self::MIN_BUFFER..=Self::MAX_BUFFER).contains(&buffer.capacity()) {
            self.free.push(buffer);
        }
        let mut bytes = self.bytes();
        while self.free.len() > Self::MAX_FREE || bytes > self.max_bytes {
            let by_worth = self.free.iter().enumerate().map(|(i, buffer)| (buffer.capacity(), Reverse(i)));
            let Some((least, Reverse(i))) = by_worth.min() else { break };
            bytes -= least;
            self.free.remove(i);
        }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool").field("in_flight", &self.in_flight.len()).field("bytes", &self.bytes()).finish()
    }
}
