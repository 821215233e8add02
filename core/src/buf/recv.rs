//! The receive window: what the transport read and the connection has not consumed yet.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::{fmt, mem};

use bytes::{Buf, Bytes, BytesMut};

use super::scatter::{Scatter, Spaces};
use crate::config::Config;

/// Bytes read from the transport, on their way into [`handle_input`](crate::Connection::handle_input).
///
/// One window of memory. Read into [`space`](Self::space), report the count with
/// [`commit`](Self::commit). The connection splits small payloads off without copying them, so a window lives
/// until the last payload in it is dropped; a new one takes its place when less than a quarter is left, or
/// the old one is used again if nothing of it is held any more. What was consumed otherwise is room for the
/// next read at once: a bulk transfer goes through one window, which stays in the processor's cache.
///
/// The window starts at the size given to [`new`](Self::new) and doubles up to 256 KiB, or the size given to
/// [`with_max`](Self::with_max), while reads fill it; [`release_idle`](Self::release_idle) gives it back while a connection is silent.
pub struct RecvBuf {
    /// Initialised memory: what was consumed, unread bytes, then space for the next read. Always zeroed or
    /// read, so that `space` needs neither `unsafe` nor a zeroing per read.
    pub(super) window: BytesMut,
    /// Consumed bytes at the front of `window`, which nobody holds.
    consumed: usize,
    /// Unread bytes behind them.
    unread: usize,
    /// Size of the first window, in bytes.
    initial: usize,
    /// Size of the next window, in bytes.
    next: usize,
    /// Size up to which windows double, in bytes.
    max: usize,
    /// Size of the present window, in bytes.
    size: usize,
    /// A read filled the little that splitting has left of the window.
    is_cramped: bool,
    /// Where the next read goes in front of the window, if it is scattered. What comes there comes before what is unread.
    /// Boxed, for every connection has room for a window.
    scatter: Option<Box<Scatter>>,
    /// Most bytes that the next read may bring to the window.
    limit: usize,
}

impl RecvBuf {
    /// Least space offered to a read, in bytes.
    const MIN_SPACE: usize = 1024;
    /// Size up to which windows double, in bytes, if nothing else is said.
    const MAX_WINDOW: usize = 256 * 1024;
    /// Smallest size of a window, in bytes.
    const FIRST: usize = 2 * Self::MIN_SPACE;
    /// Up to so many unread bytes are moved to the front before each read, which costs next to nothing: the
    /// beginning of a frame, as a rule.
    const MOVED: usize = 64;

    /// An empty buffer whose first window has `chunk` bytes (at least 2 KiB); 16 KiB suits most uses.
    ///
    /// No memory is taken before the first [`space`](Self::space).
    pub fn new(chunk: usize) -> Self {
        Self::with_max(chunk, Self::MAX_WINDOW)
    }

    /// An empty buffer whose first window has `chunk` bytes (at least 2 KiB), and whose windows double up to `max` bytes.
    ///
    /// No memory is taken before the first [`space`](Self::space).
    pub fn with_max(chunk: usize, max: usize) -> Self {
        let initial = chunk.max(Self::FIRST);
        let max = max.max(initial);
        Self {
            window: BytesMut::new(),
            consumed: 0,
            unread: 0,
            initial,
            next: initial,
            max,
            size: 0,
            is_cramped: false,
            scatter: None,
            limit: usize::MAX,
        }
    }

    /// Most bytes of a connection's windows: the one that it reads into, and those that messages still lie in, or the one
    /// before; and what says where the next read goes.
    pub(crate) const fn max_bytes(config: &Config) -> usize {
        let window = if config.max_read > Self::FIRST { config.max_read } else { Self::FIRST };
        let others = if config.max_lent_input > window { config.max_lent_input } else { window };
        window.saturating_add(others).saturating_add(size_of::<Scatter>())
    }

    /// Room for one read: at least 1 KiB of initialised memory directly behind the unread bytes.
    ///
    /// What it contains is meaningless. Of a [scattered](Self::is_scattered) read it is the first of the [spaces](Self::spaces).
    pub fn space(&mut self) -> &mut [u8] {
        if self.is_scattered() {
            return self.spaces().next().unwrap_or_default();
        }
        self.make_space_for_read();
        let window = self.window.split_at_mut(self.consumed + self.unread).1;
        window.split_at_mut(self.limit.min(window.len())).0
    }

