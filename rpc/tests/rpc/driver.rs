//! The driver against transports that misbehave.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_core::{ConnectionError, ErrorCode, Timeout, TransportError};
use trirpc_rpc::{
    BidiCall, ClientSession, Code, Config, Duplex, Endpoint, HttpVersion, ManualTime, Origin, Router, UnaryCall,
    duplex, handshake, serve_connection,
};

use crate::support::echo::{Counters, Echo};
use crate::support::executor::{Executor, Outcome};
use crate::support::script::{Script, Scripted, Step};
use crate::support::{CHAT, SAY, link};

struct Rig {
    executor: Executor,
    time: ManualTime,
    client: ClientSession,
    script: Script,
    ended: Arc<Mutex<Option<ConnectionError>>>,
}

/// What a pipe holds: as much as the largest window.
const PIPE: usize = 256 * 1024;

/// A client on a scripted transport, and the bare other end of its pipe.
fn client(vectored: bool, config: Config) -> (Rig, Duplex) {
    let (near, far) = duplex(PIPE);
    let (near, script) = Scripted::new(near, vectored);
    let (executor, time) = (Executor::new(), ManualTime::new());
    let endpoint = Endpoint::http("test");
    let (client, driver) = handshake(near, Arc::new(config), endpoint, HttpVersion::Http2, time.clone());
    let ended = Arc::new(Mutex::new(None));
    let end = Arc::clone(&ended);
    executor.spawn(async move {
        let error = driver.await;
        *end.lock().unwrap() = Some(error);
    });
    (Rig { executor, time, client, script, ended }, far)
}

/// The same with a server at the other end.
fn served(vectored: bool) -> Rig {
    let (rig, far) = client(vectored, Config::default());
    let router = Router::new().add(Echo { counters: Arc::new(Counters::default()) });
    let tasks = rig.executor.clone();
    let config = Arc::new(Config::default());
    let (_, driver) = serve_connection(far, Arc::new(router), config, rig.time.clone(), move |task| {
        tasks.spawn(task);
    });
    rig.executor.spawn(async move { drop(driver.await) });
    rig
}

impl Rig {
    fn say(&self, text: &str) -> Outcome<Result<String, trirpc_rpc::Status>> {
        self.executor.start(UnaryCall::new(self.client.clone(), &SAY, text.to_owned()))
    }

    fn ended(&self) -> Option<ConnectionError> {
        self.ended.lock().unwrap().clone()
    }
}

#[test]
fn one_byte_at_a_time_is_enough_in_both_directions() {
    for vectored in [true, false] {
        let rig = served(vectored);
        rig.script.writes(vec![Step::UpTo(1); 10_000]);
        rig.script.reads(vec![Step::UpTo(1); 10_000]);
        let text = "x".repeat(2000);
        let call = rig.say(&text);
        rig.executor.run();
        assert_eq!(call.take().expect("done").expect("answered"), text);
    }
}

/// `h2:E2`, arch:C9, bg:W19: a transport that takes a part, or nothing for now, gets the rest later.
#[test]
fn short_writes_pending_and_interrupted_ones_lose_and_repeat_nothing() {
    for vectored in [true, false] {
        let plain = served(vectored);
        let text = "y".repeat(40_000);
        let call = plain.say(&text);
        plain.executor.run();
        call.take().expect("done").expect("answered");

        let rig = served(vectored);
        let steps = [
            Step::UpTo(7),
            Step::Later,
            Step::Fail(io::ErrorKind::Interrupted),
            Step::UpTo(9),
            Step::UpTo(4000),
            Step::Later,
        ];
        rig.script.writes(steps.iter().cycle().take(200).cloned());
        rig.script.reads(steps.iter().cycle().take(200).cloned());
        let call = rig.say(&text);
        rig.executor.run();
        assert_eq!(call.take().expect("done").expect("answered"), text);
        let (short, long) = (rig.script.written(), plain.script.written());
        // The acknowledgements of the peer's SETTINGS and windows may fall elsewhere; the request may not.
        assert!(short.len().abs_diff(long.len()) < 64, "{} and {} bytes", short.len(), long.len());
    }
}

