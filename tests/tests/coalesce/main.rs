//! Streams whose messages are held back, and those whose messages are not: what leaves, when, and in how many writes.

mod failures;
mod interleave;

use std::time::Duration;

use bytes::{Buf, Bytes};
use quickcheck::QuickCheck;
use trirpc_core::buf::{Encoded, FlushPolicy, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Metadata, MethodSpec, Protocol, Recv, Status};
use trirpc_core::{CallId, Config, Event};
use trirpc_fuzz::coalesce_model;
use trirpc_proto::Raw;
use trirpc_tests::pair::{Pair, Setup};
use trirpc_tests::random::Random;
use trirpc_tests::trace::{Frame, Side};

static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
static CHAT: MethodSpec = MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false);

const POLICIES: [FlushPolicy; 4] = [
    FlushPolicy::Immediate,
    FlushPolicy::coalesce(None),
    FlushPolicy::coalesce(Some(Duration::from_millis(1))),
    FlushPolicy::Coalesce { watermark: 1000, linger: None },
];
/// What 128 bytes of payload are with their prefix.
const MESSAGE: usize = 133;

fn options(policy: FlushPolicy) -> CallOptions {
    let mut options = CallOptions::default();
    options.flush = Some(policy);
    options
}

/// A pair that has shaken hands, and a stream on it whose head has arrived.
fn chat(policy: FlushPolicy) -> (Pair, CallId) {
    let mut pair = Pair::default();
    let now = pair.now();
    let id = pair.client.open(&CHAT, &options(policy), "proto", now).expect("a call");
    pair.drive();
    (pair, id)
}

fn accept(pair: &mut Pair, kind: CallKind) -> CallId {
    let now = pair.now();
    let id = pair.server.accept().expect("the call arrived");
    pair.server_call(id).expect(kind, now);
    id
}

fn send(pair: &mut Pair, id: CallId, size: usize) {
    let now = pair.now();
    pair.client_call(id).send(&Raw::PROTO, &Bytes::from(vec![7; size]), now).expect("room");
}

/// What a side sent on a stream.
#[derive(Default)]
struct Sent {
    /// All DATA together.
    octets: Vec<u8>,
    /// Frames with END_STREAM.
    ends: usize,
    /// RST_STREAM frames.
    resets: usize,
}

fn sent(pair: &Pair, side: Side, stream: u32) -> Sent {
    let mut sent = Sent::default();
    for entry in pair.trace.sent_by(side).filter(|entry| entry.stream == stream) {
        match &entry.frame {
            Frame::Data { data, end, .. } => {
                assert_eq!(sent.ends + sent.resets, 0, "nothing follows the end");
                sent.octets.extend_from_slice(data);
                sent.ends += usize::from(*end);
            }
            Frame::Headers { end, .. } => sent.ends += usize::from(*end),
            Frame::Reset(_) => sent.resets += 1,
            _ => {}
        }
    }
    sent
}

fn octets_sent(pair: &Pair, side: Side) -> usize {
    sent(pair, side, 1).octets.len()
}

fn messages(pair: &mut Pair, id: CallId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Recv::Message(mut message) = pair.server_call(id).recv() {
        all.push(message.copy_to_bytes(message.len()).to_vec());
    }
    all
}

/// arch:C1, arch:C2, arch:C3, arch:C4, arch:C6, arch:C8: random commands, against a list of the octets that were
/// accepted. The same model is the fuzz target `coalesce_model`.
#[test]
fn a_buffer_does_what_its_model_does() {
    fn property(seed: u64) {
        let random = &mut Random::new(seed);
        let len = 5 + 3 * random.below(60);
        coalesce_model(&random.bytes(len));
    }
    QuickCheck::new().tests(500).quickcheck(property as fn(u64));
}

