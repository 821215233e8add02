//! Client channels over sockets.

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use trirpc_core::call::Status;
use trirpc_core::{Config, HttpVersion, Instant};
use trirpc_rpc::{
    BoxFuture, Channel, ChannelOptions, ClientSession, Connector, InvalidTarget, Target, Time, handshake,
};

use crate::socket::Socket;
use crate::spawner::Spawner;
use crate::time::SmolTime;

/// Silence of a server, while calls are open, after which a channel asks whether it is still there.
/// Servers punish clients that ask more often than every five minutes.
const KEEPALIVE: Duration = Duration::from_secs(5 * 60);

/// Makes channels over TCP and Unix sockets; implemented for [`Channel`].
///
/// ```no_run
/// # async fn run() -> Result<(), trirpc_core::call::Status> {
/// use trirpc_rpc::Channel;
/// use trirpc_smol::Connect;
///
/// let channel = Channel::connect("http://127.0.0.1:50051").await?;
/// # Ok(())
/// # }
/// ```
pub trait Connect: Sized {
    /// A channel to `http://host:port` or `unix:/path`. Awaiting it connects;
    /// [`lazy`](ChannelBuilder::lazy) leaves that to the first call. Either way a lost connection is made
    /// anew when a call needs it.
    fn connect(target: impl Into<String>) -> ChannelBuilder;
}

impl Connect for Channel {
    fn connect(target: impl Into<String>) -> ChannelBuilder {
        let mut config = Config::default();
        config.keepalive_interval = Some(KEEPALIVE);
        let (options, spawner) = (ChannelOptions::default(), Spawner::default());
        ChannelBuilder { target: target.into(), config, options, spawner }
    }
}

/// Options of a channel that is to be made.
#[derive(Clone, Debug)]
#[must_use = "a channel is made by awaiting it, or by `lazy`"]
pub struct ChannelBuilder {
    target: String,
    config: Config,
    options: ChannelOptions,
    spawner: Spawner,
}

impl ChannelBuilder {
    /// Limits and timers of each connection, in place of the defaults with a keepalive of five minutes.
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Longest time of one attempt, resolving the name included. Default 20 s.
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.options.connect_timeout = timeout;
        self
    }

    /// How the channel connects.
    pub fn options(mut self, options: ChannelOptions) -> Self {
        self.options = options;
        self
    }

    /// Runs connections on this executor in place of smol's global one.
    pub fn executor(mut self, executor: impl Into<Spawner>) -> Self {
        self.spawner = executor.into();
        self
    }

    /// The channel at once; it connects when the first call needs it.
    ///
    /// # Errors
    /// The text is no target, or one that asks for TLS.
    pub fn lazy(self) -> Result<Channel, InvalidTarget> {
        let target = Target::parse(&self.target)?;
        let connector = SocketConnector { config: Arc::new(self.config), spawner: self.spawner };
        Ok(Channel::new(target, connector, self.options))
    }
}

impl IntoFuture for ChannelBuilder {
    type Output = Result<Channel, Status>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    /// Fails with `InvalidArgument` for what is no target, and with `Unavailable` if there is no connection.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let channel = self.lazy().map_err(|error| Status::invalid_argument(error.to_string()))?;
            channel.ready().await?;
            Ok(channel)
        })
    }
}

/// Connects by the operating system's sockets.
#[derive(Debug)]
struct SocketConnector {
    config: Arc<Config>,
    spawner: Spawner,
}

impl SocketConnector {
    async fn open(&self, target: &Target) -> io::Result<ClientSession> {
        if target.is_secure() {
            let message = "TLS is not supported yet; use http:// where the network is trusted";
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        let socket = Socket::connect(target.address()).await?.watched_by(self.spawner.reactor())?;
        let config = Arc::clone(&self.config);
        let (session, driver) = handshake(socket, config, target.endpoint(), HttpVersion::Http2, self.spawner.time());
        self.spawner.spawn(driver).detach();
        Ok(session)
    }
}

impl Connector for SocketConnector {
    fn connect<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, io::Result<ClientSession>> {
        Box::pin(self.open(target))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.spawner.spawn(task).detach();
    }

    fn sleep(&self, until: Instant) -> BoxFuture<'static, ()> {
        Box::pin(self.spawner.time().sleep(until))
    }

    fn now(&self) -> Instant {
        Time::now(&SmolTime::new())
    }
}
