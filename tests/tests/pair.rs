//! Whole calls between two connections: what goes on the wire, in how many writes, and what a bad network or a stuck
//! peer changes about it (nothing).

use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallKind, CallOptions, Code, Metadata, MethodSpec, Recv, Status};
use trirpc_core::{CallId, Event};
use trirpc_tests::pair::{Pair, Setup};
use trirpc_tests::pipe::{Chunks, Pipe};
use trirpc_tests::random::Random;
use trirpc_tests::trace::{Frame, Side};

static UNARY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
static COLLECT: MethodSpec = MethodSpec::new("/t.Echo/Collect", CallKind::ClientStreaming, false);

fn encoded(message: &[u8]) -> Encoded {
    Encoded { bytes: Bytes::copy_from_slice(message), compressed: false }
}

fn open_unary(pair: &mut Pair, request: &[u8]) -> CallId {
    let now = pair.now();
    let options = CallOptions::default();
    pair.client.open_unary_encoded(&UNARY, &options, "proto", encoded(request), now).expect("a call")
}

/// Echoes every unary request that is complete.
fn serve(pair: &mut Pair) {
    let now = pair.now();
    for event in std::mem::take(&mut pair.server_events) {
        match event {
            Event::Incoming => {
                while let Some(id) = pair.server.accept() {
                    pair.server_call(id).expect(CallKind::Unary, now);
                }
            }
            Event::Readable(id) => {
                let Recv::Message(message) = pair.server_call(id).recv() else { panic!("no message in {id:?}") };
                let none = Metadata::new();
                let echo = encoded(&bytes_of(message));
                pair.server_call(id).respond_encoded(echo, &none, &none, now).expect("an answer");
            }
            _ => {}
        }
    }
}

fn bytes_of(mut message: trirpc_core::buf::MessageBuf) -> Vec<u8> {
    message.copy_to_bytes(message.len()).to_vec()
}

/// The response and the status of a finished call, which is let go.
fn outcome(pair: &mut Pair, id: CallId) -> (Option<Vec<u8>>, Status) {
    let mut call = pair.client_call(id);
    let response = match call.recv() {
        Recv::Message(message) => Some(bytes_of(message)),
        Recv::Blocked | Recv::End => None,
    };
    (response, call.release().expect("a status"))
}

/// Runs the echo server and the network until nothing moves.
fn exchange(pair: &mut Pair) {
    loop {
        pair.drive();
        if pair.server_events.is_empty() {
            return;
        }
        serve(pair);
    }
}

/// bg:B2, arch:Q6: the preface, SETTINGS and the first request leave in one write, each later request in one, and each
/// response in one.
#[test]
fn a_unary_call_takes_one_write_each_way() {
    let mut pair = Pair::default();
    let first = open_unary(&mut pair, b"first");
    exchange(&mut pair);
    assert_eq!(outcome(&mut pair, first).0.as_deref(), Some(&b"first"[..]));
    let written_with_the_preface = pair.trace.sent_by(Side::Client).take(5).map(|entry| entry.frame.to_string());
    assert!(written_with_the_preface.into_iter().any(|frame| frame.starts_with("DATA END_STREAM")));

    for i in 0..100u8 {
        let (up, down) = (pair.up.writes().len(), pair.down.writes().len());
        let id = open_unary(&mut pair, &[i; 128]);
        exchange(&mut pair);
        assert_eq!(outcome(&mut pair, id).0, Some(vec![i; 128]));
        assert_eq!((pair.up.writes().len() - up, pair.down.writes().len() - down), (1, 1), "call {i}");
    }
    pair.assert_quiet();
}

/// bg:B2: under load there are far fewer writes than calls.
#[test]
fn a_hundred_calls_at_once_share_their_writes() {
    let mut pair = Pair::default();
    let (up, down) = (pair.up.writes().len(), pair.down.writes().len());
    let ids: Vec<_> = (0..100u8).map(|i| open_unary(&mut pair, &[i; 128])).collect();
    exchange(&mut pair);
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(outcome(&mut pair, id).0, Some(vec![i as u8; 128]));
    }
    let (up, down) = (pair.up.writes().len() - up, pair.down.writes().len() - down);
    assert!(up < 10 && down < 10, "{up} writes up, {down} down");
    pair.assert_quiet();
}

/// A request is HEADERS and one DATA with END_STREAM, a response HEADERS, DATA and trailers, with nothing in between.
#[test]
fn the_frames_of_a_unary_call_lie_side_by_side() {
    let mut pair = Pair::default();
    let id = open_unary(&mut pair, b"ping");
    exchange(&mut pair);
    assert!(outcome(&mut pair, id).1.is_ok());
    let frames = |side| {
        let on_stream = pair.trace.sent_by(side).enumerate().filter(|(_, entry)| entry.stream == 1);
        on_stream.map(|(at, entry)| (at, entry.frame.clone())).collect::<Vec<_>>()
    };
    let request = frames(Side::Client);
    let [(a, Frame::Headers { end: false, .. }), (b, Frame::Data { data, end: true, .. })] = &request[..] else {
        panic!("{request:?}")
    };
    assert_eq!((b - a, &data[..]), (1, &b"\0\0\0\0\x04ping"[..]));
    let response = frames(Side::Server);
    let [
        (a, Frame::Headers { end: false, .. }),
        (b, Frame::Data { end: false, .. }),
        (c, Frame::Headers { fields, end: true }),
    ] = &response[..]
    else {
        panic!("{response:?}")
    };
    assert_eq!((b - a, c - b), (1, 1));
    assert!(fields.contains(&("grpc-status".into(), "0".into())), "{fields:?}");
}

