//! The engine driven with hand-made frames, by topic. Each test names the rule it proves.

mod age;
mod attacks;
mod budgets;
mod dribble;
mod estimator;
mod expect;
mod flow;
mod goaway;
mod growth;
mod headers;
mod limits;
mod memo;
mod model;
mod random;
mod regressions;
mod reservations;
mod rules;
mod settings;
mod streams;
mod whole;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Bytes, BytesMut};

use super::connection::{Http2, Incoming};
use super::frame::{self, FrameHeader, HEADER_LEN, Kind};
use super::{Side, StreamKey};
use crate::buf::{RecvBuf, Transmit};
use crate::config::Config;
use crate::error::{ConnectionError, ErrorCode};
use crate::hpack::{Decoder, Encoder, ListLimits};
use crate::http::{HeaderName, Headers, Method, RequestHead, ResponseHead};
use crate::time::Instant;

pub(super) const SETTINGS_ACK: [u8; 9] = [0, 0, 0, 4, 1, 0, 0, 0, 0];

/// A frame that the engine sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Sent {
    /// Code of a RST_STREAM, or of a GOAWAY.
    pub(super) fn code(&self) -> ErrorCode {
        let at = if self.kind == Kind::GOAWAY { 4 } else { 0 };
        ErrorCode(u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap()))
    }

    /// Last stream id of a GOAWAY, or increment of a WINDOW_UPDATE.
    pub(super) fn number(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().unwrap())
    }

    pub(super) fn ends(&self) -> bool {
        matches!(self.kind, Kind::DATA | Kind::HEADERS) && self.flags & frame::END_STREAM != 0
    }
}

/// What the engine says, as if everything came frame by frame, and the octets of each piece of data.
#[derive(Default)]
pub(super) struct Plain {
    behind: VecDeque<(Incoming, Vec<u8>)>,
}

impl Plain {
    /// Was the last event the beginning of something whole?
    pub(super) fn has_more(&self) -> bool {
        !self.behind.is_empty()
    }

    pub(super) fn next(
        &mut self,
        engine: &mut Http2,
        input: &mut RecvBuf,
        now: Instant,
    ) -> Option<(Incoming, Vec<u8>)> {
        while let Some((mut event, octets)) = self.behind.pop_front() {
            let is_told = match &mut event {
                Incoming::Data { stream, call, .. } if engine.side == Side::Server => {
                    *call = engine.call_of(*stream);
                    engine.streams.get(*stream).is_some_and(|stream| !stream.released)
                }
                Incoming::Data { stream, end: false, .. } => engine.is_live(*stream),
                Incoming::Data { stream, .. } | Incoming::Trailers { stream, .. } => engine.end_whole(*stream),
                _ => true,
            };
            if is_told {
                return Some((event, octets));
            }
        }
        let event = engine.next(input, now)?;
        let octets = input.data()[..event.body_len()].to_vec();
        input.skip(octets.len());
        match event {
            Incoming::WholeRequest { stream, head, len } => {
                self.behind.push_back((Incoming::Data { stream, call: u32::MAX, len, end: true }, octets));
                Some((Incoming::Request { stream, head, end: false }, Vec::new()))
            }
            Incoming::WholeResponse { stream, call, head, len, trailers } => {
                self.behind.push_back((Incoming::Data { stream, call, len, end: trailers.is_none() }, octets));
                let trailers = trailers.map(|headers| (Incoming::Trailers { stream, call, headers }, Vec::new()));
                self.behind.extend(trailers);
                Some((Incoming::Response { stream, call, head, end: false }, Vec::new()))
            }
            event => Some((event, octets)),
        }
    }
}

/// The engine under test, and a peer made of an HPACK encoder and decoder.
pub(super) struct Bench {
    pub(super) engine: Http2,
    pub(super) now: Instant,
    pub(super) input: RecvBuf,
    pub(super) plain: Plain,
    /// The octets of all pieces of data.
    pub(super) taken: Vec<u8>,
    pub(super) out: Transmit,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// Output octets of an incomplete frame; a client's preface was taken off.
    tail: Vec<u8>,
    preface_due: bool,
}

