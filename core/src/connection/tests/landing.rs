//! Reads that are scattered into the memory of a large message, beside those that are not.

use super::*;
use crate::buf::Spaces;
use crate::call::Protocol;

/// How octets come to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Window,
    Scattered,
}

/// Everything there is to see of some calls.
#[derive(PartialEq, Eq, Debug, Default)]
struct Seen {
    requests: Vec<Vec<u8>>,
    responses: Vec<Vec<u8>>,
    up: Vec<u8>,
    down: Vec<u8>,
    /// Octets that came straight to where they belong.
    landed: usize,
}

/// One read, and what the connection makes of it; returns what is left, and how much of the rest came past the window.
fn read<'a, R: Role>(
    conn: &mut Connection<R>,
    input: &mut RecvBuf,
    octets: &'a [u8],
    now: Instant,
) -> (&'a [u8], usize) {
    conn.prepare_read(input);
    let is_scattered = input.is_scattered();
    let (mut left, mut window) = (octets, 0);
    for (n, space) in input.spaces().enumerate() {
        assert!(n < Spaces::MAX);
        window = space.len().min(left.len());
        space[..window].copy_from_slice(&left[..window]);
        left = &left[window..];
    }
    let n = octets.len() - left.len();
    input.commit(n);
    conn.handle_input(input, now);
    assert!(!input.is_scattered(), "what was lent is back");
    (left, if is_scattered { n - window } else { 0 })
}

fn feed<R: Role>(way: Way, conn: &mut Connection<R>, input: &mut RecvBuf, mut octets: &[u8], now: Instant) -> usize {
    let mut all = 0;
    while !octets.is_empty() {
        match way {
            Way::Scattered => {
                let (left, landed) = read(conn, input, octets, now);
                octets = left;
                all += landed;
            }
            Way::Window => {
                input.extend(octets);
                conn.handle_input(input, now);
                octets = &[];
            }
        }
    }
    all
}

fn write<R: Role>(conn: &mut Connection<R>, out: &mut Transmit, now: Instant) -> Vec<u8> {
    let mut octets = Vec::new();
    conn.poll_transmit(out, now);
    out.chunks().for_each(|chunk| octets.extend_from_slice(chunk));
    out.advance(out.len());
    octets
}

/// A message that is nowhere like itself.
fn message(len: usize, seed: u32) -> Bytes {
    let mut state = seed | 1;
    let octets = core::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    octets.take(len).collect::<Vec<u8>>().into()
}

/// Plays calls that are opened at once, each answered with its request. What one side writes arrives in pieces of `piece`
/// octets; between them the other one is asked for a PING now and then.
fn play(way: Way, lens: &[usize], options: &CallOptions, piece: usize) -> Seen {
    play_by(&Config::default(), way, lens, options, piece)
}

/// [`play`] with this configuration on both sides.
fn play_by(config: &Config, way: Way, lens: &[usize], options: &CallOptions, piece: usize) -> Seen {
    let mut pair = Pair::with(config.clone(), config.clone());
    let mut seen = Seen::default();
    for (n, &len) in lens.iter().enumerate() {
        pair.client.open_unary(&UNARY, options, &Octets, &message(len, n as u32), pair.now).unwrap();
    }
    let mut ended = 0;
    for round in 0.. {
        let up = write(&mut pair.client, &mut pair.to_server.0, pair.now);
        for piece in up.chunks(piece) {
            seen.landed += feed(way, &mut pair.server, &mut pair.to_server.1, piece, pair.now);
        }
        while let Some(event) = pair.server.poll_event() {
            if event == Event::Incoming {
                while let Some(id) = pair.server.accept() {
                    pair.server_call(id).expect(CallKind::Unary, Instant::ZERO);
                }
            } else if let Event::Readable(id) = event {
                let Recv::Message(mut request) = pair.server_call(id).recv() else { panic!("no request") };
                let request = Octets.decode(&mut request).unwrap();
                let none = Metadata::new();
                pair.server_call(id).respond(&Octets, &request, &none, &none, Instant::ZERO).unwrap();
                seen.requests.push(request.to_vec());
            }
        }
        let down = write(&mut pair.server, &mut pair.to_client.0, pair.now);
        for piece in down.chunks(piece) {
            seen.landed += feed(way, &mut pair.client, &mut pair.to_client.1, piece, pair.now);
        }
        while let Some(event) = pair.client.poll_event() {
            if let Event::Finished(id) = event {
                let outcome = pair.client.take_outcome(id).expect("it has ended");
                assert_eq!(outcome.status, Status::OK);
                seen.responses.push(super::message(Recv::Message(outcome.message.expect("a response"))));
                ended += 1;
            }
        }
        let moved = up.len() + down.len();
        seen.up.extend(up);
        seen.down.extend(down);
        if moved == 0 {
            assert_eq!(ended, lens.len(), "calls without an end, after {round} rounds");
            return seen;
        }
    }
    unreachable!("rounds do not end")
}

