//! Interceptors: which hook runs when, what it may change, and what it sees.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use trirpc_rpc::{
    BidiCall, CallInfo, CallKind, CallSide, ChannelOptions, ClientStreamingCall, Code, Instant, Interceptor,
    ManualTime, Method, Router, ServerStreamingCall, Status, Time, Timeline, UnaryCall,
};

use crate::support::echo::{CODECS, Counters, Echo, text};
use crate::support::executor::Executor;
use crate::support::link::{Ends, link_in};
use crate::support::network::{Network, Weather};
use crate::support::rle::{Fault, Rle};
use crate::support::{CHAT, GATHER, LOTS, Link, SAY};

/// Writes down every hook, and refuses, adds or counts as it is told.
#[derive(Clone, Default)]
struct Log {
    name: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    finished: Arc<Mutex<Vec<Seen>>>,
    refuses: bool,
}

/// What `on_finish` saw.
#[derive(Clone, Debug)]
struct Seen {
    side: CallSide,
    path: String,
    code: Code,
    timeline: Timeline,
    sent: (u64, u64),
    received: (u64, u64),
    session: Option<u64>,
    replays: u32,
    peer: Option<String>,
}

struct Mark;

impl Log {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    fn line(&self, text: &str) {
        self.lines.lock().unwrap().push(format!("{}{text}", self.name));
    }

    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock().unwrap())
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.finished.lock().unwrap())
    }

    /// The one call that has finished since the last look.
    fn one(&self) -> Seen {
        let mut seen = self.seen();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }
}

impl Interceptor for Log {
    fn on_request(&self, call: &mut CallInfo) -> Result<(), Status> {
        self.line("request");
        if self.refuses {
            return Err(Status::permission_denied("not today"));
        }
        call.extensions_mut().insert(Mark);
        let key = format!("x-{}", self.name);
        call.metadata_mut().append(&key, "added").map_err(Status::from)
    }

    fn on_response(&self, call: &mut CallInfo) {
        assert!(call.extensions().get::<Mark>().is_some(), "the hooks of a call share their extensions");
        self.line("response");
        if call.side() == CallSide::Server {
            call.response_mut().append("x-answered", self.name).unwrap();
        }
    }

    fn on_finish(&self, call: &CallInfo, status: &Status) {
        self.line(&format!("finish {}", status.code() as u32));
        self.finished.lock().unwrap().push(Seen {
            side: call.side(),
            path: call.method().path().to_owned(),
            code: status.code(),
            timeline: *call.timeline(),
            sent: (call.sent().messages, call.sent().bytes),
            received: (call.received().messages, call.received().bytes),
            session: call.session(),
            replays: call.replays(),
            peer: call.peer().map(str::to_owned),
        });
    }
}

fn link(equip: impl FnOnce(Router) -> Router) -> Link {
    let counters = Arc::new(Counters::default());
    let router = equip(Router::new().add(Echo { counters: counters.clone() }));
    Link { counters, ..link_in(Executor::new(), ManualTime::new(), router, Ends::default()) }
}

#[test]
fn hooks_nest_and_what_they_add_arrives_on_the_other_side() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = |name| Log { lines: Arc::clone(&lines), ..Log::new(name) };
    let link = link(|router| router.interceptor(log("c")).interceptor(log("d")));
    let client = link.client.clone().interceptor(log("a")).interceptor(log("b"));
    let response = link.executor.block_on(UnaryCall::new(client, &SAY, "hi".into()).full()).expect("answered");
    let hooks = std::mem::take(&mut *lines.lock().unwrap());
    let expected = [
        "arequest",
        "brequest",
        "crequest",
        "drequest",
        "dresponse",
        "cresponse",
        "dfinish 0",
        "cfinish 0",
        "bresponse",
        "aresponse",
        "bfinish 0",
        "afinish 0",
    ];
    assert_eq!(hooks, expected);
    // The echo sends back what begins with `x-`: two from the client's hooks, two from the server's.
    for name in ["a", "b", "c", "d"] {
        assert_eq!(text(response.headers(), &format!("x-{name}")).as_deref(), Some("added"), "{name}");
    }
    let answered: Vec<_> = response.headers().get_all("x-answered").filter_map(|value| value.to_str()).collect();
    assert_eq!(answered, ["d", "c"]);
    link.assert_empty();
}

