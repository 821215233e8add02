//! Two connections, back to back, in memory: what the pair harness of the `tests` crate does at length,
//! here in short, so that it also runs where only the core does.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::{Buf, BufMut, Bytes};

use super::*;
use crate::buf::MessageBuf;
use crate::call::{
    CallKind, CallOptions, Code, Codec, EncodeBuf, Metadata, MethodSpec, Origin, Protocol, Recv, Status,
};
use crate::error::{CodecError, OpenError, SendError};

/// Octets as they are.
struct Octets;

impl Codec<Bytes> for Octets {
    fn name(&self) -> &'static str {
        "proto"
    }

    fn encoded_len(&self, item: &Bytes) -> Option<usize> {
        Some(item.len())
    }

    fn encode(&self, item: &Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(item);
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Bytes, CodecError> {
        Ok(src.copy_to_bytes(src.remaining()))
    }
}

static UNARY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
static COLLECT: MethodSpec = MethodSpec::new("/t.Echo/Collect", CallKind::ClientStreaming, false);
static EXPAND: MethodSpec = MethodSpec::new("/t.Echo/Expand", CallKind::ServerStreaming, false);
static CHAT: MethodSpec = MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false);

struct Pair {
    client: Connection<Client>,
    server: Connection<Server>,
    to_server: (Transmit, RecvBuf),
    to_client: (Transmit, RecvBuf),
    now: Instant,
    client_events: Vec<Event>,
    server_events: Vec<Event>,
}

impl Pair {
    fn new() -> Self {
        Self::with(Config::default(), Config::default())
    }

    fn with(client: Config, server: Config) -> Self {
        let now = Instant::ZERO;
        let http2 = HttpVersion::Http2;
        Self {
            client: Connection::<Client>::new(Arc::new(client), Endpoint::http("test"), http2, now),
            server: Connection::<Server>::new(Arc::new(server), Some(http2), now),
            to_server: (Transmit::new(), RecvBuf::new(16 * 1024)),
            to_client: (Transmit::new(), RecvBuf::new(16 * 1024)),
            now,
            client_events: Vec::new(),
            server_events: Vec::new(),
        }
    }

    /// Moves bytes and collects events until nothing moves.
    fn drive(&mut self) {
        loop {
            let up = carry(&mut self.client, &mut self.to_server, &mut self.server, self.now);
            let down = carry(&mut self.server, &mut self.to_client, &mut self.client, self.now);
            while let Some(event) = self.client.poll_event() {
                self.client_events.push(event);
            }
            while let Some(event) = self.server.poll_event() {
                self.server_events.push(event);
            }
            if !up && !down {
                return;
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.client.handle_timeout(self.now);
        self.server.handle_timeout(self.now);
        self.drive();
    }

    fn open_unary(&mut self, options: &CallOptions, request: &'static [u8]) -> CallId {
        self.client.open_unary(&UNARY, options, &Octets, &Bytes::from_static(request), self.now).unwrap()
    }

    fn accept(&mut self, kind: CallKind) -> CallId {
        self.drive();
        let id = self.server.accept().expect("a call");
        self.server.call(id).unwrap().expect(kind, self.now);
        id
    }

    fn server_call(&mut self, id: CallId) -> CallMut<'_, Server> {
        self.server.call(id).unwrap()
    }

    fn client_call(&mut self, id: CallId) -> CallMut<'_, Client> {
        self.client.call(id).unwrap()
    }

    fn status(&mut self, id: CallId) -> Status {
        self.drive();
        self.client_call(id).release().expect("an outcome")
    }

    /// No slot, stream or timer is left behind.
    fn assert_quiet(&mut self) {
        self.drive();
        assert_eq!((self.client.open_calls(), self.server.open_calls()), (0, 0));
        assert!(!self.client.wants_poll() && !self.server.wants_poll());
    }
}

fn carry<A: Role, B: Role>(
    from: &mut Connection<A>,
    pipe: &mut (Transmit, RecvBuf),
    to: &mut Connection<B>,
    now: Instant,
) -> bool {
    let (out, input) = pipe;
    let mut moved = false;
    loop {
        let more = from.poll_transmit(out, now);
        let len = out.len();
        for chunk in out.chunks() {
            input.extend(chunk);
        }
        out.advance(len);
        to.handle_input(input, now);
        moved |= len > 0;
        if !more && len == 0 {
            return moved;
        }
    }
}

