//! Against the `h2` crate, the engine below tonic and hyper, over a pipe in memory: our client with its server, and its
//! client with our server.
//!
//! Both servers send back what they get, octet by octet. A script says who moves and who disturbs whom: resets, farewells,
//! windows that change, large heads, trailers of requests. Neither side may find fault with the other, all of our output is
//! judged, and a call that nobody disturbed gets back all that it sent.

mod our_client;
mod our_server;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::{Config, Connection, ConnectionError, Event, Instant, Role};

use crate::input::Input;
use crate::memory::Account;
use crate::random::Random;
use crate::script;
use crate::trace::{Side, Trace};

/// Most octets on their way in one direction.
const CAPACITY: usize = 20_000;
/// Turns after which a script that is over must have come to its end.
const MAX_TURNS: usize = 20_000;
const MAX_STEPS: usize = 300;
/// The window that h2 ends with: the largest of all that scripts choose. It must not be less, for a tolerated difference:
/// where a lowered window makes credit due for octets that were read before, h2 0.4.20 does not tell (`h2:DL3`).
const LAST_WINDOW: u32 = 1 << 20;

/// Runs a script against the `h2` crate; the first octet says which side is ours.
pub fn cross_h2(data: &[u8]) {
    let mut input = Input::new(data);
    match input.octet() % 2 {
        0 => our_client::run(&mut input),
        _ => our_server::run(&mut input),
    }
}

/// Our limits, by an octet.
fn config(octet: u8) -> Config {
    if octet < 128 { Config::default() } else { script::config(&mut Random::new(octet.into())) }
}

/// Sizes of messages, most of them small.
fn size(input: &mut Input<'_>) -> usize {
    let number = usize::from(input.short());
    if number < 0xd000 { number % 500 } else { 3 * (number - 0xd000) }
}

fn envelope(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.len() as u32);
    framed.put_slice(message);
    framed.freeze()
}

/// One direction of the pipe.
#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Line>>);

#[derive(Default)]
struct Line {
    octets: VecDeque<u8>,
    is_shut: bool,
}

impl Wire {
    fn take(&self, most: usize) -> Vec<u8> {
        let line = &mut self.0.borrow_mut();
        let len = most.min(line.octets.len());
        line.octets.drain(..len).collect()
    }

    fn put(&self, octets: &[u8]) {
        self.0.borrow_mut().octets.extend(octets);
    }

    fn room(&self) -> usize {
        CAPACITY.saturating_sub(self.0.borrow().octets.len())
    }

    fn shut(&self) {
        self.0.borrow_mut().is_shut = true;
    }

    fn is_at_end(&self) -> bool {
        let line = self.0.borrow();
        line.is_shut && line.octets.is_empty()
    }
}

/// The transport of `h2`, which is polled again and again and needs no waker.
struct Io {
    inbound: Wire,
    outbound: Wire,
}

impl AsyncRead for Io {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let octets = self.inbound.take(buf.remaining());
        if octets.is_empty() && !self.inbound.is_at_end() {
            return Poll::Pending;
        }
        buf.put_slice(&octets);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let len = octets.len().min(self.outbound.room());
        if len == 0 {
            return Poll::Pending;
        }
        self.outbound.put(&octets[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.outbound.shut();
        Poll::Ready(Ok(()))
    }
}

/// Our end, and what drives it.
struct Ours<R: Role> {
    conn: Connection<R>,
    side: Side,
    input: RecvBuf,
    output: Transmit,
    inbound: Wire,
    outbound: Wire,
    cuts: Random,
    trace: Trace,
    now: Instant,
    saw_end: bool,
    /// What the connection holds, and this; of what `h2` holds nothing is counted.
    memory: Account,
    /// Most calls at once.
    calls: usize,
}

/// What is waited for when nothing moves: the rest of windows that are opened a few octets at a time, and no timeout.
const SHORT: Duration = Duration::from_secs(1);

impl<R: Role> Ours<R> {
    /// Lets time pass until something is due, if that is soon.
    fn wait(&mut self) {
        if let Some(at) = self.conn.poll_timeout().filter(|&at| at <= self.now + SHORT) {
            self.now = self.now.max(at);
            self.memory.charge(|| self.conn.handle_timeout(self.now));
        }
    }

