//! Numbers that a seed brings back.

use std::time::Duration;

/// The splitmix64 sequence of a seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % (bound as u64).max(1)) as usize
    }

    /// True once in `n` times; never if `n` is 0.
    pub fn one_in(&mut self, n: usize) -> bool {
        n > 0 && self.below(n) == 0
    }

    /// A duration from `shortest` to `longest`.
    pub fn duration(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let range = u64::try_from(longest.saturating_sub(shortest).as_nanos()).unwrap_or(u64::MAX);
        shortest + Duration::from_nanos(if range == 0 { 0 } else { self.bits() % range })
    }

    /// Another sequence, which goes on by itself.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.bits())
    }
}
