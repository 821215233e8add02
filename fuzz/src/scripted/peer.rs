use std::collections::{BTreeMap, VecDeque};

use trirpc_core::ErrorCode;

use super::is_policy;
use crate::frames;
use crate::input::Input;
use crate::trace::{Frame, Side, Trace};

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Most that one DATA frame of the peer holds: what anybody accepts.
const MAX_DATA: usize = 16_384;

/// Windows stay below what increments could overflow.
const MAX_CREDIT: i64 = 1 << 30;

/// Size of one mark in a dynamic table (RFC 7541 §4.1): a name of six octets, a value of four.
const MARK_SIZE: usize = 6 + 4 + 32;

/// The other end of the connection: keeps the rules as far as it knows, unless it is told to break one.
pub(super) struct Peer {
    pub(super) side: Side,
    /// Nothing that it has sent was wrong.
    pub(super) is_honest: bool,
    /// The connection has said GOAWAY.
    pub(super) is_leaving: bool,
    /// A reset by which the connection accuses the peer.
    pub(super) unjust_reset: Option<ErrorCode>,
    pub(super) streams: BTreeMap<u32, Exchange>,
    /// A client's next stream.
    pub(super) next: u32,
    pub(super) tables: Tables,
    /// Written at the next turn: acknowledgements and answers.
    owed: Vec<u8>,
    has_said_go_away: bool,
    /// Frames of the trace that were read.
    seen: usize,
    max_streams: u32,
    header_table: u32,
}

/// One stream, as the peer sees it.
#[derive(Default)]
pub(super) struct Exchange {
    /// The peer's head was sent.
    pub(super) has_head: bool,
    /// The peer has sent its end.
    pub(super) has_ended: bool,
    /// Somebody has reset it.
    is_reset: bool,
    /// The connection has sent its end.
    was_ended: bool,
    /// What is left of a message.
    rest: Vec<u8>,
    /// A prefix did not say how long its message is.
    lies: bool,
    mark: Option<String>,
}

impl Exchange {
    /// Whether the peer may still send on it.
    pub(super) fn is_writable(&self) -> bool {
        !self.has_ended && !self.is_reset
    }

    fn is_closed(&self) -> bool {
        self.is_reset || (self.has_ended && self.was_ended)
    }
}

/// The peer's HPACK encoder: everything is a literal but marks, which enter the table and are referred to.
pub(super) struct Tables {
    /// What the dynamic table holds, the newest first.
    marks: VecDeque<String>,
    limit: usize,
    /// The limit has changed, and no block has said so yet.
    update_due: bool,
    made: u32,
}

impl Tables {
    /// A block with a mark behind `fields`: an old one or a new one.
    pub(super) fn block(&mut self, fields: &[(&str, &str)], choice: u8) -> (Vec<u8>, String) {
        let mut block = Vec::new();
        if std::mem::take(&mut self.update_due) {
            integer(0x20, 0x1f, self.limit, &mut block);
        }
        block.extend(frames::block(fields));
        let old = (choice % 4 != 0).then(|| usize::from(choice / 4) % self.marks.len().max(1));
        let mark = match old.and_then(|at| Some((at, self.marks.get(at)?.clone()))) {
            Some((at, mark)) => {
                integer(0x80, 0x7f, 62 + at, &mut block);
                mark
            }
            None => {
                self.made += 1;
                let mark = format!("{:04}", self.made % 10_000);
                block.extend([0x40, 6]);
                block.extend(b"x-mark");
                block.push(4);
                block.extend(mark.as_bytes());
                self.marks.push_front(mark.clone());
                self.marks.truncate(self.limit / MARK_SIZE);
                mark
            }
        };
        (block, mark)
    }

    fn set_limit(&mut self, limit: u32) {
        self.limit = limit as usize;
        self.update_due = true;
        self.marks.truncate(self.limit / MARK_SIZE);
    }
}

