//! Recorded bytes of connections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use trirpc_tests::frames::PREFACE;

/// What the two ends of one connection sent.
#[derive(Default)]
pub(crate) struct Connection {
    client: Vec<u8>,
    server: Vec<u8>,
}

/// One frame as it was sent.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    const HEADERS: u8 = 1;
    const SETTINGS: u8 = 4;
    pub(crate) const GO_AWAY: u8 = 7;
    const ACK: u8 = 1;

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        trirpc_tests::frames::frame(self.kind, self.flags, self.stream, &self.payload)
    }

    pub(crate) fn is_settings_ack(&self) -> bool {
        self.kind == Self::SETTINGS && self.flags & Self::ACK != 0
    }
}

impl Connection {
    /// Frames behind the client's preface.
    pub(crate) fn client_frames(&self) -> Vec<Frame> {
        frames(self.client.strip_prefix(PREFACE).expect("the preface of HTTP/2"))
    }

    pub(crate) fn server_frames(&self) -> Vec<Frame> {
        frames(&self.server)
    }
}

/// Whole frames; a recording may end within one.
fn frames(mut octets: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while let Some((&[a, b, c, kind, flags, ref stream @ ..], rest)) = octets.split_first_chunk::<9>() {
        let Some((payload, rest)) = rest.split_at_checked(u32::from_be_bytes([0, a, b, c]) as usize) else { break };
        let stream = u32::from_be_bytes(*stream) & !(1 << 31);
        frames.push(Frame { kind, flags, stream, payload: payload.to_vec() });
        octets = rest;
    }
    frames
}

/// The connections of a recording on which calls were made: of `NAME.rec`, or of `NAME.c2s.bin` and `NAME.s2c.bin`.
pub(crate) fn load(name: &Path) -> Vec<Connection> {
    let recorded = with(name, ".rec");
    let mut connections = if recorded.exists() {
        split(&read(&recorded))
    } else {
        vec![Connection { client: read(&with(name, ".c2s.bin")), server: read(&with(name, ".s2c.bin")) }]
    };
    // Some clients try again to connect, in vain.
    connections.retain(|connection| {
        let is_http2 = connection.client.starts_with(PREFACE);
        is_http2 && connection.client_frames().iter().any(|frame| frame.kind == Frame::HEADERS)
    });
    connections
}

/// The text beside it.
pub(crate) fn text(name: &Path) -> String {
    String::from_utf8(read(&with(name, ".txt"))).expect("UTF-8")
}

fn with(name: &Path, extension: &str) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    path.push(extension);
    path.into()
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Chunks of both directions in one file, each behind its connection (4 octets), direction (1; 0 is the client's, 1 the
/// server's, others carry nothing), time (8) and length (4).
fn split(file: &[u8]) -> Vec<Connection> {
    let mut connections = BTreeMap::<u32, Connection>::new();
    let mut rest = file.strip_prefix(b"TCPREC1\n").expect("a recording");
    while let Some((head, tail)) = rest.split_first_chunk::<17>() {
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (chunk, tail) = tail.split_at(word(13) as usize);
        let connection = connections.entry(word(0)).or_default();
        match head[4] {
            0 => connection.client.extend_from_slice(chunk),
            1 => connection.server.extend_from_slice(chunk),
            _ => {}
        }
        rest = tail;
    }
    connections.into_values().collect()
}
