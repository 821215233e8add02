//! The one step that a unary call takes, beside the many that say the same.

use alloc::collections::BTreeMap;

use super::*;
use crate::call::{Protocol, TripleHeaders};

/// Which way the applications of a [`Run`] take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    ManySteps,
    OneStep,
}

/// Everything there is to see of some calls.
#[derive(PartialEq, Eq, Debug, Default)]
struct Seen {
    requests: Vec<Vec<u8>>,
    /// Message, metadata and status of each call.
    outcomes: BTreeMap<usize, (Option<Vec<u8>>, Metadata, Status)>,
    up: Vec<u8>,
    down: Vec<u8>,
}

/// Plays calls with the requests that are given, all at once. A request says by its first octet how it is answered.
/// What one side writes arrives in pieces of `piece` octets.
fn play(way: Way, requests: &[&'static [u8]], options: &CallOptions, piece: usize) -> Seen {
    let config = Config { max_send_message: 64, max_recv_message: 80, ..Config::default() };
    // The client may send what the server does not take.
    let mut pair = Pair::with(Config { max_send_message: 1000, ..config.clone() }, config);
    let mut seen = Seen::default();
    for request in requests {
        pair.open_unary(options, request);
    }
    let mut opened = requests.len();
    loop {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        write(&mut pair.client, &mut pair.to_server.0, pair.now, &mut up);
        for piece in up.chunks(piece) {
            pair.to_server.1.extend(piece);
            pair.server.handle_input(&mut pair.to_server.1, pair.now);
            serve(&mut pair, way, &mut seen);
        }
        write(&mut pair.server, &mut pair.to_client.0, pair.now, &mut down);
        for piece in down.chunks(piece) {
            pair.to_client.1.extend(piece);
            pair.client.handle_input(&mut pair.to_client.1, pair.now);
            opened -= finish(&mut pair, way, &mut seen);
        }
        let moved = up.len() + down.len();
        seen.up.append(&mut up);
        seen.down.append(&mut down);
        if moved == 0 {
            assert_eq!(opened, 0, "calls without an end");
            pair.assert_quiet();
            return seen;
        }
    }
}

fn write<R: Role>(conn: &mut Connection<R>, out: &mut Transmit, now: Instant, octets: &mut Vec<u8>) {
    while conn.poll_transmit(out, now) || !out.is_empty() {
        out.chunks().for_each(|chunk| octets.extend_from_slice(chunk));
        out.advance(out.len());
    }
}

/// The server's application.
fn serve(pair: &mut Pair, way: Way, seen: &mut Seen) {
    while let Some(event) = pair.server.poll_event() {
        let (id, request) = match event {
            Event::Incoming => {
                while let Some(id) = pair.server.accept() {
                    let mut call = pair.server.call(id).unwrap();
                    match way {
                        Way::ManySteps => call.expect(CallKind::Unary, pair.now),
                        Way::OneStep => {
                            if let Some(request) = call.expect_request(CallKind::Unary, pair.now) {
                                answer(call, request, pair.now, seen);
                            }
                        }
                    }
                }
                continue;
            }
            Event::Readable(id) => match pair.server_call(id).recv() {
                Recv::Message(request) => (id, request),
                other => panic!("{other:?}"),
            },
            Event::Finished(id) => {
                pair.server_call(id).release();
                continue;
            }
            _ => continue,
        };
        answer(pair.server.call(id).unwrap(), request, pair.now, seen);
    }
}

fn answer(call: CallMut<'_, Server>, mut request: MessageBuf, now: Instant, seen: &mut Seen) {
    let request = Octets.decode(&mut request).unwrap().to_vec();
    let (head, trailers, none) = (metadata(&[("x-head", "1")]), metadata(&[("x-trail", "2")]), Metadata::new());
    let _ = match request.first() {
        Some(b'e') => call.finish(&Status::not_found("gone"), &trailers, now),
        Some(b'm') => call.respond(&Octets, &Bytes::from_static(b"metadata"), &head, &trailers, now),
        // More than may be sent, and more than the client takes.
        Some(b'l') => call.respond(&Octets, &Bytes::from_static(&[0; 65]), &none, &none, now),
        Some(b'n') => call.finish(&Status::OK, &none, now),
        Some(b'r') => {
            call.release();
            Ok(())
        }
        _ => call.respond(&Octets, &Bytes::copy_from_slice(&request), &none, &none, now),
    };
    seen.requests.push(request);
}

/// The client's application; how many calls ended.
fn finish(pair: &mut Pair, way: Way, seen: &mut Seen) -> usize {
    let mut ended = 0;
    while let Some(event) = pair.client.poll_event() {
        let Event::Finished(id) = event else { continue };
        ended += 1;
        let (message, head, status) = match way {
            Way::OneStep => {
                let outcome = pair.client.take_outcome(id).expect("it has ended");
                (outcome.message, outcome.metadata, outcome.status)
            }
            Way::ManySteps => {
                let mut call = pair.client_call(id);
                let message = match call.recv() {
                    Recv::Message(message) => Some(message),
                    Recv::End => None,
                    Recv::Blocked => panic!("an end that is not there"),
                };
                let head = call.metadata().cloned().unwrap_or_default();
                (message, head, call.release().expect("it has ended"))
            }
        };
        assert!(pair.client.take_outcome(id).is_none() && pair.client.call(id).is_none(), "an outcome is taken once");
        let message = message.map(|message| self::message(Recv::Message(message)));
        seen.outcomes.insert(id.index(), (message, head, status));
    }
    ended
}

/// One step says and writes what many steps do, whatever comes of the calls, in each dialect, however the octets are
/// split.
#[test]
fn one_step_gives_what_many_steps_give() {
    let requests: [&[u8]; 12] = [
        b"echo",
        b"",
        b"echo",
        b"metadata",
        b"error",
        b"error",
        b"metadata",
        b"large",
        b"no message",
        b"reset",
        &[b'x'; 81],
        b"echo",
    ];
    let dialects = [
        CallOptions::default(),
        CallOptions { protocol: Some(Protocol::Triple), ..CallOptions::default() },
        CallOptions {
            protocol: Some(Protocol::Connect),
            triple_headers: TripleHeaders::DubboJs,
            timeout: Some(Duration::from_secs(1)),
            metadata: metadata(&[("tenant", "blue")]),
            unary_fast_path: Some(false),
            ..CallOptions::default()
        },
    ];
    // Again and again, for heads that are known are taken otherwise than new ones.
    let requests: Vec<_> = core::iter::repeat_n(requests, 4).flatten().collect();
    for options in dialects {
        let plain = play(Way::ManySteps, &requests, &options, 1);
        assert_eq!(plain.outcomes.len(), requests.len());
        for piece in [usize::MAX, 1, 7, 30, 64, 100, 333] {
            let [one, many] = [Way::OneStep, Way::ManySteps].map(|way| play(way, &requests, &options, piece));
            assert_eq!(one, many, "{options:?} in pieces of {piece}");
            // In which order the applications act depends on what is there, and so does the order of the octets.
            assert_eq!((one.requests, one.outcomes), (plain.requests.clone(), plain.outcomes.clone()), "{piece}");
        }
    }
}

/// What is not there cannot be taken, and nothing happens.
#[test]
fn a_call_under_way_has_no_outcome_to_take() {
    let mut pair = Pair::new();
    let id = pair.open_unary(&CallOptions::default(), b"ping");
    assert!(pair.client.take_outcome(id).is_none());
    pair.drive();
    let call = pair.server.accept().expect("a call");
    let now = pair.now;
    let request = pair.server_call(call).expect_request(CallKind::Unary, now).expect("it came whole");
    assert_eq!(message(Recv::Message(request)), b"ping");
    pair.drive();
    assert!(!pair.server_events.contains(&Event::Readable(call)), "it was handed out");
    assert!(pair.client.take_outcome(id).is_none() && pair.client.call(id).is_some());
    let pong = Bytes::from_static(b"pong");
    pair.server_call(call).respond(&Octets, &pong, &Metadata::new(), &Metadata::new(), now).unwrap();
    pair.drive();
    let outcome = pair.client.take_outcome(id).expect("an outcome");
    assert!(outcome.status.is_ok() && outcome.metadata.is_empty());
    assert_eq!(message(Recv::Message(outcome.message.unwrap())), b"pong");
    pair.assert_quiet();
}

/// The first message of a stream waits for `recv`, for there is no saying that it is the only one.
#[test]
fn a_stream_of_requests_is_never_taken_in_one_step() {
    let mut pair = Pair::new();
    let now = pair.now;
    for (method, is_single) in [(&COLLECT, false), (&CHAT, false), (&EXPAND, true)] {
        let id = pair.client.open(method, &CallOptions::default(), "proto", now).unwrap();
        pair.client_call(id).send(&Octets, &Bytes::from_static(b"first"), now).unwrap();
        pair.client_call(id).finish(now).unwrap();
        pair.drive();
        let call = pair.server.accept().expect("a call");
        let request = pair.server_call(call).expect_request(method.kind(), now);
        assert_eq!(request.is_some(), is_single, "{method:?}");
        pair.drive();
        if !is_single {
            assert!(pair.server_events.contains(&Event::Readable(call)), "{method:?}");
            assert_eq!(message(pair.server_call(call).recv()), b"first");
        }
        pair.server_call(call).finish(&Status::cancelled("enough"), &Metadata::new(), now).unwrap();
        assert_eq!(pair.status(id).code(), Code::Cancelled);
    }
    pair.assert_quiet();
}
