//! The clock and timers of smol.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant as StdInstant};

use smol::Timer as IoTimer;
use trirpc_core::Instant;
use trirpc_rpc::{Time, Timer};

use crate::event_loop::{LoopTimer, Reactor};

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
        match as_std(at) {
            Some(at) => self.0.set_at(at),
            None => self.0.clear(),
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(())
    }
}

/// The time of a socket, whoever watches it.
#[derive(Clone, Debug)]
pub(crate) struct SocketTime {
    reactor: Option<Arc<Reactor>>,
}

impl SocketTime {
    /// The timers of `reactor`, or smol's.
    pub(crate) const fn new(reactor: Option<Arc<Reactor>>) -> Self {
        Self { reactor }
    }

    /// Waits until `at`.
    pub(crate) async fn sleep(self, at: Instant) {
        let mut timer = self.timer();
        timer.reset(at);
        poll_fn(|cx| timer.poll_expired(cx)).await;
    }
}

impl Time for SocketTime {
    type Timer = SocketTimer;

    fn now(&self) -> Instant {
        Time::now(&SmolTime::new())
    }

    fn timer(&self) -> SocketTimer {
        match &self.reactor {
            Some(reactor) => SocketTimer::Loop(LoopTimer::new(Arc::clone(reactor))),
            None => SocketTimer::Smol(SmolTime::new().timer()),
        }
    }
}

/// A timer of an event loop, or smol's.
#[derive(Debug)]
pub(crate) enum SocketTimer {
    Smol(SmolTimer),
    Loop(LoopTimer),
}

impl Timer for SocketTimer {
    fn reset(&mut self, at: Instant) {
        match self {
            Self::Smol(timer) => timer.reset(at),
            Self::Loop(timer) => match as_std(at) {
                Some(at) => timer.set(at),
                None => timer.clear(),
            },
        }
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Smol(timer) => timer.poll_expired(cx),
            Self::Loop(timer) => timer.poll_expired(cx),
        }
    }
}

/// None for what is later than the system can say, which is never.
fn as_std(at: Instant) -> Option<StdInstant> {
    epoch().checked_add(Duration::from_nanos(at.as_nanos()))
}

fn epoch() -> StdInstant {
    static EPOCH: OnceLock<StdInstant> = OnceLock::new();
    *EPOCH.get_or_init(StdInstant::now)
}

#[cfg(test)]
mod tests {
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