pub(super) fn settings_frame(entries: &[(u16, u32)]) -> Vec<u8> {
    let mut dst = BytesMut::new();
    frame::settings(&mut dst, entries);
    dst.to_vec()
}

pub(super) fn frame_of(kind: Kind, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut dst = BytesMut::new();
    FrameHeader { len: payload.len() as u32, kind, flags, stream }.encode(&mut dst);
    dst.extend_from_slice(payload);
    dst.to_vec()
}

pub(super) fn data_frame(stream: u32, payload: &[u8], end: bool) -> Vec<u8> {
    frame_of(Kind::DATA, u8::from(end), stream, payload)
}

pub(super) fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame_of(Kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes())
}

pub(super) fn rst_frame(stream: u32, code: ErrorCode) -> Vec<u8> {
    frame_of(Kind::RST_STREAM, 0, stream, &code.0.to_be_bytes())
}

pub(super) fn goaway_frame(last: u32, code: ErrorCode) -> Vec<u8> {
    let mut dst = BytesMut::new();
    frame::goaway(&mut dst, last, code, b"why");
    dst.to_vec()
}

pub(super) const REQUEST: &[(&str, &str)] = &[
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/pkg.Svc/Name"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
];
pub(super) const RESPONSE: &[(&str, &str)] = &[(":status", "200"), ("content-type", "application/grpc")];
pub(super) const TRAILERS: &[(&str, &str)] = &[("grpc-status", "0")];

pub(super) fn request_head() -> RequestHead {
    let mut headers = Headers::new();
    headers.push(HeaderName::TE, "trailers");
    RequestHead {
        method: Method::Post,
        scheme: Bytes::from_static(b"http"),
        authority: Bytes::from_static(b"localhost"),
        path: Bytes::from_static(b"/pkg.Svc/Name"),
        headers,
        deadline: None,
    }
}

pub(super) fn response_head() -> ResponseHead {
    let mut headers = Headers::new();
    headers.push(HeaderName::CONTENT_TYPE, "application/grpc");
    ResponseHead { status: 200, headers }
}

pub(super) fn trailers() -> Headers {
    let mut headers = Headers::new();
    headers.push(HeaderName::GRPC_STATUS, "0");
    headers
}

/// A connected server with what `change` makes of the default limits.
fn server_with(change: impl FnOnce(&mut Config)) -> Bench {
    let mut config = Config::default();
    change(&mut config);
    Bench::connected(Side::Server, config, &[])
}

/// The same for a client.
fn client_with(change: impl FnOnce(&mut Config)) -> Bench {
    let mut config = Config::default();
    change(&mut config);
    Bench::connected(Side::Client, config, &[])
}

