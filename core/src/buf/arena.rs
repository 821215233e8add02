//! The output arena of a connection: where frames are written.

use alloc::vec::Vec;
use core::mem;

use bytes::{Bytes, BytesMut};

use super::Transmit;

/// Output of a connection that no [`Transmit`] has taken yet.
///
/// Frames are appended to the *run*, the unsealed end of a chunk; large payloads are chained between
/// runs. A `BytesMut` is never allowed to grow by itself, for growing while slices are in flight copies
/// the pending run: an append that does not fit seals the run and begins another chunk. Exhausted chunks
/// are used again once the transport has dropped every slice of them, so a steady load allocates nothing.
pub(crate) struct Arena {
    /// Sealed runs and chained payloads in order.
    sealed: Vec<Bytes>,
    /// Bytes in `sealed`.
    sealed_len: usize,
    /// The run, with the unused capacity of its chunk.
    run: BytesMut,
    /// Whether the run's chunk is larger than `chunk`, so that it is not worth keeping.
    oversized: bool,
    /// Handles of used-up chunks, oldest first, to be reclaimed when nobody holds a slice any more.
    exhausted: Vec<BytesMut>,
    /// How often a chunk of the present size was used up.
    used_up: u8,
    /// Size of the present chunks, in bytes: none, then small, and larger when all of them are in flight.
    size: usize,
    /// Largest size of a chunk that is kept, in bytes.
    chunk: usize,
    /// Payloads below this size are copied into the run.
    copy_below: usize,
}

impl Arena {
    /// Used-up chunks that are remembered. Two, so that output in flight may span a chunk's end.
    pub(crate) const KEPT_CHUNKS: usize = 2;

    /// Size of the first chunk: SETTINGS, what answers the peer's, and a small head.
    const FIRST_CHUNK: usize = 256;

    /// How often a chunk smaller than `BUSY_CHUNK` is used up before a larger one takes its place.
    const SMALL_CHUNKS: u8 = 8;
    const BUSY_CHUNK: usize = 4096;

    /// An empty arena of chunks up to `chunk` bytes that copies payloads below `copy_below` bytes. Takes no
    /// memory before the first append.
    pub(crate) fn new(chunk: usize, copy_below: usize) -> Self {
        Self {
            sealed: Vec::new(),
            sealed_len: 0,
            run: BytesMut::new(),
            oversized: false,
            exhausted: Vec::new(),
            used_up: 0,
            size: 0,
            chunk,
            copy_below,
        }
    }

    /// The run with at least `n` spare bytes: appending up to `n` bytes to it never reallocates, and
    /// they stay contiguous.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> &mut BytesMut {
        if self.run.capacity() - self.run.len() < n {
            self.seal();
            self.replace_chunk(n);
        }
        &mut self.run
    }

    /// The run, for filling what was reserved at its end, or taking that back.
    pub(crate) fn run(&mut self) -> &mut BytesMut {
        &mut self.run
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len()).extend_from_slice(bytes);
    }

    /// Appends `payload`: by copy below `copy_below`, by reference from there up.
    pub(crate) fn chain(&mut self, payload: Bytes) {
        if payload.len() < self.copy_below {
            self.put(&payload);
        } else if !payload.is_empty() {
            self.seal();
            self.sealed_len += payload.len();
            self.sealed.push(payload);
        }
    }

    /// Bytes that wait to be drained.
    pub(crate) fn len(&self) -> usize {
        self.sealed_len + self.run.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves everything to `out`, by reference.
    pub(crate) fn drain_into(&mut self, out: &mut Transmit) {
        self.seal();
        self.sealed_len = 0;
        for chunk in self.sealed.drain(..) {
            out.push(chunk);
        }
    }

    /// Gives the chunks back, unless output waits in them.
    pub(crate) fn release_idle(&mut self) {
        if self.is_empty() {
            *self = Self::new(self.chunk, self.copy_below);
        }
    }

    /// Ends the run: what follows begins a new slice in the same chunk.
    fn seal(&mut self) {
        if !self.run.is_empty() {
            self.sealed_len += self.run.len();
            self.sealed.push(self.run.split().freeze());
        }
    }

    /// Puts a chunk with room for `n` bytes in place of the present one, whose run is sealed.
    fn replace_chunk(&mut self, n: usize) {
        // One that is small is used up again and again where there is a call at a time: a larger one costs less.
        self.used_up = self.used_up.saturating_add(1);
        let is_busy = self.size < Self::BUSY_CHUNK && self.used_up > Self::SMALL_CHUNKS;
        if n <= self.size && !is_busy {
            if !self.oversized && self.run.try_reclaim(self.size) {
                return;
            }
            if let Some(free) = self.exhausted.iter_mut().position(|chunk| chunk.try_reclaim(self.size)) {
                let free = self.exhausted.remove(free);
                self.retire(free);
                return;
            }
        }
        let is_outgrown = is_busy || self.size == 0 || n > self.size || self.exhausted.len() == Self::KEPT_CHUNKS;
        if is_outgrown && self.size < self.chunk {
            let wanted = if self.size == 0 { Self::FIRST_CHUNK } else { self.size.saturating_mul(4) };
            self.size = wanted.max(n).min(self.chunk);
            self.used_up = 0;
            // Those of another size are not used again.
            self.exhausted.clear();
            self.run = BytesMut::with_capacity(self.size.max(n));
        } else {
            self.retire(BytesMut::with_capacity(self.size.max(n)));
        }
        self.oversized = n > self.chunk;
    }

    /// Makes `next` the present chunk and remembers the old one.
    fn retire(&mut self, next: BytesMut) {
        let old = mem::replace(&mut self.run, next);
        if mem::take(&mut self.oversized) {
            return;
        }
        if self.exhausted.len() == Self::KEPT_CHUNKS {
            self.exhausted.remove(0);
        }
        self.exhausted.push(old);
    }
}