fn message(received: Recv) -> Vec<u8> {
    match received {
        Recv::Message(mut message) => Octets.decode(&mut message).unwrap().to_vec(),
        other => panic!("{other:?} instead of a message"),
    }
}

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    let mut metadata = Metadata::new();
    for (key, value) in pairs {
        metadata.append(key, value).unwrap();
    }
    metadata
}

#[test]
fn a_unary_call_wakes_its_caller_once() {
    let mut pair = Pair::new();
    let mut options = CallOptions::default();
    options.metadata = metadata(&[("tenant", "blue")]);
    let id = pair.open_unary(&options, b"ping");
    let call = pair.accept(CallKind::Unary);
    pair.drive();
    assert_eq!(pair.server_events.iter().filter(|e| **e == Event::Readable(call)).count(), 1);
    assert_eq!(pair.server_call(call).path(), "/t.Echo/Say");
    assert_eq!(pair.server_call(call).metadata().unwrap().get("tenant").unwrap().to_str(), Some("blue"));
    assert_eq!(message(pair.server_call(call).recv()), b"ping");
    let (head, trailers) = (metadata(&[("x-head", "1")]), metadata(&[("x-trail", "2")]));
    let now = pair.now;
    pair.server_call(call).respond(&Octets, &Bytes::from_static(b"pong"), &head, &trailers, now).unwrap();
    pair.drive();
    let raised: Vec<_> = pair.client_events.iter().filter(|e| !matches!(e, Event::Connected { .. })).collect();
    assert_eq!(raised, [&Event::Finished(id)]);
    assert_eq!(pair.client_call(id).metadata().unwrap().get("x-head").unwrap().to_str(), Some("1"));
    assert_eq!(message(pair.client_call(id).recv()), b"pong");
    assert!(matches!(pair.client_call(id).recv(), Recv::End));
    let status = pair.status(id);
    assert!(status.is_ok());
    assert_eq!(status.metadata().get("x-trail").unwrap().to_str(), Some("2"));
    pair.assert_quiet();
}

#[test]
fn a_streaming_call_carries_messages_both_ways_in_order() {
    let mut pair = Pair::new();
    let id = pair.client.open(&CHAT, &CallOptions::default(), "proto", pair.now).unwrap();
    let call = pair.accept(CallKind::Bidi);
    for round in 0..50u8 {
        let now = pair.now;
        pair.client_call(id).send(&Octets, &Bytes::from(alloc::vec![round; 3000]), now).unwrap();
        pair.drive();
        let request = message(pair.server_call(call).recv());
        pair.server_call(call).send(&Octets, &Bytes::from(request), now).unwrap();
        pair.drive();
        assert_eq!(message(pair.client_call(id).recv()), alloc::vec![round; 3000]);
        assert!(matches!(pair.client_call(id).recv(), Recv::Blocked));
    }
    let now = pair.now;
    pair.client_call(id).finish(now).unwrap();
    pair.drive();
    assert!(matches!(pair.server_call(call).recv(), Recv::End));
    pair.server_call(call).finish(&Status::OK, &Metadata::new(), now).unwrap();
    assert!(pair.status(id).is_ok());
    pair.assert_quiet();
}

#[test]
fn a_client_streaming_call_without_messages_still_opens_at_the_server() {
    let mut pair = Pair::new();
    let now = pair.now;
    let id = pair.client.open(&COLLECT, &CallOptions::default(), "proto", now).unwrap();
    pair.client_call(id).finish(now).unwrap();
    assert_eq!(pair.client_call(id).send(&Octets, &Bytes::new(), now), Err(SendError::Sealed));
    let call = pair.accept(CallKind::ClientStreaming);
    assert!(matches!(pair.server_call(call).recv(), Recv::End));
    pair.server_call(call).respond(&Octets, &Bytes::new(), &Metadata::new(), &Metadata::new(), now).unwrap();
    pair.drive();
    assert_eq!(message(pair.client_call(id).recv()), b"");
    assert!(pair.status(id).is_ok());
    pair.assert_quiet();
}

