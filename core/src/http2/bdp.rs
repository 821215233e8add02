//! How much fits between the peer and us: an estimate of the bandwidth-delay product, in integers.
//!
//! A window smaller than what the path holds makes the sender wait for updates. How much it holds shows when a PING
//! goes out with an update and the octets are counted that arrive until its answer. In that round trip the sender can
//! send its window, less what came just before the PING and is only now announced. If half of that came, the window may
//! have been the limit, and the estimate becomes twice what came, the announced included: but only while that pays. If
//! octets come no faster than when it was last raised, the path is full, and more would only wait on the way. The
//! estimate never falls, and at its limit nothing is measured any more.
//!
//! This is the estimator of grpc-go in integers, but for two things: what is announced is counted apart, because updates
//! go out when octets are read and not when they arrive; and a rate must have risen by an eighth, where there it must not
//! have fallen, because behind a full queue it never falls.
//!
//! **Courtesy.** gRPC servers count a PING as a strike unless they have sent HEADERS or DATA since the last one, and end
//! the connection at the third. So a PING goes out only with a window update for octets that the application took, one
//! at a time, and only if octets have come since the answer to the last: those were certainly sent after it. Samples that
//! find nothing make the next ones rarer.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use core::time::Duration;

use crate::config::Config;
use crate::http2::frame::{DEFAULT_WINDOW, MAX_WINDOW};
use crate::time::Instant;

/// Payload of the PINGs that measure.
pub(crate) const PAYLOAD: [u8; 8] = *b"tri-path";

/// After so many samples that found nothing the next come no more rarely: every 64 round trips.
const MOST_FRUITLESS: u8 = 7;

#[derive(Debug)]
pub(crate) struct Bdp {
    /// Octets that the path is thought to hold.
    estimate: u32,
    /// The estimate rises to this, if it is not above from the beginning.
    limit: u32,
    /// Octets a millisecond that came when the estimate was last raised.
    rate: u32,
    /// Octets by which the connection's window was ever opened, modulo 2^32, as all counts that go on for ever: only how
    /// far they are apart matters.
    granted: u32,
    /// Octets that had arrived when the last PING was answered.
    answered_at: u32,
    /// No PING before this.
    next: Instant,
    /// When the PING that is out was written, and the octets that had arrived before. If none is out: the same of the last
    /// answer, or of the last update of a stream since.
    mark: (Instant, u32),
    /// Octets that came just before the PING that is out, within a round trip at most.
    announced: u32,
    /// The last round trip, in microseconds; zero if there was none.
    round_trip: u32,
    /// Samples since one that raised the estimate, as far as it matters.
    fruitless: u8,
    is_out: bool,
    is_on: bool,
}

impl Bdp {
    pub(crate) fn new(config: &Config) -> Self {
        let estimate = config.initial_stream_window.min(MAX_WINDOW);
        Self {
            estimate,
            limit: config.max_window.min(MAX_WINDOW).max(estimate),
            rate: 0,
            granted: DEFAULT_WINDOW,
            answered_at: 0,
            next: Instant::ZERO,
            mark: (Instant::ZERO, 0),
            announced: 0,
            round_trip: 0,
            fruitless: 0,
            is_out: false,
            is_on: config.adaptive_window,
        }
    }

    /// What a window should be, if windows follow the estimate at all.
    pub(crate) fn window(&self) -> Option<u32> {
        self.is_on.then_some(self.estimate)
    }

    /// The connection's window was opened by another `n` octets.
    pub(crate) fn granted(&mut self, n: u32) {
        self.granted = self.granted.wrapping_add(n);
    }

    /// Octets that have arrived, when `window` is what the connection's window has left.
    fn received(&self, window: i64) -> u32 {
        self.granted.wrapping_sub(u32::try_from(window).unwrap_or(0))
    }

    /// Updates of streams for `taken` octets that were read are being written: true if a PING is to be written behind
    /// them, which begins a sample. `window` is what the connection's window has left.
    pub(crate) fn begin(&mut self, taken: u64, window: i64, now: Instant) -> bool {
        if taken == 0 || self.is_out || !self.is_on || self.estimate >= self.limit {
            return false;
        }
        let received = self.received(window);
        self.is_out = received != self.answered_at && now >= self.next;
        if self.is_out {
            let announced = if self.round_trip == 0 { taken } else { self.came_before(received, now) };
            self.announced = u32::try_from(announced).unwrap_or(u32::MAX);
        }
        self.mark = (now, received);
        self.is_out
    }