fn integer(pattern: u8, max: usize, value: usize, block: &mut Vec<u8>) {
    if value < max {
        return block.push(pattern | value as u8);
    }
    block.push(pattern | max as u8);
    let mut rest = value - max;
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

impl Peer {
    pub(super) fn new(side: Side) -> Self {
        Self {
            side,
            is_honest: true,
            is_leaving: false,
            unjust_reset: None,
            streams: BTreeMap::new(),
            next: 1,
            tables: Tables { marks: VecDeque::new(), limit: 4096, update_due: false, made: 0 },
            owed: Vec::new(),
            has_said_go_away: false,
            seen: 0,
            max_streams: u32::MAX,
            header_table: 4096,
        }
    }

    /// What the peer says first.
    pub(super) fn greeting(&self) -> Vec<u8> {
        let preface = if self.side == Side::Client { frames::PREFACE } else { &[] };
        [preface, &frames::settings(&[])].concat()
    }

    /// The mark in the head of a stream.
    pub(super) fn mark(&self, stream: u32) -> Option<&String> {
        self.streams.get(&stream)?.mark.as_ref()
    }

    /// Whether the messages of a stream are not what their prefixes say.
    pub(super) fn lies_on(&self, stream: u32) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.lies)
    }

    /// Reads what the connection has sent.
    pub(super) fn read(&mut self, trace: &Trace) {
        for entry in &trace.entries()[self.seen..] {
            if entry.from == self.side {
                continue;
            }
            match &entry.frame {
                Frame::Settings(settings) => {
                    for &(identifier, value) in settings {
                        match identifier {
                            1 => self.header_table = value,
                            3 => self.max_streams = value,
                            _ => {}
                        }
                    }
                    self.owed.extend(frames::settings_ack());
                }
                Frame::Ping(payload) => self.owed.extend(frames::ping(*payload, true)),
                Frame::GoAway { .. } => self.is_leaving = true,
                Frame::Headers { end, .. } | Frame::Data { end, .. } => {
                    self.streams.entry(entry.stream).or_default().was_ended |= end;
                }
                Frame::Reset(code) => {
                    self.streams.entry(entry.stream).or_default().is_reset = true;
                    self.unjust_reset = self.unjust_reset.or(Some(ErrorCode(*code)).filter(|&code| !is_policy(code)));
                }
                _ => {}
            }
        }
        self.seen = trace.entries().len();
    }

    /// Acknowledgements and answers that are due.
    pub(super) fn owed(&mut self) -> Vec<u8> {
        if self.header_table as usize != self.tables.limit {
            self.tables.set_limit(self.header_table);
        }
        std::mem::take(&mut self.owed)
    }

    /// A stream that the peer may still send on, out of those for which `is_right`.
    pub(super) fn pick(&self, octet: u8, is_right: impl Fn(&Exchange) -> bool) -> Option<u32> {
        let right = |(&id, stream): (&u32, &Exchange)| (stream.is_writable() && is_right(stream)).then_some(id);
        let fitting: Vec<u32> = self.streams.iter().filter_map(right).collect();
        fitting.get(usize::from(octet) % fitting.len().max(1)).copied()
    }

    /// Frames that keep the rules; none if there is nothing to do of the kind that `choice` asks for.
    pub(super) fn legal(&mut self, choice: u8, input: &mut Input<'_>, trace: &Trace) -> Vec<u8> {
        let octet = input.octet();
        match choice {
            0..=24 => self.head(octet, input),
            25..=64 => self.data(octet, input, trace),
            65..=72 => self.end(octet, input),
            73..=78 => {
                let code = u32::from(input.octet() % 14);
                let Some(id) = self.pick(octet, |_| true) else { return Vec::new() };
                self.stream(id).is_reset = true;
                frames::reset(id, code)
            }
            79..=92 => self.window(octet, input, trace),
            93..=99 => frames::settings(&settings(octet, input)),
            100..=105 => frames::ping([octet; 8], false),
            106..=112 => noise(octet, input),
            113..=114 => self.go_away(),
            115..=117 => self.late(octet, input),
            _ => self.informational(octet),
        }
    }

    pub(super) fn stream(&mut self, id: u32) -> &mut Exchange {
        self.streams.entry(id).or_default()
    }

    /// Whether a client may open a stream.
    pub(super) fn may_open(&self) -> bool {
        let open = self.streams.values().filter(|stream| !stream.is_closed()).count();
        self.side == Side::Client && !self.is_leaving && !self.has_said_go_away && open < self.max_streams as usize
    }

    /// A client's request, a server's response.
    fn head(&mut self, octet: u8, input: &mut Input<'_>) -> Vec<u8> {
        let id = match self.side {
            Side::Client if self.may_open() => {
                let skipped = if octet >= 240 { 2 } else { 0 };
                let id = self.next + skipped;
                self.next = id + 2;
                Some(id)
            }
            Side::Client => None,
            Side::Server => self.pick(octet, |stream| !stream.has_head),
        };
        let Some(id) = id else { return Vec::new() };
        let (end, mark, form) = (input.octet() >= 230, input.octet(), input.octet());
        let (block, mark) = match self.side {
            Side::Client => self.tables.block(&request(id, form, &id.to_string()), mark),
            Side::Server => self.tables.block(&response(form, end, &id.to_string()), mark),
        };
        let stream = self.stream(id);
        (stream.has_head, stream.has_ended, stream.mark) = (true, end, Some(mark));
        cut_block(id, &block, end, form, input)
    }

    /// A response that is only on its way.
    fn informational(&mut self, octet: u8) -> Vec<u8> {
        match self.pick(octet, |stream| !stream.has_head) {
            Some(id) if self.side == Side::Server => {
                let (block, _) = self.tables.block(&[(":status", "103"), ("link", "a")], octet);
                frames::frame(1, END_HEADERS, id, &block)
            }
            _ => Vec::new(),
        }
    }

    /// As much of a message as the windows allow, or a part of it.
    fn data(&mut self, octet: u8, input: &mut Input<'_>, trace: &Trace) -> Vec<u8> {
        let Some(id) = self.pick(octet, |stream| stream.has_head) else { return Vec::new() };
        let (size, most, form) = (input.short(), input.octet(), input.octet());
        let credit = usize::try_from(trace.credit(self.side, id)).unwrap_or(0);
        let stream = self.stream(id);
        if stream.rest.is_empty() {
            let size = usize::from(if size < 0xc000 { size % 200 } else { size });
            stream.rest = frames::envelope(&vec![id as u8; size]);
            if form % 16 == 9 {
                stream.lies = true;
                stream.rest[usize::from(form / 16) % 5] ^= 1 << (most % 8);
            }
        }
        let padding = if form % 8 == 0 { 1 + usize::from(form / 8) } else { 0 };
        let most = if most < 128 { 16_384 } else { usize::from(most - 127) };
        let len = stream.rest.len().min(most).min(credit.saturating_sub(padding)).min(MAX_DATA - padding);
        if len == 0 {
            return Vec::new();
        }
        let piece: Vec<u8> = stream.rest.drain(..len).collect();
        // Some messages end with their stream, lies among them.
        let end = form % 16 == 11 || (form % 16 == 9 && form >= 128);
        stream.has_ended |= end && stream.rest.is_empty();
        let end = stream.has_ended;
        match padding {
            0 => frames::data(id, &piece, end),
            _ => {
                let mut payload = vec![padding as u8 - 1];
                payload.extend(piece);
                payload.resize(payload.len() + padding - 1, 0);
                frames::frame(0, PADDED, id, &payload)
            }
        }
    }

    /// The end of what the peer sends on a stream, whole or not.
    fn end(&mut self, octet: u8, input: &mut Input<'_>) -> Vec<u8> {
        let (form, mark) = (input.octet(), input.octet());
        let is_whole = form < 200;
        let Some(id) = self.pick(octet, |stream| stream.has_head && (stream.rest.is_empty() || !is_whole)) else {
            return Vec::new();
        };
        self.stream(id).has_ended = true;
        match (self.side, form % 4) {
            (Side::Client, 1..) | (Side::Server, 0) => frames::data(id, b"", true),
            (side, _) => {
                let status = ["0", "5", "13", "x"][usize::from(form / 4 % 4)];
                let fields = [("grpc-status", status), ("grpc-message", "a%20b")];
                let fields = if side == Side::Client { &[("x-checksum", "1")][..] } else { &fields };
                let (block, _) = self.tables.block(fields, mark);
                cut_block(id, &block, true, form, input)
            }
        }
    }

    fn window(&mut self, octet: u8, input: &mut Input<'_>, trace: &Trace) -> Vec<u8> {
        let stream = if octet % 3 == 0 { 0 } else { self.pick(octet, |_| true).unwrap_or(0) };
        let increment = 1 + if octet < 200 { u32::from(input.short()) } else { u32::from(input.octet()) << 16 };
        let us = self.side.peer();
        let credit = if stream == 0 { trace.connection_credit(us) } else { trace.stream_credit(us, stream) };
        if credit + i64::from(increment) > MAX_CREDIT {
            return Vec::new();
        }
        frames::window_update(stream, increment)
    }

    fn go_away(&mut self) -> Vec<u8> {
        let last = match self.side {
            Side::Client => 0,
            Side::Server => self.streams.last_key_value().map_or(0, |(&id, _)| id),
        };
        if std::mem::replace(&mut self.has_said_go_away, true) {
            return Vec::new();
        }
        frames::go_away(last, 0)
    }

    /// What was under way when its stream was closed.
    fn late(&mut self, octet: u8, input: &mut Input<'_>) -> Vec<u8> {
        let mut closed = self.streams.iter().filter(|(_, stream)| stream.is_closed() && stream.has_head);
        let number = closed.clone().count().max(1);
        match closed.nth(usize::from(octet) % number) {
            Some((&id, _)) if input.octet() % 2 == 0 => frames::window_update(id, 1),
            Some((&id, stream)) if stream.has_ended && !stream.is_reset => frames::reset(id, 8),
            _ => Vec::new(),
        }
    }
}

