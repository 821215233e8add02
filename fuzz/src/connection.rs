use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::{Encoded, MessageBuf, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Code, Metadata, MethodSpec, Recv, Status};
use trirpc_core::http::Response;
use trirpc_core::{CallId, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};

use crate::input::Input;
use crate::trace::{Side, Trace};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Output that a transport holds at most when every limit is used up: a turn beyond `transmit_target`, and the control
/// frames that may be owed.
const MAX_OUTPUT: usize = 256 * 1024;

static METHODS: [MethodSpec; 4] = [
    MethodSpec::new("/t.Echo/Say", CallKind::Unary, false),
    MethodSpec::new("/t.Echo/Collect", CallKind::ClientStreaming, false),
    MethodSpec::new("/t.Echo/Expand", CallKind::ServerStreaming, false),
    MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false),
];

/// Feeds bytes to a server, as any client may send them.
///
/// The input is an octet of switches, one that says how reads are cut, and the bytes. Whatever they are: no panic, all
/// output is legal and bounded, every split of the same bytes has the same effect, and the end leaves nothing behind.
pub fn server_bytes(data: &[u8]) {
    check::<Echo>(data);
}

/// Feeds bytes to a client with a call of each kind open, as any server may send them; the rest as in
/// [`server_bytes`].
pub fn client_bytes(data: &[u8]) {
    check::<Callers>(data);
}

fn check<A: Application>(data: &[u8]) {
    let mut input = Input::new(data);
    let (switches, cuts) = (input.octet(), input.octet());
    let mut bytes = Vec::new();
    if switches & 1 != 0 && A::HOSTILE == Side::Client {
        bytes.extend_from_slice(PREFACE);
    }
    if switches & 1 != 0 {
        bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    }
    bytes.extend_from_slice(input.bytes(usize::MAX));
    let config = if switches & 2 == 0 { Config::default() } else { Config::embedded() };

    let is_plain = switches & 16 != 0;
    let whole = Run::<A>::new(&config, is_plain).without_turns(&bytes, Cuts(0));
    let cut = Run::<A>::new(&config, is_plain).without_turns(&bytes, Cuts(cuts));
    assert_eq!(whole, cut, "the split of the input matters");

    let mut run = Run::<A>::new(&config, is_plain);
    run.writes_little = switches & 4 != 0;
    run.turn_by_turn(&bytes, Cuts(cuts), switches & 8 != 0);
}

/// Into what reads cut the input: 0 not at all, below 128 equal pieces, above pieces that vary.
#[derive(Clone, Copy)]
struct Cuts(u8);

