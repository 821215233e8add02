//! Octets in the order in which they were given, in the pieces in which they came.

use alloc::collections::VecDeque;
use core::mem;

use bytes::Bytes;

/// A piece of output: small ones are lent to be copied, large ones are handed out.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Too small to be worth a handle of its own.
    Copied(&'a [u8]),
    /// Memory that is shared, not copied.
    Shared(Bytes),
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Copied(octets) => octets,
            Self::Shared(octets) => octets,
        }
    }
}

/// A message, or what is left of it: its envelope prefix and its payload.
#[derive(Debug)]
struct Chunk {
    prefix: [u8; Rope::PREFIX],
    /// Octets of `prefix` already taken; all of them when there is none.
    taken: u8,
    payload: Bytes,
}

impl Chunk {
    fn prefix(&self) -> &[u8] {
        self.prefix.get(usize::from(self.taken)..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.prefix().len() + self.payload.len()
    }
}

/// Messages to be cut anywhere. The first one needs no heap.
#[derive(Debug, Default)]
pub(super) struct Rope {
    first: Option<Chunk>,
    rest: VecDeque<Chunk>,
    len: usize,
}

impl Rope {
    pub(super) const PREFIX: usize = 5;

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push(&mut self, prefix: Option<[u8; Self::PREFIX]>, payload: Bytes) {
        let taken = if prefix.is_some() { 0 } else { Self::PREFIX as u8 };
        let chunk = Chunk { prefix: prefix.unwrap_or_default(), taken, payload };
        if chunk.len() == 0 {
            return;
        }
        self.len += chunk.len();
        match &self.first {
            None => self.first = Some(chunk),
            Some(_) => self.rest.push_back(chunk),
        }
    }

    /// Length of the pieces at the front that lie whole within `max` octets.
    pub(super) fn end_within(&self, max: usize) -> usize {
        let mut end = 0;
        for chunk in self.first.iter().chain(&self.rest) {
            if end + chunk.len() > max {
                break;
            }
            end += chunk.len();
        }
        end
    }

    /// Takes the first `n` octets, at most [`len`](Self::len).
    pub(super) fn take(&mut self, n: usize, put: &mut impl FnMut(Piece<'_>)) {
        debug_assert!(n <= self.len);
        let mut left = n.min(self.len);
        self.len -= left;
        while let Some(chunk) = &mut self.first {
            let prefix = chunk.prefix();
            let from_prefix = left.min(prefix.len());
            if from_prefix > 0 {
                put(Piece::Copied(prefix.get(..from_prefix).unwrap_or_default()));
            }
            chunk.taken += from_prefix as u8;
            left -= from_prefix;
            if left < chunk.payload.len() {
                if left > 0 {
                    put(Piece::Shared(chunk.payload.split_to(left)));
                }
                return;
            }
            if !chunk.prefix().is_empty() {
                return;
            }
            left -= chunk.payload.len();
            put(Piece::Shared(mem::take(&mut chunk.payload)));
            self.first = self.rest.pop_front();
        }
    }
}