#[test]
fn a_refusal_is_the_outcome_and_only_those_who_let_the_call_pass_see_its_end() {
    let refusing = || Log { refuses: true, ..Log::new("refuses-") };
    let (before, after) = (Log::new("before-"), Log::new("after-"));
    let on_server =
        link(|router| router.interceptor(before.clone()).interceptor(refusing()).interceptor(after.clone()));
    let on_client = link(|router| router);
    let client = on_client.client.clone();
    let client = client.interceptor(before.clone()).interceptor(refusing()).interceptor(after.clone());
    for (link, client) in [(&on_server, on_server.client.clone()), (&on_client, client)] {
        let status = link.executor.block_on(UnaryCall::new(client.clone(), &SAY, "hi".into())).expect_err("refused");
        assert_eq!((status.code(), status.message()), (Code::PermissionDenied, "not today"));
        assert_eq!(before.lines(), ["before-request", "before-finish 7"]);
        let seen = before.one();
        assert!(seen.timeline.finished.is_some());
        let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
        let (sent, status) = link.executor.block_on(async move {
            let status = rx.next().await;
            (tx.send(&"late".to_owned()).await, status)
        });
        assert_eq!(status.expect_err("refused").code(), Code::PermissionDenied);
        assert!(sent.is_err());
        assert_eq!(before.lines(), ["before-request", "before-finish 7"]);
        assert!(after.lines().is_empty());
        assert_eq!(link.counters.started(), 0, "no handler ran");
        before.seen();
        link.assert_empty();
    }
}

/// bg:V8 — when what happened, on both sides, of a call whose every step takes a second.
#[test]
fn the_timeline_tells_where_the_time_went() {
    let (near, far) = (Log::new("n"), Log::new("f"));
    let link = link(|router| router.interceptor(far.clone()));
    let client = link.client.clone().interceptor(near.clone());
    let start = Time::now(&link.time);
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let tick = || {
        link.executor.run();
        link.time.advance(Duration::from_secs(1));
    };
    tick();
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    tick(); // at 1 it was opened and left
    let sent = link.executor.start(async move {
        tx.send(&"four".to_owned()).await.unwrap();
        tx
    });
    tick(); // at 2 the message went there and back
    let received = link.executor.start(async move {
        assert_eq!(rx.next().await.unwrap().unwrap(), "four");
        rx
    });
    tick(); // at 3 it was taken
    let (mut tx, mut rx) = (sent.take().unwrap(), received.take().unwrap());
    let sent = link.executor.start(async move {
        tx.send(&"seven!!".to_owned()).await.unwrap();
        tx.finish();
    });
    tick(); // at 4 the second message went, and the end
    sent.take().unwrap();
    let all = link.executor.block_on(async move {
        assert_eq!(rx.next().await.unwrap().unwrap(), "seven!!");
        rx.next().await
    });
    assert_eq!(all.unwrap(), None);
    let near = near.one();
    assert_eq!((near.side, near.path.as_str(), near.code), (CallSide::Client, "/test.Echo/Chat", Code::Ok));
    assert_eq!((near.sent, near.received), ((2, 11), (2, 11)));
    let Timeline { opened, assigned, first_byte_out, head_in, finished, .. } = near.timeline;
    assert_eq!((opened, assigned, first_byte_out), (at(1), Some(at(1)), Some(at(1))));
    assert_eq!((head_in, finished), (Some(at(2)), Some(at(4))));
    assert_eq!((near.timeline.first_message_out, near.timeline.last_message_out), (Some(at(2)), Some(at(4))));
    assert_eq!((near.timeline.first_message_in, near.timeline.last_message_in), (Some(at(3)), Some(at(5))));
    let far = far.one();
    assert_eq!((far.side, far.path.as_str(), far.code), (CallSide::Server, "/test.Echo/Chat", Code::Ok));
    assert_eq!((far.sent, far.received), ((2, 11), (2, 11)));
    let Timeline { opened, assigned, first_byte_out, head_in, finished, .. } = far.timeline;
    assert_eq!((opened, assigned, head_in), (at(1), None, Some(at(1))));
    assert_eq!((first_byte_out, finished), (Some(at(2)), Some(at(4))));
    assert_eq!((far.timeline.first_message_in, far.timeline.last_message_out), (Some(at(2)), Some(at(4))));
    assert!(near.session.is_some() && far.session.is_some() && near.session != far.session);
    assert_eq!(far.peer.as_deref(), Some("memory"));
    link.assert_empty();
}

