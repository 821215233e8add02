use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use h2::server;
use http::{HeaderMap, Response};
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallKind, CallOptions, Code, MethodSpec, Recv, Status};
use trirpc_core::{CallId, Client, Connection, Endpoint, HttpVersion};

use super::{Io, LAST_WINDOW, MAX_STEPS, MAX_TURNS, Ours, config, context, is_farewell, read, size, start, write};
use crate::input::Input;
use crate::random::Random;
use crate::trace::Side;

static UNARY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
static CHAT: MethodSpec = MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false);

pub(super) fn run(input: &mut Input<'_>) {
    let mut world = World::new(input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        world.act(input);
        world.turn();
    }
    world.settle();
}

struct World {
    ours: Ours<Client>,
    handshake: Option<server::Handshake<Io, Bytes>>,
    theirs: Option<server::Connection<Io, Bytes>>,
    calls: Vec<Call>,
    served: Vec<Served>,
}

struct Call {
    id: Option<CallId>,
    sent: Vec<Bytes>,
    received: usize,
    is_finished: bool,
    disturbed: bool,
    outcome: Option<Status>,
}

/// A request at the server of `h2`, which goes back as it came.
struct Served {
    call: usize,
    body: h2::RecvStream,
    respond: server::SendResponse<Bytes>,
    stream: Option<h2::SendStream<Bytes>>,
    pending: BytesMut,
    has_ended: bool,
    is_done: bool,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let (limits, seed, window) = (config(input.octet()), input.octet(), input.octet());
        let endpoint = Endpoint::http("test");
        let conn = || Connection::<Client>::new(Arc::new(limits), endpoint, HttpVersion::Http2, start());
        let (ours, io) = Ours::new(conn, Side::Client, seed);
        let mut theirs = server::Builder::new();
        theirs
            .initial_window_size([65_535, 10, 1000, 1 << 20][usize::from(window % 4)])
            .max_frame_size([16_384, 1 << 20][usize::from(window / 4 % 2)])
            .max_concurrent_streams([1, 3, 100][usize::from(window / 8 % 3)])
            .header_table_size([4096, 0, 100, 65_536][usize::from(window / 32 % 4)])
            .data_frame_budget(usize::MAX);
        Self { ours, handshake: Some(theirs.handshake(io)), theirs: None, calls: Vec::new(), served: Vec::new() }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        let (choice, octet) = (input.octet() % 100, input.octet());
        let number = self.calls.len();
        let call = usize::from(octet) % number.max(1);
        match choice {
            0..=11 => self.open(true, octet, size(input)),
            12..=19 => self.open(false, octet, 0),
            20..=39 if number > 0 => self.send(call, size(input)),
            40..=45 if number > 0 => self.finish(call),
            46..=60 if number > 0 => drop(self.recv(call)),
            61 | 62 if number > 0 => {
                self.calls[call].disturbed = true;
                let Ours { conn, memory, now, .. } = &mut self.ours;
                if let Some(mut view) = self.calls[call].id.and_then(|id| conn.call(id)) {
                    memory.charge(|| view.cancel(Code::Cancelled, *now));
                }
            }
            63..=80 => self.serve(),
            81 | 82 => self.reset_theirs(octet),
            83..=85 => {
                let window = [0, 1, 100, 65_535, 1 << 20][usize::from(octet % 5)];
                if let Some(theirs) = &mut self.theirs {
                    // Refused while an earlier one is on its way.
                    let _ = theirs.set_initial_window_size(window);
                }
            }
            86 => {
                if let Some(theirs) = &mut self.theirs {
                    theirs.set_target_window_size(65_535 + u32::from(octet) * 1000);
                }
            }
            87 => {
                if let Some(mut ping) = self.theirs.as_mut().and_then(server::Connection::ping_pong) {
                    let _ = ping.send_ping(h2::Ping::opaque());
                }
            }
            88 if octet < 40 => {
                let Ours { conn, memory, now, .. } = &mut self.ours;
                memory.charge(|| conn.shutdown(*now));
            }
            88 if octet < 80 => {
                if let Some(theirs) = &mut self.theirs {
                    theirs.graceful_shutdown();
                }
            }
            _ => {
                for _ in 0..octet % 8 {
                    self.turn();
                }
            }
        }
    }

    fn open(&mut self, is_unary: bool, octet: u8, size: usize) {
        let index = self.calls.len();
        let mut options = CallOptions::default();
        options.metadata.append("x-call", &index.to_string()).expect("a legal key");
        if octet >= 200 {
            options.metadata.append("x-large", &"v".repeat(25 * usize::from(octet))).expect("a legal key");
        }
        let message = content(index, 0, size);
        let Ours { conn, memory, now, .. } = &mut self.ours;
        let opened = memory.charge(|| match is_unary {
            true => conn.open_unary_encoded(&UNARY, &options, "proto", encoded(&message), *now),
            false => conn.open(&CHAT, &options, "proto", *now),
        });
        let Ok(id) = opened else { return };
        self.calls.push(Call {
            id: Some(id),
            sent: if is_unary { vec![message] } else { Vec::new() },
            received: 0,
            is_finished: is_unary,
            disturbed: false,
            outcome: None,
        });
    }

    fn send(&mut self, index: usize, size: usize) {
        let call = &mut self.calls[index];
        let Ours { conn, memory, now, .. } = &mut self.ours;
        let Some(mut view) = call.id.and_then(|id| conn.call(id)) else { return };
        let message = content(index, call.sent.len(), size);
        if !call.is_finished && memory.charge(|| view.send_encoded(encoded(&message), *now)).is_ok() {
            call.sent.push(message);
        }
    }

    fn finish(&mut self, index: usize) {
        let call = &mut self.calls[index];
        let Ours { conn, memory, now, .. } = &mut self.ours;
        let Some(mut view) = call.id.and_then(|id| conn.call(id)) else { return };
        call.is_finished |= memory.charge(|| view.finish(*now)).is_ok();
    }

    /// Whether there was a message, or the end.
    fn recv(&mut self, index: usize) -> bool {
        let call = &mut self.calls[index];
        let Ours { conn, memory, .. } = &mut self.ours;
        let Some(mut view) = call.id.and_then(|id| conn.call(id)) else { return false };
        match memory.charge(|| view.recv()) {
            Recv::Message(mut message) => {
                let message = message.copy_to_bytes(message.len());
                assert_eq!(call.sent.get(call.received), Some(&message), "message {} of call {index}", call.received);
                call.received += 1;
            }
            Recv::Blocked => return false,
            Recv::End => {
                call.outcome = view.release();
                assert!(call.outcome.is_some(), "an end without a status");
                call.id = None;
            }
        }
        true
    }

    fn reset_theirs(&mut self, octet: u8) {
        let reasons = [h2::Reason::CANCEL, h2::Reason::INTERNAL_ERROR, h2::Reason::REFUSED_STREAM];
        let number = self.served.len().max(1);
        if let Some(served) = self.served.get_mut(usize::from(octet) % number) {
            self.calls[served.call].disturbed = true;
            served.respond.send_reset(reasons[usize::from(octet) % 3]);
            served.is_done = true;
            self.serve();
        }
    }

    /// A step of each request. Those that are done are let go: until then `h2` takes what it has of them for unread, and
    /// the connection's window stays as small.
    fn serve(&mut self) {
        self.served.iter_mut().for_each(Served::step);
        self.served.retain(|served| !served.is_done);
    }

    /// A turn of both; whether anything moved.
    fn turn(&mut self) -> bool {
        let moved = self.ours.turn();
        if let Some(handshake) = &mut self.handshake {
            match std::pin::Pin::new(handshake).poll(&mut context()) {
                Poll::Pending => {}
                Poll::Ready(result) => {
                    self.theirs = Some(result.unwrap_or_else(|error| panic!("{error}\n{}", self.ours.trace.tail(30))));
                    self.handshake = None;
                }
            }
        }
        let mut is_over = false;
        if let Some(theirs) = &mut self.theirs {
            while let Poll::Ready(accepted) = theirs.poll_accept(&mut context()) {
                match accepted {
                    Some(Ok((request, respond))) => self.served.push(Served::new(request, respond)),
                    Some(Err(error)) if is_farewell(&error) => {}
                    Some(Err(error)) => panic!("h2 accuses us of {error}\n{}", self.ours.trace.tail(30)),
                    None => {
                        is_over = true;
                        break;
                    }
                }
            }
        }
        if is_over {
            self.theirs = None; // closes the transport
            self.ours.inbound.shut();
        }
        moved
    }

    fn settle(&mut self) {
        let mut has_window = false;
        for _ in 0..MAX_TURNS {
            has_window =
                has_window || self.theirs.as_mut().is_none_or(|it| it.set_initial_window_size(LAST_WINDOW).is_ok());
            let mut moved = self.turn();
            for index in 0..self.calls.len() {
                if !self.calls[index].is_finished {
                    self.finish(index);
                }
                while self.recv(index) {
                    moved = true;
                }
            }
            self.serve();
            if !moved {
                if self.calls.iter().all(|call| call.id.is_none()) {
                    break;
                }
                self.ours.wait();
            }
        }
        for (index, call) in self.calls.iter().enumerate() {
            let trace = self.ours.trace.tail(40);
            let outcome = call.outcome.as_ref().unwrap_or_else(|| panic!("call {index} never ended\n{trace}"));
            // Refused: opened before SETTINGS or a farewell came.
            if !call.disturbed && !outcome.is_unprocessed() {
                assert!(outcome.is_ok(), "call {index}: {outcome:?}\n{trace}");
                assert_eq!(call.received, call.sent.len(), "call {index} lost messages\n{trace}");
            }
        }
    }
}

