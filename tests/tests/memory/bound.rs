//! `Config::memory_bound`: what a peer tries to exceed it, for every profile, and how near it comes.

use std::fs;

use bytes::BufMut;
use trirpc_core::call::{CallKind, CallOptions, EncodeBuf, MethodSpec, Recv};
use trirpc_core::http::Field;
use trirpc_core::{Config, MemoryBound, Side};
use trirpc_tests::alloc::{Cost, measure};
use trirpc_tests::frames::{PREFACE, block, data, envelope, frame, headers, ping, settings, settings_ack};
use trirpc_tests::sources::{files, root};

use crate::victim::{Victim, now};

static CHAT: MethodSpec = MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false);

fn profiles() -> [(&'static str, Config); 3] {
    [
        ("default", Config::default()),
        ("server_many_connections", Config::server_many_connections()),
        ("embedded", Config::embedded()),
    ]
}

/// Ids of as many streams as may be open.
fn ids(config: &Config) -> impl Iterator<Item = u32> + use<> {
    (0..config.max_concurrent_streams).map(|n| 2 * n + 1)
}

/// What `work` costs a connection of `side` at most is within the bound.
#[track_caller]
fn within<T>(side: Side, name: &str, config: &Config, work: impl FnOnce() -> T) -> (T, Cost, MemoryBound) {
    let bound = MemoryBound::new(side, config);
    let (result, cost) = measure(work);
    let peak = usize::try_from(cost.peak).expect("something was held");
    assert!(peak <= bound.total(), "{name}: {peak} bytes at once, the bound is {}: {bound:?}", bound.total());
    (result, cost, bound)
}

/// At least half of a term was reached, so that the bound says something.
#[track_caller]
fn reaches(name: &str, cost: &Cost, term: usize) {
    assert!(cost.peak >= term as i64 / 2, "{name}: {} of {term} bytes", cost.peak);
}

/// HEADERS, and CONTINUATION as far as frames demand.
fn in_frames(stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut pieces = block.chunks(16_384).enumerate().peekable();
    while let Some((n, piece)) = pieces.next() {
        let last = if pieces.peek().is_none() { 4 } else { 0 };
        let (kind, flags) = if n == 0 { (1, last | u8::from(end)) } else { (9, last) };
        octets.extend(frame(kind, flags, stream, piece));
    }
    octets
}

/// A list that begins with `fields`, is as large as may be, and has as many fields as may be.
fn largest_list(config: &Config, fields: &[(&str, &str)]) -> Vec<u8> {
    let size = |(name, value): &(&str, &str)| name.len() + value.len() + Field::OVERHEAD;
    let more = config.max_headers - fields.len();
    let room = config.max_header_list as usize - fields.iter().map(size).sum::<usize>();
    let value = "v".repeat(room / more - Field::OVERHEAD - 5);
    let names: Vec<String> = (0..more).map(|n| format!("x-{n:03}")).collect();
    let fields: Vec<_> =
        fields.iter().copied().chain(names.iter().map(|name| (name.as_str(), value.as_str()))).collect();
    fields_block(&fields)
}

/// A block that makes the table empty, as it must be where it may not have the size of the RFC.
fn fields_block(fields: &[(&str, &str)]) -> Vec<u8> {
    [&[0x20][..], &block(fields)].concat()
}

fn request(stream: u32) -> Vec<u8> {
    in_frames(stream, &fields_block(&REQUEST), false)
}

const REQUEST: [(&str, &str); 6] = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/t.Echo/Collect"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];
const RESPONSE: [(&str, &str); 2] = [(":status", "200"), ("content-type", "application/grpc")];

/// `octets` in DATA of at most `piece` octets each.
fn in_data(stream: u32, octets: &[u8], piece: usize) -> Vec<u8> {
    octets.chunks(piece).flat_map(|piece| data(stream, piece, false)).collect()
}

/// Small messages that fill a window, and are not read.
fn window_full(config: &Config) -> Vec<u8> {
    let window = config.initial_stream_window as usize;
    let mut octets: Vec<u8> = envelope(b"x").repeat(window / 6);
    octets.truncate(window);
    octets
}

/// `h2:E5`, `h2:P3`: every stream with a head as large as may be, and its window full.
#[test]
fn the_largest_heads_and_full_windows_on_all_streams() {
    for (name, config) in profiles() {
        let list = largest_list(&config, &REQUEST);
        let heads: Vec<_> = ids(&config).map(|id| in_frames(id, &list, false)).collect();
        let body = window_full(&config);
        let bodies: Vec<_> = ids(&config).map(|id| in_data(id, &body, 1000)).collect();
        let (victim, cost, bound) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            heads.iter().for_each(|head| victim.take(head));
            victim
        });
        victim.is_fine();
        assert_eq!(victim.accepted.len(), config.max_concurrent_streams as usize);
        reaches(name, &cost, bound.heads);
        drop(victim);
        let (victim, ..) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            heads.iter().zip(&bodies).for_each(|(head, body)| {
                victim.take(head);
                victim.take(body);
            });
            victim
        });
        victim.is_fine();
    }
}

