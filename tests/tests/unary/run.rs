//! Two connections under a script, what went between them, and what came of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use quickcheck::{Arbitrary, Gen};
use trirpc_core::buf::{MessageBuf, RecvBuf, Transmit};
use trirpc_core::call::{
    CallKind, CallOptions, Code, Codec, EncodeBuf, Metadata, MethodSpec, Protocol, Recv, Status, TripleHeaders,
};
use trirpc_core::{
    CallId, Client, CodecError, Config, Connection, Endpoint, Event, HttpVersion, Instant, OpenError, Server,
};
use trirpc_proto::{Prost, Raw};
use trirpc_tests::trace::{Entry, Frame, Side, Trace};

pub(crate) static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
pub(crate) static COLLECT: MethodSpec = MethodSpec::new("/t.Echo/Collect", CallKind::ClientStreaming, false);

/// Every row that a client can write; the fourth protocol is refused on both ways alike.
pub(crate) const ROWS: [(Protocol, TripleHeaders); 5] = [
    (Protocol::Grpc, TripleHeaders::DubboGo),
    (Protocol::Triple, TripleHeaders::DubboGo),
    (Protocol::Triple, TripleHeaders::DubboJs),
    (Protocol::Connect, TripleHeaders::DubboGo),
    (Protocol::GrpcWeb, TripleHeaders::DubboGo),
];

/// A codec that does not know lengths beforehand, as text formats are.
pub(crate) struct Text;

impl Codec<Bytes> for Text {
    fn name(&self) -> &'static str {
        "json"
    }

    fn encoded_len(&self, _: &Bytes) -> Option<usize> {
        None
    }

    fn encode(&self, item: &Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        Raw::PROTO.encode(item, dst)
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Bytes, CodecError> {
        Raw::PROTO.decode(src)
    }
}

pub(crate) const CODECS: [&dyn Codec<Bytes>; 4] = [&Prost, &Raw::PROTO, &Raw::new("json"), &Text];

/// What a codec does wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Error,
    Short,
    Overrun,
    Panic,
}

/// A codec that announces ten bytes and has a fault.
pub(crate) struct Faulty(pub(crate) Fault);

impl Codec<Bytes> for Faulty {
    fn name(&self) -> &'static str {
        "proto"
    }

    fn encoded_len(&self, _: &Bytes) -> Option<usize> {
        Some(10)
    }

    fn encode(&self, _: &Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(b"nine bytes"[..9].as_ref());
        match self.0 {
            Fault::Error => Err(CodecError::new("it cannot be said")),
            Fault::Short => Ok(()),
            Fault::Overrun => {
                dst.buf().put_slice(b"and more");
                Ok(())
            }
            Fault::Panic => panic!("a codec that unwinds"),
        }
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Bytes, CodecError> {
        Raw::PROTO.decode(src)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// A unary call of this row, codec, size, metadata and timeout in milliseconds.
    Call { row: usize, codec: usize, size: usize, metadata: bool, timeout: Option<u16> },
    /// The oldest request that waits for it gets a response of this size.
    Answer { size: usize, metadata: bool },
    /// It gets an error.
    Refuse,
    /// One of the open calls, modulo their number, is given up.
    Cancel(usize),
    /// A stream with this much to send: windows run out, and the ready queue fills.
    Upload(usize),
    /// Milliseconds go by.
    Pass(u16),
    /// The next call that ends is followed by another, before output is polled.
    FollowUp,
}

/// Sizes at which something changes: nothing, copied or chained, one frame or several, one window or two.
pub(crate) fn size(g: &mut Gen) -> usize {
    *g.choose(&[0, 1, 128, 1023, 1024, 4000, 16_379, 16_380, 16_384, 20_000, 32_763, 49_147, 49_148, 70_000])
        .expect("not empty")
}

impl Arbitrary for Op {
    fn arbitrary(g: &mut Gen) -> Self {
        let timeout = (u8::arbitrary(g) % 4 == 0).then(|| 1 + u16::arbitrary(g) % 2000);
        // Most calls are like others, so that what was worked out for one is used for the next.
        let mut pick = |len: usize| if bool::arbitrary(g) { 0 } else { usize::arbitrary(g) % len };
        let (row, codec) = (pick(ROWS.len()), pick(CODECS.len()));
        match u8::arbitrary(g) % 17 {
            0..=6 => Self::Call { row, codec, size: size(g), metadata: bool::arbitrary(g), timeout },
            7..=11 => Self::Answer { size: size(g), metadata: bool::arbitrary(g) },
            12 => Self::Refuse,
            13 => Self::Cancel(usize::arbitrary(g)),
            14 => Self::Upload(size(g)),
            15 => Self::FollowUp,
            _ => Self::Pass(u16::arbitrary(g) % 500),
        }
    }
}

/// A position of the switch for each call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Switch {
    /// Off, and every head is read as if it were the first.
    Plain,
    Off,
    On,
    /// By each connection's method, before every other call.
    Toggled,
    /// By the options of every other call.
    Chosen,
}

