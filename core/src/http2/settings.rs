//! SETTINGS (RFC 9113 §6.5): what the peer asked of us, and what we asked of the peer.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;

use crate::config::Config;
use crate::error::{ErrorCode, PeerMisbehaved};
use crate::http2::Side;
use crate::http2::frame::{self, DEFAULT_WINDOW, MAX_MAX_FRAME_SIZE, MAX_WINDOW, MIN_MAX_FRAME_SIZE};

const HEADER_TABLE_SIZE: u16 = 1;
const ENABLE_PUSH: u16 = 2;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;
const MAX_HEADER_LIST_SIZE: u16 = 6;
const ENABLE_CONNECT_PROTOCOL: u16 = 8;
const NO_RFC7540_PRIORITIES: u16 = 9;

const DEFAULT_HEADER_TABLE_SIZE: u32 = 4096;

/// Smallest receive window of a stream: the prefix of a message must fit, for the window is raised only once the
/// message's length is known.
const MIN_STREAM_WINDOW: u32 = 5;

/// Streams a client assumes it may open before the server has said anything.
const ASSUMED_CONCURRENT_STREAMS: u32 = 100;

/// Largest DATA frame we send, in octets: every peer takes it (RFC 9113 §4.2), and more would make a turn long.
pub(crate) const MAX_DATA: usize = MIN_MAX_FRAME_SIZE as usize;

/// The values that bind what we send. They hold from the moment the acknowledgement is queued.
#[derive(Debug)]
pub(crate) struct PeerSettings {
    /// Most the peer's HPACK decoder keeps.
    pub(crate) header_table_size: u32,
    /// Streams we may have open (client); `None` until the first SETTINGS, `u32::MAX` if it is unlimited.
    max_concurrent_streams: Option<u32>,
    /// Initial send window of streams.
    pub(crate) initial_window: u32,
    /// Largest payload we may send.
    pub(crate) max_frame_size: u32,
    /// Largest field list the peer accepts.
    pub(crate) max_header_list: u32,
    connect_protocol: bool,
    no_priorities: Option<bool>,
    received: bool,
}

/// What a SETTINGS frame changed beyond the values themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// Difference of INITIAL_WINDOW_SIZE, for the send window of every stream (§6.9.2).
    pub(crate) window_delta: i64,
    /// The peer's HPACK table size was set: the smallest and the last value.
    pub(crate) header_table: Option<(u32, u32)>,
    /// It was the first SETTINGS frame.
    pub(crate) first: bool,
}

impl PeerSettings {
    pub(crate) fn new() -> Self {
        Self {
            header_table_size: DEFAULT_HEADER_TABLE_SIZE,
            max_concurrent_streams: None,
            initial_window: DEFAULT_WINDOW,
            max_frame_size: MIN_MAX_FRAME_SIZE,
            max_header_list: u32::MAX,
            connect_protocol: false,
            no_priorities: None,
            received: false,
        }
    }

    /// Did the first SETTINGS arrive?
    pub(crate) fn is_received(&self) -> bool {
        self.received
    }

    /// Streams we may have open at once: 100 until the peer has spoken, then what it says; nothing said
    /// means no limit. It may shrink below what is open, which closes nothing.
    pub(crate) fn max_concurrent_streams(&self) -> u32 {
        match (self.max_concurrent_streams, self.received) {
            (Some(limit), _) => limit,
            (None, true) => u32::MAX,
            (None, false) => ASSUMED_CONCURRENT_STREAMS,
        }
    }

    /// Applies a SETTINGS payload of `side`'s peer, in wire order, the last of duplicates winning.
    ///
    /// Every value is checked before it is stored. Unknown identifiers are ignored (§6.5.2).
    #[expect(clippy::arithmetic_side_effects, reason = "32 bits in 64")]
    pub(crate) fn apply(&mut self, payload: &[u8], side: Side) -> Result<Changes, PeerMisbehaved> {
        let window_before = self.initial_window;
        let first = !self.received;
        let mut changes = Changes { first, ..Changes::default() };
        for (id, value) in frame::decode_settings(payload) {
            match id {
                HEADER_TABLE_SIZE => {
                    let smallest = changes.header_table.map_or(value, |(smallest, _)| smallest.min(value));
                    changes.header_table = Some((smallest, value));
                    self.header_table_size = value;
                }
                ENABLE_PUSH => match (value, side) {
                    (0, _) | (1, Side::Server) => {}
                    (1, Side::Client) => return Err(protocol("server sent SETTINGS_ENABLE_PUSH 1")),
                    _ => return Err(protocol("SETTINGS_ENABLE_PUSH is neither 0 nor 1")),
                },
                MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = Some(value),
                INITIAL_WINDOW_SIZE => {
                    if value > MAX_WINDOW {
                        let detail = "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1";
                        return Err(PeerMisbehaved { code: ErrorCode::FLOW_CONTROL_ERROR, detail });
                    }
                    self.initial_window = value;
                }
                MAX_FRAME_SIZE => {
                    if !(MIN_MAX_FRAME_SIZE..=MAX_MAX_FRAME_SIZE).contains(&value) {
                        return Err(protocol("SETTINGS_MAX_FRAME_SIZE out of range"));
                    }
                    self.max_frame_size = value;
                }
                MAX_HEADER_LIST_SIZE => self.max_header_list = value,
                ENABLE_CONNECT_PROTOCOL => {
                    if value > 1 || (self.connect_protocol && value == 0) {
                        return Err(protocol("bad SETTINGS_ENABLE_CONNECT_PROTOCOL"));
                    }
                    self.connect_protocol = value == 1;
                }
                NO_RFC7540_PRIORITIES => {
                    let changed_later = !first && self.no_priorities.unwrap_or(false) != (value == 1);
                    if value > 1 || changed_later {
                        return Err(protocol("bad SETTINGS_NO_RFC7540_PRIORITIES"));
                    }
                    self.no_priorities = Some(value == 1);
                }
                _ => {}
            }
        }
        self.received = true;
        changes.window_delta = i64::from(self.initial_window) - i64::from(window_before);
        Ok(changes)
    }
}

