//! What a connection holds that nobody uses, counted at the allocator: the driver's future, the session, the engine and
//! its buffers. The socket and its registration are the system's and the reactor's.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::io::{self, Read};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use smol::io::{AsyncRead, AsyncWrite};
use trirpc_cli::echo::EchoService;
use trirpc_core::Server;
use trirpc_core::call::MethodSpec;
use trirpc_proto::test_service::echo_method::CHAT;
use trirpc_proto::test_service::echo_server::EchoServer;
use trirpc_rpc::{
    Config, Driver, Handling, IncomingCall, ManualTime, Router, ServerSession, ServerTask, Service, ServiceDescriptor,
    Transport, serve_connection,
};
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::frames::{
    PREFACE, block, data, envelope, frame, grpc_request, headers, reset, settings, settings_ack, window_update,
};

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

/// A service whose streams stay open, and the size of its handlers, which hold what the call gave them.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>);

impl Service for Silent {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static METHODS: &[&MethodSpec] = &[&CHAT.spec];
        static SILENT: ServiceDescriptor = ServiceDescriptor::new("trirpc.test.v1.Echo", METHODS);
        &SILENT
    }

    fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
        call.bidi(&CHAT, |cx, rx, tx| {
            let handler = async move {
                pending::<()>().await;
                drop((cx, rx, tx));
            };
            self.0.store(size_of_val(&handler), Ordering::Relaxed);
            handler
        })
    }
}

/// A server's connection that was greeted, and what it holds.
struct Connection {
    wire: Wire,
    session: ServerSession,
    driver: Pin<Box<Driver<Wire, Server, ManualTime>>>,
    /// Handlers that wait.
    waiting: Arc<Mutex<Vec<Pin<Box<ServerTask>>>>>,
    held: i64,
}

impl Connection {
    fn greeted(router: &Arc<Router>, config: &Arc<Config>, time: &ManualTime) -> Self {
        let wire = Wire::default();
        let (router, config, time) = (Arc::clone(router), Arc::clone(config), time.clone());
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let tasks = Arc::clone(&waiting);
        let ((session, driver), cost) = measure(|| {
            let (session, driver) = serve_connection(wire.clone(), router, config, time, move |task| {
                let mut task = Box::pin(task);
                if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
                    tasks.lock().expect("no panic").push(task);
                }
            });
            (session, Box::pin(driver))
        });
        let mut connection = Self { wire, session, driver, waiting, held: cost.held };
        connection.receive(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        connection
    }