/// Without vectored writes, small frames of many calls still leave in large pieces.
#[test]
fn a_one_slice_transport_gets_large_pieces() {
    let rig = served(false);
    let calls: Vec<_> = (0..50).map(|i| rig.say(&format!("{i:02000}"))).collect();
    rig.executor.run();
    for call in calls {
        call.take().expect("done").expect("answered");
    }
    assert!(rig.script.write_calls() < 30, "{} writes for 50 requests of 2 kB", rig.script.write_calls());
}

/// `h2:B34`, `h2:Q12`, arch:C9, bg:W19: a transport that takes nothing and says so has failed; nothing is lost
/// without a word.
#[test]
fn a_write_that_takes_nothing_is_a_failure_and_no_loop() {
    let (rig, _far) = client(true, Config::default());
    rig.script.writes([Step::Zero]);
    let call = rig.say("x");
    rig.executor.run();
    let status = call.take().expect("woken").expect_err("gone");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
    assert_eq!(rig.ended(), Some(ConnectionError::Transport(TransportError::WriteZero)));
    assert!(rig.script.write_calls() < 5);
}

/// bg:S17
#[test]
fn a_reset_fails_the_calls_and_says_so() {
    let rig = served(true);
    let call = rig.say("wait");
    rig.executor.run();
    rig.script.reads([Step::Fail(io::ErrorKind::ConnectionReset)]);
    let other = rig.say("x");
    rig.executor.run();
    let late = rig.say("late");
    rig.executor.run();
    for call in [call, other, late] {
        let status = call.take().expect("woken").expect_err("gone");
        assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
        let said = io::Error::from(io::ErrorKind::ConnectionReset).to_string();
        assert!(status.message().ends_with(&said), "{status} keeps what the transport said");
    }
    assert_eq!(rig.ended(), Some(ConnectionError::Transport(TransportError::Reset)));
    assert!(!rig.client.is_open());
}

/// A peer that has answered and closed: its answer is read although writing fails.
#[test]
fn what_arrived_before_a_failed_write_is_still_read() {
    let rig = served(true);
    rig.script.reads([Step::Stuck]);
    let call = rig.say("answered");
    rig.executor.run();
    assert!(call.take().is_none(), "the answer waits in the pipe");
    rig.script.writes([Step::Fail(io::ErrorKind::BrokenPipe)]);
    let late = rig.say("never written");
    // The read side recovers in the same moment in which the write side is found broken.
    rig.script.unstick_reads();
    rig.executor.run();
    assert_eq!(call.take().expect("woken").expect("its answer was there"), "answered");
    assert_eq!(late.take().expect("woken").expect_err("gone").code(), Code::Unavailable);
    assert!(matches!(rig.ended(), Some(ConnectionError::Transport(TransportError::Reset))), "{:?}", rig.ended());
}

#[test]
fn an_end_in_the_middle_of_a_frame_is_an_error_of_the_transport() {
    let (rig, mut far) = client(true, Config::default());
    let call = rig.say("x");
    rig.executor.run();
    // Five of the nine bytes of a frame header.
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut far).poll_write(&mut cx, &[0, 0, 9, 4, 0]).is_ready());
    drop(far);
    rig.executor.run();
    let status = call.take().expect("woken").expect_err("gone");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
    assert!(matches!(rig.ended(), Some(ConnectionError::Transport(TransportError::Eof))), "{:?}", rig.ended());
}

