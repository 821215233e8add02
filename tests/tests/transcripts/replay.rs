//! Recorded bytes fed to our server and to our client, and what becomes of them.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::{Encoded, MessageBuf, RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Code, Encodings, Metadata, MethodSpec, Protocol, Recv, Status};
use trirpc_core::{CallId, Client, Config, Connection as Core, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_tests::frames::PREFACE;

use crate::recording::{Connection, Frame};

/// One call as our side saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) authority: String,
    pub(crate) codec: String,
    /// Of a request.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) timeout: Option<Duration>,
    /// Lines in wire form: of the request's head, or of the response's.
    pub(crate) metadata: Vec<(String, Bytes)>,
    pub(crate) messages: Vec<Message>,
    pub(crate) ended: bool,
    /// Server: the client gave the call up.
    pub(crate) reset: bool,
    /// Client: the outcome.
    pub(crate) status: Option<Status>,
}

/// A message as it came.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) compressed: bool,
    pub(crate) wire: Vec<u8>,
    /// `wire`, inflated if it was compressed.
    pub(crate) plain: Vec<u8>,
}

impl Message {
    fn new(mut message: MessageBuf) -> Self {
        let compressed = message.is_compressed();
        let wire = message.copy_to_bytes(message.len()).to_vec();
        let mut plain = Vec::new();
        if compressed {
            flate2::read::MultiGzDecoder::new(&wire[..]).read_to_end(&mut plain).expect("gzip");
        } else {
            plain.clone_from(&wire);
        }
        Self { compressed, wire, plain }
    }
}

/// A call that a recorded client made, and ours is to make.
pub(crate) struct Call {
    /// As the recorded client numbered it.
    pub(crate) stream: u32,
    pub(crate) path: String,
    pub(crate) codec: &'static str,
    pub(crate) protocol: Protocol,
}

/// How many messages a method takes and gives. One that the service does not have may take and give any number.
pub(crate) fn kind(path: &str) -> CallKind {
    match path.rsplit('/').next() {
        Some("Say" | "Fail" | "Sleep" | "Meta" | "Check") => CallKind::Unary,
        Some("Collect") => CallKind::ClientStreaming,
        Some("Expand" | "Watch") => CallKind::ServerStreaming,
        _ => CallKind::Bidi,
    }
}

fn config() -> Arc<Config> {
    let mut config = Config::default();
    config.accept_compressions = Encodings::from_static(&["gzip"]);
    Arc::new(config)
}

pub(crate) fn lines(metadata: &Metadata) -> Vec<(String, Bytes)> {
    metadata.as_headers().iter().map(|field| (field.name.as_str().to_owned(), field.value.clone())).collect()
}

/// Feeds octets and throws away what is answered.
struct Feed {
    input: RecvBuf,
    output: Transmit,
    is_acknowledged: bool,
}

impl Feed {
    fn new() -> Self {
        Self { input: RecvBuf::new(16 * 1024), output: Transmit::new(), is_acknowledged: false }
    }

    fn octets<R: Role>(&mut self, conn: &mut Core<R>, mut octets: &[u8]) {
        while !octets.is_empty() {
            let space = self.input.space();
            let n = space.len().min(octets.len());
            space[..n].copy_from_slice(&octets[..n]);
            self.input.commit(n);
            octets = &octets[n..];
            conn.handle_input(&mut self.input, Instant::ZERO);
            self.flush(conn);
        }
    }

    /// A recorded peer may have acknowledged SETTINGS that ours never sent.
    fn frame<R: Role>(&mut self, conn: &mut Core<R>, frame: &Frame) {
        if frame.is_settings_ack() && std::mem::replace(&mut self.is_acknowledged, true) {
            return;
        }
        self.octets(conn, &frame.to_bytes());
    }

    fn flush<R: Role>(&mut self, conn: &mut Core<R>) {
        while conn.poll_transmit(&mut self.output, Instant::ZERO) {}
        self.output.advance(self.output.len());
    }
}

