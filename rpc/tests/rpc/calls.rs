//! The four kinds of call between two drivers over a pipe: messages, metadata, statuses, limits.

use std::future::{Future, IntoFuture};
use std::time::Duration;

use trirpc_rpc::{BidiCall, ClientStreamingCall, Code, Config, Method, Origin, ServerStreamingCall, Status, UnaryCall};

use crate::support::echo::{CODECS, EXPLODE, LIE, text};
use crate::support::link::With;
use crate::support::{CHAT, GATHER, LOTS, Link, link};

#[test]
fn a_unary_call_carries_message_headers_and_trailers() {
    let link = Link::default();
    let call = link.say("hello").metadata("x-colour", "blue").metadata("x-colour", "red").full();
    let response = link.executor.block_on(call).expect("answered");
    assert_eq!(response.message(), "hello");
    let colours = response.headers().get_all("x-colour").filter_map(|value| value.to_str()).collect::<Vec<_>>();
    assert_eq!(colours, ["blue", "red"]);
    assert_eq!(text(response.trailers(), "x-colour-trailer").as_deref(), Some("blue"));
    link.assert_empty();
}

/// bg:B1: neither side makes a task for a unary call whose handler has no reason to wait. What runs is the caller, and
/// both drivers; whoever waits is woken by them.
#[test]
fn a_unary_call_makes_no_task_on_either_side() {
    let link = Link::default();
    link.executor.block_on(link.say("opens what is opened once")).expect("answered");
    // Tasks are numbered, so that the number of a new one tells how many there were before.
    let tasks = || link.executor.spawn(async {});
    let before = tasks();
    let calls = (0..100).map(|at| link.say(&at.to_string())).collect::<Vec<_>>();
    link.executor.block_on(async move {
        for (at, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.expect("answered"), at.to_string());
        }
    });
    assert_eq!(tasks() - before, 2, "the caller, and the task that is spawned to count");
    link.assert_empty();
}

#[test]
fn an_error_of_the_handler_arrives_with_its_trailers_and_says_who_failed() {
    let link = Link::default();
    let status = link.executor.block_on(link.say("fail").metadata("x-colour", "blue").full()).expect_err("refused");
    assert_eq!((status.code(), status.message(), status.origin()), (Code::NotFound, "no such thing", Origin::Peer));
    assert_eq!(text(status.metadata(), "x-colour-trailer").as_deref(), Some("blue"));
    assert!(!status.is_unprocessed());
    link.assert_empty();
}

#[test]
fn a_server_stream_gives_headers_messages_and_trailers() {
    let link = Link::default();
    let call = ServerStreamingCall::new(link.client.clone(), &LOTS, "3".into());
    let (headers, messages, trailers) = link.executor.block_on(async move {
        let mut rx = call.await.expect("headers");
        let headers = rx.headers().await.expect("known").clone();
        let mut messages = Vec::new();
        while let Some(message) = rx.next().await.expect("messages") {
            messages.push(message);
        }
        assert_eq!(rx.next().await.expect("the end stays"), None);
        (headers, messages, rx.trailers().expect("after the end").clone())
    });
    assert_eq!(messages, ["0", "1", "2"]);
    assert_eq!(text(&headers, "x-kind").as_deref(), Some("lots"));
    assert_eq!(text(&trailers, "x-sent").as_deref(), Some("3"));
    link.assert_empty();
}

#[test]
fn an_empty_server_stream_and_one_that_fails_at_once_end_well() {
    let link = Link::default();
    let call = ServerStreamingCall::new(link.client.clone(), &LOTS, "0".into());
    assert_eq!(link.executor.block_on(async move { call.await?.next().await }).expect("an empty stream"), None);
    let call = ServerStreamingCall::new(link.client.clone(), &LOTS, "many".into());
    let status = link.executor.block_on(async move { call.await.map(|_| ()) }).expect_err("no number");
    assert_eq!(status.code(), Code::InvalidArgument);
    // The same through `open`: the status is the stream's.
    let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, "many".into()).open();
    let status = link.executor.block_on(async move { rx.next().await }).expect_err("no number");
    assert_eq!(status.code(), Code::InvalidArgument);
    link.assert_empty();
}

#[test]
fn a_client_stream_is_answered_after_its_last_message() {
    let link = Link::default();
    let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).metadata("x-a", "b").open();
    let response = link.executor.block_on(async move {
        for word in ["one", "two", ""] {
            tx.send(&word.to_owned()).await?;
        }
        tx.finish();
        reply.full().await
    });
    assert_eq!(response.expect("answered").into_message(), "one+two+");
    link.assert_empty();
}

