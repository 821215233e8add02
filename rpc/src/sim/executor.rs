//! Tasks on one thread, in an order that chance decides.

use std::error::Error;
use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::random::Random;
use crate::marker::BoxFuture;
use crate::time::{ManualTime, Time};

/// Nothing is ready and no timer is set: what is waited for will never happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stuck;

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the simulation waits for something that will never happen")
    }
}

impl Error for Stuck {}

/// The tasks of a world. Clones share them.
#[derive(Clone)]
pub(super) struct Executor {
    queue: Arc<Mutex<Queue>>,
}

struct Queue {
    ready: Vec<Arc<Task>>,
    random: Random,
    /// What keeps a task alive that waits: a waker may be dropped by whoever was to wake it.
    all: Vec<Arc<Task>>,
}

struct Task {
    /// `None` while it is polled, and after its end.
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_queued: AtomicBool,
    queue: Weak<Mutex<Queue>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let Some(queue) = self.queue.upgrade() else { return };
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            lock(&queue).ready.push(self);
        }
    }
}

impl Executor {
    pub(super) fn new(random: Random) -> Self {
        Self { queue: Arc::new(Mutex::new(Queue { ready: Vec::new(), random, all: Vec::new() })) }
    }

    pub(super) fn spawn(&self, future: BoxFuture<'static, ()>) {
        let task = Arc::new(Task {
            future: Mutex::new(Some(future)),
            is_queued: AtomicBool::new(true),
            queue: Arc::downgrade(&self.queue),
        });
        let mut queue = lock(&self.queue);
        queue.all.push(Arc::clone(&task));
        queue.ready.push(task);
    }

    /// Runs all tasks until `future`, which is one of them, has ended.
    pub(super) fn run<T: Send + 'static>(&self, future: BoxFuture<'static, T>, time: &ManualTime) -> Result<T, Stuck> {
        let outcome = Arc::new(Mutex::new(None));
        let told = Arc::clone(&outcome);
        self.spawn(Box::pin(async move { *lock(&told) = Some(future.await) }));
        loop {
            while self.step() {
                if let Some(outcome) = lock(&outcome).take() {
                    return Ok(outcome);
                }
            }
            let next = time.next().ok_or(Stuck)?;
            time.advance(next - Time::now(time));
        }
    }

    /// Ends all tasks.
    pub(super) fn clear(&self) {
        let (ready, all) = {
            let queue = &mut *lock(&self.queue);
            (mem::take(&mut queue.ready), mem::take(&mut queue.all))
        };
        drop(ready);
        // What a task holds may wake others as it goes, which finds nobody.
        for task in all {
            drop(lock(&task.future).take());
        }
    }

    /// Polls one of the tasks that are ready. False if none is.
    fn step(&self) -> bool {
        let task = {
            let queue = &mut *lock(&self.queue);
            if queue.ready.is_empty() {
                return false;
            }
            let at = queue.random.below(queue.ready.len());
            queue.ready.swap_remove(at)
        };
        task.is_queued.store(false, Ordering::Release);
        let Some(mut future) = lock(&task.future).take() else { return true };
        let poll = future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(&task))));
        match poll {
            Poll::Pending => *lock(&task.future) = Some(future),
            Poll::Ready(()) => {
                let queue = &mut *lock(&self.queue);
                queue.all.retain(|other| !Arc::ptr_eq(other, &task));
            }
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn, ready};
    use std::time::Duration;

    use super::*;
    use crate::time::Timer;

    fn executor() -> (Executor, ManualTime) {
        (Executor::new(Random::new(1)), ManualTime::new())
    }

    #[test]
    fn what_will_never_happen_is_told() {
        let (executor, time) = executor();
        assert_eq!(executor.run(Box::pin(pending::<()>()), &time), Err(Stuck));
        assert_eq!(executor.run(Box::pin(ready(7)), &time), Ok(7));
    }

    #[test]
    fn the_clock_leaps_to_the_next_timer() {
        let (executor, time) = executor();
        let mut timer = time.timer();
        timer.reset(Time::now(&time) + Duration::from_secs(3600));
        executor.run(Box::pin(poll_fn(move |cx| timer.poll_expired(cx))), &time).expect("it fires");
        assert_eq!(Time::now(&time).as_nanos(), 3600 * 1_000_000_000);
    }

    #[test]
    fn the_order_of_tasks_is_that_of_the_seed() {
        let order = |seed| {
            let (executor, time) = (Executor::new(Random::new(seed)), ManualTime::new());
            let seen = Arc::new(Mutex::new(Vec::new()));
            for n in 0..20 {
                let seen = Arc::clone(&seen);
                executor.spawn(Box::pin(async move { lock(&seen).push(n) }));
            }
            while executor.step() {}
            assert_eq!(executor.run(Box::pin(ready(())), &time), Ok(()));
            lock(&seen).clone()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn cleared_tasks_are_dropped() {
        let (executor, _) = executor();
        let held = Arc::new(());
        let (inside, again) = (Arc::clone(&held), executor.clone());
        executor.spawn(Box::pin(async move {
            pending::<()>().await;
            drop((inside, again));
        }));
        while executor.step() {}
        executor.clear();
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