/// bg:V8 — bytes are those on the wire.
#[test]
fn every_kind_of_call_is_counted() {
    let (near, far) = (Log::new("n"), Log::new("f"));
    let link = link(|router| router.interceptor(far.clone()).accept_compression(Rle::new(Fault::None)));
    let client = link.client.clone().interceptor(near.clone());
    let both = |what: &str, there: (u64, u64), back: (u64, u64)| {
        link.executor.run();
        let (near, far) = (near.one(), far.one());
        assert_eq!((near.code, near.sent, near.received), (Code::Ok, there, back), "{what}, client");
        assert_eq!((far.code, far.received, far.sent), (Code::Ok, there, back), "{what}, server");
    };
    link.executor.block_on(UnaryCall::new(client.clone(), &SAY, "hello".into())).expect("answered");
    both("unary", (1, 5), (1, 5));
    link.executor.block_on(UnaryCall::new(client.clone(), &SAY, "large".into())).expect("answered");
    both("a large answer", (1, 5), (1, 100_000));
    link.executor.block_on(UnaryCall::new(client.clone(), &SAY, "y".repeat(50_000))).expect("answered");
    both("large both ways", (1, 50_000), (1, 50_000));
    let packed = client.clone().send_compression(Rle::new(Fault::None));
    link.executor.block_on(UnaryCall::new(packed, &SAY, "y".repeat(2550))).expect("answered");
    both("compressed", (1, 20), (1, 20));
    let call = ServerStreamingCall::new(client.clone(), &LOTS, "3x10".into());
    link.executor.block_on(async move {
        let mut rx = call.await.expect("headers");
        while rx.next().await.expect("messages").is_some() {}
    });
    both("server stream", (1, 4), (3, 33));
    let (mut tx, reply) = ClientStreamingCall::new(client, &GATHER).open();
    link.executor.block_on(async move {
        for word in ["one", "", "three"] {
            tx.send(&word.to_owned()).await.expect("sent");
        }
        tx.finish();
        reply.await.expect("answered")
    });
    both("client stream", (3, 8), (1, 10));
    link.assert_empty();
}

