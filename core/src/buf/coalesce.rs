//! What one direction of a call still has to send, and how much of it may leave.

use alloc::boxed::Box;
use core::time::Duration;

use bytes::{Bytes, BytesMut};

use super::rope::{Piece, Rope};
use super::{SHARE_FROM, Terms};
use crate::config::Config;
use crate::error::{CodecError, SendError, StreamError};
use crate::time::Instant;

/// When the messages of a stream leave.
///
/// Whatever is chosen, the peer sees the same octets in the same order; only when they leave, and where DATA frames
/// end, differs. A direction with a single message never holds it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlushPolicy {
    /// With the next output. Messages that are sent before that output leave together.
    #[default]
    Immediate,
    /// Messages are held back until there is enough of them, for fewer frames and writes.
    ///
    /// They leave when `watermark` is reached; when `linger` is over; with [`flush`](crate::CallMut::flush) and with
    /// the end of the stream; and when [`recv`](crate::CallMut::recv) finds nothing, for who waits for the answer must
    /// not hold back the question. Without `linger`, who sends and goes on to wait for something else has to flush.
    Coalesce {
        /// Bytes, prefixes included, at which everything leaves; at most
        /// [`send_buffer`](crate::Config::send_buffer), and 0 holds nothing back.
        watermark: usize,
        /// The longest time that a message is held back.
        linger: Option<Duration>,
    },
}

impl FlushPolicy {
    /// The watermark of [`coalesce`](Self::coalesce), in bytes: grpc-go's and Kitex's as well.
    pub const WATERMARK: usize = 32 * 1024;

    /// Holds messages back until there are 32 KiB of them, at most for `linger`.
    pub const fn coalesce(linger: Option<Duration>) -> Self {
        Self::Coalesce { watermark: Self::WATERMARK, linger }
    }

    /// Whether it matters when a message was sent: it is held back for a time.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Coalesce { watermark: 1.., linger: Some(_) })
    }
}

/// The policy of streams that choose none: `flush_watermark` and `flush_linger`.
impl From<&Config> for FlushPolicy {
    fn from(config: &Config) -> Self {
        match config.flush_watermark {
            0 => Self::Immediate,
            watermark => Self::Coalesce { watermark, linger: config.flush_linger },
        }
    }
}

/// The octets that one direction of a call still has to send.
///
/// One queue: small messages are encoded behind each other, large ones are chained by reference, and nothing overtakes.
/// An octet is *eligible* once it may leave. Pure: the time is an argument, and whoever owns the buffer asks
/// [`poll_timeout`](Self::poll_timeout).
///
/// ```text
///         seal                 take, until nothing is left
///  Open ────────────▶ Sealed ──────────────────────────────▶ Sealed and finished
///    │                   │
///    └───────────────────┴──── fail ────▶ Failed: the first error stays
/// ```
#[derive(Debug)]
pub struct CoalesceBuf {
    state: State,
    /// What was chained, and full tails.
    rope: Rope,
    /// Small messages behind `rope`.
    tail: BytesMut,
    /// Size of the memory that `tail` began with, in bytes; 0 if it has none.
    size: usize,
    /// Octets of the message that was encoded behind `tail`'s end and is not committed.
    staged: usize,
    /// Octets at which no more is taken.
    high_water: usize,
    /// `None` sends at once.
    hold: Option<Box<Hold>>,
}

#[derive(Debug)]
enum State {
    Open,
    Sealed,
    Failed(StreamError),
}

/// What a buffer that holds back knows beside its octets.
#[derive(Debug)]
struct Hold {
    watermark: usize,
    linger: Option<Duration>,
    /// Octets at the front that may leave.
    eligible: usize,
    /// When the rest may.
    deadline: Option<Instant>,
}

impl CoalesceBuf {
    /// Octets in front of a message that are not known before it is encoded.
    pub const PREFIX: usize = Rope::PREFIX;
    /// Messages that fit into a tail of this size lie together, in bytes.
    pub(crate) const MAX_TAIL: usize = 16 * 1024;
    /// The first tail has this size, in bytes, if messages are small.
    const MIN_TAIL: usize = 4 * 1024;
    /// Messages from this size on begin with a large tail, in bytes.
    const LARGE: usize = 512;