/// SETTINGS that change what the connection may send.
fn settings(octet: u8, input: &mut Input<'_>) -> Vec<(u16, u32)> {
    let mut settings = Vec::new();
    for _ in 0..octet % 4 {
        let choices = [(1, 0), (1, 100), (1, 4096), (1, 65_536), (3, 1), (3, 100), (4, 0), (4, 10), (4, 65_535)];
        let more = [(4, 1 << 20), (5, 16_384), (5, 1 << 20), (6, 1 << 16), (99, 7), (0xfafa, 0)];
        let all: Vec<(u16, u32)> = choices.into_iter().chain(more).collect();
        settings.push(all[usize::from(input.octet()) % all.len()]);
    }
    settings
}

/// Frames without a meaning: priorities and types that nobody has defined.
fn noise(octet: u8, input: &mut Input<'_>) -> Vec<u8> {
    match octet % 4 {
        0 => frames::frame(2, 0, 2 * u32::from(octet) + 1, &[0, 0, 0, 0, 16]),
        1 => frames::frame(0x10, 0, 0, b"\0\0\0\x01u=1"),
        2 => frames::frame(0xfa, input.octet(), u32::from(octet), &[0; 20]),
        _ => frames::frame(0xb0, 0xff, 0, &vec![0xff; usize::from(input.short() % 5000)]),
    }
}

