//! Whether a loop asks for news again and again before it sleeps, and when: decided by what came of it before.

use std::time::{Duration, Instant};

/// What a loop polls for in one wait unless it is told otherwise: less than what it costs to halt a core and to wake it in
/// a virtual machine.
pub(super) const DEFAULT_LIMIT: Duration = Duration::from_micros(60);

/// A loop that polls and is off its processor for so long shares it with somebody who has work to do.
pub(super) const PREEMPTED: Duration = Duration::from_micros(10);

/// How long a loop rests that polled in vain, at first and at most.
const MIN_REST: Duration = Duration::from_millis(1);
const MAX_REST: Duration = Duration::from_millis(32);

/// Waits, of the limit each, that a loop may poll in vain: when it begins to, and when it has done well.
const FIRST_CREDIT: u32 = 2;
const MAX_CREDIT: u32 = 4;

/// Asks lie apart by this part of the time that the wait has taken, and by no less than [`MIN_GAP`].
const GAP_PART: u32 = 2;
const MIN_GAP: Duration = Duration::from_micros(1);

/// Polling that goes on while it pays.
///
/// To spare a sleep is worth half the limit, which stands for what halting a core and waking it costs. Polling is paid from
/// that, and from a credit. When the credit is used up the loop rests, which is to sleep without polling: until the system's
/// clock has a whole number of milliseconds, of twice as many as the time before, and so on up to 32. Then it tries again
/// with a new credit; one that was full makes the next rest short again.
///
/// Loops that wait for each other learn that polling pays only if they poll at the same time, or each waits for the other to
/// be waked. So the first wait after a rest may take all of the credit, and rests end when they do for every loop of the
/// machine.
///
/// Whatever the load does, a loop polls for no more than
///
/// - the limit in one wait, twice the limit in the first after a rest,
/// - half the limit for each sleep that it spared, and four times the limit between two rests, twice if it spares none.
///
/// With the default limit that is at most 240 µs after the last sleep that was spared, and then 120 µs in 32 ms, as long as
/// there are events. A loop that nothing happens to sleeps.
#[derive(Debug)]
pub(super) struct BusyPoll {
    /// Longest time in one wait; zero: never.
    limit: Duration,
    /// What may still be polled in vain; zero while the loop rests.
    credit: Duration,
    /// How long the next rest is.
    rest: Duration,
    /// When this rest is over.
    resume: Option<Instant>,
    /// When to ask first: half of the waits are over by then. An ask is a system call.
    first: Duration,
}

/// A wait in which the loop polls. Times count from its beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polling {
    /// When to ask next.
    pub(super) ask: Duration,
    /// When to sleep.
    pub(super) limit: Duration,
    /// It was asked, in vain.
    was_asked: bool,
}

/// How polling ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is something to do.
    News,
    /// Time is over.
    Vain,
    /// Somebody else had the processor. Maybe what is waited for is just what they do: to poll keeps it from them.
    Preempted,
}

impl BusyPoll {
    pub(super) const fn new(limit: Duration) -> Self {
        Self { limit, credit: Duration::ZERO, rest: MIN_REST, resume: None, first: Duration::ZERO }
    }

    pub(super) const fn is_off(&self) -> bool {
        self.limit.is_zero()
    }

    /// How to poll in a wait that begins now, if at all.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Polling> {
        if self.credit.is_zero() {
            if self.is_off() || self.resume.is_some_and(|resume| now < resume) {
                return None;
            }
            self.credit = self.limit.saturating_mul(FIRST_CREDIT);
            return Some(Polling { ask: self.first, limit: self.credit, was_asked: false });
        }
        Some(Polling { ask: self.first, limit: self.limit, was_asked: false })
    }

    /// Polling that [began](Self::begin) took `time` until now, which is `clock` by the system's clock.
    pub(super) fn end(
        &mut self,
        polling: Polling,
        outcome: Outcome,
        time: Duration,
        now: Instant,
        clock: impl FnOnce() -> Duration,
    ) {
        if outcome == Outcome::News {
            // A step up for each step down: equally many of either are where half of the waits are over.
            let step = (self.first / 8).max(MIN_GAP / 4);
            self.first = if polling.was_asked {
                self.first.saturating_add(step).min(self.limit / 2)
            } else {
                self.first.saturating_sub(step)
            };
            // Where news were there already no sleep was spared.
            if time >= MIN_GAP {
                self.earn();
                self.spend(time);
            }
        } else {
            self.spend(time.max(self.limit));
        }
        if self.credit.is_zero() {
            self.resume = Some(now + left(self.rest, clock()));
            self.rest = (self.rest * 2).min(MAX_REST);
        }
    }

    /// A sleep was spared.
    fn earn(&mut self) {
        let full = self.limit.saturating_mul(MAX_CREDIT);
        self.credit = self.credit.saturating_add(self.limit / 2);
        if self.credit >= full {
            self.credit = full;
            self.rest = MIN_REST;
        }
    }

    fn spend(&mut self, time: Duration) {
        self.credit = self.credit.saturating_sub(time);
    }
}

