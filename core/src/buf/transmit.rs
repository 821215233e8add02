//! Output on its way to the transport.

use alloc::collections::VecDeque;
use core::fmt;

use bytes::{Buf, Bytes};

/// Bytes that [`poll_transmit`](crate::Connection::poll_transmit) produced and the transport has not
/// taken yet, in order.
///
/// A rope: frame headers and small payloads share chunks, large payloads are chunks of their own that
/// were never copied. Write any prefix of it, acknowledge it with [`advance`](Self::advance); what is
/// left *is* the unwritten output. Dropping written chunks is what returns their buffers.
#[derive(Default)]
pub struct Transmit {
    /// No chunk is empty.
    pub(super) chunks: VecDeque<Bytes>,
    len: usize,
}

impl Transmit {
    /// An empty rope; takes no memory.
    pub const fn new() -> Self {
        Self { chunks: VecDeque::new(), len: 0 }
    }

    /// Bytes not yet written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether everything was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The unwritten bytes as slices in order, none of them empty: what a vectored write takes.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.chunks.iter().map(|chunk| &chunk[..])
    }

    /// Copies as much as fits into `dst`, for transports that take one slice; returns the count.
    ///
    /// Nothing is consumed: acknowledge what was written with [`advance`](Self::advance).
    #[expect(clippy::indexing_slicing, reason = "`n` is at most the length of both")]
    pub fn copy_to(&self, dst: &mut [u8]) -> usize {
        let mut rest = dst;
        let room = rest.len();
        for chunk in &self.chunks {
            let n = chunk.len().min(rest.len());
            let (now, later) = rest.split_at_mut(n);
            now.copy_from_slice(&chunk[..n]);
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        room - rest.len()
    }

    /// Acknowledges that the transport took the first `written` bytes: any prefix, also one that ends
    /// inside a frame.
    ///
    /// # Panics
    /// If `written` is more than [`len`](Self::len): the transport claims bytes it never got.
    pub fn advance(&mut self, written: usize) {
        assert!(written <= self.len, "{written} bytes written of {}", self.len);
        self.len -= written;
        let mut left = written;
        while let Some(front) = self.chunks.front_mut() {
            if left < front.len() {
                front.advance(left);
                break;
            }
            left -= front.len();
            self.chunks.pop_front();
        }
    }

    /// Appends `chunk` without copying it.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.len += chunk.len();
            self.chunks.push_back(chunk);
        }
    }
}

impl fmt::Debug for Transmit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transmit").field("len", &self.len).field("chunks", &self.chunks.len()).finish()
    }
}
