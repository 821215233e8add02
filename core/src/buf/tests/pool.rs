use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use bytes::{BufMut, Bytes, BytesMut};
use quickcheck::quickcheck;

use super::{Held, Pattern};
use crate::buf::BufferPool;

quickcheck! {
    /// Whatever the order of handing out, keeping and dropping: a buffer is handed out only when nobody
    /// holds a slice of it (else a held slice would change), to one user at a time, empty, large enough,
    /// and the pool stays within its limits (bg:S4, bg:S6, bg:S8, arch:U3).
    fn any_script_hands_memory_out_once_and_within_the_limits(script: Vec<(u8, u16)>) -> bool {
        const LIMIT: usize = 50_000;
        let mut pool = BufferPool::new(LIMIT);
        let mut held = Held::default();
        let mut in_use: Vec<(BytesMut, Vec<u8>)> = Vec::new();
        let mut pattern = Pattern(1);
        for (operation, size) in script {
            let size = usize::from(size) % 20_000;
            match operation % 5 {
                0 | 1 => {
                    let mut buffer = pool.get(size);
                    if !buffer.is_empty() || buffer.capacity() < size.max(BufferPool::MIN_BUFFER) {
                        return false;
                    }
                    let bytes = pattern.next(size);
                    buffer.put_slice(&bytes);
                    in_use.push((buffer, bytes));
                }
                2 | 3 => {
                    if let Some((buffer, bytes)) = in_use.pop() {
                        if buffer != bytes {
                            return false;
                        }
                        let whole = buffer.freeze();
                        let slice = whole.slice(whole.len() / 3..);
                        // Sometimes another handle lives on, sometimes only a slice of the buffer is kept.
                        if size % 2 == 0 {
                            held.hold(slice.clone());
                        }
                        pool.keep(if size % 3 == 0 { slice } else { whole });
                    }
                }
                _ => held.drop_oldest(size % 4),
            }
            let is_full = pool.free.len() > BufferPool::MAX_FREE || pool.in_flight.len() > BufferPool::MAX_IN_FLIGHT;
            if pool.bytes() > LIMIT || is_full {
                return false;
            }
        }
        in_use.iter().all(|(buffer, bytes)| buffer == bytes) && held.are_intact()
    }
}

#[test]
fn a_kept_buffer_is_handed_out_again_as_a_whole_from_any_slice_of_it() {
    let mut pool = BufferPool::new(usize::MAX);
    assert_eq!(pool.get(0).capacity(), BufferPool::MIN_BUFFER);
    let mut buffer = pool.get(2000);
    let memory = buffer.as_ptr();
    buffer.put_slice(&[1; 1500]);
    let whole = buffer.freeze();
    pool.keep(whole.slice(1000..1001));
    drop(whole);
    let again = pool.get(2000);
    assert_eq!((again.as_ptr(), again.len(), again.capacity()), (memory, 0, 2000));
}

/// Giving back early is harmless: the memory stays away until the transport let go (bg:S4, bg:S6).
#[test]
fn a_buffer_in_flight_is_not_handed_out() {
    let mut pool = BufferPool::new(usize::MAX);
    let mut buffer = pool.get(1000);
    buffer.put_slice(&[1; 1000]);
    let in_flight = buffer.freeze();
    pool.keep(in_flight.clone());
    let other = pool.get(1000);
    assert_ne!(other.as_ptr(), in_flight.as_ptr());
    let memory = in_flight.as_ptr();
    drop(in_flight);
    let (first, second) = (pool.get(1000), pool.get(1000));
    assert_eq!(first.as_ptr(), memory);
    assert_ne!(second.as_ptr(), memory, "handed out twice");
}

/// The smallest buffer that is large enough serves a request, so large ones stay for large messages.
#[test]
fn the_best_fit_is_handed_out() {
    let mut pool = BufferPool::new(usize::MAX);
    for capacity in [100_000, 2000, 50_000] {
        pool.keep(BytesMut::zeroed(capacity).freeze());
    }
    assert_eq!(pool.get(1500).capacity(), 2000);
    assert_eq!(pool.get(1500).capacity(), 50_000);
    assert_eq!(pool.get(100_001).capacity(), 100_001);
    assert_eq!(pool.bytes(), 100_000);
}

#[test]
fn memory_that_cannot_be_reused_is_never_handed_out() {
    let mut pool = BufferPool::new(usize::MAX);
    static CONSTANT: [u8; 1000] = [7; 1000];
    pool.keep(Bytes::from_static(&CONSTANT));
    pool.keep(Bytes::from_owner(vec![7; 1000]));
    pool.keep(Bytes::new());
    assert!(pool.get(1000).is_empty());
    assert!(pool.free.is_empty());
    assert!(pool.in_flight.iter().all(|buffer| buffer.bytes.len() == 1000));
}

