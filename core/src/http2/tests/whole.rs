//! Messages that are received in one step: nobody can tell them from those that come frame by frame.

use alloc::string::ToString;

use quickcheck::{Arbitrary, Gen, QuickCheck};

use super::*;

/// A message of the peer's on a stream of its own, mostly one that can be received in one step.
#[derive(Clone, Debug)]
struct Step {
    /// Which of a few heads; some are refused by the owner.
    head: u8,
    /// A field that no other head has.
    is_new: bool,
    /// Octets more in `content-length` than in the body, if there is one.
    length: Option<u8>,
    /// Octets of the DATA frames.
    body: Vec<u16>,
    padding: Option<u8>,
    /// Trailers, and which.
    trailers: Option<u8>,
    /// What lies between head and body, and between body and end.
    between: [Between; 2],
    /// What a client's owner does before the head comes.
    request: Request,
    /// Streams of the peer's that are jumped over.
    skipped: u8,
}

#[derive(Clone, Copy, Debug)]
enum Between {
    Nothing,
    Ping,
    Window,
    Unknown,
    Reset,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    Whole,
    Head,
    Open,
    Cancelled,
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        let rarely = |g: &mut Gen, part| u8::arbitrary(g) % part == 0;
        let between = |g: &mut Gen| {
            let all = [Between::Ping, Between::Window, Between::Unknown, Between::Reset];
            if rarely(g, 8) { *g.choose(&all).unwrap() } else { Between::Nothing }
        };
        let len = |g: &mut Gen| {
            let usual = *g.choose(&[0, 1, 5, 133, 255, 256, 1000, 3000]).unwrap();
            if rarely(g, 32) { 5000 } else { usual }
        };
        let frames = if rarely(g, 4) { u8::arbitrary(g) % 7 } else { 1 };
        Self {
            head: u8::arbitrary(g) % 6,
            is_new: rarely(g, 6),
            length: rarely(g, 4).then(|| if rarely(g, 4) { 1 } else { 0 }),
            body: (0..frames).map(|_| len(g)).collect(),
            padding: rarely(g, 16).then(|| u8::arbitrary(g) % 3),
            trailers: bool::arbitrary(g).then(|| u8::arbitrary(g) % 4),
            between: [between(g), between(g)],
            request: *g
                .choose(&[
                    Request::Whole,
                    Request::Whole,
                    Request::Whole,
                    Request::Head,
                    Request::Open,
                    Request::Cancelled,
                ])
                .unwrap(),
            skipped: if rarely(g, 16) { 2 } else { 0 },
        }
    }
}

impl Between {
    fn frame(self, stream: u32) -> Vec<u8> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Ping => frame_of(Kind::PING, 0, 0, b"01234567"),
            Self::Window => window_update(0, 1),
            Self::Unknown => frame_of(Kind(0xee), 0, stream, b"?"),
            Self::Reset => rst_frame(stream, ErrorCode::CANCEL),
        }
    }
}

/// Heads from this one on are refused by the owner, who resets the stream.
const REFUSED: u8 = 4;

/// The frames of a message on `stream`.
fn frames(bench: &mut Bench, step: &Step, stream: u32) -> Vec<u8> {
    let (head, trailers) = (step.head.to_string(), step.trailers.unwrap_or_default().to_string());
    let own = stream.to_string();
    let body: usize = step.body.iter().map(|&len| usize::from(len)).sum();
    let length = step.length.map(|more| (body + usize::from(more)).to_string());
    let mut fields = if bench.engine.side == Side::Server { REQUEST.to_vec() } else { RESPONSE.to_vec() };
    fields.push(("x-head", &head));
    fields.extend(step.is_new.then_some(("grpc-timeout", own.as_str())));
    fields.extend(length.as_deref().map(|length| ("content-length", length)));
    let has_end = step.trailers.is_some();
    let mut octets = bench.headers(stream, &fields, step.body.is_empty() && !has_end);
    octets.extend(step.between[0].frame(stream));
    for (n, &len) in step.body.iter().enumerate() {
        let end = !has_end && n + 1 == step.body.len();
        let mut payload: Vec<u8> = step.padding.into_iter().collect();
        payload.resize(payload.len() + usize::from(len) + usize::from(step.padding.unwrap_or(0)), stream as u8);
        let flags = u8::from(end) | if step.padding.is_some() { frame::PADDED } else { 0 };
        octets.extend(frame_of(Kind::DATA, flags, stream, &payload));
    }
    octets.extend(step.between[1].frame(stream));
    octets.extend(step.trailers.map_or_else(Vec::new, |kind| {
        // One of them is malformed.
        let name = if kind == 3 { "connection" } else { "grpc-status" };
        bench.headers(stream, &[(name, trailers.as_str())], true)
    }));
    octets
}

/// Events, octets of bodies, and the frames in answer.
type Outcome = (Vec<Incoming>, Vec<u8>, Vec<Sent>);