/// arch:C10, arch:C9, bg:W10, bg:W19: over any network, with short writes and full pipes, and whatever the policy is,
/// a stream has the same octets and one end, and the last message arrives when the sender finishes.
#[test]
fn the_octets_of_a_stream_do_not_depend_on_the_policy() {
    fn property(seed: u64) {
        let mut wires = Vec::new();
        for policy in POLICIES {
            let random = &mut Random::new(seed);
            let mut pair = Setup::random_network(seed).start();
            let now = pair.now();
            let id = pair.client.open(&CHAT, &options(policy), "proto", now).expect("a call");
            let mut received = Vec::new();
            let mut sizes = Vec::new();
            let mut peer = None;
            for _ in 0..random.below(60) {
                let size = if random.one_in(8) { random.below(40_000) } else { random.below(300) };
                let now = pair.now();
                let message = Bytes::from(vec![sizes.len() as u8; size]);
                let encoded = Encoded { bytes: message.clone(), compressed: false };
                loop {
                    let now = pair.now();
                    let mut call = pair.client_call(id);
                    let outcome = if size % 2 == 0 {
                        call.send(&Raw::PROTO, &message, now)
                    } else {
                        call.send_encoded(encoded.clone(), now)
                    };
                    if outcome.is_ok() {
                        break;
                    }
                    pair.drive();
                    let peer = *peer.get_or_insert_with(|| accept(&mut pair, CallKind::Bidi));
                    received.extend(messages(&mut pair, peer));
                }
                sizes.push(size);
                match random.below(10) {
                    0 => pair.client_call(id).flush(now).expect("an open call"),
                    1 => pair.pass(Duration::from_millis(2)),
                    2 => assert!(matches!(pair.client_call(id).recv(), Recv::Blocked)),
                    3 => pair.steps(3),
                    _ => {}
                }
            }
            let now = pair.now();
            pair.client_call(id).finish(now).expect("an open call");
            loop {
                pair.drive();
                let peer = *peer.get_or_insert_with(|| accept(&mut pair, CallKind::Bidi));
                let more = messages(&mut pair, peer);
                if more.is_empty() {
                    break;
                }
                received.extend(more);
            }
            assert!(received.iter().map(Vec::len).eq(sizes.iter().copied()), "{policy:?}");
            let Sent { octets, ends, .. } = sent(&pair, Side::Client, 1);
            assert_eq!((octets.len(), ends), (sizes.iter().map(|size| size + 5).sum(), 1), "{policy:?}");
            wires.push(octets);
        }
        assert!(wires.windows(2).all(|pair| pair[0] == pair[1]));
    }
    QuickCheck::new().tests(60).quickcheck(property as fn(u64));
}

/// bg:W1, bg:W2: below the watermark nothing leaves; with it everything does, in one write, in frames as large as may
/// be.
#[test]
fn nothing_leaves_before_the_watermark_and_then_all_in_one_write() {
    let (mut pair, id) = chat(FlushPolicy::coalesce(None));
    let writes = pair.up.writes().len();
    for _ in 0..FlushPolicy::WATERMARK / MESSAGE {
        send(&mut pair, id, 128);
        pair.drive();
    }
    assert!(!pair.client.wants_poll());
    assert_eq!(pair.up.writes().len(), writes, "246 messages, and no write");
    send(&mut pair, id, 128);
    pair.drive();
    assert_eq!(pair.up.writes().len(), writes + 1);
    let frames = pair.trace.sent_by(Side::Client).filter(|entry| matches!(entry.frame, Frame::Data { .. })).count();
    assert_eq!(frames, (247 * MESSAGE).div_ceil(16_384));
}

/// What lets go of messages: a flush, the time, an empty receive, the end; each at once and alone.
#[test]
fn each_way_to_let_go_works_by_itself() {
    let linger = Duration::from_millis(3);
    let (mut pair, id) = chat(FlushPolicy::coalesce(Some(linger)));
    let mut expected = 0;
    let holds = |pair: &mut Pair, expected: usize, what: &str| {
        pair.drive();
        assert_eq!(octets_sent(pair, Side::Client), expected, "{what}");
    };
    for way in 0..4 {
        send(&mut pair, id, 128);
        pair.pass(linger - Duration::from_nanos(1));
        holds(&mut pair, expected, "held back");
        let now = pair.now();
        match way {
            0 => pair.client_call(id).flush(now).unwrap(),
            1 => {
                assert_eq!(pair.client.poll_timeout(), Some(now + Duration::from_nanos(1)));
                pair.pass(Duration::from_nanos(1));
            }
            2 => assert!(matches!(pair.client_call(id).recv(), Recv::Blocked)),
            _ => pair.client_call(id).finish(now).unwrap(),
        }
        expected += MESSAGE;
        holds(&mut pair, expected, "let go");
    }
    assert_eq!(sent(&pair, Side::Client, 1).ends, 1);
}

