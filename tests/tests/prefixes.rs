//! Bodies that are not what the prefixes of their messages say. What becomes of a call depends on the frames that arrive,
//! and not on how the reads cut them.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use trirpc_core::buf::{Encoded, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, MethodSpec, Recv};
use trirpc_core::{CallId, CallMut, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_tests::frames::{PREFACE, data, envelope, grpc_request, headers, reset, settings, settings_ack};

static METHODS: [MethodSpec; 3] = [
    MethodSpec::new("/t.Echo/Say", CallKind::Unary, false),
    MethodSpec::new("/t.Echo/Expand", CallKind::ServerStreaming, false),
    MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false),
];

/// Limits that bodies of a few octets exceed; a message that is larger than the window can have no room on a server.
fn config() -> Config {
    let mut config = Config::default();
    config.max_recv_message = 1 << 20;
    config.initial_stream_window = 1000;
    config.max_reserved = 0;
    config
}

/// Bodies, most of them with a lie.
fn bodies() -> Vec<Vec<u8>> {
    vec![
        envelope(b"true"),
        // More than there is: within the window, beyond it, and beyond the limit.
        vec![0, 0, 0, 0, 9, b'a', b'b', b'c'],
        vec![0, 0, 0, 0x40, 0, b'a', b'b', b'c'],
        vec![0, 0, 0x10, 0, 1, b'a', b'b', b'c'],
        vec![0, 0xff, 0xff, 0xff, 0xff, b'a'],
        // Less than there is.
        vec![0, 0, 0, 0, 1, b'a', b'b', b'c', b'd', b'e', b'f', b'g'],
        [envelope(b"one"), envelope(b"two")].concat(),
        [envelope(b""), vec![0, 0]].concat(),
        // Flags that nobody knows, and a compression that nobody announced.
        vec![2, 0, 0, 0, 1, b'a'],
        vec![1, 0, 0, 0, 1, b'a'],
        vec![0, 0],
        vec![],
    ]
}

/// A body in frames: the lengths of all but the last, which takes what is left.
fn in_frames(stream: u32, body: &[u8], lens: &[usize], end: bool) -> Vec<u8> {
    let mut rest = body;
    let mut octets = Vec::new();
    for &len in lens {
        let (piece, later) = rest.split_at(len.min(rest.len()));
        rest = later;
        octets.extend(data(stream, piece, false));
    }
    octets.extend(data(stream, rest, end));
    octets
}

/// How many frames a body may have, and where they end: one, two that part anywhere, and some.
fn framings(len: usize) -> Vec<Vec<usize>> {
    let mut framings = vec![vec![]];
    framings.extend((1..=len).map(|first| vec![first]));
    framings.extend(
        [5, 6].into_iter().filter(|&first| first < len).flat_map(|first| [vec![first, 1], vec![1, first - 1, 1]]),
    );
    framings.extend((len > 5).then(|| vec![1; 5]));
    framings
}

/// Each body in each framing, and one of what may come behind it: nothing, more of it although it has ended, and a reset
/// that is late.
fn cases(stream: u32) -> impl Iterator<Item = (Vec<u8>, Vec<usize>, Vec<u8>)> {
    let behind = [vec![], data(stream, b"x", false), reset(stream, 0)];
    let all =
        bodies().into_iter().flat_map(|body| framings(body.len()).into_iter().map(move |lens| (body.clone(), lens)));
    all.enumerate().map(move |(n, (body, lens))| (body, lens, behind[n % behind.len()].clone()))
}

/// What there is to see of a connection.
#[derive(PartialEq, Eq, Debug)]
struct Seen {
    events: Vec<Event>,
    written: Vec<u8>,
    calls: Vec<String>,
}

/// One end, and what it says.
struct End<R: Role> {
    conn: Connection<R>,
    input: RecvBuf,
    calls: Vec<CallId>,
    events: Vec<Event>,
}

fn now() -> Instant {
    Instant::ZERO + Duration::from_secs(1)
}

impl<R: Role> End<R> {
    fn of(conn: Connection<R>) -> Self {
        Self { conn, input: RecvBuf::new(16 * 1024), calls: Vec::new(), events: Vec::new() }
    }

    fn read(&mut self, octets: &[u8]) {
        self.input.extend(octets);
        self.conn.handle_input(&mut self.input, now());
    }

    fn write(&mut self) -> Vec<u8> {
        let (mut out, mut written) = (Transmit::new(), Vec::new());
        while self.conn.poll_transmit(&mut out, now()) || !out.is_empty() {
            written.extend(out.chunks().flatten());
            out.advance(out.len());
        }
        written
    }
}

