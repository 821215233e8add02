//! DATA that the peer's windows cut into a few octets: whether it is worth a frame (RFC 1122 §4.2.3.4 asks the same of
//! TCP).
//!
//! A peer that opens its windows an octet at a time would have a frame made of each. Some such frames leave at once, for
//! the end of a window is nearly always small, and larger frames make up for them; the rest wait for a larger window, or
//! for their share of time.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::config::Config;
use crate::http2::abuse::Bucket;
use crate::time::Instant;

/// DATA of so many octets never waits for a larger window, whatever else counts as useful.
const MAX_WORTH: usize = 1024;

#[derive(Debug)]
pub(super) struct Dribbles {
    /// Octets that are always worth a frame; not zero.
    worth: usize,
    /// Frames of fewer that may leave.
    left: Bucket,
}

impl Dribbles {
    pub(super) fn new(config: &Config, now: Instant) -> Self {
        Self {
            worth: (config.useful_data as usize).clamp(1, MAX_WORTH),
            left: Bucket::new(config.max_dribbles, config.dribbles_per_second, now),
        }
    }

    /// Would a frame of what `allowed` lets through of `eligible` octets be small only because the window is? Also with
    /// none allowed.
    #[inline]
    pub(super) fn would(&self, eligible: usize, allowed: usize) -> bool {
        allowed < self.worth && allowed < eligible
    }

    /// Does a window of `available` octets let DATA through that is worth a frame, or may a few octets leave?
    #[inline]
    pub(super) fn opens(&self, available: usize) -> bool {
        available >= self.worth || (available > 0 && !self.is_spent())
    }

    /// Must the next such frame wait, as far as is known without looking at the time?
    pub(super) fn is_spent(&self) -> bool {
        self.left.is_empty()
    }

    /// May such a frame leave? Then it counts.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        self.left.take(1, now)
    }

    /// After `octets` in such frames: is that worth a frame by now?
    pub(super) fn add_up(&self, octets: u32) -> bool {
        octets as usize >= self.worth
    }

    /// Any other frame, of `n` octets, left.
    #[inline]
    pub(super) fn sent(&mut self, n: usize) {
        if n >= self.worth && !self.left.is_full() {
            self.left.give(1);
        }
    }
}
