//! Time that passes only when a test says so.

use std::time::Duration;

use trirpc_core::Instant;

/// A clock without a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    now: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock that shows an hour, so that tests may also look back.
    pub fn new() -> Self {
        Self { now: Instant::ZERO + Duration::from_secs(3600) }
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Lets time pass.
    pub fn advance(&mut self, by: Duration) {
        self.now = self.now + by;
    }

    /// Jumps to `at`, if that is not in the past.
    pub fn jump_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }
}
