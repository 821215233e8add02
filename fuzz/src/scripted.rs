//! One connection between a peer that knows the protocol and an application that follows a script.
//!
//! The [`Peer`] sends frames of a grammar, most of them legal; its faults carry the verdict that they must get. The
//! connection lives twice, and the second one reads the same bytes in other pieces: both must say and send the same.
//! Everything it sends is judged, and so is what it makes of header blocks whose message it threw away.

mod application;
mod fault;
mod peer;

use std::time::Duration;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::{Config, Connection, ConnectionError, ErrorCode, Event, Instant, Role, TransportError};

use crate::input::Input;
use crate::memory::Account;
use crate::random::Random;
use crate::script;
use crate::trace::{Entry, Frame, Trace};
use application::{Application, Caller, Handler};
use fault::Verdict;
use peer::Peer;

/// Input after which a run ends: longer ones find nothing that shorter ones do not.
const MAX_STEPS: usize = 400;

/// A server between a client that knows HTTP/2 and handlers that follow a script.
pub fn server_conn(data: &[u8]) {
    run::<Handler>(data);
}

/// A client between callers that follow a script and a server that knows HTTP/2.
pub fn client_conn(data: &[u8]) {
    run::<Caller>(data);
}

fn run<A: Application>(data: &[u8]) {
    let mut input = Input::new(data);
    let config = match input.octet() {
        0..=99 => Config::default(),
        100..=149 => Config::embedded(),
        seed => script::config(&mut Random::new(seed.into())),
    };
    let (switches, cuts) = (input.octet(), input.octet());
    let mut twin = Twin::<A>::new(&config, if switches & 1 == 0 { usize::MAX } else { 40 }, cuts, switches & 4 != 0);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        let choice = input.octet();
        if choice < 150 {
            twin.peer_sends(choice, &mut input);
        } else {
            twin.application_acts(choice - 150, &mut input);
        }
    }
    twin.end(switches & 2 != 0);
}

/// The same connection twice.
struct Twin<A: Application> {
    /// Reads whole steps.
    whole: Run<A>,
    /// Reads pieces, and large messages to where they lie.
    cut: Run<A>,
    cuts: Random,
    peer: Peer,
    trace: Trace,
    now: Instant,
    /// Frames that the peer sent, and steps of the application: what may cause output.
    causes: usize,
    events: usize,
    /// Most calls at once.
    calls: usize,
    /// The script ended the connection.
    ended: bool,
}

/// One connection, and what drives it.
struct Run<A: Application> {
    conn: Connection<A::Role>,
    app: A,
    /// Sent by the peer, and not read.
    coming: Vec<u8>,
    input: RecvBuf,
    output: Transmit,
    /// Most that one write takes.
    quota: usize,
    /// What all of it holds, the application apart.
    memory: Account,
}

/// What a step led to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    events: Vec<Event>,
    written: Vec<u8>,
}

impl<A: Application> Run<A> {
    fn new(config: &Config, quota: usize, is_plain: bool, now: Instant) -> Self {
        let memory = Account::new();
        let (conn, app) = memory.charge(|| A::start(config.clone(), is_plain, now));
        let input = memory.charge(|| RecvBuf::from(config));
        Self { conn, app, coming: Vec::new(), input, output: Transmit::new(), quota, memory }
    }

    /// Reads as a driver does: into the room there is, and not while the connection does not want to.
    fn read(&mut self, mut cuts: Option<&mut Random>, now: Instant) {
        let Self { conn, coming, input, memory, .. } = self;
        let mut rest = &coming[..];
        while !rest.is_empty() && conn.wants_read() {
            let most = cuts.as_mut().map_or(rest.len(), |cuts| 1 + cuts.length(3000)).min(rest.len());
            let is_scattered = cuts.is_some();
            let read = memory.charge(|| {
                if is_scattered {
                    conn.prepare_read(input);
                }
                let mut n = 0;
                for space in input.spaces() {
                    let taken = space.len().min(most - n);
                    space[..taken].copy_from_slice(&rest[n..n + taken]);
                    n += taken;
                }
                input.commit(n);
                conn.handle_input(input, now);
                n
            });
            rest = &rest[read..];
        }
        let left = rest.len();
        coming.drain(..coming.len() - left);
    }

    /// Whether the connection takes a frame at once.
    fn is_reading(&self) -> bool {
        self.conn.wants_read() && self.input.is_empty() && self.coming.is_empty()
    }

    /// What it held, once all of it is gone.
    fn into_memory(self) -> Account {
        self.memory
    }

