//! Large messages: how many round trips, writes, window updates, copies and allocations they take, with few calls in
//! flight and with many. Everything is counted; nothing is timed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::{Encoded, MessageBuf, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Metadata, MethodSpec, Recv};
use trirpc_core::{CallId, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_tests::alloc::{Counting, measure};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ECHO: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

const MIB: usize = 1 << 20;
const DATA: u8 = 0;
const WINDOW_UPDATE: u8 = 8;
/// Octets that one direction of the link carries in a tick; what is written in one arrives in the next.
const BANDWIDTH: usize = 128 * 1024;

/// One direction: octets on their way, and the frames that were seen.
#[derive(Default)]
struct Link {
    output: Transmit,
    on_the_way: Vec<u8>,
    /// Memory for those of the next tick.
    spare: Vec<u8>,
    input: Option<RecvBuf>,
    writes: u64,
    /// Stream, type, length of the payload, END_STREAM.
    frames: Vec<(u32, u8, usize, bool)>,
    header: Vec<u8>,
    payload_left: usize,
}

impl Link {
    /// A tick of the sender: fills the link, a write at a time.
    fn send<R: Role>(&mut self, conn: &mut Connection<R>, now: Instant) {
        while self.on_the_way.len() < BANDWIDTH {
            conn.poll_transmit(&mut self.output, now);
            let n = self.output.len().min(BANDWIDTH - self.on_the_way.len());
            if n == 0 {
                return;
            }
            let start = self.on_the_way.len();
            self.on_the_way.resize(start + n, 0);
            self.output.copy_to(&mut self.on_the_way[start..]);
            self.output.advance(n);
            self.writes += 1;
            let octets = std::mem::take(&mut self.on_the_way);
            self.observe(&octets[start..]);
            self.on_the_way = octets;
        }
    }

    /// A tick of the receiver: takes what was sent in the tick before.
    fn receive<R: Role>(&mut self, conn: &mut Connection<R>, now: Instant) {
        std::mem::swap(&mut self.on_the_way, &mut self.spare);
        self.on_the_way.clear();
        let input = self.input.get_or_insert_with(|| RecvBuf::new(64 * 1024));
        let mut rest = &self.spare[..];
        while !rest.is_empty() {
            let space = input.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            input.commit(n);
            rest = &rest[n..];
            conn.handle_input(input, now);
        }
    }

    /// Window updates that were sent: of streams, and of the connection.
    fn updates(&self) -> (usize, usize) {
        let updates = self.frames.iter().filter(|(_, kind, ..)| *kind == WINDOW_UPDATE);
        let of_streams = updates.clone().filter(|(stream, ..)| *stream > 0).count();
        (of_streams, updates.count() - of_streams)
    }

    /// Notes the frames; a client's preface looks like one that is of no interest.
    fn observe(&mut self, mut octets: &[u8]) {
        while !octets.is_empty() {
            let skipped = self.payload_left.min(octets.len());
            octets.advance(skipped);
            self.payload_left -= skipped;
            let taken = (9 - self.header.len()).min(octets.len());
            self.header.extend_from_slice(&octets[..taken]);
            octets.advance(taken);
            if let Ok([a, b, c, kind, flags, stream @ ..]) = <[u8; 9]>::try_from(&self.header[..]) {
                let stream = u32::from_be_bytes(stream);
                let is_preface = self.header == b"PRI * HTT";
                self.payload_left = if is_preface { 15 } else { u32::from_be_bytes([0, a, b, c]) as usize };
                if !is_preface {
                    self.frames.push((stream, kind, self.payload_left, kind == DATA && flags & 1 == 1));
                }
                self.header.clear();
            }
        }
    }
}

/// A client and a server that echoes, over a link with a latency of one tick each way.
struct Wire {
    client: Connection<Client>,
    server: Connection<Server>,
    up: Link,
    down: Link,
    ticks: u64,
    /// When each call that is under way began.
    begun: HashMap<CallId, u64>,
    /// Ticks that each finished call took.
    took: Vec<u64>,
    /// Length of every message.
    len: usize,
}

impl Wire {
    fn new(config: &Config) -> Self {
        let endpoint = Endpoint::http("localhost");
        Self {
            client: Connection::<Client>::new(Arc::new(config.clone()), endpoint, HttpVersion::Http2, at(0)),
            server: Connection::<Server>::new(Arc::new(config.clone()), Some(HttpVersion::Http2), at(0)),
            up: Link::default(),
            down: Link::default(),
            ticks: 0,
            begun: HashMap::new(),
            took: Vec::new(),
            len: 0,
        }
    }

    fn call(&mut self, message: &Bytes) {
        let options = CallOptions::default();
        let request = Encoded { bytes: message.clone(), compressed: false };
        let now = at(self.ticks);
        let id = self.client.open_unary_encoded(&ECHO, &options, "proto", request, now).expect("a call");
        self.begun.insert(id, self.ticks);
    }

    /// What was sent in one tick arrives in the next. Returns how many calls ended.
    fn tick(&mut self) -> usize {
        self.ticks += 1;
        let now = at(self.ticks);
        self.up.receive(&mut self.server, now);
        self.down.receive(&mut self.client, now);
        self.serve(now);
        let ended = self.collect();
        self.up.send(&mut self.client, now);
        self.down.send(&mut self.server, now);
        ended
    }

    fn serve(&mut self, now: Instant) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Incoming => {
                    while let Some(id) = self.server.accept() {
                        self.server.call(id).expect("a call").expect(CallKind::Unary, now);
                    }
                }
                Event::Readable(id) => {
                    let mut call = self.server.call(id).expect("a call");
                    let Recv::Message(message) = call.recv() else { panic!("no message") };
                    let echo = Encoded { bytes: whole(message), compressed: false };
                    call.respond_encoded(echo, &Metadata::new(), &Metadata::new(), now).expect("an answer");
                }
                Event::Closed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn collect(&mut self) -> usize {
        let mut ended = 0;
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Finished(id) => {
                    let mut call = self.client.call(id).expect("a call");
                    let Recv::Message(message) = call.recv() else { panic!("no message") };
                    assert_eq!(message.len(), self.len);
                    assert!(call.release().expect("a status").is_ok());
                    self.took.push(self.ticks - self.begun.remove(&id).expect("it is known"));
                    ended += 1;
                }
                Event::Closed(error) => panic!("{error}"),
                _ => {}
            }
        }
        ended
    }

    /// Makes `calls` calls, of which `in_flight` are under way at a time.
    fn load(&mut self, calls: usize, in_flight: usize, message: &Bytes) {
        self.len = message.len();
        let mut left = calls;
        for _ in 0..in_flight.min(calls) {
            self.call(message);
            left -= 1;
        }
        let limit = self.ticks + 100 * calls as u64;
        while !self.begun.is_empty() {
            for _ in 0..self.tick().min(left) {
                self.call(message);
                left -= 1;
            }
            assert!(self.ticks < limit, "{} calls never end", self.begun.len());
        }
    }
}