/// `h2:DL11`: a call is told to go on when it is known what method it is for, and so that it will be read.
#[test]
fn a_client_that_expects_leave_to_send_gets_it_with_the_route() {
    for (expects, at_once) in [(false, false), (true, false), (true, true)] {
        let mut pair = Pair::new();
        let mut options = CallOptions::default();
        if expects {
            options.metadata.append("expect", "100-continue").unwrap();
        }
        let now = pair.now;
        let id = pair.client.open(&COLLECT, &options, "proto", now).unwrap();
        pair.drive();
        let call = pair.server.accept().expect("a call");
        if at_once {
            assert!(pair.server_call(call).expect_request(CallKind::ClientStreaming, now).is_none());
        } else {
            pair.server_call(call).expect(CallKind::ClientStreaming, now);
        }
        let out = &mut pair.to_client.0;
        pair.server.poll_transmit(out, now);
        assert_eq!(!out.is_empty(), expects);
        pair.drive();
        pair.client_call(id).finish(now).unwrap();
        pair.drive();
        pair.server_call(call).respond(&Octets, &Bytes::new(), &Metadata::new(), &Metadata::new(), now).unwrap();
        assert!(pair.status(id).is_ok());
    }
}

/// A message larger than every window arrives, and a second one behind it.
#[test]
fn messages_larger_than_the_windows_arrive() {
    let mut pair = Pair::new();
    let now = pair.now;
    let id = pair.client.open(&CHAT, &CallOptions::default(), "proto", now).unwrap();
    let call = pair.accept(CallKind::Bidi);
    for fill in [1u8, 2] {
        let large = Bytes::from(alloc::vec![fill; 3_900_000]);
        pair.client_call(id).send(&Octets, &large, now).unwrap();
        assert_eq!(pair.client_call(id).send(&Octets, &large, now), Err(SendError::Blocked));
        pair.drive();
        assert_eq!(message(pair.server_call(call).recv()), large);
        pair.server_call(call).send(&Octets, &large, now).unwrap();
        pair.drive();
        assert_eq!(message(pair.client_call(id).recv()), large);
    }
    assert!(pair.client_events.contains(&Event::Writable(id)));
    pair.client_call(id).cancel(Code::Cancelled, now);
    assert_eq!(pair.status(id).code(), Code::Cancelled);
    assert!(pair.server_events.contains(&Event::Finished(call)));
    pair.server_call(call).release();
    pair.assert_quiet();
}

/// `arch:9` initial_stream_window: the smallest still lets messages through.
#[test]
fn a_window_of_nothing_stops_no_message() {
    let config = Config { initial_stream_window: 0, ..Config::default() };
    let mut pair = Pair::with(config.clone(), config);
    // Before SETTINGS arrive, the RFC's own window would hold.
    pair.drive();
    let id = pair.open_unary(&CallOptions::default(), &[1; 50_000]);
    let call = pair.accept(CallKind::Unary);
    pair.drive();
    assert_eq!(message(pair.server_call(call).recv()), [1; 50_000]);
    pair.server_call(call).release();
    assert_eq!(pair.status(id).code(), Code::Cancelled);
    pair.assert_quiet();
}

/// `arch:9` max_recv_message, on both sides: named limit and size, the other side hears of it, the
/// connection lives.
#[test]
fn a_message_over_the_limit_ends_its_call_alone() {
    let mut small = Config::default();
    small.max_recv_message = 10;
    let mut pair = Pair::with(small.clone(), small);
    let id = pair.open_unary(&CallOptions::default(), b"eleven octets");
    let call = pair.accept(CallKind::Unary);
    assert!(pair.server_events.contains(&Event::Finished(call)), "the handler is not needed");
    pair.server_call(call).release();
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Peer));
    assert!(status.message().contains("13 bytes exceeds max_recv_message of 10"), "{status}");

    let id = pair.open_unary(&CallOptions::default(), b"short");
    let call = pair.accept(CallKind::Unary);
    let now = pair.now;
    let long = Bytes::from_static(b"eleven octets");
    pair.server_call(call).respond(&Octets, &long, &Metadata::new(), &Metadata::new(), now).unwrap();
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::ResourceExhausted, Origin::Local));
    pair.assert_quiet();
}

/// `arch:9` max_send_message: nothing is sent; a response too large is told to the client.
#[test]
fn a_message_over_the_send_limit_is_refused_locally() {
    let mut small = Config::default();
    small.max_send_message = 10;
    let mut pair = Pair::with(small.clone(), small);
    let long = Bytes::from_static(b"eleven octets");
    let now = pair.now;
    let refused = pair.client.open_unary(&UNARY, &CallOptions::default(), &Octets, &long, now);
    assert_eq!(refused, Err(OpenError::TooLarge { size: 13, limit: 10 }));
    let id = pair.open_unary(&CallOptions::default(), b"short");
    let call = pair.accept(CallKind::Unary);
    let refused = pair.server_call(call).respond(&Octets, &long, &Metadata::new(), &Metadata::new(), now);
    assert_eq!(refused, Err(SendError::TooLarge { size: 13, limit: 10 }));
    let status = pair.status(id);
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert!(status.message().contains("max_send_message of 10"), "{status}");
    pair.assert_quiet();
}

