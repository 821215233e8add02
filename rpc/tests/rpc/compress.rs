//! Compression of messages: who compresses what, for whom, and how far inflating goes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use trirpc_rpc::{
    BidiCall, ChannelOptions, ClientSession, ClientStreamingCall, Code, Config, ManualTime, Protocol, Router,
    ServerStreamingCall, Status, UnaryCall,
};

use crate::support::echo::{Counters, Echo};
use crate::support::executor::Executor;
use crate::support::link::{Ends, With, link_in};
use crate::support::network::{Network, Weather};
use crate::support::rle::{Fault, Rle};
use crate::support::{CHAT, GATHER, LOTS, Link, SAY};

/// A link to an echo service whose router `equip` completes.
fn link(equip: impl FnOnce(Router) -> Router, ends: Ends) -> Link {
    let counters = std::sync::Arc::new(Counters::default());
    let router = equip(Router::new().add(Echo { counters: counters.clone() }));
    Link { counters, ..link_in(Executor::new(), ManualTime::new(), router, ends) }
}

fn say(link: &Link, client: &ClientSession, text: impl Into<String>) -> Result<String, Status> {
    link.executor.block_on(UnaryCall::new(client.clone(), &SAY, text.into()))
}

fn long(octet: &str) -> String {
    octet.repeat(5000)
}

#[test]
fn messages_of_every_kind_of_call_are_compressed_both_ways() {
    let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
    let router = |router: Router| router.accept_compression(far.clone()).send_compression(far.clone());
    let link = link(router, Ends::default());
    let client = link.client.clone().send_compression(near.clone());

    assert_eq!(say(&link, &client, long("a")).expect("answered"), long("a"));
    assert_eq!((near.take(), far.take()), ((1, 1), (1, 1)), "unary");
    assert_eq!(say(&link, &client, "large").expect("answered"), "x".repeat(100_000));
    assert_eq!((near.take(), far.take()), ((0, 1), (1, 0)), "a large answer to a small request");
    assert_eq!(say(&link, &client, "b".repeat(100_000)).expect("answered"), "b".repeat(100_000));
    assert_eq!((near.take(), far.take()), ((1, 1), (1, 1)), "large both ways");

    let call = ServerStreamingCall::new(client.clone(), &LOTS, "3x2000".into());
    let count = link.executor.block_on(async move {
        let (mut rx, mut count) = (call.await?, 0);
        while let Some(message) = rx.next().await? {
            assert_eq!(message, format!("{count}{}", "-".repeat(2000)));
            count += 1;
        }
        Ok::<_, Status>(count)
    });
    assert_eq!(count.expect("a stream"), 3);
    assert_eq!((near.take(), far.take()), ((0, 3), (3, 0)), "server stream");

    let (mut tx, reply) = ClientStreamingCall::new(client.clone(), &GATHER).open();
    let reply = link.executor.block_on(async move {
        for message in ["", "small", &long("c"), &long("d")] {
            tx.send(&message.to_owned()).await?;
        }
        tx.send_uncompressed(&long("e")).await?;
        tx.finish();
        reply.await
    });
    assert_eq!(reply.expect("answered"), ["", "small", &long("c"), &long("d"), &long("e")].join("+"));
    assert_eq!((near.take(), far.take()), ((2, 1), (1, 2)), "client stream");

    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    link.executor.block_on(async move {
        for message in [long("f"), String::new(), long("g")] {
            tx.send(&message).await.expect("sent");
            assert_eq!(rx.next().await.expect("echoed"), Some(message));
        }
    });
    assert_eq!((near.take(), far.take()), ((2, 2), (2, 2)), "bidi");
    link.assert_empty();
}

