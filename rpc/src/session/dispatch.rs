//! Starting the handlers of the calls that came in.
//!
//! A handler that is ready at once needs no task: the driver polls it where the call was found, and what all handlers
//! of a turn have answered leaves with one write. One that waits becomes a task after this first poll. While it is
//! polled by the driver it holds up its connection, so that handlers that take long become tasks unpolled, which other
//! threads may run: see [`Pace`].

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use trirpc_core::{Instant, Server};

use super::{CallSeat, Shared};
use crate::marker::MaybeSend;
use crate::raw::CallKey;
use crate::server::{InlineHandlers, Request, Route, ServerTask, Spare};

/// A call whose handler is to be started.
#[derive(Debug)]
pub(crate) struct Start {
    pub(super) key: CallKey,
    pub(super) route: Route,
    pub(super) request: Box<Request>,
}

/// How a server's driver starts handlers.
pub(crate) struct Dispatch {
    starts: Vec<Start>,
    spawn: SpawnFn,
    pace: Pace,
    /// Memory of the handler that was polled last.
    spare: Spare,
}

#[cfg(not(target_family = "wasm"))]
type SpawnFn = Box<dyn FnMut(ServerTask) + Send>;
#[cfg(target_family = "wasm")]
type SpawnFn = Box<dyn FnMut(ServerTask)>;

impl Dispatch {
    pub(crate) fn new(spawn: impl FnMut(ServerTask) + MaybeSend + 'static) -> Self {
        Self { starts: Vec::new(), spawn: Box::new(spawn), pace: Pace::default(), spare: Spare::default() }
    }

    /// Collects what is to be started. Whether there is something.
    pub(super) fn take(&mut self, starts: &mut Vec<Start>) -> bool {
        if self.starts.is_empty() {
            mem::swap(&mut self.starts, starts);
        } else {
            self.starts.append(starts);
        }
        !self.starts.is_empty()
    }

    /// Gives back memory that nothing needs at present.
    pub(super) fn release_idle(&mut self) {
        self.starts.shrink_to_fit();
        self.spare = Spare::default();
    }

    /// Starts what was collected, with no lock held.
    pub(super) fn run(&mut self, shared: &Arc<Shared<Server>>) {
        if self.starts.is_empty() {
            return;
        }
        let quick = match shared.fixed.router.inlines() {
            InlineHandlers::Never => None,
            InlineHandlers::Within(quick) => Some(quick),
            InlineHandlers::Always => Some(Duration::MAX),
        };
        let mut turn = quick.map_or(Turn::SPAWNING, |quick| self.pace.begin(shared.now(), quick));
        let mut seat = CallSeat::new(Arc::clone(shared), CallKey::ONLY);
        let mut was_polled = false;
        for Start { key, route, request } in self.starts.drain(..) {
            seat.key = key;
            // A handler of a stream of requests waits for them: it would only be polled once more.
            let is_polled = request.has_message() && turn.polls();
            was_polled |= is_polled;
            let task = match is_polled {
                true => ServerTask::poll_new(&seat, route, request, &mut self.spare),
                false => Some(ServerTask::new(seat.clone(), route, request)),
            };
            if let Some(task) = task {
                (self.spawn)(task);
            }
            if is_polled && turn.is_due() {
                self.pace.look(&mut turn, shared.now());
            }
        }
        if turn.polled > 0 {
            self.pace.look(&mut turn, shared.now());
        }
        if !was_polled && self.starts.capacity() > KEPT_STARTS {
            // Many streams at once are seldom followed by as many more.
            self.starts = Vec::new();
        }
    }
}

/// Starts that memory is kept for where all became tasks.
const KEPT_STARTS: usize = 32;

/// Handlers between two looks at the clock: so many may wait behind a slow one.
const QUANTUM: u32 = InlineHandlers::QUANTUM;
/// Handlers that took too long are not polled by the driver for this many times as long, and twice as long each time
/// that they do it again.
const REST: u32 = 8;
/// Most doublings: what slow handlers cost their connection stays below 1 in `REST << DOUBLINGS` of its time.
const DOUBLINGS: u32 = 3;

/// Whether handlers are quick enough to be polled by the driver, as it was of late.
#[derive(Debug, Default)]
struct Pace {
    /// Until then handlers become tasks at once.
    resting: Option<Instant>,
    /// Looks in a row that found slow handlers.
    slow: u32,
}