    /// An empty buffer; takes no memory. At `high_water` octets and above it is full.
    pub fn new(policy: FlushPolicy, high_water: usize) -> Self {
        let mut buf = Self {
            state: State::Open,
            rope: Rope::default(),
            tail: BytesMut::new(),
            size: 0,
            staged: 0,
            high_water,
            hold: None,
        };
        buf.set_policy(policy);
        buf
    }

    /// Changes when octets leave; what may leave by now still may.
    pub fn set_policy(&mut self, policy: FlushPolicy) {
        let eligible = self.eligible();
        self.hold = match policy {
            FlushPolicy::Immediate | FlushPolicy::Coalesce { watermark: 0, .. } => None,
            FlushPolicy::Coalesce { watermark, linger } => Some(Box::new(Hold {
                watermark: watermark.min(self.high_water),
                linger,
                eligible,
                // What is held back already has waited for long enough.
                deadline: None,
            })),
        };
        if eligible < self.len() {
            self.release();
        }
    }

    /// Appends a message of `len` octets that `fill` encodes, behind `prefix`.
    ///
    /// # Errors
    /// As [`push_bytes`](Self::push_bytes), and `Codec` when `fill` fails or writes another number of octets.
    #[inline]
    pub fn push_with(
        &mut self,
        prefix: Option<[u8; Self::PREFIX]>,
        len: usize,
        fill: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
        now: Instant,
    ) -> Result<(), SendError> {
        self.check()?;
        self.retract();
        let prefix = prefix.as_ref().map_or(&[][..], |prefix| prefix);
        self.encode(prefix, len, fill).map_err(SendError::Codec)?;
        self.appended(prefix.len() + len, now);
        Ok(())
    }

    /// Appends a message that is encoded already, behind `prefix`. It is chained; a small one is copied behind others.
    ///
    /// # Errors
    /// `Sealed` after [`seal`](Self::seal), the first error after [`fail`](Self::fail), `Blocked` while the buffer is
    /// full. Nothing of the message was taken then.
    pub fn push_bytes(
        &mut self,
        prefix: Option<[u8; Self::PREFIX]>,
        payload: Bytes,
        now: Instant,
    ) -> Result<(), SendError> {
        self.check()?;
        self.append(prefix, payload, now);
        Ok(())
    }

    /// [`push_bytes`](Self::push_bytes), however full the buffer is: for the only message of a call.
    pub(crate) fn append(&mut self, prefix: Option<[u8; Self::PREFIX]>, payload: Bytes, now: Instant) {
        self.retract();
        // One that is alone is not worth memory for more.
        let merges = self.hold.is_some() || !self.is_empty();
        let len = payload.len() + prefix.map_or(0, |prefix| prefix.len());
        if merges && payload.len() < SHARE_FROM {
            let tail = self.room(len);
            tail.extend_from_slice(prefix.as_ref().map_or(&[], |prefix| prefix));
            tail.extend_from_slice(&payload);
        } else {
            self.end_tail();
            self.rope.push(prefix, payload);
        }
        self.appended(len, now);
    }

    /// Whether more waits than the message of `len` octets that was appended last, in a buffer that holds nothing back.
    #[inline]
    pub(crate) fn is_burst(&self, len: usize) -> bool {
        self.hold.is_none() && self.len() > Self::PREFIX + len
    }

    /// How much [`append_burst`](Self::append_burst) takes, in messages of up to `max_message` bytes.
    pub(crate) fn burst_terms(&self, max_message: usize) -> Terms {
        if !matches!(self.state, State::Open) || self.hold.is_some() {
            return Terms::default();
        }
        let limit = self.high_water.saturating_sub(self.len());
        Terms { limit, room: self.tail.capacity() - self.tail.len(), max_message }
    }

    /// Appends messages with their prefixes, on the [terms](Self::burst_terms) that were given.
    pub(crate) fn append_burst(&mut self, octets: &[u8]) {
        self.retract();
        self.tail.extend_from_slice(octets);
    }

    /// Encodes a message of `len` octets by `fill` behind the last one, without sending it: [`commit`](Self::commit) or
    /// [`retract`](Self::retract) decides. Whatever was staged before is retracted.
    ///
    /// # Errors
    /// `fill` failed, or wrote another number of octets. Nothing is staged then, nor when it unwinds.
    pub(crate) fn stage(
        &mut self,
        len: usize,
        fill: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        self.retract();
        self.encode(&[0; Self::PREFIX], len, fill)?;
        self.staged = Self::PREFIX + len;
        Ok(())
    }

