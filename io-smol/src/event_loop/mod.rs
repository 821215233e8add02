//! One thread with everything that a connection needs: an executor, a reactor and timers.
//!
//! smol's reactor serves any future on any thread, and pays for it: each wait arms a timer, arms its notifier and arms
//! the socket anew, seven system calls where two would do. Here sockets are registered once, edge-triggered, and a wait
//! is one system call. The price is that what runs here stays on its thread.

mod busy_poll;
mod reactor;
mod source;
mod tasks;
mod timers;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use async_task::Runnable;
use smol::Task;

use busy_poll::BusyPoll;
use tasks::Tasks;

pub(crate) use reactor::Reactor;
pub(crate) use source::Registered;
pub(crate) use timers::LoopTimer;

/// Tasks that run before the reactor is asked for news.
const TASKS: u32 = 256;

/// An executor, an edge-triggered reactor and timers for one thread, beside smol's for all threads.
///
/// Handed to [`ServerBuilder::executor`](crate::ServerBuilder::executor) or
/// [`ChannelBuilder::executor`](crate::ChannelBuilder::executor), it carries their connections, from the sockets to the
/// handlers, while [`run`](Self::run) runs. Futures of smol work here too: they are woken by smol's own threads.
/// [`ServerBuilder::cores`](crate::ServerBuilder::cores) runs one a core.
///
/// Dropping it drops every task that is left, and with it the connections.
///
/// ```no_run
/// # fn run(router: trirpc_rpc::Router) -> std::io::Result<()> {
/// use trirpc_smol::{EventLoop, Server};
///
/// let mut event_loop = EventLoop::new()?;
/// let server = Server::builder(router).executor(&event_loop).bind("127.0.0.1:50051");
/// event_loop.run(async { server.await?.serve().await })?;
/// # Ok(())
/// # }
/// ```
pub struct EventLoop {
    tasks: Arc<Tasks>,
    /// Woken tasks that are to run before others; empty between turns as a rule.
    batch: VecDeque<Runnable>,
    reactor: Arc<Reactor>,
    poll: mio::Poll,
    events: mio::Events,
    /// Whether news are asked for again and again before the loop sleeps.
    busy_poll: BusyPoll,
    /// Taken from the reactor to be fired; empty between turns.
    due: Vec<Waker>,
}

impl EventLoop {
    /// A loop that does nothing before it is run.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let reactor = Arc::new(Reactor::new(&poll)?);
        let events = mio::Events::with_capacity(1024);
        let tasks = Tasks::new(Arc::clone(&reactor));
        let busy_poll = BusyPoll::new(busy_poll::DEFAULT_LIMIT);
        Ok(Self { tasks, batch: VecDeque::new(), reactor, poll, events, busy_poll, due: Vec::new() })
    }

    /// Before it sleeps, the loop polls for news for up to `limit`, as long as that pays; 60 µs by default, and zero for
    /// never.
    ///
    /// A thread that sleeps lets its core halt. Waking it costs tens of microseconds in a virtual machine, for whoever
    /// wakes it as well, and it goes on with cold caches. Where news come sooner than that, polling makes calls faster and
    /// saves CPU time too. It pays while waits take less than half the limit on average: a loop polls for no more than half
    /// the limit for each sleep that it spares. Where waits are longer, or somebody else needs the core, it stops after
    /// four times the limit at most, and tries again for twice the limit, seldom: 120 µs in 32 ms with the default, and
    /// nothing while nothing happens.
    ///
    /// Events that come every 25 µs, say, keep a core busy that polls, where they may not if it sleeps. Switch it off where
    /// CPU time is dearer than latency. A timer that another thread sets while the loop polls may be late by twice the
    /// limit.
    pub fn set_busy_poll(&mut self, limit: Duration) {
        self.busy_poll = BusyPoll::new(limit);
    }

    /// Starts a task that runs on the loop's thread; dropping it cancels.
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.tasks.spawn(future)
    }

    /// Runs the loop on this thread until `future` is done; the tasks that are left go on with the next run.
    ///
    /// # Panics
    /// If the system refuses to wait for its events, which is a mistake of ours.
    pub fn run<T>(&mut self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        let root = Arc::new(Root { is_woken: AtomicBool::new(true), reactor: Arc::clone(&self.reactor) });
        let root_waker = Waker::from(Arc::clone(&root));
        loop {
            let mut budget = TASKS;
            loop {
                self.reactor.take_notice();
                if root.is_woken.swap(false, Ordering::SeqCst) {
                    if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&root_waker)) {
                        return output;
                    }
                }
                if self.batch.is_empty() {
                    self.tasks.take(&mut self.batch);
                }
                if self.batch.is_empty() && !self.reactor.is_notified() {
                    break;
                }
                if budget == 0 {
                    // There may be more to run: news, but no waiting for it.
                    self.reactor.notify();
                    break;
                }
                // The root counts as a task.
                budget -= 1;
                while budget > 0 {
                    let Some(task) = self.batch.pop_front() else { break };
                    budget -= 1;
                    task.run();
                }
            }
            let Self { reactor, poll, events, due, busy_poll, .. } = self;
            reactor.turn(poll, events, busy_poll, due).expect("events can be waited for");
            self.due.drain(..).for_each(Waker::wake);
        }
    }

    pub(crate) fn handle(&self) -> Handle {
        Handle { tasks: Arc::clone(&self.tasks), reactor: Arc::clone(&self.reactor) }
    }
}

