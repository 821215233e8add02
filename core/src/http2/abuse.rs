//! Budgets against peers that make us work for nothing (RFC 9113 §10.5).
//!
//! Each budget is a bucket: a burst that an honest peer never empties, refilled by time and, for control
//! frames and empty DATA, by useful frames. An empty bucket ends the connection with ENHANCE_YOUR_CALM and
//! a debug text of its own. The bursts are fields of [`Config`].
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use crate::config::Config;
use crate::error::{ErrorCode, PeerMisbehaved};
use crate::time::Instant;

const NANOS: u64 = 1_000_000_000;

/// Useful frames earn back this many control frames.
const EARNED_BY_USEFUL_FRAME: u64 = 4;

/// A bucket of `burst` tokens; a `refill_part`-th of it comes back each second.
#[derive(Debug)]
struct Bucket {
    /// Billionths of a token.
    level: u64,
    at: Instant,
    burst: u32,
    refill_part: u32,
}

impl Bucket {
    fn new(burst: u32, refill_part: u32, now: Instant) -> Self {
        Self { level: u64::from(burst) * NANOS, at: now, burst, refill_part }
    }

    /// Takes `n` tokens; false if there are not that many.
    fn take(&mut self, n: u64, now: Instant) -> bool {
        let elapsed = u64::try_from((now - self.at).as_nanos()).unwrap_or(u64::MAX);
        self.at = self.at.max(now);
        self.give(elapsed.saturating_mul(self.burst.into()) / u64::from(self.refill_part));
        match self.level.checked_sub(n.saturating_mul(NANOS)) {
            Some(level) => {
                self.level = level;
                true
            }
            None => false,
        }
    }

    fn full(&self) -> u64 {
        u64::from(self.burst) * NANOS
    }

    fn is_full(&self) -> bool {
        self.level == self.full()
    }

    fn give(&mut self, nanotokens: u64) {
        self.level = self.level.saturating_add(nanotokens).min(self.full());
    }
}

/// The budgets of one connection.
#[derive(Debug)]
pub(crate) struct Abuse {
    stream_faults: Bucket,
    control: Bucket,
    peer_resets: Bucket,
    empty_data: Bucket,
}

impl Abuse {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            stream_faults: Bucket::new(config.max_stream_faults, 30, now),
            control: Bucket::new(config.max_control_frames, 20, now),
            peer_resets: Bucket::new(config.max_peer_resets, 10, now),
            empty_data: Bucket::new(config.max_empty_data, 100, now),
        }
    }

    /// A fault that costs the peer one stream, or a frame for a stream that is long gone.
    pub(crate) fn stream_fault(&mut self, now: Instant) -> Result<(), PeerMisbehaved> {
        calm(self.stream_faults.take(1, now), "too many stream faults")
    }

    /// A frame that moves no message: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, GOAWAY, unknown types.
    /// `weight` is 1, or more when handling it takes time in proportion to something.
    pub(crate) fn control_frame(&mut self, weight: u64, now: Instant) -> Result<(), PeerMisbehaved> {
        calm(self.control.take(weight, now), "too many control frames")
    }

    /// RST_STREAM of a live stream.
    pub(crate) fn peer_reset(&mut self, now: Instant) -> Result<(), PeerMisbehaved> {
        calm(self.peer_resets.take(1, now), "too many resets")
    }

    /// DATA without data and without END_STREAM.
    pub(crate) fn empty_data(&mut self, now: Instant) -> Result<(), PeerMisbehaved> {
        calm(self.empty_data.take(1, now), "too many empty DATA frames")
    }

    /// A frame that moved a message, in either direction.
    #[inline]
    pub(crate) fn useful_frame(&mut self) {
        self.useful_frames(1);
    }

    /// `n` of them.
    #[inline]
    pub(crate) fn useful_frames(&mut self, n: u64) {
        // As they are with nearly every peer.
        if !self.control.is_full() || !self.empty_data.is_full() {
            self.control.give(n * EARNED_BY_USEFUL_FRAME * NANOS);
            self.empty_data.give(n * NANOS);
        }
    }
}

fn calm(within: bool, detail: &'static str) -> Result<(), PeerMisbehaved> {
    if within { Ok(()) } else { Err(PeerMisbehaved { code: ErrorCode::ENHANCE_YOUR_CALM, detail }) }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// `arch:9`: a burst, then only what time gives back.
    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::from_nanos(5);
        let mut bucket = Bucket::new(20, 10, start);
        assert!((0..20).all(|_| bucket.take(1, start)));
        assert!(!bucket.take(1, start));
        assert!(!bucket.take(1, start + Duration::from_millis(499)));
        assert!(bucket.take(1, start + Duration::from_millis(500)));
        assert!(!bucket.take(1, start + Duration::from_millis(500)));
        let much_later = start + Duration::from_secs(1 << 40);
        assert!((0..20).all(|_| bucket.take(1, much_later)));
        assert!(!bucket.take(1, much_later), "never more than the burst");
    }

    /// `h2:P16`: time that stands still or goes back is harmless.
    #[test]
    fn time_going_back_refills_nothing() {
        let start = Instant::from_nanos(NANOS);
        let mut bucket = Bucket::new(1, 1, start);
        assert!(bucket.take(1, start));
        assert!(!bucket.take(1, Instant::ZERO));
        assert!(!bucket.take(1, start));
    }
}