    /// Room for one read, in pieces that are filled in this order; as a rule it is one, [`space`](Self::space).
    ///
    /// After [`Connection::prepare_read`](crate::Connection::prepare_read) there may be more, up to [`Spaces::MAX`].
    pub fn spaces(&mut self) -> Spaces<'_> {
        self.make_space_for_read();
        let window = self.window.split_at_mut(self.consumed + self.unread).1;
        let window = window.split_at_mut(self.limit.min(window.len())).0;
        match &mut self.scatter {
            Some(scatter) => scatter.spaces(window),
            None => Spaces::only(window),
        }
    }

    /// Whether the next read is [scattered](Self::spaces).
    pub const fn is_scattered(&self) -> bool {
        self.scatter.is_some()
    }

    fn make_space_for_read(&mut self) {
        // A read that is cut short by the end of a window costs another one, so a window is used down to a quarter;
        // down to the minimum where unread bytes would have to move.
        let least = if self.unread <= Self::MOVED { self.next / 4 } else { 0 };
        self.make_space(least.max(Self::MIN_SPACE));
    }

    /// Takes the first `n` bytes of [`space`](Self::space), or of all [`spaces`](Self::spaces), as read.
    ///
    /// # Panics
    /// If `n` is more than the space that was offered.
    pub fn commit(&mut self, n: usize) {
        let is_limited = mem::replace(&mut self.limit, usize::MAX) < usize::MAX;
        let n = match &mut self.scatter {
            Some(scatter) => scatter.commit(n),
            None => n,
        };
        let space = self.space_left();
        assert!(n <= space, "committed {n} bytes of {space}");
        self.unread += n;
        if is_limited {
            return;
        }
        // A read that fills what it was offered left something in the transport: read more at a time.
        if n == space && n >= self.size / 2 {
            self.next = self.size.saturating_mul(2).min(self.max).max(self.size);
        }
        self.is_cramped |= n == space && n < self.size / 2;
    }

    /// Appends `data` by copying it.
    #[expect(clippy::indexing_slicing, reason = "`make_space` made the window that long")]
    pub fn extend(&mut self, data: &[u8]) {
        if !data.is_empty() {
            self.make_space(data.len());
            let end = self.consumed + self.unread;
            self.window[end..end + data.len()].copy_from_slice(data);
            self.unread += data.len();
        }
    }

    /// Takes the unread bytes out of the window, so that it can serve another connection;
    /// [`extend`](Self::extend) gives them back. Takes no memory if there are none.
    pub fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.data().to_vec();
        self.skip(unread.len());
        self.limit = usize::MAX;
        unread
    }

    /// Whether every byte was consumed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unread bytes.
    pub fn len(&self) -> usize {
        self.unread + self.scatter.as_ref().map_or(0, |scatter| scatter.read())
    }

    /// Gives the window back if nothing in it is unread; the next read starts with a small one.
    ///
    /// For a driver whose connection was silent for about a second: an idle connection then holds no
    /// receive memory at all.
    pub fn release_idle(&mut self) {
        if self.unread == 0 && !self.is_scattered() {
            *self = Self::with_max(self.initial, self.max);
        }
    }

    /// The next read brings at most `n` bytes to the window; at least one.
    pub(crate) fn limit_next_read(&mut self, n: usize) {
        self.limit = n.max(1);
    }

    /// The next read goes there first.
    pub(crate) fn scatter(&mut self, scatter: Scatter) {
        debug_assert!(self.is_empty(), "what is unread comes first");
        self.scatter = Some(Box::new(scatter));
    }

    /// What came of a read that was scattered, and comes in front of what is unread.
    pub(crate) fn take_scatter(&mut self) -> Option<Box<Scatter>> {
        self.scatter.take()
    }

    /// Copies what came of a scattered read behind the first `kept` octets to the window, in front of what is unread.
    pub(crate) fn gather(&mut self, scatter: &mut Scatter, kept: usize) {
        if kept < scatter.read() {
            let behind = self.take_unread();
            scatter.split_off(kept, |octets| self.extend(octets));
            self.extend(&behind);
        }
    }

    /// Size of the present window, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// The unread bytes.
    #[expect(
        clippy::indexing_slicing,
        reason = "`commit` and `skip` keep what is consumed and unread within the window"
    )]
    pub(crate) fn data(&self) -> &[u8] {
        &self.window[self.consumed..self.consumed + self.unread]
    }

    /// The unread bytes, to be moved.
    #[expect(
        clippy::indexing_slicing,
        reason = "`commit` and `skip` keep what is consumed and unread within the window"
    )]
    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        &mut self.window[self.consumed..self.consumed + self.unread]
    }

    /// Splits the first `n` unread bytes off without copying them.
    pub(crate) fn split_to(&mut self, n: usize) -> Bytes {
        assert!(n <= self.unread, "split {n} of {} unread bytes", self.unread);
        self.unread -= n;
        let consumed = mem::take(&mut self.consumed);
        // What was consumed leaves with it: one step of the window in place of two.
        let mut taken = self.window.split_to(consumed + n).freeze();
        taken.advance(consumed);
        taken
    }

    /// Drops the first `n` unread bytes.
    pub(crate) fn skip(&mut self, n: usize) {
        assert!(n <= self.unread, "skipped {n} of {} unread bytes", self.unread);
        self.unread -= n;
        self.consumed = if self.unread == 0 { 0 } else { self.consumed + n };
    }

    fn space_left(&self) -> usize {
        self.window.len() - self.consumed - self.unread
    }

    /// Makes the window hold at least `n` bytes behind the unread ones.
    fn make_space(&mut self, n: usize) {
        if self.consumed > 0 && (self.unread <= Self::MOVED || self.space_left() < n) {
            let end = self.consumed + self.unread;
            self.window.copy_within(mem::take(&mut self.consumed)..end, 0);
        }
        let is_outgrown = (self.size < self.next || self.is_cramped) && self.unread <= Self::MOVED;
        if self.space_left() >= n && !is_outgrown {
            return;
        }
        let size = self.next.max(self.unread.saturating_add(n));
        // With the zeroed rest still counted as length, `try_reclaim` would refuse.
        self.window.truncate(self.unread);
        if size > self.size || !self.window.try_reclaim(size - self.unread) {
            let old = mem::replace(&mut self.window, BytesMut::with_capacity(size));
            self.window.extend_from_slice(&old);
        }
        self.window.resize(size, 0);
        self.size = size;
        self.is_cramped = false;
    }
}

/// A buffer whose first window has 16 KiB, and none more than `max_read`.
impl From<&Config> for RecvBuf {
    fn from(config: &Config) -> Self {
        Self::with_max(config.max_read.min(16 * 1024), config.max_read)
    }
}

impl fmt::Debug for RecvBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvBuf").field("unread", &self.unread).field("window", &self.size).finish()
    }
}
