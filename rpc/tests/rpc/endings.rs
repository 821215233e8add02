//! How calls end before their time: dropped, past their deadline, panicking, cut off.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trirpc_core::ErrorCode;
use trirpc_rpc::{
    BidiCall, ClientStreamingCall, Code, Config, Handling, IncomingCall, MethodSpec, Origin, Router,
    ServerStreamingCall, Service, ServiceDescriptor, Status, UnaryCall,
};

use crate::support::executor::{Executor, yield_now};
use crate::support::link::{With, link_in};
use crate::support::{CHAT, GATHER, LOTS, Link, SAY, link};

#[test]
fn a_panicking_handler_is_internal_and_the_connection_lives_on() {
    let link = Link::default();
    let status = link.executor.block_on(link.say("panic")).expect_err("it panics");
    assert_eq!((status.code(), status.origin()), (Code::Internal, Origin::Peer));
    assert!(status.message().contains("as the caller asked"), "{status}");
    assert_eq!(link.executor.block_on(link.say("next")).expect("answered"), "next");
    link.assert_empty();
}

/// An executor that is shut down drops its tasks: the clients are told.
#[test]
fn a_handler_s_task_that_is_dropped_answers_unavailable() {
    let link = Link::default();
    let call = link.executor.start(link.say("wait"));
    link.executor.run();
    // Two drivers and the call came before the handler's task.
    link.executor.kill(call.index + 1);
    link.executor.run();
    let status = call.take().expect("woken").expect_err("dropped");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Peer), "{status}");
    link.assert_empty();
}

#[test]
fn a_dropped_call_drops_its_handler() {
    let link = Link::default();
    let call = link.executor.start(link.say("wait"));
    link.executor.run();
    assert_eq!((link.counters.started(), link.counters.dropped()), (1, 0));
    link.executor.kill(call.index);
    link.executor.run();
    assert_eq!((link.counters.started(), link.counters.dropped()), (1, 1));
    link.assert_empty();
}