/// Whoever lends its memory sees and says what it would say otherwise: for large and small messages in any order, in each
/// shape of a body, however reads cut them.
#[test]
fn scattered_reads_give_what_other_reads_give() {
    let dialects = [CallOptions::default(), CallOptions { protocol: Some(Protocol::Triple), ..CallOptions::default() }];
    let loads: [&[usize]; 5] = [
        &[1 << 20],
        &[300_000; 3],
        &[5, 400_000, 20, 70_000, 5, 65_536, 40_000],
        &[98_304, 98_299, 98_294, 1],
        &[40_000; 8],
    ];
    for options in &dialects {
        for lens in loads {
            for piece in [usize::MAX, 100_000, 16_393, 9_999, 4096] {
                let [one, other] = [Way::Scattered, Way::Window].map(|way| play(way, lens, options, piece));
                assert_eq!((&one.requests, &one.responses), (&other.requests, &other.responses), "{lens:?} by {piece}");
                assert!(one.up == other.up && one.down == other.down, "{lens:?} in pieces of {piece}");
                assert_eq!(other.landed, 0);
            }
        }
    }
}

/// Nearly all of a large message goes past the window, both ways.
#[test]
fn a_large_message_is_read_to_where_it_lies() {
    const LEN: usize = 1 << 20;
    let seen = play(Way::Scattered, &[LEN], &CallOptions::default(), usize::MAX);
    assert!(seen.landed > 2 * LEN * 4 / 5, "{} of {}", seen.landed, 2 * LEN);
    let small = play(Way::Scattered, &[16 * 1024; 8], &CallOptions::default(), usize::MAX);
    assert_eq!(small.landed, 0, "a copy is cheaper");
}

/// `scatter_from` says from what size on.
#[test]
fn what_is_large_is_a_matter_of_the_configuration() {
    let lens = [20_000, 3, 400_000, 1000, 40_000];
    let by = |scatter_from, way| {
        play_by(&Config { scatter_from, ..Config::default() }, way, &lens, &CallOptions::default(), 5000)
    };
    let other = by(0, Way::Window);
    for (scatter_from, at_least, at_most) in [(0, 700_000, 900_000), (500, 600_000, 850_000), (usize::MAX, 0, 0)] {
        let seen = by(scatter_from, Way::Scattered);
        assert!((at_least..=at_most).contains(&seen.landed), "{} from {scatter_from}", seen.landed);
        assert!(seen.requests == other.requests && seen.responses == other.responses && seen.down == other.down);
    }
}

/// A DATA frame, padded by an octet or not.
fn data(stream: u8, octets: &[u8], is_padded: bool, is_end: bool) -> Vec<u8> {
    let len = octets.len() + if is_padded { 2 } else { 0 };
    let flags = if is_padded { 8 } else { 0 } | u8::from(is_end);
    let mut frame = [&(len as u32).to_be_bytes()[1..], &[0, flags, 0, 0, 0, stream]].concat();
    frame.extend(is_padded.then_some(1));
    frame.extend(octets);
    frame.extend(is_padded.then_some(0));
    frame
}

/// Frames that look nearly as was guessed: of another stream, padded, shorter, the last. Two requests at once, in every order of
/// their frames.
#[test]
fn frames_that_are_nearly_as_guessed_are_what_they_are() {
    const FRAME: usize = 5000;
    let bodies = [1, 2].map(|seed| {
        let message = message(200_000, seed);
        [&[0, 0, 3, 13, 64], &message[..]].concat()
    });
    for (order, padded, short) in [(1, 0, 0), (3, 0, 0), (5, 7, 0), (40, 7, 0), (40, 5, 0), (40, 0, 9), (7, 4, 9)] {
        let requests = [Way::Window, Way::Scattered].map(|way| {
            let config = Config { initial_stream_window: 1 << 20, ..Config::default() };
            let mut pair = Pair::with(Config::default(), config);
            pair.drive();
            for _ in 0..2 {
                pair.client.open_unary(&UNARY, &CallOptions::default(), &Octets, &Bytes::new(), pair.now).unwrap();
            }
            // The heads; bodies are ours.
            let up = write(&mut pair.client, &mut pair.to_server.0, pair.now);
            let (mut octets, mut at) = (Vec::new(), 0);
            while at < up.len() {
                let len = usize::from(up[at + 1]) << 8 | usize::from(up[at + 2]);
                if up[at + 3] == 1 {
                    octets.extend(&up[at..at + 9 + len]);
                }
                at += 9 + len;
            }
            let mut left = [&bodies[0][..], &bodies[1][..]];
            for n in 0.. {
                let stream = n / order % 2;
                if left.iter().all(|left| left.is_empty()) {
                    break;
                }
                let is_padded = padded > 0 && n % padded == 0;
                let len = if short > 0 && n % short == 0 { FRAME / 2 } else { FRAME } - if is_padded { 2 } else { 0 };
                let (now, behind) = left[stream].split_at(len.min(left[stream].len()));
                left[stream] = behind;
                if !now.is_empty() {
                    octets.extend(data(2 * stream as u8 + 1, now, is_padded, behind.is_empty()));
                }
            }
            let mut landed = 0;
            for piece in octets.chunks(60_000) {
                landed += feed(way, &mut pair.server, &mut pair.to_server.1, piece, pair.now);
                while let Some(id) = pair.server.accept() {
                    pair.server_call(id).expect(CallKind::Unary, Instant::ZERO);
                }
            }
            assert_eq!(landed > 0, way == Way::Scattered && order > 1, "{order} {padded} {short}");
            let mut requests = Vec::new();
            while let Some(event) = pair.server.poll_event() {
                if let Event::Readable(id) = event {
                    requests.push(super::message(pair.server_call(id).recv()));
                }
            }
            requests.sort();
            requests
        });
        let mut sent = bodies.each_ref().map(|body| body[5..].to_vec());
        sent.sort();
        assert!(requests[0] == sent && requests[1] == sent, "{order} {padded} {short}");
    }
}

