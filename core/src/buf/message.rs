//! One message: received as chunks, or encoded by the caller.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::SHARE_FROM;

/// One whole received message, in the chunks in which it arrived.
///
/// Codecs read it as a [`bytes::Buf`]. [`copy_to_bytes`](Buf::copy_to_bytes) shares the memory from
/// 1 KiB up and copies below, so that a small field never pins the receive window it came in.
#[derive(Clone, Default)]
pub struct MessageBuf {
    /// Inline, for most messages lie in one chunk. Empty only if the whole message is; not yet after
    /// [`read_contiguous`](Self::read_contiguous).
    first: Bytes,
    /// The chunks behind `first`, if there ever were any; none is empty.
    #[expect(clippy::box_collection, reason = "few messages have any, and all are moved")]
    rest: Option<Box<VecDeque<Bytes>>>,
    len: usize,
    encoding: Option<&'static str>,
    shares_small: bool,
    /// Before anything is read, `first` begins where its memory does.
    is_at_start: bool,
}

impl MessageBuf {
    /// An empty message that is yet to be received, with the name of its compression.
    pub(crate) const fn new(encoding: Option<&'static str>) -> Self {
        Self { first: Bytes::new(), rest: None, len: 0, encoding, shares_small: false, is_at_start: false }
    }

    /// A received message that lies in one piece, with the name of its compression.
    pub(crate) const fn received(first: Bytes, encoding: Option<&'static str>) -> Self {
        let len = first.len();
        Self { first, rest: None, len, encoding, shares_small: false, is_at_start: false }
    }

    /// A message that lies in one piece and is not compressed.
    pub const fn from_bytes(bytes: Bytes) -> Self {
        Self::received(bytes, None)
    }

    /// Whether the peer compressed it. Whoever pulled the message inflates it, outside any lock.
    pub const fn is_compressed(&self) -> bool {
        self.encoding.is_some()
    }

    /// Name of the compression that has to be undone, if the peer compressed it.
    pub const fn encoding(&self) -> Option<&'static str> {
        self.encoding
    }

    /// Lets [`copy_to_bytes`](Buf::copy_to_bytes) share the memory of small pieces as well: for codecs that copy what
    /// they keep, and would only copy twice.
    pub const fn share_small(&mut self) {
        self.shares_small = true;
    }

    /// The rest of the message, if it lies in one piece. It counts as read, whatever is read of it.
    #[inline]
    pub fn read_contiguous(&mut self) -> Option<Contiguous<'_>> {
        let unread = self.first.get(..self.len)?;
        self.len = 0;
        Some(Contiguous { unread, memory: &self.first, shares_small: self.shares_small })
    }

    /// Bytes not read yet.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether everything was read.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first of its chunks: for most messages the only one.
    pub(crate) const fn first(&self) -> &Bytes {
        &self.first
    }

    /// Appends memory of its own, which begins with it.
    pub(crate) fn push_own(&mut self, memory: Bytes) {
        self.is_at_start = self.first.is_empty();
        self.push(memory);
    }

    /// Before anything is read: whether the first chunk begins where its memory does.
    pub(crate) const fn is_at_start(&self) -> bool {
        self.is_at_start
    }

    /// Appends `chunk` without copying it.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        self.len += chunk.len();
        if self.first.is_empty() {
            self.first = chunk;
        } else {
            self.rest.get_or_insert_default().push_back(chunk);
        }
    }

    /// Copies the chunks from number `from` on into memory of their own; returns how many chunks there are.
    pub(crate) fn detach(&mut self, from: usize) -> usize {
        if from == 0 {
            detach(&mut self.first);
        }
        let rest = self.rest.iter_mut().flat_map(|rest| rest.iter_mut());
        1 + rest.skip(from.saturating_sub(1)).map(detach).count()
    }

    /// The next chunk, when `first` is used up.
    fn next_chunk(&mut self) -> Bytes {
        self.rest.as_mut().and_then(|rest| rest.pop_front()).unwrap_or_default()
    }
}

/// Puts a copy in the place of octets, which then keep nothing alive but themselves.
pub(crate) fn detach(octets: &mut Bytes) {
    *octets = Bytes::copy_from_slice(octets);
}

impl Buf for MessageBuf {
    fn remaining(&self) -> usize {
        self.len
    }

    fn chunk(&self) -> &[u8] {
        self.first.get(..self.len).unwrap_or(&self.first)
    }