/// A driver that is stuck on a full socket is not polled for output that the socket does not take, but
/// deadlines and cancellations reach their owners.
#[test]
fn a_stuck_writer_is_not_woken_for_more_output_but_for_a_sooner_timer() {
    let rig = served(true);
    let call = rig.say("settled");
    rig.executor.run();
    call.take().expect("done").expect("answered");
    rig.script.writes([Step::Stuck]);
    let first = rig.say("first");
    rig.executor.run();
    let polls = rig.script.write_calls();
    let more: Vec<_> = (0..10).map(|_| rig.say("more")).collect();
    rig.executor.run();
    assert_eq!(rig.script.write_calls(), polls, "nobody tried again");
    let hurried = rig
        .executor
        .start(UnaryCall::new(rig.client.clone(), &SAY, "hurried".to_owned()).timeout(Duration::from_millis(10)));
    rig.executor.run();
    rig.time.advance(Duration::from_millis(10));
    rig.executor.run();
    assert_eq!(hurried.take().expect("woken").expect_err("too late").code(), Code::DeadlineExceeded);
    assert!(first.take().is_none());
    rig.script.release();
    rig.executor.run();
    first.take().expect("done").expect("answered");
    for call in more {
        call.take().expect("done").expect("answered");
    }
}

/// The halves of a call wake each other even while the driver is stuck.
#[test]
fn a_cancelled_half_wakes_the_other_while_the_socket_is_full() {
    let rig = served(true);
    rig.executor.run();
    let (mut tx, rx) = BidiCall::new(rig.client.clone(), &CHAT).open();
    rig.executor.run();
    rig.script.writes([Step::Stuck]);
    let sending = rig.executor.start(async move {
        loop {
            if let Err(status) = tx.send(&"-".repeat(10_000)).await {
                return status;
            }
        }
    });
    rig.executor.run();
    assert!(sending.take().is_none(), "its buffer is full");
    drop(rx);
    rig.executor.run();
    assert_eq!(sending.take().expect("woken").code(), Code::Cancelled);
}

#[test]
fn a_peer_that_never_reads_is_given_up_after_the_write_stall_timeout() {
    let rig = served(true);
    rig.executor.run();
    rig.script.writes([Step::Stuck]);
    let call = rig.say("x");
    rig.executor.run();
    rig.time.advance(Config::default().write_stall_timeout.expect("on") + Duration::from_secs(1));
    rig.executor.run();
    let status = call.take().expect("woken").expect_err("stuck");
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
    rig.time.advance(Duration::from_secs(1));
    rig.executor.run();
    assert_eq!(rig.ended(), Some(ConnectionError::Timeout(Timeout::WriteStall)), "the driver ended too");
}

/// Ending a connection whose peer does not read takes a bounded time, whatever else there is to read.
#[test]
fn an_aborted_connection_to_a_stuck_or_talkative_peer_ends_in_bounded_time() {
    let rig = served(true);
    rig.executor.run();
    rig.script.writes([Step::Stuck]);
    let call = rig.say("x");
    rig.executor.run();
    rig.client.abort(ErrorCode::CANCEL);
    rig.executor.run();
    call.take().expect("woken").expect_err("aborted");
    assert_eq!(rig.ended(), None, "its last bytes wait for the socket");
    rig.time.advance(Config::default().write_stall_timeout.expect("on"));
    rig.executor.run();
    rig.time.advance(Duration::from_secs(1));
    rig.executor.run();
    assert_eq!(rig.ended(), Some(ConnectionError::Aborted(ErrorCode::CANCEL)));

    let (rig, mut far) = client(true, Config::default());
    rig.executor.run();
    rig.client.abort(ErrorCode::CANCEL);
    rig.executor.run();
    assert_eq!(rig.ended(), None, "the peer's last bytes are awaited");
    let mut cx = Context::from_waker(Waker::noop());
    rig.time.advance(Duration::from_secs(1));
    while Pin::new(&mut far).poll_write(&mut cx, &[0; 4096]).is_ready() {}
    rig.executor.run();
    assert_eq!(rig.ended(), Some(ConnectionError::Aborted(ErrorCode::CANCEL)), "but not for ever");
}