/// bg:S18: each of the handles, dropped before its end, cancels the call for both sides.
#[test]
fn a_dropped_half_cancels_the_call() {
    let link = Link::default();
    // The sender of a bidi call, dropped instead of finished.
    let (tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.run();
    assert_eq!(link.counters.started(), 1);
    drop(tx);
    let status = link.executor.block_on(async move { rx.next().await }).expect_err("cancelled");
    assert_eq!((status.code(), status.origin()), (Code::Cancelled, Origin::Local));
    link.assert_empty();
    // Its receiver: the sender learns it.
    let (mut tx, rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.run();
    drop(rx);
    let status = link.executor.block_on(async move { tx.send(&"x".to_owned()).await }).expect_err("cancelled");
    assert_eq!(status.code(), Code::Cancelled);
    link.assert_empty();
    // The reply of a client stream, and a server stream in the middle.
    let (tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).open();
    link.executor.run();
    drop((reply, tx));
    let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, "1000x1000".into()).open();
    link.executor.block_on(async move { rx.next().await.map(|_| ()) }).expect("a message");
    link.assert_empty();
    assert_eq!(link.counters.started(), 4);
}

#[test]
fn a_deadline_ends_the_call_on_both_sides() {
    let link = Link::default();
    let call = link.executor.start(link.say("wait").timeout(Duration::from_millis(50)));
    link.executor.run();
    assert_eq!((link.counters.started(), link.counters.dropped()), (1, 0));
    link.time.advance(Duration::from_millis(49));
    link.executor.run();
    assert!(call.take().is_none(), "not yet");
    link.time.advance(Duration::from_millis(2));
    link.executor.run();
    assert_eq!(call.take().expect("woken").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(link.counters.dropped(), 1);
    link.assert_empty();
}

/// The handler is dropped by its own deadline even if the client never cancels.
#[test]
fn a_deadline_drops_the_handler_of_a_silent_client() {
    let link = Link::default();
    let call = link.executor.start(link.say("wait").timeout(Duration::from_millis(50)));
    link.executor.run();
    link.executor.kill(call.index);
    link.executor.kill(link.client_driver);
    link.time.advance(Duration::from_millis(51));
    link.executor.run();
    assert_eq!((link.counters.started(), link.counters.dropped()), (1, 1));
    assert_eq!(link.server.open_calls(), 0);
}

#[test]
fn a_deadline_covers_a_stream_s_body_and_a_blocked_sender() {
    let link = Link::default();
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).timeout(Duration::from_secs(1)).open();
    let reader = link.executor.start(async move {
        let first = rx.next().await?;
        // Nothing more comes.
        rx.next().await.map(|second| (first, second))
    });
    let (mut stuck, reply) =
        ClientStreamingCall::new(link.client.clone(), &GATHER).timeout(Duration::from_secs(1)).open();
    let writer = link.executor.start(async move {
        stuck.send(&"wait".to_owned()).await?;
        loop {
            stuck.send(&"-".repeat(10_000)).await?;
        }
        #[allow(unreachable_code)]
        Ok::<(), Status>(())
    });
    link.executor
        .block_on(async move { tx.send(&"hello".to_owned()).await.map(|()| std::mem::forget(tx)) })
        .expect("sent");
    link.executor.run();
    link.time.advance(Duration::from_secs(2));
    link.executor.run();
    assert_eq!(reader.take().expect("woken").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(writer.take().expect("woken").expect_err("too late").code(), Code::DeadlineExceeded);
    drop(reply);
    link.executor.run();
    assert_eq!(link.server.open_calls(), 0);
}

/// A call with a deadline that waits behind others produces no output: the driver's timer must move.
#[test]
fn a_call_that_waits_for_a_stream_expires_in_time() {
    let server = Config::default().with(|config| config.max_concurrent_streams = 1);
    let link = link(Config::default(), server, 64 * 1024);
    link.executor.block_on(link.say("settled")).expect("answered");
    let first = link.executor.start(link.say("wait"));
    link.executor.run();
    let second = link.executor.start(link.say("never").timeout(Duration::from_secs(1)));
    link.executor.run();
    link.time.advance(Duration::from_secs(1));
    link.executor.run();
    let status = second.take().expect("woken").expect_err("too late");
    assert_eq!((status.code(), status.is_unprocessed()), (Code::DeadlineExceeded, true), "{status}");
    assert!(first.take().is_none());
    link.executor.kill(first.index);
    link.assert_empty();
}

/// `h2:B84`.
#[test]
fn a_dropped_driver_fails_and_wakes_everybody() {
    let link = Link::default();
    let unary = link.executor.start(link.say("wait"));
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    let reader = link.executor.start(async move { rx.next().await });
    link.executor.run();
    assert_eq!(link.counters.started(), 2);
    link.executor.kill(link.client_driver);
    link.executor.run();
    let status = unary.take().expect("woken").expect_err("gone");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
    assert_eq!(reader.take().expect("woken").expect_err("gone").code(), Code::Unavailable);
    let status = link.executor.block_on(async move { tx.send(&"x".to_owned()).await }).expect_err("gone");
    assert_eq!(status.code(), Code::Unavailable);
    // Later calls fail at once, and may be sent elsewhere.
    let status = link.executor.block_on(link.say("later")).expect_err("gone");
    assert!(status.code() == Code::Unavailable && status.is_unprocessed(), "{status}");
    assert_eq!(link.counters.dropped(), 2, "the server saw the connection end");
    link.assert_empty();
}

#[test]
fn a_server_that_is_aborted_drops_its_handlers_and_the_client_knows() {
    let link = Link::default();
    let call = link.executor.start(link.say("wait"));
    link.executor.run();
    link.server.abort(ErrorCode::INTERNAL_ERROR);
    link.executor.run();
    assert!(link.server.is_closed());
    let status = call.take().expect("woken").expect_err("gone");
    assert_eq!(status.origin(), Origin::Peer, "{status}");
    assert_eq!(link.counters.dropped(), 1);
    assert!(!link.client.is_open());
}

#[test]
fn a_graceful_shutdown_lets_calls_finish_and_refuses_new_ones() {
    let link = Link::default();
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.run();
    link.server.shutdown();
    link.executor.run();
    let status = link.executor.block_on(link.say("late")).expect_err("going away");
    assert!(status.code() == Code::Unavailable && status.is_unprocessed(), "{status}");
    link.executor.block_on(async move {
        tx.send(&"still here".to_owned()).await.expect("sent");
        assert_eq!(rx.next().await.expect("echoed").as_deref(), Some("still here"));
        tx.finish();
        assert_eq!(rx.next().await.expect("the end"), None);
    });
    link.executor.run();
    assert!(link.server.is_closed());
    assert_eq!(link.executor.alive(), 0, "both drivers have ended");
}

#[test]
fn the_last_client_handle_shuts_down_after_the_calls() {
    let Link { executor, client, server, .. } = Link::default();
    let (mut tx, mut rx) = BidiCall::new(client.clone(), &CHAT).open();
    drop(client);
    executor.block_on(async move {
        tx.send(&"orphan".to_owned()).await.expect("sent");
        assert_eq!(rx.next().await.expect("echoed").as_deref(), Some("orphan"));
        tx.finish();
        assert_eq!(rx.next().await.expect("the end"), None);
    });
    executor.run();
    assert!(server.is_closed());
    assert_eq!(executor.alive(), 0, "both drivers have ended");
}

/// arch:17: ten thousand calls, dropped at every stage, leave nothing.
#[test]
fn ten_thousand_dropped_calls_leave_no_slot_waker_or_timer() {
    let link = Link::default();
    link.executor.block_on(link.say("settled")).expect("answered");
    for round in 0..10_000_u64 {
        let call = link.say("wait").timeout(Duration::from_secs(3600));
        match round % 4 {
            // Never polled.
            0 => drop(call),
            // Queued, not written.
            1 => {
                let mut call = Box::pin(call.into_future());
                let _ = call.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            }
            // With its handler running.
            2 => {
                let call = link.executor.start(call);
                link.executor.run();
                link.executor.kill(call.index);
            }
            // A stream, half read.
            _ => {
                let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, "50x100".into()).open();
                let _ = link.executor.block_on(async move { rx.next().await });
            }
        }
        // The peer's budget for resets refills with time.
        link.time.advance(Duration::from_millis(10));
        link.executor.run();
    }
    link.assert_empty();
    // What remains are the connection's own timers, not an hour away.
    assert!(link.time.waiting() <= 2);
    link.time.advance(Duration::from_secs(7200));
    link.executor.run();
    assert_eq!(link.executor.block_on(link.say("alive")).expect("answered"), "alive");
}

#[test]
fn a_call_within_a_served_one_inherits_its_deadline_and_its_end() {
    /// Passes every call on to another server.
    struct Proxy {
        next: trirpc_rpc::ClientSession,
        detached: Executor,
        outcome: Arc<std::sync::Mutex<Option<Status>>>,
    }
    impl Service for Proxy {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            static METHODS: &[&MethodSpec] = &[&SAY.spec];
            static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
            &DESCRIPTOR
        }
        fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
            call.unary(&SAY, move |cx, request| async move {
                let inner = UnaryCall::new(self.next.clone(), &SAY, request.clone());
                let inner = inner.timeout(Duration::from_secs(100)).within(&cx);
                if request == "wait" {
                    // In a task of its own, which the handler's end does not drop.
                    let outcome = Arc::clone(&self.outcome);
                    self.detached.spawn(async move { *outcome.lock().unwrap() = inner.await.err() });
                    return std::future::pending().await;
                }
                let result = inner.await;
                cx.respond(&SAY, result);
            })
        }
    }

    let back = Link::default();
    let outcome = Arc::default();
    let proxy = Proxy { next: back.client.clone(), detached: back.executor.clone(), outcome: Arc::clone(&outcome) };
    let front = link_in(back.executor.clone(), back.time.clone(), Router::new().add(proxy), Default::default());
    let call = UnaryCall::new(front.client.clone(), &SAY, "remaining".to_owned());
    let remaining = front.executor.block_on(call.timeout(Duration::from_secs(7))).expect("answered");
    assert_eq!(remaining, "Some(7s)");
    let call = UnaryCall::new(front.client.clone(), &SAY, "wait".to_owned());
    let call = front.executor.start(call);
    front.executor.run();
    assert_eq!(back.counters.started(), 2);
    front.executor.kill(call.index);
    front.executor.run();
    assert_eq!(outcome.lock().unwrap().as_ref().map(Status::code), Some(Code::Cancelled));
    assert_eq!(back.counters.dropped(), 2, "the cancellation went all the way");
}

