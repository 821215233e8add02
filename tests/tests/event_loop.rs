//! Channels and servers on event loops: one thread each, from the socket to the handler.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use smol::channel::unbounded;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc::proto::test_service::{SayRequest, SleepRequest};
use trirpc::{Channel, Code, Connect, EventLoop, Router, Server, Status};
use trirpc_cli::echo::EchoService;
use trirpc_rpc::{CallInfo, Interceptor};

const LOCAL: &str = "127.0.0.1:0";
const SOON: Duration = Duration::from_secs(10);

/// Remembers which thread served the calls of which connection.
#[derive(Clone, Default)]
struct Threads(Arc<Mutex<HashMap<String, HashSet<ThreadId>>>>);

impl Interceptor for Threads {
    fn on_request(&self, call: &mut CallInfo) -> Result<(), Status> {
        let peer = call.peer().expect("a socket").to_owned();
        self.0.lock().expect("no panic").entry(peer).or_default().insert(thread::current().id());
        Ok(())
    }
}

impl Threads {
    fn router(&self) -> Router {
        Router::new().add(EchoServer::new(EchoService::new())).interceptor(self.clone())
    }

    /// The threads of each connection.
    fn seen(&self) -> Vec<HashSet<ThreadId>> {
        self.0.lock().expect("no panic").values().cloned().collect()
    }
}

async fn say(client: &EchoClient) -> Result<String, Status> {
    client.say(SayRequest { text: "hi".into(), ..Default::default() }).timeout(SOON).await.map(|reply| reply.text)
}

/// bg:V9. Every connection stays on the thread that accepted it, and the system spreads connections over the threads.
#[test]
fn each_connection_is_served_by_one_core_and_all_cores_serve() {
    const CORES: usize = 3;
    const CONNECTIONS: usize = 64;

    let threads = Threads::default();
    let served = async {
        let server = Server::builder(threads.router()).cores(CORES).bind(LOCAL).await.expect("a port");
        let uri = server.local_addr().uri();
        let (stop, stopped) = unbounded::<()>();
        let serving = smol::spawn(server.serve_until(async move {
            let _ = stopped.recv().await;
        }));
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(EchoClient::new(Channel::connect(&uri).await.expect("a connection")));
        }
        for _ in 0..5 {
            for client in &clients {
                assert_eq!(say(client).await.expect("an answer"), "echo:hi");
            }
        }
        drop(stop);
        let ended = serving.await.expect("the listeners were in order");
        assert_eq!((ended.connections, ended.cut_off), (CONNECTIONS as u64, 0));
        assert_eq!(say(&clients[0]).await.expect_err("nobody listens").code(), Code::Unavailable);
    };
    // A core that accepts nothing leaves the connections that the system gave it without an answer.
    smol::block_on(smol::future::or(served, async {
        smol::Timer::after(3 * SOON).await;
        panic!("connections were never served");
    }));
    let seen = threads.seen();
    assert_eq!(seen.len(), CONNECTIONS);
    assert!(seen.iter().all(|threads| threads.len() == 1), "a connection has moved: {seen:?}");
    let all: HashSet<_> = seen.into_iter().flatten().collect();
    assert!(!all.contains(&thread::current().id()));
    // Of 64 connections a core gets none once in 10^11 times.
    if cfg!(target_os = "linux") {
        assert_eq!(all.len(), CORES, "the accept queue is sharded");
    }
}

/// The one builder line, on both sides: nothing leaves the thread.
#[test]
fn on_an_event_loop_everything_runs_on_its_thread() {
    let threads = Threads::default();
    let mut event_loop = EventLoop::new().expect("a loop");
    let server = Server::builder(threads.router()).executor(&event_loop).bind(LOCAL);
    let server = event_loop.run(server).expect("a port");
    let channel = Channel::connect(server.local_addr().uri()).executor(&event_loop);
    let serving = event_loop.spawn(server.serve());
    event_loop.run(async {
        let client = EchoClient::new(channel.await.expect("a connection"));
        for _ in 0..20 {
            assert_eq!(say(&client).await.expect("an answer"), "echo:hi");
        }
        let long = client.say(SayRequest { text: "x".repeat(300_000), ..Default::default() });
        assert_eq!(long.await.expect("an answer").text.len(), 300_005);
        // A deadline is a timer of the loop on both sides.
        let begin = Instant::now();
        let late = client.sleep(SleepRequest { millis: 60_000 }).timeout(Duration::from_millis(50));
        assert_eq!(late.await.expect_err("too late").code(), Code::DeadlineExceeded);
        assert!((Duration::from_millis(50)..SOON).contains(&begin.elapsed()));
        serving.cancel().await;
        assert_eq!(say(&client).await.expect_err("its server is gone").code(), Code::Unavailable);
    });
    assert_eq!(threads.seen(), [HashSet::from([thread::current().id()])]);
}

/// Dropping the future of a server is the abrupt way to stop it, also when others run it.
#[test]
fn a_server_on_cores_that_is_dropped_closes_its_connections_and_its_port() {
    smol::block_on(async {
        let server = Server::builder(Threads::default().router()).cores(2).bind(LOCAL).await.expect("a port");
        let address = server.local_addr().as_tcp().expect("TCP");
        let serving = smol::spawn(server.serve());
        let client = EchoClient::new(Channel::connect(format!("http://{address}")).await.expect("a connection"));
        say(&client).await.expect("an answer");
        let mut socket = TcpStream::connect(address).expect("a connection");
        socket.set_read_timeout(Some(SOON)).expect("a socket option");
        serving.cancel().await;
        let end = smol::unblock(move || {
            let mut rest = Vec::new();
            socket.read_to_end(&mut rest).map(|_| ())
        });
        end.await
            .or_else(|error| if error.kind() == std::io::ErrorKind::ConnectionReset { Ok(()) } else { Err(error) })
            .expect("an end");
        let begin = Instant::now();
        while TcpStream::connect(address).is_ok() {
            assert!(begin.elapsed() < SOON, "connections are still accepted");
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(say(&client).await.expect_err("its server is gone").code(), Code::Unavailable);
    });
}

/// A Unix socket has one accept queue, which the cores share.
#[cfg(unix)]
#[test]
fn cores_share_a_unix_socket() {
    let path = std::env::temp_dir().join(format!("trirpc-cores-{}.sock", std::process::id()));
    let addr = format!("unix:{}", path.display());
    let threads = Threads::default();
    smol::block_on(async {
        let server = Server::builder(threads.router()).cores(2).bind(&addr).await.expect("a free path");
        let (stop, stopped) = unbounded::<()>();
        let serving = smol::spawn(server.serve_until(async move {
            let _ = stopped.recv().await;
        }));
        for _ in 0..10 {
            let client = EchoClient::new(Channel::connect(&addr).await.expect("a connection"));
            assert_eq!(say(&client).await.expect("an answer"), "echo:hi");
        }
        drop(stop);
        assert_eq!(serving.await.expect("in order").connections, 10);
    });
    assert!(!path.exists());
}
