//! Channels: connecting on demand, waiting, failing, backing off, coming back.

use std::future::IntoFuture;
use std::time::Duration;

use trirpc_core::ErrorCode;
use trirpc_rpc::{
    BidiCall, CallKind, Channel, ChannelOptions, ClientStreamingCall, Code, Connectivity, Method, Origin,
    ServerStreamingCall, UnaryCall,
};

use crate::support::echo::CODECS;
use crate::support::network::{Network, Weather};
use crate::support::{CHAT, GATHER, LOTS, SAY};

fn say(channel: &Channel, text: &str) -> UnaryCall<Channel, String, String> {
    UnaryCall::new(channel.clone(), &SAY, text.to_owned())
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn the_first_call_connects_and_later_ones_share_the_connection() {
    let network = Network::new(Weather::Reachable);
    let channel = network.channel(ChannelOptions::default());
    network.executor.run();
    assert_eq!((channel.connectivity(), network.attempts()), (Connectivity::Idle, 0));
    let calls: Vec<_> = (0..10).map(|i| network.executor.start(say(&channel, &i.to_string()))).collect();
    network.executor.run();
    for (i, call) in calls.iter().enumerate() {
        assert_eq!(call.take().expect("done").expect("answered"), i.to_string());
    }
    assert_eq!(network.executor.block_on(say(&channel, "later")).expect("answered"), "later");
    assert_eq!((channel.connectivity(), network.attempts()), (Connectivity::Ready, 1));
}

/// Streams too start before there is a connection: what was done meanwhile is made up for.
#[test]
fn every_kind_of_call_can_start_before_the_connection() {
    let network = Network::new(Weather::Reachable);
    network.set_latency(Duration::from_secs(1));
    let fresh = || network.channel(ChannelOptions::default());
    let channel = fresh();
    let (mut tx, mut rx) = BidiCall::new(channel.clone(), &CHAT).open();
    let chat = network.executor.start(async move {
        tx.send(&"early".to_owned()).await?;
        tx.finish();
        let first = rx.next().await?;
        Ok::<_, trirpc_rpc::Status>((first, rx.next().await?))
    });
    // Finished before anything else happened: an empty stream.
    let channel = fresh();
    let (tx, reply) = ClientStreamingCall::new(channel, &GATHER).open();
    tx.finish();
    let gathered = network.executor.start(reply);
    let lots = ServerStreamingCall::new(fresh(), &LOTS, "2".into());
    let lots = network.executor.start(async move {
        let mut rx = lots.await?;
        rx.next().await
    });
    network.executor.run();
    assert!(chat.take().is_none());
    network.pass(Duration::from_secs(1));
    assert_eq!(chat.take().expect("done").expect("echoed"), (Some("early".into()), None));
    assert_eq!(gathered.take().expect("done").expect("answered"), "");
    assert_eq!(lots.take().expect("done").expect("a message").as_deref(), Some("0"));
}

#[test]
fn a_refused_connection_is_unavailable_names_target_and_cause_and_backs_off() {
    let network = Network::new(Weather::Refused);
    let channel = network.channel(ChannelOptions::default());
    let status = network.executor.block_on(say(&channel, "x")).expect_err("refused");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport));
    assert!(status.is_unprocessed());
    assert!(status.message().contains("http://echo.test:50051"), "{status}");
    assert!(status.message().contains("connection refused"), "{status}");
    assert_eq!(channel.connectivity(), Connectivity::TransientFailure);
    let attempts = network.attempts();
    // Until the next attempt is due, calls fail at once.
    for _ in 0..10 {
        network.executor.block_on(say(&channel, "x")).expect_err("backing off");
    }
    assert_eq!(network.attempts(), attempts);
    network.pass(Duration::from_millis(2500));
    network.set(Weather::Reachable);
    assert_eq!(network.executor.block_on(say(&channel, "back")).expect("answered"), "back");
    assert_eq!(network.attempts(), attempts + 1);
    assert_eq!(channel.connectivity(), Connectivity::Ready);
}

#[test]
fn a_call_that_waits_for_ready_outlasts_failed_attempts() {
    let network = Network::new(Weather::Refused);
    let channel = network.channel(ChannelOptions::default());
    let patient = network.executor.start(say(&channel.wait_for_ready(true), "patient"));
    let short = network.executor.start(say(&channel.wait_for_ready(true), "short").timeout(Duration::from_secs(3)));
    let eager = network.executor.start(say(&channel, "eager"));
    network.executor.run();
    assert_eq!(eager.take().expect("fails with the attempt").expect_err("refused").code(), Code::Unavailable);
    network.pass(MINUTE);
    assert!(network.attempts() > 3, "{} attempts in a minute", network.attempts());
    assert!(network.attempts() < 20, "{} attempts in a minute", network.attempts());
    let status = short.take().expect("timed out").expect_err("no connection");
    assert_eq!((status.code(), status.is_unprocessed()), (Code::DeadlineExceeded, true), "{status}");
    assert!(patient.take().is_none());
    network.set(Weather::Reachable);
    network.pass(3 * MINUTE);
    assert_eq!(patient.take().expect("done").expect("answered"), "patient");
    // Nobody waits: nobody tries.
    network.set(Weather::Refused);
    network.servers().iter().for_each(|server| server.abort(ErrorCode::NO_ERROR));
    let attempts = network.attempts();
    network.pass(10 * MINUTE);
    assert_eq!(network.attempts(), attempts);
}