/// tri:59 tri:60 tri:61
#[test]
fn a_response_is_compressed_for_clients_that_accept_it_and_for_those_that_compress() {
    // (what the server does, what the client does, whether the response is compressed)
    type Equip<T> = fn(T, Rle) -> T;
    let plain: Equip<Router> = |router, _| router;
    let accepts: Equip<Router> = |router, rle| router.accept_compression(rle);
    let sends: Equip<Router> = |router, rle| router.send_compression(rle);
    let none: Equip<ClientSession> = |client, _| client;
    let offers: Equip<ClientSession> = |client, rle| client.accept_compression(rle);
    let compresses: Equip<ClientSession> = |client, rle| client.send_compression(rle);
    let cases = [
        (plain, none, Ok(false)),
        (plain, offers, Ok(false)),
        (plain, compresses, Err(Code::Unimplemented)), // tri:58
        (accepts, none, Ok(false)),
        (accepts, offers, Ok(false)),
        (accepts, compresses, Ok(true)),
        (sends, none, Ok(false)),
        (sends, offers, Ok(true)),
        (sends, compresses, Err(Code::Unimplemented)),
    ];
    for (i, (server, client, expected)) in cases.into_iter().enumerate() {
        let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
        let link = link(|router| server(router, far.clone()), Ends::default());
        let client = client(link.client.clone(), near.clone());
        let answer = say(&link, &client, long("a"));
        assert_eq!(answer.as_ref().map(|_| far.take().0 == 1).map_err(Status::code), expected, "case {i}");
        if let Ok(answer) = answer {
            assert_eq!(answer, long("a"));
            assert_eq!(near.take().1 == 1, expected == Ok(true), "case {i}");
        }
    }
}

/// The client's order decides between several.
#[test]
fn the_first_that_both_know_is_used() {
    let (a, b) = (Rle::named("a"), Rle::named("b"));
    let link = link(|router| router.send_compression(b.clone()).send_compression(a.clone()), Ends::default());
    for names in [["a", "b"], ["b", "a"]] {
        let client = link.client.clone().accept_compression(Rle::named("c"));
        let client = client.accept_compression(Rle::named(names[0])).accept_compression(Rle::named(names[1]));
        say(&link, &client, long("x")).expect("answered");
        assert_eq!((a.take().0, b.take().0), if names[0] == "a" { (1, 0) } else { (0, 1) });
    }
}

/// tri:19 tri:20
#[test]
fn the_minimum_and_the_use_decide_over_each_message() {
    for (min, text, compressed) in
        [(10, "a".repeat(9), 0), (10, "a".repeat(10), 1), (0, "aaa".into(), 1), (0, String::new(), 0)]
    {
        let config = Config::default().with(|config| config.compress_min = min);
        let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
        let ends = Ends { client_config: config.clone(), server_config: config, ..Ends::default() };
        let link = link(|router| router.accept_compression(far.clone()), ends);
        let client = link.client.clone().send_compression(near.clone());
        assert_eq!(say(&link, &client, text.clone()).expect("answered"), text);
        let work = ((compressed, compressed), (compressed, compressed));
        assert_eq!((near.take(), far.take()), work, "{} of at least {min}", text.len());
    }
    // What grows by compressing leaves as it was: nobody has to inflate it.
    let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
    let link = link(|router| router.accept_compression(far.clone()), Ends::default());
    let client = link.client.clone().send_compression(near.clone());
    assert_eq!(say(&link, &client, "ab".repeat(1000)).expect("answered"), "ab".repeat(1000));
    assert_eq!((near.take(), far.take()), ((1, 0), (1, 0)));
}

#[test]
fn a_call_and_a_handler_choose_for_themselves() {
    let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
    let link = link(|router| router.accept_compression(far.clone()), Ends::default());
    let client = link.client.clone().accept_compression(near.clone());
    let call = |client: &ClientSession, name| UnaryCall::new(client.clone(), &SAY, long("a")).compress(name);

    assert_eq!(link.executor.block_on(call(&client, "rle")).expect("answered"), long("a"));
    assert_eq!((near.take(), far.take()), ((1, 1), (1, 1)), "asked for");
    let client = client.send_compression(near.clone());
    assert_eq!(link.executor.block_on(call(&client, "identity")).expect("answered"), long("a"));
    assert_eq!((near.take(), far.take()), ((0, 0), (0, 0)), "declined");
    for client in [&client, &link.client] {
        let status = link.executor.block_on(call(client, "zip")).expect_err("nobody has it");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("zip"), "{status}");
    }
    assert_eq!(say(&link, &client, "plain").expect("answered").len(), 5000);
    assert_eq!((near.take(), far.take()), ((0, 0), (0, 0)), "declined by the handler");
    link.assert_empty();
}

