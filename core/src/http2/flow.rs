//! Flow-control windows (RFC 9113 §5.2, §6.9): arithmetic and the policy of updates, nothing else.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::http2::frame::MAX_WINDOW;

/// A window would exceed 2^31 − 1 (RFC 9113 §6.9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// The peer sent more than its window (RFC 9113 §6.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overrun;

/// What we may still send, on a stream or on the connection.
///
/// Nothing is ever reserved: credit is taken when a DATA frame is cut, so idle claims cannot starve
/// anybody. SETTINGS may push the window of a stream below zero (§6.9.2); it then stays blocked until
/// updates lift it above zero again.
#[derive(Debug)]
pub(crate) struct SendWindow(i32);

impl SendWindow {
    pub(crate) fn new(initial: u32) -> Self {
        Self(initial.min(MAX_WINDOW) as i32)
    }

    /// Octets that may be sent now; zero while the window is negative.
    pub(crate) fn available(&self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Takes `n` octets, at most [`available`](Self::available).
    #[expect(clippy::arithmetic_side_effects, reason = "what is left of a window of 31 bits")]
    pub(crate) fn take(&mut self, n: usize) {
        debug_assert!(n <= self.available());
        self.0 -= n as i32;
    }

    /// WINDOW_UPDATE.
    pub(crate) fn increase(&mut self, increment: u32) -> Result<(), Overflow> {
        self.shift(i64::from(increment))
    }

    /// A change of SETTINGS_INITIAL_WINDOW_SIZE by `delta`.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "both have 31 bits and a sign: however often SETTINGS change, what they add up to is the difference of two windows"
    )]
    pub(crate) fn shift(&mut self, delta: i64) -> Result<(), Overflow> {
        let shifted = i64::from(self.0) + delta;
        if shifted > i64::from(MAX_WINDOW) {
            return Err(Overflow);
        }
        debug_assert!(i32::try_from(shifted).is_ok());
        self.0 = shifted as i32;
        Ok(())
    }
}

/// What the peer may still send us, on a stream or on the connection.
///
/// Every octet of the target is in one of three places, always:
/// `window + buffered + credit == target`.
///
/// * `window`: what the peer believes it may send. Negative after we lowered SETTINGS.
/// * `buffered`: received, not yet taken by whoever it was for.
/// * `credit`: taken, not yet told to the peer. Negative after the target was lowered: later credit pays
///   the debt first.
///
/// **Policy.** An update is due once credit reaches a quarter of the target, and at 256 KiB in any case; of
/// the connection, where more comes, half of one above 64 KiB, and 512 KiB: rarely enough to be cheap, early
/// enough that an honest sender does not stop, and that little of a window is idle on a long way. It is due at once when the target was raised ([`raise`](Self::raise)), because then somebody waits for more than
/// the window holds. The connection's window is credited on arrival, a stream's when the application takes
/// a message, so that one slow call never stops the others.
#[derive(Debug)]
pub(crate) struct RecvWindow {
    window: i64,
    buffered: i64,
    credit: i64,
    target: i64,
    /// From how much credit on an update is due.
    due_from: i32,
    urgent: bool,
    is_of_connection: bool,
}

const SMALL_TARGET: i64 = 64 * 1024;
/// Credit that is worth an update of a stream whatever the target; twice that of the connection.
const LARGEST_STEP: i64 = 256 * 1024;

#[expect(
    clippy::arithmetic_side_effects,
    reason = "each of the four has 34 bits at most: windows have 31, and what they are raised by has 32, of reservations and of growth together"
)]
impl RecvWindow {
    /// A window of a stream that the peer already knows to be `initial`.
    pub(crate) fn new(initial: u32) -> Self {
        Self::with(initial, false)
    }

    /// The same of the connection.
    pub(crate) fn of_connection(initial: u32) -> Self {
        Self::with(initial, true)
    }

    fn with(initial: u32, is_of_connection: bool) -> Self {
        let target = i64::from(initial);
        let due_from = due_from(target, is_of_connection);
        Self { window: target, buffered: 0, credit: 0, target, due_from, urgent: false, is_of_connection }
    }

    fn move_target(&mut self, by: i64) {
        self.target += by;
        self.due_from = due_from(self.target, self.is_of_connection);
    }