#[test]
fn a_deadline_ends_the_call_on_both_sides() {
    let mut pair = Pair::new();
    let mut options = CallOptions::default();
    options.timeout = Some(Duration::from_millis(20));
    let id = pair.open_unary(&options, b"slow");
    let call = pair.accept(CallKind::Unary);
    assert_eq!(pair.server_call(call).deadline().map(|at| at <= pair.now + Duration::from_millis(20)), Some(true));
    assert_eq!(pair.client.poll_timeout(), Some(Instant::ZERO + Duration::from_millis(20)));
    pair.pass(Duration::from_millis(19));
    assert!(pair.client_call(id).status().is_none());
    pair.pass(Duration::from_millis(1));
    assert!(pair.server_events.contains(&Event::Finished(call)));
    assert!(pair.server_call(call).is_over());
    pair.server_call(call).release();
    let status = pair.status(id);
    assert_eq!((status.code(), status.origin()), (Code::DeadlineExceeded, Origin::Local));
    pair.assert_quiet();
}

/// A call that was cancelled before any of it left is not seen by the server at all.
#[test]
fn a_call_cancelled_before_it_left_leaves_no_trace() {
    let mut pair = Pair::new();
    // The fast path is as if it left at once.
    let mut options = CallOptions::default();
    options.unary_fast_path = Some(false);
    let id = pair.open_unary(&options, b"never");
    let now = pair.now;
    pair.client_call(id).cancel(Code::Cancelled, now);
    let status = pair.client_call(id).release().unwrap();
    assert!(status.is_unprocessed());
    pair.drive();
    assert!(pair.server.accept().is_none());
    pair.assert_quiet();
}

#[test]
fn an_error_carries_code_message_and_metadata() {
    let mut pair = Pair::new();
    let now = pair.now;
    let id = pair.client.open(&EXPAND, &CallOptions::default(), "proto", now).unwrap();
    pair.client_call(id).send(&Octets, &Bytes::new(), now).unwrap();
    pair.client_call(id).finish(now).unwrap();
    let call = pair.accept(CallKind::ServerStreaming);
    pair.server_call(call).send(&Octets, &Bytes::from_static(b"one"), now).unwrap();
    let status = Status::not_found("no \u{fc}ber %\n").with_metadata(metadata(&[("why", "because")]));
    pair.server_call(call).finish(&status, &metadata(&[("also", "this")]), now).unwrap();
    pair.drive();
    assert_eq!(message(pair.client_call(id).recv()), b"one", "messages before the error arrive");
    assert!(matches!(pair.client_call(id).recv(), Recv::End));
    let status = pair.status(id);
    assert_eq!((status.code(), status.message()), (Code::NotFound, "no \u{fc}ber %\n"));
    assert_eq!(status.metadata().get("why").unwrap().to_str(), Some("because"));
    assert_eq!(status.metadata().get("also").unwrap().to_str(), Some("this"));
    pair.assert_quiet();
}

/// `h2:T4`: a server that answers before the request has ended stops the upload.
#[test]
fn an_early_response_stops_the_request() {
    let mut pair = Pair::new();
    let now = pair.now;
    let id = pair.client.open(&COLLECT, &CallOptions::default(), "proto", now).unwrap();
    pair.client_call(id).send(&Octets, &Bytes::from_static(b"first"), now).unwrap();
    let call = pair.accept(CallKind::ClientStreaming);
    pair.server_call(call).finish(&Status::permission_denied("no"), &Metadata::new(), now).unwrap();
    pair.drive();
    assert!(pair.client_events.contains(&Event::Finished(id)));
    assert!(pair.client_call(id).send(&Octets, &Bytes::from_static(b"more"), now).is_err());
    assert_eq!(pair.status(id).code(), Code::PermissionDenied);
    pair.assert_quiet();
}