/// tri:14 — on both sides; the larger limit of one call counts too.
#[test]
fn inflating_stops_at_the_largest_message_accepted() {
    let limit = |size| Config::default().with(|config| config.max_recv_message = size);
    for (size, fits) in [(4999, false), (5000, true)] {
        for (client_config, server_config) in [(limit(size), Config::default()), (Config::default(), limit(size))] {
            let router = |router: Router| router.accept_compression(Rle::new(Fault::None));
            let link = link(router, Ends { client_config, server_config, ..Ends::default() });
            let client = link.client.clone().send_compression(Rle::new(Fault::None));
            match say(&link, &client, long("a")) {
                Ok(answer) => assert!(fits && answer == long("a")),
                Err(status) => {
                    assert_eq!((status.code(), fits), (Code::ResourceExhausted, false), "{status}");
                    let limit = format!("max_recv_message of {size} bytes");
                    assert!(status.message().contains(&limit), "{status}");
                }
            }
            let mut options = trirpc_rpc::CallOptions::default();
            options.max_recv_message = Some(4000);
            let call = UnaryCall::new(client, &SAY, "plain".into()).options(options);
            let status = link.executor.block_on(call).expect_err("more than the call accepts");
            assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
            link.assert_empty();
        }
    }
}

/// tri:15 — in either direction, for single messages and in the middle of a stream.
#[test]
fn a_message_that_cannot_be_inflated_ends_its_call_and_nothing_else() {
    let damages = || Rle::new(Fault::Damages);
    let sound = || Rle::new(Fault::None);
    let link = link(|router| router.accept_compression(sound()).send_compression(damages()), Ends::default());
    let receiving = link.client.clone().accept_compression(sound());
    let sending = link.client.clone().accept_compression(sound()).send_compression(damages());

    for client in [&receiving, &sending] {
        let status = say(&link, client, long("a")).expect_err("damaged");
        assert_eq!(status.code(), Code::Internal);
        assert!(status.message().contains("rle"), "{status}");
    }
    // A server stream: whole messages come first, and the server learns that nobody reads on.
    let call = ServerStreamingCall::new(receiving, &LOTS, "1000000x2000".into());
    let status = link.executor.block_on(async move { call.await?.next().await }).expect_err("damaged");
    assert_eq!(status.code(), Code::Internal);
    link.assert_empty();
    // A call of two halves ends for both.
    let (mut tx, mut rx) = BidiCall::new(link.client.clone().accept_compression(sound()), &CHAT).open();
    let (received, sent) = link.executor.block_on(async move {
        tx.send(&long("c")).await.expect("sent");
        (rx.next().await, tx.send(&"more".to_owned()).await)
    });
    assert_eq!(received.expect_err("damaged").code(), Code::Internal);
    assert_eq!(sent.expect_err("the call is over").code(), Code::Cancelled);
    // A client stream: the handler sees the error.
    let (mut tx, reply) = ClientStreamingCall::new(sending, &GATHER).open();
    let status = link.executor.block_on(async move {
        tx.send(&"sound".to_owned()).await?;
        tx.send(&long("b")).await?;
        tx.finish();
        reply.await
    });
    assert_eq!(status.expect_err("damaged").code(), Code::Internal);
    assert_eq!(say(&link, &link.client, "still there").expect("answered"), "still there");
    link.assert_empty();
}

#[test]
fn a_compression_that_fails_is_the_failure_of_its_message() {
    let fails = || Rle::new(Fault::Fails);
    let link = link(|router| router.send_compression(fails()), Ends::default());
    let sending = link.client.clone().send_compression(fails());
    let status = say(&link, &sending, long("a")).expect_err("cannot be compressed");
    assert_eq!(status.code(), Code::Internal);
    assert_eq!(link.counters.started(), 0, "nothing was sent");
    let receiving = link.client.clone().accept_compression(Rle::new(Fault::None));
    let status = say(&link, &receiving, long("a")).expect_err("cannot be compressed");
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().contains("as the test asks"), "{status}");
    link.assert_empty();
}