impl Bench {
    /// Before any octet came in.
    pub(super) fn fresh(side: Side, config: Config) -> Self {
        let now = Instant::from_nanos(1_000_000_000);
        Self {
            engine: Http2::new(side, Arc::new(config), now),
            now,
            input: RecvBuf::new(16 * 1024),
            plain: Plain::default(),
            taken: Vec::new(),
            out: Transmit::new(),
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096),
            tail: Vec::new(),
            preface_due: side == Side::Client,
        }
    }

    /// After both sides' SETTINGS and acknowledgements; `settings` are the peer's.
    pub(super) fn connected(side: Side, config: Config, settings: &[(u16, u32)]) -> Self {
        let mut bench = Self::fresh(side, config);
        let mut octets = Vec::new();
        if side == Side::Server {
            octets.extend_from_slice(frame::PREFACE);
        }
        octets.extend_from_slice(&settings_frame(settings));
        octets.extend_from_slice(&SETTINGS_ACK);
        assert_eq!(bench.feed(&octets), [Incoming::Connected]);
        bench.sent();
        bench
    }

    pub(super) fn server() -> Self {
        Self::connected(Side::Server, Config::default(), &[])
    }

    pub(super) fn client() -> Self {
        Self::connected(Side::Client, Config::default(), &[])
    }

    /// Everything the engine says to `octets`.
    pub(super) fn feed(&mut self, octets: &[u8]) -> Vec<Incoming> {
        self.input.extend(octets);
        self.events()
    }

    /// The next event; the octets of data are taken with it.
    pub(super) fn next(&mut self) -> Option<Incoming> {
        let (event, octets) = self.plain.next(&mut self.engine, &mut self.input, self.now)?;
        self.taken.extend_from_slice(&octets);
        self.assert_conserved();
        Some(event)
    }

    pub(super) fn events(&mut self) -> Vec<Incoming> {
        core::iter::from_fn(|| self.next()).collect()
    }

    /// As `feed`, in pieces of `piece` octets.
    pub(super) fn feed_in_pieces(&mut self, octets: &[u8], piece: usize) -> Vec<Incoming> {
        octets.chunks(piece).flat_map(|octets| self.feed(octets)).collect()
    }

    /// What one poll hands out, as octets; all of it counts as written.
    pub(super) fn written_by_one_poll(&mut self) -> Vec<u8> {
        self.engine.poll_transmit(&mut self.out, self.now);
        let octets: Vec<u8> = self.out.chunks().flatten().copied().collect();
        self.out.advance(octets.len());
        octets
    }

    /// `h2:P2`: what windows were raised by is what the streams have of it, and the connection owes for nothing that has
    /// arrived. That each window adds up is asserted where it changes.
    pub(super) fn assert_conserved(&mut self) {
        let raised: usize =
            self.engine.streams.iter_mut().map(|(_, stream)| stream.reserved as usize + stream.grown as usize).sum();
        assert_eq!(raised, self.engine.reservations.total());
        assert_eq!(self.engine.recv_window.buffered(), 0);
    }

    /// Everything the engine has to send, as frames; all of it counts as written.
    pub(super) fn sent(&mut self) -> Vec<Sent> {
        loop {
            let octets = self.written_by_one_poll();
            if octets.is_empty() {
                break;
            }
            self.tail.extend_from_slice(&octets);
        }
        self.assert_conserved();
        if core::mem::take(&mut self.preface_due) {
            assert!(self.tail.starts_with(frame::PREFACE), "a client begins with the preface");
            self.tail.drain(..frame::PREFACE.len());
        }
        let frames = parse(&self.tail);
        self.tail.clear();
        frames
    }

    /// A header block of the peer's, in one HEADERS frame.
    pub(super) fn headers(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> Vec<u8> {
        let block = self.block(fields);
        let flags = frame::END_HEADERS | u8::from(end);
        frame_of(Kind::HEADERS, flags, stream, &block)
    }

    pub(super) fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let len: usize = fields.iter().map(|(n, v)| Encoder::max_field_len(n.len(), v.len())).sum();
        let mut dst = BytesMut::with_capacity(len + Encoder::MAX_BEGIN_LEN);
        self.encoder.begin(&mut dst);
        for (name, value) in fields {
            let name = HeaderName::from_wire(Bytes::copy_from_slice(name.as_bytes()));
            self.encoder.field(&name, value.as_bytes(), false, &mut dst);
        }
        dst.to_vec()
    }

    /// The fields of a HEADERS frame (and CONTINUATION) that the engine sent.
    pub(super) fn fields(&mut self, frames: &[Sent]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let block: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.iter().copied()).collect();
        let mut fields = Vec::new();
        let limits = ListLimits { bytes: 1 << 20, fields: 10_000 };
        self.decoder
            .decode(&Bytes::from(block), limits, &mut |field| {
                fields.push((field.name.as_bytes().to_vec(), field.value.to_vec()));
            })
            .expect("the engine writes valid HPACK");
        fields
    }

    pub(super) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.engine.handle_timeout(self.now);
    }

    /// Server: a request of the peer's that has arrived.
    pub(super) fn request(&mut self, id: u32, end: bool) -> StreamKey {
        let octets = self.headers(id, REQUEST, end);
        let events = self.feed(&octets);
        let [Incoming::Request { stream, .. }] = events[..] else { panic!("no request: {events:?}") };
        self.engine.bind(stream, id);
        stream
    }

    /// Client: a request that is on the wire and goes on.
    pub(super) fn opened(&mut self, call: u32) -> StreamKey {
        let key = self.engine.open(request_head(), call).expect("there is room");
        let frames = self.sent();
        assert_eq!(frames.last().map(|frame| frame.kind), Some(Kind::HEADERS));
        self.fields(&frames[frames.len() - 1..]);
        key
    }

    /// Is the connection over, with all its output handed out?
    pub(super) fn is_closed(&self) -> bool {
        self.engine.terminal.is_some() && !self.engine.wants_transmit()
    }

    /// Asserts that the connection ended with this code, both in GOAWAY and in the event.
    pub(super) fn assert_ended(&mut self, events: &[Incoming], code: ErrorCode) {
        let Some(Incoming::Closed(ConnectionError::Misbehaved(fault))) = events.last() else {
            panic!("the connection lives: {events:?}");
        };
        assert_eq!(fault.code, code, "{}", fault.detail);
        let frames = self.sent();
        let goaway = frames.last().expect("a GOAWAY is sent");
        assert_eq!((goaway.kind, goaway.code()), (Kind::GOAWAY, code));
        assert!(self.is_closed());
    }
}

