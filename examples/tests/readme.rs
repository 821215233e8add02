//! The programs of the README run, and the README shows them as they are.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// `hello-server` on a port of its own; killed when dropped.
struct Server {
    child: Child,
    addr: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hello-server"));
        let mut child = command.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = String::new();
        let out = child.stdout.take().expect("piped");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let addr = line.trim_end().strip_prefix("listening on ").expect("an address").to_owned();
        Self { child, addr }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn output(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_client_reaches_the_server() {
    let server = Server::start();
    let shown = output(env!("CARGO_BIN_EXE_hello-client"), &format!("http://{}", server.addr));
    assert_eq!(shown, "Hello, world!\n1\n2\n3\n");
}

#[test]
fn the_core_alone_over_blocking_sockets_reaches_the_server() {
    let server = Server::start();
    assert_eq!(output(env!("CARGO_BIN_EXE_embed"), &server.addr), "Hello, embedder!\n");
}

/// Without this test the code in the README would rot.
#[test]
fn every_block_of_code_in_the_readme_is_part_of_a_program_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("../README.md")).expect("a README");
    let paths = [
        "proto/hello.proto",
        "build.rs",
        "src/lib.rs",
        "src/bin/hello-server.rs",
        "src/bin/hello-client.rs",
        "src/bin/embed.rs",
    ];
    let files = paths.map(|path| dedent(&fs::read_to_string(root.join(path)).expect(path)));
    let blocks: Vec<&str> = readme
        .split("\n```")
        .filter_map(|block| block.strip_prefix("rust\n").or_else(|| block.strip_prefix("proto\n")))
        .collect();
    assert!(blocks.len() >= paths.len(), "{} blocks", blocks.len());
    for block in blocks {
        let block = dedent(block);
        assert!(files.iter().any(|file| file.contains(&block)), "in none of {paths:?}:\n{block}");
    }
}

/// Indentation differs where a block is the inside of a function.
fn dedent(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join("\n")
}
