//! The timers that a connection has exactly one of.

use super::Instant;
use crate::error::Timeout;

/// One optional instant per [`Timeout`].
#[derive(Debug)]
pub(crate) struct TimerTable {
    /// [`NEVER`] for those that are not armed.
    at: [Instant; TIMEOUTS.len()],
}

/// Beyond the last instant at which anything can be due.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// Every timer, in the order of its discriminant.
const TIMEOUTS: [Timeout; 8] = [
    Timeout::Handshake,
    Timeout::Settings,
    Timeout::HeaderBlock,
    Timeout::KeepAlive,
    Timeout::Idle,
    Timeout::Age,
    Timeout::Drain,
    Timeout::WriteStall,
];

#[expect(clippy::indexing_slicing, reason = "evaluated by the compiler, which checks it")]
const _: () = {
    let mut i = 0;
    while i < TIMEOUTS.len() {
        assert!(TIMEOUTS[i] as usize == i);
        i += 1;
    }
};

impl TimerTable {
    /// Arms `timer`, or moves it.
    #[expect(clippy::indexing_slicing, reason = "a place for every timer, checked above")]
    pub(crate) fn set(&mut self, timer: Timeout, at: Instant) {
        self.at[timer as usize] = at;
    }

    /// Disarms `timer`.
    #[expect(clippy::indexing_slicing, reason = "a place for every timer, checked above")]
    pub(crate) fn clear(&mut self, timer: Timeout) {
        self.at[timer as usize] = NEVER;
    }

    /// Disarms every timer.
    pub(crate) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// When `timer` fires, if it is armed.
    #[expect(clippy::indexing_slicing, reason = "a place for every timer, checked above")]
    pub(crate) fn get(&self, timer: Timeout) -> Option<Instant> {
        Some(self.at[timer as usize]).filter(|at| *at != NEVER)
    }

    /// The timer that fires first.
    pub(crate) fn next(&self) -> Option<(Instant, Timeout)> {
        let first = self.at.into_iter().zip(TIMEOUTS).min_by_key(|(at, _)| *at);
        first.filter(|(at, _)| *at != NEVER)
    }

    /// Disarms and returns the first timer that is due at `now`.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Timeout> {
        let (_, timer) = self.next().filter(|(at, _)| *at <= now)?;
        self.clear(timer);
        Some(timer)
    }
}

impl Default for TimerTable {
    /// With no timer armed.
    fn default() -> Self {
        Self { at: [NEVER; TIMEOUTS.len()] }
    }
}
