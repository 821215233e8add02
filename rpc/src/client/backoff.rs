//! Pure exponential backoff with jitter, as gRPC's connection backoff draws it.

use std::time::Duration;

/// How long to wait between connection attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// Wait after the first failure.
    pub initial: Duration,
    /// Longest wait before jitter.
    pub max: Duration,
    /// Growth from one failure to the next, in hundredths (160 is ×1.6).
    pub percent: u32,
    /// Jitter in hundredths of the wait, in either direction (20 is ±20 %).
    pub jitter_percent: u32,
}

impl Default for BackoffPolicy {
    /// 1 s, growing ×1.6 to 120 s, ±20 %.
    fn default() -> Self {
        Self { initial: Duration::from_secs(1), max: Duration::from_secs(120), percent: 160, jitter_percent: 20 }
    }
}

/// The state of one target's backoff.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    policy: BackoffPolicy,
    next: Duration,
    /// xorshift64* state; jitter needs to differ between clients, not to be unpredictable.
    random: u64,
}

impl Backoff {
    /// `seed` should differ between processes and targets.
    pub(crate) fn new(policy: BackoffPolicy, seed: u64) -> Self {
        Self { policy, next: policy.initial, random: seed | 1 }
    }

    /// A connection was made: the next failure starts over.
    pub(crate) fn reset(&mut self) {
        self.next = self.policy.initial;
    }

    /// An attempt failed: how long to wait before the next one.
    pub(crate) fn failed(&mut self) -> Duration {
        let wait = self.next.min(self.policy.max);
        self.next = (wait.saturating_mul(self.policy.percent) / 100).min(self.policy.max);
        let jitter = self.policy.jitter_percent.min(100);
        let spread = wait.saturating_mul(2 * jitter) / 100;
        let low = wait.saturating_sub(spread / 2);
        low.saturating_add(spread.mul_f64(self.unit()))
    }

    /// A number in 0..1.
    fn unit(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let bits = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 40;
        bits as f64 / f64::from(1_u32 << 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_maximum_and_start_over_after_a_success() {
        let policy = BackoffPolicy { jitter_percent: 0, ..BackoffPolicy::default() };
        let mut backoff = Backoff::new(policy, 7);
        let waits: Vec<u128> = (0..12).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!(waits[..4], [1000, 1600, 2560, 4096]);
        assert_eq!(waits[11], 120_000);
        backoff.reset();
        assert_eq!(backoff.failed(), policy.initial);
    }

    #[test]
    fn jitter_stays_within_its_bounds_and_differs_between_seeds() {
        let policy = BackoffPolicy { percent: 100, ..BackoffPolicy::default() };
        let mut waits = Vec::new();
        for seed in 0..200 {
            let mut backoff = Backoff::new(policy, seed * 7919 + 3);
            backoff.failed();
            let wait = backoff.failed();
            assert!((800..=1200).contains(&wait.as_millis()), "{wait:?}");
            waits.push(wait);
        }
        waits.sort();
        waits.dedup();
        assert!(waits.len() > 50, "{} different waits", waits.len());
    }

    #[test]
    fn extreme_policies_do_not_overflow() {
        let policy =
            BackoffPolicy { initial: Duration::MAX, max: Duration::MAX, percent: u32::MAX, jitter_percent: u32::MAX };
        let mut backoff = Backoff::new(policy, 1);
        backoff.failed();
        backoff.failed();
    }
}