    /// The turn of a driver, after input or the application's action.
    fn turn(&mut self, now: Instant) -> Outcome {
        let mut outcome = Outcome { events: Vec::new(), written: Vec::new() };
        for _ in 0..10_000 {
            let Self { conn, output, memory, .. } = self;
            let more = memory.charge(|| {
                conn.handle_timeout(now);
                conn.poll_transmit(output, now)
            });
            let mut written = vec![0; self.output.len().min(self.quota)];
            self.output.copy_to(&mut written);
            self.output.advance(written.len());
            let before = (outcome.events.len(), self.input.len(), self.coming.len());
            let Self { conn, input, memory, .. } = self;
            outcome.events.extend(std::iter::from_fn(|| memory.charge(|| conn.poll_event())));
            let is_quiet = written.is_empty() && !more;
            outcome.written.extend(written);
            memory.charge(|| conn.handle_input(input, now));
            self.read(None, now);
            let after = (outcome.events.len(), self.input.len(), self.coming.len());
            if self.quota < usize::MAX || (is_quiet && before == after) {
                return outcome;
            }
        }
        panic!("the connection never comes to rest");
    }
}

impl<A: Application> Twin<A> {
    fn new(config: &Config, quota: usize, cuts: u8, is_plain: bool) -> Self {
        let now = Instant::ZERO + Duration::from_secs(100);
        let mut twin = Self {
            whole: Run::new(config, quota, is_plain, now),
            cut: Run::new(config, quota, is_plain, now),
            cuts: Random::new(cuts.into()),
            peer: Peer::new(A::PEER),
            trace: Trace::with_hostile(A::PEER),
            now,
            causes: 0,
            events: 0,
            calls: 0,
            ended: false,
        };
        let greeting = twin.peer.greeting();
        twin.deliver(&greeting, None);
        twin
    }

    /// The peer's next frames: what it owes, and what the script wants of it.
    fn peer_sends(&mut self, choice: u8, input: &mut Input<'_>) {
        let owed = self.peer.owed();
        self.deliver(&owed, None);
        let (mut bytes, mut verdict) = match choice {
            0..=119 => (self.peer.legal(choice, input, &self.trace), None),
            120..=144 => match self.peer.fault(input, &self.trace) {
                Some((bytes, verdict)) => (bytes, Some(verdict)),
                None => return,
            },
            _ => (self.peer.legal(input.octet() % 120, input, &self.trace), None),
        };
        if choice >= 145 && !bytes.is_empty() {
            let at = usize::from(input.short()) % bytes.len();
            bytes[at] ^= 1 << (input.octet() % 8);
            self.peer.is_honest = false;
        }
        // The peer may not know yet that its stream is gone, or that the connection ends.
        let is_certain =
            self.whole.is_reading() && self.whole.quota == usize::MAX && !self.ended && self.peer.is_honest;
        if verdict.is_some() {
            verdict = verdict.filter(|verdict| is_certain && !(self.peer.is_leaving && verdict.needs_new_stream()));
            self.peer.is_honest = false;
        }
        self.deliver(&bytes, verdict);
    }

    fn deliver(&mut self, bytes: &[u8], verdict: Option<Verdict>) {
        self.trace.observe(A::PEER, bytes);
        self.causes += bytes.len() / 9 + 1;
        for run in [&mut self.whole, &mut self.cut] {
            run.coming.extend(bytes);
        }
        self.whole.read(None, self.now);
        self.cut.read(Some(&mut self.cuts), self.now);
        let events = self.settle();
        let faults: Vec<_> = events.iter().filter_map(misbehaviour).collect();
        match verdict {
            None => {}
            Some(Verdict::Connection(code)) => {
                assert_eq!(faults, [code], "the connection must end with {code:?}\n{}", self.trace.tail(20));
            }
            Some(Verdict::Stream(id, code)) => {
                // Where no slot is free nobody looks at the message.
                let refused = Frame::Reset(ErrorCode::REFUSED_STREAM.0);
                let reset = |entry: &&Entry| {
                    entry.stream == id && (entry.frame == Frame::Reset(code.0) || entry.frame == refused)
                };
                let resets = self.trace.sent_by(A::PEER.peer()).filter(reset).count();
                assert_eq!(resets, 1, "stream {id} must be reset with {code:?}\n{}", self.trace.tail(20));
                assert_eq!(faults, [], "the fault of a stream ended the connection\n{}", self.trace.tail(20));
                // A fault of one stream takes nothing from the others.
                self.peer.is_honest = true;
                self.peer.unjust_reset = None;
            }
        }
        if self.peer.is_honest {
            let unjust = faults.iter().find(|&&code| !is_policy(code));
            assert_eq!(unjust, None, "the peer did nothing wrong\n{}", self.trace.tail(20));
        }
    }

