//! A signal that a served call is over, for tasks that its handler started.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};

use trirpc_core::call::Status;

/// Resolves when the call is over: cancelled, past its deadline, disconnected, or answered.
///
/// Clones wait for the same call; each belongs to one task. The handler itself needs none of this: it is
/// dropped when its call is cancelled.
#[derive(Debug)]
pub struct Cancelled {
    signal: Arc<Signal>,
    /// Place in the signal's list, once this one waits.
    waiter: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Default)]
struct State {
    fired: bool,
    next: u64,
    /// Bounded by the clones that wait; each has at most one entry.
    waiters: Vec<(u64, Waker)>,
}

impl Signal {
    /// Fires once; wakers are called with no lock held.
    pub(crate) fn fire(&self) {
        let mut state = self.lock();
        state.fired = true;
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// A signal of something that is over already.
    pub(crate) fn fired() -> Self {
        let signal = Self::default();
        signal.lock().fired = true;
        signal
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As a waker, so that it can join the list of those that are fired once a lock is released.
impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.fire();
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signal").field("fired", &self.lock().fired).finish_non_exhaustive()
    }
}

impl Cancelled {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { signal, waiter: None }
    }

    /// Whether the call is over already.
    pub fn is_cancelled(&self) -> bool {
        self.signal.lock().fired
    }
}

impl Clone for Cancelled {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.signal))
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut state = this.signal.lock();
        if state.fired {
            return Poll::Ready(());
        }
        let known = this.waiter.and_then(|id| state.waiters.iter().position(|(waiter, _)| *waiter == id));
        match known.and_then(|at| state.waiters.get_mut(at)) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => {
                let id = state.next;
                state.next += 1;
                state.waiters.push((id, cx.waker().clone()));
                this.waiter = Some(id);
            }
        }
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(id) = self.waiter {
            self.signal.lock().waiters.retain(|(waiter, _)| *waiter != id);
        }
    }
}

/// Ready with a status once the call that this one belongs to is over.
pub(crate) fn poll_parent(parent: &mut Option<Cancelled>, cx: &mut Context<'_>) -> Poll<Status> {
    let Some(cancelled) = parent else { return Poll::Pending };
    ready!(Pin::new(cancelled).poll(cx));
    Poll::Ready(Status::cancelled("the call that this one belongs to is over"))
}
