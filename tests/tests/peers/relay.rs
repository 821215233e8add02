//! A TCP relay in front of a server: counts connections and bytes, leads to another server after a restart, and can stand
//! for a long way.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: Mutex<SocketAddr>,
    connections: AtomicUsize,
    up: Way,
    down: Way,
    /// How long bytes are on their way, each way.
    delay: Duration,
}

/// One direction of all connections.
#[derive(Default)]
struct Way {
    entered: AtomicU64,
    left: AtomicU64,
    /// Most that were on the way at once.
    peak: AtomicU64,
}

impl Way {
    fn enter(&self, n: usize) {
        let entered = self.entered.fetch_add(n as u64, Ordering::Relaxed) + n as u64;
        self.peak.fetch_max(entered.saturating_sub(self.left.load(Ordering::Relaxed)), Ordering::Relaxed);
    }

    fn leave(&self, n: usize) {
        self.left.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Bytes that passed, or passed between two looks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// From the client to the server.
    pub(crate) up: u64,
    pub(crate) down: u64,
}

impl Traffic {
    pub(crate) fn since(self, earlier: Self) -> Self {
        Self { up: self.up - earlier.up, down: self.down - earlier.down }
    }
}

impl Relay {
    /// Forwards every connection to `server`, for as long as the process lives.
    pub(crate) fn to(server: SocketAddr) -> io::Result<Self> {
        Self::from_afar(server, Duration::ZERO)
    }

    /// As [`to`](Self::to), where bytes are on their way for `delay` before they arrive.
    pub(crate) fn from_afar(server: SocketAddr, delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            connections: AtomicUsize::new(0),
            up: Way::default(),
            down: Way::default(),
            delay,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = *accepting.server.lock().expect("no panic under it");
                // A client that finds nobody is not counted.
                let Ok(server) = TcpStream::connect(target) else { continue };
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                forward(&client, &server, &accepting, |shared| &shared.up);
                forward(&server, &client, &accepting, |shared| &shared.down);
            }
        });
        Ok(Self { addr, shared })
    }

    /// Leads new connections to `server`; those that exist stay where they are.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        *self.shared.server.lock().expect("no panic under it") = server;
    }

    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let [up, down] = [&self.shared.up, &self.shared.down].map(|way| way.entered.load(Ordering::Relaxed));
        Traffic { up, down }
    }

    /// Most bytes that were on their way to the clients at once: with a delay, what windows and congestion let be so.
    pub(crate) fn peak_down(&self) -> u64 {
        self.shared.down.peak.load(Ordering::Relaxed)
    }
}

/// Reads into a queue, and writes what has been in it for long enough.
fn forward(from: &TcpStream, to: &TcpStream, shared: &Arc<Shared>, way: fn(&Shared) -> &Way) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    let (enter, leave) = mpsc::channel::<(Instant, Vec<u8>)>();
    let (entering, leaving) = (Arc::clone(shared), Arc::clone(shared));
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            way(&entering).enter(read);
            if enter.send((Instant::now() + entering.delay, buffer[..read].to_vec())).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Read);
    });
    thread::spawn(move || {
        let _ = to.set_nodelay(true);
        for (due, octets) in leave {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&octets).is_err() {
                break;
            }
            way(&leaving).leave(octets.len());
        }
        // An end is passed on, so that a half-closed connection stays one.
        let _ = to.shutdown(Shutdown::Write);
    });
}
