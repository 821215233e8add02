//! The floor of streams: messages behind each other over a socket that blocks, in reads and writes of 64 KiB.
//!
//! There is no HTTP/2, no stream, no flow control but a bound of what is on its way, and no runtime. So what is left is
//! what an echo of messages costs whatever library carries it: the kernel; then, step by step, Prost, which encodes and
//! decodes every message on both sides; and the channel from which the client's messages come.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::str::FromStr;
use std::time::Instant;

use prost::Message;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use trirpc_meter::Window;

/// Bytes of a read, and those at which a write leaves.
const BATCH: usize = 64 * 1024;
/// Most bytes that a client has on their way: little enough for the buffers of the sockets, or both ends would block.
const ON_THE_WAY: usize = 4 * BATCH;
/// Octets in front of a message: its flags and its length.
const PREFIX: usize = 5;
/// Messages of the channel, as in the programs of the libraries.
const CHANNEL: usize = 16;

/// The message of `bench/proto/echo.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EchoMsg {
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
}

/// What is done beside moving octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Nothing: they are copied from one buffer to the other.
    Bytes,
    /// Messages are encoded and decoded.
    Codec,
    /// They come through a channel as well.
    Channel,
}

impl FromStr for Work {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "bytes" => Ok(Self::Bytes),
            "codec" => Ok(Self::Codec),
            "channel" => Ok(Self::Channel),
            _ => Err(()),
        }
    }
}

/// What was read and not yet taken.
struct Input {
    memory: Vec<u8>,
    len: usize,
}

impl Input {
    fn new() -> Self {
        Self { memory: vec![0; 2 * BATCH], len: 0 }
    }

    /// One read, and `each` whole message of what is there, behind its prefix. Whether there was anything to read.
    fn read(&mut self, socket: &mut TcpStream, mut each: impl FnMut(&[u8])) -> std::io::Result<bool> {
        let read = socket.read(&mut self.memory[self.len..])?;
        self.len += read;
        let mut unread = &self.memory[..self.len];
        while let Some((&[_, a, b, c, d], rest)) = unread.split_first_chunk::<PREFIX>() {
            let Some((message, rest)) = rest.split_at_checked(u32::from_be_bytes([a, b, c, d]) as usize) else { break };
            each(message);
            unread = rest;
        }
        let (taken, left) = (self.len - unread.len(), unread.len());
        self.memory.copy_within(taken..self.len, 0);
        self.len = left;
        Ok(read > 0)
    }
}

fn prefix(len: usize, out: &mut Vec<u8>) {
    out.push(0);
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

fn encode(message: &EchoMsg, out: &mut Vec<u8>) {
    prefix(message.encoded_len(), out);
    message.encode(out).expect("a vector grows");
}

/// Sends back what comes, until the peer closes.
///
/// # Errors
/// Those of the socket.
pub fn serve(mut socket: TcpStream, work: Work) -> std::io::Result<()> {
    let (mut input, mut out) = (Input::new(), Vec::with_capacity(2 * BATCH));
    loop {
        let is_open = input.read(&mut socket, |octets| match work {
            Work::Bytes => {
                prefix(octets.len(), &mut out);
                out.extend_from_slice(octets);
            }
            Work::Codec | Work::Channel => encode(&EchoMsg::decode(octets).expect("a message"), &mut out),
        })?;
        if !is_open {
            return Ok(());
        }
        if !out.is_empty() {
            socket.write_all(&out)?;
            out.clear();
        }
    }
}

/// Where a client's messages come from.
struct Source {
    message: EchoMsg,
    encoded: Vec<u8>,
    work: Work,
    channel: (Sender<EchoMsg>, Receiver<EchoMsg>),
}

impl Source {
    fn next(&mut self, out: &mut Vec<u8>) {
        match self.work {
            Work::Bytes => out.extend_from_slice(&self.encoded),
            Work::Codec => encode(&self.message, out),
            Work::Channel => {
                let (tx, rx) = &mut self.channel;
                let message = rx.try_recv().unwrap_or_else(|_| {
                    while tx.try_send(self.message.clone()).is_ok() {}
                    rx.try_recv().expect("a message")
                });
                encode(&message, out);
            }
        }
    }
}

/// Sends messages and takes them back for as long as `goes_on`; counts an operation each `messages` of them.
///
/// # Errors
/// Those of the socket.
pub fn run(
    mut socket: TcpStream,
    payload: Vec<u8>,
    messages: u32,
    work: Work,
    window: &mut Window,
    mut goes_on: impl FnMut(&mut Window) -> bool,
) -> std::io::Result<()> {
    let (mut input, mut out) = (Input::new(), Vec::with_capacity(2 * BATCH));
    let message = EchoMsg { payload };
    let mut encoded = Vec::new();
    encode(&message, &mut encoded);
    let (whole, len) = (encoded.len(), message.payload.len());
    let mut source = Source { message, encoded, work, channel: channel(CHANNEL) };
    let (mut on_the_way, mut received, mut start) = (0, 0, Instant::now());
    while goes_on(window) {
        while on_the_way + BATCH <= ON_THE_WAY {
            while out.len() < BATCH {
                source.next(&mut out);
            }
            on_the_way += out.len();
            socket.write_all(&out)?;
            out.clear();
        }
        let mut came = 0;
        input.read(&mut socket, |octets| {
            if work > Work::Bytes {
                assert_eq!(EchoMsg::decode(octets).expect("a message").payload.len(), len);
            }
            came += 1;
        })?;
        on_the_way -= came * whole;
        received += came as u32;
        while received >= messages {
            received -= messages;
            window.add(start.elapsed(), messages);
            start = Instant::now();
        }
    }
    Ok(())
}