/// A server in the middle of a request of 1 MiB, with the next read prepared.
fn prepared() -> (Pair, Vec<u8>) {
    let mut pair = Pair::new();
    pair.client.open_unary(&UNARY, &CallOptions::default(), &Octets, &message(1 << 20, 1), pair.now).unwrap();
    let mut left = Vec::new();
    loop {
        let up = write(&mut pair.client, &mut pair.to_server.0, pair.now);
        feed(Way::Window, &mut pair.server, &mut pair.to_server.1, &up, pair.now);
        let down = write(&mut pair.server, &mut pair.to_client.0, pair.now);
        feed(Way::Window, &mut pair.client, &mut pair.to_client.1, &down, pair.now);
        if let Some(id) = pair.server.accept() {
            pair.server_call(id).expect(CallKind::Unary, Instant::ZERO);
        }
        if pair.server.may_prepare_read() {
            break;
        }
    }
    left.extend(write(&mut pair.client, &mut pair.to_server.0, pair.now));
    let at = 20_000.min(left.len());
    feed(Way::Window, &mut pair.server, &mut pair.to_server.1, &left[..at], pair.now);
    left.drain(..at);
    pair.server.prepare_read(&mut pair.to_server.1);
    assert!(pair.to_server.1.is_scattered() && left.len() > 50_000);
    (pair, left)
}

/// A read that brought nothing changes nothing; the next one may be scattered as well.
#[test]
fn memory_that_was_lent_in_vain_comes_back() {
    let (mut pair, left) = prepared();
    pair.server.prepare_read(&mut pair.to_server.1);
    assert!(pair.to_server.1.is_empty());
    pair.server.handle_input(&mut pair.to_server.1, pair.now);
    assert!(!pair.to_server.1.is_scattered());
    feed(Way::Scattered, &mut pair.server, &mut pair.to_server.1, &left, pair.now);
    pair.drive();
    let id = pair.server_events.iter().find_map(|event| match event {
        Event::Readable(id) => Some(*id),
        _ => None,
    });
    assert_eq!(super::message(pair.server_call(id.expect("a request")).recv()), message(1 << 20, 1));
}

/// Between a read and what is made of it, the call may end: then what came is dropped, as it would be otherwise, and what comes
/// behind it is understood.
#[test]
fn a_call_that_ends_while_its_memory_is_lent_leaves_the_connection_whole() {
    let (mut pair, left) = prepared();
    let (id, now) = (pair.server.calls.ids().next().expect("a call"), pair.now);
    pair.server_call(id).cancel(Code::Cancelled, now);
    pair.server_call(id).release();
    // What is written at a time ends with a frame.
    let mut octets = left;
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    octets.extend(ping);
    let mut rest = &octets[..];
    for space in pair.to_server.1.spaces() {
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        rest = &rest[n..];
    }
    pair.to_server.1.commit(octets.len() - rest.len());
    pair.server.handle_input(&mut pair.to_server.1, pair.now);
    feed(Way::Window, &mut pair.server, &mut pair.to_server.1, rest, pair.now);
    let down = write(&mut pair.server, &mut pair.to_client.0, pair.now);
    assert!(down.windows(17).any(|frame| frame[3..5] == [6, 1] && frame[9..] == ping[9..]), "the PING is answered");
    assert!(!pair.server.is_closed() && pair.server.open_calls() == 0);
}

/// The message is lost with an input that is not shown again: the connection ends, and nothing else happens.
#[test]
fn an_input_that_took_memory_along_ends_the_connection() {
    let (mut pair, left) = prepared();
    let mut other = RecvBuf::new(16 * 1024);
    other.extend(&left[..100]);
    pair.server.handle_input(&mut other, pair.now);
    pair.drive();
    let is_end = |event: &&Event| matches!(event, Event::Closed(_));
    assert!(pair.server_events.iter().any(|event| is_end(&event)) && pair.server.is_closed());
}