/// `h2:P3`, `h2:DL2`: all that may be reserved is used up by messages of which an octet is missing.
#[test]
fn reservations_that_are_used_up() {
    for (name, config) in profiles() {
        let message = config.max_recv_message;
        let streams = (config.max_reserved / message).clamp(1, config.max_concurrent_streams as usize);
        let mut octets = envelope(&vec![7; message]);
        octets.pop();
        let (announced, rest) = octets.split_at(5);
        let begun: Vec<_> =
            ids(&config).take(streams).map(|id| [request(id), data(id, announced, false)].concat()).collect();
        let rests: Vec<_> = ids(&config).take(streams).map(|id| in_data(id, rest, 16_384)).collect();
        let (victim, cost, _) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            for (begun, rest) in begun.iter().zip(&rests) {
                victim.take(begun);
                victim.take(rest);
            }
            victim
        });
        victim.is_fine();
        reaches(name, &cost, config.max_reserved);
    }
}

/// `h2:P3`: all of it at once, and more than half of the bound.
#[test]
fn heads_messages_answers_and_reservations_at_once() {
    for (name, config) in profiles() {
        let list = largest_list(&config, &REQUEST);
        let heads: Vec<_> = ids(&config).map(|id| in_frames(id, &list, false)).collect();
        let mut large = envelope(&vec![7; config.max_recv_message]);
        large.pop();
        let small = window_full(&config);
        let reserving = config.max_reserved / config.max_recv_message;
        let bodies: Vec<_> = ids(&config)
            .enumerate()
            .map(|(n, id)| {
                let (begin, rest) = if n < reserving { large.split_at(5) } else { small.split_at(0) };
                (data(id, begin, false), in_data(id, rest, 16_384))
            })
            .collect();
        let (open, pings) = (settings(&[]), ping([1; 8], false).repeat(config.max_control_queue / 2));
        let len = config.send_buffer.min(16 * 1024) / 16 * 9;
        let ((), cost, bound) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            victim.take(&open);
            for (head, (begin, rest)) in heads.iter().zip(&bodies) {
                victim.take(head);
                victim.take(begin);
                victim.take(rest);
                fill(&mut victim, len);
            }
            victim.writes = false;
            victim.take(&pings);
            victim.write();
            victim.is_fine();
        });
        if config.max_reserved > 0 {
            reaches(name, &cost, bound.total());
        }
    }
}

/// `h2:A21`: whole messages, each in a window of its own, which it would keep alive.
#[test]
fn messages_that_wait_leave_the_windows_that_they_came_in() {
    for (name, mut config) in profiles() {
        config.max_control_frames = u32::MAX;
        let junk = frame(0xf0, 0, 0, &[0; 16_000]).repeat(17);
        let requests: Vec<_> = ids(&config).map(request).collect();
        let messages: Vec<_> = ids(&config)
            .map(|id| [&junk, &*data(id, &envelope(b"1"), false), &data(id, &envelope(b"2"), false)].concat())
            .collect();
        let large: Vec<_> = ids(&config).map(|id| [&junk, &*data(id, &envelope(&[3; 9000]), false)].concat()).collect();
        let allowed = config.max_recv_message >= 9000;
        let (victim, cost, bound) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            // What was read in front of a message belongs to it.
            for n in 0..requests.len() {
                victim.take(&requests[n]);
                victim.take(&messages[n]);
                if allowed {
                    victim.take(&large[n]);
                }
            }
            victim
        });
        victim.is_fine();
        // Heads, calls and twice the octets.
        let each = 2 * 9012 + 4096;
        let held = bound.input + bound.tables + bound.kept.min(512 * 1024) + requests.len() * each;
        assert!(cost.held <= held as i64, "{name}: {} of {held}", cost.held);
    }
}

