//! One message, put together from the pieces in which it arrives.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use core::mem;
use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use crate::buf::{Landing, LentMemory, MessageBuf, WAIT_FROM};

/// Makes one piece of memory of a message, with one copy at most.
///
/// A message that arrives in one piece stays where it was read. Of any other whose length is known, the pieces are
/// copied into one buffer, which is used again for the next: what was read is free at once, so a large message pins
/// nothing, and a codec finds it in one piece. Memory follows the octets that came and the window for more, not the
/// length that was announced.
///
/// Where the length is not known, large pieces stay as they are and small ones are copied together: without that, a
/// peer that sends single octets costs a handle for each, and pins what they came in.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// Length of the message, if it is known.
    expected: Option<usize>,
    message: MessageBuf,
    /// Memory of what was copied, or [lent](Self::lend), behind `message`.
    memory: BytesMut,
    /// Octets in it. What is behind them was filled by an earlier message.
    filled: usize,
    /// Chunks of `message`, from the first on, that lie in no receive window.
    detached: usize,
}

/// A new buffer is at most so many times as large as what came of its message.
const GROWTH: usize = 8;

impl Assembly {
    /// `expected` is the length of the message, if it is known; `encoding` that of a compressed one.
    pub(crate) fn new(expected: Option<usize>, encoding: Option<&'static str>) -> Self {
        Self { expected, message: MessageBuf::new(encoding), memory: BytesMut::new(), filled: 0, detached: 0 }
    }

    /// Appends a piece. Pieces behind the expected length are the caller's to refuse.
    pub(crate) fn push(&mut self, piece: Bytes, landing: &mut Landing<'_>) {
        match self.expected {
            Some(expected) if piece.len() < expected => self.extend(&piece, landing),
            None if piece.len() < WAIT_FROM => self.append(&piece),
            _ => {
                let copied = self.take_copied();
                self.message.push(copied);
                self.message.push(piece);
            }
        }
    }

