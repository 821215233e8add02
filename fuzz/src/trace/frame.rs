//! Bytes to frames (RFC 9113 §4, §6), with header blocks put together and decoded.

use std::fmt;

use super::Side;
use crate::oracle::{self, Opinion, Oracle};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// One parameter of SETTINGS: identifier and value.
pub type Setting = (u16, u32);

/// A frame, or a whole header block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The client's first 24 bytes.
    Preface,
    /// DATA; `flow` counts padding too.
    Data {
        /// The payload.
        data: Vec<u8>,
        /// Bytes that count against the windows.
        flow: usize,
        /// END_STREAM.
        end: bool,
    },
    /// HEADERS with its CONTINUATIONs.
    Headers {
        /// The decoded fields; empty if the block did not decode.
        fields: Vec<(String, String)>,
        /// END_STREAM.
        end: bool,
    },
    /// PRIORITY.
    Priority,
    /// RST_STREAM with its code.
    Reset(u32),
    /// SETTINGS.
    Settings(Vec<Setting>),
    /// SETTINGS with ACK.
    SettingsAck,
    /// PUSH_PROMISE.
    PushPromise,
    /// PING.
    Ping([u8; 8]),
    /// PING with ACK.
    PingAck([u8; 8]),
    /// GOAWAY.
    GoAway {
        /// Highest stream that was or may be processed.
        last: u32,
        /// Why.
        code: u32,
        /// Text for people.
        debug: String,
    },
    /// WINDOW_UPDATE with its increment.
    WindowUpdate(u32),
    /// A frame of a type we do not know.
    Unknown(u8),
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ended = |end: &bool| if *end { " END_STREAM" } else { "" };
        match self {
            Self::Data { data, end, .. } => {
                let shown = &data[..data.len().min(24)];
                write!(f, "DATA{} {} bytes \"{}\"", ended(end), data.len(), shown.escape_ascii())
            }
            Self::Headers { fields, end } => {
                write!(f, "HEADERS{}", ended(end))?;
                fields.iter().try_for_each(|(name, value)| write!(f, " {name}: {value};"))
            }
            Self::Reset(code) => write!(f, "RST_STREAM {:?}", trirpc_core::ErrorCode(*code)),
            Self::GoAway { last, code, debug } => {
                write!(f, "GOAWAY last {last} {:?} {debug:?}", trirpc_core::ErrorCode(*code))
            }
            Self::WindowUpdate(increment) => write!(f, "WINDOW_UPDATE {increment}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// What the other side has allowed, as far as the sender has acknowledged it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) max_frame_size: u32,
    pub(super) header_table: u32,
    pub(super) initial_window: u32,
    pub(super) max_streams: u32,
}

/// The bytes of one direction.
pub(super) struct Reader {
    bytes: Vec<u8>,
    /// Bytes of `bytes` that were read.
    read: usize,
    preface_due: bool,
    block: Option<Block>,
    hpack: Hpack,
    /// Set when the bytes make no sense any more.
    lost: bool,
}

struct Block {
    stream: u32,
    end: bool,
    fragments: Vec<u8>,
}

impl Reader {
    pub(super) fn new(side: Side) -> Self {
        Self {
            bytes: Vec::new(),
            read: 0,
            preface_due: side == Side::Client,
            block: None,
            hpack: Hpack::new(),
            lost: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        if !self.lost {
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Bytes of a frame that is not complete.
    pub(super) fn pending(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// The next complete frame.
    pub(super) fn next(&mut self, limits: Limits, faults: &mut Vec<String>) -> Option<(u32, Frame)> {
        if self.preface_due {
            return self.preface(faults);
        }
        while !self.lost {
            let unread = &self.bytes[self.read..];
            let header: [u8; 9] = unread.get(..9)?.try_into().ok()?;
            let [a, b, c, kind, flags, ref id @ ..] = header;
            let len = u32::from_be_bytes([0, a, b, c]);
            let id = u32::from_be_bytes(*id);
            let payload = unread.get(9..9 + len as usize)?.to_vec();
            self.read += 9 + payload.len();
            let mut fault = |text: String| faults.push(text);
            if len > limits.max_frame_size {
                fault(format!("frame of {len} bytes, allowed are {}", limits.max_frame_size));
            }
            if id >> 31 != 0 {
                fault("the reserved bit is set".into());
            }
            if let Some(open) = self.block.as_ref().filter(|open| kind != 9 || open.stream != id) {
                fault(format!("frame type {kind} on stream {id} inside the header block of {}", open.stream));
            }
            match self.parse(kind, flags, id & !(1 << 31), &payload, limits, faults) {
                Some(Some(frame)) => return Some((id & !(1 << 31), frame)),
                Some(None) => {}
                None => {
                    faults.push(format!("malformed frame: type {kind}, flags {flags:#x}, {len} bytes"));
                    self.lost = true;
                }
            }
        }
        None
    }

    fn preface(&mut self, faults: &mut Vec<String>) -> Option<(u32, Frame)> {
        let start = self.bytes.get(..PREFACE.len())?;
        if start != PREFACE {
            faults.push(format!("no preface but \"{}\"", start.escape_ascii()));
            self.lost = true;
        }
        self.preface_due = false;
        self.read = PREFACE.len();
        Some((0, Frame::Preface))
    }

    /// `Some(None)`: a part of a header block. `None`: nothing that RFC 9113 allows.
    fn parse(
        &mut self,
        kind: u8,
        flags: u8,
        stream: u32,
        payload: &[u8],
        limits: Limits,
        faults: &mut Vec<String>,
    ) -> Option<Option<Frame>> {
        let defined = match kind {
            0 => END_STREAM,
            1 => END_STREAM | END_HEADERS,
            4 | 6 => ACK,
            9 => END_HEADERS,
            _ => 0,
        };
        if flags & !defined != 0 {
            faults.push(format!("flags {flags:#x} on a frame of type {kind}"));
        }
        let on_stream = match kind {
            0 | 1 | 2 | 3 | 5 | 9 => Some(true),
            4 | 6 | 7 => Some(false),
            _ => None,
        };
        if on_stream.is_some_and(|on_stream| on_stream == (stream == 0)) {
            faults.push(format!("frame of type {kind} on stream {stream}"));
        }
        let word = |at: usize| Some(u32::from_be_bytes(payload.get(at..at + 4)?.try_into().ok()?));
        let ack = flags & ACK != 0;
        Some(Some(match kind {
            0 => Frame::Data {
                data: unpad(payload, flags & PADDED, 0)?.to_vec(),
                flow: payload.len(),
                end: flags & END_STREAM != 0,
            },
            1 => {
                let fragments = unpad(payload, flags & PADDED, if flags & PRIORITY != 0 { 5 } else { 0 })?.to_vec();
                self.block = Some(Block { stream, end: flags & END_STREAM != 0, fragments });
                return Some(self.end_block(flags, limits, faults));
            }
            2 if payload.len() == 5 => Frame::Priority,
            3 if payload.len() == 4 => Frame::Reset(word(0)?),
            4 if ack && payload.is_empty() => Frame::SettingsAck,
            4 if !ack && payload.len() % 6 == 0 => {
                let entry = |entry: &[u8]| {
                    let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
                    (u16::from_be_bytes([entry[0], entry[1]]), value)
                };
                Frame::Settings(payload.chunks_exact(6).map(entry).collect())
            }
            5 => Frame::PushPromise,
            6 if ack => Frame::PingAck(payload.try_into().ok()?),
            6 => Frame::Ping(payload.try_into().ok()?),
            7 => Frame::GoAway {
                last: word(0)? & !(1 << 31),
                code: word(4)?,
                debug: payload[8..].escape_ascii().to_string(),
            },
            8 if payload.len() == 4 => Frame::WindowUpdate(word(0)? & !(1 << 31)),
            9 => {
                self.block.as_mut()?.fragments.extend_from_slice(payload);
                return Some(self.end_block(flags, limits, faults));
            }
            2..=8 => return None,
            other => Frame::Unknown(other),
        }))
    }

    /// The whole header block, if this was its last part.
    fn end_block(&mut self, flags: u8, limits: Limits, faults: &mut Vec<String>) -> Option<Frame> {
        if flags & END_HEADERS == 0 {
            return None;
        }
        let Block { end, fragments, .. } = self.block.take()?;
        let fields = self.hpack.decode(&fragments, limits.header_table, faults);
        Some(Frame::Headers { fields: fields.unwrap_or_default(), end })
    }
}

/// Cuts padding and `skip` further bytes off.
fn unpad(payload: &[u8], padded: u8, skip: usize) -> Option<&[u8]> {
    if padded == 0 {
        return payload.get(skip..);
    }
    let (&padding, rest) = payload.split_first()?;
    rest.get(skip..rest.len().checked_sub(usize::from(padding))?)
}

/// The independent HPACK decoder (RFC 7541), and what it does not check itself.
struct Hpack {
    oracle: Box<dyn Oracle>,
    /// Table size that the encoder has last announced.
    announced: u32,
    /// The oracle has lost its way, which is no opinion.
    blind: bool,
}

impl Hpack {
    fn new() -> Self {
        Self { oracle: oracle::all().swap_remove(0), announced: 4096, blind: false }
    }

    fn decode(&mut self, block: &[u8], allowed: u32, faults: &mut Vec<String>) -> Option<Vec<(String, String)>> {
        let updates = size_updates(block);
        if (self.announced > allowed && updates.is_empty()) || updates.iter().any(|&size| size > allowed) {
            faults.push(format!("a table of {allowed} is allowed, {} is in use, updates {updates:?}", self.announced));
        }
        self.announced = updates.last().copied().unwrap_or(self.announced);
        if self.blind {
            return None;
        }
        match self.oracle.decode(block) {
            Opinion::Fields(fields) => {
                let text = |bytes: Vec<u8>| bytes.escape_ascii().to_string();
                Some(fields.into_iter().map(|(name, value)| (text(name), text(value))).collect())
            }
            Opinion::Broken => {
                faults.push(format!("header block does not decode: {block:02x?}"));
                None
            }
            Opinion::None => {
                self.blind = true;
                None
            }
        }
    }
}

/// The table sizes announced at the start of a block (RFC 7541 §6.3).
fn size_updates(block: &[u8]) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut bytes = block.iter();
    while let Some(&first) = bytes.as_slice().first().filter(|&first| first & 0xe0 == 0x20) {
        bytes.next();
        let mut size = u64::from(first & 0x1f);
        if size == 0x1f {
            for shift in (0..35).step_by(7) {
                let Some(&byte) = bytes.next() else { break };
                size += u64::from(byte & 0x7f) << shift;
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        sizes.push(u32::try_from(size).unwrap_or(u32::MAX));
    }
    sizes
}
