use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use trirpc_core::buf::{Encoded, MessageBuf};
use trirpc_core::call::{CallKind, CallOptions, Code, Metadata, MethodSpec, Recv, Status};
use trirpc_core::http::{HeaderName, Response};
use trirpc_core::{CallId, CallMut, Client, Config, Connection, Endpoint, HttpVersion, Instant, Role, Server};

use super::peer::Peer;
use crate::memory::uncharged;
use crate::trace::Side;

static METHODS: [MethodSpec; 4] = [
    MethodSpec::new("/t.Echo/Say", CallKind::Unary, false),
    MethodSpec::new("/t.Echo/Collect", CallKind::ClientStreaming, false),
    MethodSpec::new("/t.Echo/Expand", CallKind::ServerStreaming, false),
    MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false),
];

/// What is done with the calls of a connection, as a script says.
pub(super) trait Application: Sized {
    type Role: Role;
    /// Which end the peer is.
    const PEER: Side;

    /// `is_plain` if a server answers plain HTTP as well.
    fn start(config: Config, is_plain: bool, now: Instant) -> (Connection<Self::Role>, Self);
    /// One action out of eight, on the call that an octet names.
    fn act(&mut self, conn: &mut Connection<Self::Role>, action: u8, octets: [u8; 3], peer: &Peer, now: Instant);
    /// Calls that it has.
    fn calls(&self) -> usize;
    /// Lets go of every call of a connection that is over.
    fn release_all(&mut self, conn: &mut Connection<Self::Role>, now: Instant);
}

fn message([_, high, low]: [u8; 3]) -> Encoded {
    let size = usize::from(high) * 256 + usize::from(low);
    let size = if size < 0x8000 { size % 300 } else { size };
    Encoded { bytes: uncharged(|| Bytes::from(vec![high; size])), compressed: false }
}

/// The peer fills the messages of a stream with its number, unless it lies about where they end.
fn check(mut message: MessageBuf, stream: Option<u32>, peer: &Peer) {
    let content = uncharged(|| message.copy_to_bytes(message.len()));
    if let Some(stream) = stream.filter(|&stream| peer.is_honest && !peer.lies_on(stream)) {
        assert!(content.iter().all(|&octet| octet == stream as u8), "a message of stream {stream} changed");
    }
}

/// What the peer has written into a head is what arrives, whatever it made of the tables before. The stream.
fn check_marks(metadata: Option<&Metadata>, peer: &Peer) -> Option<u32> {
    uncharged(|| stream_of(metadata, peer))
}

fn stream_of(metadata: Option<&Metadata>, peer: &Peer) -> Option<u32> {
    let text = |key| metadata.and_then(|metadata| metadata.get(key)?.to_str().map(ToOwned::to_owned));
    if !peer.is_honest {
        return None;
    }
    let stream = text("x-stream")?.parse().ok()?;
    assert_eq!(text("x-mark").as_ref(), peer.mark(stream), "the mark of stream {stream}");
    Some(stream)
}

/// An answer in plain HTTP.
fn page([kind, high, low]: [u8; 3]) -> Response {
    let mut response = Response::from_status([200, 204, 304, 404, 500, 99][usize::from(kind) % 6]);
    response.body = message([kind, high, low]).bytes;
    if kind % 4 == 0 {
        response.trailers.push(HeaderName::from_static("x-sum"), "1");
    }
    response
}

/// Handlers of a server.
#[derive(Default)]
pub(super) struct Handler {
    /// With the stream of each, if its head says so.
    calls: Vec<(CallId, Option<u32>)>,
}

impl Application for Handler {
    type Role = Server;
    const PEER: Side = Side::Client;

    fn start(config: Config, is_plain: bool, now: Instant) -> (Connection<Server>, Self) {
        let mut conn = Connection::<Server>::new(Arc::new(config), Some(HttpVersion::Http2), now);
        if is_plain {
            conn.serve_plain(|path| !path.starts_with("/t.Echo/"));
        }
        (conn, Self::default())
    }

    fn calls(&self) -> usize {
        self.calls.len()
    }

