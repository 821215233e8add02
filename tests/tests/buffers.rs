//! What the core's buffers cost in a steady state, counted at the allocator.
//!
//! The arena and the receive window are private to the core, which forbids the `unsafe` that a counting allocator
//! needs: their sources are compiled into this test.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "private modules, of which each test uses a part")]

extern crate alloc;

#[path = "../../core/src/buf/arena.rs"]
mod arena;
#[path = "../../core/src/buf/recv.rs"]
mod recv;
#[path = "../../core/src/buf/scatter.rs"]
mod scatter;
#[path = "../../core/src/buf/transmit.rs"]
mod transmit;

/// What the sources know as the core's own.
mod config {
    pub(crate) use trirpc_core::Config;
}

use arena::Arena;
use bytes::{BufMut, Bytes};
use recv::RecvBuf;
use transmit::Transmit;
use trirpc_core::buf::BufferPool;
use trirpc_tests::alloc::{Counting, measure};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Frame header, envelope and 128 bytes of payload.
const MESSAGE: usize = 9 + 5 + 128;

/// Sends `messages`, each drained on its own, while the last `in_flight` of them are not written yet.
fn send(arena: &mut Arena, out: &mut Transmit, messages: usize, in_flight: usize) {
    for _ in 0..messages {
        arena.reserve(MESSAGE).put_bytes(7, MESSAGE);
        arena.drain_into(out);
        if out.len() > in_flight * MESSAGE {
            out.advance(MESSAGE);
        }
    }
}

/// Two exhausted chunks are remembered, which is what 900 messages of 142 bytes keep busy (arch:U3).
#[test]
fn output_costs_no_allocation_per_message_with_1_or_900_in_flight() {
    for in_flight in [0, 1, 8, 900] {
        let mut arena = Arena::new(64 * 1024, 1024);
        let mut out = Transmit::new();
        send(&mut arena, &mut out, 5_000, in_flight);
        let ((), cost) = measure(|| send(&mut arena, &mut out, 100_000, in_flight));
        assert_eq!(cost.allocations, 0, "{in_flight} in flight");
    }
}

/// A chained payload between two headers costs nothing either: no copy, no chunk of its own (bg:V3).
#[test]
fn a_large_payload_is_chained_without_an_allocation() {
    let payload = Bytes::from(vec![1; 16 * 1024]);
    let mut arena = Arena::new(64 * 1024, 1024);
    let mut out = Transmit::new();
    let mut turn = || {
        for _ in 0..100 {
            arena.put(&[0; 14]);
            arena.chain(payload.clone());
            arena.put(&[0; 30]);
            arena.drain_into(&mut out);
            out.advance(out.len());
        }
    };
    turn();
    let ((), cost) = measure(turn);
    assert_eq!(cost.allocations, 0);
}

/// The window is used again without the allocator as long as the application drops what it was given.
#[test]
fn input_costs_no_allocation_per_read() {
    let mut input = RecvBuf::new(16 * 1024);
    let mut turn = || {
        for _ in 0..1_000 {
            input.space().first_chunk_mut::<MESSAGE>().expect("space for a read").fill(7);
            input.commit(MESSAGE);
            input.skip(9);
            drop(input.split_to(MESSAGE - 9));
        }
    };
    turn();
    let ((), cost) = measure(turn);
    assert_eq!(cost.allocations, 0);
}

/// A bulk transfer whose octets are copied out needs one window, which is neither replaced nor zeroed again.
#[test]
fn bulk_input_that_is_copied_out_costs_no_allocation() {
    let mut input = RecvBuf::new(64 * 1024);
    let mut turn = || {
        for _ in 0..1_000 {
            let n = input.space().len();
            input.commit(n);
            input.skip(input.len() - 5);
        }
    };
    turn();
    let ((), cost) = measure(turn);
    assert_eq!(cost.allocations, 0);
}

/// A kept message pins its window, and only that: the windows before and after it are given back.
#[test]
fn a_kept_slice_pins_one_window() {
    let mut input = RecvBuf::new(16 * 1024);
    let (kept, cost) = measure(|| {
        let mut kept = None;
        for i in 0..10_000 {
            input.extend(&[7; MESSAGE]);
            let slice = input.split_to(MESSAGE);
            if i == 5_000 {
                kept = Some(slice);
            }
        }
        kept
    });
    assert!(kept.is_some());
    assert!(cost.peak < 40 * 1024, "two windows of 16 KiB at most: {cost:?}");
}

/// An idle connection holds no receive memory.
#[test]
fn a_released_window_goes_back_to_the_allocator() {
    let mut input = RecvBuf::new(16 * 1024);
    let ((), cost) = measure(|| {
        input.space();
        input.release_idle();
    });
    assert!(cost.peak >= 16 * 1024);
    assert_eq!(cost.held, 0);
}

/// A buffer of a megabyte is allocated once for any number of messages sent one after the other; the allocator is
/// asked for no more than the handle's shared counter (bg:S4, bg:S8).
#[test]
fn a_pooled_buffer_serves_message_after_message() {
    const LARGE: usize = 1024 * 1024;
    let mut pool = BufferPool::new(8 * 1024 * 1024);
    let mut in_flight = Bytes::new();
    let mut turn = || {
        for _ in 0..100 {
            let mut buffer = pool.get(LARGE);
            buffer.put_bytes(7, LARGE - 1);
            in_flight = buffer.freeze();
            pool.keep(in_flight.clone());
        }
    };
    turn();
    let ((), cost) = measure(turn);
    assert!(cost.allocated < 100 * 128, "{cost:?}");
}
