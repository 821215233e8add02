//! Live peers, in both directions: their clients against our server, our client against their servers. Prints the
//! tables peer × case and compares them with `docs/interop.md`; a cell that fails, fails the run.

mod afar;
mod cases;
mod client;
mod document;
mod fleet;
mod manners;
mod relay;
mod stand;
mod table;

use std::io;
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fleet::{PEERS, Peer};
use stand::Stand;
use table::{Cell, Column, Table};
use trirpc::Protocol;
use trirpc_tests::process::{self, Installed};

const SERVICE: &str = "trirpc.test.v1.Echo";

/// Cells of the run itself, behind those of the cases.
const CONNECTIONS: &str = "connections-are-shared";
const CANCELLATION_ARRIVES: &str = "cancellation-arrives";

/// Columns at a time: most of a column is waiting for deadlines.
const AT_ONCE: usize = 3;

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
    let installed = Arc::new(Installed::ensure(fleet::PARTS)?);
    let tri = process::tri()?;
    let is_installed = |peer: &&Peer| peer.server(&installed).is_some();
    let only = std::env::var("TRIRPC_PEER").ok();
    let is_asked_for = |peer: &&Peer| only.as_deref().is_none_or(|name| peer.name == name);
    let here: Vec<&Peer> = PEERS.iter().filter(is_installed).filter(is_asked_for).collect();
    let missing: Vec<_> = PEERS.iter().filter(|peer| !is_installed(peer)).map(|peer| peer.name).collect();

    let serve = move || {
        let mut command = Command::new(&tri);
        command.args(["serve", "--addr", "127.0.0.1:0"]);
        command
    };
    let mut columns: Vec<Work<'_>> = Vec::new();
    for peer in &here {
        let (installed, serve) = (Arc::clone(&installed), serve.clone());
        columns.push(Box::new(move || theirs(peer, &installed, Box::new(serve))));
    }
    for peer in &here {
        let installed = Arc::clone(&installed);
        columns.push(Box::new(move || ours(peer, installed)));
    }
    let streaming: Vec<&Peer> = here.iter().copied().filter(|peer| peer.protocol != Protocol::Connect).collect();
    for &peer in &streaming {
        let installed = Arc::clone(&installed);
        columns.push(Box::new(move || afar::run(peer, &installed)));
    }
    let dubbo = here.iter().find(|peer| peer.name == "dubbo-go");
    if let Some(peer) = dubbo {
        let command = |make: fn(&Peer, &Installed) -> Option<Command>| {
            let installed = Arc::clone(&installed);
            move || make(peer, &installed).expect("only installed peers are run")
        };
        let (client, server) = (command(Peer::client), command(Peer::server));
        columns.push(Box::new(move || Ok(manners::run(client, server, Box::new(serve)))));
    }
    let mut done = in_parallel(columns)?;
    let manners = done.split_off(2 * here.len() + streaming.len());
    let afar = done.split_off(2 * here.len());
    let ours = done.split_off(here.len());
    let mut cases = cases::names();
    cases.extend([CONNECTIONS, CANCELLATION_ARRIVES].map(str::to_owned));
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let mut tables = [
        Table { title: "Their client, our server", cases: cases.clone(), columns: done },
        Table { title: "Our client, their server", cases, columns: ours },
        Table { title: "Dubbo's manners", cases: names(manners::NAMES), columns: manners },
        Table { title: "Our client, their server ten milliseconds away", cases: names(afar::NAMES), columns: afar },
    ];
    let versions = document::versions();
    println!("\npeers: {}", versions.join(", "));
    let (mut passed, mut failed) = (0, 0);
    for table in &mut tables {
        table.complete();
        println!("\n{}", table.to_text());
        let count = table.count();
        (passed, failed) = (passed + count.0, failed + count.1);
    }
    println!("peers: {passed} cells passed, {failed} failed");
    if !missing.is_empty() {
        println!("peers: NOT RUN: {} (TRIRPC_PEERS=required makes this a failure)", missing.join(", "));
        return Ok(!process::are_required() && failed == 0);
    }
    if only.is_none() && failed == 0 && !document::is_current(&document::render(&tables, &versions))? {
        println!("peers: docs/interop.md says otherwise: TRIRPC_WRITE_DOCS=1 writes it anew");
        return Ok(false);
    }
    Ok(failed == 0)
}

