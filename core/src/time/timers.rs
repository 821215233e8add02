//! The timers that a connection has exactly one of.

use super::Instant;
use crate::error::Timeout;

/// One optional instant per [`Timeout`].
#[derive(Debug, Default)]
pub(crate) struct TimerTable {
    at: [Option<Instant>; TIMEOUTS.len()],
}

/// Every timer, in the order of its discriminant.
const TIMEOUTS: [Timeout; 7] = [
    Timeout::Handshake,
    Timeout::Settings,
    Timeout::HeaderBlock,
    Timeout::KeepAlive,
    Timeout::Idle,
    Timeout::Drain,
    Timeout::WriteStall,
];

const _: () = {
    let mut i = 0;
    while i < TIMEOUTS.len() {
        assert!(TIMEOUTS[i] as usize == i);
        i += 1;
    }
};

impl TimerTable {
    /// Arms `timer`, or moves it.
    pub(crate) fn set(&mut self, timer: Timeout, at: Instant) {
        self.at[timer as usize] = Some(at);
    }

    /// Disarms `timer`.
    pub(crate) fn clear(&mut self, timer: Timeout) {
        self.at[timer as usize] = None;
    }

    /// Disarms every timer.
    pub(crate) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// When `timer` fires, if it is armed.
    pub(crate) fn get(&self, timer: Timeout) -> Option<Instant> {
        self.at[timer as usize]
    }

    /// The timer that fires first.
    pub(crate) fn next(&self) -> Option<(Instant, Timeout)> {
        let armed = self.at.iter().zip(TIMEOUTS).filter_map(|(at, timer)| at.map(|at| (at, timer)));
        armed.min_by_key(|(at, _)| *at)
    }

    /// Disarms and returns the first timer that is due at `now`.
    pub(crate) fn pop_expired(&mut self, now: Instant) -> Option<Timeout> {
        let (_, timer) = self.next().filter(|(at, _)| *at <= now)?;
        self.clear(timer);
        Some(timer)
    }
}