    /// Appends a copy of octets that are not all of the message.
    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) {
        if let Some(expected) = self.expected {
            self.make_room(octets.len(), expected, landing);
        }
        self.append(octets);
    }

    /// Lends the memory for octets that are missing, as many as `room` allows, if there is room for so many of them. Until
    /// [`restore`](Self::restore), nothing may be appended.
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        let missing = self.expected?.checked_sub(self.filled)?;
        let spare = missing.min(self.memory.capacity().saturating_sub(self.filled)).min(*room.end());
        let may_lend = self.filled > 0 && self.message.is_empty() && spare >= (*room.start()).max(1);
        may_lend.then(|| LentMemory { memory: mem::take(&mut self.memory), filled: self.filled, missing, room: spare })
    }

    /// Takes back what was lent.
    ///
    /// # Errors
    /// It is not what was lent here, or what was there before is not wanted any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        if filled == 0 || filled != self.filled || !self.memory.is_empty() {
            return Err(memory);
        }
        self.memory = memory;
        Ok(())
    }

    /// The next `n` octets lie in the memory already.
    pub(crate) fn landed(&mut self, n: usize) {
        debug_assert!(n <= self.memory.len().saturating_sub(self.filled), "they lie there");
        self.filled = self.filled.saturating_add(n).min(self.memory.len());
    }

    /// Moves what lies in receive windows into memory of its own.
    pub(crate) fn detach(&mut self) {
        if !self.message.is_empty() {
            self.detached = self.message.detach(self.detached);
        }
    }

    /// Octets so far.
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of what lies in memory")]
    pub(crate) fn len(&self) -> usize {
        self.message.len() + self.filled
    }

    /// All of it.
    pub(crate) fn finish(mut self) -> MessageBuf {
        let copied = self.take_copied();
        self.message.push_own(copied);
        self.message
    }

    #[expect(clippy::arithmetic_side_effects, reason = "lengths of what lies in memory")]
    fn append(&mut self, octets: &[u8]) {
        if let Some(place) = self.memory.get_mut(self.filled..self.filled + octets.len()) {
            place.copy_from_slice(octets);
        } else {
            self.memory.truncate(self.filled);
            self.memory.extend_from_slice(octets);
        }
        self.filled += octets.len();
    }

    fn take_copied(&mut self) -> Bytes {
        let mut copied = mem::take(&mut self.memory);
        copied.truncate(mem::take(&mut self.filled));
        copied.freeze()
    }

    /// Makes room for `n` more octets of a message of `expected`.
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of what lies in memory")]
    fn make_room(&mut self, n: usize, expected: usize, landing: &mut Landing<'_>) {
        if self.memory.capacity() - self.filled >= n {
            return;
        }
        let come = self.filled + n;
        let useful = expected.min(come.saturating_add(landing.may_come));
        let next = landing.pool.reuse(useful..=useful.saturating_mul(2));
        let next = next.unwrap_or_else(|| landing.pool.get(useful.min(come.saturating_mul(GROWTH))));
        let outgrown = mem::replace(&mut self.memory, next);
        let filled = mem::take(&mut self.filled);
        self.append(outgrown.get(..filled).unwrap_or_default());
        landing.pool.put_back(outgrown);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use bytes::Buf;

    use super::*;
    use crate::buf::BufferPool;

    /// Pushes `len` octets in pieces of `piece`.
    fn assembled(len: usize, piece: usize, pool: &mut BufferPool) -> MessageBuf {
        let octets: Vec<u8> = (0..len).map(|n| n as u8).collect();
        let mut assembly = Assembly::new(Some(len), None);
        for piece in octets.chunks(piece) {
            assembly.push(Bytes::copy_from_slice(piece), &mut Landing::alone(pool));
        }
        let message = assembly.finish();
        assert_eq!((message.len(), message.chunk()), (len, &octets[..]), "one piece of memory");
        message
    }

    #[test]
    fn a_message_in_one_piece_stays_where_it_is() {
        let mut pool = BufferPool::new(usize::MAX);
        for len in [1, 100, 100_000] {
            let piece = Bytes::from(vec![7; len]);
            let mut assembly = Assembly::new(Some(len), None);
            assembly.push(piece.clone(), &mut Landing::alone(&mut pool));
            assert_eq!(assembly.finish().chunk().as_ptr(), piece.as_ptr());
        }
        assert_eq!(pool.bytes(), 0);
    }

    /// The second message lies where the first one did, and nothing was allocated for it.
    #[test]
    fn a_buffer_serves_message_after_message() {
        let mut pool = BufferPool::new(usize::MAX);
        let first = assembled(1 << 20, 16_384, &mut pool);
        let memory = first.chunk().as_ptr();
        pool.keep_message(&first);
        drop(first);
        let next = pool.reuse(1 << 20..=usize::MAX).expect("kept");
        assert_eq!(next.len(), 1 << 20, "and is initialised as far as it was filled");
        pool.put_back(next);
        for len in [1 << 20, 500_000] {
            let next = assembled(len, 10_000, &mut pool);
            assert_eq!(next.chunk().as_ptr(), memory);
            pool.keep_message(&next);
        }
    }

    /// A peer that announces much and sends little makes this side hold little, and never more than its window allows.
    #[test]
    fn memory_follows_what_came_and_not_what_was_announced() {
        let mut pool = BufferPool::new(usize::MAX);
        for may_come in [1000, 100_000, usize::MAX] {
            let mut assembly = Assembly::new(Some(usize::MAX), None);
            for sent in 1..=10_000 {
                assembly.push(Bytes::from_static(b"x"), &mut Landing { pool: &mut pool, may_come });
                let allowed = (GROWTH * sent).min(may_come.saturating_add(sent)).max(BufferPool::MIN_BUFFER);
                assert!(assembly.memory.capacity() <= allowed, "{} for {sent}", assembly.memory.capacity());
            }
        }
    }

    /// What is lent comes back, with more in it, or not at all.
    #[test]
    fn memory_is_lent_once_and_only_what_was_lent_comes_back() {
        let mut pool = BufferPool::new(usize::MAX);
        let mut assembly = Assembly::new(Some(1000), None);
        assert!(assembly.lend(1..=usize::MAX).is_none(), "there is none before the first octets");
        assembly.push(Bytes::from_static(b"first"), &mut Landing::alone(&mut pool));
        assert!(assembly.lend(996..=usize::MAX).is_none(), "too little is missing");
        let lent = assembly.lend(1..=100).expect("lent");
        assert_eq!((lent.filled, lent.missing, lent.room), (5, 995, 100));
        assert!(assembly.lend(1..=100).is_none());
        assert!(assembly.restore(lent.memory.clone(), 4).is_err() && assembly.restore(lent.memory.clone(), 0).is_err());
        let mut memory = lent.memory;
        memory.resize(105, 7);
        assert!(assembly.restore(memory.clone(), 5).is_ok());
        assert!(assembly.restore(memory, 5).is_err(), "it is back already");
        assembly.landed(100);
        assembly.extend(&[8; 895], &mut Landing::alone(&mut pool));
        assert_eq!(assembly.finish().chunk(), [&b"first"[..], &[7; 100], &[8; 895]].concat());
    }

    #[test]
    fn a_body_of_unknown_length_keeps_large_pieces_and_joins_small_ones() {
        let mut pool = BufferPool::new(usize::MAX);
        let large = Bytes::from(vec![7; WAIT_FROM]);
        let mut assembly = Assembly::new(None, None);
        for piece in [Bytes::from_static(b"a"), Bytes::from_static(b"b"), large.clone(), Bytes::from_static(b"c")] {
            assembly.push(piece, &mut Landing::alone(&mut pool));
        }
        let mut message = assembly.finish();
        assert_eq!(message.chunk(), b"ab");
        message.advance(2);
        assert_eq!(message.chunk().as_ptr(), large.as_ptr());
        message.advance(large.len());
        assert_eq!(message.chunk(), b"c");
    }
}
