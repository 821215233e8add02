//! Foreign programs: the installer, servers that print where they listen, clients that print a line a case.

use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use trirpc_tests::sources::root;

/// A server must print its address within this time.
const START: Duration = Duration::from_secs(60);

/// Where the installed peers are.
pub(crate) struct Installed {
    folder: PathBuf,
}

impl Installed {
    /// Installs what is missing. `Ok(None)`: python3 or its venv cannot be had here.
    pub(crate) fn ensure() -> io::Result<Option<Self>> {
        let installer = root().join("tests/peers/install.sh");
        let output = Command::new("bash").arg(installer).stderr(Stdio::inherit()).output()?;
        match output.status.code() {
            Some(0) => {
                let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                Ok(Some(Self { folder: folder.into() }))
            }
            Some(75) => Ok(None),
            _ => Err(io::Error::other(format!("tests/peers/install.sh ended with {}", output.status))),
        }
    }

    pub(crate) fn grpcio(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.arg(root().join("tests/peers/grpcio").join(program)).env("PYTHONPATH", self.folder.join("gen"));
        // The working copy stays as it is.
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    pub(crate) fn tonic(&self, subcommand: &str) -> Command {
        let mut command = Command::new(self.folder.join("tonic-peer"));
        command.arg(subcommand);
        command
    }
}

/// A program that listens; killed when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) addr: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it and waits for the address on its standard output.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let (said, lines) = (Arc::default(), reader(&mut child));
        let started = address(&lines, &said);
        let mut server = Self { child, addr: SocketAddr::from(([0; 4], 0)), said: Arc::clone(&said) };
        server.addr = started?;
        thread::spawn(move || lines.iter().for_each(|line| said.lock().expect("no panic under it").push(line)));
        Ok(server)
    }

    /// How often it has said exactly this line.
    pub(crate) fn count(&self, line: &str) -> usize {
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

/// Runs a client to its end; its standard output, line by line.
pub(crate) fn run(mut command: Command) -> io::Result<Vec<String>> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// The `tri` of this working copy, built as this test was.
pub(crate) fn tri() -> io::Result<PathBuf> {
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
