//! All short sequences of frames and commands on two streams, against the tables of the checklist (§2.2, §2.3).
//!
//! The model knows states and verdicts and nothing else: no windows, no HPACK, no scheduling. It is the engine's
//! second opinion on RFC 9113 §5.1.

use super::*;

/// What the open half of a stream waits for, or that it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Head,
    Body,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Ended,
    PeerReset,
    WeReset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// The peer has opened a higher one.
    Skipped,
    Live {
        remote: Half,
        local: Half,
    },
    Closed(How),
}

/// A frame of the peer's, or a command of the owner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Headers {
        end: bool,
    },
    Informational,
    Data {
        end: bool,
    },
    Reset,
    Window,
    /// Server: the whole response. Client: the end of the request.
    Finish,
    Cancel,
    Release,
}

impl Step {
    const SERVER: [Self; 9] = [
        Self::Headers { end: false },
        Self::Headers { end: true },
        Self::Data { end: false },
        Self::Data { end: true },
        Self::Reset,
        Self::Window,
        Self::Finish,
        Self::Cancel,
        Self::Release,
    ];
    const CLIENT: [Self; 10] = [
        Self::Headers { end: false },
        Self::Headers { end: true },
        Self::Informational,
        Self::Data { end: false },
        Self::Data { end: true },
        Self::Reset,
        Self::Window,
        Self::Finish,
        Self::Cancel,
        Self::Release,
    ];
}

/// What the owner is told of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Request,
    Response,
    Trailers,
    Data,
    Reset { by_peer: bool },
}

/// What one step leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    told: Vec<Told>,
    /// Frames on the stream: their kinds, and the code of a reset.
    sent: Vec<(Kind, Option<ErrorCode>)>,
    /// The connection is over.
    fault: Option<ErrorCode>,
}

impl Outcome {
    fn fault(code: ErrorCode) -> Self {
        Self { fault: Some(code), ..Self::default() }
    }

    fn reset(code: ErrorCode) -> Self {
        Self { sent: vec![(Kind::RST_STREAM, Some(code))], ..Self::default() }
    }

    fn told(told: Told) -> Self {
        Self { told: vec![told], ..Self::default() }
    }
}

/// Two streams, 1 and 3, of an endpoint of `side`.
struct Model {
    side: Side,
    streams: [State; 2],
    /// Commands are the owner's until it lets go.
    released: [bool; 2],
}

impl Model {
    fn new(side: Side) -> Self {
        let state = match side {
            Side::Server => State::Idle,
            // A client's streams are open from the beginning.
            Side::Client => State::Live { remote: Half::Head, local: Half::Body },
        };
        Self { side, streams: [state; 2], released: [false; 2] }
    }

    /// Whether the owner may give such a command.
    fn allows(&self, at: usize, step: Step) -> bool {
        let is_command = matches!(step, Step::Finish | Step::Cancel | Step::Release);
        !is_command || (!self.released[at] && !matches!(self.streams[at], State::Idle | State::Skipped))
    }

    /// §2.2 and §2.3, row by row.
    fn step(&mut self, at: usize, step: Step) -> Outcome {
        match (self.streams[at], step) {
            (state, Step::Finish | Step::Cancel | Step::Release) => self.command(at, state, step),
            (State::Idle, Step::Headers { end }) if self.side == Side::Server => {
                let remote = if end { Half::Ended } else { Half::Body };
                self.streams[at] = State::Live { remote, local: Half::Head };
                for lower in &mut self.streams[..at] {
                    if *lower == State::Idle {
                        *lower = State::Skipped;
                    }
                }
                Outcome::told(Told::Request)
            }
            (State::Idle, _) => Outcome::fault(ErrorCode::PROTOCOL_ERROR),
            (State::Skipped, Step::Reset | Step::Window) => Outcome::default(),
            (State::Skipped, _) => Outcome::fault(ErrorCode::PROTOCOL_ERROR),
            (State::Live { .. }, Step::Reset) => {
                self.streams[at] = State::Closed(How::PeerReset);
                Outcome::told(Told::Reset { by_peer: true })
            }
            (_, Step::Reset | Step::Window) | (State::Closed(How::WeReset), _) => Outcome::default(),
            (State::Live { remote: Half::Ended, .. } | State::Closed(How::Ended), _) => {
                Outcome::fault(ErrorCode::STREAM_CLOSED)
            }
            (State::Closed(How::PeerReset), _) => {
                self.streams[at] = State::Closed(How::WeReset);
                Outcome::reset(ErrorCode::STREAM_CLOSED)
            }
            (State::Live { remote, local }, step) => self.message(at, remote, local, step),
        }
    }