/// `h2:B73`, `h2:Q13`: at the end our side is closed, the rest of the peer's output is read, for a second at most.
#[test]
fn the_end_closes_our_side_and_reads_the_peer_to_its_end() {
    for peer_closes in [true, false] {
        let (Rig { executor, time, client, script, ended }, mut far) = client(true, Config::default());
        executor.run();
        drop(client);
        executor.run();
        assert!(script.is_closed(), "our side is closed");
        assert_eq!(*ended.lock().unwrap(), None, "the peer's is still read");
        let mut cx = Context::from_waker(Waker::noop());
        let mut buf = [0; 4096];
        let read = Pin::new(&mut far).poll_read(&mut cx, &mut buf);
        assert!(matches!(read, std::task::Poll::Ready(Ok(n)) if n > 24), "preface, SETTINGS and GOAWAY arrived");
        assert!(Pin::new(&mut far).poll_write(&mut cx, b"late").is_ready());
        executor.run();
        if peer_closes {
            drop(far);
        } else {
            time.advance(Duration::from_secs(1));
        }
        executor.run();
        assert_eq!(*ended.lock().unwrap(), Some(ConnectionError::Shutdown));
        assert_eq!(executor.alive(), 0);
        assert_eq!(time.waiting(), 0, "no timer is left");
    }
}

/// arch:11. A transport that knows is not read in vain, and a reader that waits for its word misses nothing: neither
/// bytes nor the end.
#[test]
fn after_a_short_read_the_transport_says_when_to_read_again() {
    let rig = served(true);
    rig.executor.run();
    rig.script.tell_readiness(0);
    rig.executor.run();
    let reads = rig.script.read_calls();
    let call = rig.say("x");
    rig.executor.run();
    assert!(call.take().is_none(), "the answer is in the pipe");
    assert_eq!(rig.script.read_calls(), reads, "nobody reads without need");
    rig.script.tell_readiness(1);
    rig.executor.run();
    assert_eq!(call.take().expect("done").expect("answered"), "x");

    rig.script.reads([Step::Fail(io::ErrorKind::ConnectionReset)]);
    let lost = rig.say("y");
    rig.executor.run();
    assert_eq!(rig.ended(), None);
    rig.script.tell_readiness(1);
    rig.executor.run();
    assert_eq!(lost.take().expect("woken").expect_err("gone").code(), Code::Unavailable);
}

/// A read that filled its buffer is followed by another at once, whatever the transport would say.
#[test]
fn after_a_full_read_the_driver_reads_on_without_asking() {
    let rig = served(true);
    rig.executor.run();
    rig.script.tell_readiness(0);
    let text = "x".repeat(60_000);
    let calls: Vec<_> = (0..6).map(|_| rig.say(&text)).collect();
    rig.executor.run();
    let reads = rig.script.read_calls();
    // The pipe is full, and a window holds no more than the pipe.
    rig.script.tell_readiness(1);
    rig.executor.run();
    assert!(rig.script.read_calls() > reads + 1, "it was asked before each read");
    rig.script.tell_readiness(100);
    rig.executor.run();
    for call in calls {
        assert_eq!(call.take().expect("done").expect("answered"), text);
    }
}

/// A flood of input does not keep other tasks from running.
#[test]
fn a_poll_is_bounded_and_yields() {
    let rig = served(true);
    rig.executor.run();
    rig.script.reads(vec![Step::UpTo(1); 100_000]);
    let call = rig.say(&"z".repeat(1000));
    let mut others = 0;
    while rig.executor.step() {
        let before = rig.script.read_calls();
        rig.executor.start(async {});
        others += 1;
        if !rig.executor.step() {
            break;
        }
        assert!(rig.script.read_calls() - before <= 40, "one poll reads at most 32 times");
    }
    assert!(others > 10);
    call.take().expect("done").expect("answered");
}

