//! Foreign programs: the installer, servers that print where they listen, clients that print a line a case.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::sources::root;

/// A server must print its address within this time.
const START: Duration = Duration::from_secs(60);

/// A client that prints nothing for so long has failed.
const SILENCE: Duration = Duration::from_secs(60);

/// A program of a peer, in the folder of its installation.
pub enum Program {
    /// An executable, and its first arguments.
    Native(&'static str, &'static [&'static str]),
    /// A script of the working copy, run by the installed interpreter.
    Python(&'static str),
    /// A script of the installation, run by Node.
    Node(&'static str),
    /// A class of the installation.
    Java(&'static str),
}

/// Where the installed peers are.
pub struct Installed {
    folders: BTreeMap<String, PathBuf>,
}

impl Installed {
    /// Installs what is missing of `parts`. Those whose toolchain cannot be had here are left out; the installer said
    /// which.
    ///
    /// # Errors
    /// The installer failed.
    pub fn ensure(parts: &[&str]) -> io::Result<Self> {
        let installer = root().join("tests/peers/install.sh");
        let output = Command::new("bash").arg(installer).args(parts).stderr(Stdio::inherit()).output()?;
        if !matches!(output.status.code(), Some(0 | 75)) {
            return Err(io::Error::other(format!("tests/peers/install.sh ended with {}", output.status)));
        }
        let lines = String::from_utf8_lossy(&output.stdout);
        let folders = lines.lines().filter_map(|line| line.split_once(' '));
        Ok(Self { folders: folders.map(|(part, folder)| (part.to_owned(), folder.into())).collect() })
    }

    /// Whether a part is there.
    pub fn has(&self, part: &str) -> bool {
        self.folders.contains_key(part)
    }

    /// How `program` is started, if its part is installed.
    pub fn command(&self, part: &str, program: &Program) -> Option<Command> {
        let folder = self.folders.get(part)?;
        Some(match program {
            Program::Native(path, arguments) => {
                let mut command = Command::new(folder.join(path));
                command.args(*arguments);
                command
            }
            Program::Java(class) => {
                let mut command = Command::new("java");
                let (classes, libraries) = (folder.join("target/classes"), folder.join("target/lib/*"));
                command.arg("-cp").arg(format!("{}:{}", classes.display(), libraries.display())).arg(class);
                command
            }
            Program::Node(script) => {
                let mut command = Command::new("node");
                command.arg(folder.join(script));
                command
            }
            Program::Python(script) => {
                let mut command = Command::new(folder.join("venv/bin/python"));
                command.arg(root().join("tests/peers").join(part).join(script)).env("PYTHONPATH", folder.join("gen"));
                // The working copy stays as it is.
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
        })
    }
}

/// Whether a part that cannot be had is a failure.
pub fn are_required() -> bool {
    std::env::var_os("TRIRPC_PEERS").is_some_and(|value| value == "required")
}

/// A program that listens; killed when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub addr: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it and waits for the address on its standard output.
    pub fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let (said, lines) = (Arc::default(), reader(&mut child));
        let started = address(&lines, &said);
        let mut server = Self { child, addr: SocketAddr::from(([0; 4], 0)), said: Arc::clone(&said) };
        server.addr = started?;
        thread::spawn(move || lines.iter().for_each(|line| said.lock().expect("no panic under it").push(line)));
        Ok(server)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> io::Result<()> {
        Command::new("kill").arg(self.child.id().to_string()).status().map(drop)
    }

    /// All that it has said, line by line.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().expect("no panic under it").clone()
    }

    /// How often it has said exactly this line.
    pub fn count(&self, line: &str) -> usize {
        self.said.lock().expect("no panic under it").iter().filter(|said| *said == line).count()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reader(child: &mut Child) -> Receiver<String> {
    let (lines, receiver) = channel();
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    receiver
}

fn address(lines: &Receiver<String>, said: &Arc<Mutex<Vec<String>>>) -> io::Result<SocketAddr> {
    loop {
        let line = lines.recv_timeout(START).map_err(|_| io::Error::other("the server printed no address"))?;
        let found = line.split([' ', '/', '"', ',']).find_map(|word| word.parse().ok());
        said.lock().expect("no panic under it").push(line);
        if let Some(addr) = found {
            return Ok(addr);
        }
    }
}

/// Runs a client to its end. `on_line` gets each line of its standard output and what answers it on its standard input.
pub fn run(mut command: Command, mut on_line: impl FnMut(String, &mut ChildStdin) -> io::Result<()>) -> io::Result<()> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().expect("piped");
    let lines = reader(&mut child);
    let result = loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => {
                if let Err(error) = on_line(line, &mut stdin) {
                    break Err(error);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                println!("{command:?} was silent for {SILENCE:?}");
                break Ok(());
            }
        }
    };
    let _ = child.kill();
    child.wait()?;
    result
}

/// The `tri` of this working copy, built as this test was.
pub fn tri() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    // target/PROFILE/deps/peers-HASH
    let folder = own.parent().and_then(Path::parent).ok_or_else(|| io::Error::other("the test has no folder"))?;
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let target = folder.parent().ok_or_else(|| io::Error::other("the test has no target folder"))?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "-p", "trirpc-cli", "--bin", "tri", "--profile", profile])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(root())
        .status()?;
    if !status.success() {
        return Err(io::Error::other("`tri` does not build"));
    }
    Ok(folder.join("tri"))
}
