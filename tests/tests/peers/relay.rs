//! A TCP relay in front of a server: counts connections and bytes, and leads to another server after a restart.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

pub(crate) struct Relay {
    pub(crate) addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    server: Mutex<SocketAddr>,
    connections: AtomicUsize,
    up: AtomicU64,
    down: AtomicU64,
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
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server: Mutex::new(server),
            connections: AtomicUsize::new(0),
            up: AtomicU64::new(0),
            down: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let target = *accepting.server.lock().expect("no panic under it");
                // A client that finds nobody is not counted.
                let Ok(server) = TcpStream::connect(target) else { continue };
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let (up, down) = (Arc::clone(&accepting), Arc::clone(&accepting));
                forward(&client, &server, move |n| add(&up.up, n));
                forward(&server, &client, move |n| add(&down.down, n));
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
        let Shared { up, down, .. } = &*self.shared;
        Traffic { up: up.load(Ordering::Relaxed), down: down.load(Ordering::Relaxed) }
    }
}

fn add(sum: &AtomicU64, n: u64) {
    sum.fetch_add(n, Ordering::Relaxed);
}

fn forward(from: &TcpStream, to: &TcpStream, count: impl Fn(u64) + Send + 'static) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    thread::spawn(move || {
        let _ = to.set_nodelay(true);
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            count(read as u64);
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // An end is passed on, so that a half-closed connection stays one.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}
