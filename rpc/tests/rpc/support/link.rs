//! A client and a server on the two ends of a pipe, with a clock that stands still.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{
    ClientSession, Config, Endpoint, HttpVersion, ManualTime, Router, ServerSession, Transport, UnaryCall, duplex,
    handshake, serve_connection,
};

use super::echo::{Counters, Echo, SAY};
use super::executor::Executor;

pub struct Link {
    pub executor: Executor,
    pub time: ManualTime,
    pub client: ClientSession,
    pub server: ServerSession,
    pub counters: Arc<Counters>,
    pub client_writes: Arc<AtomicUsize>,
    pub server_writes: Arc<AtomicUsize>,
    pub client_driver: usize,
    pub server_driver: usize,
}

/// An echo service; both drivers run in the executor's tasks.
pub fn link(client_config: Config, server_config: Config, pipe: usize) -> Link {
    let counters = Arc::new(Counters::default());
    let router = Router::new().add(Echo { counters: Arc::clone(&counters) });
    let ends = Ends { client_config, server_config, pipe };
    Link { counters, ..link_in(Executor::new(), ManualTime::new(), router, ends) }
}

/// What the two ends of a link are made of.
pub struct Ends {
    pub client_config: Config,
    pub server_config: Config,
    pub pipe: usize,
}

impl Default for Ends {
    fn default() -> Self {
        Self { client_config: Config::default(), server_config: Config::default(), pipe: 64 * 1024 }
    }
}

/// A link to any router, on an executor and a clock that others may use too.
pub fn link_in(executor: Executor, time: ManualTime, router: Router, ends: Ends) -> Link {
    let (near, far) = duplex(ends.pipe);
    let (near, client_writes) = Counting::new(near);
    let (far, server_writes) = Counting::new(far);
    let config = Arc::new(ends.client_config);
    let (client, driver) = handshake(near, config, Endpoint::http("test"), HttpVersion::Http2, time.clone());
    let client_driver = executor.spawn(async move { drop(driver.await) });
    let tasks = executor.clone();
    let config = Arc::new(ends.server_config);
    let (server, driver) = serve_connection(far, Arc::new(router), config, time.clone(), move |task| {
        tasks.spawn(task);
    });
    let server_driver = executor.spawn(async move { drop(driver.await) });
    let counters = Arc::default();
    Link { executor, time, client, server, counters, client_writes, server_writes, client_driver, server_driver }
}

impl Default for Link {
    fn default() -> Self {
        link(Config::default(), Config::default(), 64 * 1024)
    }
}

impl Link {
    pub fn say(&self, text: &str) -> UnaryCall<ClientSession, String, String> {
        UnaryCall::new(self.client.clone(), &SAY, text.to_owned())
    }

    /// Nothing is left of any call on either side.
    pub fn assert_empty(&self) {
        self.executor.run();
        assert_eq!(self.client.open_calls(), 0, "slots on the client");
        assert_eq!(self.client.waiting(), 0, "wakers on the client");
        assert_eq!(self.server.open_calls(), 0, "slots on the server");
        assert_eq!(self.counters.started(), self.counters.dropped(), "handlers");
    }
}

/// Counts the writes of a transport.
pub struct Counting<T> {
    inner: T,
    writes: Arc<AtomicUsize>,
}

impl<T> Counting<T> {
    pub fn new(inner: T) -> (Self, Arc<AtomicUsize>) {
        let writes = Arc::new(AtomicUsize::new(0));
        (Self { inner, writes: Arc::clone(&writes) }, writes)
    }

    fn count<P>(&self, poll: Poll<P>) -> Poll<P> {
        if poll.is_ready() {
            self.writes.fetch_add(1, Ordering::SeqCst);
        }
        poll
    }
}

impl<T: Transport> Transport for Counting<T> {
    fn peer(&self) -> Option<String> {
        self.inner.peer()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counting<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counting<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.count(poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.count(poll)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}

/// Changes a configuration in place.
pub trait With: Sized {
    fn with(self, change: impl FnOnce(&mut Self)) -> Self;
}

impl With for Config {
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}
