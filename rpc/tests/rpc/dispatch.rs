//! Where handlers run: polled by the driver that found their call, or in tasks of their own.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use trirpc_rpc::{
    BidiCall, BoxFuture, ClientSession, Code, Config, Endpoint, Handling, HttpVersion, IncomingCall, InlineHandlers,
    Layered, ManualTime, MethodSpec, NextService, Router, ServerSession, ServerStreamingCall, ServerTask, Service,
    ServiceDescriptor, ServiceLayer, Status, UnaryCall, duplex, handshake, serve_connection,
};

use crate::support::echo::{Counters, Echo};
use crate::support::executor::{Executor, Outcome, yield_now};
use crate::support::link::Counting;
use crate::support::{CHAT, LOTS, SAY};

/// Serves `Say` by a function.
struct Handler<F>(F);

impl<F: Fn(String) -> BoxFuture<'static, String> + Send + Sync + 'static> Service for Handler<F> {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static METHODS: &[&MethodSpec] = &[&SAY.spec];
        static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
        &DESCRIPTOR
    }

    fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
        call.unary(&SAY, move |cx, request| async move {
            let answer = (self.0)(request).await;
            cx.respond(&SAY, Ok(answer));
        })
    }
}

/// A client and a server, whose tasks are counted.
struct World {
    executor: Executor,
    time: ManualTime,
    client: ClientSession,
    server: ServerSession,
    server_driver: usize,
    server_writes: Arc<AtomicUsize>,
    spawned: Arc<AtomicUsize>,
}

impl World {
    fn new(executor: Executor, time: ManualTime, router: Router, spawn: impl Fn(ServerTask) + Send + 'static) -> Self {
        let (near, far) = duplex(1 << 20);
        let (far, server_writes) = Counting::new(far);
        let (config, endpoint) = (Arc::new(Config::default()), Endpoint::http("test"));
        let (client, driver) = handshake(near, Arc::clone(&config), endpoint, HttpVersion::Http2, time.clone());
        executor.spawn(async move { drop(driver.await) });
        let spawned = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&spawned);
        let (server, driver) = serve_connection(far, Arc::new(router), config, time.clone(), move |task| {
            count.fetch_add(1, Ordering::SeqCst);
            spawn(task);
        });
        let server_driver = executor.spawn(async move { drop(driver.await) });
        executor.run();
        server_writes.store(0, Ordering::SeqCst);
        Self { executor, time, client, server, server_driver, server_writes, spawned }
    }

    /// Everything runs on one executor.
    fn of(router: Router) -> Self {
        Self::at(ManualTime::new(), router)
    }

    fn at(time: ManualTime, router: Router) -> Self {
        let executor = Executor::new();
        let tasks = executor.clone();
        Self::new(executor, time, router, move |task| {
            tasks.spawn(task);
        })
    }

    fn handling(handler: impl Fn(String) -> BoxFuture<'static, String> + Send + Sync + 'static) -> Self {
        Self::of(Router::new().add(Handler(handler)))
    }

    fn say(&self, text: &str) -> Outcome<Result<String, Status>> {
        self.executor.start(UnaryCall::new(self.client.clone(), &SAY, text.to_owned()))
    }

    /// Tasks so far.
    fn spawned(&self) -> usize {
        self.spawned.load(Ordering::SeqCst)
    }
}

fn echo() -> (Router, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    (Router::new().add(Echo { counters: Arc::clone(&counters) }), counters)
}

#[test]
fn handlers_that_are_ready_at_once_cost_no_task_and_answer_with_one_write() {
    let world = World::of(echo().0);
    let calls: Vec<_> = (0..100).map(|n| world.say(&n.to_string())).collect();
    world.executor.run();
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(call.take().expect("done").expect("answered"), n.to_string());
    }
    assert_eq!((world.spawned(), world.server_writes.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(world.server.open_calls(), 0);
}

#[test]
fn a_panic_costs_the_call_of_its_handler_alone_also_without_a_task() {
    let world = World::of(echo().0);
    let calls = ["one", "panic", "fail", "two"].map(|text| world.say(text));
    world.executor.run();
    let answers = calls.map(|call| call.take().expect("done").map_err(|status| status.code()));
    assert_eq!(answers, [Ok("one".into()), Err(Code::Internal), Err(Code::NotFound), Ok("two".into())]);
    assert_eq!((world.spawned(), world.server.open_calls()), (0, 0));
}

#[test]
fn a_handler_that_ends_without_an_answer_is_internal_also_without_a_task() {
    struct Silent;
    impl Service for Silent {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            static METHODS: &[&MethodSpec] = &[&SAY.spec];
            static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
            &DESCRIPTOR
        }
        fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
            Handling::new(async move { drop(call) })
        }
    }
    let world = World::of(Router::new().add(Silent));
    let call = world.say("anything");
    world.executor.run();
    assert_eq!(call.take().expect("done").expect_err("nothing was said").code(), Code::Internal);
    assert_eq!(world.spawned(), 0);
}