    /// Octets the peer may send without another update.
    pub(crate) fn window(&self) -> i64 {
        self.window
    }

    /// What window, buffered octets and credit add up to.
    pub(crate) fn target(&self) -> i64 {
        self.target
    }

    /// Octets that were received and not taken yet.
    pub(crate) fn buffered(&self) -> i64 {
        self.buffered
    }

    /// Octets that were taken and not announced yet.
    pub(crate) fn credit(&self) -> i64 {
        self.credit
    }

    /// Octets the peer could send if all credit were announced now.
    pub(crate) fn reachable(&self) -> i64 {
        self.window + self.credit
    }

    /// A flow-controlled payload of `n` octets begins to arrive. Nothing always fits, also into a window
    /// that our SETTINGS made negative.
    pub(crate) fn receive(&mut self, n: u32) -> Result<(), Overrun> {
        let n = i64::from(n);
        if n > self.window.max(0) {
            return Err(Overrun);
        }
        self.window -= n;
        self.buffered += n;
        Ok(())
    }

    /// Takes back that `n` octets were [received](Self::receive).
    pub(crate) fn unreceive(&mut self, n: u32) {
        let n = i64::from(n).min(self.buffered);
        self.window += n;
        self.buffered -= n;
        self.check();
    }

    /// A payload of `n` octets, at most [`window`](Self::window), arrived and was taken at once.
    pub(crate) fn pass(&mut self, n: u32) {
        let n = i64::from(n);
        debug_assert!(n <= self.window.max(0));
        self.window -= n;
        self.credit += n;
        self.check();
    }

    /// `n` of the received octets were taken, or will never be wanted.
    pub(crate) fn release(&mut self, n: usize) {
        let n = i64::try_from(n).unwrap_or(i64::MAX).min(self.buffered);
        self.buffered -= n;
        self.credit += n;
        self.check();
    }

    /// Our SETTINGS_INITIAL_WINDOW_SIZE changed by `delta`, and the peer has acknowledged it.
    pub(crate) fn shift(&mut self, delta: i64) {
        self.window += delta;
        self.move_target(delta);
        self.check();
    }

    /// Raises the target by `extra` octets and makes an update due.
    pub(crate) fn raise(&mut self, extra: u32) {
        self.move_target(i64::from(extra));
        self.credit += i64::from(extra);
        self.urgent = true;
        self.check();
    }

    /// Lowers the target by `n` octets: that much of present or later credit is not announced.
    pub(crate) fn lower(&mut self, n: u32) {
        self.move_target(-i64::from(n));
        self.credit -= i64::from(n);
        self.check();
    }

    /// Makes whatever credit there is due.
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// Is an update due?
    pub(crate) fn is_due(&self) -> bool {
        self.credit > 0 && (self.urgent || self.credit >= i64::from(self.due_from))
    }

    /// The increment to announce now, if one is due; the peer is taken to know it from here on.
    pub(crate) fn update(&mut self) -> Option<u32> {
        if !self.is_due() {
            return None;
        }
        self.urgent = false;
        // The peer's window may not pass 2^31 − 1; what does not fit stays credit.
        let increment = self.credit.min(i64::from(MAX_WINDOW) - self.window);
        let increment = u32::try_from(increment).ok().filter(|&n| n > 0)?;
        self.window += i64::from(increment);
        self.credit -= i64::from(increment);
        self.check();
        Some(increment)
    }

    fn check(&self) {
        debug_assert_eq!(self.window + self.buffered + self.credit, self.target, "window octets leaked: {self:?}");
    }
}

