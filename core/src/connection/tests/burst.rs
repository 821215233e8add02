//! A burst of a stream's messages, beside the same messages sent one by one.

use super::*;
use crate::buf::{Burst, FlushPolicy};

/// Everything there is to see of a stream of messages.
#[derive(PartialEq, Eq, Debug, Default)]
struct Seen {
    /// Whether each message was taken.
    taken: Vec<bool>,
    /// Octets that the client wrote.
    octets: Vec<u8>,
    events: Vec<Event>,
    /// Messages that were in bursts.
    in_bursts: usize,
}

/// A client that sends messages of these lengths in a stream, and writes behind each that is odd.
fn play(lens: &[usize], bursts: bool, policy: FlushPolicy, seen: &mut Seen) {
    let config = Config { send_buffer: 4000, max_send_message: 900, ..Config::default() };
    let mut pair = Pair::with(config, Config::default());
    let mut options = CallOptions::default();
    options.flush = Some(policy);
    let id = pair.client.open(&COLLECT, &options, "proto", pair.now).unwrap();
    let mut burst = Burst::default();
    let write = |pair: &mut Pair, seen: &mut Seen| {
        while pair.client.poll_transmit(&mut pair.to_server.0, pair.now) || !pair.to_server.0.is_empty() {
            let tx = &mut pair.to_server.0;
            let octets: Vec<u8> = tx.chunks().flatten().copied().collect();
            tx.advance(octets.len());
            seen.octets.extend(octets);
        }
        seen.events.extend(core::iter::from_fn(|| pair.client.poll_event()));
    };
    for &len in lens {
        let message = Bytes::from(alloc::vec![len as u8; len]);
        let pushed = burst.push(len, |dst| Octets.encode(&message, dst));
        if pushed {
            seen.in_bursts += 1;
            seen.taken.push(true);
        } else {
            let now = pair.now;
            let mut call = pair.client_call(id);
            call.send_burst(&burst, now);
            burst.end();
            seen.taken.push(call.send(&Octets, &message, now).is_ok());
            if bursts && call.is_burst() {
                call.begin_burst(&mut burst);
            }
        }
        if len % 2 == 1 {
            let now = pair.now;
            pair.client_call(id).send_burst(&burst, now);
            burst.end();
            write(&mut pair, seen);
        }
    }
    let now = pair.now;
    pair.client_call(id).send_burst(&burst, now);
    write(&mut pair, seen);
    pair.client_call(id).finish(now).unwrap();
    write(&mut pair, seen);
}

/// arch:C1: the same octets in the same frames, and the same messages refused.
#[test]
fn a_burst_gives_what_its_messages_give_one_by_one() {
    fn same(lens: Vec<u16>, holds_back: bool) -> bool {
        // Seldom one that is written behind, and few above the limit.
        let lens: Vec<usize> =
            lens.into_iter().map(|len| usize::from(len) % 1000 / 2 * 2 + usize::from(len % 7 == 0)).collect();
        let policy = if holds_back { FlushPolicy::coalesce(None) } else { FlushPolicy::Immediate };
        let (mut one_by_one, mut in_bursts) = (Seen::default(), Seen::default());
        play(&lens, false, policy, &mut one_by_one);
        play(&lens, true, policy, &mut in_bursts);
        assert!(!holds_back || in_bursts.in_bursts == 0);
        in_bursts.in_bursts = 0;
        assert_eq!(one_by_one, in_bursts);
        true
    }
    quickcheck::quickcheck(same as fn(Vec<u16>, bool) -> bool);
}

/// Most of the messages that follow each other are in bursts, up to where the stream is full.
#[test]
fn messages_that_follow_each_other_are_in_bursts_until_the_stream_is_full() {
    let mut seen = Seen::default();
    play(&[100; 50], true, FlushPolicy::Immediate, &mut seen);
    assert_eq!(seen.taken.iter().filter(|taken| **taken).count(), 4000 / 105 + 1);
    assert!(seen.in_bursts >= 30, "{}", seen.in_bursts);
}

/// A message that waits alone begins none, nor does a call that may send nothing more.
#[test]
fn a_lone_message_and_a_call_that_is_over_begin_no_burst() {
    let mut pair = Pair::new();
    let now = pair.now;
    let (mut burst, message) = (Burst::default(), Bytes::from_static(b"one"));
    let push = |burst: &mut Burst| burst.push(3, |dst| Octets.encode(&message, dst));
    let id = pair.client.open(&CHAT, &CallOptions::default(), "proto", now).unwrap();
    let mut call = pair.client_call(id);
    call.send(&Octets, &message, now).unwrap();
    assert!(!call.is_burst());
    call.send(&Octets, &message, now).unwrap();
    assert!(call.is_burst());
    call.begin_burst(&mut burst);
    assert!(push(&mut burst));
    call.send_burst(&burst, now);
    call.finish(now).unwrap();
    call.begin_burst(&mut burst);
    assert!(!push(&mut burst), "sealed");
    let server = pair.accept(CallKind::Bidi);
    for _ in 0..3 {
        assert_eq!(message_of(&mut pair, server), b"one");
    }
    assert!(matches!(pair.server_call(server).recv(), Recv::End));
}

fn message_of(pair: &mut Pair, id: CallId) -> Vec<u8> {
    message(pair.server_call(id).recv())
}