/// The handlers of one turn of the driver.
#[derive(Debug)]
struct Turn {
    /// Handlers to be polled until the next look at the clock; none if they are not polled at all.
    quantum: u32,
    /// Handlers polled since the last look.
    polled: u32,
    /// The last look.
    since: Instant,
    /// Time that the handlers between two looks may take.
    quick: Duration,
}

impl Turn {
    /// No handler is polled.
    const SPAWNING: Self = Self { quantum: 0, polled: 0, since: Instant::from_nanos(0), quick: Duration::ZERO };

    /// Whether the next handler is polled; counts it.
    fn polls(&mut self) -> bool {
        let polls = self.quantum > 0;
        self.polled += u32::from(polls);
        polls
    }

    /// Whether the clock is to be looked at.
    const fn is_due(&self) -> bool {
        self.polled >= self.quantum
    }
}

impl Pace {
    fn begin(&mut self, now: Instant, quick: Duration) -> Turn {
        match self.resting {
            Some(until) if now < until => Turn::SPAWNING,
            // One is tried alone.
            _ if self.slow > 0 => Turn { quantum: 1, polled: 0, since: now, quick },
            _ => Turn { quantum: QUANTUM, polled: 0, since: now, quick },
        }
    }

    /// Judges the handlers that were polled since the last look.
    fn look(&mut self, turn: &mut Turn, now: Instant) {
        let took = now - turn.since;
        if took > turn.quick {
            let rest = took.saturating_mul(REST << self.slow.min(DOUBLINGS));
            self.slow = self.slow.saturating_add(1);
            self.resting = Some(now + rest);
            *turn = Turn::SPAWNING;
        } else {
            self.slow = 0;
            self.resting = None;
            *turn = Turn { quantum: QUANTUM, polled: 0, since: now, quick: turn.quick };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    /// Polls handlers that take `each` µs from `now` on, until the driver stops it. How many, and when.
    fn turn(pace: &mut Pace, now: u64, each: u64, handlers: u64) -> (u64, u64) {
        let mut turn = pace.begin(at(now), InlineHandlers::QUICK);
        for n in 0..handlers {
            if !turn.polls() {
                return (n, now + n * each);
            }
            if turn.is_due() {
                pace.look(&mut turn, at(now + (n + 1) * each));
            }
        }
        if turn.polled > 0 {
            pace.look(&mut turn, at(now + handlers * each));
        }
        (handlers, now + handlers * each)
    }

    #[test]
    fn quick_handlers_are_all_polled() {
        let mut pace = Pace::default();
        assert_eq!(turn(&mut pace, 0, 6, 1000), (1000, 6000));
        assert_eq!(turn(&mut pace, 9000, 100, 1), (1, 9100));
        assert_eq!(turn(&mut pace, 9100, 6, 1000), (1000, 15_100));
    }

    #[test]
    fn few_wait_behind_a_slow_one_and_the_next_turns_poll_none() {
        let mut pace = Pace::default();
        assert_eq!(turn(&mut pace, 0, 7, 1000), (16, 112), "16 of 7 µs are too much");
        let until = 112 + 8 * 112;
        assert_eq!(turn(&mut pace, 500, 1, 1000).0, 0);
        assert_eq!(turn(&mut pace, until - 1, 1, 1000).0, 0);
        assert_eq!(turn(&mut pace, until, 1, 1000).0, 1000, "they are quick again");
        assert_eq!(turn(&mut pace, until + 1000, 1, 1000).0, 1000);
    }

    #[test]
    fn handlers_that_stay_slow_are_tried_one_by_one_and_ever_more_seldom() {
        let mut pace = Pace::default();
        let (mut now, mut spent) = (0, 0);
        let mut rests = Vec::new();
        while rests.len() < 8 {
            let (polled, end) = turn(&mut pace, now, 1000, 1000);
            assert_eq!(polled, if rests.is_empty() { 16 } else { 1 });
            spent += end - now;
            let resting = pace.resting.expect("slow").as_nanos() / 1000;
            rests.push((resting - end) / (end - now));
            now = resting;
        }
        assert_eq!(rests, [8, 16, 32, 64, 64, 64, 64, 64]);
        assert!(spent * 8 < now);
        assert_eq!(turn(&mut pace, now, 1, 1000).0, 1000, "and are polled again once they are quick");
    }
}