    fn application_acts(&mut self, choice: u8, input: &mut Input<'_>) {
        self.causes += 1;
        match choice {
            0..=94 => {
                let octets = [input.octet(), input.octet(), input.octet()];
                for Run { conn, app, memory, .. } in [&mut self.whole, &mut self.cut] {
                    memory.charge(|| app.act(conn, choice % 8, octets, &self.peer, self.now));
                    self.calls = self.calls.max(app.calls());
                }
            }
            95..=98 => {
                let octet = u64::from(input.octet());
                self.now = self.now + Duration::from_millis(if octet < 200 { octet } else { (octet - 199) * 1000 });
            }
            99..=101 => {
                for Run { conn, memory, .. } in [&mut self.whole, &mut self.cut] {
                    memory.charge(|| conn.shutdown(self.now));
                }
            }
            _ => {
                self.ended = true;
                let which = input.octet() % 3;
                for Run { conn, memory, .. } in [&mut self.whole, &mut self.cut] {
                    memory.charge(|| match which {
                        0 => conn.abort(ErrorCode::NO_ERROR, self.now),
                        1 => conn.handle_eof(self.now),
                        _ => conn.handle_transport_error(TransportError::Reset, self.now),
                    });
                }
            }
        }
        self.settle();
    }

    /// A turn of both, compared and judged. The events.
    fn settle(&mut self) -> Vec<Event> {
        let Outcome { events, written } = self.whole.turn(self.now);
        let cut = self.cut.turn(self.now);
        assert_eq!(events, cut.events, "the split of the input changes events\n{}", self.trace.tail(20));
        if written != cut.written {
            let frames = [listed(&written), listed(&cut.written)];
            panic!("the split of the input changes output: {frames:#?}\n{}", self.trace.tail(20));
        }
        self.trace.observe(A::PEER.peer(), &written);
        let faults = self.trace.faults();
        assert!(faults.is_empty(), "illegal output: {faults:?}\n{}", self.trace.tail(50));
        self.events += events.len();
        for run in [&self.whole, &self.cut] {
            run.memory.assert_within(A::Role::SIDE, run.conn.config(), self.calls);
        }
        self.peer.read(&self.trace);
        if self.peer.is_honest {
            if let Some(reset) = self.peer.unjust_reset {
                panic!("reset with {reset:?}, and the peer did nothing wrong\n{}", self.trace.tail(20));
            }
        }
        events
    }

    /// The end of the connection, with or without a farewell, and what must hold then.
    fn end(mut self, says_farewell: bool) {
        for run in [&mut self.whole, &mut self.cut] {
            run.quota = usize::MAX;
            if says_farewell {
                run.conn.shutdown(self.now);
            }
        }
        self.settle();
        for run in [&mut self.whole, &mut self.cut] {
            run.conn.handle_eof(self.now);
        }
        for _ in 0..100 {
            self.settle();
            match self.whole.conn.poll_timeout() {
                Some(at) if !self.whole.conn.is_closed() => self.now = self.now.max(at),
                _ => break,
            }
        }
        for run in [&mut self.whole, &mut self.cut] {
            run.app.release_all(&mut run.conn, self.now);
        }
        self.settle();
        for run in [&mut self.whole, &mut self.cut] {
            assert!(run.conn.is_closed() && !run.conn.wants_poll(), "not closed after the end\n{}", self.trace);
            assert_eq!(run.conn.open_calls(), 0, "calls are left\n{}", self.trace);
        }
        // Each frame is answered by a few at most: what it makes due itself, and windows.
        let answers = |entry: &&Entry| !matches!(entry.frame, Frame::Data { .. } | Frame::Headers { .. });
        let answers = self.trace.sent_by(A::PEER.peer()).filter(answers).count();
        assert!(answers <= 3 * self.causes + 100, "{answers} frames for {} causes\n{}", self.causes, self.trace);
        assert!(self.events <= 4 * self.causes + 100, "{} events for {} causes", self.events, self.causes);
        let before = self.trace.entries().len();
        self.deliver(crate::frames::PREFACE, None);
        let after = self.trace.entries()[before..].iter().filter(|entry| entry.from != A::PEER).count();
        assert_eq!(after, 0, "output after the end\n{}", self.trace);
        for run in [self.whole, self.cut] {
            assert_eq!(run.into_memory().held(), 0, "memory is left");
        }
    }
}

/// Frames for people: type, stream, and what they begin with.
fn listed(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let Some(&[a, b, c, kind, flags, ref stream @ ..]) = bytes.first_chunk::<9>() {
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let payload = bytes[9..].get(..len.min(8)).unwrap_or(&bytes[9..]);
        frames.push(format!("type {kind}, flags {flags}, stream {stream:?}, {len} octets: {payload:?}"));
        bytes = bytes.get(9 + len..).unwrap_or_default();
    }
    frames
}

/// What the peer is accused of.
fn misbehaviour(event: &Event) -> Option<ErrorCode> {
    match event {
        Event::Closed(ConnectionError::Misbehaved(fault)) => Some(fault.code),
        _ => None,
    }
}

/// Codes that say that something was too much or too late, not that it was wrong.
fn is_policy(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NO_ERROR
            | ErrorCode::CANCEL
            | ErrorCode::REFUSED_STREAM
            | ErrorCode::ENHANCE_YOUR_CALM
            | ErrorCode::SETTINGS_TIMEOUT
    )
}