/// A codec that announces one length and writes another sends nothing, where messages are encoded by themselves.
#[test]
fn a_codec_that_lies_costs_only_its_own_call() {
    struct Liar;
    impl Codec<u8> for Liar {
        fn name(&self) -> &'static str {
            "proto"
        }
        fn encoded_len(&self, _: &u8) -> Option<usize> {
            Some(4)
        }
        fn encode(&self, item: &u8, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
            match item {
                0 => Err(CodecError::new("zero cannot be said")),
                _ => {
                    dst.buf().put_u8(*item);
                    Ok(())
                }
            }
        }
        fn decode(&self, _: &mut MessageBuf) -> Result<u8, CodecError> {
            Ok(0)
        }
    }
    let mut pair = Pair::new();
    pair.client.set_unary_fast_path(false);
    pair.server.set_unary_fast_path(false);
    for item in [0, 1] {
        let refused = pair.client.open_unary(&UNARY, &CallOptions::default(), &Liar, &item, pair.now);
        assert!(matches!(refused, Err(OpenError::Codec(_))), "{refused:?}");
    }
    let id = pair.open_unary(&CallOptions::default(), b"good");
    let call = pair.accept(CallKind::Unary);
    let now = pair.now;
    let refused = pair.server_call(call).respond(&Liar, &1, &Metadata::new(), &Metadata::new(), now);
    assert!(matches!(refused, Err(SendError::Codec(_))), "{refused:?}");
    assert_eq!(pair.status(id).code(), Code::Internal);
    pair.assert_quiet();
}

#[test]
fn a_graceful_end_lets_open_calls_finish_and_refuses_new_ones() {
    let mut pair = Pair::new();
    let id = pair.open_unary(&CallOptions::default(), b"open");
    let call = pair.accept(CallKind::Unary);
    pair.server.shutdown(pair.now);
    pair.drive();
    assert!(pair.client_events.contains(&Event::GoingAway));
    let refused = pair.client.open(&UNARY, &CallOptions::default(), "proto", pair.now);
    assert_eq!(refused, Err(OpenError::GoingAway));
    assert!(!pair.server.is_closed());
    let now = pair.now;
    let answer = Bytes::from_static(b"done");
    pair.server_call(call).respond(&Octets, &answer, &Metadata::new(), &Metadata::new(), now).unwrap();
    pair.drive();
    assert_eq!(message(pair.client_call(id).recv()), b"done");
    assert!(pair.status(id).is_ok());
    assert!(pair.server.is_closed() && pair.client.is_closed());
    assert!(pair.server_events.contains(&Event::Closed(ConnectionError::Shutdown)));
    pair.assert_quiet();
}

/// `tri:195`, `tri:Q81`: the trailer stands for the GOAWAY that dubbo-go never sends.
#[test]
fn a_closing_trailer_lets_open_calls_finish_and_refuses_new_ones() {
    for (value, is_closing) in [("true", true), ("false", false)] {
        let mut pair = Pair::new();
        let first = pair.open_unary(&CallOptions::default(), b"first");
        let call = pair.accept(CallKind::Unary);
        let second = pair.open_unary(&CallOptions::default(), b"second");
        let slow = pair.accept(CallKind::Unary);
        let (now, answer) = (pair.now, Bytes::from_static(b"done"));
        let trailers = metadata(&[("closing", value)]);
        pair.server_call(call).respond(&Octets, &answer, &Metadata::new(), &trailers, now).unwrap();
        pair.drive();
        assert!(pair.status(first).is_ok());
        assert_eq!(pair.client_events.contains(&Event::GoingAway), is_closing);
        let next = pair.client.open(&UNARY, &CallOptions::default(), "proto", now);
        assert_eq!(next.err(), is_closing.then_some(OpenError::GoingAway));
        pair.pass(Duration::from_secs(5));
        assert!(!pair.client.is_closed(), "a call is open");
        pair.server_call(slow).respond(&Octets, &answer, &Metadata::new(), &Metadata::new(), now).unwrap();
        pair.drive();
        assert_eq!(message(pair.client_call(second).recv()), b"done");
        assert!(pair.status(second).is_ok());
        assert_eq!(pair.client.is_closed(), is_closing);
    }
}

/// What is open when dubbo-go cuts the connection is lost with it.
#[test]
fn a_cut_after_a_closing_trailer_is_a_lost_connection() {
    let mut pair = Pair::new();
    let first = pair.open_unary(&CallOptions::default(), b"first");
    let call = pair.accept(CallKind::Unary);
    let second = pair.open_unary(&CallOptions::default(), b"second");
    let (now, trailers) = (pair.now, metadata(&[("closing", "true")]));
    pair.server_call(call).respond(&Octets, &Bytes::new(), &Metadata::new(), &trailers, now).unwrap();
    assert!(pair.status(first).is_ok());
    pair.client.handle_eof(now);
    let status = pair.status(second);
    assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport));
}

