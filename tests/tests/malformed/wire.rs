//! Our client or our server in memory, opposite an end whose frames are made by hand. Nothing sleeps: tasks run until
//! none can, and then the wire is read.

use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smol::io::{AsyncRead, AsyncWrite};
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc_cli::echo::EchoService;
use trirpc_core::{Config, Endpoint, HttpVersion, Instant};
use trirpc_proto::Gzip;
use trirpc_rpc::{
    BoxFuture, Channel, ChannelOptions, ClientSession, Connector, Duplex, ManualTime, Router, ServerSession, Target,
    Time, duplex, handshake, serve_connection,
};
use trirpc_tests::frames::{PREFACE, settings, settings_ack};
use trirpc_tests::trace::{Entry, Side, Trace};

use crate::exchange::Answer;

/// Bytes that either direction holds.
const CAPACITY: usize = 1 << 20;

/// The hand-made end of a connection.
pub(crate) struct Wire {
    /// Drivers, handlers and calls of our side.
    pub(crate) tasks: Arc<smol::Executor<'static>>,
    io: Duplex,
    time: ManualTime,
    /// Which side is made by hand.
    side: Side,
    trace: Trace,
    /// Our side has closed the connection.
    pub(crate) closed: bool,
    /// Holds a server open.
    _session: Option<ServerSession>,
}

impl Wire {
    /// A hand-made client of our Echo server, which can inflate gzip, after the handshake.
    pub(crate) fn to_server(config: Config, echo: EchoService) -> Self {
        let (near, far) = duplex(CAPACITY);
        let (tasks, time) = (Arc::new(smol::Executor::new()), ManualTime::new());
        let router = Arc::new(Router::new().add(EchoServer::new(echo)).accept_compression(Gzip::default()));
        let handlers = Arc::clone(&tasks);
        let spawn = move |task| handlers.spawn(task).detach();
        let (session, driver) = serve_connection(far, router, Arc::new(config), time.clone(), spawn);
        tasks.spawn(driver).detach();
        let mut wire = Self::new(tasks, near, time, Side::Client, Some(session));
        wire.send(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        wire
    }

    /// A hand-made server of our client, which offers gzip, after the handshake.
    pub(crate) fn to_client(config: Config) -> (Self, Channel) {
        let (near, far) = duplex(CAPACITY);
        let (tasks, time) = (Arc::new(smol::Executor::new()), ManualTime::new());
        let (endpoint, version) = (Endpoint::http("localhost"), HttpVersion::Http2);
        let (session, driver) = handshake(far, Arc::new(config), endpoint, version, time.clone());
        tasks.spawn(driver).detach();
        let mut wire = Self::new(tasks, near, time, Side::Server, None);
        wire.send(&[settings(&[]), settings_ack()].concat());
        let connector = Connected { session, tasks: Arc::clone(&wire.tasks), time: wire.time.clone() };
        let target = Target::parse("http://localhost").expect("a target");
        let channel = Channel::new(target, connector, ChannelOptions::default());
        (wire, channel.accept_compression(Gzip::default()))
    }

    fn new(
        tasks: Arc<smol::Executor<'static>>,
        io: Duplex,
        time: ManualTime,
        side: Side,
        session: Option<ServerSession>,
    ) -> Self {
        Self { tasks, io, time, side, trace: Trace::with_hostile(side), closed: false, _session: session }
    }

    /// Sends these bytes, and lets our side do all that follows from them.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) {
        self.trace.observe(self.side, bytes);
        let cx = &mut Context::from_waker(Waker::noop());
        while !bytes.is_empty() {
            match Pin::new(&mut self.io).poll_write(cx, bytes) {
                Poll::Ready(Ok(n)) => bytes = &bytes[n..],
                // Our side does not read on: it has closed.
                Poll::Ready(Err(_)) => break,
                Poll::Pending => {}
            }
            self.settle();
        }
    }

    /// Lets this much time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.time.advance(time);
        self.settle();
    }

    /// Runs our side until it waits, and reads what it wrote.
    pub(crate) fn settle(&mut self) {
        let cx = &mut Context::from_waker(Waker::noop());
        let mut buffer = [0; 64 * 1024];
        loop {
            while self.tasks.try_tick() {}
            match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => {
                    self.closed = true;
                    break;
                }
                Poll::Ready(Ok(n)) => self.trace.observe(self.side.peer(), &buffer[..n]),
                Poll::Pending => break,
            }
        }
        self.trace.assert_legal();
    }

    /// What our side sent, frame by frame.
    pub(crate) fn heard(&self) -> impl Iterator<Item = &Entry> {
        self.trace.sent_by(self.side.peer())
    }

    /// What our side has answered on one stream.
    pub(crate) fn answer(&self, stream: u32) -> Answer {
        Answer::on(stream, self.heard())
    }

    /// Every frame so far, for people.
    pub(crate) fn shown(&self) -> String {
        self.trace.to_string()
    }
}

/// Connects to the one wire there is.
struct Connected {
    session: ClientSession,
    tasks: Arc<smol::Executor<'static>>,
    time: ManualTime,
}

impl Connector for Connected {
    fn connect<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        let session = self.session.is_open().then(|| self.session.clone());
        Box::pin(async move { session.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()) })
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.tasks.spawn(task).detach();
    }

    fn sleep(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn now(&self) -> Instant {
        self.time.now()
    }
}

/// `bytes` as one member of gzip.
pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(bytes).and_then(|()| packed.finish()).expect("memory does not fail")
}

/// A message with a payload of 4 MiB and one byte, which packs into very little.
pub(crate) fn bomb() -> Vec<u8> {
    [&b"\x12\x81\x80\x80\x02"[..], &vec![0; (4 << 20) + 1]].concat()
}