#[test]
fn a_handler_that_waits_becomes_a_task_and_goes_on_where_it_was() {
    let entered = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&entered);
    let world = World::handling(move |request| {
        seen.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            yield_now().await;
            yield_now().await;
            request
        })
    });
    let call = world.say("later");
    world.executor.run();
    assert_eq!(call.take().expect("done").expect("answered"), "later");
    assert_eq!((world.spawned(), entered.load(Ordering::SeqCst)), (1, 1), "a task, and one handler");
}

#[test]
fn a_call_that_is_dropped_or_late_takes_its_waiting_handler_with_it() {
    let (router, counters) = echo();
    let world = World::of(router);
    let dropped = world.say("wait");
    let late = UnaryCall::new(world.client.clone(), &SAY, "wait".to_owned()).timeout(Duration::from_secs(1));
    let late = world.executor.start(late);
    world.executor.run();
    assert_eq!((world.spawned(), counters.started(), counters.dropped()), (2, 2, 0));
    world.executor.kill(dropped.index);
    world.executor.run();
    assert_eq!(counters.dropped(), 1);
    world.time.advance(Duration::from_secs(1));
    world.executor.run();
    assert_eq!(late.take().expect("done").expect_err("late").code(), Code::DeadlineExceeded);
    assert_eq!((counters.dropped(), world.server.open_calls()), (2, 0));
}

#[test]
fn a_driver_that_is_dropped_leaves_no_handler_behind() {
    let (router, counters) = echo();
    let world = World::of(router);
    let calls = ["wait", "done", "wait"].map(|text| world.say(text));
    world.executor.run();
    world.executor.kill(world.server_driver);
    world.executor.run();
    assert!(calls.iter().all(|call| call.take().is_some()));
    assert_eq!((counters.started(), counters.dropped()), (3, 3));
}

/// A stream of responses is polled by the driver as far as it goes, one of requests would only wait.
#[test]
fn streams_are_polled_by_the_driver_where_their_request_is_there() {
    let world = World::of(echo().0);
    let all = |request: &str| {
        let mut rx = ServerStreamingCall::new(world.client.clone(), &LOTS, request.to_owned()).open();
        world.executor.start(async move {
            let mut count = 0;
            while rx.next().await.expect("no error").is_some() {
                count += 1;
            }
            count
        })
    };
    let few = all("5");
    world.executor.run();
    assert_eq!((few.take(), world.spawned()), (Some(5), 0));
    let many = all("100x10000");
    world.executor.run();
    assert_eq!((many.take(), world.spawned()), (Some(100), 1), "its send buffer was full");
    let (tx, mut rx) = BidiCall::new(world.client.clone(), &CHAT).open();
    tx.finish();
    let end = world.executor.start(async move { rx.next().await });
    world.executor.run();
    assert_eq!((end.take().map(|end| end.is_ok()), world.spawned()), (Some(true), 2));
}

#[test]
fn a_router_may_make_a_task_of_every_handler() {
    let (router, _) = echo();
    let world = World::of(router.inline_handlers(InlineHandlers::Never));
    let calls: Vec<_> = (0..10).map(|n| world.say(&n.to_string())).collect();
    world.executor.run();
    assert!(calls.iter().all(|call| call.take().expect("done").is_ok()));
    assert_eq!(world.spawned(), 10);
}

#[test]
fn a_router_may_leave_every_handler_to_its_connection_however_long_it_takes() {
    let time = ManualTime::new();
    let clock = time.clone();
    let router = Router::new().add(Handler(move |request: String| {
        clock.advance(Duration::from_secs(1));
        Box::pin(async { request }) as BoxFuture<'_, _>
    }));
    let world = World::at(time, router.inline_handlers(InlineHandlers::Always));
    let calls: Vec<_> = (0..100).map(|n| world.say(&n.to_string())).collect();
    world.executor.run();
    assert!(calls.iter().all(|call| call.take().expect("done").is_ok()));
    assert_eq!(world.spawned(), 0);
}

/// Requests use each other's memory.
#[test]
fn a_call_finds_nothing_of_the_one_before() {
    struct Mark;
    struct Marked;
    impl ServiceLayer for Marked {
        async fn call(&self, mut call: IncomingCall, next: NextService) {
            assert!(call.extensions_mut().get::<Mark>().is_none(), "another call's");
            assert!(call.metadata().is_empty() && call.deadline().is_none());
            call.extensions_mut().insert(Mark);
            call.metadata_mut().append("x-mark", "yes").expect("valid");
            next.call(call).await;
        }
    }
    let service = Echo { counters: Arc::default() };
    let world = World::of(Router::new().add(Layered::new(service, Marked)));
    for round in ["one", "two", "fail", "three"] {
        let calls: Vec<_> = (0..3).map(|_| world.say(round)).collect();
        world.executor.run();
        assert!(calls.iter().all(|call| call.take().expect("done").is_ok() == (round != "fail")));
    }
    assert_eq!(world.spawned(), 0);
}

thread_local! {
    /// Points that are to pass until the event happens.
    static POINTS: Cell<usize> = const { Cell::new(usize::MAX) };
    static EVENT: RefCell<Event> = const { RefCell::new(Event { has_happened: false, waker: None }) };
}

