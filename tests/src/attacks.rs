//! The attacks of docs/http2.md as scripts, and the victim that they are played against: what becomes of the connection,
//! the most memory it held, and the time that an octet of the attack took.
//!
//! [`catalogue`] has them, and honest peers that do nearly the same. `tests/attacks.rs` asserts their outcome, and the
//! example `attacks` prints the table of docs/attacks.md.

mod catalogue;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use trirpc_core::buf::{Encoded, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Metadata, MethodSpec, Recv, Status};
use trirpc_core::{
    CallId, Client, Config, Connection, ConnectionError, Endpoint, Event, HttpVersion, Instant, OpenError, Role,
    Server, Side,
};

use crate::alloc::measure;
use crate::frames::{PREFACE, settings, settings_ack};

pub use catalogue::catalogue;

/// What the peer does, in order.
pub enum Step {
    /// Sends these octets so many times.
    Send(Vec<u8>, usize),
    /// Lets time pass.
    Wait(Duration),
}

/// What the application does with the calls that come in. A client's opens as many as it may, and reads nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Handlers {
    /// Accepts nothing.
    Ignore,
    /// Works for ever, and neither reads nor notices that its caller is gone.
    Hold,
    /// Reads what there is and answers when the request ends.
    Answer,
    /// Reads nothing and has so many octets to send, at most a mebibyte.
    Send(usize),
}

/// One attack, or an honest peer that looks like one.
pub struct Attack {
    /// Rows of docs/http2.md.
    pub ids: &'static str,
    /// What the peer does.
    pub name: &'static str,
    /// Who is attacked.
    pub victim: Side,
    /// Limits of the victim.
    pub config: Config,
    /// SETTINGS of the peer.
    pub settings: Vec<(u16, u32)>,
    /// Does the peer say the preface, its SETTINGS and the acknowledgement first?
    pub greets: bool,
    /// Does the peer read what the victim writes?
    pub reads: bool,
    /// What the victim's application does.
    pub handlers: Handlers,
    /// What the peer does then.
    pub steps: Vec<Step>,
    /// What should become of it.
    pub outcome: Outcome,
    /// The most memory that the victim may hold at once, in KiB: its windows, tables and output, but not the handlers'.
    pub peak_kib: usize,
}

/// What became of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended, and this is why.
    Ended(String),
    /// It goes on, with so many calls.
    Lives(usize),
    /// It reads nothing more until its output is taken, with so many calls.
    Paused(usize),
}

impl Outcome {
    /// It ended with this code and text in GOAWAY.
    pub fn misbehaved(code: &str, detail: &str) -> Self {
        Self::Ended(format!("{code}: {detail}"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(why) => f.write_str(why),
            Self::Lives(calls) => write!(f, "goes on, {calls} calls"),
            Self::Paused(calls) => write!(f, "reads no further, {calls} calls"),
        }
    }
}

/// What an attack came to.
pub struct Report {
    /// What became of the connection.
    pub outcome: Outcome,
    /// Octets that the victim read.
    pub octets: u64,
    /// Time that it took for them.
    pub busy: Duration,
    /// Most bytes that the victim held, connection and buffers.
    pub peak: i64,
    /// Bytes that were left when all of it was dropped.
    pub left: i64,
}

impl Attack {
    /// Plays it, with `clock` as the time that the victim is busy.
    pub fn play(&self, clock: fn() -> Duration) -> Report {
        let (played, cost) = measure(|| match self.victim {
            Side::Server => play::<Server>(self, clock),
            Side::Client => play::<Client>(self, clock),
        });
        let (outcome, octets, busy) = played;
        let text = if let Outcome::Ended(why) = &outcome { why.capacity() } else { 0 };
        Report { outcome, octets, busy, peak: cost.peak, left: cost.held - text as i64 }
    }
}

fn play<R: Owner>(attack: &Attack, clock: fn() -> Duration) -> (Outcome, u64, Duration) {
    let mut victim = Victim::<R>::new(attack);
    if attack.greets {
        if R::SIDE == Side::Server {
            victim.take(PREFACE);
        }
        victim.take(&settings(&attack.settings));
        victim.take(&settings_ack());
        R::begin(&mut victim);
    }
    let (mut busy, mut octets) = (Duration::ZERO, 0);
    for step in &attack.steps {
        let before = clock();
        match step {
            Step::Send(sent, times) => {
                for _ in 0..*times {
                    if victim.ended.is_some() || victim.is_paused {
                        break;
                    }
                    octets += victim.take(sent) as u64;
                }
            }
            Step::Wait(time) => victim.wait(*time),
        }
        busy += clock() - before;
    }
    let calls = victim.calls.len();
    let outcome = match victim.ended.take() {
        Some(why) => Outcome::Ended(why),
        None if victim.is_paused => Outcome::Paused(calls),
        None => Outcome::Lives(calls),
    };
    (outcome, octets, busy)
}

/// A connection and the application that owns it.
struct Victim<R: Role> {
    conn: Connection<R>,
    input: RecvBuf,
    output: Transmit,
    now: Instant,
    reads: bool,
    handlers: Handlers,
    calls: Vec<CallId>,
    ended: Option<String>,
    is_paused: bool,
}

/// What the application of either side does.
trait Owner: Role + Sized {
    fn connect(config: Arc<Config>, now: Instant) -> Connection<Self>;
    fn begin(victim: &mut Victim<Self>);
    fn incoming(victim: &mut Victim<Self>);
    fn readable(victim: &mut Victim<Self>, id: CallId);
    fn writable(victim: &mut Victim<Self>, id: CallId);
    fn finished(victim: &mut Victim<Self>, id: CallId);
}

impl<R: Owner> Victim<R> {
    fn new(attack: &Attack) -> Self {
        let now = Instant::ZERO + Duration::from_secs(1000);
        Self {
            conn: R::connect(Arc::new(attack.config.clone()), now),
            input: RecvBuf::from(&attack.config),
            output: Transmit::new(),
            now,
            reads: attack.reads,
            handlers: attack.handlers,
            calls: Vec::new(),
            ended: None,
            is_paused: false,
        }
    }