/// The waker of the future that a loop runs: there are many tasks beside it, and it is rarely meant.
struct Root {
    is_woken: AtomicBool,
    reactor: Arc<Reactor>,
}

impl Wake for Root {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.reactor.notify();
    }
}

impl fmt::Debug for EventLoop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLoop").field("tasks", &self.tasks).finish_non_exhaustive()
    }
}

impl Drop for EventLoop {
    fn drop(&mut self) {
        self.batch.clear();
        self.tasks.close();
    }
}

/// What connections keep of their loop.
#[derive(Clone)]
pub(crate) struct Handle {
    tasks: Arc<Tasks>,
    pub(crate) reactor: Arc<Reactor>,
}

impl Handle {
    /// Starts a task; if the loop is gone, the task is dropped, as those are that it held.
    pub(crate) fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        self.tasks.spawn(future)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use smol::future::yield_now;
    use smol::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Both ends of a connection, ours in the reactor's hands.
    fn connected(event_loop: &EventLoop) -> (Registered<mio::net::TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let far = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let (near, _) = listener.accept().expect("accepted");
        near.set_nonblocking(true).expect("a socket option");
        let near = mio::net::TcpStream::from_std(near);
        (Registered::new(near, &event_loop.reactor).expect("registered"), far)
    }

    /// arch:11. The edge comes once: bytes that came before the wait, during it, and the end behind the last bytes.
    #[test]
    fn no_edge_is_lost_whenever_bytes_or_the_end_arrive() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let (mut near, mut far) = connected(&event_loop);
        far.write_all(b"before").expect("written");
        let writer = thread::spawn(move || {
            for _ in 0..100 {
                far.write_all(b"x").expect("written");
                let mut answer = [0];
                far.read_exact(&mut answer).expect("answered");
            }
            far.write_all(b"last").expect("written");
        });
        event_loop.run(async {
            let mut buf = [0; 64];
            let mut seen = Vec::new();
            loop {
                let n = near.read(&mut buf).await.expect("read");
                if n == 0 {
                    break;
                }
                for _ in buf[..n].iter().filter(|&&octet| octet == b'x') {
                    near.write_all(b"y").await.expect("written");
                }
                seen.extend_from_slice(&buf[..n]);
            }
            assert_eq!(seen, [b"before".as_slice(), &[b'x'; 100], b"last"].concat());
        });
        writer.join().expect("no panic");
    }

    /// What ends a wait ends it while the loop asks again and again too: bytes, timers, tasks that others wake.
    #[test]
    fn a_loop_that_polls_busily_misses_nothing() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let (begin, long) = (Instant::now(), Duration::from_secs(20));
        event_loop.set_busy_poll(long);
        let (mut near, mut far) = connected(&event_loop);
        let writer = thread::spawn(move || {
            for _ in 0..100 {
                far.write_all(b"x").expect("written");
                far.read_exact(&mut [0]).expect("answered");
            }
        });
        let (tell, told) = smol::channel::bounded(1);
        let other = thread::spawn(move || (0..100).for_each(|n| smol::block_on(tell.send(n)).expect("received")));
        let mut timer = LoopTimer::new(Arc::clone(&event_loop.reactor));
        event_loop.run(async {
            for _ in 0..100 {
                near.read_exact(&mut [0]).await.expect("read");
                near.write_all(b"y").await.expect("written");
            }
            for n in 0..100 {
                assert_eq!(told.recv().await, Ok(n));
                assert!(begin.elapsed() < long, "woken late");
            }
            let at = Instant::now() + Duration::from_millis(5);
            timer.set(at);
            poll_fn(|cx| timer.poll_expired(cx)).await;
            assert!(Instant::now() >= at && begin.elapsed() < long);
        });
        writer.join().expect("no panic");
        other.join().expect("no panic");
    }

    #[test]
    fn a_loop_that_polled_busily_in_vain_sleeps() {
        let mut event_loop = EventLoop::new().expect("a loop");
        event_loop.set_busy_poll(Duration::from_millis(2));
        let EventLoop { reactor, poll, events, busy_poll, .. } = &mut event_loop;
        assert!(!reactor.busy_poll(poll, events, busy_poll).expect("polled"));
        let (tell, told) = smol::channel::bounded(1);
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            smol::block_on(tell.send(())).expect("received");
        });
        assert_eq!(event_loop.run(async { told.recv().await }), Ok(()));
        other.join().expect("no panic");
    }

    /// The last bytes and the end are told by one event: the short read between them must not forget the end.
    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_seen() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let (mut near, mut far) = connected(&event_loop);
        far.write_all(b"last").expect("written");
        drop(far);
        event_loop.run(async {
            // Not before the reactor has told of both.
            while near.is_quiet() {
                yield_now().await;
            }
            let mut all = Vec::new();
            near.read_to_end(&mut all).await.expect("the end");
            assert_eq!(all, b"last");
        });
    }

    #[test]
    fn a_writer_that_filled_the_socket_goes_on_when_there_is_room() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let (mut near, mut far) = connected(&event_loop);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            far.read_to_end(&mut all).expect("the end");
            all.len()
        });
        event_loop.run(async move {
            near.write_all(&vec![7; 10 << 20]).await.expect("written");
        });
        assert_eq!(reader.join().expect("no panic"), 10 << 20);
    }

    #[test]
    fn a_wake_up_from_another_thread_ends_the_wait() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let (tell, told) = smol::channel::bounded(1);
        let other = thread::spawn(move || {
            for i in 0..200 {
                if i % 20 == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                smol::block_on(tell.send(i)).expect("received");
            }
        });
        let received = event_loop.run(async {
            let mut received = 0;
            while told.recv().await.is_ok() {
                received += 1;
            }
            received
        });
        assert_eq!(received, 200);
        other.join().expect("no panic");
    }

    /// More tasks than run at a stretch, and nothing else that would end a wait.
    #[test]
    fn a_loop_does_not_wait_while_there_is_something_to_run() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let tasks: Vec<_> = (0..5 * TASKS)
            .map(|_| {
                event_loop.spawn(async {
                    for _ in 0..7 {
                        yield_now().await;
                    }
                })
            })
            .collect();
        event_loop.run(async {
            for task in tasks {
                task.await;
            }
        });
    }

    #[test]
    fn timers_fire_in_their_order_and_not_before_their_time() {
        let mut event_loop = EventLoop::new().expect("a loop");
        let reactor = Arc::clone(&event_loop.reactor);
        let begin = Instant::now();
        let (tell, told) = smol::channel::unbounded();
        for millis in [30, 10, 20] {
            let (reactor, tell) = (Arc::clone(&reactor), tell.clone());
            let mut timer = LoopTimer::new(reactor);
            timer.set(begin + Duration::from_millis(millis));
            event_loop
                .spawn(async move {
                    poll_fn(|cx| timer.poll_expired(cx)).await;
                    assert!(begin.elapsed() >= Duration::from_millis(millis));
                    tell.try_send(millis).expect("room");
                })
                .detach();
        }
        let order = event_loop.run(async {
            let mut order = Vec::new();
            while order.len() < 3 {
                order.push(told.recv().await.expect("a timer"));
            }
            order
        });
        assert_eq!(order, [10, 20, 30]);
        assert_eq!(reactor.waiting(), 0, "nothing is left behind");
    }

    #[test]
    fn a_loop_that_is_dropped_drops_its_tasks_and_their_sockets() {
        let event_loop = EventLoop::new().expect("a loop");
        let (mut near, mut far) = connected(&event_loop);
        let handle = event_loop.handle();
        handle.spawn(async move { drop(near.read(&mut [0; 8]).await) }).detach();
        drop(event_loop);
        assert_eq!(far.read(&mut [0; 8]).expect("the end"), 0);
        let (tell, told) = smol::channel::bounded::<()>(1);
        handle.spawn(async move { tell.send(()).await.expect("received") }).detach();
        assert!(told.try_recv().is_err_and(|error| error.is_closed()), "a task that comes late is dropped");
    }
}
