//! Layers: what waits around calls, on either side.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use trirpc_rpc::{
    BidiCall, BoxFuture, CallLayer, ChannelOptions, ClientSession, ClientStreamingCall, Code, IncomingCall, Layered,
    ManualTime, NextCall, NextService, Outcome, OutgoingCall, RawCall, Router, ServerStreamingCall, ServiceLayer,
    Status, UnaryCall,
};

use crate::support::echo::{Counters, Echo, text};
use crate::support::executor::Executor;
use crate::support::link::{Ends, link_in};
use crate::support::network::{Network, Weather};
use crate::support::{CHAT, GATHER, LOTS, Link, SAY};

/// A door that is opened once, for everybody who waits and who comes.
#[derive(Clone, Default)]
struct Gate(Arc<Mutex<Door>>);

#[derive(Default)]
struct Door {
    is_open: bool,
    waiters: Vec<Waker>,
}

impl Gate {
    fn open(&self) {
        let mut door = self.0.lock().unwrap();
        door.is_open = true;
        let waiters = std::mem::take(&mut door.waiters);
        drop(door);
        waiters.into_iter().for_each(Waker::wake);
    }

    async fn pass(&self) {
        poll_fn(|cx| {
            let mut door = self.0.lock().unwrap();
            if door.is_open {
                return Poll::Ready(());
            }
            door.waiters.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Fetches a token, which takes until the gate is open.
struct Token {
    gate: Gate,
    name: &'static str,
}

impl CallLayer for Token {
    fn prepare<'a>(&'a self, call: &'a mut OutgoingCall) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            self.gate.pass().await;
            if self.name == "refuses" {
                return Err(Status::unauthenticated("no token"));
            }
            Ok(call.metadata_mut().append("x-token", self.name)?)
        })
    }
}

fn link(service: impl FnOnce(Echo) -> Router) -> Link {
    let counters = Arc::new(Counters::default());
    let router = service(Echo { counters: counters.clone() });
    Link { counters, ..link_in(Executor::new(), ManualTime::new(), router, Ends::default()) }
}

fn plain() -> Link {
    link(|echo| Router::new().add(echo))
}

/// One call of every kind, to be started by `run` and looked at once it is done.
async fn every_kind(client: ClientSession) -> Result<Vec<String>, Status> {
    let mut all = Vec::new();
    let response = UnaryCall::new(client.clone(), &SAY, "one".into()).full().await?;
    all.push(text(response.headers(), "x-token").unwrap_or_default());
    all.push(response.into_message());
    let mut rx = ServerStreamingCall::new(client.clone(), &LOTS, "2".into()).await?;
    while let Some(message) = rx.next().await? {
        all.push(message);
    }
    let mut rx = ServerStreamingCall::new(client.clone(), &LOTS, "1".into()).open();
    while let Some(message) = rx.next().await? {
        all.push(message);
    }
    let (mut tx, reply) = ClientStreamingCall::new(client.clone(), &GATHER).open();
    tx.send(&"a".to_owned()).await?;
    tx.send(&"b".to_owned()).await?;
    tx.finish();
    all.push(reply.await?);
    // An end of sending before there is a call.
    let (tx, reply) = ClientStreamingCall::new(client.clone(), &GATHER).open();
    tx.finish();
    all.push(reply.await?);
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    tx.send(&"ping".to_owned()).await?;
    all.extend(rx.next().await?);
    tx.finish();
    assert_eq!(rx.next().await?, None);
    Ok(all)
}

#[test]
fn calls_of_every_kind_wait_for_what_a_layer_prepares() {
    let link = plain();
    let gate = Gate::default();
    let token = |name| Token { gate: gate.clone(), name };
    let client = link.client.clone().layer(token("outer")).layer(token("inner"));
    let all = link.executor.start(every_kind(client));
    link.executor.run();
    assert!(all.take().is_none());
    assert_eq!(link.client.open_calls(), 0, "no call was made yet");
    gate.open();
    link.executor.run();
    assert_eq!(all.take().expect("done").expect("answered"), ["outer", "one", "0", "1", "0", "a+b", "", "ping"]);
    link.assert_empty();
}

#[test]
fn what_a_layer_refuses_is_never_made() {
    let link = plain();
    let gate = Gate::default();
    gate.open();
    let client = link.client.clone().layer(Token { gate, name: "refuses" });
    let call = UnaryCall::new(client.clone(), &SAY, "one".into());
    assert_eq!(link.executor.block_on(call).expect_err("refused").code(), Code::Unauthenticated);
    let call = ServerStreamingCall::new(client.clone(), &LOTS, "2".into());
    assert_eq!(
        link.executor.block_on(async move { call.await.map(|_| ()) }).expect_err("refused").code(),
        Code::Unauthenticated
    );
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    let (sent, received) =
        link.executor.block_on(async move { (tx.send(&"x".to_owned()).await, rx.next().await.map(|_| ())) });
    assert_eq!(sent.expect_err("refused").code(), Code::Unauthenticated);
    assert_eq!(received.expect_err("refused").code(), Code::Unauthenticated);
    assert_eq!(link.counters.started(), 0);
    link.assert_empty();
}

/// Both halves of a call wait in tasks of their own, in any order, and one may leave.
#[test]
fn both_owners_of_a_call_get_on_once_its_layers_are_done() {
    for order in 0..4 {
        let link = plain();
        let gate = Gate::default();
        let client = link.client.clone().layer(Token { gate: gate.clone(), name: "t" });
        let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
        let send = async move {
            tx.send(&"x".to_owned()).await?;
            tx.finish();
            Ok::<_, Status>(())
        };
        let recv = async move { rx.next().await };
        let (sent, received) = if order % 2 == 0 {
            let sent = link.executor.start(send);
            (sent, link.executor.start(recv))
        } else {
            let received = link.executor.start(recv);
            (link.executor.start(send), received)
        };
        link.executor.run();
        let polls = link.executor.polls();
        link.executor.run();
        assert_eq!(link.executor.polls(), polls, "nobody wakes the other for nothing");
        if order >= 2 {
            // Dropping the sender cancels; the receiver hears of it.
            link.executor.kill(sent.index);
            link.executor.run();
            assert_eq!(received.take().expect("over").expect_err("cancelled").code(), Code::Cancelled);
            gate.open();
            link.executor.run();
            assert_eq!(link.counters.started(), 0);
        } else {
            gate.open();
            link.executor.run();
            sent.take().expect("done").expect("sent");
            assert_eq!(received.take().expect("done").expect("echoed").as_deref(), Some("x"));
        }
        link.assert_empty();
    }
}

/// The deadline runs while a layer waits, and what a layer makes late has what remains.
#[test]
fn the_time_of_a_layer_is_time_of_the_call() {
    let network = Network::new(Weather::Reachable);
    let gate = Gate::default();
    let channel = network.channel(ChannelOptions::default()).layer(Token { gate: gate.clone(), name: "t" });
    let call = |text: &str| UnaryCall::new(channel.clone(), &SAY, text.into()).timeout(Duration::from_secs(5));
    let late = network.executor.start(call("late"));
    let (mut tx, rx) = BidiCall::new(channel.clone(), &CHAT).timeout(Duration::from_secs(5)).open();
    let stream = network.executor.start(async move { tx.send(&"late".to_owned()).await });
    network.pass(Duration::from_secs(6));
    assert_eq!(late.take().expect("over").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(stream.take().expect("over").expect_err("too late").code(), Code::DeadlineExceeded);
    drop(rx);
    let early = network.executor.start(call("remaining"));
    network.pass(Duration::from_secs(2));
    gate.open();
    network.pass(Duration::from_secs(1));
    assert_eq!(early.take().expect("done").expect("answered"), "Some(3s)");
    // A session has no timer of its own: the deadline is seen when the call is made.
    let link = plain();
    let gate = Gate::default();
    let client = link.client.clone().layer(Token { gate: gate.clone(), name: "t" });
    let late = link.executor.start(UnaryCall::new(client, &SAY, "x".into()).timeout(Duration::from_secs(5)));
    link.executor.run();
    link.time.advance(Duration::from_secs(6));
    gate.open();
    link.executor.run();
    assert_eq!(late.take().expect("over").expect_err("too late").code(), Code::DeadlineExceeded);
    assert_eq!(link.counters.started(), 0);
}

/// Makes a second attempt when the first takes longer than a second; the first answer counts.
struct Hedge(Arc<AtomicUsize>);

impl CallLayer for Hedge {
    fn unary<'a>(&'a self, call: OutgoingCall, next: NextCall<'a>) -> BoxFuture<'a, Result<Outcome, Status>> {
        Box::pin(async move {
            self.0.fetch_add(1, Ordering::SeqCst);
            let mut first = pin!(next.unary(call.clone()));
            let mut sleep = next.sleep(next.now() + Duration::from_secs(1)).expect("a channel has timers");
            let answered = poll_fn(|cx| match first.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
            });
            if let Some(outcome) = answered.await {
                return outcome;
            }
            self.0.fetch_add(1, Ordering::SeqCst);
            let mut call = call;
            call.metadata_mut().append("x-attempt", "2")?;
            let mut second = pin!(next.unary(call));
            poll_fn(|cx| match first.as_mut().poll(cx) {
                Poll::Ready(outcome) => Poll::Ready(outcome),
                Poll::Pending => second.as_mut().poll(cx),
            })
            .await
        })
    }
}

/// Holds the first call of a service up for ever.
struct Stall(Arc<AtomicUsize>);

impl ServiceLayer for Stall {
    async fn call(&self, call: IncomingCall, next: NextService) {
        if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
            std::future::pending::<()>().await;
        }
        next.call(call).await;
    }
}

