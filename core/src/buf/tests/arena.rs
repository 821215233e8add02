use alloc::vec;
use alloc::vec::Vec;

use bytes::{BufMut, Bytes};
use quickcheck::quickcheck;

use super::{Held, Pattern};
use crate::buf::{Arena, Transmit};

const CHUNK: usize = 4096;
const COPY_BELOW: usize = 256;

fn drain(arena: &mut Arena) -> Vec<Bytes> {
    let mut out = Transmit::new();
    arena.drain_into(&mut out);
    out.chunks.into()
}

quickcheck! {
    /// Appending, chaining and draining in any order gives the bytes of the model; what is in flight never
    /// changes, however often chunks are used again (arch:U3); an append into reserved room never
    /// reallocates.
    fn any_script_matches_a_vector(script: Vec<(u8, u16)>) -> bool {
        let mut arena = Arena::new(CHUNK, COPY_BELOW);
        let mut model = Vec::new();
        let mut held = Held::default();
        let mut pattern = Pattern(1);
        for (operation, size) in script {
            let size = usize::from(size) % 6000;
            match operation % 5 {
                0 => {
                    let bytes = pattern.next(size % 700);
                    arena.put(&bytes);
                    model.extend(bytes);
                }
                1 => {
                    let bytes = pattern.next(size % (2 * COPY_BELOW));
                    arena.chain(Bytes::from(bytes.clone()));
                    model.extend(bytes);
                }
                2 => {
                    let bytes = pattern.next(size);
                    let run = arena.reserve(size);
                    let capacity = run.capacity();
                    let start = run.as_ptr();
                    run.put_slice(&bytes);
                    if run.capacity() != capacity || run.as_ptr() != start {
                        return false;
                    }
                    model.extend(bytes);
                }
                3 => {
                    let drained = drain(&mut arena);
                    if drained.concat() != model {
                        return false;
                    }
                    drained.into_iter().for_each(|chunk| held.hold(chunk));
                    model.clear();
                }
                _ => held.drop_oldest(size % 16),
            }
            if arena.len() != model.len() || arena.is_empty() != model.is_empty() {
                return false;
            }
        }
        drain(&mut arena).concat() == model && held.are_intact()
    }
}

#[test]
fn an_idle_arena_holds_no_memory_but_keeps_what_waits() {
    let mut arena = Arena::new(CHUNK, COPY_BELOW);
    arena.put(b"waits");
    arena.release_idle();
    assert_eq!(drain(&mut arena).concat(), b"waits");
    arena.release_idle();
    assert_eq!(arena.run().capacity(), 0);
}

/// Headers and small payloads are one slice, a large payload is its own and is not copied (bg:V3).
#[test]
fn small_payloads_share_a_slice_and_large_ones_are_chained() {
    let mut arena = Arena::new(CHUNK, COPY_BELOW);
    let large = Bytes::from(vec![3; COPY_BELOW]);
    // In a chunk that has room for all.
    arena.reserve(CHUNK);
    arena.put(b"header");
    arena.chain(Bytes::from(vec![2; COPY_BELOW - 1]));
    arena.put(b"header");
    arena.chain(large.clone());
    arena.put(b"header");
    let drained = drain(&mut arena);
    let sizes: Vec<_> = drained.iter().map(Bytes::len).collect();
    assert_eq!(sizes, [6 + COPY_BELOW - 1 + 6, COPY_BELOW, 6]);
    assert_eq!(drained[1].as_ptr(), large.as_ptr());
}

/// A chunk comes back when the transport has dropped every slice of it, and not before (bg:S4, arch:U3).
#[test]
fn a_chunk_is_used_again_exactly_when_nobody_holds_a_slice_of_it() {
    let mut arena = Arena::new(CHUNK, COPY_BELOW);
    arena.put(&[1; CHUNK]);
    let first = drain(&mut arena);
    let memory = first[0].as_ptr();
    arena.put(&[2; CHUNK]);
    let second = drain(&mut arena);
    assert_ne!(second[0].as_ptr(), memory);
    drop(first);
    // Were the chunk given to the allocator, this would take it.
    let _other = Vec::<u8>::with_capacity(CHUNK);
    arena.put(&[3; CHUNK]);
    let third = drain(&mut arena);
    assert_eq!(third[0].as_ptr(), memory);
    assert!(second[0].iter().all(|&byte| byte == 2));
}

/// A region larger than a chunk is contiguous all the same, and its memory is not kept.
#[test]
fn a_region_larger_than_a_chunk_gets_memory_of_its_own() {
    let mut arena = Arena::new(CHUNK, COPY_BELOW);
    arena.put(&[1; 10]);
    arena.put(&vec![2; 3 * CHUNK]);
    arena.put(&[3; 10]);
    let drained = drain(&mut arena);
    assert_eq!(drained.iter().map(Bytes::len).collect::<Vec<_>>(), [10, 3 * CHUNK, 10]);
    assert!(drained[1].is_unique(), "the arena kept a handle of an oversized chunk");
}