/// Queues messages of `len` bytes until a call takes no more.
fn fill(victim: &mut Victim, len: usize) {
    let id = victim.accepted.pop().expect("a call");
    let mut call = victim.conn.call(id).expect("a call");
    call.expect(CallKind::Bidi, now());
    let encode = &mut |dst: &mut EncodeBuf<'_>| {
        dst.buf().put_bytes(7, len);
        Ok(())
    };
    while call.send_with(Some(len), encode, now()).is_ok() {}
}

/// `h2:A25`, `h2:A42`: handlers that answer a peer which has closed its windows, and which does not read.
#[test]
fn answers_that_no_window_lets_through() {
    for (name, config) in profiles() {
        let requests: Vec<_> = ids(&config).map(request).collect();
        let (open, closed) = (settings(&[]), settings(&[(4, 0)]));
        // More than half of what messages are gathered in, so that as much is left over.
        let len = config.send_buffer.min(16 * 1024) / 16 * 9;
        for first in [&closed, &open] {
            let (victim, cost, bound) = within(Side::Server, name, &config, || {
                let mut victim = Victim::new(config.clone(), false);
                victim.take(first);
                for request in &requests {
                    victim.take(request);
                    fill(&mut victim, len);
                    victim.write();
                }
                victim
            });
            victim.is_fine();
            reaches(name, &cost, bound.sending);
        }
    }
}

