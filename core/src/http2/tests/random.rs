//! Random peers: nothing panics, no window leaks an octet (asserted inside `flow`), and the outcome does not
//! depend on how the octets were cut (`h2:P1`, `h2:P2`, `h2:P4`, `h2:P9`).

use quickcheck::{Arbitrary, Gen, QuickCheck};

use super::*;

/// One step of a peer, mostly legal.
#[derive(Clone, Debug)]
enum Step {
    Headers { stream: u8, end: bool, split: u8, padding: u8 },
    Trailers { stream: u8 },
    Data { stream: u8, len: u16, padding: Option<u8>, end: bool },
    Reset { stream: u8 },
    Window { stream: u8, increment: u32 },
    Settings { id: u8, value: u32 },
    Ping,
    GoAway { last: u8 },
    Raw { kind: u8, flags: u8, stream: u8, len: u8 },
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        let stream = u8::arbitrary(g) % 12;
        match u8::arbitrary(g) % 32 {
            0..8 => {
                Self::Headers { stream, end: bool::arbitrary(g), split: u8::arbitrary(g), padding: u8::arbitrary(g) }
            }
            8..10 => Self::Trailers { stream },
            10..20 => Self::Data {
                stream,
                len: *g.choose(&[0, 1, 5, 300, 5000, 16_000]).unwrap(),
                padding: Option::arbitrary(g),
                end: u8::arbitrary(g) % 4 == 0,
            },
            20..22 => Self::Reset { stream },
            22..25 => Self::Window { stream, increment: *g.choose(&[1, 100, 65_535, 1 << 30]).unwrap() },
            25..28 => Self::Settings {
                id: u8::arbitrary(g) % 7,
                value: *g.choose(&[0, 1, 100, 16_384, 65_536, 1 << 20]).unwrap(),
            },
            28 => Self::Ping,
            29 => Self::GoAway { last: stream },
            _ => Self::Raw {
                kind: u8::arbitrary(g) % 12,
                flags: u8::arbitrary(g),
                stream,
                len: *g.choose(&[0, 1, 4, 5, 6, 8, 12, 200]).unwrap(),
            },
        }
    }
}

/// The octets of `steps` from a peer of `side`.
fn octets(bench: &mut Bench, steps: &[Step]) -> Vec<u8> {
    let is_server = bench.engine.side == Side::Server;
    let mut octets = if is_server { frame::PREFACE.to_vec() } else { Vec::new() };
    octets.extend(settings_frame(&[]));
    octets.extend(SETTINGS_ACK);
    for step in steps {
        octets.extend(match *step {
            Step::Headers { stream, end, split, padding } => {
                let block = bench.block(if is_server { REQUEST } else { RESPONSE });
                let (front, back) = block.split_at(usize::from(split).min(block.len()));
                let mut payload = vec![padding];
                payload.extend_from_slice(front);
                payload.resize(payload.len() + usize::from(padding), 0);
                let whole = if back.is_empty() { frame::END_HEADERS } else { 0 };
                let flags = frame::PADDED | whole | u8::from(end);
                let mut frames = frame_of(Kind::HEADERS, flags, stream.into(), &payload);
                if whole == 0 {
                    frames.extend(frame_of(Kind::CONTINUATION, frame::END_HEADERS, stream.into(), back));
                }
                frames
            }
            Step::Trailers { stream } => bench.headers(stream.into(), TRAILERS, true),
            Step::Data { stream, len, padding, end } => {
                let mut payload: Vec<u8> = padding.into_iter().collect();
                payload.resize(payload.len() + usize::from(len) + usize::from(padding.unwrap_or(0)), stream);
                let flags = u8::from(end) | if padding.is_some() { frame::PADDED } else { 0 };
                frame_of(Kind::DATA, flags, stream.into(), &payload)
            }
            Step::Reset { stream } => rst_frame(stream.into(), ErrorCode::CANCEL),
            Step::Window { stream, increment } => window_update(stream.into(), increment),
            Step::Settings { id, value } => settings_frame(&[(id.into(), value)]),
            Step::Ping => frame_of(Kind::PING, 0, 0, b"01234567"),
            Step::GoAway { last } => goaway_frame(last.into(), ErrorCode::NO_ERROR),
            Step::Raw { kind, flags, stream, len } => {
                frame_of(Kind(kind), flags, stream.into(), &vec![0; usize::from(len)])
            }
        });
    }
    octets
}