/// A timeout of 1 s is 1 s, whatever the TCP stack thinks of an address that does not answer.
#[test]
fn a_deadline_covers_connecting_and_the_attempt_itself_is_bounded() {
    let network = Network::new(Weather::Silent);
    let channel = network.channel(ChannelOptions::default());
    let hurried = network.executor.start(say(&channel, "x").timeout(Duration::from_secs(1)));
    let (mut tx, mut rx) = BidiCall::new(channel.clone(), &CHAT).timeout(Duration::from_secs(1)).open();
    let sending = network.executor.start(async move { tx.send(&"x".to_owned()).await });
    let receiving = network.executor.start(async move { rx.next().await });
    let relaxed = network.executor.start(say(&channel, "x"));
    network.pass(Duration::from_secs(1));
    assert_eq!(hurried.take().expect("in time").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(sending.take().expect("in time").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(receiving.take().expect("in time").expect_err("too late").code(), Code::DeadlineExceeded);
    assert!(relaxed.take().is_none());
    network.pass(Duration::from_secs(20));
    let status = relaxed.take().expect("in time").expect_err("no connection");
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("20s"), "{status}");
}

/// What connecting took is taken off the deadline that the server sees.
#[test]
fn the_server_sees_what_remains_of_the_deadline() {
    let network = Network::new(Weather::Reachable);
    network.set_latency(Duration::from_secs(3));
    let channel = network.channel(ChannelOptions::default());
    let call = network.executor.start(say(&channel, "remaining").timeout(Duration::from_secs(10)));
    network.pass(Duration::from_secs(3));
    assert_eq!(call.take().expect("done").expect("answered"), "Some(7s)");
}

#[test]
fn a_caller_that_gives_up_takes_nothing_from_the_others() {
    let network = Network::new(Weather::Reachable);
    network.set_latency(Duration::from_secs(1));
    let channel = network.channel(ChannelOptions::default());
    let first = network.executor.start(say(&channel, "first"));
    let second = network.executor.start(say(&channel, "second"));
    network.executor.run();
    network.executor.kill(first.index);
    network.pass(Duration::from_secs(1));
    assert_eq!(second.take().expect("done").expect("answered"), "second");
    assert_eq!((network.attempts(), network.counters.started()), (1, 1), "the first never reached the server");
}

/// The channel may go before its calls.
#[test]
fn calls_outlive_the_channel() {
    let network = Network::new(Weather::Reachable);
    network.set_latency(Duration::from_secs(1));
    let channel = network.channel(ChannelOptions::default());
    let (mut tx, mut rx) = BidiCall::new(channel.clone(), &CHAT).open();
    drop(channel);
    let chat = network.executor.start(async move {
        tx.send(&"hello".to_owned()).await?;
        tx.finish();
        rx.next().await
    });
    network.pass(Duration::from_secs(1));
    assert_eq!(chat.take().expect("done").expect("echoed").as_deref(), Some("hello"));
    network.pass(Duration::from_secs(2));
    assert_eq!(network.executor.alive(), 0, "the connection was shut down");
}

/// bg:R10
#[test]
fn a_server_that_restarts_between_two_calls_is_reached_again() {
    let network = Network::new(Weather::Reachable);
    let channel = network.channel(ChannelOptions::default());
    assert_eq!(network.executor.block_on(say(&channel, "one")).expect("answered"), "one");
    network.servers()[0].abort(ErrorCode::NO_ERROR);
    network.executor.run();
    assert_eq!(channel.connectivity(), Connectivity::Idle);
    assert_eq!(network.executor.block_on(say(&channel, "two")).expect("answered"), "two");
    // Also when the client has not noticed yet: the call is replayed, for nobody has processed it.
    network.servers()[1].abort(ErrorCode::NO_ERROR);
    assert_eq!(network.executor.block_on(say(&channel, "three")).expect("answered"), "three");
    assert_eq!((network.attempts(), network.counters.started()), (3, 3));
}

/// bg:R10: calls that a draining server did not process move; those that it processes end there.
#[test]
fn a_draining_server_s_unprocessed_calls_move_to_the_next_connection() {
    let network = Network::new(Weather::Reachable);
    let channel = network.channel(ChannelOptions::default());
    let (mut tx, mut rx) = BidiCall::new(channel.clone(), &CHAT).open();
    network.executor.run();
    network.servers()[0].shutdown();
    network.executor.run();
    let moved = network.executor.start(say(&channel, "moved"));
    network.executor.run();
    assert_eq!(moved.take().expect("done").expect("answered"), "moved");
    assert_eq!(network.attempts(), 2);
    network.executor.block_on(async move {
        tx.send(&"stays".to_owned()).await.expect("sent");
        assert_eq!(rx.next().await.expect("echoed").as_deref(), Some("stays"));
        tx.finish();
    });
}

/// `tri:195`: a connection that is cut takes no idempotent call with it. Whether another one was processed nobody knows.
#[test]
fn a_call_whose_connection_is_cut_is_sent_again_if_its_method_is_idempotent() {
    static UNSAFE: Method<String, String> = Method::new("/test.Echo/Say", CallKind::Unary, false, CODECS);
    for (method, replays) in [(&SAY, 1), (&UNSAFE, 0)] {
        let network = Network::new(Weather::Reachable);
        let channel = network.channel(ChannelOptions::default());
        let call = network.executor.start(UnaryCall::new(channel, method, "wait".to_owned()));
        network.executor.run();
        network.cut(0);
        network.executor.run();
        assert_eq!(network.counters.started(), 1 + replays);
        assert_eq!(call.take().is_none(), replays == 1, "it waits again, or has failed");
        if replays == 1 {
            network.cut(1);
            network.executor.run();
            let status = call.take().expect("ended").expect_err("once and no more");
            assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport));
        }
    }
}