    fn drop_tasks(&mut self) {
        *self.waiting.lock().expect("no panic") = Vec::new();
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
    connections_to(EchoServer::new(EchoService::new()), count, Config::default())
}

fn connections_to(service: impl Service, count: usize, config: Config) -> (Vec<Connection>, ManualTime) {
    let router = Arc::new(Router::new().add(service));
    let config = Arc::new(config);
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

/// Calls leave what the next calls need: slots, and HPACK's tables, until the connection is silent for a second.
#[test]
fn a_connection_between_calls_holds_its_tables_and_no_buffers() {
    let (mut connections, time) = connections(4);
    let call = [grpc_request(1, "/trirpc.test.v1.Echo/Say"), data(1, &envelope(b"\x0a\x02hi"), true)].concat();
    for connection in &mut connections {
        connection.receive(&call);
        assert_eq!(connection.session.open_calls(), 0);
    }
    assert_held(&connections, 12 * 1024 + 512);
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    assert_held(&connections, 6 * 1024);
}

/// `Config::server_many_connections`: a connection that is silent holds less than 6 KiB, whatever it has done before.
#[test]
fn an_idle_one_of_many_connections_holds_less_than_six_kilobytes() {
    let (mut connections, time) =
        connections_to(EchoServer::new(EchoService::new()), 4, Config::server_many_connections());
    for connection in &mut connections {
        // The table is smaller than that of the RFC, which the first block confirms.
        let confirming = frame(1, 5, 1, &[&[0x3f, 0xe1, 0x0f][..], &block(&[(":method", "PUT")])].concat());
        connection.receive(&confirming);
        for n in 1..100 {
            let body = envelope(&[b"\x0a\x7f", &[b'x'; 127][..]].concat());
            let call = [grpc_request(2 * n + 1, "/trirpc.test.v1.Echo/Say"), data(2 * n + 1, &body, true)].concat();
            connection.receive(&call);
        }
        assert_eq!(connection.session.open_calls(), 0);
    }
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    assert_held(&connections, 6 * 1024);
}

/// The figure of a server with a thousand connections, each of which has served a call and is silent; `--nocapture` shows
/// it.
#[test]
fn a_thousand_idle_connections_hold_less_than_six_megabytes() {
    let call = [grpc_request(1, "/trirpc.test.v1.Echo/Say"), data(1, &envelope(b"\x0a\x02hi"), true)].concat();
    let (mut connections, time) = connections(1000);
    connections.iter_mut().for_each(|connection| connection.receive(&call));
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    let held: i64 = connections.iter().map(|connection| connection.held).sum();
    println!("1000 idle connections hold {held} bytes of heap");
    assert!(held < 6 << 20, "{held} bytes");
}

/// What many streams at once were in, streams with heads of their own and buffers full, is given back once they are
/// over and the connection is silent.
#[test]
fn an_idle_connection_holds_nothing_of_the_streams_that_it_had() {
    const STREAMS: u32 = 256;
    let (mut connections, time) = connections_to(Silent::default(), 3, Config::default());
    for connection in &mut connections {
        for n in 0..STREAMS {
            let id = 2 * n + 1;
            let mut fields = vec![(":method", "POST"), (":scheme", "http"), (":path", "/trirpc.test.v1.Echo/Chat")];
            let value = n.to_string().repeat(100);
            fields.extend([(":authority", "localhost"), ("content-type", "application/grpc"), ("x-one", &*value)]);
            connection.receive(&headers(id, &fields, false));
            connection.receive(&data(id, &envelope(&[7; 1000]).repeat(10), false));
        }
        assert_eq!(connection.session.open_calls(), STREAMS as usize);
        assert!(connection.held > i64::from(STREAMS) * 10_000, "{}", connection.held);
        for n in 0..STREAMS {
            connection.receive(&reset(2 * n + 1, 8));
        }
    }
    // Handlers are dropped where their tasks are, which the test keeps.
    let tasks = |connection: &mut Connection| {
        let ((), cost) = measure(|| connection.drop_tasks());
        connection.held += cost.held;
    };
    connections.iter_mut().for_each(tasks);
    for connection in &mut connections {
        assert_eq!(connection.session.open_calls(), 0);
        connection.poll();
    }
    time.advance(Duration::from_secs(1));
    connections.iter_mut().for_each(Connection::poll);
    // Closed ids are remembered: eight bytes for each of 256.
    assert_held(&connections, 6 * 1024);
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

/// G16: what a stream in flight takes at the server beside the octets that came for it and its handler's future: the
/// engine's stream, the call, the session's slot, the request and the task.
#[test]
fn a_stream_in_flight_takes_less_than_848_bytes_beyond_its_octets_and_its_handler() {
    const STREAMS: u32 = 128;
    let service = Silent::default();
    let (mut connections, _) = connections_to(service.clone(), 2, Config::default());
    let connection = &mut connections[1];
    let begun = &envelope(b"\x0a\x64")[..3];
    let mut held = Vec::new();
    // Tables double: at powers of two they are full.
    for n in 0..2 * STREAMS {
        if n % STREAMS == 0 {
            held.push(connection.held);
        }
        let id = 2 * n + 1;
        connection.receive(&[grpc_request(id, "/trirpc.test.v1.Echo/Chat"), data(id, begun, false)].concat());
    }
    held.push(connection.held);
    assert_eq!(connection.session.open_calls(), 2 * STREAMS as usize);
    let handler = service.0.load(Ordering::Relaxed) as i64;
    assert!(handler > 0);
    for held in held.windows(2) {
        let each = (held[1] - held[0]) / i64::from(STREAMS) - handler;
        assert!((1..=848).contains(&each), "{each} bytes a stream, beside {handler} of its handler");
    }
}

/// Large messages that are over leave no more than the limit, also while small ones go on.
#[test]
fn buffers_that_came_back_are_kept_up_to_the_limit_while_traffic_goes_on() {
    const CALLS: u32 = 30;
    const LARGE: usize = 40_000;
    const POOL: usize = 2 * LARGE;
    let mut config = Config::default();
    config.pool_bytes = POOL;
    let (mut connections, time) = connections_to(EchoServer::new(EchoService::new()), 2, config);
    let connection = &mut connections[1];
    let mut message = b"\x0a\xc0\xb8\x02".to_vec();
    message.resize(message.len() + LARGE, b'x');
    let body = envelope(&message);
    for n in 0..CALLS {
        let id = 2 * n + 1;
        connection.receive(&grpc_request(id, "/trirpc.test.v1.Echo/Say"));
        for (at, part) in body.chunks(16_384).enumerate() {
            connection.receive(&data(id, part, (at + 1) * 16_384 >= body.len()));
        }
    }
    let in_flight = connection.held;
    assert!(in_flight > 20 * LARGE as i64, "the answers wait for the connection's window");
    connection.receive(&window_update(0, 1 << 30));
    for n in CALLS..CALLS + 2 {
        time.advance(Duration::from_millis(600));
        let id = 2 * n + 1;
        let call = [grpc_request(id, "/trirpc.test.v1.Echo/Say"), data(id, &envelope(b"\x0a\x02hi"), true)].concat();
        connection.receive(&call);
    }
    assert_eq!(connection.session.open_calls(), 0);
    // One pool of each direction, and what a connection has between calls.
    assert_held(&connections, 2 * POOL as i64 + 40 * 1024);
}