/// The values that bind what the peer sends, sent once with the preface.
///
/// Windows and the HPACK table follow them from the acknowledgement on: the peer applies them before it
/// sends it, so every frame after it obeys the new values and every frame before it the old ones.
#[derive(Debug)]
pub(crate) struct LocalSettings {
    side: Side,
    max_concurrent_streams: u32,
    initial_window: u32,
    max_frame_size: u32,
    max_header_list: u32,
    header_table_size: u32,
    acknowledged: bool,
}

impl LocalSettings {
    pub(crate) fn new(side: Side, config: &Config) -> Self {
        Self {
            side,
            max_concurrent_streams: config.max_concurrent_streams,
            initial_window: config.initial_stream_window.clamp(MIN_STREAM_WINDOW, MAX_WINDOW),
            max_frame_size: config.max_frame_size.clamp(MIN_MAX_FRAME_SIZE, MAX_MAX_FRAME_SIZE),
            max_header_list: config.max_header_list,
            header_table_size: config.header_table,
            acknowledged: false,
        }
    }

    /// Entries for the wire: no duplicates, and nothing that repeats the RFC's default.
    pub(crate) fn entries(&self) -> Vec<(u16, u32)> {
        let mut entries = Vec::with_capacity(6);
        match self.side {
            Side::Client => entries.push((ENABLE_PUSH, 0)),
            Side::Server => {
                entries.push((MAX_CONCURRENT_STREAMS, self.max_concurrent_streams));
                entries.push((NO_RFC7540_PRIORITIES, 1));
            }
        }
        entries.push((MAX_HEADER_LIST_SIZE, self.max_header_list));
        for (id, value, default) in [
            (HEADER_TABLE_SIZE, self.header_table_size, DEFAULT_HEADER_TABLE_SIZE),
            (INITIAL_WINDOW_SIZE, self.initial_window, DEFAULT_WINDOW),
            (MAX_FRAME_SIZE, self.max_frame_size, MIN_MAX_FRAME_SIZE),
        ] {
            if value != default {
                entries.push((id, value));
            }
        }
        entries
    }

    /// Does the peer know them?
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Window that a stream opened now starts with on the receiving side.
    pub(crate) fn stream_window(&self) -> u32 {
        if self.acknowledged { self.initial_window } else { DEFAULT_WINDOW }
    }

    /// As much of a stream's window as is meant for it whether or not the peer knows our SETTINGS: until then it may use
    /// one of 65,535 octets where we want a smaller one.
    pub(crate) fn intended(&self, window: i64) -> i64 {
        if self.acknowledged { window } else { window.min(self.initial_window.into()) }
    }

    /// Largest frame the peer may send: honoured from the start, for it only loosens the default.
    pub(crate) fn max_frame_size(&self) -> u32 {
        self.max_frame_size
    }

    /// HPACK table the peer's encoder may use from the acknowledgement on.
    pub(crate) fn header_table_size(&self) -> u32 {
        self.header_table_size
    }

    /// HPACK table the peer's encoder may use before.
    pub(crate) const fn initial_header_table_size() -> u32 {
        DEFAULT_HEADER_TABLE_SIZE
    }

    /// The acknowledgement arrived: the change for the receive window of every live stream.
    #[expect(clippy::arithmetic_side_effects, reason = "32 bits in 64")]
    pub(crate) fn acknowledge(&mut self) -> Result<i64, PeerMisbehaved> {
        if self.acknowledged {
            return Err(protocol("SETTINGS acknowledged that were not sent"));
        }
        self.acknowledged = true;
        Ok(i64::from(self.initial_window) - i64::from(DEFAULT_WINDOW))
    }
}

const fn protocol(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::PROTOCOL_ERROR, detail }
}
