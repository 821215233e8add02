//! The same rows over real sockets: a hand-made client of a server, and hand-made servers of our channel.

use std::env;
use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use trirpc::proto::test_service::SayRequest;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc::{Channel, Connect, Gzip, Router, Server};
use trirpc_cli::echo::EchoService;
use trirpc_tests::frames::{PREFACE, settings, settings_ack};
use trirpc_tests::trace::{Frame, Side, Trace};

use crate::client::{Step, frames};
use crate::exchange::{Answer, Request};
use crate::{client, server};

/// An answer is there by then, or it is another.
const PATIENCE: Duration = Duration::from_secs(5);
/// For so long nothing must come where nothing is to come.
const SILENCE: Duration = Duration::from_millis(100);

/// What a server answers to one request on a connection of its own; the wait ends with the answer that is wanted.
fn ask(addr: SocketAddr, request: &Request, wanted: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_millis(20)))?;
    let sent = [PREFACE, &settings(&[]), &settings_ack(), &request.frames(1)].concat();
    let mut trace = Trace::with_hostile(Side::Client);
    trace.observe(Side::Client, &sent);
    stream.write_all(&sent)?;
    let (started, mut buffer) = (Instant::now(), [0; 16 * 1024]);
    let patience = if wanted.ends_with("open") { SILENCE } else { PATIENCE };
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(Answer::on(1, trace.sent_by(Side::Server)).shape() + " closed"),
            Ok(n) => trace.observe(Side::Server, &buffer[..n]),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
        let shape = Answer::on(1, trace.sent_by(Side::Server)).shape();
        let is_over = !wanted.ends_with("open") && shape == wanted;
        if is_over || started.elapsed() > patience {
            return Ok(shape);
        }
    }
}

/// `TRIRPC_PROBE=HOST:PORT` puts the questions to another server: `tri serve`, or one that is to be compared with it.
#[test]
fn a_server_on_a_socket_answers_the_same() {
    let elsewhere = env::var("TRIRPC_PROBE").ok().map(|addr| addr.parse::<SocketAddr>().expect("HOST:PORT"));
    let addr = elsewhere.unwrap_or_else(|| {
        smol::block_on(async {
            let router = Router::new().add(EchoServer::new(EchoService::new())).accept_compression(Gzip::default());
            let server = Server::builder(router).bind("127.0.0.1:0").await.expect("an address");
            let uri = server.local_addr().uri();
            smol::spawn(server.serve()).detach();
            uri.trim_start_matches("http://").parse().expect("an address")
        })
    });
    let mut wrong = String::new();
    for (name, request, wanted, _) in server::rows() {
        let shape = ask(addr, &request, wanted).unwrap_or_else(|error| error.to_string());
        if elsewhere.is_some() {
            println!("{name:28} {shape}");
        }
        if shape != wanted {
            writeln!(wrong, "{name}: `{shape}`, not `{wanted}`").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Answers every complete request with `steps`, on every connection, for as long as the test runs.
fn answer_all(steps: Vec<Step>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let steps = steps.clone();
            thread::spawn(move || answer(stream, &steps));
        }
    });
    addr
}

fn answer(mut stream: TcpStream, steps: &[Step]) -> io::Result<()> {
    let mut trace = Trace::with_hostile(Side::Server);
    let mut buffer = [0; 16 * 1024];
    let mut seen = 0;
    stream.write_all(&[settings(&[]), settings_ack()].concat())?;
    loop {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        trace.observe(Side::Client, &buffer[..n]);
        let is_end = |frame: &Frame| matches!(frame, Frame::Data { end: true, .. });
        let new = &trace.entries()[seen..];
        for stream_id in new.iter().filter(|entry| is_end(&entry.frame)).map(|entry| entry.stream) {
            stream.write_all(&frames(steps, stream_id))?;
        }
        seen = trace.entries().len();
    }
}

#[test]
fn a_channel_on_sockets_comes_to_the_same_outcome() {
    let mut wrong = String::new();
    for (name, steps, wanted) in client::rows() {
        let addr = answer_all(steps);
        let result = smol::block_on(async {
            let channel = Channel::connect(format!("http://{addr}")).await.expect("a connection");
            let echo = EchoClient::new(channel.accept_compression(Gzip::default()));
            echo.say(SayRequest { text: "hi".into(), ..SayRequest::default() }).timeout(PATIENCE).await
        });
        let code = result.map_or_else(|status| status.raw_code().to_string(), |_| "ok".to_owned());
        if wanted.split(' ').next() != Some(&code) {
            writeln!(wrong, "{name}: `{code}`, not `{wanted}`").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