/// Happens once, and wakes who waited for it last: as little as a future may do.
struct Event {
    has_happened: bool,
    waker: Option<Waker>,
}

/// A moment at which the event may happen, as if another thread made it.
fn point() {
    let left = POINTS.get();
    POINTS.set(left.wrapping_sub(1));
    if left == 0 {
        let waker = EVENT.with_borrow_mut(|event| {
            event.has_happened = true;
            event.waker.take()
        });
        waker.into_iter().for_each(Waker::wake);
    }
}

/// Between its first poll by the driver and the first poll of its task nobody would wake a handler.
#[test]
fn an_event_is_not_missed_wherever_it_happens_while_a_handler_becomes_a_task() {
    let wait = |cx: &mut Context<'_>| {
        point();
        let poll = EVENT.with_borrow_mut(|event| match event.has_happened {
            true => Poll::Ready(()),
            false => {
                event.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        });
        point();
        poll
    };
    let mut last = 0;
    for due in 0.. {
        POINTS.set(due);
        EVENT.set(Event { has_happened: false, waker: None });
        let executor = Executor::new();
        let tasks = executor.clone();
        let handler = Handler(move |request| {
            Box::pin(async move {
                poll_fn(wait).await;
                request
            }) as BoxFuture<'_, _>
        });
        let world = World::new(executor, ManualTime::new(), Router::new().add(handler), move |task| {
            point();
            tasks.spawn(async move {
                let mut task = pin!(task);
                poll_fn(|cx| {
                    point();
                    let poll = task.as_mut().poll(cx);
                    point();
                    poll
                })
                .await;
            });
            point();
        });
        let call = world.say("hello");
        while world.executor.step() {}
        last = due;
        if POINTS.get() < usize::MAX / 2 {
            // It did not happen: the handler waits, as it should.
            assert!(call.take().is_none());
            break;
        }
        assert_eq!(call.take().expect("the wake-up was lost").expect("answered"), "hello", "after {due} points");
    }
    assert_eq!(last, 8, "two in each poll of the handler, two in the task's, two around the spawning");
}

/// Whether `parties` threads are in here at the same time. It gives up after ten seconds.
#[derive(Default)]
struct Meeting {
    arrived: Mutex<usize>,
    all: Condvar,
}

impl Meeting {
    fn attend(&self, parties: usize) -> bool {
        let mut arrived = self.arrived.lock().unwrap();
        *arrived += 1;
        self.all.notify_all();
        let patience = Duration::from_secs(10);
        let waited = self.all.wait_timeout_while(arrived, patience, |arrived| *arrived < parties);
        *waited.unwrap().0 >= parties
    }
}

#[test]
fn handlers_that_block_run_side_by_side_once_their_connection_has_found_them_slow() {
    let (time, meeting) = (ManualTime::new(), Arc::new(Meeting::default()));
    let clock = time.clone();
    let router = Router::new().add(Handler(move |request: String| {
        match request.as_str() {
            "slow" => clock.advance(Duration::from_millis(5)),
            _ => assert!(meeting.attend(2), "the other handler did not run meanwhile"),
        }
        Box::pin(async { request }) as BoxFuture<'_, _>
    }));
    let world = World::new(Executor::new(), time, router, |task| {
        // Each task has a thread, as on an executor with enough of them.
        thread::spawn(move || {
            let mut task = pin!(task);
            while task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                thread::yield_now();
            }
        });
    });
    let slow = world.say("slow");
    world.executor.run();
    assert_eq!((slow.take().map(|answer| answer.is_ok()), world.spawned()), (Some(true), 0));
    let blocking = [world.say("meet"), world.say("meet")];
    for call in blocking {
        let answer = loop {
            world.executor.run();
            match call.take() {
                Some(answer) => break answer,
                None => thread::yield_now(),
            }
        };
        assert_eq!(answer.expect("answered"), "meet");
    }
    assert_eq!(world.spawned(), 2);
}

#[test]
fn few_calls_wait_behind_a_slow_handler_and_quick_ones_need_no_task_again() {
    let time = ManualTime::new();
    let clock = time.clone();
    let router = Router::new().add(Handler(move |request: String| {
        clock.advance(Duration::from_micros(request.parse().expect("a number")));
        Box::pin(async { request }) as BoxFuture<'_, _>
    }));
    let world = World::at(time, router);
    let round = |micros: &str| {
        let before = world.spawned();
        let calls: Vec<_> = (0..50).map(|_| world.say(micros)).collect();
        world.executor.run();
        assert!(calls.iter().all(|call| call.take().expect("done").is_ok()));
        world.spawned() - before
    };
    assert_eq!(round("1"), 0);
    assert_eq!(round("1000"), 34, "all but the first 16");
    assert_eq!(round("1"), 50, "not yet");
    world.time.advance(Duration::from_secs(1));
    assert_eq!(round("1000"), 49, "one was tried");
    world.time.advance(Duration::from_secs(1));
    assert_eq!((round("1"), round("1")), (0, 0));
}