    /// Puts `before` and a message of `len` octets that `fill` encodes behind the tail; or nothing.
    #[inline]
    fn encode(
        &mut self,
        before: &[u8],
        len: usize,
        fill: impl FnOnce(&mut BytesMut) -> Result<(), CodecError>,
    ) -> Result<(), CodecError> {
        let tail = self.room(before.len() + len);
        let start = tail.len();
        let mut staging = Staging { tail, start, is_done: false };
        staging.tail.extend_from_slice(before);
        fill(staging.tail)?;
        let written = staging.tail.len().saturating_sub(start + before.len());
        if written != len {
            return Err(wrong_len(len, written));
        }
        staging.is_done = true;
        Ok(())
    }

    /// Takes the message that was staged, behind `prefix`.
    #[expect(clippy::indexing_slicing, reason = "what was staged begins with room for a prefix")]
    pub(crate) fn commit(&mut self, prefix: Option<[u8; Self::PREFIX]>, now: Instant) {
        let staged = core::mem::take(&mut self.staged);
        if staged == 0 {
            return;
        }
        let start = self.tail.len().saturating_sub(staged);
        let Some(message) = self.tail.get_mut(start..) else { return };
        let len = match prefix {
            Some(prefix) => {
                message[..Self::PREFIX].copy_from_slice(&prefix);
                staged
            }
            None => {
                message.copy_within(Self::PREFIX.., 0);
                self.tail.truncate(start + staged - Self::PREFIX);
                staged - Self::PREFIX
            }
        };
        self.appended(len, now);
    }

    /// Forgets the message that was staged.
    #[inline]
    pub(crate) fn retract(&mut self) {
        if self.staged > 0 {
            let end = self.tail.len() - core::mem::take(&mut self.staged);
            self.tail.truncate(end);
        }
    }

    /// Makes everything that was appended so far eligible. With nothing there, nothing happens.
    ///
    /// # Errors
    /// The error with which the buffer failed.
    pub fn flush(&mut self) -> Result<(), SendError> {
        if let State::Failed(error) = self.state {
            return Err(SendError::Failed(error));
        }
        self.release();
        Ok(())
    }

    /// Ends the stream: in one step everything becomes eligible, and nothing more is taken. A second time changes
    /// nothing.
    ///
    /// # Errors
    /// The error with which the buffer failed.
    pub fn seal(&mut self) -> Result<(), SendError> {
        self.flush()?;
        self.state = State::Sealed;
        Ok(())
    }

    /// The stream is gone: what was not sent is dropped. The first error stays.
    pub fn fail(&mut self, error: StreamError) {
        if !matches!(self.state, State::Failed(_)) {
            *self = Self { state: State::Failed(error), ..Self::new(FlushPolicy::Immediate, self.high_water) };
        }
    }

    /// Octets that were appended and not taken.
    pub fn len(&self) -> usize {
        self.rope.len() + self.tail.len() - self.staged
    }

    /// Whether nothing waits to be taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets that may be taken.
    pub fn eligible(&self) -> usize {
        self.hold.as_ref().map_or_else(|| self.len(), |hold| hold.eligible)
    }