    /// Our end, and the transport of the other.
    fn new(conn: impl FnOnce() -> Connection<R>, side: Side, seed: u8) -> (Self, Io) {
        let memory = Account::new();
        let (conn, input) = memory.charge(|| (conn(), RecvBuf::new(16 * 1024)));
        let (up, down) = (Wire::default(), Wire::default());
        let ours = Self {
            conn,
            side,
            input,
            output: Transmit::new(),
            inbound: down.clone(),
            outbound: up.clone(),
            cuts: Random::new(seed.into()),
            trace: Trace::with_hostile(side.peer()),
            now: start(),
            saw_end: false,
            memory,
            calls: 0,
        };
        (ours, Io { inbound: up, outbound: down })
    }

    /// One read, one write, and whether anything moved.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        self.calls = self.calls.max(self.conn.open_calls());
        let Self { conn, input, output, memory, now, .. } = self;
        if conn.wants_read() {
            let most = 1 + self.cuts.length(20_000);
            let octets = self.inbound.take(most);
            self.trace.observe(self.side.peer(), &octets);
            memory.charge(|| input.extend(&octets));
            moved |= !octets.is_empty();
            if self.inbound.is_at_end() && !std::mem::replace(&mut self.saw_end, true) {
                memory.charge(|| {
                    conn.handle_input(input, *now);
                    conn.handle_eof(*now);
                });
                moved = true;
            }
        }
        memory.charge(|| {
            conn.handle_input(input, *now);
            conn.poll_transmit(output, *now);
        });
        while let Some(event) = memory.charge(|| conn.poll_event()) {
            moved = true;
            if let Event::Closed(ConnectionError::Misbehaved(fault)) = event {
                panic!("h2 stands accused of {fault:?}\n{}", self.trace.tail(30));
            }
        }
        let mut octets = vec![0; self.output.len().min(self.outbound.room())];
        self.output.copy_to(&mut octets);
        self.output.advance(octets.len());
        self.outbound.put(&octets);
        self.trace.observe(self.side, &octets);
        self.memory.assert_within(R::SIDE, self.conn.config(), self.calls);
        let faults = self.trace.faults();
        assert!(faults.is_empty(), "illegal output: {faults:?}\n{}", self.trace.tail(30));
        if self.conn.is_closed() && self.output.is_empty() {
            self.outbound.shut();
            moved |= !self.inbound.take(usize::MAX).is_empty();
        }
        moved || !octets.is_empty()
    }
}

fn start() -> Instant {
    Instant::ZERO + Duration::from_secs(100)
}

fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// What `h2` may end with: a farewell, or the end of the transport behind one.
fn is_farewell(error: &h2::Error) -> bool {
    error.is_io() || error.reason() == Some(h2::Reason::NO_ERROR)
}

/// Writes what the windows allow of `pending`. False if the stream is gone.
fn write(stream: &mut h2::SendStream<Bytes>, pending: &mut BytesMut) -> bool {
    stream.reserve_capacity(pending.len());
    while !pending.is_empty() {
        let room = match stream.poll_capacity(&mut context()) {
            Poll::Ready(Some(Ok(room))) => room,
            Poll::Pending => stream.capacity(),
            Poll::Ready(_) => return false,
        };
        if room == 0 {
            break;
        }
        let piece = pending.split_to(room.min(pending.len())).freeze();
        if stream.send_data(piece, false).is_err() {
            return false;
        }
    }
    true
}

/// Reads what has arrived, and gives the window back. `None` if the stream is gone, else whether it has ended.
fn read(body: &mut h2::RecvStream, into: &mut BytesMut) -> Option<bool> {
    loop {
        match body.poll_data(&mut context()) {
            Poll::Pending => return Some(false),
            Poll::Ready(None) => return Some(true),
            Poll::Ready(Some(Ok(data))) => {
                body.flow_control().release_capacity(data.len()).expect("what was received");
                into.extend_from_slice(&data);
            }
            Poll::Ready(Some(Err(_))) => return None,
        }
    }
}
