//! What a connection holds that nobody uses, counted at the allocator: the driver's future, the session, the engine and
//! its buffers. The socket and its registration are the system's and the reactor's.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, Read};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smol::io::{AsyncRead, AsyncWrite};
use trirpc_cli::echo::EchoService;
use trirpc_core::Server;
use trirpc_proto::test_service::echo_server::EchoServer;
use trirpc_rpc::{Config, Driver, ManualTime, Router, ServerSession, Transport, serve_connection};
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::frames::{PREFACE, data, envelope, grpc_request, settings, settings_ack};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A transport that reads what the test gives it and swallows what is written.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<VecDeque<u8>>>);

impl Transport for Wire {}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let n = self.0.lock().expect("no panic").read(buf)?;
        if n == 0 { Poll::Pending } else { Poll::Ready(Ok(n)) }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A server's connection that was greeted, and what it holds.
struct Connection {
    wire: Wire,
    session: ServerSession,
    driver: Pin<Box<Driver<Wire, Server, ManualTime>>>,
    held: i64,
}

impl Connection {
    fn greeted(router: &Arc<Router>, config: &Arc<Config>, time: &ManualTime) -> Self {
        let wire = Wire::default();
        let (router, config, time) = (Arc::clone(router), Arc::clone(config), time.clone());
        let ((session, driver), cost) = measure(|| {
            let (session, driver) = serve_connection(wire.clone(), router, config, time, |task| {
                // The service answers at once.
                assert!(pin!(task).poll(&mut Context::from_waker(Waker::noop())).is_ready());
            });
            (session, Box::pin(driver))
        });
        let mut connection = Self { wire, session, driver, held: cost.held };
        connection.receive(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        connection
    }

    /// All of it in one read, and what follows from it.
    fn receive(&mut self, bytes: &[u8]) {
        self.wire.0.lock().expect("no panic").extend(bytes);
        self.poll();
    }

    fn poll(&mut self) {
        let driver = self.driver.as_mut();
        let (poll, cost) = measure(|| driver.poll(&mut Context::from_waker(Waker::noop())));
        assert!(poll.is_pending());
        self.held += cost.held;
    }
}

fn connections(count: usize) -> (Vec<Connection>, ManualTime) {
    let router = Arc::new(Router::new().add(EchoServer::new(EchoService::new())));
    let config = Arc::new(Config::default());
    let time = ManualTime::new();
    ((0..count).map(|_| Connection::greeted(&router, &config, &time)).collect(), time)
}

/// What one connection holds, the window of the thread left out.
#[track_caller]
fn assert_held(connections: &[Connection], bound: i64) {
    // The first one has found no window.
    for connection in &connections[1..] {
        assert!(connection.held <= bound, "{} bytes are held, the bound is {bound}", connection.held);
    }
}

/// arch:3.2. A connection without calls holds no window and little else, from the moment of its greeting on.
#[test]
fn an_idle_connection_holds_less_than_six_kilobytes() {
    let (mut connections, time) = connections(4);
    assert_held(&connections, 5 * 1024);
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    assert_held(&connections, 4 * 1024);
}

/// Calls leave what the next calls need: slots, and the compression's tables.
#[test]
fn a_connection_between_calls_holds_its_tables_and_no_buffers() {
    let (mut connections, time) = connections(4);
    let call = [grpc_request(1, "/trirpc.test.Echo/Say"), data(1, &envelope(b"\x0a\x02hi"), true)].concat();
    for connection in &mut connections {
        connection.receive(&call);
        assert_eq!(connection.session.open_calls(), 0);
    }
    assert_held(&connections, 12 * 1024);
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    assert_held(&connections, 10 * 1024);
}

/// h2:A21: a peer that sends the beginning of a frame and stops pins those bytes, and no window.
#[test]
fn a_connection_that_waits_for_the_rest_of_a_frame_holds_that_alone() {
    let (mut connections, _) = connections(4);
    for connection in &mut connections {
        connection.receive(&data(1, &[0; 100], false)[..5]);
    }
    assert_held(&connections, 5 * 1024 + 100);
}
