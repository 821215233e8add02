//! The timers of an event loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::reactor::Reactor;

/// Timers that are set and waited for, the first one first. Bounded by the timers that exist.
#[derive(Debug, Default)]
pub(super) struct Timers {
    waiting: BTreeMap<Key, Waker>,
    /// Number of the next wait, which tells those for one instant apart.
    number: u64,
}

/// When a wait is over, and its number.
type Key = (Instant, u64);

impl Timers {
    /// When the first of them is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes those that are due.
    pub(super) fn expire(&mut self, due: &mut Vec<Waker>) {
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some(first) = self.waiting.first_entry() {
            if first.key().0 > now {
                break;
            }
            due.push(first.remove());
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }
}

/// One timer that is set again and again. Precise to a millisecond, and never early.
#[derive(Debug)]
pub(crate) struct LoopTimer {
    reactor: Arc<Reactor>,
    at: Option<Instant>,
    wait: Option<Key>,
}

impl LoopTimer {
    /// A timer that is not set.
    pub(crate) const fn new(reactor: Arc<Reactor>) -> Self {
        Self { reactor, at: None, wait: None }
    }

    /// Fires once at `at`, in place of what was set before.
    pub(crate) fn set(&mut self, at: Instant) {
        self.clear();
        self.at = Some(at);
    }

    /// Does not fire.
    pub(crate) fn clear(&mut self) {
        self.at = None;
        if let Some(key) = self.wait.take() {
            let waker = self.reactor.timers().waiting.remove(&key);
            // With the lock released: a task may go with its last waker.
            drop(waker);
        }
    }

    /// Ready once the instant has passed; otherwise wakes `cx` when it does.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.at else { return Poll::Pending };
        if at <= Instant::now() {
            self.clear();
            return Poll::Ready(());
        }
        let mut timers = self.reactor.timers();
        let key = *self.wait.get_or_insert_with(|| {
            timers.number += 1;
            (at, timers.number)
        });
        let is_known = timers.waiting.get(&key).is_some_and(|waker| waker.will_wake(cx.waker()));
        let stale = if is_known { None } else { timers.waiting.insert(key, cx.waker().clone()) };
        let is_first = !is_known && timers.next() == Some(at);
        drop(timers);
        drop(stale);
        if is_first {
            self.reactor.recall();
        }
        Poll::Pending
    }
}

impl Drop for LoopTimer {
    fn drop(&mut self) {
        self.clear();
    }
}
