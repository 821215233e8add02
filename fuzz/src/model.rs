//! Two connections against plain lists.
//!
//! A [`Script`] is run on a [`Pair`]; beside it, each direction of each call is a list of the messages that were
//! accepted. Whatever the script, the network and the limits: what is received is what was sent, in order and once; a
//! call that was left alone ends with the status that the server gave it and has lost nothing; every call ends, without
//! the help of a timer; no receiver grants more than was taken from it; and nothing is left behind.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::{Encoded, MessageBuf};
use trirpc_core::call::{CallKind, CallOptions, Code, Metadata, MethodSpec, Recv, Status};
use trirpc_core::{CallId, ErrorCode, OpenError, SendError};

use crate::memory::uncharged;
use crate::pair::{Pair, Setup};
use crate::random::Random;
use crate::script::{self, Op, Script};
use crate::trace::{Frame, Side};

static METHODS: [(CallKind, MethodSpec); 4] = [
    (CallKind::Unary, MethodSpec::new("/t.Model/Unary", CallKind::Unary, false)),
    (CallKind::ClientStreaming, MethodSpec::new("/t.Model/Client", CallKind::ClientStreaming, false)),
    (CallKind::ServerStreaming, MethodSpec::new("/t.Model/Server", CallKind::ServerStreaming, false)),
    (CallKind::Bidi, MethodSpec::new("/t.Model/Bidi", CallKind::Bidi, false)),
];

/// Two honest ends over a network that splits, delays and stops, driven by a [`Script`].
pub fn e2e_sim(data: &[u8]) {
    run(&Script::read(data));
}

/// Runs `script`.
///
/// # Panics
/// If the connections and the model disagree.
pub fn run(script: &Script) {
    let mut model = Model::new(script.seed);
    for op in &script.ops {
        model.charged(op.side(), |model| model.apply(op));
        model.check_windows();
        model.pair.assert_memory(model.calls.len());
    }
    model.settle();
}

struct Model {
    pair: Pair,
    calls: Vec<Call>,
    /// Entries of the trace that were looked at.
    seen: usize,
    /// Stream of the wire to the call on it.
    streams: HashMap<u32, usize>,
    /// Granted to the peer by WINDOW_UPDATE: per receiver and stream.
    granted: HashMap<(Side, u32), u64>,
    /// Most that a side may grant beyond what was taken from it.
    reserve: [u64; 2],
    /// The server's streams have smaller windows than clients assume.
    is_window_small: bool,
    /// A connection was ended by the script: no call needs to succeed any more.
    ended: bool,
}

struct Call {
    kind: CallKind,
    /// `None` once it was released.
    client: Option<CallId>,
    /// `None` before it was accepted and after it was answered.
    server: Option<CallId>,
    up: Lane,
    down: Lane,
    /// What the server answered.
    answer: Option<Code>,
    outcome: Option<Status>,
    was_accepted: bool,
    /// Somebody cancelled it, or a deadline may have.
    disturbed: bool,
}

/// The messages of one direction.
#[derive(Default)]
struct Lane {
    /// Sizes of the accepted messages; their content follows.
    sent: Vec<usize>,
    received: usize,
    /// Bytes taken by the receiver, envelopes included.
    taken: u64,
    is_finished: bool,
    saw_end: bool,
}

impl Lane {
    /// Takes a message off the connection.
    fn receive(&mut self, call: usize, side: Side, mut message: MessageBuf) {
        let size = *self.sent.get(self.received).expect("a message that nobody sent");
        self.taken += 5 + message.len() as u64;
        let is_same = uncharged(|| message.copy_to_bytes(message.len()) == content(call, side, self.received, size));
        assert!(is_same, "message {} of call {call} changed", self.received);
        self.received += 1;
    }
}

/// The content of a message, which no other message shares.
fn content(call: usize, from: Side, sequence: usize, size: usize) -> Bytes {
    let seed = (call * 1000 + sequence) * 2 + from as usize;
    Random::new(seed as u64).bytes(size).into()
}