    /// A frame of a message on a live stream.
    fn message(&mut self, at: usize, remote: Half, local: Half, step: Step) -> Outcome {
        let (told, end) = match (remote, step) {
            (Half::Head, Step::Informational) => return Outcome::default(),
            (Half::Head, Step::Headers { end }) => (Told::Response, end),
            (Half::Body, Step::Headers { end: true }) => (Told::Trailers, true),
            (Half::Body, Step::Data { end }) => (Told::Data, end),
            // Malformed: DATA before the head, a second head, a head that is informational after the final one.
            _ => {
                self.streams[at] = State::Closed(How::WeReset);
                let outcome = Outcome::reset(ErrorCode::PROTOCOL_ERROR);
                return Outcome { told: vec![Told::Reset { by_peer: false }], ..outcome };
            }
        };
        let outcome = Outcome::told(told);
        let (state, sent) = match (end, local) {
            (false, _) => (State::Live { remote: Half::Body, local }, vec![]),
            (true, Half::Ended) => (State::Closed(How::Ended), vec![]),
            // T4: a response that is complete stops the request.
            (true, _) if self.side == Side::Client => {
                (State::Closed(How::WeReset), vec![(Kind::RST_STREAM, Some(ErrorCode::NO_ERROR))])
            }
            (true, _) => (State::Live { remote: Half::Ended, local }, vec![]),
        };
        self.streams[at] = state;
        Outcome { sent, ..outcome }
    }

    fn command(&mut self, at: usize, state: State, step: Step) -> Outcome {
        let State::Live { remote, local } = state else {
            self.released[at] |= step == Step::Release;
            return Outcome::default();
        };
        match step {
            Step::Finish if local != Half::Ended => {
                let is_over = remote == Half::Ended;
                self.streams[at] =
                    if is_over { State::Closed(How::Ended) } else { State::Live { remote, local: Half::Ended } };
                let kind = if self.side == Side::Server { Kind::HEADERS } else { Kind::DATA };
                Outcome { sent: vec![(kind, None)], ..Outcome::default() }
            }
            Step::Finish => Outcome::default(),
            Step::Cancel | Step::Release => {
                self.released[at] |= step == Step::Release;
                self.streams[at] = State::Closed(How::WeReset);
                // T3: the response is out, and nobody reads the rest of the request.
                let is_answered = self.side == Side::Server && local == Half::Ended && step == Step::Release;
                Outcome::reset(if is_answered { ErrorCode::NO_ERROR } else { ErrorCode::CANCEL })
            }
            _ => unreachable!("frames are not commands"),
        }
    }
}

/// The engine, with what it knows as streams 1 and 3.
struct Engine {
    bench: Bench,
    keys: [Option<StreamKey>; 2],
}

impl Engine {
    fn new(side: Side) -> Self {
        let mut bench = Bench::connected(side, Config::default(), &[]);
        let keys = match side {
            Side::Server => [None; 2],
            Side::Client => [Some(bench.opened(0)), Some(bench.opened(1))],
        };
        Self { bench, keys }
    }