    /// Octets that have come since the mark, or as many as came in a round trip if that was longer ago.
    fn came_before(&self, received: u32, now: Instant) -> u64 {
        let (at, before) = self.mark;
        let came = u64::from(received.wrapping_sub(before));
        match micros(now - at) {
            took if took <= self.round_trip => came,
            took => came.saturating_mul(self.round_trip.into()) / u64::from(took),
        }
    }

    /// The PING was answered: the new estimate, if it rose. An answer to nothing changes nothing.
    pub(crate) fn end(&mut self, window: i64, now: Instant) -> Option<u32> {
        if !core::mem::take(&mut self.is_out) {
            return None;
        }
        let (since, before) = self.mark;
        let received = self.received(window);
        self.mark = (now, received);
        self.answered_at = received;
        self.round_trip = micros(now - since);
        let risen = self.judge(received.wrapping_sub(before), self.announced);
        self.fruitless = if risen.is_some() { 0 } else { (self.fruitless + 1).min(MOST_FRUITLESS) };
        // Right after the estimate rose the window is still on its way: one sample that finds nothing says nothing.
        let pause = if self.fruitless < 2 { 0 } else { u64::from(self.round_trip) << (self.fruitless - 1) };
        self.next = now + Duration::from_micros(pause);
        risen
    }

    /// `came` octets arrived within the last round trip, at whose beginning `announced` were.
    fn judge(&mut self, came: u32, announced: u32) -> Option<u32> {
        let rate = u64::from(came) * 1000 / u64::from(self.round_trip.max(1));
        let rate = u32::try_from(rate).unwrap_or(u32::MAX);
        let has_paid = u64::from(rate) * 8 >= u64::from(self.rate) * 9;
        let could_come = self.estimate.saturating_sub(announced);
        let doubled = came.saturating_add(announced).saturating_mul(2).min(self.limit);
        if !has_paid || came < could_come / 2 || doubled <= self.estimate {
            return None;
        }
        self.rate = rate;
        self.estimate = doubled;
        Some(doubled)
    }
}

