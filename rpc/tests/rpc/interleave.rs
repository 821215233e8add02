//! The park and wake protocol, by every interleaving of a driver's small steps with its callers'.
//!
//! A driver does its work in critical sections; between them it calls its transport, its timer and foreign
//! wakers. Each such call is a point at which any number of callers may have their turn, as on another
//! thread. The search runs the real driver under every way to distribute a fixed script of caller steps
//! over these points. A lost wake-up shows as a run that stalls with a call undone.

use std::cell::{Cell, RefCell};
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{
    ClientSession, Code, Config, Duplex, Endpoint, HttpVersion, Instant, ManualTime, Router, Status, Time, Timer,
    Transport, UnaryCall, duplex, handshake, serve_connection,
};

use crate::support::SAY;
use crate::support::echo::{Counters, Echo};
use crate::support::executor::Executor;

thread_local! {
    /// What callers do at the points of the current run.
    static HOOK: RefCell<Option<Callers>> = const { RefCell::new(None) };
    /// The driver is being polled, and no caller has its turn.
    static IN_DRIVER: Cell<bool> = const { Cell::new(false) };
}

/// A moment at which callers may run.
fn point() {
    if IN_DRIVER.get() {
        IN_DRIVER.set(false);
        HOOK.with_borrow_mut(|hook| {
            if let Some(callers) = hook {
                callers.at_point();
            }
        });
        IN_DRIVER.set(true);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Start call `n`.
    Start(usize),
    /// Start call `n`, which no server answers, with a deadline.
    Doomed(usize),
    /// Drop call `n`.
    Drop(usize),
}

type Running = Pin<Box<dyn Future<Output = Result<String, Status>>>>;

struct Callers {
    client: ClientSession,
    /// Steps still to come, the next one last.
    script: Vec<Step>,
    /// At which points the steps are due, in order.
    due: Vec<usize>,
    points: usize,
    calls: Vec<Option<Running>>,
    results: Vec<Option<Result<String, Status>>>,
    woken: Vec<Arc<Flag>>,
}

/// Remembers that a call was woken; waking is a point.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
        point();
    }
}

impl Callers {
    fn at_point(&mut self) {
        self.points += 1;
        while self.due.first().is_some_and(|at| *at < self.points) {
            self.due.remove(0);
            self.step();
        }
    }

    fn step(&mut self) {
        let Some(step) = self.script.pop() else { return };
        match step {
            Step::Start(n) => self.start(n, UnaryCall::new(self.client.clone(), &SAY, n.to_string())),
            Step::Doomed(n) => {
                let call = UnaryCall::new(self.client.clone(), &SAY, "wait".to_owned());
                self.start(n, call.timeout(Duration::from_millis(5)));
            }
            Step::Drop(n) => self.calls[n] = None,
        }
    }

    fn start(&mut self, n: usize, call: UnaryCall<ClientSession, String, String>) {
        self.calls[n] = Some(Box::pin(call.into_future()));
        self.poll(n);
    }

    fn poll(&mut self, n: usize) {
        let Some(call) = &mut self.calls[n] else { return };
        self.woken[n].0.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self.woken[n]));
        if let Poll::Ready(result) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.results[n] = Some(result);
            self.calls[n] = None;
        }
    }

    /// Polls the calls that were woken, and only those.
    fn poll_woken(&mut self) {
        for n in 0..self.calls.len() {
            if self.woken[n].0.load(Ordering::SeqCst) {
                self.poll(n);
            }
        }
    }
}

struct HookedIo(Duplex);

impl Transport for HookedIo {}

impl AsyncRead for HookedIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        point();
        let poll = Pin::new(&mut self.0).poll_read(cx, buf);
        point();
        poll
    }
}

impl AsyncWrite for HookedIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        point();
        let poll = Pin::new(&mut self.0).poll_write(cx, buf);
        point();
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_close(cx)
    }
}

#[derive(Clone)]
struct HookedTime(ManualTime);

impl Time for HookedTime {
    type Timer = HookedTimer;

    fn now(&self) -> Instant {
        point();
        Time::now(&self.0)
    }

    fn timer(&self) -> HookedTimer {
        HookedTimer(self.0.timer())
    }
}

struct HookedTimer(trirpc_rpc::ManualTimer);

impl Timer for HookedTimer {
    fn reset(&mut self, at: Instant) {
        point();
        self.0.reset(at);
    }

    fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        point();
        let poll = self.0.poll_expired(cx);
        point();
        poll
    }
}

/// The driver, with its polls marked.
struct Marked<F>(F);

impl<F: Future + Unpin> Future for Marked<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        IN_DRIVER.set(true);
        let poll = Pin::new(&mut self.0).poll(cx);
        IN_DRIVER.set(false);
        poll
    }
}