/// Every way in which a call may end is told once, with its code.
#[test]
fn the_end_is_told_once_however_it_comes() {
    let (near, far) = (Log::new("n"), Log::new("f"));
    let link = link(|router| router.interceptor(far.clone()));
    let client = || link.client.clone().interceptor(near.clone());
    let expect = |what: &str, near_code: Code, far_code: Option<Code>| {
        link.executor.run();
        assert_eq!(near.one().code, near_code, "{what}, client");
        let far: Vec<Code> = far.seen().iter().map(|seen| seen.code).collect();
        assert_eq!(far, far_code.into_iter().collect::<Vec<_>>(), "{what}, server");
    };
    let say = |text: &str| UnaryCall::new(client(), &SAY, text.to_owned());

    link.executor.block_on(say("fail")).expect_err("fails");
    expect("an error", Code::NotFound, Some(Code::NotFound));
    link.executor.block_on(say("panic")).expect_err("fails");
    expect("a panic", Code::Internal, Some(Code::Internal));
    link.executor.block_on(say("lie")).expect_err("fails");
    expect("a codec that fails", Code::Internal, Some(Code::Internal));
    let waiting = link.executor.start(say("wait").timeout(Duration::from_secs(3)));
    link.executor.run();
    link.time.advance(Duration::from_secs(4));
    link.executor.run();
    waiting.take().expect("over").expect_err("too late");
    expect("a deadline", Code::DeadlineExceeded, Some(Code::DeadlineExceeded));
    let waiting = link.executor.start(say("wait"));
    link.executor.run();
    link.executor.kill(waiting.index);
    expect("a dropped call", Code::Cancelled, Some(Code::Cancelled));
    let (tx, rx) = BidiCall::new(client(), &CHAT).open();
    drop((tx, rx));
    link.executor.run();
    assert_eq!(near.one().code, Code::Cancelled);
    far.seen();
    let mut rx = ServerStreamingCall::new(client(), &LOTS, "100000x100".into()).open();
    let rx = link.executor.block_on(async move {
        rx.next().await.expect("a message");
        rx
    });
    drop(rx);
    expect("a stream dropped half-way", Code::Cancelled, Some(Code::Cancelled));
    static ONCE: Method<String, String> = Method::new("/test.Echo/Say", CallKind::Unary, false, CODECS);
    let waiting = link.executor.start(UnaryCall::new(client(), &ONCE, "wait".to_owned()));
    link.executor.run();
    link.executor.kill(link.client_driver);
    link.executor.run();
    waiting.take().expect("over").expect_err("the connection is gone");
    expect("a lost connection", Code::Unavailable, Some(Code::Cancelled));
    link.executor.block_on(say("hi")).expect_err("the connection is gone");
    let seen: Vec<_> = near.seen().iter().map(|seen| (seen.code, seen.replays)).collect();
    assert_eq!(seen, [(Code::Unavailable, 0), (Code::Unavailable, 1)], "a call that cannot start");
    assert!(far.seen().is_empty());
    link.assert_empty();
}

/// bg:V8 — the wait for a connection, replays and the target are seen too.
#[test]
fn a_channels_calls_are_seen_from_before_there_is_a_connection() {
    let network = Network::new(Weather::Reachable);
    network.set_latency(Duration::from_secs(2));
    let log = Log::new("");
    let channel = network.channel(ChannelOptions::default()).interceptor(log.clone());
    let say = || UnaryCall::new(channel.clone(), &SAY, "hi".into());
    let opened = Time::now(&network.time);
    let call = network.executor.start(say());
    network.pass(Duration::from_secs(3));
    call.take().expect("done").expect("answered");
    let seen = log.one();
    let connected = Some(opened + Duration::from_secs(2));
    assert_eq!((seen.timeline.opened, seen.timeline.assigned, seen.replays), (opened, connected, 0));
    assert_eq!(seen.timeline.first_byte_out, connected);
    assert_eq!(seen.peer.as_deref(), Some("http://echo.test:50051"));
    // The server refuses new calls on this connection: the call is made again on another, and seen again.
    network.servers()[0].shutdown();
    network.executor.run();
    let call = network.executor.start(say());
    network.pass(Duration::from_secs(3));
    call.take().expect("done").expect("answered");
    let last = log.seen().pop().expect("seen");
    assert_ne!(last.session, seen.session);
    // No connection at all, a deadline while waiting, and a caller who leaves.
    let network = Network::new(Weather::Silent);
    let channel = network.channel(ChannelOptions::default()).interceptor(log.clone());
    let call =
        network.executor.start(UnaryCall::new(channel.clone(), &SAY, "hi".into()).timeout(Duration::from_secs(1)));
    let dropped = network.executor.start(UnaryCall::new(channel.clone(), &SAY, "hi".into()));
    network.executor.run();
    network.executor.kill(dropped.index);
    assert_eq!(log.one().code, Code::Cancelled);
    network.pass(Duration::from_secs(2));
    call.take().expect("done").expect_err("too late");
    let seen = log.one();
    assert_eq!((seen.code, seen.session, seen.timeline.assigned), (Code::DeadlineExceeded, None, None));
    let call = network.executor.start(UnaryCall::new(channel, &SAY, "hi".into()));
    network.pass(Duration::from_secs(30));
    call.take().expect("done").expect_err("no connection");
    // Nobody has processed it, so that it was made again, for as little.
    let seen: Vec<_> = log.seen().iter().map(|seen| (seen.code, seen.replays)).collect();
    assert_eq!(seen, [(Code::Unavailable, 0), (Code::Unavailable, 1)]);
}

