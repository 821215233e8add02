use alloc::vec::Vec;

use bytes::BytesMut;
use quickcheck::quickcheck;

use super::Pattern;
use crate::buf::{GAP, LentMemory, RecvBuf, Scatter, Spaces};

/// A message of which `filled` octets came, with room for `room` of the `missing` ones.
fn lent(filled: usize, missing: usize, room: usize) -> LentMemory {
    let mut memory = BytesMut::with_capacity(filled + room);
    memory.resize(filled, 7);
    LentMemory { memory, filled, missing, room: room.min(missing) }
}

/// Reads as much of `octets` as there is space for, in portions; returns what is left of them.
fn read<'a>(input: &mut RecvBuf, mut octets: &'a [u8], portions: &[u8]) -> &'a [u8] {
    for &portion in portions {
        let (mut left, mut spaces) = (usize::from(portion) + 1, 0);
        let before = octets.len();
        for space in input.spaces() {
            assert!(!space.is_empty());
            spaces += 1;
            let n = space.len().min(octets.len()).min(left);
            space[..n].copy_from_slice(&octets[..n]);
            octets = &octets[n..];
            left -= n;
        }
        assert!(spaces <= Spaces::MAX);
        input.commit(before - octets.len());
    }
    octets
}

quickcheck! {
    /// However a scattered read comes about: its pieces and what lies between them are what was read, in order; what is not as it
    /// was guessed comes to the window, in front of what was read there.
    fn what_is_scattered_is_what_was_read(filled: u8, missing: u16, first: u16, piece: u16, portions: Vec<u8>, wrong: u8) -> bool {
        let (filled, missing) = (usize::from(filled) + 1, usize::from(missing % 2000) + 1);
        let (first, piece) = (usize::from(first % 500), usize::from(piece % 300) + 1);
        let octets = Pattern(3).next(10_000);
        let mut input = RecvBuf::new(2048);
        input.scatter(Scatter::new(lent(filled, missing, missing), first, piece));
        let left = read(&mut input, &octets, &portions);
        let came = octets.len() - left.len();
        if input.len() != came {
            return false;
        }
        let mut scatter = input.take_scatter().expect("scattered");
        let (mut gaps, mut lens) = (0, Vec::new());
        let guessed = scatter.guessed(|gap, len| {
            gaps += 1;
            lens.push(len);
            octets.windows(GAP).any(|octets| octets == gap) && gaps <= wrong % 8
        });
        input.gather(&mut scatter, guessed);
        // The pieces are a part of the message each, and no longer than a frame.
        let mut rest = missing.saturating_sub(first);
        for len in lens {
            if len != piece.min(rest) {
                return false;
            }
            rest -= len;
        }
        let landed: Vec<_> = scatter.landed().collect();
        let mut memory = Vec::new();
        assert!(scatter.return_memory(|lent, before| {
            assert_eq!(before, filled);
            memory.extend_from_slice(&lent);
            Ok(())
        }));
        let (mut seen, mut at) = (Vec::new(), filled);
        for (gap, n) in landed {
            seen.extend(gap.iter().flatten());
            seen.extend_from_slice(&memory[at..at + n]);
            at += n;
        }
        memory[..filled].iter().all(|&octet| octet == 7)
            && seen == octets[..guessed.min(came)]
            && input.data() == &octets[seen.len()..came]
    }
}

#[test]
fn a_read_has_sixteen_gaps_at_most() {
    let mut scatter = Scatter::new(lent(1, 1000, 1000), 10, 10);
    let lens: Vec<_> = scatter.spaces(&mut [0; 5]).map(|space| space.len()).collect();
    assert_eq!(lens.len(), Spaces::MAX);
    assert_eq!(lens.iter().sum::<usize>(), 10 + 16 * (10 + GAP) + 5);
    assert_eq!(alloc::format!("{scatter:?}"), "Scatter { space: 314, read: 0, .. }");
}

/// Memory that was initialised before is not written to before the read.
#[test]
fn what_lies_in_the_memory_stays_until_it_is_read_over() {
    let mut memory = BytesMut::with_capacity(100);
    memory.resize(100, 9);
    let mut scatter = Scatter::new(LentMemory { memory, filled: 10, missing: 90, room: 90 }, 90, 1);
    assert!(scatter.spaces(&mut []).all(|space| space.iter().all(|&octet| octet == 9)));
}

/// Where the connection only wants to see what comes next, a read brings no more than that, and windows do not grow by it.
#[test]
fn a_limited_read_is_short_and_the_next_one_is_not() {
    let mut input = RecvBuf::new(4096);
    input.limit_next_read(100);
    assert_eq!(input.space().len(), 100);
    input.commit(100);
    assert!(input.space().len() >= 1024);
    assert_eq!((input.len(), input.size()), (100, 4096));
    input.limit_next_read(100);
    input.take_unread();
    assert!(input.space().len() >= 1024, "another connection has the window now");
}

/// Where there is no space for all of a piece, its frame is as long as any other.
#[test]
fn a_piece_that_the_space_ends_in_is_guessed_in_full() {
    let mut input = RecvBuf::new(2048);
    input.scatter(Scatter::new(lent(1, 1000, 100), 10, 50));
    read(&mut input, &[1; 200], &[200]);
    let mut lens = Vec::new();
    let scatter = input.take_scatter().expect("scattered");
    let guessed = scatter.guessed(|_, len| {
        lens.push(len);
        true
    });
    assert_eq!((lens, guessed), (alloc::vec![50, 50], 100 + 2 * GAP));
}