/// Microseconds, as many as matter: an hour is as long as a week.
fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use quickcheck::QuickCheck;

    use super::*;

    const START: Instant = Instant::from_nanos(1 << 40);
    const RTT: Duration = Duration::from_millis(100);

    fn estimator() -> Bdp {
        Bdp::new(&Config::default())
    }

    /// One sample: `came` octets arrive in `took` after a PING that goes out with an update for `announced`.
    fn round(bdp: &mut Bdp, announced: u32, came: u32, took: Duration) -> Option<u32> {
        bdp.granted(came + announced);
        bdp.next = START;
        bdp.mark = (START, bdp.granted.wrapping_sub(came + announced));
        assert!(bdp.begin(announced.into(), i64::from(came), START));
        bdp.end(0, START + took)
    }

    /// Checklist §3.3: samples that fill the window double it, up to the limit, where measuring ends.
    #[test]
    fn the_estimate_doubles_until_its_limit() {
        // However much of the window is read at once.
        for quarters in 1..=4 {
            let mut bdp = estimator();
            let mut window = 65_536;
            for _ in 0..8 {
                let announced = window / 4 * quarters;
                assert_eq!(round(&mut bdp, announced, window - announced, RTT), Some(window * 2));
                window *= 2;
            }
            assert_eq!(bdp.window(), Some(16 * 1024 * 1024));
            bdp.granted(100);
            assert!(!bdp.begin(1, 0, START), "nothing is left to find out");
        }
    }

    /// A sample that leaves half of the window free, or came no faster than before, shows that the window is not the limit.
    #[test]
    fn a_path_that_is_full_ends_the_growth() {
        for (came, took, estimate) in [
            // Of what could come, 100,000 octets, half does not make it larger, two thirds do if they come faster.
            (49_999, RTT / 4, None),
            (66_666, RTT, Some(2 * (31_072 + 66_666))),
            (100_000, RTT * 2, None),
            // The sender has twice the window, and it takes twice as long: it waits on the way.
            (98_304, RTT * 2, None),
            (100_000, RTT, Some(262_144)),
        ] {
            let mut bdp = estimator();
            assert_eq!(round(&mut bdp, 16_384, 49_152, RTT), Some(131_072));
            let risen = round(&mut bdp, 31_072, came, took);
            assert_eq!(risen, estimate, "{came} in {took:?}");
        }
    }

    /// `h2:B68`, courtesy: one PING at a time, and none while the peer has sent nothing since the last answer.
    #[test]
    fn a_silent_peer_is_not_measured() {
        let mut bdp = estimator();
        assert!(!bdp.begin(1, 65_535, START), "nothing has come at all");
        assert!(!bdp.begin(0, 65_534, START), "nothing was taken");
        assert!(bdp.begin(1, 65_534, START));
        bdp.granted(100_000);
        assert!(!bdp.begin(1, 60_000, START), "one is out");
        assert_eq!(bdp.end(50_000, START + RTT), Some(2 * 115_535));
        assert!(!bdp.begin(1, 50_000, START + RTT * 2), "all of it came before the answer");
        assert!(bdp.begin(1, 49_999, START + RTT * 3));
    }

    /// Samples that find nothing get rarer, up to 64 round trips apart; one that finds something makes them frequent again.
    #[test]
    fn samples_that_find_nothing_get_rarer() {
        let mut bdp = estimator();
        let mut now = START;
        for pause in [0, 2, 4, 8, 16, 32, 64, 64, 64] {
            bdp.granted(1);
            assert!(bdp.begin(1, 0, now));
            now = now + RTT;
            assert_eq!(bdp.end(0, now), None);
            now = now + RTT * pause;
            bdp.granted(1);
            assert!(pause == 0 || !bdp.begin(1, 0, Instant::from_nanos(now.as_nanos() - 1)), "{pause}");
        }
        assert!(round(&mut bdp, 1, 65_536, RTT).is_some());
        bdp.granted(1);
        assert!(bdp.begin(1, 0, START + RTT));
    }

    /// Answers that nobody waits for, and everything while it is switched off.
    #[test]
    fn what_was_not_asked_for_changes_nothing() {
        let mut bdp = estimator();
        assert_eq!(bdp.end(0, START), None);
        let mut off = Bdp::new(&Config { adaptive_window: false, ..Config::default() });
        assert_eq!((off.begin(1, 0, START), off.end(0, START), off.window()), (false, None, None));
    }

    /// A limit below the window that streams begin with does not lower it.
    #[test]
    fn the_limit_lowers_nothing() {
        let mut bdp = Bdp::new(&Config { max_window: 1000, ..Config::default() });
        assert!(!bdp.begin(1, 0, START));
        assert_eq!(bdp.window(), Some(65_536));
    }

    /// `h2:P16`, `h2:E4`: whatever is counted, whenever: no overflow, never beyond the limit, never down.
    #[test]
    fn the_estimate_only_rises_and_stays_within_its_limit() {
        QuickCheck::new().quickcheck(only_rises as fn(Vec<(u32, u64, bool)>, u32));
    }

    fn only_rises(samples: Vec<(u32, u64, bool)>, limit: u32) {
        let mut bdp = Bdp::new(&Config { max_window: limit, ..Config::default() });
        let mut before = bdp.window().unwrap();
        let top = limit.clamp(before, MAX_WINDOW);
        for (octets, nanos, is_back) in samples {
            bdp.granted(octets);
            let announced = octets / 3;
            bdp.begin(announced.into(), i64::from(octets - announced), START);
            let end = if is_back { Instant::ZERO } else { START + Duration::from_nanos(nanos) };
            let risen = bdp.end(0, end);
            let now = bdp.window().unwrap();
            assert!(now >= before && now <= top);
            assert_eq!(risen.unwrap_or(before), now);
            assert!(risen.is_none_or(|risen| u64::from(risen) <= u64::from(octets) * 2));
            before = now;
        }
    }

    /// More octets in the same time never give a smaller estimate.
    #[test]
    fn the_estimate_is_monotone_in_the_octets() {
        QuickCheck::new().quickcheck(is_monotone as fn(Vec<(u32, u32)>, u32, u32, u32));
    }

    fn is_monotone(before: Vec<(u32, u32)>, few: u32, more: u32, took: u32) {
        let (few, more) = (few.min(more), few.max(more));
        let estimates = [few, more].map(|last| {
            let mut bdp = Bdp::new(&Config { max_window: MAX_WINDOW, ..Config::default() });
            for &(octets, took) in &before {
                bdp.round_trip = took;
                bdp.judge(octets, 0);
            }
            bdp.round_trip = took;
            bdp.judge(last, 0);
            bdp.window().unwrap()
        });
        assert!(estimates[0] <= estimates[1]);
    }
}