impl Served {
    fn new(request: http::Request<h2::RecvStream>, respond: server::SendResponse<Bytes>) -> Self {
        let call = request.headers()["x-call"].to_str().expect("text").parse().expect("a number");
        if let Some(large) = request.headers().get("x-large") {
            assert!(large.as_bytes().iter().all(|&octet| octet == b'v'), "a field changed");
        }
        Self {
            call,
            body: request.into_body(),
            respond,
            stream: None,
            pending: BytesMut::new(),
            has_ended: false,
            is_done: false,
        }
    }

    /// Moves what can be moved.
    fn step(&mut self) {
        if self.is_done {
            return;
        }
        if self.stream.is_none() {
            let head = Response::builder().header("content-type", "application/grpc").body(()).expect("a head");
            match self.respond.send_response(head, false) {
                Ok(stream) => self.stream = Some(stream),
                Err(_) => self.is_done = true,
            }
        }
        let Some(stream) = &mut self.stream else { return };
        if !self.has_ended && self.pending.len() < 100_000 {
            match read(&mut self.body, &mut self.pending) {
                Some(has_ended) => self.has_ended = has_ended,
                None => self.is_done = true,
            }
        }
        if !self.is_done && !write(stream, &mut self.pending) {
            self.is_done = true;
        }
        if !self.is_done && self.has_ended && self.pending.is_empty() {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", 0.into());
            let _ = stream.send_trailers(trailers);
            self.is_done = true;
        }
    }
}

fn content(call: usize, sequence: usize, size: usize) -> Bytes {
    Random::new((call * 1000 + sequence) as u64).bytes(size).into()
}

fn encoded(message: &Bytes) -> Encoded {
    Encoded { bytes: message.clone(), compressed: false }
}
