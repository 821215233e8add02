//! Reads that bring the octets of a large message straight to where the message lies.
//!
//! While a large message arrives, most of what comes is known before: what is left of a DATA frame, and then frames like
//! the last one, header and payload. So a read is scattered: payloads go to the memory of the message, headers to places
//! of their own, and what comes behind the message to the receive window. It spares each octet the way through the
//! window. Whether the headers are what was guessed is seen afterwards; from the first on that is not, all is ordinary
//! input.

use core::{fmt, mem, slice};

use bytes::BytesMut;

/// Octets between two pieces of the message: a frame header.
pub(crate) const GAP: usize = 9;

/// Most gaps of one read.
const MAX_GAPS: usize = 16;

/// Memory of a message that is arriving, lent by what puts it together.
#[derive(Debug)]
pub(crate) struct LentMemory {
    pub(crate) memory: BytesMut,
    /// Octets of the message in it.
    pub(crate) filled: usize,
    /// Octets that the message still lacks.
    pub(crate) missing: usize,
    /// For how many of them there is room behind the others.
    pub(crate) room: usize,
}

/// Where the next read puts what it brings: `first` octets of the message, and then pieces of it behind a gap each.
pub(crate) struct Scatter {
    /// The memory of the message: what of it came before, and initialised space up to `end`.
    memory: BytesMut,
    /// Octets that came before.
    filled: usize,
    /// Where the space ends.
    end: usize,
    /// Octets in front of the first gap.
    first: usize,
    /// Octets of each piece behind a gap, but the last of the message, which is what is left. At least one.
    piece: usize,
    /// Octets that the message still lacks: as many as there is space for, or more.
    missing: usize,
    /// What came in the gaps.
    gaps: [[u8; GAP]; MAX_GAPS],
    /// Octets that came in all, those in the gaps included.
    read: usize,
}

/// What came in front of a piece of the message, and how many octets of the piece came behind it.
type Landed = (Option<[u8; GAP]>, usize);

impl Scatter {
    /// Space for `room` octets of those that a message lacks behind the first `filled` ones of `memory`, or for as many as
    /// there are gaps for.
    pub(crate) fn new(lent: LentMemory, first: usize, piece: usize) -> Self {
        let LentMemory { mut memory, filled, missing, room } = lent;
        let piece = piece.max(1);
        let end = filled.saturating_add(room.min(first.saturating_add(piece.saturating_mul(MAX_GAPS))));
        if memory.len() < end {
            memory.resize(end, 0);
        }
        let first = first.min(end - filled);
        Self { memory, filled, end, first, piece, missing, gaps: [[0; GAP]; MAX_GAPS], read: 0 }
    }

    /// Octets that the next read may put here.
    fn space_left(&self) -> usize {
        let (room, gaps) = (self.end - self.filled, self.gaps());
        room + gaps * GAP - self.read
    }

    /// Gaps between the pieces.
    fn gaps(&self) -> usize {
        (self.end - self.filled - self.first).div_ceil(self.piece)
    }

    /// The space in the order in which it is to be filled, and `window` behind it.
    pub(super) fn spaces<'a>(&'a mut self, window: &'a mut [u8]) -> Spaces<'a> {
        let memory = self.memory.get_mut(self.filled..self.end).unwrap_or_default();
        let (first, piece, gaps) = (self.first, self.piece, self.gaps.iter_mut());
        Spaces { memory, next: first, piece, gaps, window, passed: self.read }
    }

    /// Takes the next `n` octets of the space as read; returns how many of them were more than that.
    pub(super) fn commit(&mut self, n: usize) -> usize {
        let taken = n.min(self.space_left());
        self.read += taken;
        n - taken
    }

    /// Octets that came.
    pub(super) const fn read(&self) -> usize {
        self.read
    }

