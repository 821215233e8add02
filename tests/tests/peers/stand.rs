//! A server behind a relay, which can be killed and started again under the client's feet.

use std::io;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;

use crate::relay::{Relay, Traffic};
use crate::table::Cell;
use trirpc_tests::process::Server;

/// Makes the command that starts the server.
pub(crate) type Start = Box<dyn Fn() -> Command + Send + Sync>;

pub(crate) struct Stand {
    start: Start,
    state: Mutex<State>,
    relay: Relay,
}

struct State {
    server: Option<Server>,
    /// What was seen before the restart.
    seen: Option<Seen>,
}

/// What the server and the relay can tell of the cases.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    connections: usize,
    dropped: usize,
}

impl Stand {
    pub(crate) fn start(start: Start) -> io::Result<Self> {
        let server = Server::start(start())?;
        let relay = Relay::to(server.addr)?;
        Ok(Self { start, state: Mutex::new(State { server: Some(server), seen: None }), relay })
    }

    /// Where clients connect.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.relay.addr
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.relay.traffic()
    }

    pub(crate) fn connections(&self) -> usize {
        self.relay.connections()
    }

    /// Kills the server and starts another at the same address.
    pub(crate) fn restart(&self) -> io::Result<()> {
        let seen = self.seen();
        let mut state = self.state.lock().expect("no panic under it");
        state.seen = Some(seen);
        state.server = None;
        let server = Server::start((self.start)())?;
        self.relay.lead_to(server.addr);
        state.server = Some(server);
        Ok(())
    }

    /// Up to the restart, if there was one.
    pub(crate) fn seen(&self) -> Seen {
        let state = self.state.lock().expect("no panic under it");
        let dropped = || state.server.as_ref().map_or(0, |server| server.count("dropped Sleep"));
        state.seen.unwrap_or_else(|| Seen { connections: self.relay.connections(), dropped: dropped() })
    }
}

impl Seen {
    /// All cases shared `expected` connections.
    pub(crate) fn connections(self, expected: usize) -> Cell {
        match self.connections {
            n if n == expected => Cell::Passed,
            n => Cell::Failed(format!("the client made {n} connections, not {expected}")),
        }
    }

    /// The deadline and the cancellation of `Sleep` each end a handler before its time.
    pub(crate) fn cancellation(self, expected: usize) -> Cell {
        match self.dropped {
            n if n == expected => Cell::Passed,
            n => Cell::Failed(format!("the server dropped {n} calls of Sleep, not {expected}")),
        }
    }
}