#[test]
fn a_layer_may_make_a_call_twice_at_once_and_the_loser_is_cancelled() {
    let network = Network::new(Weather::Reachable);
    let calls = Arc::new(AtomicUsize::new(0));
    network.set_service(move |echo| Router::new().add(Layered::new(echo, Stall(Arc::clone(&calls)))));
    let attempts = Arc::new(AtomicUsize::new(0));
    let channel = network.channel(ChannelOptions::default()).layer(Hedge(Arc::clone(&attempts)));
    let call = UnaryCall::new(channel.clone(), &SAY, "hi".into());
    let reply = network.executor.start(call.full());
    network.pass(Duration::from_millis(500));
    assert!(reply.take().is_none());
    network.pass(Duration::from_secs(1));
    let reply = reply.take().expect("done").expect("answered");
    assert_eq!(text(reply.headers(), "x-attempt").as_deref(), Some("2"));
    assert_eq!(attempts.load(Ordering::SeqCst), 2);
    network.executor.run();
    assert!(network.servers().iter().all(|server| server.open_calls() == 0), "the first attempt is gone");
    network.executor.block_on(UnaryCall::new(channel, &SAY, "hi".into())).expect("answered");
    assert_eq!(attempts.load(Ordering::SeqCst), 3, "an answer in time is enough");
}

