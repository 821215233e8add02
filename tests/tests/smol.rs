//! Channels and servers on real sockets: few, and only what a simulated network cannot show.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smol::channel::{Receiver, Sender, unbounded};
use smol::{Executor, Task};
use trirpc::proto::HealthService;
use trirpc::proto::grpc::health::v1::HealthCheckRequest;
use trirpc::proto::grpc::health::v1::health_check_response::ServingStatus;
use trirpc::proto::grpc::health::v1::health_client::HealthClient;
use trirpc::proto::grpc::health::v1::health_server::HealthServer;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc::proto::test_service::{SayRequest, SleepRequest};
use trirpc::server::{Served, ServerBuilder};
use trirpc::{Channel, Code, Connect, Origin, Router, Server, Status};
use trirpc_cli::echo::{EchoService, Observation};
use trirpc_tests::frames;

const LOCAL: &str = "127.0.0.1:0";

/// A server that runs, how to stop it, and what its handlers report.
struct Running {
    uri: String,
    stop: Sender<()>,
    served: Task<io::Result<Served>>,
    seen: Receiver<Observation>,
}

impl Running {
    async fn start(addr: &str, options: impl FnOnce(ServerBuilder) -> ServerBuilder) -> Self {
        let (tell, seen) = unbounded();
        let echo = EchoService::new().observed_by(move |observation| drop(tell.try_send(observation)));
        let router = Router::new().add(EchoServer::new(echo));
        let server = options(Server::builder(router)).bind(addr).await.expect("an address");
        let uri = server.local_addr().uri();
        let (stop, stopped) = unbounded::<()>();
        let served = smol::spawn(server.serve_until(async move {
            let _ = stopped.recv().await;
        }));
        Self { uri, stop, served, seen }
    }

    async fn client(&self) -> EchoClient {
        EchoClient::new(Channel::connect(&self.uri).await.expect("a connection"))
    }

    /// Waits until a handler has started.
    async fn started(&self) {
        while !matches!(self.seen.recv().await, Ok(Observation::Started { .. })) {}
    }

    async fn stop(self) -> Served {
        drop(self.stop);
        self.served.await.expect("the listener was in order")
    }
}

async fn say(client: &EchoClient, timeout: Duration) -> Result<String, Status> {
    let request = SayRequest { text: "hi".into(), ..Default::default() };
    client.say(request).timeout(timeout).await.map(|reply| reply.text)
}

fn sleep(client: &EchoClient, millis: u32) -> Task<Result<String, Status>> {
    let call = client.sleep(SleepRequest { millis });
    smol::spawn(async move { call.await.map(|reply| reply.text) })
}

const SOON: Duration = Duration::from_secs(10);

#[test]
fn a_server_that_restarts_between_two_calls_is_reached_again() {
    smol::block_on(async {
        let first = Running::start(LOCAL, |server| server).await;
        let (uri, client) = (first.uri.clone(), first.client().await);
        assert_eq!(say(&client, SOON).await.expect("the first server"), "echo:hi");
        assert_eq!(first.stop().await.connections, 1);
        let addr = uri.strip_prefix("http://").expect("TCP");
        let second = Running::start(addr, |server| server).await;
        assert_eq!(say(&client, SOON).await.expect("the second server"), "echo:hi");
        assert_eq!(second.stop().await.connections, 1);
    });
}

