//! Waiting for sockets, timers and other threads.

use std::fmt;
use std::hint;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use mio::{Events, Interest, Poll, Registry, Token};
use slab::Slab;

use super::busy_poll::{BusyPoll, Outcome, PREEMPTED};
use super::source::Readiness;
use super::timers::Timers;

/// The token of [`mio::Waker`]; sources count from zero.
const NOTIFIER: Token = Token(usize::MAX);

/// The loop's thread polls its futures.
const RUNNING: u8 = 0;
/// It was woken, and is to poll again before it waits.
const NOTIFIED: u8 = 1;
/// It waits for events: only the notifier reaches it.
const WAITING: u8 = 2;

/// What a loop and its sockets and timers share. As a waker it makes the loop poll its futures again.
pub(crate) struct Reactor {
    registry: Registry,
    notifier: mio::Waker,
    /// One of [`RUNNING`], [`NOTIFIED`] and [`WAITING`].
    state: AtomicU8,
    sources: Mutex<Slab<Arc<Readiness>>>,
    timers: Mutex<Timers>,
}

impl Reactor {
    pub(super) fn new(poll: &Poll) -> io::Result<Self> {
        let registry = poll.registry().try_clone()?;
        let notifier = mio::Waker::new(&registry, NOTIFIER)?;
        let (sources, timers) = (Mutex::default(), Mutex::default());
        Ok(Self { registry, notifier, state: AtomicU8::new(RUNNING), sources, timers })
    }

    /// What wakes from here on is news.
    pub(super) fn take_notice(&self) {
        self.state.store(RUNNING, Ordering::SeqCst);
    }

    /// Whether somebody was woken since the last [`take_notice`](Self::take_notice).
    pub(super) fn is_notified(&self) -> bool {
        self.state.load(Ordering::SeqCst) == NOTIFIED
    }

    /// Waits for the first event, timer or wake-up, not at all if one has come already, and collects whom it concerns.
    /// It begins by polling if that pays.
    pub(super) fn turn(
        &self,
        poll: &mut Poll,
        events: &mut Events,
        busy_poll: &mut BusyPoll,
        due: &mut Vec<Waker>,
    ) -> io::Result<()> {
        if busy_poll.is_off() || self.is_notified() || !self.busy_poll(poll, events, busy_poll)? {
            let waited = self.wait(poll, events);
            self.state.store(RUNNING, Ordering::SeqCst);
            waited?;
        }
        self.collect(events, due);
        Ok(())
    }

    /// Asks for events until there are some, until somebody is woken or a timer is due, true, or until it is time to sleep.
    /// The thread counts as running: who wakes it pays for no system call.
    pub(super) fn busy_poll(&self, poll: &mut Poll, events: &mut Events, busy_poll: &mut BusyPoll) -> io::Result<bool> {
        let begin = Instant::now();
        let Some(mut polling) = busy_poll.begin(begin) else { return Ok(false) };
        let timer = self.timers().next().map_or(Duration::MAX, |at| at.saturating_duration_since(begin));
        let mut time = Duration::ZERO;
        let outcome = loop {
            if time >= polling.ask {
                ask(poll, events, Some(Duration::ZERO))?;
                if !events.is_empty() {
                    break Outcome::News;
                }
                polling.asked(time);
            }
            if self.is_notified() || time >= timer {
                break Outcome::News;
            }
            if time >= polling.limit {
                break Outcome::Vain;
            }
            hint::spin_loop();
            let before = mem::replace(&mut time, begin.elapsed());
            if time - before > PREEMPTED {
                break Outcome::Preempted;
            }
        };
        let clock = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        busy_poll.end(polling, outcome, time, begin + time, clock);
        Ok(outcome == Outcome::News)
    }

    fn wait(&self, poll: &mut Poll, events: &mut Events) -> io::Result<()> {
        // The state first: a timer that is set from here on finds us waiting.
        let is_idle = self.state.compare_exchange(RUNNING, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        let timeout = if is_idle {
            self.timers().next().map(|at| at.saturating_duration_since(Instant::now()))
        } else {
            Some(Duration::ZERO)
        };
        ask(poll, events, timeout)
    }

    /// Hands events and timers over to whom they concern.
    fn collect(&self, events: &Events, due: &mut Vec<Waker>) {
        let sources = self.sources();
        for event in events.iter() {
            // Nobody is there any more if the source was dropped meanwhile; a new one in its place looks in vain.
            if let Some(readiness) = sources.get(event.token().0) {
                readiness.tell(event, due);
            }
        }
        drop(sources);
        self.timers().expire(due);
    }

    /// From now on events of `source` are told to the readiness that is returned, under the key that is returned.
    pub(super) fn register(&self, source: &mut impl mio::event::Source) -> io::Result<(usize, Arc<Readiness>)> {
        let readiness = Arc::new(Readiness::default());
        let key = self.sources().insert(Arc::clone(&readiness));
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self.registry.register(source, Token(key), interest) {
            Ok(()) => Ok((key, readiness)),
            Err(error) => {
                self.sources().remove(key);
                Err(error)
            }
        }
    }

    pub(super) fn deregister(&self, source: &mut impl mio::event::Source, key: usize) {
        // A system that has forgotten it already is as good.
        let _ = self.registry.deregister(source);
        self.sources().remove(key);
    }

    /// The timers. Setting the first of them is followed by [`recall`](Self::recall).
    pub(super) fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sources(&self) -> MutexGuard<'_, Slab<Arc<Readiness>>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a wait, if the loop waits, so that it waits for the timers as they are now.
    pub(super) fn recall(&self) {
        if self.state.load(Ordering::SeqCst) == WAITING {
            self.notify();
        }
    }

    /// Makes the loop poll its futures once more. A system call only if it waits.
    pub(super) fn notify(&self) {
        if self.state.swap(NOTIFIED, Ordering::SeqCst) == WAITING {
            // It fails if the loop is gone, which then needs no waking.
            let _ = self.notifier.wake();
        }
    }

    /// Timers that are set and waited for.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.timers().len()
    }
}

/// Events, once there are some or the time is over; none if a signal came.
fn ask(poll: &mut Poll, events: &mut Events, timeout: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, timeout) {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Err(_) => {
            events.clear();
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

impl Wake for Reactor {
    fn wake(self: Arc<Self>) {
        self.notify();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.notify();
    }
}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor").field("sources", &self.sources().len()).finish_non_exhaustive()
    }
}
