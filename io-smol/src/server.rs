//! A server: what it is made of, and where it listens.

use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use trirpc_core::Config;
use trirpc_rpc::{InlineHandlers, Router};

use crate::address::ListenAddress;
use crate::cores::serve_on_cores;
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
    /// One for each accept loop; several may be the same.
    shards: Vec<Arc<Listener>>,
    address: ListenAddress,
    /// Whether each accept loop has a thread of its own, in place of `Settings::spawner`.
    on_cores: bool,
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
            cores: None,
            max_connections: 10_000,
        }
    }

    /// Where it listens, with the port that the system chose.
    pub const fn local_addr(&self) -> &ListenAddress {
        &self.address
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
        let Self { mut shards, on_cores, settings, .. } = self;
        match shards.pop() {
            Some(listener) if !on_cores => serve(listener, settings, shutdown).await,
            last => serve_on_cores(shards.into_iter().chain(last).collect(), settings, shutdown).await,
        }
    }
}

/// Options of a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    router: Arc<Router>,
    config: Config,
    spawner: Spawner,
    cores: Option<usize>,
    max_connections: usize,
}

impl ServerBuilder {
    /// Limits and timers of each connection.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Runs connections and handlers on this executor, which may be an [`EventLoop`](crate::EventLoop), in place of
    /// smol's global one.
    #[must_use]
    pub fn executor(mut self, executor: impl Into<Spawner>) -> Self {
        self.spawner = executor.into();
        self.cores = None;
        self
    }

    /// Runs on `cores` threads of its own in place of an executor, each with an [`EventLoop`](crate::EventLoop); 0 is
    /// one for each core that the process may use.
    ///
    /// A connection stays on the thread that accepted it, from the socket to the handlers. On Linux each thread has an
    /// accept queue of its own (`SO_REUSEPORT`), over which the system spreads the connections of a TCP address, and
    /// which other processes of the same user may join; elsewhere, and on a Unix socket, they share one.
    #[must_use]
    pub const fn cores(mut self, cores: usize) -> Self {
        self.cores = Some(cores);
        self
    }

    /// Which handlers run where their connection is read, for one poll: [`Router::inline_handlers`]. At first all, unless
    /// they compute for long; one that waits becomes a task, which any thread of the executor may run.
    #[must_use]
    pub fn inline_handlers(mut self, inlines: InlineHandlers) -> Self {
        self.router = Arc::new(Arc::unwrap_or_clone(self.router).inline_handlers(inlines));
        self
    }

    /// Connections served at once, of which each of several [`cores`](Self::cores) has its share; further ones wait in
    /// the system's accept queue. Default 10,000.
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
        let Self { router, config, spawner, cores, max_connections } = self;
        let settings = Settings { router, config: Arc::new(config), spawner, max_connections };
        let shards = match cores {
            None => vec![Arc::new(Listener::bind(address.as_ref()).await?)],
            Some(0) => Listener::bind_shards(address.as_ref(), thread::available_parallelism()?.get()).await?,
            Some(cores) => Listener::bind_shards(address.as_ref(), cores).await?,
        };
        let address = shards[0].address().clone();
        Ok(Server { shards, address, on_cores: cores.is_some(), settings })
    }
}