#[test]
fn a_graceful_shutdown_lets_a_running_call_end_and_refuses_new_connections() {
    smol::block_on(async {
        let server = Running::start(LOCAL, |server| server).await;
        let client = server.client().await;
        let running = sleep(&client, 300);
        server.started().await;
        let addr = server.uri.strip_prefix("http://").expect("TCP").to_owned();
        let stopping = smol::spawn(server.stop());
        // Refused while the call is still running, not only after.
        let refused = smol::unblock(move || {
            let begin = Instant::now();
            while TcpStream::connect(&addr).is_ok() {
                assert!(begin.elapsed() < SOON, "connections are still accepted");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        refused.await;
        assert!(!running.is_finished());
        assert_eq!(running.await.expect("it may end"), "slept");
        let served = stopping.await;
        assert_eq!(served.cut_off, 0);
    });
}

#[test]
fn what_does_not_end_within_the_drain_timeout_is_cut_off() {
    smol::block_on(async {
        let begin = Instant::now();
        let server = Running::start(LOCAL, |server| server.drain_timeout(Duration::from_millis(100))).await;
        let client = server.client().await;
        let running = sleep(&client, 60_000);
        server.started().await;
        let seen = server.seen.clone();
        assert_eq!(server.stop().await.cut_off, 1);
        let status = running.await.expect_err("cut off");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        while !matches!(seen.recv().await, Ok(Observation::Dropped { method: "Sleep" })) {}
        assert!((Duration::from_millis(100)..Duration::from_secs(5)).contains(&begin.elapsed()));
    });
}

/// A peer that is connected and says nothing, not even to GOAWAY, does not hold up the end.
#[test]
fn a_peer_that_does_not_answer_is_given_up_at_the_end_of_the_drain_timeout() {
    smol::block_on(async {
        let server = Running::start(LOCAL, |server| server.drain_timeout(Duration::from_millis(100))).await;
        let addr = server.uri.strip_prefix("http://").expect("TCP").to_owned();
        let mute = smol::unblock(move || TcpStream::connect(addr)).await.expect("a connection");
        // An answer shows that the server has accepted both.
        say(&server.client().await, SOON).await.expect("answered");
        let begin = Instant::now();
        let served = server.stop().await;
        assert_eq!(served.connections, 2);
        assert!(begin.elapsed() < Duration::from_secs(6), "{:?}", begin.elapsed());
        drop(mute);
    });
}

#[test]
fn connections_above_the_cap_wait_until_one_ends() {
    smol::block_on(async {
        let server = Running::start(LOCAL, |server| server.max_connections(1)).await;
        let first = server.client().await;
        say(&first, SOON).await.expect("the only one");
        let second = server.client().await;
        let status = say(&second, Duration::from_millis(200)).await.expect_err("nobody serves it");
        assert_eq!((status.code(), status.origin()), (Code::DeadlineExceeded, Origin::Local));
        drop(first);
        say(&second, SOON).await.expect("its turn");
    });
}

#[test]
fn an_address_in_use_is_named_in_the_error() {
    smol::block_on(async {
        let server = Server::builder(Router::new()).bind(LOCAL).await.expect("a free port");
        let addr = server.local_addr().to_string();
        let error = Server::builder(Router::new()).bind(&addr).await.expect_err("in use");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(error.to_string(), format!("cannot listen on {addr}: the address is in use"));
    });
}

#[test]
fn a_channel_to_nowhere_says_at_once_where_and_why() {
    smol::block_on(async {
        let addr = std::net::TcpListener::bind(LOCAL).and_then(|socket| socket.local_addr()).expect("a port");
        let status = Channel::connect(format!("http://{addr}")).await.expect_err("nobody listens");
        assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport));
        assert!(status.is_unprocessed());
        assert!(status.message().starts_with(&format!("cannot connect to http://{addr}: ")), "{status}");
        let status = Channel::connect("localhost:1").await.expect_err("no target");
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains("http://host:port"), "{status}");
        let status = Channel::connect("https://localhost:1").await.expect_err("no TLS yet");
        assert!(status.message().contains("TLS"), "{status}");
    });
}

/// h2:Q13. The kernel answers unread input with a reset, which destroys what we wrote last: the status of a call and
/// our GOAWAY must arrive all the same.
#[test]
fn a_server_that_closes_with_unread_input_loses_neither_trailers_nor_go_away() {
    smol::block_on(async {
        let server = Running::start(LOCAL, |server| server).await;
        let addr = server.uri.strip_prefix("http://").expect("TCP").to_owned();
        let answer = smol::unblock(move || {
            let mut socket = TcpStream::connect(addr).expect("a connection");
            socket.set_read_timeout(Some(SOON)).expect("a timeout");
            let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
            bytes.extend(frames::settings(&[]));
            bytes.extend(frames::grpc_request(1, "/no.such.Service/Method"));
            bytes.extend(frames::data(1, &frames::envelope(b"x"), true));
            socket.write_all(&bytes).expect("the socket takes it");
            // The status lies in our kernel, where a reset would destroy it.
            let mut peeked = [0; 1024];
            while !frame_kinds(&peeked).contains(&1) {
                assert_ne!(socket.peek(&mut peeked).expect("an answer"), 0);
            }
            // A connection error, and then more than the server reads before it sees that.
            let mut bytes = frames::data(0, b"never on stream 0", false);
            bytes.resize(300_000, 0);
            for _ in 0..2 {
                socket.write_all(&bytes).expect("the socket takes it");
                // By then a server that does not wait is gone, and its kernel has answered.
                std::thread::sleep(Duration::from_millis(50));
            }
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).map(|_| answer)
        });
        let kinds = frame_kinds(&answer.await.expect("an end, not a reset"));
        assert!(kinds.contains(&1), "HEADERS with the status in {kinds:?}");
        assert_eq!(kinds.last(), Some(&7), "GOAWAY is the last of {kinds:?}");
    });
}

