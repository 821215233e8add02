//! A server: what it is made of, and where it listens.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use trirpc_core::Config;
use trirpc_rpc::Router;

use crate::address::ListenAddress;
use crate::listener::Listener;
use crate::serve::{Served, serve};
use crate::spawner::Spawner;

/// A router on a listening socket.
///
/// ```no_run
/// # async fn run(router: trirpc_rpc::Router) -> std::io::Result<()> {
/// use trirpc_smol::Server;
///
/// let server = Server::builder(router).bind("127.0.0.1:50051").await?;
/// println!("listening on {}", server.local_addr());
/// server.serve().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Server {
    listener: Listener,
    settings: Settings,
}

/// What every connection of a server is served with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) router: Arc<Router>,
    pub(crate) config: Arc<Config>,
    pub(crate) spawner: Spawner,
    pub(crate) max_connections: usize,
}

impl Server {
    /// A server of `router` that is not bound yet.
    pub fn builder(router: impl Into<Arc<Router>>) -> ServerBuilder {
        ServerBuilder {
            router: router.into(),
            config: Config::default(),
            spawner: Spawner::default(),
            max_connections: 10_000,
        }
    }

    /// Where it listens, with the port that the system chose.
    pub const fn local_addr(&self) -> &ListenAddress {
        self.listener.address()
    }

    /// Serves until the listener fails.
    ///
    /// # Errors
    /// As [`serve_until`](Self::serve_until).
    pub async fn serve(self) -> io::Result<Served> {
        self.serve_until(pending()).await
    }

    /// Serves until `shutdown` ends, then stops gracefully: the listener closes, every client is told
    /// (GOAWAY), no new call is taken, and running calls have [`Config::drain_timeout`] to end.
    /// What is left then is cut off. Dropping the future cuts everything off at once.
    ///
    /// Errors of `accept` that concern one connection are passed over; when descriptors or memory run
    /// out, it waits for 5 ms to 1 s before it tries again.
    ///
    /// # Errors
    /// The listening socket failed. Running calls had their time all the same.
    pub async fn serve_until(self, shutdown: impl Future<Output = ()>) -> io::Result<Served> {
        serve(self.listener, self.settings, shutdown).await
    }
}

/// Options of a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    router: Arc<Router>,
    config: Config,
    spawner: Spawner,
    max_connections: usize,
}

impl ServerBuilder {
    /// Limits and timers of each connection.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Runs connections and handlers on this executor in place of smol's global one.
    #[must_use]
    pub fn executor(mut self, executor: impl Into<Spawner>) -> Self {
        self.spawner = executor.into();
        self
    }

    /// Connections served at once; further ones wait in the system's accept queue. Default 10,000.
    #[must_use]
    pub const fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections;
        self
    }

    /// Time that running calls have after a shutdown: [`Config::drain_timeout`]. Default 30 s.
    #[must_use]
    pub const fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.config.drain_timeout = Some(timeout);
        self
    }

    /// Listens on `host:port` (port 0 lets the system choose) or `unix:path`. From here on clients can
    /// connect; they are served once [`Server::serve`] runs.
    ///
    /// # Errors
    /// The address is wrong, in use or not permitted; the text of the error names it.
    pub async fn bind(self, address: impl AsRef<str>) -> io::Result<Server> {
        let listener = Listener::bind(address.as_ref()).await?;
        let Self { router, config, spawner, max_connections } = self;
        Ok(Server { listener, settings: Settings { router, config: Arc::new(config), spawner, max_connections } })
    }
}
