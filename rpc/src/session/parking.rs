//! The park and wake protocol between a driver and the callers of its session.
//!
//! A driver parks in the same critical section in which it found nothing to do, so no caller can slip
//! in between: either the caller's output was seen, or the caller sees the stored waker. While the
//! driver runs there is no waker to take: it looks again before it parks, so waking it would be waste.

use std::task::Waker;

use trirpc_core::Instant;

/// What a parked driver waits for; empty while it runs.
#[derive(Debug, Default)]
pub(crate) struct Parking {
    waker: Option<Waker>,
    /// The instant for which its timer is set.
    armed: Option<Instant>,
    /// The transport takes nothing: more output cannot make it go on.
    write_blocked: bool,
}

impl Parking {
    /// The driver runs: it needs no waking. Returns its waker, to be dropped once the lock is released.
    pub(crate) fn withdraw(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    /// Whether the driver sleeps, and nobody has woken it yet.
    pub(crate) const fn is_parked(&self) -> bool {
        self.waker.is_some()
    }

    /// The driver found nothing to do and goes to sleep.
    pub(crate) fn park(&mut self, waker: Waker, armed: Option<Instant>, write_blocked: bool) {
        *self = Self { waker: Some(waker), armed, write_blocked };
    }

    /// After a caller's change: the waker to fire once the lock is released, if the change concerns a
    /// parked driver. `has_output` and `timeout` are the connection's state after the change.
    #[must_use]
    pub(crate) fn unpark(&mut self, has_output: bool, timeout: Option<Instant>) -> Option<Waker> {
        let sooner = match (timeout, self.armed) {
            (Some(timeout), Some(armed)) => timeout < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if (has_output && !self.write_blocked) || sooner { self.waker.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EARLY: Option<Instant> = Some(Instant::from_nanos(1));
    const LATE: Option<Instant> = Some(Instant::from_nanos(2));

    fn parked(armed: Option<Instant>, write_blocked: bool) -> Parking {
        let mut parking = Parking::default();
        parking.park(Waker::noop().clone(), armed, write_blocked);
        parking
    }

    #[test]
    fn a_running_driver_is_never_woken() {
        assert!(Parking::default().unpark(true, EARLY).is_none());
        let mut parking = parked(None, false);
        assert!(parking.withdraw().is_some());
        assert!(parking.unpark(true, EARLY).is_none());
    }

    #[test]
    fn a_parked_driver_is_woken_once_for_output() {
        let mut parking = parked(None, false);
        assert!(parking.unpark(false, None).is_none(), "nothing to do");
        assert!(parking.unpark(true, None).is_some());
        assert!(parking.unpark(true, None).is_none(), "already on its way");
    }

    #[test]
    fn a_write_blocked_driver_is_woken_only_for_a_sooner_timer() {
        assert!(parked(LATE, true).unpark(true, LATE).is_none());
        assert!(parked(LATE, true).unpark(true, EARLY).is_some());
    }

    #[test]
    fn a_timer_that_did_not_move_forward_wakes_nobody() {
        assert!(parked(EARLY, false).unpark(false, LATE).is_none());
        assert!(parked(EARLY, false).unpark(false, EARLY).is_none());
        assert!(parked(EARLY, false).unpark(false, None).is_none());
        assert!(parked(LATE, false).unpark(false, EARLY).is_some());
        assert!(parked(None, false).unpark(false, EARLY).is_some());
    }
}