/// From `clock` to the next whole multiple of `rest`.
fn left(rest: Duration, clock: Duration) -> Duration {
    let rest = rest.as_nanos();
    Duration::from_nanos((rest - clock.as_nanos() % rest) as u64)
}

impl Polling {
    /// It was asked `at` this time, in vain.
    pub(super) fn asked(&mut self, at: Duration) {
        self.was_asked = true;
        self.ask = at.saturating_add((at / GAP_PART).max(MIN_GAP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_micros(60);

    /// A loop whose clock is set by hand.
    struct Simulated {
        busy_poll: BusyPoll,
        begin: Instant,
        now: Instant,
        /// Time that was polled, and how often in vain.
        polled: Duration,
        vain: u32,
        asks: u32,
    }

    impl Simulated {
        fn new(limit: Duration) -> Self {
            let (busy_poll, begin) = (BusyPoll::new(limit), Instant::now());
            Self { busy_poll, begin, now: begin, polled: Duration::ZERO, vain: 0, asks: 0 }
        }

        /// A wait whose news come after `length`, or for somebody else's sake only once the loop sleeps. Was a sleep spared?
        fn wait(&mut self, length: Duration, is_alone: bool) -> bool {
            let Some(mut polling) = self.busy_poll.begin(self.now) else {
                self.now += length;
                return false;
            };
            let (outcome, time) = loop {
                self.asks += 1;
                if polling.ask >= polling.limit {
                    break (Outcome::Vain, polling.limit);
                }
                if is_alone && polling.ask >= length {
                    break (Outcome::News, polling.ask);
                }
                polling.asked(polling.ask);
            };
            self.now += time;
            self.busy_poll.end(polling, outcome, time, self.now, || self.now - self.begin);
            self.polled += time;
            if outcome == Outcome::Vain {
                self.vain += 1;
                self.now += if is_alone { length.saturating_sub(time) } else { length };
            }
            outcome == Outcome::News
        }

        /// So many waits of one kind; how many sleeps were spared.
        fn waits(&mut self, count: u32, micros: u64, is_alone: bool) -> u32 {
            (0..count).map(|_| u32::from(self.wait(Duration::from_micros(micros), is_alone))).sum()
        }
    }

    #[test]
    fn short_waits_are_polled_each_and_every_one() {
        let mut simulated = Simulated::new(LIMIT);
        assert_eq!(simulated.waits(10_000, 12, true), 10_000);
        assert_eq!(simulated.vain, 0);
        // It has learned when to ask: between one ask and two a wait, and not much later than the news.
        assert!(simulated.asks < 17_000, "{}", simulated.asks);
        assert!(simulated.polled < 10_000 * Duration::from_micros(15), "{:?}", simulated.polled);
    }

    #[test]
    fn waits_that_are_longer_than_half_the_limit_on_average_are_given_up() {
        let mut simulated = Simulated::new(LIMIT);
        let spared = simulated.waits(100_000, 50, true);
        // What is lost in a rest is the credit that it began with.
        assert!(spared < 5_000, "{spared}");
        simulated.waits(3000, 12, true);
        assert_eq!(simulated.waits(1000, 12, true), 1000, "it is taken up again");
    }

    #[test]
    fn long_waits_are_polled_rarely_and_seldom_events_for_twice_the_limit_at_most() {
        let mut simulated = Simulated::new(LIMIT);
        let begin = simulated.now;
        simulated.waits(100_000, 150, true);
        // Twice the limit in 32 ms, and the first rests, which are shorter.
        let most = (simulated.now - begin).as_millis() / MAX_REST.as_millis() * 2 + 20;
        assert!(u128::from(simulated.vain) <= most, "{} of {most}", simulated.vain);
        let mut simulated = Simulated::new(LIMIT);
        simulated.waits(1000, 10_000_000, true);
        assert!(simulated.polled <= 1000 * FIRST_CREDIT * LIMIT);
    }

    /// With the one that it waits for on the same core: news come once it sleeps, however short each sleep is.
    #[test]
    fn a_loop_that_shares_its_core_with_its_peer_sleeps() {
        let mut simulated = Simulated::new(LIMIT);
        let begin = simulated.now;
        assert_eq!(simulated.waits(100_000, 15, false), 0);
        assert!(simulated.polled * 100 < simulated.now - begin, "{:?}", simulated.polled);
    }

    #[test]
    fn an_end_of_short_waits_costs_no_more_than_the_credit() {
        let mut simulated = Simulated::new(LIMIT);
        simulated.waits(10_000, 12, true);
        simulated.waits(6, 300, true);
        assert_eq!(simulated.vain, MAX_CREDIT);
        // One of a thousand is an outlier: it makes nobody rest.
        simulated.now += MIN_REST;
        simulated.waits(100, 12, true);
        for _ in 0..10 {
            simulated.waits(1, 1000, true);
            assert_eq!(simulated.waits(999, 12, true), 999);
        }
    }

    #[test]
    fn a_loop_that_does_well_again_rests_but_shortly() {
        let mut simulated = Simulated::new(LIMIT);
        simulated.waits(10_000, 150, true);
        assert_eq!(simulated.busy_poll.rest, MAX_REST);
        simulated.waits(5000, 12, true);
        assert_eq!(simulated.busy_poll.rest, MIN_REST);
    }

    /// Short waits and long ones by turns: a sleep spared is not worth the time that is polled in vain for it.
    #[test]
    fn a_short_wait_does_not_pay_for_a_long_one() {
        let mut simulated = Simulated::new(LIMIT);
        let begin = simulated.now;
        for _ in 0..10_000 {
            simulated.waits(1, 5, true);
            simulated.waits(1, 1000, true);
        }
        assert!(simulated.polled * 50 < simulated.now - begin, "{:?}", simulated.polled);
    }

    /// What is there already costs nothing and earns nothing, or it would pay for the long waits.
    #[test]
    fn news_that_need_no_wait_earn_nothing() {
        let mut simulated = Simulated::new(LIMIT);
        let begin = simulated.now;
        for _ in 0..10_000 {
            simulated.waits(10, 0, true);
            simulated.waits(1, 200, true);
        }
        assert!(simulated.polled * 50 < simulated.now - begin, "{:?}", simulated.polled);
    }

    #[test]
    fn who_loses_the_processor_rests_as_after_polling_in_vain() {
        let mut busy_poll = BusyPoll::new(LIMIT);
        let now = Instant::now();
        for _ in 0..FIRST_CREDIT {
            let polling = busy_poll.begin(now).expect("credit");
            busy_poll.end(polling, Outcome::Preempted, 2 * PREEMPTED, now, || Duration::ZERO);
        }
        assert!(busy_poll.begin(now).is_none());
        assert!(busy_poll.begin(now + MIN_REST).is_some());
    }

    /// Each alone waits for the other to be waked, which takes longer than it polls: both must try at the same time.
    #[test]
    fn rests_end_when_they_do_for_every_loop_of_a_machine() {
        let now = Instant::now();
        let resume = |clock: Duration, vain: u32| {
            let mut busy_poll = BusyPoll::new(LIMIT);
            let mut resumed = Duration::ZERO;
            for _ in 0..vain {
                let at = resumed.max(clock);
                let polling = busy_poll.begin(now + at).expect("the rest is over");
                assert_eq!(polling.limit, 2 * LIMIT, "time for the other to be waked");
                busy_poll.end(polling, Outcome::Vain, polling.limit, now + at, || at);
                resumed = busy_poll.resume.expect("it rests") - now;
                assert!(busy_poll.begin(now + resumed - MIN_GAP).is_none());
            }
            resumed
        };
        for clock in [0, 1, 999, 1_000, 20_000, 31_999] {
            for vain in 6..12 {
                let rest = resume(Duration::from_micros(clock), vain);
                assert_eq!(rest.as_nanos() % MAX_REST.as_nanos(), 0, "{clock} {vain}");
            }
        }
    }

    #[test]
    fn no_limit_never_polls_and_any_limit_is_taken() {
        let mut off = Simulated::new(Duration::ZERO);
        assert_eq!(off.waits(1000, 0, true), 0);
        assert_eq!(off.asks, 0);
        let mut forever = Simulated::new(Duration::MAX);
        assert_eq!(forever.waits(100, 12, true), 100);
    }
}
