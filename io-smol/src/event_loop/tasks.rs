//! The tasks of an event loop: a queue of those that were woken, and a list of all that live.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use async_task::Runnable;
use pin_project_lite::pin_project;
use slab::Slab;
use smol::Task;

use super::reactor::Reactor;

/// An executor for one thread, whose tasks may be spawned and woken by any.
///
/// There is one queue and nobody to share its work with, which is what makes it cheaper than
/// [`async_executor::Executor`].
pub(super) struct Tasks {
    queue: Mutex<Queue>,
    /// A waker of each task that is not done, so that those can be dropped that nobody else holds.
    living: Mutex<Slab<Waker>>,
    /// Told of each task that is woken.
    reactor: Arc<Reactor>,
}

#[derive(Default)]
struct Queue {
    woken: VecDeque<Runnable>,
    /// What is woken from here on is dropped instead.
    is_closed: bool,
}

impl Tasks {
    pub(super) fn new(reactor: Arc<Reactor>) -> Arc<Self> {
        Arc::new(Self { queue: Mutex::default(), living: Mutex::default(), reactor })
    }

    /// Starts a task; dropping it cancels.
    pub(super) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let mut living = self.living();
        let entry = living.vacant_entry();
        let future = Listed { future, _listing: Listing { tasks: Arc::clone(self), key: entry.key() } };
        let tasks = Arc::clone(self);
        let (runnable, task) = async_task::spawn(future, move |runnable| tasks.queue(runnable));
        entry.insert(runnable.waker());
        drop(living);
        runnable.schedule();
        task
    }

    /// Moves what is woken to `batch`, which is empty.
    pub(super) fn take(&self, batch: &mut VecDeque<Runnable>) {
        mem::swap(&mut self.lock().woken, batch);
    }

    /// Drops every task that is not done, and those that come later.
    pub(super) fn close(&self) {
        let woken = {
            let mut queue = self.lock();
            queue.is_closed = true;
            mem::take(&mut queue.woken)
        };
        drop(woken);
        let living = mem::take(&mut *self.living());
        // Each is queued, and dropped there.
        living.into_iter().for_each(|(_, waker)| waker.wake());
    }

    fn queue(&self, runnable: Runnable) {
        let mut queue = self.lock();
        if queue.is_closed {
            // With the lock released: the task's future goes with it.
            drop(queue);
            drop(runnable);
            return;
        }
        queue.woken.push_back(runnable);
        drop(queue);
        self.reactor.notify();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn living(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.living.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks").field("living", &self.living().len()).finish_non_exhaustive()
    }
}

pin_project! {
    /// A future that is listed as living until it is done or dropped.
    struct Listed<F> {
        #[pin]
        future: F,
        _listing: Listing,
    }
}

impl<F: Future> Future for Listed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.project().future.poll(cx)
    }
}

/// A place in the list of living tasks.
struct Listing {
    tasks: Arc<Tasks>,
    key: usize,
}

impl Drop for Listing {
    fn drop(&mut self) {
        // With the lock released.
        let waker = self.tasks.living().try_remove(self.key);
        drop(waker);
    }
}
