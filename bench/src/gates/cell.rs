//! One cell of the gates: a kind of call, run by a real channel and a real server over memory.
//!
//! Nothing here depends on time, threads or sockets, so that two runs do the same: the clock stands still, both
//! sides run on one thread, and each side goes on until it has nothing left to do before the other one is let go on.
//! What the pipe, the executor and the caller's loop cost is counted with the side that uses them.

use std::fmt;
use std::future::{pending, ready};
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_executor::Executor;
use smol::Task;
use trirpc::client::ChannelOptions;
use trirpc::rpc::{
    BoxFuture, ClientSession, Connector, Duplex, HttpVersion, Instant, Target, Time, Timer, duplex, handshake,
    serve_connection,
};
use trirpc::{Channel, Config, FlushPolicy, Gzip, Protocol, Router, Status};
use trirpc_meter::allocations::Allocations;

use super::counted::{Counted, Writes};
use crate::echo::{EchoService, Feed, Mode, Operation};
use crate::proto::EchoMsg;
use crate::proto::echo_client::EchoClient;
use crate::proto::echo_server::EchoServer;

/// Bytes that a direction of the connection holds before its writer waits: about what a socket does.
const PIPE: usize = 256 << 10;

/// A kind of call, and how many of them are counted.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// How it is named in the baseline.
    pub name: &'static str,
    protocol: Protocol,
    mode: Mode,
    feed: Feed,
    /// [`Config::unary_fast_path`] of both sides.
    fast: bool,
    /// [`Config::flush_watermark`] of both sides.
    watermark: usize,
    /// Both sides compress their messages, small ones as well.
    gzip: bool,
    /// Bytes of each payload.
    payload: usize,
    /// Messages a stream and direction.
    messages: u32,
    /// Streams that are open and idle on the connection meanwhile: each has echoed a message.
    beside: usize,
    /// Calls in flight.
    callers: usize,
    /// Operations of each caller before anything is counted.
    warm: usize,
    /// Operations of each caller that are counted.
    counted: usize,
}

const UNARY: Cell = Cell {
    name: "",
    protocol: Protocol::Grpc,
    mode: Mode::Unary,
    feed: Feed::Ready,
    fast: true,
    watermark: 0,
    gzip: false,
    payload: 128,
    messages: 1,
    beside: 0,
    callers: 1,
    warm: 100,
    counted: 200,
};
const UNARY_100: Cell = Cell { callers: 100, warm: 4, counted: 8, ..UNARY };
const UNARY_10: Cell = Cell { callers: 10, warm: 40, counted: 80, ..UNARY };
const UNARY_16_KIB: Cell = Cell { payload: 16 << 10, callers: 10, warm: 4, counted: 8, ..UNARY };
const UNARY_2_MIB: Cell = Cell { payload: 2 << 20, warm: 1, counted: 2, ..UNARY };
const GZIP_2_MIB: Cell = Cell { gzip: true, counted: 1, ..UNARY_2_MIB };
const STREAM: Cell = Cell { mode: Mode::Bidi, messages: 128, callers: 32, warm: 1, counted: 1, ..UNARY };