    /// Reads as much of `octets` as it wants to, and returns how much that was.
    fn take(&mut self, octets: &[u8]) -> usize {
        let mut taken = 0;
        while let Some(rest) = octets.get(taken..).filter(|rest| !rest.is_empty()) {
            if self.ended.is_some() {
                break;
            }
            if !self.conn.wants_read() {
                self.is_paused = true;
                break;
            }
            let space = self.input.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            self.input.commit(n);
            taken += n;
            // As a driver does: output between two looks at the same input, until there is nothing more to say.
            loop {
                let before = self.input.len();
                self.conn.handle_input(&mut self.input, self.now);
                self.turn();
                if self.input.is_empty() || self.input.len() == before || !self.conn.wants_read() {
                    break;
                }
            }
        }
        taken
    }

    /// Lets time pass, in steps of what the connection asks for.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end && self.ended.is_none() {
            self.now = self.conn.poll_timeout().map_or(end, |at| at.min(end).max(self.now));
            self.conn.handle_timeout(self.now);
            self.turn();
            if self.conn.poll_timeout().is_none_or(|at| at > end) {
                self.now = end;
            }
        }
        self.turn();
    }

    /// Events, and output.
    fn turn(&mut self) {
        loop {
            while let Some(event) = self.conn.poll_event() {
                match event {
                    Event::Incoming => R::incoming(self),
                    Event::Readable(id) => R::readable(self, id),
                    Event::Writable(id) => R::writable(self, id),
                    Event::Finished(id) => R::finished(self, id),
                    Event::Closed(error) => self.ended = Some(why(&error)),
                    _ => {}
                }
            }
            let more = self.conn.poll_transmit(&mut self.output, self.now);
            if !self.reads {
                return;
            }
            self.output.advance(self.output.len());
            if !more {
                return;
            }
        }
    }
}

static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

fn why(error: &ConnectionError) -> String {
    match error {
        ConnectionError::Misbehaved(fault) => format!("{}: {}", fault.code, fault.detail),
        other => other.to_string(),
    }
}

impl Owner for Server {
    fn connect(config: Arc<Config>, now: Instant) -> Connection<Self> {
        Connection::<Self>::new(config, Some(HttpVersion::Http2), now)
    }

    fn begin(_: &mut Victim<Self>) {}

    fn incoming(victim: &mut Victim<Self>) {
        if victim.handlers == Handlers::Ignore {
            return;
        }
        while let Some(id) = victim.conn.accept() {
            victim.calls.push(id);
            let now = victim.now;
            let kind = match victim.handlers {
                Handlers::Send(_) => CallKind::ServerStreaming,
                _ => CallKind::ClientStreaming,
            };
            if let Some(mut call) = victim.conn.call(id) {
                call.expect(kind, now);
                if let Handlers::Send(octets) = victim.handlers {
                    // Not the victim's memory.
                    let bytes = Bytes::from_static(&ZEROS[..octets]);
                    let _ = call.send_encoded(Encoded { bytes, compressed: false }, now);
                }
            }
            Self::readable(victim, id);
        }
    }

    fn readable(victim: &mut Victim<Self>, id: CallId) {
        if victim.handlers != Handlers::Answer {
            return;
        }
        let Some(mut call) = victim.conn.call(id) else { return };
        loop {
            match call.recv() {
                Recv::Message(_) => {}
                Recv::Blocked => return,
                _ => break,
            }
        }
        let _ = call.finish(&Status::OK, &Metadata::new(), victim.now);
        victim.calls.retain(|known| *known != id);
    }

    fn writable(_: &mut Victim<Self>, _: CallId) {}

    fn finished(victim: &mut Victim<Self>, id: CallId) {
        if matches!(victim.handlers, Handlers::Hold | Handlers::Ignore) {
            return;
        }
        if let Some(call) = victim.conn.call(id) {
            call.release();
        }
        victim.calls.retain(|known| *known != id);
    }
}

static WATCH: MethodSpec = MethodSpec::new("/t.Echo/Watch", CallKind::ServerStreaming, false);

impl Owner for Client {
    fn connect(config: Arc<Config>, now: Instant) -> Connection<Self> {
        Connection::<Self>::new(config, Endpoint::http("test"), HttpVersion::Http2, now)
    }

    fn begin(victim: &mut Victim<Self>) {
        for _ in 0..100 {
            match victim.conn.open(&WATCH, &CallOptions::default(), "proto", victim.now) {
                Ok(id) => victim.calls.push(id),
                Err(OpenError::NoCapacity) => break,
                Err(error) => panic!("{error}"),
            }
        }
        for id in victim.calls.clone() {
            if let Some(mut call) = victim.conn.call(id) {
                let _ = call.send_encoded(Encoded { bytes: Bytes::new(), compressed: false }, victim.now);
                let _ = call.finish(victim.now);
            }
        }
        victim.turn();
    }

    fn incoming(_: &mut Victim<Self>) {}

    fn readable(_: &mut Victim<Self>, _: CallId) {}

    fn writable(_: &mut Victim<Self>, _: CallId) {}

    fn finished(victim: &mut Victim<Self>, id: CallId) {
        if let Some(call) = victim.conn.call(id) {
            call.release();
        }
        victim.calls.retain(|known| *known != id);
    }
}
