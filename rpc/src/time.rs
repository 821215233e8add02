//! Clocks and timers, supplied by whoever runs the driver.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use trirpc_core::Instant;

use crate::marker::{MaybeSend, MaybeSync};

/// A clock and a source of timers.
pub trait Time: Clone + MaybeSend + MaybeSync + 'static {
    /// The timer of one driver.
    type Timer: Timer;

    /// The present. Monotonic; a step backwards is clamped by the core.
    fn now(&self) -> Instant;

    /// A new timer, not set.
    fn timer(&self) -> Self::Timer;
}

/// One timer that is set again and again.
pub trait Timer: Unpin {
    /// Sets the timer to fire once at `at`, in place of what was set before.
    fn reset(&mut self, at: Instant);

    /// Ready once the instant last set has passed; otherwise wakes `cx` when it does.
    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()>;
}

/// The clock half of a [`Time`], with its type erased: what callers of a session need.
pub(crate) trait Clock: MaybeSend + MaybeSync {
    fn now(&self) -> Instant;
}

impl<Z: Time> Clock for Z {
    fn now(&self) -> Instant {
        Time::now(self)
    }
}

/// A clock that stands still until it is told to move: for tests that never sleep.
///
/// Clones share the clock. [`advance`](Self::advance) wakes the timers that fall due.
#[derive(Clone, Debug, Default)]
pub struct ManualTime {
    shared: Arc<Mutex<ManualState>>,
}

#[derive(Debug, Default)]
struct ManualState {
    now: Instant,
    next_id: u64,
    /// Timers that are set and being waited for: bounded by the number of timers.
    waiting: Vec<(u64, Instant, Waker)>,
}

impl ManualTime {
    /// A clock that shows the epoch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock and wakes every timer that falls due.
    pub fn advance(&self, by: Duration) {
        let mut state = self.lock();
        state.now = state.now + by;
        let now = state.now;
        let mut due = Vec::new();
        state.waiting.retain(|(_, at, waker)| {
            let pending = *at > now;
            if !pending {
                due.push(waker.clone());
            }
            pending
        });
        drop(state);
        due.into_iter().for_each(Waker::wake);
    }

    /// Timers that are set and being waited for.
    pub fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    /// The earliest instant that a timer waits for.
    pub fn next(&self) -> Option<Instant> {
        self.lock().waiting.iter().map(|(_, at, _)| *at).min()
    }

    fn lock(&self) -> MutexGuard<'_, ManualState> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Time for ManualTime {
    type Timer = ManualTimer;

    fn now(&self) -> Instant {
        self.lock().now
    }

    fn timer(&self) -> ManualTimer {
        let mut state = self.lock();
        state.next_id += 1;
        ManualTimer { id: state.next_id, time: self.clone(), at: None }
    }
}

/// A timer of a [`ManualTime`].
#[derive(Debug)]
pub struct ManualTimer {
    id: u64,
    time: ManualTime,
    at: Option<Instant>,
}

impl ManualTimer {
    fn forget(&self) {
        self.time.lock().waiting.retain(|(id, ..)| *id != self.id);
    }
}

impl Timer for ManualTimer {
    fn reset(&mut self, at: Instant) {
        self.forget();
        self.at = Some(at);
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        let mut state = self.time.lock();
        state.waiting.retain(|(id, ..)| *id != self.id);
        if at <= state.now {
            drop(state);
            self.at = None;
            return Poll::Ready(());
        }
        state.waiting.push((self.id, at, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for ManualTimer {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_timer_fires_once_when_the_clock_reaches_it() {
        let time = ManualTime::new();
        let mut timer = time.timer();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(timer.poll_expired(&mut cx).is_pending(), "not set");
        timer.reset(Time::now(&time) + Duration::from_secs(2));
        assert!(timer.poll_expired(&mut cx).is_pending());
        assert_eq!(time.waiting(), 1);
        time.advance(Duration::from_secs(1));
        assert!(timer.poll_expired(&mut cx).is_pending());
        time.advance(Duration::from_secs(1));
        assert_eq!(time.waiting(), 0);
        assert!(timer.poll_expired(&mut cx).is_ready());
        assert!(timer.poll_expired(&mut cx).is_pending(), "fires once");
    }

    #[test]
    fn a_dropped_or_reset_manual_timer_leaves_nothing_behind() {
        let time = ManualTime::new();
        let mut timer = time.timer();
        let mut cx = Context::from_waker(Waker::noop());
        timer.reset(Instant::from_nanos(5));
        assert!(timer.poll_expired(&mut cx).is_pending());
        timer.reset(Instant::from_nanos(7));
        assert_eq!(time.waiting(), 0);
        assert!(timer.poll_expired(&mut cx).is_pending());
        assert_eq!(time.next(), Some(Instant::from_nanos(7)));
        drop(timer);
        assert_eq!(time.waiting(), 0);
    }
}
