//! What quickcheck makes up: scripts of operations on both sides, and byte streams of bad peers.

use std::time::Duration;

use quickcheck::{Arbitrary, Gen};
use trirpc_core::Config;
use trirpc_core::call::CallKind;

use crate::frames;
use crate::random::Random;
use crate::trace::Side;

/// One operation. Calls are named by an index modulo the calls that there are.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the names are those of the methods that they call")]
pub enum Op {
    OpenUnary {
        size: usize,
        timeout: Option<u16>,
    },
    Open {
        kind: CallKind,
        timeout: Option<u16>,
    },
    ClientSend {
        call: usize,
        size: usize,
    },
    ClientFinish {
        call: usize,
    },
    ClientRecv {
        call: usize,
    },
    ClientCancel {
        call: usize,
    },
    ClientRelease {
        call: usize,
    },
    Accept,
    ServerHead {
        call: usize,
    },
    ServerSend {
        call: usize,
        size: usize,
    },
    ServerRecv {
        call: usize,
    },
    ServerRespond {
        call: usize,
        size: usize,
    },
    ServerFinish {
        call: usize,
        code: u32,
    },
    ServerRelease {
        call: usize,
    },
    Step {
        turns: usize,
    },
    Pass {
        millis: u64,
    },
    Shutdown {
        side: Side,
    },
    Abort {
        side: Side,
    },
    /// The transport breaks for both sides.
    Cut,
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Self {
        let random = &mut Random::new(u64::arbitrary(g));
        let call = random.below(256);
        let size = message_size(random);
        let timeout = random.one_in(8).then(|| random.below(2000) as u16);
        let kind =
            *random.pick(&[CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi]);
        match random.below(100) {
            0..=7 => Self::OpenUnary { size, timeout },
            8..=15 => Self::Open { kind, timeout },
            16..=27 => Self::ClientSend { call, size },
            28..=31 => Self::ClientFinish { call },
            32..=39 => Self::ClientRecv { call },
            40 => Self::ClientCancel { call },
            41 => Self::ClientRelease { call },
            42..=47 => Self::Accept,
            48 => Self::ServerHead { call },
            49..=58 => Self::ServerSend { call, size },
            59..=68 => Self::ServerRecv { call },
            69..=73 => Self::ServerRespond { call, size },
            74..=77 => Self::ServerFinish { call, code: if random.one_in(2) { 0 } else { random.below(18) as u32 } },
            78 => Self::ServerRelease { call },
            79..=94 => Self::Step { turns: 1 + random.below(8) },
            95..=98 => Self::Pass { millis: random.bits() % 500 },
            _ => match random.below(6) {
                0 | 1 => Self::Shutdown { side: Side::Client },
                2 | 3 => Self::Shutdown { side: Side::Server },
                4 => Self::Abort { side: *random.pick(&[Side::Client, Side::Server]) },
                _ => Self::Cut,
            },
        }
    }
}

fn message_size(random: &mut Random) -> usize {
    match random.below(40) {
        0 | 1 => 0,
        2 => 100_000 + random.below(200_000),
        3..=9 => random.below(20_000),
        _ => random.length(2000),
    }
}

/// Operations on two connections over a network and with limits that follow from `seed`.
#[derive(Clone, Debug)]
pub struct Script {
    /// Of network and limits.
    pub seed: u64,
    /// In order.
    pub ops: Vec<Op>,
}

impl Arbitrary for Script {
    fn arbitrary(g: &mut Gen) -> Self {
        Self { seed: u64::arbitrary(g), ops: Vec::arbitrary(g) }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let seed = self.seed;
        Box::new(self.ops.shrink().map(move |ops| Self { seed, ops }))
    }
}

/// Limits, many of them far smaller than anyone would choose, and no timers: a slow network is no fault.
pub fn config(random: &mut Random) -> Config {
    let mut config = Config::default();
    config.handshake_timeout = None;
    config.settings_timeout = None;
    config.header_block_timeout = None;
    config.send_stall_timeout = None;
    config.write_stall_timeout = None;
    config.drain_timeout = None;
    if random.one_in(3) {
        return config;
    }
    config.max_concurrent_streams = *random.pick(&[1, 3, 256]);
    config.max_pending = *random.pick(&[0, 1, 1000]);
    config.initial_stream_window = *random.pick(&[5, 16, 100, 4000, 65_535, 1 << 20]);
    config.initial_connection_window = *random.pick(&[65_535, 65_536, 1 << 20]);
    config.max_frame_size = *random.pick(&[16_384, 65_536]);
    config.header_table = *random.pick(&[0, 100, 4096, 65_536]);
    config.max_reserved = *random.pick(&[0, 1000, 1 << 24]);
    config.transmit_target = *random.pick(&[1, 100, 1000, 65_536]);
    config.send_buffer = *random.pick(&[1, 1000, 65_536]);
    config.copy_below = *random.pick(&[0, 64, 1024]);
    config.flush_watermark = *random.pick(&[0, 0, 100, 5000, 32_768, usize::MAX]);
    config.flush_linger = *random.pick(&[None, Some(Duration::ZERO), Some(Duration::from_millis(1))]);
    config
}