/// Two connections, what went between them, and what came of it.
pub(crate) struct Run {
    pub(crate) client: Connection<Client>,
    pub(crate) server: Connection<Server>,
    pub(crate) to_server: (Transmit, RecvBuf),
    pub(crate) to_client: (Transmit, RecvBuf),
    pub(crate) wire: [Vec<u8>; 2],
    pub(crate) trace: Trace,
    pub(crate) now: Instant,
    pub(crate) asked: VecDeque<(CallId, &'static str)>,
    pub(crate) open: Vec<CallId>,
    pub(crate) outcomes: Vec<(Option<Vec<u8>>, Status)>,
    pub(crate) refused: Vec<OpenError>,
    switch: Switch,
    calls: usize,
    follow_ups: usize,
}

impl Run {
    pub(crate) fn new(switch: Switch) -> Self {
        let mut config = Config::default();
        if switch == Switch::Plain {
            config.max_known_heads = 0;
        }
        // Small, so that it has to be updated often.
        config.initial_connection_window = 65_535;
        Self::with(switch, config.clone(), config)
    }

    pub(crate) fn with(switch: Switch, mut client: Config, mut server: Config) -> Self {
        let now = Instant::ZERO;
        client.unary_fast_path = switch == Switch::On;
        server.unary_fast_path = switch == Switch::On;
        let (client, server) = connect(client, server, now);
        Self {
            client,
            server,
            to_server: (Transmit::new(), RecvBuf::new(16 * 1024)),
            to_client: (Transmit::new(), RecvBuf::new(16 * 1024)),
            wire: [Vec::new(), Vec::new()],
            trace: Trace::new(),
            now,
            asked: VecDeque::new(),
            open: Vec::new(),
            outcomes: Vec::new(),
            refused: Vec::new(),
            switch,
            calls: 0,
            follow_ups: 0,
        }
    }

    pub(crate) fn op(&mut self, op: &Op) {
        self.calls += 1;
        let odd = self.calls % 2 == 1;
        if self.switch == Switch::Toggled {
            self.client.set_unary_fast_path(odd);
            self.server.set_unary_fast_path(!odd);
        }
        match *op {
            Op::Call { row, codec, size, metadata, timeout } => {
                let mut options = CallOptions::default();
                (options.protocol, options.triple_headers) = (Some(ROWS[row].0), ROWS[row].1);
                options.timeout = timeout.map(|ms| Duration::from_millis(ms.into()));
                options.metadata = some_metadata(metadata);
                options.unary_fast_path = (self.switch == Switch::Chosen).then_some(odd);
                let message = Bytes::from(vec![self.calls as u8; size]);
                match self.client.open_unary(&SAY, &options, CODECS[codec], &message, self.now) {
                    Ok(id) => self.open.push(id),
                    Err(error) => self.refused.push(error),
                }
            }
            Op::Answer { size, metadata } => {
                let Some((id, codec)) = self.asked.pop_front() else { return };
                let Some(call) = self.server.call(id) else { return };
                let message = Bytes::from(vec![self.calls as u8; size]);
                let codec = CODECS.iter().find(|known| known.name() == codec).expect("a codec of ours");
                let (head, trailers) = (some_metadata(metadata), some_metadata(metadata));
                let _ = call.respond(*codec, &message, &head, &trailers, self.now);
            }
            Op::Refuse => {
                let Some((id, _)) = self.asked.pop_front() else { return };
                let Some(call) = self.server.call(id) else { return };
                let _ = call.finish(&Status::not_found("nowhere"), &some_metadata(true), self.now);
            }
            Op::Cancel(which) => {
                if !self.open.is_empty() {
                    let id = self.open[which % self.open.len()];
                    self.client.call(id).expect("open").cancel(Code::Cancelled, self.now);
                }
            }
            Op::Upload(size) => {
                if let Ok(id) = self.client.open(&COLLECT, &CallOptions::default(), "proto", self.now) {
                    self.open.push(id);
                    let message = Bytes::from(vec![1; size]);
                    let _ = self.client.call(id).expect("open").send(&Raw::PROTO, &message, self.now);
                }
            }
            Op::FollowUp => self.follow_ups += 1,
            Op::Pass(ms) => {
                self.now = self.now + Duration::from_millis(ms.into());
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            }
        }
    }

    /// Moves bytes, and answers what the events ask for, until nothing moves.
    pub(crate) fn drive(&mut self) {
        loop {
            let now = self.now;
            self.client.poll_transmit(&mut self.to_server.0, now);
            let up = carry(&mut self.to_server.0, &mut self.to_server.1, &mut self.wire[0]);
            self.trace.observe(Side::Client, &self.wire[0][self.wire[0].len() - up..]);
            self.server.handle_input(&mut self.to_server.1, now);
            self.server.poll_transmit(&mut self.to_client.0, now);
            let down = carry(&mut self.to_client.0, &mut self.to_client.1, &mut self.wire[1]);
            self.trace.observe(Side::Server, &self.wire[1][self.wire[1].len() - down..]);
            self.client.handle_input(&mut self.to_client.1, now);
            let events = self.events();
            if up + down == 0 && !events {
                self.trace.assert_legal();
                return;
            }
        }
    }