/// The message, which is no copy of anything where it lies in one piece.
fn whole(mut message: MessageBuf) -> Bytes {
    let memory = message.chunk().as_ptr();
    let bytes = message.copy_to_bytes(message.len());
    assert_eq!(bytes.as_ptr(), memory, "a large message lies in one piece");
    bytes
}

fn at(tick: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(1000 + tick)
}

/// bg:B5: a call of a megabyte each way costs the link's time for its octets and little more, be one in flight or a
/// hundred, and nobody waits much longer than the others.
#[test]
fn calls_of_a_megabyte_do_not_collapse_with_a_hundred_in_flight() {
    let message = Bytes::from(vec![7; MIB]);
    let ticks_of_a_message = (MIB / BANDWIDTH) as u64;
    let run = |in_flight: usize, calls: usize| {
        let mut wire = Wire::new(&Config::default());
        wire.load(calls, in_flight, &message);
        wire.took.sort_unstable();
        (wire.ticks as f64 / calls as f64, wire.up.writes as f64 / calls as f64, wire.took)
    };
    // One at a time waits for a round trip each way besides: the window for all of it is granted when it begins.
    let (alone, _, _) = run(1, 4);
    assert!(alone <= (2 * ticks_of_a_message + 7) as f64, "{alone} ticks a call");
    let (few, few_writes, _) = run(10, 60);
    let (many, many_writes, took) = run(100, 200);
    for (ticks, in_flight) in [(few, 10), (many, 100)] {
        // Both directions one after the other would take twice the ticks of a message.
        assert!(ticks <= 1.1 * (2 * ticks_of_a_message) as f64, "{ticks} ticks a call with {in_flight} in flight");
    }
    assert!(many <= 1.1 * few, "{many} ticks a call with 100 in flight, {few} with 10");
    assert!(many_writes <= 1.1 * few_writes, "{many_writes} writes a call with 100 in flight, {few_writes} with 10");
    let (median, slowest) = (took[took.len() / 2], took[took.len() - 1]);
    assert!(slowest <= 2 * median, "the slowest call took {slowest} ticks, the median {median}");
}

