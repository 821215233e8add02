//! Operations on both sides of a connection, read from bytes: what a fuzzer makes up, or a random test.

use std::time::Duration;

use trirpc_core::Config;
use trirpc_core::call::CallKind;

use crate::input::Input;
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

impl Op {
    /// Whose application it is an operation of.
    pub fn side(&self) -> Option<Side> {
        match *self {
            Self::OpenUnary { .. }
            | Self::Open { .. }
            | Self::ClientSend { .. }
            | Self::ClientFinish { .. }
            | Self::ClientRecv { .. }
            | Self::ClientCancel { .. }
            | Self::ClientRelease { .. } => Some(Side::Client),
            Self::Accept
            | Self::ServerHead { .. }
            | Self::ServerSend { .. }
            | Self::ServerRecv { .. }
            | Self::ServerRespond { .. }
            | Self::ServerFinish { .. }
            | Self::ServerRelease { .. } => Some(Side::Server),
            Self::Shutdown { side } | Self::Abort { side } => Some(side),
            Self::Step { .. } | Self::Pass { .. } | Self::Cut => None,
        }
    }

    /// An octet that chooses, one for the call, and what the operation needs beside it.
    fn read(input: &mut Input<'_>) -> Self {
        let choice = input.octet() % 100;
        let call = usize::from(input.octet());
        match choice {
            0..=7 => Self::OpenUnary { size: message_size(input), timeout: timeout(call) },
            8..=15 => Self::Open { kind: kind(call), timeout: timeout(call) },
            16..=27 => Self::ClientSend { call, size: message_size(input) },
            28..=31 => Self::ClientFinish { call },
            32..=39 => Self::ClientRecv { call },
            40 => Self::ClientCancel { call },
            41 => Self::ClientRelease { call },
            42..=47 => Self::Accept,
            48 => Self::ServerHead { call },
            49..=58 => Self::ServerSend { call, size: message_size(input) },
            59..=68 => Self::ServerRecv { call },
            69..=73 => Self::ServerRespond { call, size: message_size(input) },
            74..=77 => {
                let code = input.octet();
                Self::ServerFinish { call, code: if code < 128 { 0 } else { u32::from(code % 18) } }
            }
            78 => Self::ServerRelease { call },
            79..=94 => Self::Step { turns: 1 + call % 8 },
            95..=98 => Self::Pass { millis: 2 * call as u64 },
            _ => match call % 6 {
                0 | 1 => Self::Shutdown { side: Side::Client },
                2 | 3 => Self::Shutdown { side: Side::Server },
                4 => Self::Abort { side: if call < 128 { Side::Client } else { Side::Server } },
                _ => Self::Cut,
            },
        }
    }
}

fn kind(octet: usize) -> CallKind {
    [CallKind::Unary, CallKind::ClientStreaming, CallKind::ServerStreaming, CallKind::Bidi][octet % 4]
}

/// Once in eight times, up to two seconds.
fn timeout(octet: usize) -> Option<u16> {
    (octet >= 224).then(|| 60 * (octet as u16 - 224))
}

/// Many small ones, and a few larger than every window.
fn message_size(input: &mut Input<'_>) -> usize {
    let number = usize::from(input.short());
    match number >> 12 {
        0 => 0,
        1 if number % 8 == 0 => 100_000 + 50 * (number & 0xfff),
        2..=4 => number % 20_000,
        5..=8 => number % 2000,
        _ => number % 64,
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

impl Script {
    /// Four octets of seed, then operations.
    pub fn read(bytes: &[u8]) -> Self {
        let mut input = Input::new(bytes);
        let seed = u64::from(input.short()) << 16 | u64::from(input.short());
        let ops = std::iter::from_fn(|| (!input.is_empty()).then(|| Op::read(&mut input))).collect();
        Self { seed, ops }
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
    config.scatter_from = config.send_buffer;
    config.flush_watermark = *random.pick(&[0, 0, 100, 5000, 32_768, usize::MAX]);
    config.flush_linger = *random.pick(&[None, Some(Duration::ZERO), Some(Duration::from_millis(1))]);
    config
}