pub(super) fn request<'a>(id: u32, form: u8, stream: &'a str) -> Vec<(&'a str, &'a str)> {
    if form % 8 == 5 {
        // Of plain HTTP: a server answers it, or refuses it in the same way.
        let method = ["GET", "HEAD", "POST", "OPTIONS"][usize::from(form / 8) % 4];
        let fields = [(":method", method), (":scheme", "http"), (":path", "/page?a=b"), (":authority", "localhost")];
        return [&fields[..], &[("x-stream", stream)]].concat();
    }
    let path = ["/t.Echo/Say", "/t.Echo/Collect", "/t.Echo/Expand", "/t.Echo/Chat"][id as usize / 2 % 4];
    let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost")];
    fields.extend([("content-type", "application/grpc"), ("te", "trailers"), ("x-stream", stream)]);
    if form % 4 == 1 {
        fields.push(("grpc-timeout", if form < 128 { "20m" } else { "3S" }));
    }
    fields
}

pub(super) fn response(form: u8, end: bool, stream: &str) -> Vec<(&str, &str)> {
    let mut fields = vec![(":status", "200"), ("content-type", "application/grpc"), ("x-stream", stream)];
    if end {
        fields.push(("grpc-status", if form < 128 { "0" } else { "8" }));
    }
    fields
}

/// HEADERS in one of its forms: with padding, with a priority, cut into CONTINUATIONs.
pub(super) fn cut_block(stream: u32, block: &[u8], end: bool, form: u8, input: &mut Input<'_>) -> Vec<u8> {
    let mut pieces = vec![block];
    if form >= 160 {
        for _ in 0..1 + form % 3 {
            let last = pieces.pop().expect("never empty");
            let (front, back) = last.split_at(usize::from(input.octet()) % (last.len() + 1));
            pieces.extend([front, back]);
        }
    }
    let mut payload = pieces[0].to_vec();
    let mut flags = if end { END_STREAM } else { 0 };
    if form % 16 == 3 {
        payload.splice(0..0, [0x80, 0, 0, 0, 200]);
        flags |= PRIORITY;
    }
    if form % 8 == 2 {
        payload.insert(0, 7);
        payload.extend([0; 7]);
        flags |= PADDED;
    }
    if pieces.len() == 1 {
        flags |= END_HEADERS;
    }
    let mut octets = frames::frame(1, flags, stream, &payload);
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        let flags = if at + 1 == pieces.len() { END_HEADERS } else { 0 };
        octets.extend(frames::frame(9, flags, stream, piece));
    }
    octets
}