/// A bench of `side`; a client's has three calls under way.
fn busy(side: Side) -> Bench {
    let mut bench = Bench::fresh(side, Config::default());
    if side == Side::Client {
        for call in 0..3 {
            let key = bench.engine.open(request_head(), call).unwrap();
            bench.engine.send_data(key, None, Bytes::from(vec![0; 30_000 * call as usize]));
            if call != 1 {
                bench.engine.finish(key, None);
            }
        }
        bench.sent();
    }
    bench
}

/// Feeds `octets` in pieces and lets the owner answer: requests are served at their end, data is consumed,
/// every third stream is cancelled at its first data.
fn play(bench: &mut Bench, octets: &[u8], cuts: &[usize]) -> Vec<Incoming> {
    let mut rest = octets;
    let mut events = Vec::new();
    let mut cuts = cuts.iter().copied().cycle();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
        rest = after;
        bench.input.extend(piece);
        while let Some(mut event) = bench.next() {
            let engine = &mut bench.engine;
            match &mut event {
                Incoming::Request { stream, end: true, .. } => {
                    engine.send_head(*stream, response_head(), false);
                    engine.send_data(*stream, Some([0; 5]), Bytes::from(vec![0; 20_000]));
                    engine.finish(*stream, Some(trailers()));
                    engine.release(*stream);
                }
                Incoming::Data { stream, len, end, .. } => {
                    let id = engine.streams.get(*stream).unwrap().id;
                    engine.need(*stream, 100_000);
                    engine.consumed(*stream, *len);
                    if id % 3 == 0 && (*end || id == 9) {
                        engine.reset(*stream, ErrorCode::CANCEL);
                    }
                    if *end || id == 9 {
                        engine.release(*stream);
                    }
                    if id == 9 {
                        // How much of the frame was there at that moment is a matter of the split.
                        bench.taken.truncate(bench.taken.len() - *len);
                        *len = 1;
                        *end = false;
                    }
                }
                Incoming::Reset { stream, .. } | Incoming::Trailers { stream, .. } => engine.release(*stream),
                _ => {}
            }
            events.push(event);
        }
    }
    events
}

/// Whatever a peer sends, however it is cut: the same events, and the same frames in answer.
#[test]
fn random_frames_give_the_same_outcome_in_any_split() {
    fn property(steps: Vec<Step>, cuts: Vec<u16>, is_server: bool) -> bool {
        let side = if is_server { Side::Server } else { Side::Client };
        let whole = {
            let mut bench = busy(side);
            let octets = octets(&mut bench, &steps);
            (joined(play(&mut bench, &octets, &[usize::MAX])), bench.taken.split_off(0), bench.sent())
        };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % 700 + 1).collect();
        cuts.push(1);
        let mut bench = busy(side);
        let octets = octets(&mut bench, &steps);
        (joined(play(&mut bench, &octets, &cuts)), bench.taken.split_off(0), bench.sent()) == whole
    }
    QuickCheck::new().tests(400).quickcheck(property as fn(Vec<Step>, Vec<u16>, bool) -> bool);
}

/// `h2:E4`: octets of no meaning at all never panic; once the connection is over nothing happens any more.
#[test]
fn random_octets_never_panic() {
    fn property(noise: Vec<u8>, is_server: bool) -> bool {
        let side = if is_server { Side::Server } else { Side::Client };
        let mut bench = Bench::connected(side, Config::default(), &[]);
        bench.feed(&noise);
        bench.wait(Duration::from_secs(100));
        bench.events();
        bench.sent();
        bench.engine.abort(ErrorCode::NO_ERROR, bench.now);
        bench.events();
        bench.sent();
        bench.feed(&noise).is_empty() && bench.sent().is_empty() && bench.engine.poll_timeout().is_none()
    }
    QuickCheck::new().tests(1000).quickcheck(property as fn(Vec<u8>, bool) -> bool);
}