/// A server that answers early ends the call; the sender learns the outcome, the receiver has the message.
#[test]
fn an_early_answer_reaches_a_client_that_still_sends() {
    let link = Link::default();
    for (word, code) in [("stop", None), ("refuse", Some(Code::Aborted))] {
        let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).open();
        let (sent, answer) = link.executor.block_on(async move {
            let mut sent = tx.send(&word.to_owned()).await;
            while sent.is_ok() {
                crate::support::executor::yield_now().await;
                sent = tx.send(&"more".to_owned()).await;
            }
            (sent, reply.await)
        });
        let sent = sent.expect_err("the call is over").code();
        match code {
            None => assert_eq!((sent, answer.expect("answered").as_str()), (Code::Cancelled, "stopped early")),
            Some(code) => assert_eq!((sent, answer.expect_err("refused").code()), (code, code)),
        }
    }
    link.assert_empty();
}

#[test]
fn a_bidi_call_opens_before_the_server_has_answered_and_talks_in_turns() {
    let link = Link::default();
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.block_on(async move {
        for word in ["ping", "pong", "x"] {
            tx.send(&word.to_owned()).await.expect("sent");
            assert_eq!(rx.next().await.expect("echoed").as_deref(), Some(word));
        }
        tx.finish();
        assert_eq!(rx.next().await.expect("the end"), None);
    });
    link.assert_empty();
}

#[test]
fn messages_before_a_failure_are_handed_out_first() {
    let link = Link::default();
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.block_on(async move {
        tx.send(&"last words".to_owned()).await.expect("sent");
        tx.send(&"fail".to_owned()).await.expect("sent");
        assert_eq!(rx.next().await.expect("a message").as_deref(), Some("last words"));
        assert_eq!(rx.next().await.expect_err("the status").code(), Code::Aborted);
        assert_eq!(rx.next().await.expect("once"), None);
    });
    link.assert_empty();
}

/// bg:V2: a slow reader stops its own writer, at the windows, and nobody else's.
#[test]
fn back_pressure_reaches_the_handler_and_leaves_other_calls_alone() {
    let link = Link::default();
    let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, "100x10000".into()).open();
    link.executor.run();
    let stuck_at = link.counters.sent();
    assert!((6..=20).contains(&stuck_at), "{stuck_at} messages of 10 kB against 64 KiB windows");
    assert_eq!(link.executor.block_on(link.say("meanwhile")).expect("answered"), "meanwhile");
    assert_eq!(link.counters.sent(), stuck_at, "nobody read");
    let count = link.executor.block_on(async move {
        let mut count = 0;
        while rx.next().await.expect("a message").is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(count, 100);
    link.assert_empty();
}

/// The other direction: a server that does not read stops the client's sender.
#[test]
fn a_handler_that_does_not_read_stops_the_sender() {
    let link = Link::default();
    let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).open();
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = sent.clone();
    let sending = link.executor.start(async move {
        tx.send(&"wait".to_owned()).await?;
        for _ in 0..100 {
            tx.send(&"-".repeat(10_000)).await?;
            counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
        Ok::<_, Status>(())
    });
    link.executor.run();
    let count = sent.load(std::sync::atomic::Ordering::SeqCst);
    assert!((6..=20).contains(&count), "{count} messages of 10 kB against a window and a send buffer of 64 KiB");
    drop(reply);
    link.executor.run();
    assert_eq!(sending.take().expect("woken").expect_err("cancelled").code(), Code::Cancelled);
    link.assert_empty();
}

#[test]
fn large_messages_pass_in_both_directions() {
    let link = Link::default();
    let request = "y".repeat(3_000_000);
    let length = request.len();
    assert_eq!(link.executor.block_on(link.say(&request)).expect("echoed").len(), length);
    assert_eq!(link.executor.block_on(link.say("large")).expect("answered").len(), 100_000);
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).open();
    link.executor.block_on(async move {
        for size in [0, 1, 16 * 1024, 16 * 1024 + 1, 1_000_000] {
            tx.send(&"z".repeat(size)).await.expect("sent");
            assert_eq!(rx.next().await.expect("echoed").map(|message| message.len()), Some(size));
        }
    });
    link.assert_empty();
}

#[test]
fn a_message_above_a_limit_is_refused_by_name_and_size_and_the_connection_goes_on() {
    let client = Config::default().with(|config| {
        config.max_recv_message = 50_000;
        config.max_send_message = 300_000;
    });
    let server = Config::default().with(|config| config.max_recv_message = 200_000);
    let link = link(client, server, 64 * 1024);
    for (request, wanted) in [
        // Too large to send, for this side: before and after 16 KiB makes no difference.
        ("y".repeat(300_001), "message of 300001 bytes exceeds max_send_message of 300000 bytes"),
        // Too large to receive, for the peer.
        ("y".repeat(200_001), "200001"),
        // Too large to receive, for this side.
        ("large".into(), "100000"),
    ] {
        let status = link.executor.block_on(link.say(&request)).expect_err("too large");
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        assert!(status.message().contains(wanted), "{status}");
        assert_eq!(link.executor.block_on(link.say("next")).expect("answered"), "next");
    }
    link.assert_empty();
}

