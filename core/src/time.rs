//! Time as an argument: an instant without a clock, and the timers of a connection.

mod deadlines;
mod timers;

pub(crate) use deadlines::DeadlineQueue;
pub(crate) use timers::TimerTable;

use core::fmt;
use core::num::NonZeroU64;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: nanoseconds since an epoch that the driver picks.
///
/// `std::time::Instant` is absent or panics off-host, so drivers pass this one. A clock that goes
/// backwards is clamped by the connection to the last `now` it saw.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(
    /// One more than the nanoseconds since the epoch, so that an instant that may be absent takes no more room.
    NonZeroU64,
);

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self(NonZeroU64::MIN);

    /// The point `nanos` nanoseconds after the epoch (584 years fit).
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(NonZeroU64::MIN.saturating_add(nanos))
    }

    /// Nanoseconds since the epoch.
    pub const fn as_nanos(self) -> u64 {
        self.0.get() - 1
    }

    /// Time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_duration_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }

    /// The point in ticks of 2^20 nanoseconds, about a millisecond. They come round after 52 days: half an instant, for
    /// spans that are short.
    pub(crate) const fn ticks(self) -> u32 {
        (self.as_nanos() >> 20) as u32
    }

    /// Time since a point that was at `ticks`, to a tick.
    pub(crate) const fn since_ticks(self, ticks: u32) -> Duration {
        Duration::from_nanos((self.ticks().wrapping_sub(ticks) as u64) << 20)
    }

    /// `self + duration`, clamped to the last representable instant.
    pub fn saturating_add(self, duration: Duration) -> Self {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Default for Instant {
    fn default() -> Self {
        Self::ZERO
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Saturates: a deadline too far away to represent never fires.
    fn add(self, duration: Duration) -> Self {
        self.saturating_add(duration)
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Saturates at zero.
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_duration_since(earlier)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.as_nanos()))
    }
}

#[cfg(test)]
mod tests;
