//! Streams whose messages are held back, through sessions and drivers: what leaves, when, and in how many writes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use trirpc_core::Config;
use trirpc_rpc::{BidiCall, ClientStreamingCall, FlushPolicy, ServerStreamingCall};

use crate::support::link::With;
use crate::support::{CHAT, GATHER, LOTS, Link, link};

const HELD: FlushPolicy = FlushPolicy::coalesce(None);

fn writes(link: &Link) -> usize {
    link.client_writes.load(Ordering::SeqCst)
}

/// bg:W10, bg:W1: what is held back leaves when the sender finishes, in one write, and all of it arrives.
#[test]
fn the_last_message_arrives_when_the_sender_finishes() {
    let link = Link::default();
    let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).flush_policy(HELD).open();
    link.executor.run();
    let before = writes(&link);
    let mut tx = link.executor.block_on(async move {
        for word in ["a", "b", "c"] {
            tx.send(&word.to_owned()).await.unwrap();
        }
        tx
    });
    link.executor.run();
    assert_eq!(writes(&link), before, "held back");
    let tx = link.executor.block_on(async move {
        tx.send(&"d".to_owned()).await.unwrap();
        tx
    });
    tx.finish();
    assert_eq!(link.executor.block_on(reply).unwrap(), "a+b+c+d");
    assert_eq!(writes(&link), before + 1);
    link.assert_empty();
}

/// A flush lets go of what is held back, and so does a receiver that finds nothing.
#[test]
fn a_flush_and_a_waiting_receiver_let_go() {
    let link = Link::default();
    let (mut tx, mut rx) = BidiCall::new(link.client.clone(), &CHAT).flush_policy(HELD).open();
    link.executor.run();
    let before = writes(&link);
    let mut tx = link.executor.block_on(async move {
        tx.send(&"flushed".to_owned()).await.unwrap();
        tx
    });
    link.executor.run();
    assert_eq!(writes(&link), before);
    tx.flush().unwrap();
    tx.flush().unwrap();
    link.executor.run();
    assert_eq!(writes(&link), before + 1, "once, however often it is flushed");
    let (tx, mut rx) = link.executor.block_on(async move {
        assert_eq!(rx.next().await.unwrap().as_deref(), Some("flushed"));
        tx.send(&"asked for".to_owned()).await.unwrap();
        assert_eq!(rx.next().await.unwrap().as_deref(), Some("asked for"));
        (tx, rx)
    });
    tx.finish();
    assert_eq!(link.executor.block_on(async move { rx.next().await }).unwrap(), None);
    link.assert_empty();
}

/// What lingers leaves by the driver's timer, without any further command.
#[test]
fn what_lingers_leaves_by_the_timer() {
    let link = Link::default();
    let policy = FlushPolicy::coalesce(Some(Duration::from_millis(2)));
    let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).flush_policy(policy).open();
    link.executor.run();
    let before = writes(&link);
    let tx = link.executor.block_on(async move {
        tx.send(&"a".to_owned()).await.unwrap();
        tx
    });
    link.time.advance(Duration::from_millis(1));
    link.executor.run();
    assert_eq!(writes(&link), before);
    link.time.advance(Duration::from_millis(1));
    link.executor.run();
    assert_eq!(writes(&link), before + 1);
    tx.finish();
    assert_eq!(link.executor.block_on(reply).unwrap(), "a");
}

/// A server holds back what its configuration says, and the end of the call lets go.
#[test]
fn a_server_holds_back_by_its_configuration() {
    let server = Config::default().with(|config| {
        config.flush_watermark = FlushPolicy::WATERMARK;
        config.flush_linger = None;
    });
    let link = link(Config::default(), server, 64 * 1024);
    link.executor.run();
    let before = link.server_writes.load(Ordering::SeqCst);
    let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, "50x100".to_owned()).open();
    let count = link.executor.block_on(async move {
        let mut count = 0;
        while rx.next().await.unwrap().is_some() {
            count += 1;
        }
        count
    });
    assert_eq!((count, link.server_writes.load(Ordering::SeqCst)), (50, before + 1));
    link.assert_empty();
}

/// Goal G14: without the option, one message on an idle stream is written in the same poll of the driver that it woke,
/// and a burst that is ready together leaves in one write.
#[test]
fn one_message_leaves_at_once_and_a_burst_in_one_write() {
    let link = Link::default();
    let (mut tx, reply) = ClientStreamingCall::new(link.client.clone(), &GATHER).open();
    link.executor.run();
    for burst in [1, 100] {
        let before = (writes(&link), link.executor.polls());
        let sent = link.executor.start(async move {
            for _ in 0..burst {
                tx.send(&"x".to_owned()).await.unwrap();
            }
            tx
        });
        // The sender's poll, and the one of the driver that it woke.
        assert!(link.executor.step() && link.executor.step());
        assert_eq!((writes(&link), link.executor.polls()), (before.0 + 1, before.1 + 2), "a burst of {burst}");
        link.executor.run();
        assert_eq!(writes(&link), before.0 + 1, "a burst of {burst}");
        tx = sent.take().unwrap();
    }
    tx.finish();
    assert_eq!(link.executor.block_on(reply).unwrap().len(), 2 * 101 - 1);
}
