//! h2spec (strict mode), against our server and against our client.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use smol::Timer;
use smol::future::or;
use smol::net::TcpStream;
use trirpc::client::UnaryCall;
use trirpc::core::{Endpoint, HttpVersion};
use trirpc::proto::Raw;
use trirpc::rpc::{Io, MethodCodec, handshake};
use trirpc::smol::SmolTime;
use trirpc::{Bytes, CallKind, Config, Method};
use trirpc_tests::process::Program;

use super::{Bench, Outcome, broken, output};

pub(crate) const PART: &str = "h2spec";
/// As this word's program, this test is the client that h2spec starts for each of its cases.
pub(crate) const CLIENT: &str = "h2spec-client";

/// All cases of the version that is installed.
const SERVER_CASES: usize = 146;
const CLIENT_CASES: usize = 57;

const H2SPEC: Program = Program::Native("bin/h2spec", &[]);

/// `h2:F28` and nearly every other rule of a server.
pub(crate) fn server(bench: &Bench) -> Outcome {
    let server = bench.server().map_err(broken)?;
    judge(command(bench).args(["server", &server.addr.port().to_string()]), SERVER_CASES)
}

/// The cases of a client, in shares that run beside each other: each case takes a second.
const SHARES: [(&str, usize); 6] = [
    ("client/1,client/4", 8),
    ("client/5.1", 11),
    ("client/5.4,client/5.5,client/6.10", 9),
    ("client/6.1,client/6.2,client/6.3,client/6.4", 11),
    ("client/6.5", 8),
    ("client/6.7,client/6.8,client/6.9", 10),
];

pub(crate) fn client(bench: &Bench) -> Outcome {
    let own = std::env::current_exe().map_err(broken)?;
    let mut port = free_ports(CLIENT_CASES as u16).ok_or("there are no free ports in a row")?;
    assert_eq!(SHARES.iter().map(|(_, cases)| cases).sum::<usize>(), CLIENT_CASES);
    thread::scope(|scope| {
        let runs = SHARES.map(|(sections, cases)| {
            let mut command = command(bench);
            command.args(["client", &port.to_string(), sections]).arg(&own).arg(CLIENT);
            port += cases as u16;
            scope.spawn(move || judge(&mut command, cases))
        });
        runs.into_iter().try_for_each(|run| run.join().unwrap_or_else(|_| Err("panicked".to_owned())))
    })
}

fn command(bench: &Bench) -> Command {
    bench.installed.command(PART, &H2SPEC).expect("only what is installed is run")
}

/// Times that h2spec may give up before it has judged, or find a client gone that has stayed for its time: on a busy machine
/// either of them may be later than the other one waits.
const ATTEMPTS: usize = 3;

/// The last line counts the cases, and those that failed are told before it.
fn judge(command: &mut Command, cases: usize) -> Outcome {
    let counted = format!("{cases} tests, {cases} passed, 0 skipped, 0 failed");
    let mut text = String::new();
    for _ in 0..ATTEMPTS {
        text = output(command)?.0;
        if text.lines().any(|line| line.ends_with(&counted)) {
            return Ok(());
        }
        if text.contains(" tests, ") && !text.contains("Actual: Connection closed") {
            break;
        }
    }
    let told = text.split("Failures:").nth(1).unwrap_or(&text);
    // Its listeners complain while it ends.
    let told: Vec<_> = told.lines().filter(|line| !line.ends_with("use of closed network connection")).collect();
    Err(format!("not `{counted}`:\n{}", told.join("\n")))
}

/// The first of so many ports in a row that nobody listens on, below those that the system gives away.
fn free_ports(count: u16) -> Option<u16> {
    let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let firsts = (0..100).map(|n| 20_000 + (std::process::id() as u16 + n) % 100 * 100);
    firsts.into_iter().find(|&first| (first..first + count).all(is_free))
}

static ASK: Method<Bytes, Bytes> =
    Method::new("/h2spec.Server/Ask", CallKind::Unary, false, &[MethodCodec::new(&Raw::PROTO)]);

/// How long the client stays when it has its answer, or none: h2spec looks whether it still answers PING. A case has to
/// end within three seconds.
const LINGER: Duration = Duration::from_millis(1500);

/// Makes one call, and stays on the connection until that ends, or for some time.
pub(crate) fn be_client(url: &str) -> ExitCode {
    let addr = url.strip_prefix("http://").and_then(|rest| rest.strip_suffix('/')).unwrap_or(url);
    let Ok(addr) = addr.parse::<SocketAddr>() else { return ExitCode::FAILURE };
    smol::block_on(async {
        let Ok(socket) = TcpStream::connect(addr).await else { return ExitCode::FAILURE };
        let endpoint = Endpoint::http(addr.to_string());
        let config = Arc::new(Config::default());
        let (session, driver) = handshake(Io::new(socket), config, endpoint, HttpVersion::Http2, SmolTime::new());
        let call = smol::spawn(async move { UnaryCall::new(session, &ASK, Bytes::from_static(b"ask")).await.is_ok() });
        let ends = async { drop(driver.await) };
        let late = async {
            Timer::after(LINGER).await;
        };
        or(ends, late).await;
        drop(call);
        ExitCode::SUCCESS
    })
}