impl End<Server> {
    fn server() -> Self {
        let mut end = Self::of(Connection::<Server>::new(Arc::new(config()), Some(HttpVersion::Http2), now()));
        end.read(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        end
    }

    fn accept(&mut self, kind: CallKind) {
        while let Some(event) = self.conn.poll_event() {
            self.events.push(event);
        }
        while let Some(id) = self.conn.accept() {
            self.conn.call(id).expect("accepted just now").expect(kind, now());
            self.calls.push(id);
        }
    }

    fn seen(mut self, kind: CallKind) -> Seen {
        self.accept(kind);
        let mut written = self.write();
        let calls = self.calls.iter().map(|&id| {
            let mut call = self.conn.call(id).expect("not released");
            let messages = lengths(&mut call);
            format!("{messages:?} {:?} {}", call.failure(), call.is_over())
        });
        let calls = calls.collect();
        written.extend(self.write());
        Seen { events: self.events, written, calls }
    }
}

/// Of the messages that a call has to give.
fn lengths<R: Role>(call: &mut CallMut<'_, R>) -> Vec<usize> {
    let message = || match call.recv() {
        Recv::Message(message) => Some(message.len()),
        _ => None,
    };
    std::iter::from_fn(message).collect()
}

impl End<Client> {
    /// A client whose requests are out.
    fn client(method: &MethodSpec, calls: usize) -> Self {
        let endpoint = Endpoint::http("localhost");
        let mut end = Self::of(Connection::<Client>::new(Arc::new(config()), endpoint, HttpVersion::Http2, now()));
        end.read(&[settings(&[]), settings_ack()].concat());
        for _ in 0..calls {
            let options = CallOptions::default();
            let id = match method.kind() {
                CallKind::Unary => {
                    let request = Encoded { bytes: Bytes::from_static(b"request"), compressed: false };
                    end.conn.open_unary_encoded(method, &options, "proto", request, now())
                }
                _ => end.conn.open(method, &options, "proto", now()),
            };
            let id = id.expect("there is room");
            if method.kind() == CallKind::ServerStreaming {
                let mut call: CallMut<'_, Client> = end.conn.call(id).expect("just opened");
                call.send_encoded(Encoded { bytes: Bytes::from_static(b"request"), compressed: false }, now()).unwrap();
                call.finish(now()).unwrap();
            }
            end.calls.push(id);
        }
        end.write();
        end
    }

    fn seen(mut self) -> Seen {
        let events = std::iter::from_fn(|| self.conn.poll_event()).collect();
        let mut written = self.write();
        let calls = self.calls.iter().map(|&id| {
            let mut call = self.conn.call(id).expect("not released");
            let messages = lengths(&mut call);
            format!("{messages:?} {:?}", call.status())
        });
        let calls = calls.collect();
        written.extend(self.write());
        Seen { events, written, calls }
    }
}

/// Octets whole, cut in two at each place from `from` on, and one by one.
fn cuts(from: usize, len: usize) -> impl Iterator<Item = Vec<usize>> {
    (from.max(1)..len).map(|at| vec![at]).chain(std::iter::once((1..len).collect()))
}

fn pieces<'a>(octets: &'a [u8], cuts: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let ends = cuts.iter().copied().chain([octets.len()]);
    let begins = std::iter::once(0).chain(cuts.iter().copied());
    begins.zip(ends).map(|(begin, end)| &octets[begin..end])
}

/// `h2:P1`: a request whose body lies, in any frames, cut at every place: the same failure, the same answer, and the same
/// verdict about what comes behind it, whether its handler looks before the body comes or after.
#[test]
fn a_request_that_lies_is_refused_alike_at_every_cut() {
    let honest = [1, 3].map(|id| [grpc_request(id, "/t.Echo/Say"), data(id, &envelope(b"a"), true)].concat()).concat();
    let head = grpc_request(5, "/t.Echo/Say");
    for (body, lens, behind) in cases(5) {
        let octets = [&head[..], &in_frames(5, &body, &lens, true), &behind].concat();
        for (kind, is_early) in [(CallKind::Unary, true), (CallKind::Bidi, true), (CallKind::Unary, false)] {
            let play = |cuts: &[usize]| {
                let mut end = End::server();
                end.read(&honest);
                let mut fed = 0;
                for piece in pieces(&octets, cuts) {
                    end.read(piece);
                    fed += piece.len();
                    if is_early && fed == head.len() {
                        end.accept(kind);
                    }
                }
                end.seen(kind)
            };
            // A handler is early if its head comes alone.
            let alone = is_early.then_some(head.len());
            let whole = play(alone.as_slice());
            for mut cuts in cuts(head.len() - 1, octets.len()) {
                if is_early && !cuts.contains(&head.len()) {
                    cuts.push(head.len());
                    cuts.sort_unstable();
                }
                assert_eq!(play(&cuts), whole, "{body:?} in {lens:?}, {behind:?}, {kind:?}, cut at {cuts:?}");
            }
        }
    }
}

/// `h2:P1`: the same of a response, which its last DATA ends, or trailers.
#[test]
fn a_response_that_lies_is_refused_alike_at_every_cut() {
    let head = |id| headers(id, &[(":status", "200"), ("content-type", "application/grpc")], false);
    let trailers = |id| headers(id, &[("grpc-status", "0")], true);
    let honest = [1, 3].map(|id| [head(id), data(id, &envelope(b"a"), false), trailers(id)].concat()).concat();
    let [unary, expand, chat] = &METHODS;
    for (body, lens, behind) in cases(5) {
        for (method, has_trailers) in [(unary, true), (unary, false), (expand, false), (chat, false)] {
            let end = if has_trailers { trailers(5) } else { vec![] };
            let octets = [head(5), in_frames(5, &body, &lens, !has_trailers), end, behind.clone()].concat();
            let play = |cuts: &[usize]| {
                let mut end = End::client(method, 3);
                end.read(&honest);
                pieces(&octets, cuts).for_each(|piece| end.read(piece));
                end.seen()
            };
            let whole = play(&[]);
            for cuts in cuts(head(5).len() - 1, octets.len()) {
                let what = method.path();
                assert_eq!(play(&cuts), whole, "{body:?} in {lens:?}, {behind:?}, {what}, cut at {cuts:?}");
            }
        }
    }
}
