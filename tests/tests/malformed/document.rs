//! `docs/malformed.md`: our answers, which the other modules assert, beside those of others.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::{env, fs};

use trirpc_tests::sources::{read, root};

use crate::exchange::OK;
use crate::{client, server};

const HEAD: &str = "# Malformed input

What trirpc makes of peers that break the rules, or come near it, beside what other implementations make of the same
bytes. The column trirpc is asserted by `cargo test -p trirpc-tests --test malformed`, in memory and over sockets; the
others were recorded in November 2026: grpc-go 1.85.0, connect-go 1.21.1, dubbo-go 3.3.2, dubbo-java 3.3.6, grpc-java
1.84.2, grpc-js 1.14.7, connect-es 2.2.0, dubbo-js 3.0.0-alpha, grpcio 1.85.3 (`tests/golden/probe`).

This file is written by `TRIRPC_WRITE_DOCS=1 cargo test -p trirpc-tests --test malformed`, which fails without the
variable where it is not current. `TRIRPC_PROBE=HOST:PORT cargo test -p trirpc-tests --test malformed socket_answers`
puts the questions of the first table to another server of `trirpc.test.v1.Echo`.
";

const SERVERS: &str = "
## Requests

`ok`: a unary reply and success. A number up to 17: that gRPC status, under HTTP 200; `with N`: behind N messages. A
larger number: that HTTP status, with a gRPC status after `+`. `RST`, `GOAWAY`: what HTTP/2 says, alone or behind the
answer; trirpc's connections survive every row. `open`: the stream is still open.
";

const MORE_REQUESTS: &str = "
### More of them

Only trirpc was asked these.
";

const CLIENTS: &str = "
## Responses

`ok`: the call succeeds. A number: it ends with that code. `null`: no reply and no error.
";

/// A recorded table: the names of its columns, and its rows by name.
struct Recorded {
    columns: Vec<String>,
    rows: Vec<(String, Vec<String>)>,
}

impl Recorded {
    fn read(file: &str) -> Self {
        let text = read(&root().join("tests/golden/probe").join(file));
        let mut lines = text.lines().map(|line| {
            let mut cells = line.split('\t').map(str::to_owned);
            (cells.next().unwrap_or_default(), cells.collect())
        });
        let (_, columns) = lines.next().expect("a head");
        Self { columns, rows: lines.collect() }
    }

    /// Those rows of which we have one too, behind ours.
    fn beside(&self, ours: &BTreeMap<String, String>, out: &mut String) {
        let row = |out: &mut String, cells: &[&str]| writeln!(out, "| {} |", cells.join(" | ")).unwrap();
        let columns: Vec<&str> = self.columns.iter().map(String::as_str).collect();
        row(out, &[&["case", "trirpc"], &columns[..]].concat());
        row(out, &vec!["---"; columns.len() + 2]);
        for (name, theirs) in &self.rows {
            let Some(ours) = ours.get(name) else { continue };
            let theirs: Vec<String> = theirs.iter().map(|shape| short(shape)).collect();
            let theirs: Vec<&str> = theirs.iter().map(String::as_str).collect();
            row(out, &[&[name.as_str(), ours.as_str()], &theirs[..]].concat());
        }
    }
}

/// A [shape](crate::exchange::Answer::shape), shorter.
fn short(shape: &str) -> String {
    match shape.strip_prefix(OK) {
        Some(rest) => format!("ok{rest}"),
        None => {
            let shape = shape.replace(" H+T ", " T ");
            shape.strip_prefix("200 T ").map_or_else(|| shape.replace(" T ", " + "), str::to_owned)
        }
    }
}

fn render() -> String {
    let (requests, responses) = (server::rows(), client::rows());
    let ours: BTreeMap<String, String> =
        requests.iter().map(|(name, _, shape, _)| ((*name).to_owned(), short(shape))).collect();
    let recorded = Recorded::read("servers.tsv");
    let mut out = format!("{HEAD}{SERVERS}\n");
    recorded.beside(&ours, &mut out);
    let _ = write!(out, "{MORE_REQUESTS}\n| case | trirpc |\n| --- | --- |\n");
    for (name, _, shape, _) in &requests {
        if !recorded.rows.iter().any(|(known, _)| known == name) {
            let _ = writeln!(out, "| {name} | {} |", short(shape));
        }
    }
    let _ = writeln!(out, "{CLIENTS}");
    let code = |told: &str| told.split(' ').next().unwrap_or_default().to_owned();
    let ours = responses.iter().map(|(name, _, told)| (name.clone(), code(told))).collect();
    Recorded::read("clients.tsv").beside(&ours, &mut out);
    out
}

#[test]
fn the_document_says_what_the_tests_assert() {
    let (path, document) = (root().join("docs/malformed.md"), render());
    if env::var_os("TRIRPC_WRITE_DOCS").is_some_and(|value| value == "1") {
        fs::write(&path, &document).expect("docs/malformed.md can be written");
    }
    assert!(
        path.exists() && read(&path) == document,
        "docs/malformed.md says otherwise: TRIRPC_WRITE_DOCS=1 writes it anew"
    );
}

/// Every request and every response that others were asked is either a row of ours, or is named here.
#[test]
fn no_recorded_case_is_forgotten() {
    // Codecs other than proto, and what only a service with groups and versions can tell.
    let left_out =
        |name: &str| name.starts_with("triple-") || ["panic", "connect-version", "tri-service-timeout"].contains(&name);
    let elsewhere = [
        "group-version",
        "version-1.0.0",
        // Time passes in them: server.rs, "a deadline is told".
        "timeout-fires",
        // Their outcome is more than a code: client.rs, "details never change the status".
        "details-bad-base64",
        "details-code-differs",
        "details-padded",
        "message-latin1",
    ];
    let requests = server::rows().into_iter().map(|(name, ..)| name.to_owned());
    let ours: Vec<String> = requests.chain(client::rows().into_iter().map(|(name, ..)| name)).collect();
    for file in ["servers.tsv", "clients.tsv"] {
        for (name, _) in Recorded::read(file).rows {
            let known = ours.contains(&name) || left_out(&name) || elsewhere.contains(&&*name);
            assert!(known, "{file}: {name}");
        }
    }
}