#[test]
fn a_lost_connection_fails_every_call_and_says_what_may_be_sent_again() {
    let mut pair = Pair::new();
    let sent = pair.open_unary(&CallOptions::default(), b"sent");
    pair.drive();
    let unsent = pair.open_unary(&CallOptions::default(), b"unsent");
    pair.client.handle_transport_error(TransportError::Reset, pair.now);
    pair.server.handle_eof(pair.now);
    for (id, is_unprocessed) in [(sent, false), (unsent, true)] {
        let status = pair.client_call(id).release().unwrap();
        assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport));
        assert_eq!(status.is_unprocessed(), is_unprocessed);
    }
    assert_eq!(
        pair.client.open(&UNARY, &CallOptions::default(), "proto", pair.now),
        Err(OpenError::Closed),
        "commands after the end return errors"
    );
    let call = pair.server.accept().unwrap();
    assert!(pair.server_call(call).is_over());
    pair.server_call(call).release();
    pair.drive();
    assert!(pair.client.is_closed() && pair.server.is_closed());
}

/// `arch:9` max_pending and max_concurrent_streams.
#[test]
fn calls_beyond_the_streams_wait_and_beyond_the_queue_are_refused() {
    let mut client = Config::default();
    client.max_pending = 3;
    let mut server = Config::default();
    server.max_concurrent_streams = 2;
    let mut pair = Pair::with(client, server);
    pair.drive();
    let opened: Vec<_> = (0..5).map(|_| pair.open_unary(&CallOptions::default(), b"x")).collect();
    let refused = pair.client.open(&UNARY, &CallOptions::default(), "proto", pair.now);
    assert_eq!(refused, Err(OpenError::NoCapacity));
    let mut served = 0;
    while served < opened.len() {
        let call = pair.accept(CallKind::Unary);
        assert!(pair.server.open_calls() <= 2);
        let now = pair.now;
        let answer = Bytes::from(format!("{served}").into_bytes());
        pair.server_call(call).respond(&Octets, &answer, &Metadata::new(), &Metadata::new(), now).unwrap();
        served += 1;
    }
    pair.drive();
    assert!(pair.client_events.contains(&Event::Capacity));
    for (n, id) in opened.into_iter().enumerate() {
        assert_eq!(message(pair.client_call(id).recv()), n.to_string().as_bytes());
        assert!(pair.status(id).is_ok());
    }
    pair.assert_quiet();
}

/// Whoever never polls events does not make them pile up.
#[test]
fn released_calls_leave_no_events() {
    let mut pair = Pair::new();
    for _ in 0..100 {
        let id = pair.open_unary(&CallOptions::default(), b"x");
        let now = pair.now;
        pair.client_call(id).cancel(Code::Cancelled, now);
        pair.client_call(id).release();
    }
    assert!(pair.client.poll_event().is_none());
}

mod burst;
mod detect;
mod landing;
mod plain;
mod triple;
mod whole;

/// `h2:T5`, `h2:P11`: a call that we end ourselves, because its time is up or its request too large, holds its slot until
/// its handler has let go, or a client could have us run as many as it likes.
#[test]
fn a_call_that_we_end_ourselves_counts_until_its_handler_is_gone() {
    for is_too_large in [false, true] {
        let mut limits = Config::default();
        (limits.max_concurrent_streams, limits.max_recv_message) = (1, 100);
        let mut pair = Pair::with(Config::default(), limits);
        pair.drive();
        let mut options = CallOptions::default();
        options.timeout = (!is_too_large).then(|| Duration::from_millis(20));
        let first = pair.client.open(&COLLECT, &options, "proto", pair.now).unwrap();
        let handled = pair.accept(CallKind::ClientStreaming);
        if is_too_large {
            let request = Bytes::from_static(&[0; 101]);
            pair.client.call(first).unwrap().send(&Octets, &request, pair.now).unwrap();
            pair.drive();
        } else {
            pair.pass(Duration::from_millis(20));
        }
        assert!(pair.server_call(handled).is_over() && pair.client.call(first).unwrap().status().is_some());
        pair.client.call(first).unwrap().release();

        let second = pair.open_unary(&CallOptions::default(), b"x");
        pair.drive();
        assert!(pair.server.accept().is_none(), "a second handler beside the first");
        assert!(pair.client.call(second).unwrap().unprocessed());
        pair.server_call(handled).release();
        pair.open_unary(&CallOptions::default(), b"x");
        pair.accept(CallKind::Unary);
    }
}
