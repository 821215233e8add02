//! A single-threaded executor without a clock: tasks run in the order in which they were woken, and a run
//! ends when nobody is.

use std::collections::VecDeque;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

#[derive(Clone, Default)]
pub struct Executor {
    shared: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    tasks: Vec<Option<Task>>,
    woken: VecDeque<usize>,
    polls: usize,
}

struct TaskWaker {
    executor: Executor,
    index: usize,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut queue = self.executor.shared.lock().unwrap();
        if !queue.woken.contains(&self.index) {
            queue.woken.push_back(self.index);
        }
    }
}

impl Executor {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task, to run with the next [`run`](Self::run).
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> usize {
        let mut queue = self.shared.lock().unwrap();
        let index = queue.tasks.len();
        queue.tasks.push(Some(Box::pin(task)));
        queue.woken.push_back(index);
        index
    }

    /// Drops a task before its end.
    pub fn kill(&self, index: usize) {
        let task = self.shared.lock().unwrap().tasks[index].take();
        drop(task);
    }

    /// Polls woken tasks until none is.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Polls the task that was woken first. False if none is.
    pub fn step(&self) -> bool {
        let (index, task) = {
            let mut queue = self.shared.lock().unwrap();
            let Some(index) = queue.woken.pop_front() else { return false };
            queue.polls += 1;
            (index, queue.tasks[index].take())
        };
        let Some(mut task) = task else { return true };
        let waker = Waker::from(Arc::new(TaskWaker { executor: self.clone(), index }));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            self.shared.lock().unwrap().tasks[index] = Some(task);
        }
        true
    }

    /// Polls so far.
    pub fn polls(&self) -> usize {
        self.shared.lock().unwrap().polls
    }

    /// Tasks that have not ended.
    pub fn alive(&self) -> usize {
        self.shared.lock().unwrap().tasks.iter().flatten().count()
    }

    /// Runs everything until `future` is done.
    ///
    /// # Panics
    /// When all tasks wait and `future` is not done: somebody's wake-up was lost.
    pub fn block_on<F>(&self, future: F) -> F::Output
    where
        F: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static>,
    {
        let task = self.start(future);
        self.run();
        task.take().expect("all tasks wait, and the future is not done")
    }

    /// Spawns `future` and keeps what it returns.
    pub fn start<F>(&self, future: F) -> Outcome<F::Output>
    where
        F: IntoFuture<IntoFuture: Send + 'static, Output: Send + 'static>,
    {
        let outcome = Outcome { value: Arc::new(Mutex::new(None)), index: 0 };
        let value = Arc::clone(&outcome.value);
        let future = future.into_future();
        let index = self.spawn(async move {
            let result = future.await;
            *value.lock().unwrap() = Some(result);
        });
        Outcome { index, ..outcome }
    }
}

/// What a spawned future returned, or will.
pub struct Outcome<T> {
    value: Arc<Mutex<Option<T>>>,
    pub index: usize,
}

impl<T> Outcome<T> {
    pub fn take(&self) -> Option<T> {
        self.value.lock().unwrap().take()
    }
}

/// Lets every other woken task run once.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