/// arch:§8: a message far larger than the windows arrives, both ways, without a byte of window left behind.
#[test]
fn a_message_much_larger_than_the_windows_arrives() {
    let mut pair = Pair::default();
    let large = Random::new(1).bytes(3_900_000);
    for _ in 0..3 {
        let id = open_unary(&mut pair, &large);
        exchange(&mut pair);
        assert!(outcome(&mut pair, id).0.as_ref() == Some(&large));
    }
    for side in [Side::Client, Side::Server] {
        let credit = pair.trace.connection_credit(side);
        assert!(credit >= 512 * 1024, "{side:?} has {credit} bytes of the connection's window left");
    }
    pair.assert_quiet();
}

/// A peer that reads one byte at a time and a socket that takes one byte at a time change nothing but time.
#[test]
fn calls_pass_through_a_network_of_single_bytes() {
    let narrow = || Pipe::new(Chunks::AtMost(1)).with_quota(1).with_capacity(1);
    let mut pair = Setup { up: narrow(), down: narrow(), ..Setup::default() }.start();
    let ids: Vec<_> = (0..3u8).map(|i| open_unary(&mut pair, &vec![i; 1000 * usize::from(i)])).collect();
    exchange(&mut pair);
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(outcome(&mut pair, id).0, Some(vec![i as u8; 1000 * i]));
    }
    assert!([&pair.up, &pair.down].iter().all(|pipe| pipe.writes().iter().all(|&written| written == 1)));
    pair.assert_quiet();
}

/// h2:P1: one cut, at every byte of both directions in turn, changes neither a frame nor the outcome.
#[test]
fn a_cut_at_any_byte_changes_nothing() {
    let run = |cut: u64| {
        let pipe = || Pipe::new(Chunks::CutAt(vec![cut]));
        let mut pair = Setup { up: pipe(), down: pipe(), ..Setup::default() }.start();
        pair.drive();
        let ids = [open_unary(&mut pair, b"first"), open_unary(&mut pair, &[7; 100])];
        exchange(&mut pair);
        let outcomes = ids.map(|id| outcome(&mut pair, id));
        pair.assert_quiet();
        let sent = [Side::Client, Side::Server].map(|side| pair.trace.sent_by(side).cloned().collect::<Vec<_>>());
        let len = [&pair.up, &pair.down].map(|pipe| pipe.writes().iter().sum::<usize>() as u64);
        (outcomes, sent, len)
    };
    let uncut = run(0);
    let end = *uncut.2.iter().max().expect("two directions");
    assert!(end > 200, "{end}");
    for cut in 1..end {
        assert_eq!(run(cut), uncut, "cut at {cut}");
    }
}

/// A server that does not read one upload goes on serving the other calls, and the upload stays within its window.
#[test]
fn a_stuck_call_does_not_block_the_others() {
    let mut pair = Pair::default();
    let now = pair.now();
    let stuck = pair.client.open(&COLLECT, &CallOptions::default(), "proto", now).expect("a call");
    pair.drive();
    let upload = pair.server.accept().expect("the upload");
    pair.server_call(upload).expect(CallKind::ClientStreaming, now);
    for round in 0..200u8 {
        while pair.client_call(stuck).send_encoded(encoded(&[0; 10_000]), now).is_ok() {}
        let id = open_unary(&mut pair, &[round; 5000]);
        pair.drive();
        // That the upload can be read is heard and never acted on.
        pair.server_events.retain(|event| *event != Event::Readable(upload));
        exchange(&mut pair);
        assert_eq!(outcome(&mut pair, id).0, Some(vec![round; 5000]));
    }
    let uploaded: usize = pair
        .trace
        .sent_by(Side::Client)
        .filter(|entry| entry.stream == 1)
        .map(|entry| if let Frame::Data { flow, .. } = &entry.frame { *flow } else { 0 })
        .sum();
    assert_eq!(uploaded, 64 * 1024, "the upload's window");
}