    /// The pieces that came, with what came in the gaps in front of them; the last is as long as it came. Of a gap that
    /// is not whole there is nothing.
    pub(crate) fn landed(&self) -> impl Iterator<Item = Landed> + use<> {
        let (mut left, mut room) = (self.read, self.end - self.filled);
        let (first, piece, mut gaps) = (self.first, self.piece, self.gaps.into_iter());
        let front = first.min(left);
        left -= front;
        room -= first;
        let front = (front > 0).then_some((None, front));
        let behind = core::iter::from_fn(move || {
            left = left.checked_sub(GAP)?;
            let len = piece.min(room);
            let came = len.min(left);
            room -= len;
            left -= came;
            (len > 0).then(|| (gaps.next(), came))
        });
        front.into_iter().chain(behind)
    }

    /// How many octets of what came are as `is_guessed` says: up to the first gap that is not, or is not whole. It is asked with
    /// what came in a gap and the length of the piece behind it.
    pub(crate) fn guessed(&self, mut is_guessed: impl FnMut(&[u8; GAP], usize) -> bool) -> usize {
        let mut kept = self.first.min(self.read);
        for (at, gap) in self.gaps.iter().take(self.gaps()).enumerate() {
            let len = self.piece.min(self.missing - self.first - at * self.piece);
            if self.read < kept + GAP || !is_guessed(gap, len) {
                break;
            }
            kept = self.read.min(kept + GAP + len);
        }
        kept
    }

    /// Gives what came behind the first `kept` octets to `put`, piece by piece, and forgets it.
    pub(super) fn split_off(&mut self, kept: usize, mut put: impl FnMut(&[u8])) {
        let mut left = mem::replace(&mut self.read, kept).saturating_sub(kept);
        for space in self.spaces(&mut []) {
            let n = space.len().min(left);
            left -= n;
            put(space.get(..n).unwrap_or_default());
        }
    }

    /// Gives the memory of the message, and the octets that came of it before, to `owner`; or keeps it, if `owner` does not
    /// want it.
    pub(crate) fn return_memory(&mut self, owner: impl FnOnce(BytesMut, usize) -> Result<(), BytesMut>) -> bool {
        let returned = owner(mem::take(&mut self.memory), self.filled);
        returned.map_err(|memory| self.memory = memory).is_ok()
    }

    /// The memory of the message.
    pub(crate) fn into_memory(self) -> BytesMut {
        self.memory
    }
}

impl fmt::Debug for Scatter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scatter").field("space", &self.space_left()).field("read", &self.read).finish_non_exhaustive()
    }
}

/// Where one read puts what it brings, in this order: see [`RecvBuf::spaces`](super::RecvBuf::spaces). None of them is empty.
#[derive(Debug)]
pub struct Spaces<'a> {
    /// What is left of the space in the message's memory.
    memory: &'a mut [u8],
    /// Octets of it that come next; none if a gap does.
    next: usize,
    piece: usize,
    gaps: slice::IterMut<'a, [u8; GAP]>,
    window: &'a mut [u8],
    /// Octets in front that are filled already.
    passed: usize,
}

impl Spaces<'_> {
    /// Most spaces that there are.
    pub const MAX: usize = 2 * MAX_GAPS + 2;
}

impl<'a> Spaces<'a> {
    /// The spaces of a read that is not scattered.
    pub(super) fn only(window: &'a mut [u8]) -> Self {
        Self { memory: &mut [], next: 0, piece: 0, gaps: [].iter_mut(), window, passed: 0 }
    }

    /// The next space, whether it is filled or not.
    fn take(&mut self) -> Option<&'a mut [u8]> {
        if self.memory.is_empty() {
            return Some(mem::take(&mut self.window)).filter(|window| !window.is_empty());
        }
        match mem::take(&mut self.next) {
            0 => {
                self.next = self.piece.min(self.memory.len());
                self.gaps.next().map(|gap| &mut gap[..])
            }
            n => {
                let (space, behind) = mem::take(&mut self.memory).split_at_mut_checked(n)?;
                self.memory = behind;
                Some(space)
            }
        }
    }
}

impl<'a> Iterator for Spaces<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        loop {
            let space = self.take()?;
            let passed = self.passed.min(space.len());
            self.passed -= passed;
            if passed < space.len() {
                return space.get_mut(passed..);
            }
        }
    }
}
