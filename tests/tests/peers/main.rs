//! Live peers, in both directions: grpcio and tonic against our server, our client against theirs. Prints the table
//! peer × case; a cell that fails, fails the run.

mod cases;
mod client;
mod process;
mod relay;
mod table;

use std::io;
use std::net::SocketAddr;
use std::process::{Command, ExitCode};
use std::time::Duration;

use process::{Installed, Server};
use relay::Relay;
use table::{Cell, Column, Table};
use trirpc_tests::sources::{read, root};

const SERVICE: &str = "trirpc.test.v1.Echo";

/// Cells of the run itself, behind those of the cases.
const ONE_CONNECTION: &str = "all-on-one-connection";
const CANCELLATION_ARRIVES: &str = "cancellation-arrives";

fn main() -> ExitCode {
    // As libtest does: a word among the arguments selects tests by name.
    let mut words = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| "peers".contains(&word)) {
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        println!("peers: test");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(passed) if passed => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            println!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<bool> {
    let Some(peers) = Installed::ensure()? else {
        let required = std::env::var_os("TRIRPC_PEERS").is_some_and(|value| value == "required");
        println!("peers: NOT RUN, python3 with venv is needed (TRIRPC_PEERS=required makes this a failure)");
        return Ok(!required);
    };
    let columns = vec![
        theirs("grpcio → trirpc", peers.grpcio("client.py"))?,
        theirs("tonic → trirpc", peers.tonic("run"))?,
        ours("trirpc → grpcio", "grpcio", peers.grpcio("server.py"))?,
        ours("trirpc → tonic", "tonic", peers.tonic("serve"))?,
    ];
    let mut cases = cases::names();
    cases.extend([ONE_CONNECTION, CANCELLATION_ARRIVES].map(str::to_owned));
    let mut table = Table { cases, columns };
    table.complete();
    println!("\npeers: {}", versions().join(", "));
    table.print();
    let (passed, failed) = table.count();
    println!("peers: {passed} cells passed, {failed} failed");
    Ok(failed == 0)
}

/// The pinned versions, as `grpcio 1.85.3`.
fn versions() -> Vec<String> {
    let pins = root().join("tests/peers");
    let (python, rust) = (read(&pins.join("requirements.txt")), read(&pins.join("tonic/Cargo.lock")));
    let grpcio = python.lines().find_map(|line| line.strip_prefix("grpcio==")).unwrap_or("?");
    let tonic = rust.split_once("name = \"tonic\"\nversion = \"").and_then(|(_, rest)| rest.split('"').next());
    vec![format!("grpcio {grpcio}"), format!("tonic {}", tonic.unwrap_or("?"))]
}

/// A peer's client against our server.
fn theirs(title: &str, mut client: Command) -> io::Result<Column> {
    let mut tri = Command::new(process::tri()?);
    tri.args(["serve", "--addr", "127.0.0.1:0"]);
    let server = Server::start(tri)?;
    let relay = Relay::to(server.addr)?;
    client.args(["--addr", &relay.addr.to_string(), "--server", "trirpc"]);
    let mut column = Column::parse(title, &process::run(client)?);
    column.cells.insert(ONE_CONNECTION.to_owned(), one_connection(&relay));
    column.cells.insert(CANCELLATION_ARRIVES.to_owned(), cancellation_arrives(&server));
    Ok(column)
}

/// Our client against a peer's server.
fn ours(title: &str, name: &'static str, server: Command) -> io::Result<Column> {
    let server = Server::start(server)?;
    let relay = Relay::to(server.addr)?;
    let lines = smol::block_on(our_cases(relay.addr, name))?;
    let mut column = Column::parse(title, &lines);
    column.cells.insert(ONE_CONNECTION.to_owned(), one_connection(&relay));
    column.cells.insert(CANCELLATION_ARRIVES.to_owned(), cancellation_arrives(&server));
    Ok(column)
}

async fn our_cases(addr: SocketAddr, server: &'static str) -> io::Result<Vec<String>> {
    let peer = client::Peer::connect(addr, server).await.map_err(|status| io::Error::other(client::told(status)))?;
    Ok(cases::run(&peer).await)
}

fn one_connection(relay: &Relay) -> Cell {
    match relay.connections() {
        1 => Cell::Passed,
        n => Cell::Failed(format!("the client made {n} connections")),
    }
}

/// The deadline and the cancellation of `Sleep` each end a handler before its time.
fn cancellation_arrives(server: &Server) -> Cell {
    match server.count("dropped Sleep") {
        2 => Cell::Passed,
        n => Cell::Failed(format!("the server dropped {n} calls of Sleep, not 2")),
    }
}

/// The output of `future`, or `None` and the future dropped after `limit`.
async fn with_timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        smol::Timer::after(limit).await;
        None
    };
    smol::future::or(async { Some(future.await) }, late).await
}