    /// Whether the stream ends with what was taken.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Sealed) && self.is_empty()
    }

    /// Takes up to `max` eligible octets off the front, gives them to `put` in order, and returns how many they were.
    pub fn take(&mut self, max: usize, put: impl FnMut(Piece<'_>)) -> usize {
        let n = self.cut(max, put);
        self.retire();
        n
    }

    /// How much of `max` octets a frame should take: up to the end of a piece if that is half of it at least, so that the
    /// peer seldom has to put a message together.
    pub(crate) fn frame_len(&self, max: usize) -> usize {
        let whole = if self.len() <= max { max } else { self.rope.end_within(max) };
        if whole > max / 2 { whole } else { max }
    }

    /// [`take`](Self::take), with the memory of small messages left to [`retire`](Self::retire).
    #[expect(clippy::indexing_slicing, reason = "what is eligible is in the rope or in the tail")]
    pub(crate) fn cut(&mut self, max: usize, mut put: impl FnMut(Piece<'_>)) -> usize {
        let n = max.min(self.eligible());
        let from_rope = n.min(self.rope.len());
        if from_rope > 0 {
            self.rope.take(from_rope, &mut put);
        }
        match n - from_rope {
            0 => {}
            small if small < SHARE_FROM => {
                put(Piece::Copied(&self.tail[..small]));
                bytes::Buf::advance(&mut self.tail, small);
            }
            large => put(Piece::Shared(self.tail.split_to(large).freeze())),
        }
        if let Some(hold) = &mut self.hold {
            hold.eligible -= n;
        }
        n
    }

    /// Lets go of memory that nothing lies in, unless messages are held back in it again and again; returns it with its
    /// size, for another stream to begin with.
    pub(crate) fn retire(&mut self) -> Option<(BytesMut, usize)> {
        if self.hold.is_some() || !self.tail.is_empty() || self.size == 0 {
            return None;
        }
        Some((core::mem::take(&mut self.tail), core::mem::take(&mut self.size)))
    }

    /// The size of the memory that is to be [lent](Self::lend) for `n` more octets, if there is no room for them.
    #[inline]
    pub(crate) fn lacks_memory(&self, n: usize) -> Option<usize> {
        if self.tail.capacity() - self.tail.len() >= n || self.hold.is_some() { None } else { Some(self.next_size(n)) }
    }

    /// Goes on in other memory, of `size` bytes; returns what it was in before.
    pub(crate) fn lend(&mut self, memory: BytesMut, size: usize) -> Option<(BytesMut, usize)> {
        self.retract();
        self.end_tail();
        let spent = (core::mem::replace(&mut self.tail, memory), core::mem::replace(&mut self.size, size));
        (spent.1 > 0).then_some(spent)
    }

    /// Size of the next tail, which begins with `n` octets.
    fn next_size(&self, n: usize) -> usize {
        let is_small = self.is_empty() && n < Self::LARGE && self.hold.is_none();
        let size = if is_small { Self::MIN_TAIL } else { Self::MAX_TAIL };
        size.min(self.high_water).max(n)
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.hold.as_ref()?.deadline
    }

    /// Lets go of what has lingered until `now`; early calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_some_and(|at| at <= now) {
            self.release();
        }
    }

    /// Memory held for messages to come and for small ones that wait, in bytes.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.tail.capacity()
    }

    /// Whether a message would be taken, and why not.
    fn check(&self) -> Result<(), SendError> {
        match self.state {
            State::Open if self.len() >= self.high_water => Err(SendError::Blocked),
            State::Open => Ok(()),
            State::Sealed => Err(SendError::Sealed),
            State::Failed(error) => Err(SendError::Failed(error)),
        }
    }

    /// `n` octets came behind the others.
    fn appended(&mut self, n: usize, now: Instant) {
        let len = self.len();
        let Some(hold) = &mut self.hold else { return };
        let held = len - hold.eligible;
        if held >= hold.watermark || len >= self.high_water {
            self.release();
        } else if held == n && n > 0 {
            hold.deadline = hold.linger.map(|linger| now + linger);
        }
    }

    fn release(&mut self) {
        let len = self.len();
        if let Some(hold) = &mut self.hold {
            hold.eligible = len;
            hold.deadline = None;
        }
    }

    /// The tail with room for `n` more octets behind its end.
    #[inline]
    fn room(&mut self, n: usize) -> &mut BytesMut {
        if self.tail.capacity() - self.tail.len() < n {
            self.make_room(n);
        }
        &mut self.tail
    }

    #[cold]
    fn make_room(&mut self, n: usize) {
        if self.tail.is_empty() && self.tail.try_reclaim(n) {
            return;
        }
        let size = self.next_size(n);
        self.lend(BytesMut::with_capacity(size), size);
    }

    /// What follows is chained behind the tail.
    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.rope.push(None, self.tail.split().freeze());
        }
    }
}

/// What is wrong with a codec that wrote another number of octets than it announced.
#[cold]
fn wrong_len(announced: usize, written: usize) -> CodecError {
    CodecError::new(alloc::format!("the codec announced {announced} bytes and wrote {written}"))
}

/// A message that is being encoded: dropped before its end, it leaves no trace.
struct Staging<'a> {
    tail: &'a mut BytesMut,
    start: usize,
    is_done: bool,
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.tail.truncate(self.start);
        }
    }
}