/// arch:§11 — another thread can use the session all the while.
#[test]
fn compressing_and_inflating_hold_no_lock() {
    let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
    let router = |router: Router| router.accept_compression(far.clone()).send_compression(far.clone());
    let link = link(router, Ends::default());
    let client = link.client.clone().send_compression(near.clone());
    for rle in [&near, &far] {
        let (client, server) = (link.client.clone(), link.server.clone());
        rle.probe(move || {
            let (client, server, (done, looked)) = (client.clone(), server.clone(), mpsc::channel());
            thread::spawn(move || done.send((client.open_calls(), server.open_calls())));
            looked.recv_timeout(Duration::from_secs(10)).expect("the lock is free");
        });
    }
    for text in [long("a"), "b".repeat(100_000)] {
        assert_eq!(say(&link, &client, text.clone()).expect("answered"), text);
    }
    let (mut tx, mut rx) = BidiCall::new(client, &CHAT).open();
    link.executor.block_on(async move {
        tx.send(&long("c")).await.expect("sent");
        assert_eq!(rx.next().await.expect("echoed"), Some(long("c")));
    });
    assert_eq!((near.take(), far.take()), ((3, 3), (3, 3)));
}

#[test]
fn a_call_that_waits_for_its_connection_is_compressed_once_there_is_one() {
    let network = Network::new(Weather::Reachable);
    let near = Rle::new(Fault::None);
    let channel = network.channel(ChannelOptions::default()).send_compression(near.clone());
    let call = UnaryCall::new(channel.clone(), &SAY, long("a"));
    // The network's servers know no compression, and say so.
    let status = network.executor.block_on(call).expect_err("not understood");
    assert_eq!((status.code(), near.take()), (Code::Unimplemented, (1, 0)));
    let call = UnaryCall::new(channel, &SAY, long("a")).compress("identity");
    assert_eq!(network.executor.block_on(call).expect("answered"), long("a"));
}

/// tri:127 tri:128 tri:172 — where the body is the message, the head tells of each whether it is compressed.
#[test]
fn bare_messages_are_compressed_and_inflated_too() {
    for protocol in [Protocol::Triple, Protocol::Connect] {
        let (near, far) = (Rle::new(Fault::None), Rle::new(Fault::None));
        let equipped = link(|router| router.accept_compression(far.clone()), Ends::default());
        let client = equipped.client.clone().send_compression(near.clone());
        let call = |text: String| UnaryCall::new(client.clone(), &SAY, text).protocol(protocol);
        assert_eq!(equipped.executor.block_on(call(long("a"))).expect("answered"), long("a"));
        assert_eq!((near.take(), far.take()), ((1, 1), (1, 1)), "{protocol:?}");
        assert_eq!(equipped.executor.block_on(call("large".into())).expect("answered").len(), 100_000);
        assert_eq!(near.take().0, 0, "{protocol:?}: a small request");
        assert_eq!(equipped.executor.block_on(call("ab".repeat(1000))).expect("answered").len(), 2000);
        assert_eq!(near.take(), (1, 0), "{protocol:?}: nothing that grows");
        equipped.assert_empty();

        let damages = Rle::new(Fault::Damages);
        let damaged = UnaryCall::new(equipped.client.clone().send_compression(damages), &SAY, long("a"));
        let status = equipped.executor.block_on(damaged.protocol(protocol)).expect_err("damaged");
        assert_eq!(status.code(), Code::InvalidArgument, "{protocol:?}: {status}");
        let plain = link(|router| router, Ends::default());
        let client = plain.client.clone().send_compression(near.clone());
        let unknown = UnaryCall::new(client, &SAY, long("a")).protocol(protocol);
        let status = plain.executor.block_on(unknown).expect_err("unknown to the server");
        assert_eq!(status.code(), Code::Unimplemented, "{protocol:?}: {status}");
    }
}