    #[cfg(feature = "std")]
    fn chunks_vectored<'a>(&'a self, dst: &mut [std::io::IoSlice<'a>]) -> usize {
        let rest = self.rest.iter().flat_map(|rest| rest.iter().map(|chunk| &chunk[..]));
        let chunks = core::iter::once(self.chunk()).filter(|first| !first.is_empty()).chain(rest);
        let mut filled = 0;
        for (slot, chunk) in dst.iter_mut().zip(chunks) {
            *slot = std::io::IoSlice::new(chunk);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "advanced {n} bytes of {}", self.len);
        self.len -= n;
        if n < self.first.len() {
            return self.first.advance(n);
        }
        let mut left = n;
        while left >= self.first.len() && left > 0 {
            left -= self.first.len();
            self.first = self.next_chunk();
        }
        self.first.advance(left);
    }

    fn copy_to_bytes(&mut self, n: usize) -> Bytes {
        assert!(n <= self.len, "took {n} bytes of {}", self.len);
        if let Some(lent) = self.first.get(..n) {
            let is_shared = n >= SHARE_FROM || self.shares_small;
            let taken = if is_shared { self.first.slice(..n) } else { Bytes::copy_from_slice(lent) };
            self.advance(n);
            return taken;
        }
        let mut copy = BytesMut::with_capacity(n);
        copy.put(self.take(n));
        copy.freeze()
    }
}

/// One whole received message that lies in one piece, in memory that it may share with others: the cheapest [`Buf`] there is.
///
/// It is lent, not owned: who only copies out of it touches no count of references. As of a [`MessageBuf`],
/// [`copy_to_bytes`](Buf::copy_to_bytes) shares the memory from 1 KiB up and copies below.
#[derive(Clone, Debug)]
pub struct Contiguous<'a> {
    unread: &'a [u8],
    /// Where it lies.
    memory: &'a Bytes,
    shares_small: bool,
}

impl<'a> Contiguous<'a> {
    /// The message `octets`, which is not compressed and is a part of `memory`.
    #[inline]
    pub(super) const fn new(octets: &'a [u8], memory: &'a Bytes) -> Self {
        Self { unread: octets, memory, shares_small: false }
    }

    /// As [`MessageBuf::share_small`].
    #[inline]
    pub const fn share_small(&mut self) {
        self.shares_small = true;
    }

    /// Bytes not read yet.
    #[inline]
    pub const fn len(&self) -> usize {
        self.unread.len()
    }

    /// Whether everything was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.unread.is_empty()
    }

    /// The bytes not read yet, for as long as the message is lent.
    #[inline]
    pub const fn octets(&self) -> &'a [u8] {
        self.unread
    }
}

impl Buf for Contiguous<'_> {
    #[inline]
    fn remaining(&self) -> usize {
        self.unread.len()
    }

    #[inline]
    fn chunk(&self) -> &[u8] {
        self.unread
    }

    #[inline]
    fn advance(&mut self, n: usize) {
        self.unread.advance(n);
    }

    #[inline]
    fn copy_to_bytes(&mut self, n: usize) -> Bytes {
        let (taken, unread) = self.unread.split_at(n);
        self.unread = unread;
        let is_shared = n >= SHARE_FROM || self.shares_small;
        if is_shared { self.memory.slice_ref(taken) } else { Bytes::copy_from_slice(taken) }
    }
}

/// What is left of it, with a handle of the memory.
impl From<Contiguous<'_>> for MessageBuf {
    fn from(Contiguous { unread, memory, shares_small }: Contiguous<'_>) -> Self {
        Self { shares_small, ..Self::from_bytes(memory.slice_ref(unread)) }
    }
}

impl From<Bytes> for MessageBuf {
    fn from(bytes: Bytes) -> Self {
        Self::from_bytes(bytes)
    }
}

/// A message in several pieces, as it may arrive: what a codec has to be tested with.
impl FromIterator<Bytes> for MessageBuf {
    fn from_iter<I: IntoIterator<Item = Bytes>>(chunks: I) -> Self {
        let mut message = Self::new(None);
        chunks.into_iter().for_each(|chunk| message.push(chunk));
        message
    }
}

impl fmt::Debug for MessageBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageBuf").field("len", &self.len).field("encoding", &self.encoding).finish()
    }
}

/// A message that the caller encoded; the connection adds the envelope.
///
/// For messages that are large or compressed: both are work that must not happen under a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The message as it goes on the wire.
    pub bytes: Bytes,
    /// Whether `bytes` is compressed with the call's encoding.
    pub compressed: bool,
}
