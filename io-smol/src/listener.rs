//! Listening sockets.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_io::Async;

use crate::address::ListenAddress;
#[cfg(unix)]
use crate::address::unix_path;
use crate::event_loop::{Reactor, Registered};
use crate::socket::{Socket, with_context};

/// Connections that the system queues while the accept loop is busy or at its cap.
#[cfg(unix)]
const ACCEPT_QUEUE: i32 = 1024;

/// Whether the system spreads connections over sockets of one address. Those that let several sockets have it and give
/// all connections to one of them do not.
const CAN_SHARD: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Whether an address is for one socket alone.
#[derive(Clone, Copy, Debug)]
enum Sharing {
    Exclusive,
    Sharded,
}

/// A bound socket and the address it really has.
#[derive(Debug)]
pub(crate) struct Listener {
    kind: Kind,
    address: ListenAddress,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    /// Binds `host:port` or `unix:path`; port 0 lets the system choose.
    ///
    /// # Errors
    /// Those of the system, with the address in the text.
    pub(crate) async fn bind(address: &str) -> io::Result<Self> {
        Self::bind_with(address, Sharing::Exclusive).await
    }

    async fn bind_with(address: &str, sharing: Sharing) -> io::Result<Self> {
        let bound = match Self::try_bind(address, sharing).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(io::Error::new(error.kind(), format!("cannot listen on {address}: the address is in use")));
            }
            other => other,
        };
        bound.map_err(|error| with_context(&error, &format!("cannot listen on {address}")))
    }

    /// Binds the address for `count` accept loops, at least one. Where the system spreads connections over sockets of
    /// one address, each has a socket of its own; elsewhere they share one.
    ///
    /// # Errors
    /// As [`bind`](Self::bind).
    pub(crate) async fn bind_shards(address: &str, count: usize) -> io::Result<Vec<Arc<Self>>> {
        let first = Arc::new(Self::bind_with(address, Sharing::Sharded).await?);
        let mut shards = vec![Arc::clone(&first)];
        for _ in 1..count {
            shards.push(match first.address {
                // With the port that was chosen.
                ListenAddress::Tcp(address) if CAN_SHARD => Arc::new(Self::bind_tcp(address, Sharing::Sharded)?),
                _ => Arc::clone(&first),
            });
        }
        Ok(shards)
    }

    async fn try_bind(address: &str, sharing: Sharing) -> io::Result<Self> {
        #[cfg(unix)]
        if let Some(path) = unix_path(address) {
            return Self::bind_unix(path);
        }
        // With several addresses of one name, the first that can be bound.
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for candidate in smol::net::resolve(address).await? {
            match Self::bind_tcp(candidate, sharing) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind_tcp(address: SocketAddr, sharing: Sharing) -> io::Result<Self> {
        let listener = match sharing {
            Sharing::Sharded if CAN_SHARD => bind_shard(address)?,
            Sharing::Sharded | Sharing::Exclusive => TcpListener::bind(address)?,
        };
        #[cfg(unix)]
        rustix::net::listen(&listener, ACCEPT_QUEUE)?;
        let address = ListenAddress::Tcp(listener.local_addr()?);
        Ok(Self { kind: Kind::Tcp(listener), address })
    }

    /// A socket file that nobody listens on any more is replaced; a busy one is an error.
    #[cfg(unix)]
    fn bind_unix(path: &Path) -> io::Result<Self> {
        let listener = match UnixListener::bind(path) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
                std::fs::remove_file(path)?;
                UnixListener::bind(path)?
            }
            other => other?,
        };
        rustix::net::listen(&listener, ACCEPT_QUEUE)?;
        Ok(Self { kind: Kind::Unix(listener), address: ListenAddress::Unix(PathBuf::from(path)) })
    }

    pub(crate) const fn address(&self) -> &ListenAddress {
        &self.address
    }

    /// The queue of connections, in the hands of `reactor` or of smol's. The listener keeps the address.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn accept_with(&self, reactor: Option<&Arc<Reactor>>) -> io::Result<Acceptor> {
        Ok(match (&self.kind, reactor) {
            (Kind::Tcp(listener), None) => Acceptor::Tcp(Async::new(listener.try_clone()?)?),
            (Kind::Tcp(listener), Some(reactor)) => {
                listener.set_nonblocking(true)?;
                let listener = mio::net::TcpListener::from_std(listener.try_clone()?);
                Acceptor::LoopTcp(Registered::new(listener, reactor)?)
            }
            #[cfg(unix)]
            (Kind::Unix(listener), None) => Acceptor::Unix(Async::new(listener.try_clone()?)?),
            #[cfg(unix)]
            (Kind::Unix(listener), Some(reactor)) => {
                listener.set_nonblocking(true)?;
                let listener = mio::net::UnixListener::from_std(listener.try_clone()?);
                Acceptor::LoopUnix(Registered::new(listener, reactor)?)
            }
        })
    }
}

