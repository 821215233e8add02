//! Calls that fail: what their callers are told is the same on both ways.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::{CallOptions, Code, Recv, Status};
use trirpc_core::{CallId, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, TransportError};
use trirpc_proto::Raw;
use trirpc_tests::frames;

use crate::run::SAY;

/// A client whose server is the test.
struct Alone {
    client: Connection<Client>,
    input: RecvBuf,
    now: Instant,
}

impl Alone {
    fn says(&mut self, octets: &[u8]) {
        self.input.extend(octets);
        self.client.handle_input(&mut self.input, self.now);
    }
}

/// What goes wrong with a call, which is on the connection's first stream.
type Cause = Box<dyn Fn(&mut Alone, CallId)>;

const CALL: u32 = 1;

/// By name: what the server says first, and the cause.
fn causes() -> Vec<(String, Vec<u8>, Cause)> {
    let mut causes = Vec::new();
    let mut add = |name: &str, cause: Cause| causes.push((name.to_owned(), frames::settings(&[]), cause));
    for code in (0..=14).chain([0xffff_ffff]) {
        add(&format!("RST_STREAM {code}"), Box::new(move |it, _| it.says(&frames::reset(CALL, code))));
        add(&format!("GOAWAY {code} before it"), Box::new(move |it, _| it.says(&frames::go_away(0, code))));
        add(
            &format!("GOAWAY {code} with it, and the end"),
            Box::new(move |it, _| {
                it.says(&frames::go_away(CALL, code));
                it.client.handle_eof(it.now);
            }),
        );
    }
    for error in [TransportError::Reset, TransportError::Eof, TransportError::WriteZero, TransportError::Other] {
        add(&format!("{error:?}"), Box::new(move |it, _| it.client.handle_transport_error(error, it.now)));
    }
    add("end", Box::new(|it, _| it.client.handle_eof(it.now)));
    add(
        "deadline",
        Box::new(|it, _| {
            it.now = it.now + Duration::from_secs(1);
            it.client.handle_timeout(it.now);
        }),
    );
    add("cancellation", Box::new(|it, id| it.client.call(id).expect("open").cancel(Code::Cancelled, it.now)));
    let head = |fields: &[(&str, &str)]| frames::headers(CALL, fields, true);
    for status in ["400", "401", "403", "404", "429", "500", "502", "503", "504", "204"] {
        let octets = head(&[(":status", status), ("content-type", "text/html")]);
        add(&format!("HTTP status {status}"), Box::new(move |it, _| it.says(&octets)));
    }
    let grpc = |status: &str| {
        head(&[
            (":status", "200"),
            ("content-type", "application/grpc"),
            ("grpc-status", status),
            ("grpc-message", "no%20room"),
            ("x-reason", "full"),
        ])
    };
    for status in (0..=17).map(|status| status.to_string()).chain(["x".to_owned()]) {
        let octets = grpc(&status);
        add(&format!("gRPC status {status}"), Box::new(move |it, _| it.says(&octets)));
    }
    let headless = frames::data(CALL, b"\0\0\0\0\0", true);
    add("DATA before a head", Box::new(move |it, _| it.says(&headless)));
    add("DATA on no stream", Box::new(|it, _| it.says(&frames::data(0, b"?", false))));
    let http: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
    causes.push(("plain HTTP".to_owned(), Vec::new(), Box::new(move |it, _| it.says(http))));
    causes
}

/// What the caller is told of a call, once the cause came before its request left or behind it.
fn told(fast: bool, has_left: bool, greeting: &[u8], name: &str, cause: &Cause) -> (Status, String) {
    let mut config = Config::default();
    config.unary_fast_path = fast;
    let endpoint = Endpoint::http("localhost");
    let client = Connection::<Client>::new(Arc::new(config), endpoint, HttpVersion::Http2, Instant::ZERO);
    let mut alone = Alone { client, input: RecvBuf::new(16 * 1024), now: Instant::ZERO };
    let mut out = Transmit::new();
    alone.client.poll_transmit(&mut out, alone.now);
    let mut options = CallOptions::default();
    options.timeout = Some(Duration::from_secs(1));
    if has_left {
        alone.says(greeting);
    }
    let message = Bytes::from(vec![7; 128]);
    let id = alone.client.open_unary(&SAY, &options, &Raw::PROTO, &message, alone.now).expect("a call");
    if has_left {
        alone.client.poll_transmit(&mut out, alone.now);
    } else {
        alone.says(greeting);
    }
    cause(&mut alone, id);
    let mut finished = 0;
    while let Some(event) = alone.client.poll_event() {
        finished += usize::from(event == Event::Finished(id));
    }
    assert_eq!(finished, 1, "{name}: told once");
    let mut call = alone.client.call(id).expect("not released");
    assert!(matches!(call.recv(), Recv::End), "{name}: no message");
    let status = call.release().expect("an outcome");
    let mut chain = format!("{status} {status:?} {:?} {}", status.origin(), status.is_unprocessed());
    let mut source = status.source();
    while let Some(error) = source {
        chain += &format!(" <- {error} {error:?}");
        source = error.source();
    }
    (status, chain)
}

/// bg:R12: cancellation, deadline, refusal, reset by every code, GOAWAY, a lost connection, a plain HTTP peer, an HTTP
/// answer and a gRPC error: code, message, details, metadata, origin, whether the server may have seen the call, and all
/// causes are the same on both ways.
#[test]
fn errors_are_the_same_on_both_ways() {
    let mut distinct = BTreeSet::new();
    for (name, greeting, cause) in causes() {
        let [fast, general] = [true, false].map(|fast| told(fast, true, &greeting, &name, &cause));
        assert_eq!(fast, general, "{name}");
        distinct.insert(fast.1);
    }
    assert!(distinct.len() > 50, "errors are told apart: {}", distinct.len());
    assert!(distinct.iter().any(|text| text.contains("HTTP/1")), "{distinct:?}");
}

/// bg:R12: the same for what happens while the request waits for its turn to leave. One difference is by design: what is
/// encoded leaves even if the connection ends by an error of the peer's, so that such a request may have been seen.
#[test]
fn errors_before_a_request_leaves_are_the_same_on_both_ways() {
    for (name, greeting, cause) in causes().into_iter().filter(|(name, ..)| !is_answer(name)) {
        let [fast, general] = [true, false].map(|fast| told(fast, false, &greeting, &name, &cause).0);
        let parts = |status: &Status| (status.code(), status.message().to_owned(), status.origin());
        assert_eq!(parts(&fast), parts(&general), "{name}");
        assert!(general.is_unprocessed() || !fast.is_unprocessed(), "{name}: nothing is promised that is not so");
    }
}

/// Whether only a server that has the call can say so.
fn is_answer(name: &str) -> bool {
    ["RST", "HTTP status", "gRPC", "DATA before"].iter().any(|start| name.starts_with(start))
        || name.contains("with it")
}