    pub(crate) fn events(&mut self) -> bool {
        let mut moved = false;
        while let Some(event) = self.server.poll_event() {
            moved = true;
            match event {
                Event::Incoming => {
                    while let Some(id) = self.server.accept() {
                        let mut call = self.server.call(id).expect("accepted");
                        let kind =
                            if call.path() == COLLECT.path() { CallKind::ClientStreaming } else { CallKind::Unary };
                        call.expect(kind, self.now);
                    }
                }
                Event::Readable(id) => {
                    let Some(mut call) = self.server.call(id) else { continue };
                    if let (true, Recv::Message(_)) = (call.path() != COLLECT.path(), call.recv()) {
                        let codec = if call.codec_name() == "json" { "json" } else { "proto" };
                        self.asked.push_back((id, codec));
                    }
                }
                Event::Finished(id) => {
                    if let Some(call) = self.server.call(id) {
                        call.release();
                    }
                }
                _ => {}
            }
        }
        while let Some(event) = self.client.poll_event() {
            moved = true;
            let Event::Finished(id) = event else { continue };
            let Some(mut call) = self.client.call(id) else { continue };
            let message = match call.recv() {
                Recv::Message(mut message) => Some(message.copy_to_bytes(message.remaining()).to_vec()),
                _ => None,
            };
            self.open.retain(|open| *open != id);
            self.outcomes.push((message, call.release().expect("an outcome")));
            if self.follow_ups > 0 {
                self.follow_ups -= 1;
                self.op(&Op::Call { row: 0, codec: 0, size: 128, metadata: false, timeout: None });
            }
        }
        moved
    }

    /// Plays the script. `eager`: output is polled after each command.
    pub(crate) fn play(mut self, script: &[Op], eager: bool) -> Self {
        for op in script {
            self.op(op);
            if eager {
                self.drive();
            }
        }
        self.drive();
        while !self.asked.is_empty() {
            self.op(&Op::Answer { size: 3, metadata: false });
            self.drive();
        }
        self
    }

    /// The frames of the calls, by stream, credit apart.
    pub(crate) fn frames(&self, side: Side) -> Vec<Entry> {
        let is_credit = |frame: &Frame| matches!(frame, Frame::WindowUpdate(_));
        let on_stream = |entry: &&Entry| entry.stream > 0 && !is_credit(&entry.frame);
        let mut frames: Vec<Entry> = self.trace.sent_by(side).filter(on_stream).cloned().collect();
        frames.sort_by_key(|entry| entry.stream);
        frames
    }

    /// One call with its answer.
    pub(crate) fn echo(&mut self, options: &CallOptions, codec: &dyn Codec<Bytes>, message: &Bytes) {
        self.echo_by(&SAY, options, codec, message);
    }

    /// As [`echo`](Self::echo), by another method.
    pub(crate) fn echo_by(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &dyn Codec<Bytes>,
        message: &Bytes,
    ) {
        let id = self.client.open_unary(method, options, codec, message, self.now).expect("a call");
        self.open.push(id);
        self.drive();
        let (asked, _) = self.asked.pop_front().expect("a request");
        let none = Metadata::new();
        let call = self.server.call(asked).expect("a call");
        call.respond(codec, message, &none, &none, self.now).expect("a response");
        self.drive();
    }

    pub(crate) fn assert_quiet(&mut self) {
        self.drive();
        assert_eq!((self.client.open_calls(), self.server.open_calls()), (0, 0), "slots were not freed");
        assert!(!self.client.wants_poll() && !self.server.wants_poll(), "output or events are left");
    }
}

/// Two connections that have not exchanged anything yet.
pub(crate) fn connect(client: Config, server: Config, now: Instant) -> (Connection<Client>, Connection<Server>) {
    let http2 = HttpVersion::Http2;
    let client = Connection::<Client>::new(Arc::new(client), Endpoint::http("test"), http2, now);
    (client, Connection::<Server>::new(Arc::new(server), Some(http2), now))
}

/// Writes all of `out`; returns how much that was.
pub(crate) fn carry(out: &mut Transmit, input: &mut RecvBuf, wire: &mut Vec<u8>) -> usize {
    let len = out.len();
    for chunk in out.chunks() {
        input.extend(chunk);
        wire.extend_from_slice(chunk);
    }
    out.advance(len);
    len
}

pub(crate) fn some_metadata(some: bool) -> Metadata {
    let mut metadata = Metadata::new();
    if some {
        metadata.append("tenant", "blue").expect("legal");
        metadata.append_bin("trace-bin", &[0, 159, 255]).expect("legal");
    }
    metadata
}