/// Where connections are taken from, by who watches it.
#[derive(Debug)]
pub(crate) enum Acceptor {
    Tcp(Async<TcpListener>),
    LoopTcp(Registered<mio::net::TcpListener>),
    #[cfg(unix)]
    Unix(Async<UnixListener>),
    #[cfg(unix)]
    LoopUnix(Registered<mio::net::UnixListener>),
}

impl Acceptor {
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Self::Tcp(listener) => {
                let (stream, peer) = next(listener, TcpListener::accept).await?;
                Accepted::Tcp(stream, peer)
            }
            Self::LoopTcp(listener) => {
                let (stream, peer) = poll_fn(|cx| listener.poll_take(cx, mio::net::TcpListener::accept)).await?;
                Accepted::LoopTcp(stream, peer, Arc::clone(listener.reactor()))
            }
            #[cfg(unix)]
            Self::Unix(listener) => Accepted::Unix(next(listener, UnixListener::accept).await?.0),
            #[cfg(unix)]
            Self::LoopUnix(listener) => {
                let (stream, _) = poll_fn(|cx| listener.poll_take(cx, mio::net::UnixListener::accept)).await?;
                Accepted::LoopUnix(stream, Arc::clone(listener.reactor()))
            }
        })
    }
}

/// The next connection of the queue. Unlike `Async::accept`, it asks the system no more often than it is told to: the
/// accept loop is polled for many other reasons.
async fn next<L, C>(listener: &Async<L>, accept: impl Fn(&L) -> io::Result<C>) -> io::Result<C> {
    loop {
        match accept(listener.get_ref()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        poll_fn(|cx| listener.poll_readable(cx)).await?;
    }
}

/// A connection that was taken from the queue. What goes wrong with it from here on is not the listener's fault.
#[derive(Debug)]
pub(crate) enum Accepted {
    Tcp(TcpStream, SocketAddr),
    LoopTcp(mio::net::TcpStream, SocketAddr, Arc<Reactor>),
    #[cfg(unix)]
    Unix(UnixStream),
    #[cfg(unix)]
    LoopUnix(mio::net::UnixStream, Arc<Reactor>),
}

impl Accepted {
    pub(crate) fn into_socket(self) -> io::Result<Socket> {
        match self {
            Self::Tcp(stream, peer) => Socket::tcp(Async::new(stream)?, peer),
            Self::LoopTcp(stream, peer, reactor) => Socket::loop_tcp(stream, peer, &reactor),
            #[cfg(unix)]
            Self::Unix(stream) => Ok(Socket::unix(Async::new(stream)?)),
            #[cfg(unix)]
            Self::LoopUnix(stream, reactor) => Socket::loop_unix(stream, &reactor),
        }
    }
}

/// A socket beside others of the same address, among which the system spreads connections.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn bind_shard(address: SocketAddr) -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, ACCEPT_QUEUE)?;
    Ok(TcpListener::from(socket))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn bind_shard(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}

#[cfg(unix)]
fn is_stale(path: &Path) -> bool {
    let refused = UnixStream::connect(path).err();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(unix)]
impl Drop for Listener {
    fn drop(&mut self) {
        if let ListenAddress::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}