    /// `before` says what the peer takes the stream for.
    fn step(&mut self, at: usize, step: Step, before: State) -> Outcome {
        let id = 2 * at as u32 + 1;
        let events = match (step, self.keys[at]) {
            (Step::Finish | Step::Cancel | Step::Release, Some(key)) => {
                self.command(key, step);
                self.bench.events()
            }
            (Step::Finish | Step::Cancel | Step::Release, None) => unreachable!("allowed on streams that are there"),
            _ => {
                let octets = self.frame(id, step, before);
                self.bench.feed(&octets)
            }
        };
        let mut outcome = Outcome::default();
        for event in events {
            let (stream, told) = match event {
                Incoming::Request { stream, .. } => {
                    self.keys[at] = Some(stream);
                    (stream, Told::Request)
                }
                Incoming::Response { stream, .. } => (stream, Told::Response),
                Incoming::Trailers { stream, .. } => (stream, Told::Trailers),
                Incoming::Data { stream, .. } => (stream, Told::Data),
                Incoming::Reset { stream, by_peer, .. } => (stream, Told::Reset { by_peer }),
                Incoming::Closed(ConnectionError::Misbehaved(fault)) => {
                    outcome.fault = Some(fault.code);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            assert_eq!(Some(stream), self.keys[at]);
            outcome.told.push(told);
        }
        for frame in self.bench.sent() {
            if frame.kind != Kind::GOAWAY {
                assert_eq!(frame.stream, id);
                let code = (frame.kind == Kind::RST_STREAM).then(|| frame.code());
                outcome.sent.push((frame.kind, code));
            }
        }
        outcome
    }

    fn command(&mut self, key: StreamKey, step: Step) {
        let engine = &mut self.bench.engine;
        match step {
            Step::Finish if engine.side == Side::Server => engine.send_head(key, response_head(), true),
            Step::Finish => engine.finish(key, None),
            Step::Cancel => engine.reset(key, ErrorCode::CANCEL),
            _ => engine.release(key),
        }
    }

    fn frame(&mut self, id: u32, step: Step, before: State) -> Vec<u8> {
        let is_server = self.bench.engine.side == Side::Server;
        match step {
            Step::Headers { end } => {
                let fields = match before {
                    State::Live { remote: Half::Body, .. } => TRAILERS,
                    _ if is_server => REQUEST,
                    _ => RESPONSE,
                };
                self.bench.headers(id, fields, end)
            }
            Step::Informational => self.bench.headers(id, &[(":status", "103")], false),
            Step::Data { end } => data_frame(id, b"x", end),
            Step::Reset => rst_frame(id, ErrorCode::CANCEL),
            Step::Window => window_update(id, 1),
            Step::Finish | Step::Cancel | Step::Release => unreachable!("a command is no frame"),
        }
    }
}

/// Runs a sequence on both. What may follow, or `None` if the connection is over.
fn run(side: Side, script: &[(usize, Step)]) -> Option<Model> {
    let (mut model, mut engine) = (Model::new(side), Engine::new(side));
    for &(at, step) in script {
        let before = model.streams[at];
        let expected = model.step(at, step);
        let actual = engine.step(at, step, before);
        assert_eq!(actual, expected, "{side:?}: {script:?}, at {step:?} of stream {}", 2 * at + 1);
        if expected.fault.is_some() {
            return None;
        }
    }
    Some(model)
}

/// Every sequence up to `depth` that begins with `script`; how many.
fn explore(side: Side, script: &mut Vec<(usize, Step)>, depth: usize) -> u64 {
    let Some(model) = run(side, script) else { return 1 };
    let mut sequences = 1;
    if script.len() < depth {
        let steps: &[Step] = if side == Side::Server { &Step::SERVER } else { &Step::CLIENT };
        for at in 0..2 {
            for &step in steps.iter().filter(|step| model.allows(at, **step)) {
                script.push((at, step));
                sequences += explore(side, script, depth);
                script.pop();
            }
        }
    }
    sequences
}

/// `h2:P15`: all sequences of three steps; `TRIRPC_MODEL_DEPTH` asks for longer ones.
#[test]
fn the_engine_agrees_with_the_tables_of_the_checklist() {
    let depth = std::env::var("TRIRPC_MODEL_DEPTH").map_or(3, |depth| depth.parse().expect("a number of steps"));
    for side in [Side::Server, Side::Client] {
        let sequences = explore(side, &mut Vec::new(), depth);
        assert!(sequences > 500, "{side:?}: {sequences}");
    }
}