/// arch:8, h2:P-recv: a message of a megabyte takes one grant for the whole of it and few updates of the connection's
/// window.
#[test]
fn windows_are_updated_a_few_times_a_megabyte() {
    const CALLS: usize = 20;
    let message = Bytes::from(vec![7; MIB]);
    for in_flight in [1, 10] {
        let mut wire = Wire::new(&Config::default());
        wire.load(CALLS, in_flight, &message);
        for (sender, receiver) in [(&wire.up, &wire.down), (&wire.down, &wire.up)] {
            let (of_streams, of_the_connection) = receiver.updates();
            assert!(of_streams <= CALLS, "{of_streams} updates of streams");
            // Half of the window each time: two a megabyte, and the one that begins.
            assert!(of_the_connection <= 2 * CALLS + 2, "{of_the_connection} updates of the connection");
            let small = sender.frames.iter().filter(|(_, kind, len, end)| *kind == DATA && *len < 16 * 1024 && !end);
            assert!(small.count() <= 3 * CALLS, "frames are cut to their full length");
        }
    }
}

/// h2:P-recv: a message that fits the window of its stream needs no update, and one that has ended gets none, although
/// its credit is due when the application takes the message.
#[test]
fn a_stream_that_has_ended_gets_no_update() {
    for len in [2000, 20_000, 48 * 1024] {
        let mut wire = Wire::new(&Config::default());
        wire.load(20, 4, &Bytes::from(vec![7; len]));
        assert_eq!((wire.up.updates().0, wire.down.updates().0), (0, 0), "messages of {len}");
    }
}

/// bg:V3, arch:7: large payloads leave by reference, many frames in a write, and streams take turns frame by frame.
#[test]
fn a_write_has_many_frames_of_large_messages_and_copies_none() {
    let messages: VecDeque<Bytes> = (0..4).map(|i| Bytes::from(vec![i; 48 * 1024])).collect();
    let mut wire = Wire::new(&Config::default());
    for message in &messages {
        wire.call(message);
    }
    let mut out = Transmit::new();
    wire.client.poll_transmit(&mut out, at(0));
    assert!(out.len() >= 64 * 1024, "{} bytes in a write", out.len());
    let payloads: Vec<(usize, usize)> = out
        .chunks()
        .filter(|chunk| chunk.len() > 8 * 1024)
        .map(|chunk| {
            let owner = messages.iter().position(|message| message.as_ptr_range().contains(&chunk.as_ptr()));
            (owner.expect("a part of a message, not a copy"), chunk.len())
        })
        .collect();
    let owners: Vec<usize> = payloads.iter().map(|(owner, _)| *owner).collect();
    assert_eq!(owners, [0, 1, 2, 3]);
    assert!(out.chunks().count() <= 2 * payloads.len() + 1, "{} chunks", out.chunks().count());
}

/// bg:B6, arch:U3: a steady load of large messages finds its memory where the last ones left it.
#[test]
fn large_messages_take_no_new_memory_in_a_steady_load() {
    let message = Bytes::from(vec![7; MIB]);
    for in_flight in [1, 10] {
        let mut wire = Wire::new(&Config::default());
        wire.load(30, in_flight, &message);
        let ((), cost) = measure(|| wire.load(30, in_flight, &message));
        assert!(cost.allocated < 30 * (MIB / 16) as u64, "{in_flight} in flight: {cost:?}");
    }
}