/// `h2:A5`, `h2:A17`: whatever has to be answered, by an end whose answers are not taken.
#[test]
fn answers_of_control_that_are_not_taken() {
    let refused = [(":method", "PUT"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
    for (name, config) in profiles() {
        let too_large = in_frames(1, &block(&[("x", &"v".repeat(config.max_header_list as usize + 1))]), true);
        let floods: Vec<Vec<u8>> = vec![
            ping([1; 8], false).repeat(20_000),
            settings(&[(1, 0), (1, 4096)]).repeat(5000),
            (0..3000).flat_map(|n| headers(2 * n + 1, &refused, true)).collect(),
            (0..3000).flat_map(|n| headers(2 * n + 1, &refused[1..], n % 2 == 0)).collect(),
            (0..900).flat_map(|n| [&too_large[..5], &u32::to_be_bytes(2 * n + 1), &too_large[9..]].concat()).collect(),
        ];
        for flood in floods {
            within(Side::Server, name, &config, || {
                let mut victim = Victim::new(config.clone(), false);
                victim.take(&flood);
                victim
            });
        }
    }
}

/// `h2:A6`, `h2:A7`, `h2:A9`, `h2:A15`: blocks that are gathered up to their limit, and strings that are larger when they
/// are decoded.
#[test]
fn header_blocks_that_are_as_long_as_may_be() {
    for (name, config) in profiles() {
        let max = 2 * config.max_header_list as usize;
        // Huffman code of `0`s: five bits each.
        let length = |len: usize| {
            let rest = len - 127;
            [0xff, (rest & 0x7f) as u8 | 0x80, (rest >> 7 & 0x7f) as u8 | 0x80, (rest >> 14) as u8]
        };
        for first in [0, max / 2 - 100] {
            let mut long = vec![0, 1, b'x'];
            if first > 0 {
                long.extend(length(first));
                long.resize(long.len() + first, 0);
                long.extend([0, 1, b'y']);
            }
            let rest = max - long.len() - 4;
            long.extend(length(rest));
            long.resize(max, 0);
            let whole = in_frames(1, &long, true);
            let cut = &whole[..whole.len() - 1];
            for octets in [&whole, cut] {
                within(Side::Server, name, &config, || {
                    let mut victim = Victim::new(config.clone(), true);
                    octets.chunks(100).for_each(|octets| victim.take(octets));
                    victim
                });
            }
        }
    }
}

/// `h2:A47`, `h2:A13`: tables that are full, of few long fields or of many short ones, and come round again and again
/// while heads that name them are kept.
#[test]
fn tables_that_come_round() {
    for (name, config) in profiles() {
        for (value, entries) in [("", 130), ("0123456789", 100), (&*"v".repeat(120), 30), (&*"v".repeat(700), 6)] {
            let literals = |n: u32| -> Vec<u8> {
                (0..entries)
                    .flat_map(|entry| [&[0x40, 0][..], &literal(&format!("x{n:04}{entry:03}{value}"))].concat())
                    .collect()
            };
            let heads: Vec<_> = ids(&config)
                .map(|id| {
                    let table = in_frames(2 * id + 1, &[block(&REQUEST[..1]), literals(id)].concat(), true);
                    let named = in_frames(2 * id + 3, &[block(&REQUEST), vec![0xbe, 0xc0, 0xc1]].concat(), false);
                    [table, named].concat()
                })
                .collect();
            within(Side::Server, name, &config, || {
                let mut victim = Victim::fresh(config.clone(), true);
                victim.take(&[PREFACE, &settings(&[])].concat());
                heads.iter().for_each(|head| victim.take(head));
                victim
            });
        }
    }
}

/// A string literal without Huffman code.
fn literal(text: &str) -> Vec<u8> {
    block(&[("", text)]).split_off(2)
}

/// Large messages that are taken and dropped leave the pool behind, and nothing else.
#[test]
fn a_pool_that_is_full() {
    for (name, config) in profiles() {
        let len = config.max_recv_message.min(1 << 20);
        let message = envelope(&vec![7; len]);
        let count = config.pool_bytes / len + 2;
        let (announced, rest) = message.split_at(5);
        let requests: Vec<_> = (0..count as u32)
            .map(|n| 2 * n + 1)
            .map(|id| ([request(id), data(id, announced, false)].concat(), in_data(id, rest, 16_384)))
            .collect();
        let (victim, cost, bound) = within(Side::Server, name, &config, || {
            let mut victim = Victim::new(config.clone(), true);
            for (head, body) in &requests {
                victim.take(head);
                victim.take(body);
                let id = victim.accepted.pop().expect("a call");
                let mut call = victim.conn.call(id).expect("a call");
                assert!(matches!(call.recv(), Recv::Message(message) if message.len() == len));
                call.release();
                victim.write();
            }
            victim
        });
        victim.is_fine();
        assert!(cost.held as usize <= bound.kept + bound.input + bound.tables + bound.connection + bound.streams);
    }
}

/// `h2:P3` for a client: as many calls as are counted, with responses as large as may be, heads and trailers as well.
#[test]
fn responses_that_nobody_reads() {
    for (name, config) in profiles() {
        let (head, trailers) = (largest_list(&config, &RESPONSE), largest_list(&config, &[("grpc-status", "0")]));
        let heads: Vec<_> = ids(&config).map(|id| in_frames(id, &head, false)).collect();
        let ends: Vec<_> = ids(&config).map(|id| in_frames(id, &trailers, true)).collect();
        let body = window_full(&config);
        let bodies: Vec<_> = ids(&config).map(|id| in_data(id, &body, 1000)).collect();
        for with_bodies in [false, true] {
            let (victim, cost, bound) = within(Side::Client, name, &config, || {
                let mut victim = Victim::client(config.clone());
                victim.hear(&[settings(&[(3, 1000)]), settings_ack()].concat());
                for n in 0..heads.len() {
                    victim.conn.open(&CHAT, &CallOptions::default(), "proto", now()).expect("a stream");
                    victim.write();
                    victim.hear(&heads[n]);
                    if with_bodies {
                        victim.hear(&bodies[n]);
                    }
                    victim.hear(&ends[n]);
                }
                victim
            });
            victim.is_fine();
            assert_eq!(victim.conn.open_calls(), config.max_concurrent_streams as usize);
            if !with_bodies {
                reaches(name, &cost, bound.heads);
            }
        }
    }
}

/// The inputs that fuzzing has kept.
#[test]
fn inputs_of_the_fuzz_corpora() {
    let mut inputs = 0;
    for corpus in ["server_bytes", "frame", "hpack_decode", "validate", "client_bytes"] {
        for file in files(&root().join("fuzz/corpus").join(corpus), |_| true) {
            let octets = fs::read(file).expect("readable input");
            for (name, config) in profiles() {
                for preface in [&b""[..], &[PREFACE, &settings(&[])].concat()] {
                    within(Side::Server, name, &config, || {
                        let mut victim = Victim::fresh(config.clone(), false);
                        victim.take(preface);
                        victim.take(&octets);
                    });
                }
                within(Side::Client, name, &config, || {
                    let mut victim = Victim::client(config.clone());
                    let _ = victim.conn.open(&CHAT, &CallOptions::default(), "proto", now());
                    victim.write();
                    victim.hear(&octets);
                });
            }
            inputs += 1;
        }
    }
    assert!(inputs > 50, "{inputs} inputs");
}
