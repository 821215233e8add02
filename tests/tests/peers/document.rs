//! `docs/interop.md`: the tables of the last run that wrote it.

use std::fmt::Write;
use std::{fs, io};

use trirpc_tests::sources::{read, root};

use crate::table::Table;

const HEAD: &str = "# Interoperability

trirpc against the libraries that people run, in both directions: every cell is a client and a server that spoke with
each other over a socket. `ok [n]` passed by asserting that the peer does what note n says.

This file is written by `TRIRPC_WRITE_DOCS=1 cargo test -p trirpc-tests --test peers`; without the variable the same
command makes all calls again, and fails where a verdict is not the one below. What the cases do: `tests/peers`.
";

/// The document that these tables make.
pub(crate) fn render(tables: &[Table], versions: &[String]) -> String {
    let mut out = HEAD.to_owned();
    let _ = writeln!(out, "\nPeers: {}.", versions.join(", "));
    for table in tables {
        let _ = write!(out, "\n## {}\n\n{}", table.title, table.to_markdown());
    }
    out
}

/// Whether the document in the working copy says the same; it is written first if the environment asks for it.
pub(crate) fn is_current(document: &str) -> io::Result<bool> {
    let path = root().join("docs/interop.md");
    if std::env::var_os("TRIRPC_WRITE_DOCS").is_some_and(|value| value == "1") {
        fs::create_dir_all(root().join("docs"))?;
        fs::write(&path, document)?;
    }
    Ok(path.exists() && read(&path) == document)
}

/// The pinned versions, as `grpcio 1.85.3`.
pub(crate) fn versions() -> Vec<String> {
    let pins = |file: &str| read(&root().join("tests/peers").join(file));
    let between = |text: String, start: &str, end: char| {
        let version = text.split_once(start).and_then(|(_, rest)| rest.split(end).next()).unwrap_or("?");
        version.trim_start_matches('v').to_owned()
    };
    let go = |module: &str| between(pins("go/go.mod"), &format!("{module} "), '\n');
    vec![
        format!("grpcio {}", between(pins("grpcio/requirements.txt"), "grpcio==", '\n')),
        format!("tonic {}", between(pins("tonic/Cargo.lock"), "name = \"tonic\"\nversion = \"", '"')),
        format!("grpc-go {}", go("google.golang.org/grpc")),
        format!("connect-go {}", go("connectrpc.com/connect")),
        format!("dubbo-go {}", go("dubbo.apache.org/dubbo-go/v3")),
        format!("grpc-js {}", between(pins("node/package.json"), "\"@grpc/grpc-js\": \"", '"')),
        format!("dubbo-java {}", between(pins("java/pom.xml"), "<dubbo.version>", '<')),
    ]
}