/// Looks up who calls, and tells the handler; refuses strangers.
struct Rights {
    gate: Gate,
}

struct User(String);

impl ServiceLayer for Rights {
    async fn call(&self, mut call: IncomingCall, next: NextService) {
        self.gate.pass().await;
        let Some(token) = text(call.metadata(), "x-token") else {
            return call.reject(Status::unauthenticated("who are you?"));
        };
        call.extensions_mut().insert(User(token));
        call.metadata_mut().append("x-checked", "yes").expect("valid");
        next.call(call).await;
    }
}

/// Checks what the layer outside left for those inside.
struct Inside(Arc<AtomicUsize>);

impl ServiceLayer for Inside {
    async fn call(&self, mut call: IncomingCall, next: NextService) {
        assert_eq!(call.extensions_mut().get::<User>().map(|user| user.0.as_str()), Some("t"));
        assert!(call.deadline().is_none() && call.peer() == Some("memory"));
        self.0.fetch_add(1, Ordering::SeqCst);
        next.call(call).await;
    }
}

#[test]
fn a_service_inside_a_layer_serves_every_kind_of_call() {
    let (gate, seen) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (lookup, inside) = (Rights { gate: gate.clone() }, Inside(Arc::clone(&seen)));
    let link = link(|echo| Router::new().add(Layered::new(Layered::new(echo, inside), lookup)));
    let stranger = link.executor.start(every_kind(link.client.clone()));
    let open = Gate::default();
    open.open();
    let client = link.client.clone().layer(Token { gate: open, name: "t" });
    let known = link.executor.start(every_kind(client.clone()));
    link.executor.run();
    assert!(stranger.take().is_none() && known.take().is_none());
    assert_eq!(link.server.open_calls(), 2);
    gate.open();
    link.executor.run();
    assert_eq!(stranger.take().expect("over").expect_err("refused").code(), Code::Unauthenticated);
    assert_eq!(known.take().expect("done").expect("answered"), ["t", "one", "0", "1", "0", "a+b", "", "ping"]);
    assert_eq!(seen.load(Ordering::SeqCst), 6, "six calls");
    let full = link.executor.block_on(UnaryCall::new(client, &SAY, "x".into()).full()).expect("answered");
    assert_eq!(text(full.headers(), "x-checked").as_deref(), Some("yes"));
    link.assert_empty();
}

/// A stream that a layer replaces: the typed front does not know.
struct Refer(ClientSession);

impl CallLayer for Refer {
    fn stream<'a>(&'a self, call: OutgoingCall, _: NextCall<'a>) -> BoxFuture<'a, Result<RawCall, Status>> {
        use trirpc_rpc::{CallOptions, Invoke};
        Box::pin(async move { Ok(self.0.start(call.method(), &CallOptions::default(), "text")) })
    }
}

#[test]
fn a_layer_may_send_a_stream_elsewhere() {
    let (here, there) = (plain(), plain());
    let client = here.client.clone().layer(Refer(there.client.clone()));
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    let echoed = here.executor.start(async move {
        tx.send(&"far".to_owned()).await?;
        rx.next().await
    });
    here.executor.run();
    there.executor.run();
    here.executor.run();
    assert_eq!(echoed.take().expect("done").expect("echoed").as_deref(), Some("far"));
    assert_eq!((here.counters.started(), there.counters.started()), (0, 1));
}