/// A hook may use the session: none runs under its lock.
#[test]
fn hooks_hold_no_lock() {
    struct Looks<F>(F);
    impl<F: Fn() -> usize + Send + Sync + 'static> Interceptor for Looks<F> {
        fn on_request(&self, _: &mut CallInfo) -> Result<(), Status> {
            (self.0)();
            Ok(())
        }
        fn on_response(&self, _: &mut CallInfo) {
            (self.0)();
        }
        fn on_finish(&self, _: &CallInfo, _: &Status) {
            (self.0)();
        }
    }
    let server: Arc<Mutex<Option<trirpc_rpc::ServerSession>>> = Arc::default();
    let inside = Arc::clone(&server);
    let link = link(|router| {
        router.interceptor(Looks(move || inside.lock().unwrap().as_ref().map_or(0, |server| server.open_calls())))
    });
    *server.lock().unwrap() = Some(link.server.clone());
    let session = link.client.clone();
    let client = link.client.clone().interceptor(Looks(move || session.open_calls()));
    link.executor.block_on(UnaryCall::new(client.clone(), &SAY, "hi".into())).expect("answered");
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    link.executor.block_on(async move {
        tx.send(&"hi".to_owned()).await.expect("sent");
        assert!(rx.next().await.expect("echoed").is_some());
    });
    server.lock().unwrap().take();
}

#[test]
fn a_hook_that_panics_on_the_server_costs_its_call_alone() {
    struct Panics(fn(&str) -> bool);
    impl Interceptor for Panics {
        fn on_request(&self, _: &mut CallInfo) -> Result<(), Status> {
            assert!(!self.0("request"), "as the test asks");
            Ok(())
        }
        fn on_response(&self, _: &mut CallInfo) {
            assert!(!self.0("response"), "as the test asks");
        }
        fn on_finish(&self, _: &CallInfo, _: &Status) {
            assert!(!self.0("finish"), "as the test asks");
        }
    }
    for (hook, code) in [
        ((|at| at == "request") as fn(&str) -> bool, Some(Code::Internal)),
        (|at| at == "response", Some(Code::Internal)),
        (|at| at == "finish", None),
    ] {
        let link = link(|router| router.interceptor(Panics(hook)));
        let status = link.executor.block_on(UnaryCall::new(link.client.clone(), &SAY, "hi".into()));
        assert_eq!(status.err().map(|status| status.code()), code);
        link.assert_empty();
    }
}

#[test]
fn a_hook_may_give_a_call_its_time() {
    struct Second;
    impl Interceptor for Second {
        fn on_request(&self, call: &mut CallInfo) -> Result<(), Status> {
            assert_eq!(call.timeline().opened, Instant::from_nanos(call.timeline().opened.as_nanos()));
            call.set_timeout(Some(Duration::from_secs(1)));
            Ok(())
        }
    }
    let link = link(|router| router);
    let call = UnaryCall::new(link.client.clone().interceptor(Second), &SAY, "remaining".into());
    assert_eq!(link.executor.block_on(call).expect("answered"), "Some(1s)");
}