/// Types of the frames that begin in `bytes`.
fn frame_kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = bytes {
        kinds.push(*kind);
        bytes = rest.get(u32::from_be_bytes([0, *a, *b, *c]) as usize..).unwrap_or_default();
    }
    kinds
}

/// Nothing runs on smol's own threads when an executor is handed in.
#[test]
fn an_executor_that_is_handed_in_runs_everything() {
    let executor = Arc::new(Executor::new());
    let (tell, threads) = unbounded();
    let echo = EchoService::new().observed_by(move |_| {
        let _ = tell.try_send(std::thread::current().id());
    });
    let router = Router::new().add(EchoServer::new(echo));
    smol::block_on(executor.run(async {
        let server = Server::builder(router).executor(Arc::clone(&executor)).bind(LOCAL).await.expect("a port");
        let uri = server.local_addr().uri();
        let serving = executor.spawn(server.serve());
        let channel = Channel::connect(uri).executor(Arc::clone(&executor)).await.expect("a connection");
        say(&EchoClient::new(channel), SOON).await.expect("an answer");
        drop(serving);
    }));
    assert_eq!(threads.try_recv().expect("the handler ran"), std::thread::current().id());
}

/// Dropping the future of a server is the abrupt way to stop it.
#[test]
fn a_server_that_is_dropped_closes_its_connections() {
    smol::block_on(async {
        let server = Running::start(LOCAL, |server| server).await;
        let client = server.client().await;
        let running = sleep(&client, 60_000);
        server.started().await;
        drop(server.served);
        let status = running.await.expect_err("its server is gone");
        assert_eq!((status.code(), status.origin()), (Code::Unavailable, Origin::Transport), "{status}");
    });
}

#[cfg(unix)]
#[test]
fn a_unix_socket_carries_calls_and_its_file_goes_with_the_server() {
    let path = std::env::temp_dir().join(format!("trirpc-{}.sock", std::process::id()));
    let addr = format!("unix:{}", path.display());
    // Left by a server that was killed: nobody listens there.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a free path"));
    smol::block_on(async {
        let server = Running::start(&addr, |server| server).await;
        assert_eq!(server.uri, addr);
        let busy = Server::builder(Router::new()).bind(&addr).await.expect_err("in use");
        assert_eq!(busy.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(say(&server.client().await, SOON).await.expect("an answer"), "echo:hi");
        server.stop().await;
    });
    assert!(!path.exists());
}

/// tri:6.4. A service that is not known yet can be watched; the end of the server ends the watch.
#[test]
fn a_health_watch_follows_every_change_and_ends_with_the_server() {
    use ServingStatus::{NotServing, ServiceUnknown, Serving};

    smol::block_on(async {
        let health = HealthService::new();
        let router = Router::new().add(HealthServer::new(health.clone()));
        let server = Server::builder(router).bind(LOCAL).await.expect("a port");
        let uri = server.local_addr().uri();
        let serving = smol::spawn(server.serve());
        let client = HealthClient::new(Channel::connect(uri).await.expect("a connection"));
        let request = HealthCheckRequest { service: "shop.Cart".into() };
        assert_eq!(client.check(request.clone()).await.expect_err("unknown").code(), Code::NotFound);
        let mut watch = client.watch(request.clone()).await.expect("a stream");
        let mut told = Vec::new();
        for status in [ServiceUnknown, Serving, NotServing] {
            if status != ServiceUnknown {
                health.set("shop.Cart", status);
            }
            // The same again is no change.
            health.set("", Serving);
            told.push(watch.next().await.expect("health").expect("a change").status());
        }
        assert_eq!(told, [ServiceUnknown, Serving, NotServing]);
        health.set("shop.Cart", Serving);
        assert_eq!(watch.next().await.expect("health").expect("a change").status(), Serving);
        health.shut_down();
        health.set("shop.Cart", Serving);
        assert_eq!(watch.next().await.expect("health").expect("a change").status(), NotServing);
        assert_eq!(watch.next().await.expect_err("the end").code(), Code::Unavailable);
        assert_eq!(client.check(request).await.expect("known").status(), NotServing);
        drop(serving);
    });
}
