//! What others think of our HTTP/2: h2spec, python-h2 as a strict peer, its HPACK, and the tools that people have at hand, against
//! `tri serve --fallback` and against our client. Prints a line for each case; one that fails, fails the run.
//!
//! What each case needs is installed by `tests/peers/install.sh`; what cannot be had is left out, and said so.
//! `TRIRPC_PEERS=required` makes that a failure.

mod h2spec;
mod strict;
mod tables;
mod tools;

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use trirpc_tests::process::{self, Installed, Server};

/// What a case finds here.
struct Bench {
    installed: Installed,
    tri: PathBuf,
}

impl Bench {
    /// Our server, which answers anything.
    fn server(&self) -> io::Result<Server> {
        let mut command = Command::new(&self.tri);
        command.args(["serve", "--addr", "127.0.0.1:0", "--fallback"]);
        Server::start(command)
    }
}

/// Why a case failed; several lines if need be.
type Outcome = Result<(), String>;

struct Case {
    name: &'static str,
    /// What `install.sh` calls the part of the installation that it needs.
    part: &'static str,
    run: fn(&Bench) -> Outcome,
}

const CASES: &[Case] = &[
    Case { name: "h2spec, our server", part: h2spec::PART, run: h2spec::server },
    Case { name: "h2spec, our client", part: h2spec::PART, run: h2spec::client },
    Case { name: "python-h2, our server", part: strict::PART, run: strict::server },
    Case { name: "python-h2, our client", part: strict::PART, run: strict::client },
    Case { name: "python-hpack", part: tables::PART, run: tables::python },
    Case { name: "curl", part: tools::PART, run: tools::curl },
    Case { name: "nghttp", part: tools::PART, run: tools::nghttp },
    Case { name: "h2load", part: tools::PART, run: tools::h2load },
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let words: Vec<String> = arguments.by_ref().collect();
    if let [word, url] = &words[..] {
        if word == h2spec::CLIENT {
            return h2spec::be_client(url);
        }
    }
    // As libtest does: a word among the arguments selects tests by name.
    if !words.is_empty() && !words.iter().any(|word| "conformance".contains(word.as_str())) {
        return ExitCode::SUCCESS;
    }
    if std::env::args().any(|argument| argument == "--list") {
        println!("conformance: test");
        return ExitCode::SUCCESS;
    }
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<bool> {
    let installed = Installed::ensure(&[h2spec::PART, strict::PART, tools::PART])?;
    let bench = Bench { installed, tri: process::tri()? };
    let (here, missing): (Vec<_>, Vec<_>) = CASES.iter().partition(|case| bench.installed.has(case.part));
    let failed = thread::scope(|scope| {
        let runs: Vec<_> = here.iter().map(|case| scope.spawn(|| report(case, &bench))).collect();
        // One that panicked has not passed.
        runs.into_iter().filter_map(|run| (!run.join().unwrap_or(false)).then_some(())).count()
    });
    println!("conformance: {} cases passed, {failed} failed", here.len() - failed);
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|case| case.name).collect();
        println!("conformance: NOT RUN: {} (TRIRPC_PEERS=required makes this a failure)", names.join("; "));
    }
    Ok(failed == 0 && (missing.is_empty() || !process::are_required()))
}

/// Runs a case and says how it went.
fn report(case: &Case, bench: &Bench) -> bool {
    let start = Instant::now();
    let outcome = (case.run)(bench);
    let seconds = start.elapsed().as_secs_f32();
    match &outcome {
        Ok(()) => println!("PASS {} ({seconds:.1} s)", case.name),
        Err(why) => println!("FAIL {} ({seconds:.1} s): {why}", case.name),
    }
    outcome.is_ok()
}

/// What a failure of the machine, not of a peer, is to a case.
fn broken(error: io::Error) -> String {
    format!("cannot be run: {error}")
}

/// Runs a program to its end. Its standard output, and whether it succeeded.
fn output(command: &mut Command) -> Result<(String, bool), String> {
    let output =
        command.output().map_err(|error| broken(io::Error::new(error.kind(), format!("{command:?}: {error}"))))?;
    let text = [output.stdout, output.stderr].map(|octets| String::from_utf8_lossy(&octets).into_owned());
    Ok((text.concat(), output.status.success()))
}