/// The client's half of a recording, received by our server.
pub(crate) fn to_server(recording: &Connection) -> Vec<Seen> {
    let mut conn = Core::<Server>::new(config(), Some(HttpVersion::Http2), Instant::ZERO);
    let (mut feed, mut calls) = (Feed::new(), Vec::<(CallId, Seen)>::new());
    feed.flush(&mut conn);
    feed.octets(&mut conn, PREFACE);
    for frame in recording.client_frames() {
        feed.frame(&mut conn, &frame);
        while let Some(id) = conn.accept() {
            let mut call = conn.call(id).expect("a call");
            let seen = Seen {
                path: call.path().to_owned(),
                authority: call.authority().to_owned(),
                codec: call.codec_name().to_owned(),
                protocol: Some(call.protocol()),
                timeout: call.deadline().map(|at| at - Instant::ZERO),
                metadata: call.metadata().map(lines).unwrap_or_default(),
                ..Seen::default()
            };
            call.expect(kind(&seen.path), Instant::ZERO);
            calls.push((id, seen));
        }
        for (id, seen) in &mut calls {
            let Some(mut call) = conn.call(*id) else { continue };
            if call.is_over() {
                seen.reset = true;
                continue;
            }
            pull(seen, || call.recv());
        }
        no_end(&mut conn);
    }
    calls.into_iter().map(|(_, seen)| seen).collect()
}

/// The server's half, received by our client, which makes the calls that the recorded client made. Streams are
/// numbered anew: ours begin with 1.
pub(crate) fn to_client(recording: &Connection, calls: &[Call]) -> Vec<Seen> {
    let mut conn = Core::<Client>::new(config(), Endpoint::http("localhost"), HttpVersion::Http2, Instant::ZERO);
    let mut feed = Feed::new();
    let mut ids = Vec::new();
    for call in calls {
        let method = MethodSpec::from_bytes(Bytes::from(call.path.clone()), kind(&call.path), false).expect("a path");
        let mut options = CallOptions::default();
        options.protocol = Some(call.protocol);
        let id = conn.open(&method, &options, call.codec, Instant::ZERO).expect("a call");
        let mut call = conn.call(id).expect("a call");
        if method.kind().is_single_request() {
            let message = Encoded { bytes: Bytes::new(), compressed: false };
            call.send_encoded(message, Instant::ZERO).expect("a message");
        }
        call.finish(Instant::ZERO).expect("an end");
        ids.push((id, Seen::default()));
    }
    feed.flush(&mut conn);
    let ours = |theirs: u32| calls.iter().position(|call| call.stream == theirs).map(|i| 2 * i as u32 + 1);
    for mut frame in recording.server_frames() {
        if frame.stream != 0 {
            // Of a call that the recorded client had given up before.
            let Some(stream) = ours(frame.stream) else { continue };
            frame.stream = stream;
        } else if frame.kind == Frame::GO_AWAY {
            let last = u32::from_be_bytes(frame.payload[..4].try_into().expect("four octets"));
            let taken = calls.iter().rposition(|call| call.stream <= last).map_or(0, |i| 2 * i as u32 + 1);
            let last = if last == u32::MAX >> 1 { last } else { taken };
            frame.payload[..4].copy_from_slice(&last.to_be_bytes());
        }
        feed.frame(&mut conn, &frame);
        for (id, seen) in &mut ids {
            let Some(mut call) = conn.call(*id) else { continue };
            pull(seen, || call.recv());
            seen.status = call.status().cloned();
            seen.metadata = call.metadata().map(lines).unwrap_or_default();
        }
        no_end(&mut conn);
    }
    // What the server has not ended can be cancelled.
    for (id, seen) in &mut ids {
        let mut call = conn.call(*id).expect("a call");
        if seen.status.is_none() {
            call.cancel(Code::Cancelled, Instant::ZERO);
            assert_eq!(call.status().map(Status::code), Some(Code::Cancelled));
        }
    }
    ids.into_iter().map(|(_, seen)| seen).collect()
}

fn pull(seen: &mut Seen, mut recv: impl FnMut() -> Recv) {
    loop {
        match recv() {
            Recv::Message(message) => seen.messages.push(Message::new(message)),
            Recv::Blocked => return,
            Recv::End => {
                seen.ended = true;
                return;
            }
        }
    }
}

/// No recorded peer breaks a rule of the connection.
fn no_end<R: Role>(conn: &mut Core<R>) {
    while let Some(event) = conn.poll_event() {
        assert!(!matches!(event, Event::Closed(trirpc_core::ConnectionError::Misbehaved(_))), "{event:?}");
    }
}