/// `tri:195`, `tri:Q81`: dubbo-go announces its end in a trailer; calls go to the next connection from then on.
#[test]
fn a_closing_trailer_moves_the_next_call_to_another_connection() {
    let network = Network::new(Weather::Reachable);
    let channel = network.channel(ChannelOptions::default());
    let slow = network.executor.start(say(&channel, "wait"));
    network.executor.run();
    network.executor.block_on(say(&channel, "closing")).expect("answered");
    assert_eq!(network.executor.block_on(say(&channel, "next")).expect("answered"), "next");
    assert_eq!(network.attempts(), 2);
    assert!(slow.take().is_none(), "what runs there goes on");
    network.cut(0);
    network.executor.run();
    assert!(slow.take().is_none(), "and is not lost when the connection is cut");
    assert_eq!((network.attempts(), network.counters.started()), (2, 4));
}

/// bg:R10, h2:A49, h2:B52: a call is replayed once, not for ever, also on a connection that never served one.
#[test]
fn a_call_that_nobody_processes_is_started_twice_and_no_more() {
    let network = Network::new(Weather::Reachable);
    network.set_server(|config| config.max_concurrent_streams = 0);
    let channel = network.channel(ChannelOptions::default());
    // The client does not know the server's limit yet, so its first call is refused.
    let call = network.executor.start(say(&channel, "x").timeout(Duration::from_secs(5)));
    network.pass(Duration::from_secs(5));
    let status = call.take().expect("ended").expect_err("no stream");
    assert!(status.is_unprocessed(), "{status}");
    assert_eq!(network.counters.started(), 0);
    assert_eq!(network.attempts(), 1);
}

#[test]
fn waiting_calls_are_bounded_by_max_pending_and_the_error_names_it() {
    let network = Network::new(Weather::Silent);
    let mut options = ChannelOptions::default();
    options.max_pending = 3;
    let channel = network.channel(options);
    let mut calls: Vec<_> = (0..3).map(|_| network.executor.start(say(&channel, "x"))).collect();
    network.executor.run();
    let status = network.executor.block_on(say(&channel, "x")).expect_err("one too many");
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("max_pending") && status.message().contains('3'), "{status}");
    // A call that gives up makes room.
    network.executor.kill(calls.remove(0).index);
    let next = network.executor.start(say(&channel, "x"));
    network.executor.run();
    assert!(next.take().is_none());
}

#[test]
fn several_connections_share_the_calls_if_asked_to() {
    let network = Network::new(Weather::Reachable);
    let mut options = ChannelOptions::default();
    options.connections = 3;
    let channel = network.channel(options);
    let waiting: Vec<_> = (0..9)
        .map(|_| {
            let call = network.executor.start(say(&channel, "wait"));
            network.executor.run();
            call
        })
        .collect();
    assert_eq!(network.attempts(), 3);
    let loads: Vec<_> = network.servers().iter().map(|server| server.open_calls()).collect();
    assert_eq!(loads.iter().sum::<usize>(), 9);
    assert!(loads.iter().all(|load| (2..=4).contains(load)), "{loads:?}");
    drop(waiting);
}

/// Ten thousand calls given up while connecting, and as many during backoff, leave nothing behind.
#[test]
fn calls_given_up_before_the_connection_leave_no_timer_and_no_waker() {
    let network = Network::new(Weather::Silent);
    let channel = network.channel(ChannelOptions::default());
    for _ in 0..10_000 {
        let mut call = Box::pin(say(&channel, "x").timeout(Duration::from_secs(3600)).into_future());
        let _ = call.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    }
    network.executor.run();
    assert_eq!(network.time.waiting(), 1, "the attempt's own timeout");
    network.pass(Duration::from_secs(20));
    assert_eq!((network.time.waiting(), network.executor.alive()), (0, 0));
}