type Work<'a> = Box<dyn FnOnce() -> io::Result<Column> + Send + 'a>;

/// Does all of it, a few at a time; the results are in the order of the work.
fn in_parallel(work: Vec<Work<'_>>) -> io::Result<Vec<Column>> {
    let results: Vec<_> = work.iter().map(|_| Mutex::new(None)).collect();
    let left = Mutex::new(work.into_iter().enumerate());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no panic under it").next();
                    let Some((at, work)) = next else { return };
                    *results[at].lock().expect("no panic under it") = Some(work());
                }
            });
        }
    });
    let result = |result: Mutex<Option<_>>| result.into_inner().expect("no panic under it").expect("all work is done");
    results.into_iter().map(result).collect()
}

/// A peer's client against our server.
fn theirs(peer: &Peer, installed: &Installed, serve: stand::Start) -> io::Result<Column> {
    let stand = Stand::start(serve)?;
    let mut client = peer.client(installed).expect("only installed peers are run");
    client.args(["--addr", &stand.addr().to_string(), "--server", "trirpc"]);
    let mut column = Column::new(peer.name);
    let mut before = stand.traffic();
    process::run(client, |line, stdin| {
        match line.as_str() {
            "restart" => {
                stand.restart()?;
                return io::Write::write_all(stdin, b"restarted\n");
            }
            "measure" => {
                // Lines come late on a busy machine: the client waits until its case can be told from the last.
                before = stand.traffic();
                return io::Write::write_all(stdin, b"measuring\n");
            }
            _ => {}
        }
        if let Some(name) = column.read(&line).filter(|name| is_compressed(peer, name)) {
            column.judge_compression(&name, (peer.compresses.0, true), stand.traffic().since(before));
        }
        Ok(())
    })?;
    finish(&mut column, &stand, peer.connections, peer.cancels.0);
    Ok(column)
}

/// A case whose bytes are judged. The clients of protocols that have unary calls only refuse the others.
fn is_compressed(peer: &Peer, case: &str) -> bool {
    case == "gzip-unary" || case == "gzip-stream" && peer.protocol == Protocol::Grpc
}

/// Our client against a peer's server.
fn ours(peer: &'static Peer, installed: Arc<Installed>) -> io::Result<Column> {
    let start = move || peer.server(&installed).expect("only installed peers are run");
    let stand = Arc::new(Stand::start(Box::new(start))?);
    let mut column = Column::new(peer.name);
    let connected = smol::block_on(client::Peer::connect(Arc::clone(&stand), peer));
    let client = connected.map_err(|status| io::Error::other(client::told(status)))?;
    for (name, case) in cases::CASES {
        let before = stand.traffic();
        let line = smol::block_on(cases::run(&client, name, *case));
        if let Some(name) = column.read(&line).filter(|name| name.starts_with("gzip-")) {
            column.judge_compression(&name, (true, peer.compresses.1), stand.traffic().since(before));
        }
    }
    finish(&mut column, &stand, (1, ""), peer.cancels.1);
    Ok(column)
}

fn finish(column: &mut Column, stand: &Stand, connections: fleet::Count, cancels: fleet::Count) {
    let seen = stand.seen();
    let cells: [(&str, Cell); 2] = [
        (CONNECTIONS, seen.connections(connections.0).because(connections.1)),
        (CANCELLATION_ARRIVES, seen.cancellation(cancels.0).because(cancels.1)),
    ];
    column.cells.extend(cells.map(|(name, cell)| (name.to_owned(), cell)));
}

/// The output of `future`, or `None` and the future dropped after `limit`.
async fn with_timeout<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        smol::Timer::after(limit).await;
        None
    };
    smol::future::or(async { Some(future.await) }, late).await
}