/// A server holds the messages of a response back as a client those of a request, and its status lets go of them.
#[test]
fn a_server_may_hold_back_too() {
    let mut setup = Setup::default();
    setup.server.flush_watermark = 1000;
    setup.server.flush_linger = None;
    let mut pair = setup.start();
    let now = pair.now();
    pair.client.open(&CHAT, &CallOptions::default(), "proto", now).expect("a call");
    pair.drive();
    let id = accept(&mut pair, CallKind::Bidi);
    let message = Bytes::from(vec![1; 128]);
    for count in 1..=8 {
        let now = pair.now();
        pair.server_call(id).send(&Raw::PROTO, &message, now).expect("room");
        pair.drive();
        assert_eq!(octets_sent(&pair, Side::Server), if count < 8 { 0 } else { 8 * MESSAGE });
    }
    let now = pair.now();
    pair.server_call(id).set_flush_policy(FlushPolicy::Immediate, now);
    pair.server_call(id).send(&Raw::PROTO, &message, now).expect("room");
    pair.drive();
    assert_eq!(octets_sent(&pair, Side::Server), 9 * MESSAGE);
    let now = pair.now();
    pair.server_call(id).set_flush_policy(FlushPolicy::coalesce(None), now);
    pair.server_call(id).send(&Raw::PROTO, &message, now).expect("room");
    pair.server.call(id).expect("the call").finish(&Status::OK, &Metadata::new(), now).expect("an answer");
    pair.drive();
    assert_eq!((octets_sent(&pair, Side::Server), sent(&pair, Side::Server, 1).ends), (10 * MESSAGE, 1));
}

/// bg:W23, arch:C7: a stream that ends without a message still opens the call: in the dialects with envelopes by
/// HEADERS and an empty DATA in one write, for some peers never answer a request that HEADERS ends.
#[test]
fn a_stream_without_messages_opens_its_call() {
    for policy in POLICIES {
        let mut pair = Pair::default();
        pair.drive();
        let writes = pair.up.writes().len();
        let now = pair.now();
        let id = pair.client.open(&CHAT, &options(policy), "proto", now).expect("a call");
        pair.client_call(id).finish(now).expect("an open call");
        pair.drive();
        assert_eq!(pair.up.writes().len(), writes + 1);
        let frames: Vec<_> = pair.trace.sent_by(Side::Client).filter(|entry| entry.stream == 1).collect();
        assert!(matches!(frames[0].frame, Frame::Headers { end: false, .. }));
        assert_eq!(frames[1].frame, Frame::Data { data: Vec::new(), flow: 0, end: true });
        assert_eq!(frames.len(), 2);
        assert!(pair.server.accept().is_some(), "the server knows of it");
    }
}

/// bg:W9, bg:W22, arch:C7: calls with one request leave at once whatever the connection holds back, on the fast path
/// and on the general one, enveloped and bare; a bare one without content ends with its head.
#[test]
fn a_unary_call_is_never_held_back() {
    for (fast, protocol) in [(true, Protocol::Grpc), (false, Protocol::Grpc), (true, Protocol::Triple)]
        .into_iter()
        .chain([(false, Protocol::Triple), (true, Protocol::Connect), (false, Protocol::Connect)])
    {
        let mut setup = Setup::default();
        for config in [&mut setup.client, &mut setup.server] {
            config.flush_watermark = FlushPolicy::WATERMARK;
            config.flush_linger = None;
            config.unary_fast_path = fast;
        }
        let mut pair = setup.start();
        pair.drive();
        for size in [0, 128] {
            let (now, writes) = (pair.now(), [pair.up.writes().len(), pair.down.writes().len()]);
            let mut options = options(FlushPolicy::coalesce(None));
            options.protocol = Some(protocol);
            let message = Bytes::from(vec![1; size]);
            let id = pair.client.open_unary(&SAY, &options, &Raw::PROTO, &message, now).expect("a call");
            pair.drive();
            let call = accept(&mut pair, CallKind::Unary);
            let none = Metadata::new();
            let view = pair.server.call(call).expect("the call");
            view.respond(&Raw::PROTO, &message, &none, &none, now).expect("an answer");
            pair.drive();
            assert!(pair.client_call(id).status().is_some_and(Status::is_ok), "{protocol:?}, fast: {fast}");
            let after = [pair.up.writes().len(), pair.down.writes().len()];
            assert_eq!(after, [writes[0] + 1, writes[1] + 1], "{protocol:?}, fast: {fast}, one write each");
        }
    }
}