/// All cells.
pub const CELLS: &[Cell] = &[
    Cell { name: "unary grpc 1", ..UNARY },
    Cell { name: "unary grpc 100", ..UNARY_100 },
    Cell { name: "unary grpc 1, general", fast: false, ..UNARY },
    Cell { name: "unary grpc 100, general", fast: false, ..UNARY_100 },
    Cell { name: "unary grpc 100, gzip", gzip: true, ..UNARY_100 },
    Cell { name: "unary grpc 100, gzip, general", gzip: true, fast: false, ..UNARY_100 },
    Cell { name: "unary grpc 100, 1 KiB", payload: 1024, ..UNARY_100 },
    Cell { name: "unary grpc 100, 1 KiB, general", payload: 1024, fast: false, ..UNARY_100 },
    Cell { name: "unary grpc 100, 1 KiB, gzip", payload: 1024, gzip: true, ..UNARY_100 },
    Cell { name: "unary grpc 100, 1 KiB, gzip, general", payload: 1024, gzip: true, fast: false, ..UNARY_100 },
    Cell { name: "unary grpc 10, 16 KiB", ..UNARY_16_KIB },
    Cell { name: "unary grpc 10, 16 KiB, general", fast: false, ..UNARY_16_KIB },
    Cell { name: "unary grpc 10, 16 KiB, gzip", gzip: true, ..UNARY_16_KIB },
    Cell { name: "unary grpc 10, 16 KiB, gzip, general", gzip: true, fast: false, ..UNARY_16_KIB },
    Cell { name: "unary grpc 1, 2 MiB", ..UNARY_2_MIB },
    Cell { name: "unary grpc 1, 2 MiB, general", fast: false, ..UNARY_2_MIB },
    Cell { name: "unary grpc 1, 2 MiB, gzip", ..GZIP_2_MIB },
    Cell { name: "unary grpc 1, 2 MiB, gzip, general", fast: false, ..GZIP_2_MIB },
    Cell { name: "unary triple 1", protocol: Protocol::Triple, ..UNARY },
    Cell { name: "unary triple 100", protocol: Protocol::Triple, ..UNARY_100 },
    Cell { name: "unary triple 1, general", protocol: Protocol::Triple, fast: false, ..UNARY },
    Cell { name: "unary triple 100, general", protocol: Protocol::Triple, fast: false, ..UNARY_100 },
    Cell { name: "bidi grpc 32", ..STREAM },
    Cell { name: "bidi grpc 32, channel", feed: Feed::Channel, ..STREAM },
    Cell { name: "bidi grpc 32, coalesced", watermark: FlushPolicy::WATERMARK, ..STREAM },
    Cell { name: "bidi grpc 32, channel, coalesced", feed: Feed::Channel, watermark: FlushPolicy::WATERMARK, ..STREAM },
    Cell { name: "bidi grpc 32, 4 KiB", payload: 4096, ..STREAM },
    Cell { name: "client stream grpc 32", mode: Mode::ClientStream, ..STREAM },
    Cell { name: "server stream grpc 32", mode: Mode::ServerStream, ..STREAM },
];

/// Cells that show what a call costs with more and more streams open on its connection.
pub const GROWTH: &[Cell] = &[
    Cell { name: "unary grpc 10 beside 1", beside: 1, ..UNARY_10 },
    Cell { name: "unary grpc 10 beside 100", beside: 100, ..UNARY_10 },
    Cell { name: "unary grpc 10 beside 1,000", beside: 1_000, ..UNARY_10 },
    Cell { name: "unary grpc 10 beside 10,000", beside: 10_000, ..UNARY_10 },
];

/// One of the two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Who calls.
    Client,
    /// Who answers.
    Server,
}

impl Side {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// `client` or `server`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// Matches the name of the function inside of which this side's counted work happens, and no other's.
    pub(super) const fn counted_function(self) -> &'static str {
        match self {
            Self::Client => "*counted_client_turn*",
            Self::Server => "*counted_server_turn*",
        }
    }
}

/// What one side did in the counted part of a cell, in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Writes to the transport that took bytes.
    pub writes: u64,
    /// Bytes that they took.
    pub written: u64,
    /// Calls to the allocator for memory; 0 unless the counting allocator is installed.
    pub allocations: u64,
    /// Bytes asked of it.
    pub allocated: u64,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { writes, written, allocations, allocated } = self;
        write!(f, "{writes} writes of {written} bytes, {allocations} allocations of {allocated} bytes")
    }
}

impl Work {
    /// Reads what [`Display`](fmt::Display) writes, behind whatever stands before it on the line.
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
        let mut next = || numbers.next();
        Some(Self { writes: next()?, written: next()?, allocations: next()?, allocated: next()? })
    }
}