/// h2:F23: a call that was cancelled before it left is never seen by the peer.
#[test]
fn a_call_cancelled_in_the_queue_leaves_no_frame() {
    let mut setup = Setup::default();
    setup.server.max_concurrent_streams = 1;
    let mut pair = setup.start();
    let now = pair.now();
    pair.drive();
    let first = open_unary(&mut pair, b"first");
    let queued = open_unary(&mut pair, b"queued");
    pair.drive();
    pair.client_call(queued).cancel(Code::Cancelled, now);
    let status = pair.client_call(queued).release().expect("a status");
    assert_eq!((status.code(), status.is_unprocessed()), (Code::Cancelled, true));
    exchange(&mut pair);
    assert!(outcome(&mut pair, first).1.is_ok());
    let third = open_unary(&mut pair, b"third");
    exchange(&mut pair);
    assert!(outcome(&mut pair, third).1.is_ok());
    let streams: std::collections::BTreeSet<_> = pair.trace.entries().iter().map(|entry| entry.stream).collect();
    assert_eq!(streams.into_iter().collect::<Vec<_>>(), [0, 1, 3]);
}

/// A deadline fires on both sides by the clock alone, and the next call is not affected.
#[test]
fn a_deadline_ends_the_call_on_both_sides() {
    let mut pair = Pair::default();
    let mut options = CallOptions::default();
    options.timeout = Some(Duration::from_millis(250));
    let now = pair.now();
    let id = pair.client.open_unary_encoded(&UNARY, &options, "proto", encoded(b"slow"), now).expect("a call");
    pair.drive();
    let accepted = pair.server.accept().expect("a call");
    assert_eq!(pair.server.accept(), None);
    assert_eq!(pair.server_call(accepted).deadline(), Some(now + Duration::from_millis(250)));
    pair.drive_until("the deadline", |pair| pair.client_events.contains(&Event::Finished(id)));
    assert_eq!(pair.now(), now + Duration::from_millis(250));
    assert_eq!(outcome(&mut pair, id).1.code(), Code::DeadlineExceeded);
    assert!(pair.server_call(accepted).is_over());
    pair.server_call(accepted).release();
    pair.server_events.clear();
    let next = open_unary(&mut pair, b"next");
    exchange(&mut pair);
    assert!(outcome(&mut pair, next).1.is_ok());
    pair.assert_quiet();
}

/// checklist §2.4: what was under way is finished, nothing new is taken, and both ends close.
#[test]
fn a_graceful_shutdown_finishes_what_is_under_way() {
    for server_side in [false, true] {
        let mut pair = Pair::default();
        let id = open_unary(&mut pair, b"last");
        pair.drive();
        let now = pair.now();
        if server_side {
            pair.server.shutdown(now);
        } else {
            pair.client.shutdown(now);
        }
        exchange(&mut pair);
        assert_eq!(outcome(&mut pair, id), (Some(b"last".to_vec()), Status::OK));
        pair.drive_until("both are closed", |pair| pair.client.is_closed() && pair.server.is_closed());
        assert_eq!(pair.now(), now, "no timer was needed");
        let refused = pair.client.open(&UNARY, &CallOptions::default(), "proto", now);
        assert!(refused.is_err());
        pair.assert_quiet();
    }
}

/// RFC 9113 §5.1.2: calls opened before SETTINGS arrived, and not yet written, obey the limit that they bring.
#[test]
fn unwritten_calls_wait_when_the_server_takes_fewer_streams() {
    let mut setup = Setup::default();
    setup.server.max_concurrent_streams = 1;
    setup.client.transmit_target = 1;
    let mut pair = setup.start();
    let ids: Vec<_> = (0..5u8).map(|i| open_unary(&mut pair, &[i])).collect();
    exchange(&mut pair);
    for (i, id) in ids.into_iter().enumerate() {
        assert_eq!(outcome(&mut pair, id).0, Some(vec![i as u8]));
    }
    pair.assert_quiet();
}

/// RFC 9113 §6.9.2, `h2:B57`: what was sent before SETTINGS arrived may leave a window negative. The end of the stream fits into
/// it all the same, and a message that the smaller window cannot hold is still received.
#[test]
fn windows_that_shrink_under_a_message_do_not_stop_it() {
    for (window, size) in [(100, 199), (16, 40_000), (5, 17_402)] {
        let mut setup = Setup::default();
        setup.server.initial_stream_window = window;
        // One frame a turn, so that SETTINGS arrive behind the first.
        setup.client.transmit_target = 1;
        let mut pair = setup.start();
        let now = pair.now();
        let id = pair.client.open(&COLLECT, &CallOptions::default(), "proto", now).expect("a call");
        pair.client_call(id).send_encoded(encoded(&vec![7; size]), now).expect("room");
        pair.step_client();
        pair.step_client();
        pair.drive();
        pair.client_call(id).finish(now).expect("an end");
        pair.drive();
        let accepted = pair.server.accept().expect("the call");
        pair.server_call(accepted).expect(CallKind::ClientStreaming, now);
        let Recv::Message(message) = pair.server_call(accepted).recv() else { panic!("no message of {size} bytes") };
        assert_eq!(message.len(), size);
        assert!(matches!(pair.server_call(accepted).recv(), Recv::End));
        let none = Metadata::new();
        pair.server_call(accepted).respond_encoded(encoded(b"done"), &none, &none, now).expect("an answer");
        pair.drive();
        assert_eq!(outcome(&mut pair, id), (Some(b"done".to_vec()), Status::OK));
    }
}