pub(super) fn parse(octets: &[u8]) -> Vec<Sent> {
    let mut rest = octets;
    let mut frames = Vec::new();
    while let Some((header, after)) = rest.split_first_chunk::<HEADER_LEN>() {
        let header = FrameHeader::decode(*header);
        let (payload, after) = after.split_at(header.len as usize);
        frames.push(Sent { kind: header.kind, flags: header.flags, stream: header.stream, payload: payload.to_vec() });
        rest = after;
    }
    assert!(rest.is_empty(), "the output ends within a frame");
    frames
}

/// Kinds of frames, for a glance at an order.
pub(super) fn kinds(frames: &[Sent]) -> Vec<(Kind, u32)> {
    frames.iter().map(|frame| (frame.kind, frame.stream)).collect()
}

/// Events with adjacent pieces of data joined: what must not depend on how input was cut.
pub(super) fn joined(events: Vec<Incoming>) -> Vec<Incoming> {
    let mut joined: Vec<Incoming> = Vec::new();
    for event in events {
        if let Incoming::Data { stream, len, end, .. } = &event {
            if let Some(Incoming::Data { stream: last, len: so_far, end: ended, .. }) = joined.last_mut() {
                if last == stream && !*ended {
                    *so_far += len;
                    *ended = *end;
                    continue;
                }
            }
        }
        joined.push(event);
    }
    joined
}

/// Two engines joined by perfect pipes.
pub(super) struct Pair {
    pub(super) client: Http2,
    pub(super) server: Http2,
    to_server: (RecvBuf, Transmit),
    to_client: (RecvBuf, Transmit),
    pub(super) now: Instant,
}

impl Pair {
    pub(super) fn new(client: Config, server: Config) -> Self {
        let now = Instant::from_nanos(1);
        Self {
            client: Http2::new(Side::Client, Arc::new(client), now),
            server: Http2::new(Side::Server, Arc::new(server), now),
            to_server: (RecvBuf::new(4096), Transmit::new()),
            to_client: (RecvBuf::new(4096), Transmit::new()),
            now,
        }
    }

    /// Moves octets both ways, and hands every event to `on_event`, until nothing moves any more.
    pub(super) fn run(&mut self, mut on_event: impl FnMut(&mut Http2, Incoming)) {
        let now = self.now;
        loop {
            let mut moved = false;
            for to_server in [true, false] {
                let (from, to, (input, out)) = if to_server {
                    (&mut self.client, &mut self.server, &mut self.to_server)
                } else {
                    (&mut self.server, &mut self.client, &mut self.to_client)
                };
                from.poll_transmit(out, now);
                moved |= !out.is_empty();
                for chunk in out.chunks() {
                    input.extend(chunk);
                }
                out.advance(out.len());
                let mut plain = Plain::default();
                while let Some((event, _)) = plain.next(to, input, now) {
                    on_event(to, event);
                }
            }
            if !moved {
                return;
            }
        }
    }
}