impl Cell {
    /// The cell of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|cell| cell.name == name).copied()
    }

    /// Those of the gates, and those of growth.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        CELLS.iter().chain(GROWTH)
    }

    /// The name of the cell that differs in nothing but that its messages take the fast path; `None` if these do.
    pub fn fast_twin(&self) -> Option<&'static str> {
        self.name.strip_suffix(", general")
    }

    /// What the figures are divided by, and its name: calls, or messages of one direction of a stream.
    pub const fn units(&self) -> (u64, &'static str) {
        let operations = (self.callers * self.counted) as u64;
        match self.mode {
            Mode::Unary => (operations, "call"),
            _ => (operations * self.messages as u64, "message"),
        }
    }

    /// Bytes of heap that an idle stream takes on both sides together: connections, call layer, the caller's two halves
    /// and the handler. 0 unless the counting allocator is installed.
    ///
    /// # Errors
    /// A stream could not be opened.
    pub fn heap_of_a_stream(&self) -> Result<u64, Status> {
        let mut world = World::new(self)?;
        let message = Operation::message(self.payload, 1);
        // What is allocated once is there before.
        let _some = world.open(self.beside / 10, &message)?;
        let before = Allocations::now().live;
        let streams = self.beside - self.beside / 10;
        let _open = world.open(streams, &message)?;
        Ok((Allocations::now().live - before) / streams.max(1) as u64)
    }

    /// Runs the cell in a process of its own, by this `program`, which is `trirpc-bench`: what a process keeps for reuse is
    /// not what another cell left there.
    ///
    /// # Errors
    /// The program cannot be started, or the cell cannot be run.
    pub fn run_by(&self, program: &Path) -> io::Result<[Work; 2]> {
        let output = Command::new(program).args(["cell", self.name]).output()?;
        let works = String::from_utf8_lossy(&output.stdout).lines().filter_map(Work::parse).collect::<Vec<_>>();
        works.try_into().map_err(|_| {
            io::Error::other(format!("{}: {}", self.name, String::from_utf8_lossy(&output.stderr).trim_end()))
        })
    }

    /// Runs the cell in this process.
    ///
    /// # Errors
    /// A call failed, or waited for something that does not come.
    pub fn run(&self) -> Result<[Work; 2], Status> {
        let payload = Operation::message(self.payload, self.messages);
        let Self { mode, protocol, feed, messages, .. } = *self;
        let operation = Arc::new(Operation { mode, protocol, feed, messages, message: payload });
        let mut world = World::new(self)?;
        let _open = world.open(self.beside, &operation.message)?;
        let before = world.repeat(self.callers, self.warm, &operation, Turn::Free)?;
        let after = world.repeat(self.callers, self.counted, &operation, Turn::Counted)?;
        Ok([0, 1].map(|side| Work {
            writes: after[side].writes - before[side].writes,
            written: after[side].written - before[side].written,
            ..after[side]
        }))
    }
}

#[derive(Clone, Copy)]
enum Turn {
    Free,
    Counted,
}

/// A client and a server with one connection.
struct World {
    client: Party,
    server: Party,
    stub: EchoClient<Channel>,
}

/// One side's tasks, and what they have done.
struct Party {
    executor: &'static Executor<'static>,
    writes: Writes,
    allocations: Allocations,
}

impl Party {
    fn new() -> (Self, &'static Executor<'static>) {
        let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
        (Self { executor, writes: Writes::default(), allocations: Allocations::default() }, executor)
    }

    fn carry(&self, end: Duplex) -> Counted<Duplex> {
        Counted::new(end, self.writes.clone())
    }