#[test]
fn a_codec_that_lies_or_unwinds_ends_only_its_own_call() {
    let link = Link::default();
    let status = link.executor.block_on(link.say(LIE)).expect_err("the length is wrong");
    assert_eq!((status.code(), status.origin()), (Code::Internal, Origin::Local), "{status}");
    let status = link.executor.block_on(link.say("lie")).expect_err("the response's length is wrong");
    assert_eq!((status.code(), status.origin()), (Code::Internal, Origin::Peer), "{status}");
    let call = link.say(EXPLODE);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut call = Box::pin(call.into_future());
        let _ = call.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    }));
    assert!(unwound.is_err());
    assert_eq!(link.executor.block_on(link.say("next")).expect("answered"), "next");
    link.assert_empty();
}

#[test]
fn a_wrong_metadata_key_is_the_outcome_and_says_what_a_key_is() {
    let link = Link::default();
    for (key, value) in [("Ä", "v"), ("", "v"), ("grpc-status", "0"), ("ok", "line\nbreak")] {
        let status = link.executor.block_on(link.say("hello").metadata(key, value)).expect_err(key);
        assert_eq!((status.code(), status.origin()), (Code::InvalidArgument, Origin::Local), "{status}");
        let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).metadata(key, value).open();
        let status = link.executor.block_on(async move { tx.send(&"x".to_owned()).await.and(reply.await.map(|_| ())) });
        assert_eq!(status.expect_err(key).code(), Code::InvalidArgument);
    }
    assert_eq!(link.server.open_calls(), 0);
    link.assert_empty();
}

#[test]
fn unknown_services_methods_and_codecs_are_unimplemented_and_named() {
    static SERVICE: Method<String, String> = Method::new("/test.Other/Say", trirpc_rpc::CallKind::Unary, true, CODECS);
    static METHOD: Method<String, String> = Method::new("/test.Echo/Sing", trirpc_rpc::CallKind::Bidi, true, CODECS);
    static CODEC: Method<String, String> =
        Method::new("/test.Echo/Say", trirpc_rpc::CallKind::Unary, true, crate::support::echo::OTHER_CODECS);
    let link = Link::default();
    let failures = [
        (link.executor.block_on(UnaryCall::new(link.client.clone(), &SERVICE, "x".into())), "test.Other"),
        (link.executor.block_on(UnaryCall::new(link.client.clone(), &CODEC, "x".into())), "other"),
        (
            link.executor.block_on({
                let (tx, mut rx) = BidiCall::new(link.client.clone(), &METHOD).open();
                async move {
                    let next = rx.next().await.map(Option::unwrap_or_default);
                    tx.finish();
                    next
                }
            }),
            "Sing",
        ),
    ];
    for (result, name) in failures {
        let status = result.expect_err(name);
        assert_eq!(status.code(), Code::Unimplemented, "{status}");
        assert!(status.message().contains(name), "{status}");
    }
    link.assert_empty();
}

#[test]
fn the_handler_knows_its_peer_and_its_deadline() {
    let link = Link::default();
    assert_eq!(link.executor.block_on(link.say("peer")).expect("answered"), "memory");
    assert_eq!(link.executor.block_on(link.say("remaining")).expect("answered"), "None");
    let call = link.say("remaining").timeout(Duration::from_secs(7));
    assert_eq!(link.executor.block_on(call).expect("answered"), "Some(7s)");
    link.assert_empty();
}

/// arch:17: one request and one response are one write each; a hundred at once share writes.
#[test]
fn one_call_is_one_write_a_side_and_many_calls_share_writes() {
    use std::sync::atomic::Ordering::SeqCst;
    let link = Link::default();
    // The first call goes with the preface, the answer with SETTINGS: let them settle.
    link.executor.block_on(link.say("warm up")).expect("answered");
    link.executor.run();
    let before = (link.client_writes.load(SeqCst), link.server_writes.load(SeqCst));
    link.executor.block_on(link.say("one")).expect("answered");
    link.executor.run();
    let after = (link.client_writes.load(SeqCst), link.server_writes.load(SeqCst));
    assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));

    let calls: Vec<_> = (0..100).map(|i| link.executor.start(link.say(&i.to_string()).into_future())).collect();
    link.executor.run();
    for (i, call) in calls.iter().enumerate() {
        assert_eq!(call.take().expect("done").expect("answered"), i.to_string());
    }
    let many = (link.client_writes.load(SeqCst) - after.0, link.server_writes.load(SeqCst) - after.1);
    assert!(many.0 < 20 && many.1 < 20, "{many:?} writes for 100 calls");
    link.assert_empty();
}