/// What an engine says to the steps, and what it answers, when they come in pieces of these sizes; and how many of the
/// messages were received in one step.
fn outcome(side: Side, known: usize, steps: &[Step], cuts: &[usize]) -> (Outcome, usize) {
    let config = Config {
        max_known_heads: known,
        initial_stream_window: 4000,
        initial_connection_window: 65_536,
        ..Config::default()
    };
    let mut bench = Bench::connected(side, config, &[]);
    let mut events = Vec::new();
    let (mut cuts, mut whole, mut stream) = (cuts.iter().copied().cycle(), 0, 1);
    for (n, step) in steps.iter().enumerate() {
        if side == Side::Server {
            stream += 2 * u32::from(step.skipped);
        } else if let Ok(key) = bench.engine.open(request_head(), n as u32) {
            match step.request {
                Request::Whole | Request::Cancelled => bench.engine.finish(key, None),
                Request::Head => bench.engine.finish_on_head(key),
                Request::Open => {}
            }
            bench.engine.poll_transmit(&mut bench.out, bench.now);
            if matches!(step.request, Request::Cancelled) {
                bench.engine.reset(key, ErrorCode::CANCEL);
            }
        } else {
            break;
        }
        let octets = frames(&mut bench, step, stream);
        stream += 2;
        bench.engine.poll_transmit(&mut bench.out, bench.now);
        let mut rest = &octets[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(cuts.next().unwrap_or(usize::MAX).clamp(1, rest.len()));
            rest = after;
            bench.input.extend(piece);
            while let Some(event) = bench.next() {
                let is_head = matches!(event, Incoming::Request { .. } | Incoming::Response { .. });
                whole += usize::from(is_head && bench.plain.has_more());
                serve(&mut bench.engine, &event);
                events.push(event);
            }
        }
    }
    let sent = bench.sent();
    ((joined(events), bench.taken, sent), whole)
}

/// An owner who refuses some heads, resets some streams at the end of their body, and answers requests.
fn serve(engine: &mut Http2, event: &Incoming) {
    let is_refused = |headers: &Headers| {
        headers.iter().any(|field| field.name.as_bytes() == b"x-head" && field.value[0] >= b'0' + REFUSED)
    };
    match event {
        Incoming::Request { stream, head, .. } if is_refused(&head.headers) => {
            engine.send_head(*stream, response_head(), true);
            engine.release(*stream);
        }
        Incoming::Response { stream, head, .. } if is_refused(&head.headers) => {
            engine.reset(*stream, ErrorCode::CANCEL);
            engine.release(*stream);
        }
        Incoming::Data { stream, len, end, .. } => {
            engine.consumed(*stream, *len);
            if *end && engine.side == Side::Server {
                engine.send_head(*stream, response_head(), false);
                engine.finish(*stream, Some(trailers()));
            }
            if *end {
                engine.release(*stream);
            }
        }
        Incoming::Trailers { stream, .. } | Incoming::Reset { stream, .. } => engine.release(*stream),
        _ => {}
    }
}

/// `h2:P1`, `bg:R3`: whatever a peer sends, the same events and the same answers when it is received whole, cut anywhere,
/// and when no head is recognised.
#[test]
fn messages_in_one_step_mean_what_their_frames_mean() {
    fn property(steps: Vec<Step>, cuts: Vec<u16>, is_server: bool) -> bool {
        let side = if is_server { Side::Server } else { Side::Client };
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| usize::from(*cut) % 300 + 1).collect();
        cuts.push(7);
        let (plain, in_one_step) = outcome(side, 8, &steps, &[1]);
        assert_eq!(in_one_step, 0, "a message that is never there whole");
        [(8, &[usize::MAX][..]), (0, &[usize::MAX]), (1, &[usize::MAX]), (8, &cuts)]
            .into_iter()
            .all(|(known, cuts)| outcome(side, known, &steps, cuts).0 == plain)
    }
    QuickCheck::new().tests(200).quickcheck(property as fn(Vec<Step>, Vec<u16>, bool) -> bool);
}

/// What the property is about does happen: a body of up to four frames is received in one step, with an end on the last
/// of them, with an empty one behind it, or with trailers.
#[test]
fn a_few_frames_are_received_in_one_step() {
    let step = |frames: &[u16], trailers| Step {
        head: 0,
        is_new: false,
        length: None,
        body: frames.to_vec(),
        padding: None,
        trailers,
        between: [Between::Nothing; 2],
        request: Request::Whole,
        skipped: 0,
    };
    for (frames, in_one_step) in [(&[300, 9][..], 10), (&[300, 0], 10), (&[9, 300, 9, 300], 10), (&[1, 1, 1, 1, 1], 0)]
    {
        for (side, trailers, unknown) in [(Side::Server, None, 0), (Side::Client, None, 0), (Side::Client, Some(0), 3)]
        {
            // An empty frame is no end where trailers are.
            if trailers.is_some() && frames.contains(&0) {
                continue;
            }
            let steps: Vec<Step> = (0..10).map(|_| step(frames, trailers)).collect();
            let (told, whole) = outcome(side, 8, &steps, &[usize::MAX]);
            assert_eq!(whole, usize::saturating_sub(in_one_step, unknown), "{side:?} {frames:?} {trailers:?}");
            assert_eq!(told, outcome(side, 8, &steps, &[1]).0, "{side:?} {frames:?} {trailers:?}");
        }
    }
}

/// What the property is about does happen: requests and responses that repeat themselves are received in one step from
/// the first on, and so are those whose heads are never the same.
#[test]
fn usual_messages_are_received_in_one_step() {
    let step = |is_new, trailers| Step {
        head: 0,
        is_new,
        length: None,
        body: vec![133],
        padding: None,
        trailers,
        between: [Between::Nothing; 2],
        request: Request::Whole,
        skipped: 0,
    };
    for (side, trailers, is_new, in_one_step) in [
        (Side::Server, None, false, 10),
        (Side::Server, None, true, 10),
        (Side::Client, None, false, 10),
        // Trailers must be known, and what is known was seen twice.
        (Side::Client, Some(0), false, 7),
        (Side::Client, Some(0), true, 7),
    ] {
        let steps: Vec<Step> = (0..10).map(|_| step(is_new, trailers)).collect();
        assert_eq!(outcome(side, 8, &steps, &[usize::MAX]).1, in_one_step, "{side:?} {trailers:?} {is_new}");
    }
}