/// One run: the steps of `script` happen at the points `due`. Returns how many points there were.
fn run(script: &[Step], calls: usize, due: &[usize], pipe: usize, max_streams: u32) -> usize {
    let (executor, time) = (Executor::new(), ManualTime::new());
    let counters = Arc::new(Counters::default());
    let router = Router::new().add(Echo { counters: Arc::clone(&counters) });
    let (near, far) = duplex(pipe);
    let endpoint = Endpoint::http("test");
    let config = Arc::new(Config::default());
    let (client, driver) =
        handshake(HookedIo(near), config.clone(), endpoint, HttpVersion::Http2, HookedTime(time.clone()));
    executor.spawn(async move { drop(Marked(driver).await) });
    let tasks = executor.clone();
    let mut config = Config::default();
    config.max_concurrent_streams = max_streams;
    let (server, driver) = serve_connection(far, Arc::new(router), Arc::new(config), time.clone(), move |task| {
        tasks.spawn(task);
    });
    executor.spawn(async move { drop(driver.await) });
    let callers = Callers {
        client: client.clone(),
        script: script.iter().rev().copied().collect(),
        due: due.to_vec(),
        points: 0,
        calls: (0..calls).map(|_| None).collect(),
        results: (0..calls).map(|_| None).collect(),
        woken: (0..calls).map(|_| Arc::new(Flag(AtomicBool::new(false)))).collect(),
    };
    HOOK.set(Some(callers));
    let with_callers = |f: &mut dyn FnMut(&mut Callers)| HOOK.with_borrow_mut(|hook| f(hook.as_mut().expect("set")));
    let run_all = || loop {
        let stepped = executor.step();
        with_callers(&mut |callers| callers.poll_woken());
        if !stepped && !executor.step() {
            break;
        }
    };
    run_all();
    // Steps that are due beyond the last point: callers that come while the driver sleeps.
    let mut is_left = true;
    while is_left {
        with_callers(&mut |callers| {
            is_left = !callers.script.is_empty();
            callers.due.clear();
            callers.step();
        });
        run_all();
    }
    time.advance(Duration::from_millis(5));
    run_all();
    let callers = HOOK.take().expect("set");
    let is_dropped = |n| script.iter().any(|step| matches!(step, Step::Drop(of) if *of == n));
    for step in script {
        match *step {
            Step::Start(n) => match &callers.results[n] {
                Some(Ok(answer)) => assert_eq!(*answer, n.to_string()),
                None if is_dropped(n) => {}
                other => panic!("call {n} of {script:?} at {due:?}: {other:?}"),
            },
            Step::Doomed(n) => match callers.results[n].as_ref().map(|result| result.as_ref().map_err(Status::code)) {
                Some(Err(Code::DeadlineExceeded)) => {}
                None if is_dropped(n) => {}
                other => panic!("call {n} of {script:?} at {due:?}: {other:?}"),
            },
            Step::Drop(_) => {}
        }
    }
    assert_eq!((client.open_calls(), client.waiting(), server.open_calls()), (0, 0, 0), "{script:?} at {due:?}");
    assert_eq!(counters.started(), counters.dropped());
    callers.points
}

/// Every way to put `steps` steps, in order, at `points` points.
fn schedules(steps: usize, points: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..steps {
        all = all
            .into_iter()
            .flat_map(|due: Vec<usize>| {
                let from = due.last().copied().unwrap_or(0);
                (from..points).map(move |at| due.iter().copied().chain([at]).collect())
            })
            .collect();
    }
    all
}

fn search(script: &[Step], calls: usize, pipe: usize, max_streams: u32) -> usize {
    // The points of the connection's start, and those of a call behind them.
    let points = run(script, calls, &vec![usize::MAX; script.len()], pipe, max_streams).clamp(16, 24);
    let schedules = schedules(script.len(), points);
    for due in &schedules {
        run(script, calls, due, pipe, max_streams);
    }
    schedules.len()
}

/// arch:17
#[test]
fn no_interleaving_of_callers_and_driver_loses_a_wake_up() {
    use Step::{Doomed, Drop, Start};
    let mut runs = 0;
    runs += search(&[Start(0), Start(1)], 2, 64 * 1024, 100);
    runs += search(&[Start(0), Drop(0), Start(1)], 2, 64 * 1024, 100);
    runs += search(&[Start(0), Doomed(1)], 2, 64 * 1024, 100);
    // A pipe that is full most of the time.
    runs += search(&[Start(0), Start(1)], 2, 16, 100);
    runs += search(&[Doomed(0), Drop(0), Start(1)], 2, 16, 100);
    // One stream at a time: a doomed call waits without output, for its timer alone.
    runs += search(&[Start(0), Doomed(1), Start(2)], 3, 64 * 1024, 1);
    assert!(runs > 8000, "{runs} runs");
}
