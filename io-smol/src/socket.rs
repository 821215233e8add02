//! One connected socket, and the ways to get one.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use async_io::Async;
use smol::io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{Address, Transport};

use crate::event_loop::{Reactor, Registered};
use crate::race::{HEAD_START, first_connected};

/// A connected stream socket. Its `poll_close` shuts the write side only.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    /// Where it leads; nothing for a Unix socket.
    peer: Option<SocketAddr>,
}

/// The kinds of socket, by who watches them: smol's reactor, or that of an event loop.
#[derive(Debug)]
enum Stream {
    Tcp(Async<TcpStream>),
    LoopTcp(Registered<mio::net::TcpStream>),
    #[cfg(unix)]
    Unix(Async<UnixStream>),
    #[cfg(unix)]
    LoopUnix(Registered<mio::net::UnixStream>),
}

impl Socket {
    /// A TCP socket that sends small writes at once: the driver has merged already what belongs together.
    pub(crate) fn tcp(stream: Async<TcpStream>, peer: SocketAddr) -> io::Result<Self> {
        stream.get_ref().set_nodelay(true)?;
        Ok(Self { stream: Stream::Tcp(stream), peer: Some(peer) })
    }

    /// The same, in the hands of an event loop.
    pub(crate) fn loop_tcp(stream: mio::net::TcpStream, peer: SocketAddr, reactor: &Arc<Reactor>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream: Stream::LoopTcp(Registered::new(stream, reactor)?), peer: Some(peer) })
    }

    #[cfg(unix)]
    pub(crate) const fn unix(stream: Async<UnixStream>) -> Self {
        Self { stream: Stream::Unix(stream), peer: None }
    }

    #[cfg(unix)]
    pub(crate) fn loop_unix(stream: mio::net::UnixStream, reactor: &Arc<Reactor>) -> io::Result<Self> {
        Ok(Self { stream: Stream::LoopUnix(Registered::new(stream, reactor)?), peer: None })
    }

    /// The socket in the hands of `reactor`, which may be that of an event loop.
    pub(crate) fn watched_by(self, reactor: Option<&Arc<Reactor>>) -> io::Result<Self> {
        let Some(reactor) = reactor else { return Ok(self) };
        let Self { stream, peer } = self;
        let stream = match stream {
            Stream::Tcp(stream) => {
                let stream = mio::net::TcpStream::from_std(stream.into_inner()?);
                Stream::LoopTcp(Registered::new(stream, reactor)?)
            }
            #[cfg(unix)]
            Stream::Unix(stream) => {
                let stream = mio::net::UnixStream::from_std(stream.into_inner()?);
                Stream::LoopUnix(Registered::new(stream, reactor)?)
            }
            watched => watched,
        };
        Ok(Self { stream, peer })
    }

    /// Connects, trying the addresses that the name resolves to as RFC 8305 says.
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => connect_tcp(host, *port).await,
            #[cfg(unix)]
            Address::Unix(path) => Async::<UnixStream>::connect(path).await.map(Self::unix),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "there are no Unix sockets here")),
        }
    }
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<Socket> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return connect_address((ip, port).into()).await;
    }
    let addresses = match smol::net::resolve((host, port)).await {
        Ok(addresses) => addresses,
        Err(error) => return Err(with_context(&error, &format!("cannot resolve `{host}`"))),
    };
    let connected = first_connected(addresses, HEAD_START, |address| async move {
        connect_address(address).await.map_err(|error| with_context(&error, &address.to_string()))
    });
    connected.await
}

async fn connect_address(address: SocketAddr) -> io::Result<Socket> {
    Socket::tcp(Async::<TcpStream>::connect(address).await?, address)
}

/// `error` with what was attempted in front.
pub(crate) fn with_context(error: &io::Error, attempt: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{attempt}: {error}"))
}

impl Transport for Socket {
    fn is_read_vectored(&self) -> bool {
        true
    }

    /// Nothing is missed: smol's reactor looks at the socket anew when it is asked to wait, and that of an event loop
    /// keeps what it was told.
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let readable = match &self.stream {
            Stream::Tcp(stream) => stream.poll_readable(cx),
            Stream::LoopTcp(stream) => return stream.poll_read_ready(cx),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.poll_readable(cx),
            #[cfg(unix)]
            Stream::LoopUnix(stream) => return stream.poll_read_ready(cx),
        };
        // A reactor that fails is no reason not to try.
        readable.map(drop)
    }

    fn peer(&self) -> Option<String> {
        Some(self.peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string()))
    }
}

/// Calls the method of whichever stream it is.
macro_rules! forward {
    ($self:ident, $method:ident, $($argument:expr),*) => {
        match &mut $self.get_mut().stream {
            Stream::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Stream::LoopTcp(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Stream::Unix(stream) => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Stream::LoopUnix(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        forward!(self, poll_read, cx, buf)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, poll_read_vectored, cx, bufs)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        forward!(self, poll_write, cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        forward!(self, poll_write_vectored, cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        forward!(self, poll_flush, cx)
    }

    /// The streams only flush here; the peer must see the end of what we write.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = match &self.stream {
            Stream::Tcp(stream) => stream.get_ref().shutdown(Shutdown::Write),
            Stream::LoopTcp(stream) => stream.get_ref().shutdown(Shutdown::Write),
            #[cfg(unix)]
            Stream::Unix(stream) => stream.get_ref().shutdown(Shutdown::Write),
            #[cfg(unix)]
            Stream::LoopUnix(stream) => stream.get_ref().shutdown(Shutdown::Write),
        };
        match shut {
            // The peer was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;

    use smol::io::AsyncWriteExt;

    use super::*;

    /// h2:Q13. The driver reads on after it has closed, so the end must be seen while the socket lives.
    #[test]
    fn closing_ends_the_write_side_and_leaves_the_socket_open() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let mut socket = smol::block_on(connect_address(address)).expect("connected");
        let (mut peer, _) = listener.accept().expect("accepted");
        smol::block_on(socket.close()).expect("closed");
        assert_eq!(peer.read(&mut [0; 1]).expect("an end"), 0);
        smol::block_on(socket.close()).expect("closed twice");
    }
}
