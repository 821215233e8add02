//! One connected socket, and the ways to get one.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Shutdown, SocketAddr, TcpStream};
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll};

use async_io::Async;
use smol::io::{AsyncRead, AsyncWrite};
use trirpc_rpc::{Address, Transport};

/// A connected stream socket. Its `poll_close` shuts the write side only.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp {
        stream: Async<TcpStream>,
        peer: SocketAddr,
    },
    #[cfg(unix)]
    Unix(Async<UnixStream>),
}

impl Socket {
    /// A TCP socket that sends small writes at once: the driver has merged already what belongs together.
    pub(crate) fn tcp(stream: Async<TcpStream>, peer: SocketAddr) -> io::Result<Self> {
        stream.get_ref().set_nodelay(true)?;
        Ok(Self::Tcp { stream, peer })
    }

    /// Connects, trying each address that the name resolves to in the resolver's order.
    pub(crate) async fn connect(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp { host, port } => connect_tcp(host, *port).await,
            #[cfg(unix)]
            Address::Unix(path) => Async::<UnixStream>::connect(path).await.map(Self::Unix),
            #[cfg(not(unix))]
            Address::Unix(_) => Err(io::Error::new(io::ErrorKind::Unsupported, "there are no Unix sockets here")),
        }
    }
}

async fn connect_tcp(host: &str, port: u16) -> io::Result<Socket> {
    // An IP address is taken as it is; only names go to the resolver's thread.
    let addresses = match smol::net::resolve((host, port)).await {
        Ok(addresses) => addresses,
        Err(error) => return Err(with_context(&error, &format!("cannot resolve `{host}`"))),
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("`{host}` has no address"));
    for address in addresses {
        match Async::<TcpStream>::connect(address).await {
            Ok(stream) => return Socket::tcp(stream, address),
            Err(error) => last = with_context(&error, &address.to_string()),
        }
    }
    Err(last)
}

/// `error` with what was attempted in front.
pub(crate) fn with_context(error: &io::Error, attempt: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{attempt}: {error}"))
}

impl Transport for Socket {
    fn peer(&self) -> Option<String> {
        match self {
            Self::Tcp { peer, .. } => Some(peer.to_string()),
            #[cfg(unix)]
            Self::Unix(_) => Some("unix".to_owned()),
        }
    }
}

/// Calls the method of whichever stream it is.
macro_rules! forward {
    ($self:ident, $method:ident, $($argument:expr),*) => {
        match $self.get_mut() {
            Self::Tcp { stream, .. } => Pin::new(stream).$method($($argument),*),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).$method($($argument),*),
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

    /// `Async` only flushes here; the peer must see the end of what we write.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = match self.get_mut() {
            Self::Tcp { stream, .. } => stream.get_ref().shutdown(Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(stream) => stream.get_ref().shutdown(Shutdown::Write),
        };
        match shut {
            // The peer was faster.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Ready(Ok(())),
            other => Poll::Ready(other),
        }
    }
}