    /// Lets the tasks go on until none can, by `turn`. Whether there was anything to do.
    fn go_on(&mut self, turn: fn(&Executor<'static>) -> bool) -> bool {
        let before = Allocations::now();
        let any = turn(self.executor);
        let spent = Allocations::now() - before;
        self.allocations.calls += spent.calls;
        self.allocations.bytes += spent.bytes;
        any
    }

    fn work(&self) -> Work {
        let Allocations { calls, bytes, .. } = self.allocations;
        Work { writes: self.writes.count(), written: self.writes.bytes(), allocations: calls, allocated: bytes }
    }
}

fn turn(executor: &Executor<'static>) -> bool {
    let mut any = false;
    while executor.try_tick() {
        any = true;
    }
    any
}

// The profiler counts inside of these two only. They differ in a constant, or the compiler would make them one.

#[inline(never)]
fn counted_client_turn(executor: &Executor<'static>) -> bool {
    let any = turn(executor);
    black_box(Side::Client);
    any
}

#[inline(never)]
fn counted_server_turn(executor: &Executor<'static>) -> bool {
    let any = turn(executor);
    black_box(Side::Server);
    any
}

impl World {
    fn new(cell: &Cell) -> Result<Self, Status> {
        let ((client, caller), (server, handlers)) = (Party::new(), Party::new());
        let (near, far) = duplex(PIPE);
        let mut config = Config::default();
        config.unary_fast_path = cell.fast;
        config.flush_watermark = cell.watermark;
        config.flush_linger = None;
        config.max_concurrent_streams = u32::try_from(cell.beside + cell.callers).unwrap_or(u32::MAX);
        if cell.gzip {
            config.compress_min = 0;
        }
        let config = Arc::new(config);
        let target = Target::parse("http://127.0.0.1:50051").map_err(|error| Status::internal(error.to_string()))?;

        let (session, driver) =
            handshake(client.carry(near), Arc::clone(&config), target.endpoint(), HttpVersion::Http2, Stopped);
        caller.spawn(async { drop(driver.await) }).detach();
        let connector = InMemory { session, executor: caller };
        let mut channel = Channel::new(target, connector, ChannelOptions::default());
        let mut router = Router::new().add(EchoServer::new(EchoService));
        if cell.gzip {
            channel = channel.send_compression(Gzip::default());
            router = router.accept_compression(Gzip::default()).send_compression(Gzip::default());
        }
        let stub = EchoClient::new(channel);

        let (session, driver) = serve_connection(server.carry(far), Arc::new(router), config, Stopped, |task| {
            handlers.spawn(task).detach();
        });
        handlers.spawn(async { drop((driver.await, session)) }).detach();
        Ok(Self { client, server, stub })
    }

    /// Opens so many streams, which stay open as long as what is returned.
    fn open(&mut self, streams: usize, message: &EchoMsg) -> Result<Vec<impl Sized + use<>>, Status> {
        /// Calls that are started together: fewer than may wait for the connection.
        const TOGETHER: usize = 100;
        let mut open = Vec::with_capacity(streams);
        while open.len() < streams {
            let tasks = (open.len()..streams).take(TOGETHER).map(|_| {
                let (stub, message) = (self.stub.clone(), message.clone());
                self.client.executor.spawn(async move {
                    let (mut tx, mut rx) = stub.bidi().open();
                    tx.send(&message).await?;
                    rx.next().await?;
                    Ok((tx, rx))
                })
            });
            let tasks: Vec<_> = tasks.collect();
            while self.client.go_on(turn) | self.server.go_on(turn) {}
            for task in tasks {
                open.push(outcome(task)?);
            }
        }
        Ok(open)
    }