fn encoded(call: usize, from: Side, sequence: usize, size: usize) -> Encoded {
    Encoded { bytes: uncharged(|| content(call, from, sequence, size)), compressed: false }
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut setup = Setup::random_network(seed);
        let random = &mut Random::new(seed);
        setup.client = script::config(random);
        setup.server = script::config(random);
        // Beside the reservations of all messages, one incomplete message is always admitted on a client.
        let reserve = [&setup.client, &setup.server].map(|config| config.max_reserved as u64);
        let is_window_small = setup.server.initial_stream_window < 65_535;
        Self {
            pair: setup.start(),
            calls: Vec::new(),
            seen: 0,
            streams: HashMap::new(),
            granted: HashMap::new(),
            reserve,
            is_window_small,
            ended: false,
        }
    }

    /// What the application does with the connection of `side`, if that is one, is at the expense of that connection.
    fn charged<T>(&mut self, side: Option<Side>, work: impl FnOnce(&mut Self) -> T) -> T {
        match side {
            Some(side) => self.pair.memory(side).charge(|| work(self)),
            None => work(self),
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::OpenUnary { size, timeout } => self.open(CallKind::Unary, Some(size), timeout),
            Op::Open { kind, timeout } => self.open(kind, None, timeout),
            Op::Accept => self.accept(),
            Op::Step { turns } => self.pair.steps(turns),
            Op::Pass { millis } => self.pair.pass(Duration::from_millis(millis)),
            Op::Shutdown { side } => self.shutdown(side),
            Op::Abort { side } => self.abort(side),
            Op::Cut => {
                self.pair.cut();
                self.ended = true;
            }
            _ if self.calls.is_empty() => {}
            Op::ClientSend { call, size } => self.client_send(call % self.calls.len(), size),
            Op::ClientFinish { call } => self.client_finish(call % self.calls.len()),
            Op::ClientRecv { call } => {
                self.client_recv(call % self.calls.len());
            }
            Op::ClientCancel { call } => self.client_cancel(call % self.calls.len()),
            Op::ClientRelease { call } => self.client_release(call % self.calls.len()),
            Op::ServerHead { call } => self.server_head(call % self.calls.len()),
            Op::ServerSend { call, size } => self.server_send(call % self.calls.len(), size),
            Op::ServerRecv { call } => {
                self.server_recv(call % self.calls.len());
            }
            Op::ServerRespond { call, size } => self.server_respond(call % self.calls.len(), size),
            Op::ServerFinish { call, code } => self.server_finish(call % self.calls.len(), Code::from_raw(code)),
            Op::ServerRelease { call } => self.server_release(call % self.calls.len()),
        }
    }

    // ---- the client ------------------------------------------------------------------------------------------------

    fn open(&mut self, kind: CallKind, size: Option<usize>, timeout: Option<u16>) {
        let (index, now) = (self.calls.len(), self.pair.now());
        let (_, method) = METHODS.iter().find(|(of, _)| *of == kind).expect("every kind has a method");
        let mut options = CallOptions::default();
        options.timeout = timeout.map(|millis| Duration::from_millis(millis.into()));
        options.metadata.append("x-call", &index.to_string()).expect("a legal key");
        let opened = match size {
            Some(size) => {
                let message = encoded(index, Side::Client, 0, size);
                self.pair.client.open_unary_encoded(method, &options, "proto", message, now)
            }
            None => self.pair.client.open(method, &options, "proto", now),
        };
        let id = match opened {
            Ok(id) => id,
            Err(OpenError::NoCapacity) => return,
            Err(OpenError::GoingAway | OpenError::Closed) if self.ended => return,
            Err(error) => panic!("open failed: {error}"),
        };
        let up =
            Lane { sent: uncharged(|| size.into_iter().collect()), is_finished: size.is_some(), ..Lane::default() };
        let call = Call {
            kind,
            client: Some(id),
            server: None,
            up,
            down: Lane::default(),
            answer: None,
            outcome: None,
            was_accepted: false,
            disturbed: timeout.is_some(),
        };
        uncharged(|| self.calls.push(call));
    }

    fn client_send(&mut self, index: usize, size: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        let Some(mut view) = call.client.and_then(|id| self.pair.client.call(id)) else { return };
        let capacity = view.send_capacity();
        match view.send_encoded(encoded(index, Side::Client, call.up.sent.len(), size), now) {
            Ok(()) => {
                assert!(capacity > 0 && !call.up.is_finished);
                uncharged(|| call.up.sent.push(size));
            }
            Err(SendError::Blocked) => assert_eq!(capacity, 0),
            Err(SendError::Sealed) => assert!(call.up.is_finished || call.kind.is_single_request()),
            Err(SendError::Finished | SendError::Failed(_)) => assert!(view.status().is_some()),
            Err(error) => panic!("send failed: {error}"),
        }
    }

    fn client_finish(&mut self, index: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        let Some(mut view) = call.client.and_then(|id| self.pair.client.call(id)) else { return };
        if view.finish(now).is_ok() {
            call.up.is_finished = true;
        }
    }

    /// Whether there was a message.
    fn client_recv(&mut self, index: usize) -> bool {
        let call = &mut self.calls[index];
        let Some(mut view) = call.client.and_then(|id| self.pair.client.call(id)) else { return false };
        match view.recv() {
            Recv::Message(message) => {
                call.down.receive(index, Side::Server, message);
                return true;
            }
            Recv::End => {
                assert!(view.status().is_some(), "an end without a status");
                call.down.saw_end = true;
            }
            Recv::Blocked => {}
        }
        false
    }

    fn client_cancel(&mut self, index: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        if let Some(mut view) = call.client.and_then(|id| self.pair.client.call(id)) {
            call.disturbed = true;
            view.cancel(Code::Cancelled, now);
            assert!(view.status().is_some());
        }
    }

    fn client_release(&mut self, index: usize) {
        self.calls[index].disturbed = true;
        self.client_cancel(index);
        self.collect(index);
    }

    /// Lets go of a call whose status is known.
    fn collect(&mut self, index: usize) {
        let call = &mut self.calls[index];
        let Some(view) = call.client.and_then(|id| self.pair.client.call(id)) else { return };
        if let Some(status) = view.status().cloned() {
            assert_eq!(view.release().as_ref(), Some(&status));
            call.outcome = Some(status);
            call.client = None;
        }
    }

    // ---- the server ------------------------------------------------------------------------------------------------

    fn accept(&mut self) {
        let now = self.pair.now();
        while let Some(id) = self.pair.server.accept() {
            let mut view = self.pair.server.call(id).expect("accepted just now");
            let index = view.metadata().and_then(|metadata| metadata.get("x-call")?.to_str()?.parse().ok());
            let index: usize = index.expect("the metadata that was sent");
            let call = &mut self.calls[index];
            let (_, method) = METHODS.iter().find(|(of, _)| *of == call.kind).expect("every kind has a method");
            assert_eq!(view.path(), method.path());
            view.expect(call.kind, now);
            call.server = Some(id);
            assert!(!std::mem::replace(&mut call.was_accepted, true), "call {index} arrived twice");
        }
    }

    fn server_head(&mut self, index: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        if let Some(mut view) = call.server.and_then(|id| self.pair.server.call(id)) {
            // Refused if it was sent already.
            let _ = view.send_head(&Metadata::new(), now);
        }
    }

    fn server_send(&mut self, index: usize, size: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        let Some(mut view) = call.server.and_then(|id| self.pair.server.call(id)) else { return };
        let capacity = view.send_capacity();
        match view.send_encoded(encoded(index, Side::Server, call.down.sent.len(), size), now) {
            Ok(()) => {
                assert!(capacity > 0);
                uncharged(|| call.down.sent.push(size));
            }
            Err(SendError::Blocked) => assert_eq!(capacity, 0),
            Err(SendError::Sealed) => {
                assert!(view.is_over() || call.kind.is_single_response() && call.down.sent.len() == 1);
            }
            Err(SendError::Finished | SendError::Failed(_)) => assert!(view.is_over()),
            Err(error) => panic!("send failed: {error}"),
        }
    }

    /// Whether there was a message.
    fn server_recv(&mut self, index: usize) -> bool {
        let call = &mut self.calls[index];
        let Some(mut view) = call.server.and_then(|id| self.pair.server.call(id)) else { return false };
        match view.recv() {
            Recv::Message(message) => {
                call.up.receive(index, Side::Client, message);
                return true;
            }
            Recv::End if !view.is_over() => {
                assert!(call.up.is_finished, "an end that the client did not send");
                assert_eq!(call.up.received, call.up.sent.len(), "the end overtook a message");
                call.up.saw_end = true;
            }
            Recv::End | Recv::Blocked => {}
        }
        false
    }

    fn server_respond(&mut self, index: usize, size: usize) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        if call.kind.is_single_response() && !call.down.sent.is_empty() {
            return;
        }
        let Some(view) = call.server.and_then(|id| self.pair.server.call(id)) else { return };
        let message = encoded(index, Side::Server, call.down.sent.len(), size);
        let none = Metadata::new();
        if view.respond_encoded(message, &none, &none, now).is_ok() {
            uncharged(|| call.down.sent.push(size));
            call.answer = Some(Code::Ok);
        }
        call.server = None;
    }

    fn server_finish(&mut self, index: usize, code: Code) {
        let now = self.pair.now();
        let call = &mut self.calls[index];
        let Some(view) = call.server.and_then(|id| self.pair.server.call(id)) else { return };
        // A single response that succeeds without a message, or a failure after one, is for the tests of the calls.
        if call.kind.is_single_response() && (code == Code::Ok) == call.down.sent.is_empty() {
            return;
        }
        if view.finish(&Status::new(code, "as the script says"), &Metadata::new(), now).is_ok() {
            call.answer = Some(code);
        }
        call.server = None;
    }

    fn server_release(&mut self, index: usize) {
        let call = &mut self.calls[index];
        if let Some(view) = call.server.take().and_then(|id| self.pair.server.call(id)) {
            call.disturbed = true;
            view.release();
        }
    }

    // ---- the connections -------------------------------------------------------------------------------------------

    fn shutdown(&mut self, side: Side) {
        let now = self.pair.now();
        self.ended = true;
        match side {
            Side::Client => self.pair.client.shutdown(now),
            Side::Server => self.pair.server.shutdown(now),
        }
    }

    fn abort(&mut self, side: Side) {
        let now = self.pair.now();
        self.ended = true;
        match side {
            Side::Client => self.pair.client.abort(ErrorCode::NO_ERROR, now),
            Side::Server => self.pair.server.abort(ErrorCode::NO_ERROR, now),
        }
    }

    /// No receiver grants more than was taken out of it, and what a large message reserves.
    fn check_windows(&mut self) {
        for entry in &self.pair.trace.entries()[self.seen..] {
            match &entry.frame {
                Frame::Headers { fields, .. } if entry.from == Side::Client => {
                    let index =
                        fields.iter().find(|(name, _)| name == "x-call").and_then(|(_, value)| value.parse().ok());
                    self.streams.insert(entry.stream, index.expect("every request has it"));
                }
                Frame::WindowUpdate(increment) if entry.stream != 0 => {
                    *self.granted.entry((entry.from, entry.stream)).or_default() += u64::from(*increment);
                }
                _ => {}
            }
        }
        self.seen = self.pair.trace.entries().len();
        for (&(receiver, stream), &granted) in &self.granted {
            let call = &self.calls[self.streams[&stream]];
            let lane = if receiver == Side::Server { &call.up } else { &call.down };
            // A call that failed throws its messages away, which returns their credit too.
            let is_whole = call.outcome.is_none() && call.answer.is_none() && !call.disturbed && !self.ended;
            let largest = lane.sent.iter().max().map_or(0, |size| 5 + *size as u64);
            let reserve = self.reserve[receiver as usize].max(if receiver == Side::Client { largest } else { 5 });
            assert!(
                !is_whole || granted <= lane.taken + reserve,
                "{receiver:?} granted {granted} on stream {stream}, {} were taken, {reserve} may be reserved",
                lane.taken
            );
        }
    }

    /// Lets time pass until a few octets may leave that the peer's windows let through, if a call may wait for that. False if
    /// none does.
    fn wait_for_dribbles(&mut self) -> bool {
        /// Longer than such a stream waits, and shorter than anything else.
        const SOON: Duration = Duration::from_millis(500);
        let now = self.pair.now();
        let timers = [self.pair.client.poll_timeout(), self.pair.server.poll_timeout()];
        let next = timers.into_iter().flatten().min().filter(|&at| at <= now + SOON);
        let is_open = self.calls.iter().any(|call| call.client.is_some() || call.server.is_some());
        let Some(next) = next.filter(|_| is_open) else { return false };
        self.pair.pass(next - now);
        true
    }

    /// Both applications do what they should, until every call has ended.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            self.pair.drive();
            self.check_windows();
            let mut moved = false;
            self.charged(Some(Side::Server), Self::accept);
            for index in 0..self.calls.len() {
                while self.charged(Some(Side::Server), |model| model.server_recv(index))
                    || self.charged(Some(Side::Client), |model| model.client_recv(index))
                {
                    moved = true;
                }
                let (client, server) = (self.calls[index].client, self.calls[index].server);
                self.charged(Some(Side::Client), |model| model.client_settle(index));
                self.charged(Some(Side::Server), |model| model.server_settle(index));
                moved |= (client, server) != (self.calls[index].client, self.calls[index].server);
            }
            if !moved && !self.pair.step() && !self.wait_for_dribbles() {
                break;
            }
        }
        for (index, call) in self.calls.iter().enumerate() {
            assert!(call.client.is_none(), "call {index} never ended at the client");
            assert!(call.server.is_none(), "call {index} never ended at the server");
        }
        self.pair.assert_quiet();
        self.pair.assert_memory(self.calls.len());
        self.check_outcomes();
    }

    fn client_settle(&mut self, index: usize) {
        let call = &self.calls[index];
        if !call.up.is_finished {
            // A single request must have its message.
            if call.kind.is_single_request() && call.up.sent.is_empty() {
                self.client_send(index, 10);
            }
            if !(self.calls[index].kind.is_single_request() && self.calls[index].up.sent.is_empty()) {
                self.client_finish(index);
            }
        }
        if self.calls[index].down.saw_end {
            self.collect(index);
        }
    }

    fn server_settle(&mut self, index: usize) {
        let call = &mut self.calls[index];
        let Some(mut view) = call.server.and_then(|id| self.pair.server.call(id)) else { return };
        if view.is_over() {
            view.release();
            call.server = None;
        } else if call.up.saw_end {
            match call.kind.is_single_response() && call.down.sent.is_empty() {
                true => self.server_respond(index, 10),
                false => self.server_finish(index, Code::Ok),
            }
        } else {
            let _ = view.recv();
        }
    }

    fn check_outcomes(&self) {
        for (index, call) in self.calls.iter().enumerate() {
            let outcome = call.outcome.as_ref().expect("it ended");
            if outcome.is_ok() && call.down.saw_end {
                assert_eq!(call.down.received, call.down.sent.len(), "call {index} succeeded and lost a message");
                assert_eq!(call.answer, Some(Code::Ok), "call {index} succeeded by itself");
            }
            assert!(!(outcome.is_unprocessed() && call.was_accepted), "call {index} was processed: {outcome:?}");
            // A server says at once that it will never have room for a message; a client waits.
            let is_too_large = call.up.sent.iter().any(|size| 5 + *size as u64 > self.reserve[Side::Server as usize]);
            // What a client sends before it knows a small window is kept as far as room for large messages goes, and reset
            // beyond it (RFC 9113 §6.9.3).
            let was_early = self.is_window_small && outcome.message().contains("FLOW_CONTROL_ERROR");
            if !call.disturbed && !self.ended && !is_too_large && !was_early && !outcome.is_unprocessed() {
                // The core answers by itself what is not one request.
                let lacks_request = call.kind.is_single_request() && call.up.sent.is_empty();
                let expected = call.answer.or(if lacks_request { Some(Code::Unimplemented) } else { None });
                assert_eq!(Some(outcome.code()), expected, "call {index}: {outcome:?}");
            }
        }
        if !self.ended {
            for side in [Side::Client, Side::Server] {
                let credit = self.pair.trace.connection_credit(side);
                assert!(credit >= 32 * 1024, "{credit} bytes of the connection's window are left for the {side:?}");
            }
        }
    }
}