impl Cuts {
    fn pieces(self, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = bytes;
        let mut state = usize::from(self.0);
        std::iter::from_fn(move || {
            let len = match self.0 {
                0 => rest.len(),
                1..=127 => usize::from(self.0),
                _ => {
                    state = state.wrapping_mul(181).wrapping_add(97) % 1021;
                    1 + state % 61
                }
            };
            let (piece, later) = rest.split_at(len.min(rest.len()));
            rest = later;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

/// One side under test, and what drives it.
struct Run<A: Application> {
    conn: Connection<A::Role>,
    app: A,
    input: RecvBuf,
    output: Transmit,
    trace: Trace,
    now: Instant,
    writes_little: bool,
}

impl<A: Application> Run<A> {
    fn new(config: &Config, is_plain: bool) -> Self {
        let now = Instant::ZERO + Duration::from_secs(100);
        let (conn, app) = A::start(config.clone(), is_plain, now);
        Self {
            conn,
            app,
            input: RecvBuf::new(16 * 1024),
            output: Transmit::new(),
            trace: Trace::with_hostile(A::HOSTILE),
            now,
            writes_little: false,
        }
    }

    /// Gives the connection everything before anybody looks: the events and the output that come of it.
    fn without_turns(mut self, bytes: &[u8], cuts: Cuts) -> (Vec<Event>, Vec<u8>) {
        // A client's requests are out: there are streams.
        let mut written = self.written();
        for piece in cuts.pieces(bytes) {
            self.input.extend(piece);
            self.conn.handle_input(&mut self.input, self.now);
        }
        let events = std::iter::from_fn(|| self.conn.poll_event()).collect();
        written.extend(self.written());
        (events, written)
    }

    /// All that there is to be written.
    fn written(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        loop {
            let more = self.conn.poll_transmit(&mut self.output, self.now);
            written.extend(self.output.chunks().flatten());
            self.output.advance(self.output.len());
            if !more {
                return written;
            }
        }
    }

    /// Drives the connection as a driver does, with an application that takes and answers, to its end and beyond.
    fn turn_by_turn(mut self, bytes: &[u8], cuts: Cuts, is_cut_off: bool) {
        let (mut fed, mut seen) = (0, 0);
        let judged = completed(bytes, A::HOSTILE == Side::Client);
        for piece in cuts.pieces(bytes) {
            // The connection may act on a frame before its end, say before its padding: the judge sees it whole.
            fed += piece.len();
            let start = seen;
            while seen < fed {
                seen += frame_len(&judged[seen..], seen == 0 && A::HOSTILE == Side::Client);
            }
            self.trace.observe(A::HOSTILE, &judged[start..seen]);
            self.input.extend(piece);
            self.turn();
        }
        if !is_cut_off {
            self.conn.shutdown(self.now);
            self.turn();
        }
        self.conn.handle_eof(self.now);
        self.writes_little = false;
        // Whatever still runs ends by a timer.
        for _ in 0..100 {
            self.turn();
            match self.conn.poll_timeout() {
                Some(at) if !self.conn.is_closed() => self.now = self.now.max(at),
                _ => break,
            }
        }
        self.app.release(&mut self.conn, self.now);
        self.turn();
        assert!(self.conn.is_closed(), "not closed after the end\n{}", self.trace);
        assert!(self.output.is_empty() && !self.conn.wants_poll(), "not quiet after the end\n{}", self.trace);
        assert_eq!(self.conn.open_calls(), 0, "calls are left\n{}", self.trace);
        let frames = self.trace.entries().len();
        self.input.extend(PREFACE);
        self.turn();
        assert_eq!(self.trace.entries().len(), frames, "output after the end\n{}", self.trace);
    }

    fn turn(&mut self) {
        for _ in 0..10_000 {
            self.conn.handle_input(&mut self.input, self.now);
            self.conn.handle_timeout(self.now);
            let more = self.conn.poll_transmit(&mut self.output, self.now);
            assert!(self.output.len() <= MAX_OUTPUT, "{} bytes of output\n{}", self.output.len(), self.trace);
            let limit = if self.writes_little { 50 } else { usize::MAX };
            let mut written = vec![0; self.output.len().min(limit)];
            self.output.copy_to(&mut written);
            self.output.advance(written.len());
            self.trace.observe(A::HOSTILE.peer(), &written);
            let faults = self.trace.faults();
            assert!(faults.is_empty(), "illegal output: {faults:?}\n{}", self.trace.tail(50));
            let mut quiet = written.is_empty() && !more;
            while let Some(event) = self.conn.poll_event() {
                quiet = false;
                self.app.handle(&mut self.conn, event, self.now);
            }
            if quiet || self.writes_little {
                return;
            }
        }
        panic!("the connection never comes to rest\n{}", self.trace.tail(50));
    }
}

/// Length of what `bytes` begin with: the preface or a frame, or all of them if they end before.
fn frame_len(bytes: &[u8], is_preface: bool) -> usize {
    let len = match bytes {
        _ if is_preface => PREFACE.len(),
        &[a, b, c, _, _, _, _, _, _, ..] => 9 + u32::from_be_bytes([0, a, b, c]) as usize,
        _ => bytes.len(),
    };
    len.min(bytes.len())
}

/// `bytes`, with zeros behind a last frame that is cut: the connection may have acted on what there is of it.
fn completed(bytes: &[u8], begins_with_preface: bool) -> Vec<u8> {
    const MAX_FRAME: usize = 9 + 16 * 1024;
    let mut completed = bytes.to_vec();
    let mut at = if begins_with_preface { PREFACE.len().min(bytes.len()) } else { 0 };
    while let Some(&[a, b, c, ..]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<9>()) {
        let len = 9 + u32::from_be_bytes([0, a, b, c]) as usize;
        at += len;
        if at > bytes.len() && len <= MAX_FRAME {
            completed.resize(at, 0);
        }
    }
    completed
}

/// What is done with the calls of a connection.
trait Application: Sized {
    type Role: Role;
    const HOSTILE: Side;

    /// `is_plain` if a server answers plain HTTP on any path but those of its methods.
    fn start(config: Config, is_plain: bool, now: Instant) -> (Connection<Self::Role>, Self);
    fn handle(&mut self, conn: &mut Connection<Self::Role>, event: Event, now: Instant);
    fn release(&mut self, conn: &mut Connection<Self::Role>, now: Instant);
}

/// A server that sends back what it gets.
#[derive(Default)]
struct Echo {
    calls: Vec<CallId>,
}

impl Application for Echo {
    type Role = Server;
    const HOSTILE: Side = Side::Client;

    fn start(config: Config, is_plain: bool, now: Instant) -> (Connection<Server>, Self) {
        let mut conn = Connection::<Server>::new(Arc::new(config), Some(HttpVersion::Http2), now);
        if is_plain {
            conn.serve_plain(|path| METHODS.iter().all(|method| method.path() != path));
        }
        (conn, Self::default())
    }

    fn handle(&mut self, conn: &mut Connection<Server>, event: Event, now: Instant) {
        match event {
            Event::Incoming => {
                while let Some(id) = conn.accept() {
                    let mut call = conn.call(id).expect("accepted just now");
                    let method = METHODS.iter().find(|method| method.path() == call.path());
                    call.expect(method.map_or(CallKind::Bidi, MethodSpec::kind), now);
                    self.calls.push(id);
                }
                let slots = conn.config().max_concurrent_streams as usize;
                assert!(conn.open_calls() <= slots, "{} calls, allowed are {slots}", conn.open_calls());
            }
            Event::Readable(id) => {
                while let Some(mut call) = conn.call(id) {
                    match call.recv() {
                        Recv::Message(piece) if call.http().is_some() => drop(piece),
                        Recv::End if call.http().is_some() => {
                            drop(call.respond_plain(Response::from_status(200), now));
                        }
                        // A send that is refused ends with the call.
                        Recv::Message(message) => drop(call.send_encoded(echo(message), now)),
                        Recv::Blocked => break,
                        Recv::End if call.is_over() => call.release(),
                        Recv::End => drop(call.finish(&Status::OK, &Metadata::new(), now)),
                    }
                }
            }
            Event::Finished(id) => {
                if let Some(call) = conn.call(id) {
                    call.release();
                }
            }
            _ => {}
        }
    }

    fn release(&mut self, conn: &mut Connection<Server>, _: Instant) {
        for id in self.calls.drain(..) {
            if let Some(call) = conn.call(id) {
                call.release();
            }
        }
        while let Some(call) = conn.accept().and_then(|id| conn.call(id)) {
            call.release();
        }
    }
}

/// A client with a call of each kind, which takes what it gets.
struct Callers {
    calls: Vec<CallId>,
}

impl Application for Callers {
    type Role = Client;
    const HOSTILE: Side = Side::Server;

    fn start(mut config: Config, _: bool, now: Instant) -> (Connection<Client>, Self) {
        // Small profiles have room for one call; these are there at once.
        config.max_pending = config.max_pending.max(METHODS.len());
        let endpoint = Endpoint::http("localhost");
        let mut conn = Connection::<Client>::new(Arc::new(config), endpoint, HttpVersion::Http2, now);
        let mut options = CallOptions::default();
        let mut open = |method: &MethodSpec| {
            // The unary call has no deadline: it must end by other means.
            let id = if method.kind() == CallKind::Unary {
                let request = Encoded { bytes: Bytes::from_static(b"request"), compressed: false };
                conn.open_unary_encoded(method, &options, "proto", request, now)
            } else {
                options.timeout = Some(Duration::from_secs(5));
                conn.open(method, &options, "proto", now)
            };
            id.expect("a new connection takes calls")
        };
        let calls = METHODS.iter().map(&mut open).collect();
        for &id in &calls {
            let mut call: trirpc_core::CallMut<'_, Client> = conn.call(id).expect("just opened");
            let message = Encoded { bytes: Bytes::from_static(b"first message"), compressed: false };
            let _ = call.send_encoded(message, now);
            let _ = call.finish(now);
        }
        (conn, Self { calls })
    }

    fn handle(&mut self, conn: &mut Connection<Client>, event: Event, now: Instant) {
        let (Event::Readable(id) | Event::Finished(id)) = event else { return };
        let Some(mut call) = conn.call(id) else { return };
        loop {
            match call.recv() {
                Recv::Message(message) => drop(call.send_encoded(echo(message), now)),
                Recv::Blocked => return,
                Recv::End => break,
            }
        }
        assert!(call.release().is_some(), "an end without a status");
    }

    fn release(&mut self, conn: &mut Connection<Client>, now: Instant) {
        for id in self.calls.drain(..) {
            if let Some(mut call) = conn.call(id) {
                assert!(call.status().is_some(), "a call outlived its connection");
                call.cancel(Code::Cancelled, now);
                call.release();
            }
        }
    }
}

fn echo(mut message: MessageBuf) -> Encoded {
    Encoded { bytes: message.copy_to_bytes(message.len()), compressed: false }
}