/// How much credit makes an update due, by the policy.
#[expect(clippy::arithmetic_side_effects, reason = "twice the largest step, at most")]
fn due_from(target: i64, is_of_connection: bool) -> i32 {
    // Negative where SETTINGS lowered the target below zero: whatever credit there is, is due.
    let step = (target / 4).clamp(-1, LARGEST_STEP);
    let step = if is_of_connection && target > SMALL_TARGET { (2 * step).max(target / 4) } else { step };
    step as i32 // at most a quarter of 31 bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `h2:W5`, `h2:W7`: a send window may go negative by SETTINGS, never above 2^31 − 1.
    #[test]
    fn a_send_window_may_be_negative_but_never_overflows() {
        let mut window = SendWindow::new(65_535);
        window.take(60_000);
        window.shift(-65_535).unwrap();
        assert_eq!(window.available(), 0);
        window.increase(60_000).unwrap();
        assert_eq!(window.available(), 0);
        window.increase(1).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.increase(MAX_WINDOW), Err(Overflow));
        assert_eq!(window.available(), 1, "a refused update changes nothing");
        window.increase(MAX_WINDOW - 1).unwrap();
    }

    /// `h2:W1`: window + buffered + credit stays the target (asserted inside), and updates wait for a
    /// quarter of a small window.
    #[test]
    fn small_windows_update_at_a_quarter() {
        let mut window = RecvWindow::new(65_536);
        window.receive(20_000).unwrap();
        window.release(16_383);
        assert_eq!(window.update(), None);
        window.release(1);
        assert_eq!(window.update(), Some(16_384));
        assert_eq!(window.update(), None, "h2:F25: never an increment of zero");
        assert_eq!(window.window(), 65_536 - 3616);
    }

    /// `arch:8`: large windows of streams update at a quarter, the connection's at half, large ones at a quarter: an
    /// update is a frame in the middle of what the peer receives.
    #[test]
    fn large_windows_update_at_a_part_or_at_a_part_of_a_mebibyte() {
        for (mut window, step) in [
            (RecvWindow::new(400_000), 100_000),
            (RecvWindow::new(1 << 20), 262_144),
            (RecvWindow::new(16 << 20), 262_144),
            (RecvWindow::of_connection(65_536), 16_384),
            (RecvWindow::of_connection(400_000), 200_000),
            (RecvWindow::of_connection(1 << 20), 524_288),
            (RecvWindow::of_connection(16 << 20), 4 << 20),
        ] {
            window.receive(60_000).unwrap();
            window.release(60_000);
            let mut taken = 60_000;
            while window.update().is_none() {
                window.receive(1).unwrap();
                window.release(1);
                taken += 1;
                assert!(taken <= step);
            }
            assert_eq!(taken, step.max(60_000));
        }
    }

    /// `h2:F20`: empty DATA is exempt from windows, also from one that SETTINGS made negative.
    #[test]
    fn the_empty_end_of_a_stream_fits_into_a_negative_window() {
        let mut window = RecvWindow::new(65_535);
        window.receive(199).unwrap();
        window.shift(100 - 65_535);
        assert_eq!(window.window(), -99);
        assert_eq!(window.receive(1), Err(Overrun));
        window.receive(0).unwrap();
    }

    /// `h2:W3`: the payload is compared with what the peer may believe.
    #[test]
    fn an_overrun_is_refused_and_leaves_the_window_alone() {
        let mut window = RecvWindow::new(10);
        assert_eq!(window.receive(11), Err(Overrun));
        window.receive(10).unwrap();
        assert_eq!(window.receive(1), Err(Overrun));
        assert_eq!(window.receive(0), Ok(()), "empty DATA is exempt");
    }

    /// `h2:W10`: releasing more than is buffered gives no credit out of thin air.
    #[test]
    fn releasing_twice_credits_once() {
        let mut window = RecvWindow::new(100);
        window.receive(60).unwrap();
        window.release(60);
        window.release(60);
        assert_eq!(window.update(), Some(60));
    }

    /// `arch:8`: a reservation is announced at once and paid back by later credit.
    #[test]
    fn a_raised_target_is_announced_at_once_and_paid_back_later() {
        let mut window = RecvWindow::new(65_536);
        window.receive(65_536).unwrap();
        window.raise(100_000);
        assert_eq!(window.update(), Some(100_000));
        window.receive(100_000).unwrap();
        window.lower(100_000);
        window.release(165_536);
        assert_eq!(window.update(), Some(65_536));
        assert_eq!(window.window(), 65_536);
    }

    /// `h2:W7`, `h2:B69`: our own grants never lift the peer above 2^31 − 1.
    #[test]
    fn an_update_never_lifts_the_peer_above_the_largest_window() {
        let mut window = RecvWindow::new(MAX_WINDOW - 5);
        window.raise(100);
        assert_eq!(window.update(), Some(5));
        assert_eq!(window.update(), None);
    }
}
