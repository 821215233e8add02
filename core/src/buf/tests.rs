//! Each buffer against a plain `Vec<u8>` as its model.
//!
//! Scripts are lists of (operation, size), so that they shrink well.

mod arena;
mod coalesce;
mod message;
mod pool;
mod recv;
mod scatter;
mod transmit;

use alloc::vec::Vec;

use bytes::Bytes;

/// Distinct bytes: consecutive calls never repeat a value at the same offset of a chunk.
struct Pattern(u8);

impl Pattern {
    fn next(&mut self, len: usize) -> Vec<u8> {
        (0..len)
            .map(|_| {
                self.0 = self.0.wrapping_mul(5).wrapping_add(17);
                self.0
            })
            .collect()
    }
}

/// Slices that somebody holds, each with what it must go on showing.
#[derive(Default)]
struct Held(Vec<(Bytes, Vec<u8>)>);

impl Held {
    fn hold(&mut self, slice: Bytes) {
        let shown = slice.to_vec();
        self.0.push((slice, shown));
    }

    /// Drops up to `n` slices, after a last look at them.
    fn drop_oldest(&mut self, n: usize) {
        for (slice, shown) in self.0.drain(..n.min(self.0.len())) {
            assert_eq!(slice, shown, "memory in use was written to");
        }
    }

    fn are_intact(&self) -> bool {
        self.0.iter().all(|(slice, shown)| slice == shown)
    }
}