/// A cancelled signal also fires when the call was answered, so that nobody waits for ever.
#[test]
fn tasks_of_a_handler_learn_that_its_call_is_over() {
    struct Watched {
        executor: Executor,
        over: Arc<AtomicUsize>,
    }
    impl Service for Watched {
        fn descriptor(&self) -> &'static ServiceDescriptor {
            static METHODS: &[&MethodSpec] = &[&SAY.spec];
            static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
            &DESCRIPTOR
        }
        fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
            call.unary(&SAY, move |cx, request| async move {
                let (cancelled, over) = (cx.cancelled(), Arc::clone(&self.over));
                assert!(!cancelled.is_cancelled());
                self.executor.spawn(async move {
                    cancelled.clone().await;
                    cancelled.await;
                    over.fetch_add(1, Ordering::SeqCst);
                });
                yield_now().await;
                if request == "wait" {
                    std::future::pending::<()>().await;
                }
                cx.respond(&SAY, Ok(request));
            })
        }
    }

    let back = Link::default();
    let over = Arc::new(AtomicUsize::new(0));
    let service = Watched { executor: back.executor.clone(), over: Arc::clone(&over) };
    let router = Router::new().add(service);
    let link = link_in(back.executor.clone(), back.time.clone(), router, Default::default());
    let call = |text: &str| UnaryCall::new(link.client.clone(), &SAY, text.to_owned());
    link.executor.block_on(call("answered")).expect("answered");
    link.executor.run();
    assert_eq!(over.load(Ordering::SeqCst), 1);
    let waiting = link.executor.start(call("wait"));
    link.executor.run();
    assert_eq!(over.load(Ordering::SeqCst), 1);
    link.executor.kill(waiting.index);
    link.executor.run();
    assert_eq!(over.load(Ordering::SeqCst), 2);
}