    /// Lets `callers` run `operation` `times` each, and returns what both sides have written so far and what they
    /// have allocated meanwhile.
    fn repeat(
        &mut self,
        callers: usize,
        times: usize,
        operation: &Arc<Operation>,
        turn: Turn,
    ) -> Result<[Work; 2], Status> {
        let tasks: Vec<Task<Result<(), Status>>> = (0..callers)
            .map(|_| {
                let (stub, operation) = (self.stub.clone(), Arc::clone(operation));
                self.client.executor.spawn(async move {
                    for _ in 0..times {
                        operation.run(&stub).await?;
                    }
                    Ok(())
                })
            })
            .collect();
        let turns: [fn(&Executor<'static>) -> bool; 2] = match turn {
            Turn::Free => [self::turn, self::turn],
            Turn::Counted => [counted_client_turn, counted_server_turn],
        };
        (self.client.allocations, self.server.allocations) = Default::default();
        while self.client.go_on(turns[0]) | self.server.go_on(turns[1]) {}
        tasks.into_iter().try_for_each(outcome)?;
        Ok([self.client.work(), self.server.work()])
    }
}

/// What a task ended with that can have no reason to wait.
fn outcome<T>(task: Task<Result<T, Status>>) -> Result<T, Status> {
    if !task.is_finished() {
        return Err(Status::internal("a call waits for what does not come"));
    }
    // Not `smol::block_on`: that one starts a thread, whose allocations would be counted.
    smol::future::block_on(task)
}

/// A connector that hands out the one connection there is.
struct InMemory {
    session: ClientSession,
    executor: &'static Executor<'static>,
}

impl Connector for InMemory {
    fn connect<'a>(&'a self, _target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        Box::pin(ready(Ok(self.session.clone())))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.executor.spawn(task).detach();
    }

    fn sleep(&self, _until: Instant) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }

    fn now(&self) -> Instant {
        Time::now(&Stopped)
    }
}

/// A clock that stands still, and its timers, which do not fire.
#[derive(Clone, Copy, Debug)]
struct Stopped;

impl Time for Stopped {
    type Timer = Self;

    fn now(&self) -> Instant {
        Instant::default()
    }

    fn timer(&self) -> Self {
        *self
    }
}

impl Timer for Stopped {
    fn reset(&mut self, _at: Instant) {}

    fn poll_expired(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// On a thread of its own each time: the receive window that the connections of a thread share is as the run before
    /// left it, and where reads end decides when credit is returned.
    #[test]
    fn every_cell_writes_the_same_each_time() {
        for cell in CELLS {
            let runs = [(); 2].map(|()| thread::spawn(|| cell.run()).join());
            let runs = runs.map(|run| run.expect("no panic").expect(cell.name));
            let written = runs.map(|run| run.map(|work| (work.writes, work.written)));
            assert_eq!(written[0], written[1], "{}", cell.name);
            assert!(written[0].iter().all(|(writes, bytes)| *writes > 0 && bytes > writes), "{}", cell.name);
        }
    }

    #[test]
    fn cells_have_names_of_their_own() {
        for cell in Cell::all() {
            assert_eq!(Cell::all().filter(|other| other.name == cell.name).count(), 1, "{}", cell.name);
        }
    }

    /// bg:S1, arch:U1.
    #[test]
    fn a_unary_call_alone_on_its_connection_is_one_write_of_each_side() {
        for cell in CELLS.iter().filter(|cell| cell.mode == Mode::Unary && cell.callers == 1 && cell.payload < PIPE) {
            let (calls, _) = cell.units();
            for work in cell.run().expect(cell.name) {
                assert_eq!(work.writes, calls, "{}", cell.name);
            }
        }
    }

    /// bg:B3: the writes of a stream follow its bytes: messages that are ready together leave in pieces of 16 KiB at
    /// least, but for the first and the last, however small they are. Updates of windows may leave alone for each 128 KiB
    /// that came.
    #[test]
    fn writes_follow_bytes_and_not_messages() {
        for cell in CELLS.iter().filter(|cell| cell.mode != Mode::Unary) {
            let both = cell.run().expect(cell.name);
            for (work, peer) in [(both[0], both[1]), (both[1], both[0])] {
                let most = 2 + work.written / (16 << 10) + peer.written / (128 << 10);
                assert!(work.writes <= most, "{}: {work:?}", cell.name);
            }
        }
    }
}
