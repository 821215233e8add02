//! The receive window: what the transport read and the connection has not consumed yet.

use core::fmt;

use bytes::{Buf, Bytes, BytesMut};

/// Bytes read from the transport, on their way into [`handle_input`](crate::Connection::handle_input).
///
/// One window of memory. Read into [`space`](Self::space), report the count with
/// [`commit`](Self::commit). The connection splits payloads off without copying them, so a window lives
/// until the last payload in it is dropped; a new one takes its place when less than 1 KiB is left, or
/// the old one is used again if nothing of it is held any more.
///
/// The window starts at the size given to [`new`](Self::new) and doubles up to 64 KiB while reads fill
/// it; [`release_idle`](Self::release_idle) gives it back while a connection is silent.
pub struct RecvBuf {
    /// Initialised memory: what was skipped, unread bytes, then space for the next read. Always zeroed or
    /// read, so that `space` needs neither `unsafe` nor a zeroing per read.
    pub(super) window: BytesMut,
    /// Bytes at the front of `window` that were skipped: to take each of them off would cost more.
    skipped: usize,
    /// Unread bytes behind them.
    unread: usize,
    /// Size of the first window, in bytes.
    initial: usize,
    /// Size of the next window, in bytes.
    next: usize,
    /// Size of the present window, in bytes.
    size: usize,
}

impl RecvBuf {
    /// Least space offered to a read, in bytes. A window is used down to it.
    const MIN_SPACE: usize = 1024;
    /// Size up to which windows double, in bytes.
    const MAX_WINDOW: usize = 64 * 1024;

    /// An empty buffer whose first window has `chunk` bytes (at least 2 KiB); 16 KiB suits most uses.
    ///
    /// No memory is taken before the first [`space`](Self::space).
    pub fn new(chunk: usize) -> Self {
        let initial = chunk.max(2 * Self::MIN_SPACE);
        Self { window: BytesMut::new(), skipped: 0, unread: 0, initial, next: initial, size: 0 }
    }

    /// Room for one read: at least 1 KiB of initialised memory directly behind the unread bytes.
    ///
    /// What it contains is meaningless. Unread bytes move only when the window is replaced.
    pub fn space(&mut self) -> &mut [u8] {
        self.make_space(Self::MIN_SPACE);
        self.window.split_at_mut(self.skipped + self.unread).1
    }

    /// Takes the first `n` bytes of [`space`](Self::space) as read.
    ///
    /// # Panics
    /// If `n` is more than the space that was offered.
    pub fn commit(&mut self, n: usize) {
        let space = self.left();
        assert!(n <= space, "committed {n} bytes of {space}");
        self.unread += n;
        // A read that fills half a window or more left something in the transport: read more at a time.
        if n == space && n >= self.size / 2 {
            self.next = self.size.saturating_mul(2).min(Self::MAX_WINDOW).max(self.size);
        }
    }

    /// Appends `data` by copying it.
    pub fn extend(&mut self, data: &[u8]) {
        if !data.is_empty() {
            self.make_space(data.len());
            let end = self.skipped + self.unread;
            self.window[end..end + data.len()].copy_from_slice(data);
            self.unread += data.len();
        }
    }

    /// Whether every byte was consumed.
    pub fn is_empty(&self) -> bool {
        self.unread == 0
    }

    /// Unread bytes.
    pub fn len(&self) -> usize {
        self.unread
    }

    /// Gives the window back if nothing in it is unread; the next read starts with a small one.
    ///
    /// For a driver whose connection was silent for about a second: an idle connection then holds no
    /// receive memory at all.
    pub fn release_idle(&mut self) {
        if self.unread == 0 {
            *self = Self::new(self.initial);
        }
    }

    /// The unread bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.window[self.skipped..self.skipped + self.unread]
    }

    /// Splits the first `n` unread bytes off without copying them.
    pub(crate) fn split_to(&mut self, n: usize) -> Bytes {
        assert!(n <= self.unread, "split {n} of {} unread bytes", self.unread);
        self.unread -= n;
        self.drop_skipped();
        self.window.split_to(n).freeze()
    }

    /// Drops the first `n` unread bytes.
    pub(crate) fn skip(&mut self, n: usize) {
        assert!(n <= self.unread, "skipped {n} of {} unread bytes", self.unread);
        self.unread -= n;
        self.skipped += n;
    }

    fn drop_skipped(&mut self) {
        self.window.advance(core::mem::take(&mut self.skipped));
    }

    /// Bytes behind the unread ones.
    fn left(&self) -> usize {
        self.window.len() - self.skipped - self.unread
    }

    /// Makes the window hold at least `n` bytes behind the unread ones.
    fn make_space(&mut self, n: usize) {
        if self.left() >= n {
            return;
        }
        self.drop_skipped();
        let size = self.next.max(self.unread.saturating_add(n));
        // With the zeroed rest still counted as length, `try_reclaim` would refuse.
        self.window.truncate(self.unread);
        if size > self.size || !self.window.try_reclaim(size - self.unread) {
            let old = core::mem::replace(&mut self.window, BytesMut::with_capacity(size));
            self.window.extend_from_slice(&old);
        }
        self.window.resize(size, 0);
        self.size = size;
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuf").field("unread", &self.unread).field("window", &self.size).finish()
    }
}