/// Who is woken has a turn before the driver reads on, so that messages are read while they are in the cache, and the window
/// that they lie in is free for what follows.
#[test]
fn a_driver_lets_those_go_first_that_it_has_woken() {
    let rig = served(true);
    let warm = rig.say("what heads say is known");
    rig.executor.run();
    warm.take().expect("done").expect("answered");
    rig.script.reads([Step::Stuck]);
    let (first, second) = (rig.say("1"), rig.say("2"));
    rig.executor.run();
    rig.script.unstick_reads();
    // Both answers are there, and one poll might read them all in so small pieces.
    rig.script.reads(vec![Step::UpTo(8); 100]);
    while first.take().is_none() {
        assert!(rig.executor.step());
    }
    let reads = rig.script.read_calls();
    assert!(rig.executor.step() && second.take().is_none());
    assert!(rig.script.read_calls() > reads, "it is the driver's turn");
    rig.executor.run();
    assert_eq!(second.take().expect("done").expect("answered"), "2");
}

/// A transport that can fills the memory of a large message itself, whatever it brings at a time; one that cannot is never
/// asked to.
#[test]
fn large_messages_are_read_to_where_they_lie() {
    for size in [None, Some(1), Some(1000), Some(16_384), Some(40_000)] {
        let rig = served(true);
        if size.is_some() {
            rig.script.scatter_reads();
        }
        let text: String = (0..60_000).map(|n| format!("{n:>5}")).collect();
        rig.script.reads(vec![Step::UpTo(size.unwrap_or(usize::MAX)); 400]);
        let call = rig.say(&text);
        rig.executor.run();
        assert_eq!(call.take().expect("done").expect("answered"), text);
        assert_eq!(rig.script.scattered_reads() > 0, size.is_some(), "{size:?} at a time");
    }
}

/// A driver that has nothing to read does not look again and again, and has one timer.
#[test]
fn a_silent_connection_looks_once_more_and_then_sleeps() {
    let rig = served(true);
    let call = rig.say(&"x".repeat(500_000));
    rig.executor.run();
    call.take().expect("done").expect("answered");
    let spaces = rig.script.read_spaces();
    assert!(spaces.iter().all(|&space| space >= 16 * 1024), "no read is cut short by the end of a window: {spaces:?}");
    assert!(spaces.iter().all(|&space| space <= PIPE), "{spaces:?}");
    assert_eq!(rig.time.waiting(), 2, "one timer a driver");
    rig.time.advance(Duration::from_secs(2));
    rig.executor.run();
    let reads = rig.script.read_calls();
    rig.time.advance(Duration::from_secs(20));
    rig.executor.run();
    assert!(rig.script.read_calls() <= reads + 1, "and then it sleeps");
}

/// What one connection left unread comes first when it has the window again, whoever had it meanwhile.
#[test]
fn connections_of_a_thread_take_turns_with_one_window_and_keep_their_bytes_apart() {
    let rigs: Vec<_> = (0..5).map(|_| served(true)).collect();
    let calls: Vec<_> = rigs
        .iter()
        .zip("abcde".chars())
        .map(|(rig, letter)| {
            let text = letter.to_string().repeat(3000);
            // Every read ends in the middle of something.
            rig.script.reads([3, 8, 1, 13, 700, 2].iter().cycle().take(600).map(|&n| Step::UpTo(n)));
            (rig.say(&text), text)
        })
        .collect();
    // All of them have a step before one has another.
    while rigs.iter().filter(|rig| rig.executor.step()).count() > 0 {}
    for (call, text) in calls {
        assert_eq!(call.take().expect("done").expect("answered"), text);
    }
}

/// An idle connection does nothing at all.
#[test]
fn an_idle_driver_sleeps() {
    let link = link(Config::default(), Config::default(), 1024);
    link.executor.block_on(UnaryCall::new(link.client.clone(), &SAY, "x".to_owned())).expect("answered");
    link.executor.run();
    let polls = link.executor.polls();
    for _ in 0..100 {
        link.time.advance(Duration::from_secs(60));
        link.executor.run();
    }
    assert!(link.executor.polls() - polls < 10, "{} polls in 100 idle minutes", link.executor.polls() - polls);
}