    fn act(&mut self, conn: &mut Connection<Server>, action: u8, octets: [u8; 3], peer: &Peer, now: Instant) {
        if action == 0 {
            return self.accept(conn, peer, now);
        }
        self.calls.retain(|&(id, _)| conn.call(id).is_some());
        if self.calls.is_empty() {
            return;
        }
        let (id, stream) = self.calls[usize::from(octets[0]) % self.calls.len()];
        let none = Metadata::new();
        let mut call: CallMut<'_, Server> = conn.call(id).expect("retained");
        match action {
            1 | 2 => {
                // A body of plain HTTP is taken as far as it came: its pieces are those that were read.
                let most = if call.http().is_some() { usize::MAX } else { 1 + usize::from(octets[1] % 4) };
                for _ in 0..most {
                    match call.recv() {
                        Recv::Message(message) => check(message, stream, peer),
                        Recv::Blocked | Recv::End => return,
                    }
                }
            }
            3 => drop(call.send_encoded(message(octets), now)),
            4 => drop(call.send_head(&none, now)),
            5 | 6 if call.http().is_some() => drop(call.respond_plain(page(octets), now)),
            5 => drop(call.respond_encoded(message(octets), &none, &none, now)),
            6 => drop(call.finish(&Status::new(Code::from_raw(u32::from(octets[1] % 17)), "said"), &none, now)),
            _ if octets[1] < 64 => call.release(),
            _ => call.cancel(Code::Cancelled, now),
        }
    }

    fn release_all(&mut self, conn: &mut Connection<Server>, now: Instant) {
        while let Some(id) = conn.accept() {
            uncharged(|| self.calls.push((id, None)));
        }
        for (id, _) in self.calls.drain(..) {
            if let Some(mut call) = conn.call(id) {
                assert!(call.is_over(), "a call outlived its connection");
                call.cancel(Code::Cancelled, now);
                call.release();
            }
        }
    }
}

impl Handler {
    fn accept(&mut self, conn: &mut Connection<Server>, peer: &Peer, now: Instant) {
        while let Some(id) = conn.accept() {
            let mut call = conn.call(id).expect("accepted just now");
            let stream = check_marks(call.metadata(), peer).filter(|_| call.http().is_none());
            let method = METHODS.iter().find(|method| method.path() == call.path());
            call.expect(method.map_or(CallKind::Bidi, MethodSpec::kind), now);
            uncharged(|| self.calls.push((id, stream)));
        }
        let slots = conn.config().max_concurrent_streams as usize;
        assert!(conn.open_calls() <= slots, "{} calls, allowed are {slots}", conn.open_calls());
    }
}

/// Callers of a client.
#[derive(Default)]
pub(super) struct Caller {
    calls: Vec<CallId>,
}

impl Application for Caller {
    type Role = Client;
    const PEER: Side = Side::Server;

    fn start(config: Config, _: bool, now: Instant) -> (Connection<Client>, Self) {
        let conn = Connection::<Client>::new(Arc::new(config), Endpoint::http("localhost"), HttpVersion::Http2, now);
        (conn, Self::default())
    }

    fn calls(&self) -> usize {
        self.calls.len()
    }

    fn act(&mut self, conn: &mut Connection<Client>, action: u8, octets: [u8; 3], peer: &Peer, now: Instant) {
        if action < 2 {
            return self.open(conn, action == 0, octets, now);
        }
        self.calls.retain(|&id| conn.call(id).is_some());
        if self.calls.is_empty() {
            return;
        }
        let id = self.calls[usize::from(octets[0]) % self.calls.len()];
        let mut call: CallMut<'_, Client> = conn.call(id).expect("retained");
        match action {
            2 => drop(call.send_encoded(message(octets), now)),
            3 => drop(call.finish(now)),
            4 | 5 => {
                let stream = check_marks(call.metadata(), peer);
                for _ in 0..=octets[1] % 4 {
                    match call.recv() {
                        Recv::Message(message) => check(message, stream, peer),
                        Recv::Blocked => return,
                        Recv::End => {
                            assert!(call.status().is_some(), "an end without a status");
                            return;
                        }
                    }
                }
            }
            6 if call.status().is_some() => drop(call.release()),
            6 => {}
            _ => call.cancel(Code::Cancelled, now),
        }
    }

    fn release_all(&mut self, conn: &mut Connection<Client>, _: Instant) {
        for id in self.calls.drain(..) {
            if let Some(call) = conn.call(id) {
                assert!(call.release().is_some(), "a call outlived its connection");
            }
        }
    }
}

impl Caller {
    fn open(&mut self, conn: &mut Connection<Client>, is_unary: bool, octets: [u8; 3], now: Instant) {
        let mut options = CallOptions::default();
        options.timeout = (octets[0] >= 200).then(|| Duration::from_millis(u64::from(octets[0]) * 10));
        let method = &METHODS[if is_unary { 0 } else { 1 + usize::from(octets[0]) % 3 }];
        let opened = match is_unary {
            true => conn.open_unary_encoded(method, &options, "proto", message(octets), now),
            false => conn.open(method, &options, "proto", now),
        };
        uncharged(|| self.calls.extend(opened.ok()));
    }
}