/// At most 16 free buffers, 8 MiB each, `pool_bytes` in all; the smallest go first. At most 128 in flight.
#[test]
fn every_limit_of_the_pool_holds() {
    let mut pool = BufferPool::new(usize::MAX);
    for _ in 0..=BufferPool::MAX_FREE {
        pool.keep(BytesMut::zeroed(600).freeze());
    }
    pool.settle();
    assert_eq!(pool.bytes(), 600 * BufferPool::MAX_FREE);

    let mut pool = BufferPool::new(usize::MAX);
    pool.keep(BytesMut::zeroed(BufferPool::MAX_BUFFER).freeze());
    pool.keep(BytesMut::zeroed(BufferPool::MAX_BUFFER + 1).freeze());
    pool.keep(BytesMut::zeroed(BufferPool::MIN_BUFFER - 1).freeze());
    pool.settle();
    assert_eq!(pool.bytes(), BufferPool::MAX_BUFFER);

    let mut pool = BufferPool::new(10_000);
    pool.keep(BytesMut::zeroed(5000).freeze());
    pool.keep(BytesMut::zeroed(6000).freeze());
    pool.settle();
    assert_eq!(pool.bytes(), 6000);
    pool.keep(BytesMut::zeroed(10_001).freeze());
    pool.settle();
    assert_eq!(pool.bytes(), 6000);
    pool.clear();
    assert_eq!(pool.bytes(), 0);

    let held: Vec<Bytes> = (0..200).map(|_| BytesMut::zeroed(600).freeze()).collect();
    held.iter().for_each(|bytes| pool.keep(bytes.clone()));
    assert_eq!((pool.in_flight.len(), pool.bytes()), (BufferPool::MAX_IN_FLIGHT, 0));
}

/// A hundred messages at a time through a pool for eight, which come back while others are on their way: each finds the
/// buffer of one that came back, and the pool keeps none beside.
#[test]
fn as_many_buffers_are_used_again_as_are_in_flight() {
    const LARGE: usize = 10_000;
    let mut pool = BufferPool::new(8 * LARGE);
    let mut known: Vec<*const u8> = Vec::new();
    let mut in_flight = VecDeque::new();
    for n in 0..1000 {
        let mut buffer = pool.get(LARGE);
        if n < 100 {
            known.push(buffer.as_ptr());
        } else {
            assert!(known.contains(&buffer.as_ptr()), "message {n} found nothing");
        }
        buffer.put_bytes(7, LARGE);
        let bytes = buffer.freeze();
        in_flight.push_back(bytes.clone());
        pool.keep(bytes);
        if n >= 99 {
            in_flight.pop_front();
        }
        assert!(pool.bytes() <= LARGE, "{} bytes are kept beside those in flight", pool.bytes());
    }
    in_flight.clear();
    pool.settle();
    assert_eq!(pool.bytes(), 8 * LARGE, "and not more than it may, once all are back");
}

/// Ten messages at a time through a pool for eight: eight of ten find a buffer, and not none.
#[test]
fn a_load_that_is_too_large_for_the_pool_still_uses_all_of_it() {
    const LARGE: usize = 10_000;
    let mut pool = BufferPool::new(8 * LARGE);
    let mut known: Vec<*const u8> = Vec::new();
    for round in 0..10 {
        let (mut reused, mut used) = (0, Vec::new());
        let in_flight: Vec<Bytes> = (0..10)
            .map(|_| {
                let mut buffer = pool.get(LARGE);
                reused += usize::from(known.contains(&buffer.as_ptr()));
                used.push(buffer.as_ptr());
                buffer.put_bytes(7, LARGE);
                buffer.freeze()
            })
            .collect();
        in_flight.iter().for_each(|bytes| pool.keep(bytes.clone()));
        assert!(round == 0 || reused >= 8, "{reused} of ten in round {round}");
        known = used;
    }
}

/// It is the true size of a buffer that counts, not the length that was visible.
#[test]
fn a_large_buffer_with_a_small_message_counts_as_large() {
    let mut pool = BufferPool::new(10_000);
    let mut buffer = BytesMut::with_capacity(20_000);
    buffer.put_slice(&[1; 600]);
    pool.keep(buffer.freeze());
    pool.settle();
    assert_eq!((pool.bytes(), pool.in_flight.len()), (0, 0));
}
