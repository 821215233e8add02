//! What may go wrong on the way.

use std::time::Duration;

use super::random::Random;

/// How a simulated connection treats what it carries. Each direction has chances of its own.
///
/// A chance "once in so many operations" counts reads and writes that moved something; 0 is never.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Shortest and longest time that bytes take one way. Bytes never overtake each other.
    pub delay: (Duration, Duration),
    /// Bytes a second that a direction carries; 0 is no limit.
    pub rate: u64,
    /// Bytes that a direction holds before its writer has to wait, as the buffers of a socket do; at least 1.
    pub capacity: usize,
    /// Whether reads and writes take less than they could, down to a byte.
    pub splits: bool,
    /// A direction stands still once in so many operations, for at most [`stall`](Self::stall).
    pub stall_one_in: usize,
    /// The longest time that a direction stands still.
    pub stall: Duration,
    /// A direction ends in order, as by `shutdown`, once in so many operations.
    pub half_close_one_in: usize,
    /// The connection breaks in both directions, what is on its way included, once in so many operations.
    pub reset_one_in: usize,
    /// A connection attempt is refused, once in so many.
    pub refuse_one_in: usize,
}

impl Faults {
    /// A perfect wire: no delay, no limit, nothing cut.
    pub const fn none() -> Self {
        Self {
            delay: (Duration::ZERO, Duration::ZERO),
            rate: 0,
            capacity: usize::MAX,
            splits: false,
            stall_one_in: 0,
            stall: Duration::ZERO,
            half_close_one_in: 0,
            reset_one_in: 0,
            refuse_one_in: 0,
        }
    }

    /// A bad day that nobody notices: delays, small buffers, cuts and stalls, and every byte arrives.
    pub const fn rough() -> Self {
        Self {
            delay: (Duration::from_micros(50), Duration::from_millis(20)),
            capacity: 16 * 1024,
            splits: true,
            stall_one_in: 100,
            stall: Duration::from_millis(500),
            ..Self::none()
        }
    }

    /// As [`rough`](Self::rough), and connections end, break and are refused.
    pub const fn hostile() -> Self {
        Self { half_close_one_in: 4000, reset_one_in: 2000, refuse_one_in: 4, ..Self::rough() }
    }

    pub(super) fn delay(&self, random: &mut Random) -> Duration {
        random.duration(self.delay.0, self.delay.1)
    }

    pub(super) fn refuses(&self, random: &mut Random) -> bool {
        random.one_in(self.refuse_one_in)
    }
}
