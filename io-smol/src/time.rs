//! The clock and timers of smol.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant as StdInstant};

use smol::Timer as IoTimer;
use trirpc_core::Instant;
use trirpc_rpc::{Time, Timer};

/// [`Time`] by the system's monotonic clock and [`smol::Timer`].
///
/// All values share one epoch, so instants of different connections can be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct SmolTime(());

impl SmolTime {
    /// The clock of this process.
    pub const fn new() -> Self {
        Self(())
    }
}

impl Time for SmolTime {
    type Timer = SmolTimer;

    fn now(&self) -> Instant {
        let nanos = epoch().elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn timer(&self) -> SmolTimer {
        SmolTimer(IoTimer::never())
    }
}

/// One [`smol::Timer`], set again in place.
#[derive(Debug)]
pub struct SmolTimer(IoTimer);

impl Timer for SmolTimer {
    fn reset(&mut self, at: Instant) {
        match epoch().checked_add(Duration::from_nanos(at.as_nanos())) {
            Some(at) => self.0.set_at(at),
            // Later than the system can say is never.
            None => self.0.clear(),
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(())
    }
}

fn epoch() -> StdInstant {
    static EPOCH: OnceLock<StdInstant> = OnceLock::new();
    *EPOCH.get_or_init(StdInstant::now)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[test]
    fn a_timer_fires_not_before_its_instant_and_can_be_set_again() {
        let time = SmolTime::new();
        let mut timer = time.timer();
        smol::block_on(async {
            for _ in 0..2 {
                let at = Time::now(&time) + Duration::from_millis(5);
                timer.reset(at);
                poll_fn(|cx| timer.poll_expired(cx)).await;
                assert!(Time::now(&time) >= at);
            }
        });
    }

    #[test]
    fn a_timer_that_is_moved_away_does_not_fire_at_its_old_instant() {
        let time = SmolTime::new();
        let mut timer = time.timer();
        timer.reset(Time::now(&time));
        timer.reset(Instant::from_nanos(u64::MAX));
        let expired = poll_fn(|cx| timer.poll_expired(cx));
        let fired = smol::block_on(smol::future::or(
            async {
                expired.await;
                true
            },
            async {
                IoTimer::after(Duration::from_millis(10)).await;
                false
            },
        ));
        assert!(!fired);
    }
}