/// Goal G14: what is sent on an idle stream is in the very next output, with no timer set for it.
#[test]
fn a_single_message_leaves_with_the_next_output() {
    for sizes in [vec![0], vec![128], vec![16_384], vec![20_000], vec![1, 2, 3]] {
        let (mut pair, id) = chat(FlushPolicy::Immediate);
        let timeout = pair.client.poll_timeout();
        for size in &sizes {
            send(&mut pair, id, *size);
        }
        assert!(pair.client.wants_poll());
        let (mut out, now) = (Transmit::new(), pair.now());
        assert!(!pair.client.poll_transmit(&mut out, now), "nothing is left for later");
        let octets = sizes.iter().map(|size| size + 5).sum::<usize>();
        let frames = octets.div_ceil(16_384);
        assert_eq!(out.len(), octets + 9 * frames, "all of it, in as few frames as may be");
        out.advance(out.len());
        pair.client.poll_transmit(&mut out, now);
        assert_eq!(pair.client.poll_timeout(), timeout);
    }
}

/// What is ready together leaves together, whatever its size: neither 256 bytes nor 1 KiB nor any other is a limit from
/// which each message costs a write. On streams and by unary calls.
#[test]
fn a_burst_leaves_in_as_few_writes_as_its_bytes_need_at_any_size() {
    const BURST: usize = 64;
    for size in [0, 1, 128, 255, 256, 257, 511, 512, 1018, 1019, 1023, 1024, 1025, 2048, 4096, 9000, 16_379, 16_384] {
        for is_stream in [false, true] {
            let mut setup = Setup::default();
            for config in [&mut setup.client, &mut setup.server] {
                config.initial_stream_window = 1 << 20;
                config.initial_connection_window = 1 << 24;
            }
            let mut pair = setup.start();
            pair.drive();
            let (writes, octets) = (pair.up.writes().len(), pair.up.writes().iter().sum::<usize>());
            let now = pair.now();
            let message = Bytes::from(vec![1; size]);
            for _ in 0..BURST {
                let options = CallOptions::default();
                if is_stream {
                    let id = pair.client.open(&CHAT, &options, "proto", now).expect("a call");
                    pair.client_call(id).send(&Raw::PROTO, &message, now).expect("room");
                } else {
                    pair.client.open_unary(&SAY, &options, &Raw::PROTO, &message, now).expect("a call");
                }
            }
            pair.drive();
            let (writes, octets) = (pair.up.writes().len() - writes, pair.up.writes().iter().sum::<usize>() - octets);
            let target = Config::default().transmit_target;
            // The last frame of a write may reach beyond the target; a few writes may be acknowledgements.
            let most = octets.div_ceil(target) + 1;
            assert!(octets > BURST * size && writes <= most, "{size} bytes, {is_stream}: {writes} writes of {most}");
        }
    }
}

/// The `Writable` that follows `Blocked` comes also where messages are held back: a full buffer holds nothing.
#[test]
fn a_sender_that_was_blocked_goes_on_whatever_is_held_back() {
    for policy in POLICIES {
        let (mut pair, id) = chat(policy);
        let peer = accept(&mut pair, CallKind::Bidi);
        let (mut accepted, mut received) = (0, 0);
        while accepted < 3000 {
            let now = pair.now();
            match pair.client_call(id).send(&Raw::PROTO, &Bytes::from(vec![0; 128]), now) {
                Ok(()) => accepted += 1,
                Err(_) => {
                    pair.client_events.clear();
                    pair.drive();
                    received += messages(&mut pair, peer).len();
                    pair.drive();
                    assert!(pair.client_events.contains(&Event::Writable(id)), "{policy:?} after {accepted}");
                }
            }
        }
        assert!(received > 0);
    }
}