/// What a client sends that knows HTTP/2 and gRPC, and breaks their rules now and then.
pub fn client_bytes(seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = [frames::PREFACE, &frames::settings(&settings(random)), &frames::settings_ack()].concat();
    let mut next = 1;
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "localhost"),
        (":path", *random.pick(&["/t.Echo/Say", "/t.Echo/Chat", "/", ""])),
        ("content-type", *random.pick(&["application/grpc", "application/grpc+proto", "text/plain"])),
        ("te", "trailers"),
    ];
    for _ in 0..1 + random.below(30) {
        let stream = if next > 1 && !random.one_in(10) { 1 + 2 * random.below(next as usize / 2) as u32 } else { next };
        let frame = match random.below(12) {
            0..=3 => {
                next += 2;
                if random.one_in(10) {
                    fields.push(*random.pick(&[
                        ("connection", "close"),
                        ("grpc-timeout", "1x"),
                        ("UPPER", "case"),
                        (":late", ""),
                    ]));
                }
                let end = random.one_in(6);
                split_headers(random, next - 2, &frames::block(&fields), end)
            }
            4..=7 => {
                let size = random.length(3000);
                let mut message = frames::envelope(&random.bytes(size));
                message.truncate(if random.one_in(4) { random.below(message.len() + 1) } else { message.len() });
                frames::data(stream, &message, random.one_in(2))
            }
            _ => any_frame(random, stream),
        };
        bytes.extend(frame);
    }
    mutate(random, bytes)
}

/// What a server sends to a client that has opened `streams`, with faults now and then.
pub fn server_bytes(seed: u64, streams: &[u32]) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let mut bytes = [frames::settings(&settings(random)), frames::settings_ack()].concat();
    for _ in 0..1 + random.below(30) {
        let stream = if random.one_in(20) { random.below(30) as u32 } else { *random.pick(streams) };
        let frame = match random.below(12) {
            0..=2 => {
                let status = *random.pick(&["200", "200", "200", "100", "404", "x"]);
                let fields = [(":status", status), ("content-type", "application/grpc"), ("k", "v")];
                let end = random.one_in(8);
                split_headers(random, stream, &frames::block(&fields), end)
            }
            3..=5 => {
                let size = random.length(3000);
                frames::data(stream, &frames::envelope(&random.bytes(size)), random.one_in(8))
            }
            6 | 7 => {
                let status = *random.pick(&["0", "0", "5", "99", "-1"]);
                frames::headers(stream, &[("grpc-status", status), ("grpc-message", "a%20b")], !random.one_in(8))
            }
            _ => any_frame(random, stream),
        };
        bytes.extend(frame);
    }
    mutate(random, bytes)
}

fn settings(random: &mut Random) -> Vec<(u16, u32)> {
    let choices = [
        (1, 0),
        (1, 65_536),
        (2, 0),
        (3, 1),
        (3, 100),
        (4, 0),
        (4, 10),
        (4, 100_000),
        (5, 16_384),
        (6, 100),
        (99, 1),
        (4, u32::MAX),
        (5, 1),
    ];
    let legal = if random.one_in(20) { choices.len() } else { choices.len() - 2 };
    (0..random.below(4)).map(|_| *random.pick(&choices[..legal])).collect()
}

/// A frame that has nothing to do with a message's own course.
fn any_frame(random: &mut Random, stream: u32) -> Vec<u8> {
    match random.below(9) {
        0 => frames::window_update(0, 1 + random.below(70_000) as u32),
        1 => frames::window_update(stream, random.below(70_000) as u32),
        2 => frames::ping(random.bits().to_be_bytes(), random.one_in(4)),
        3 => frames::settings(&settings(random)),
        4 => frames::reset(stream, random.below(16) as u32),
        5 => frames::frame(2, 0, stream, &random.bytes(5)),
        6 if random.one_in(4) => frames::go_away(random.below(9) as u32, random.below(14) as u32),
        7 => {
            let padded = [&[3][..], &random.bytes(10)].concat();
            frames::frame(0, 8, stream, &padded)
        }
        _ => {
            let size = random.below(20);
            frames::frame(random.bits() as u8, random.bits() as u8, stream, &random.bytes(size))
        }
    }
}

/// A header block in one HEADERS, or with CONTINUATIONs.
fn split_headers(random: &mut Random, stream: u32, block: &[u8], end: bool) -> Vec<u8> {
    let (first, rest) = block.split_at(if random.one_in(3) { random.below(block.len()) } else { block.len() });
    let end_headers = if rest.is_empty() { 4 } else { 0 };
    let mut bytes = frames::frame(1, end_headers | u8::from(end), stream, first);
    if !rest.is_empty() {
        let (middle, last) = rest.split_at(random.below(rest.len()));
        bytes.extend(frames::frame(9, 0, stream, middle));
        bytes.extend(frames::frame(9, 4, stream, last));
    }
    bytes
}

/// Leaves most streams as they are, and damages the rest in one place.
fn mutate(random: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    let at = random.below(bytes.len());
    match random.below(10) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes.truncate(at),
        2 => drop(bytes.drain(at..(at + 1 + random.below(20)).min(bytes.len()))),
        3 => {
            let inserted = random.length(30);
            bytes.splice(at..at, random.bytes(inserted));
        }
        _ => {}
    }
    bytes
}
