//! Listening sockets.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
#[cfg(unix)]
use std::path::{Path, PathBuf};

use async_io::Async;

use crate::address::ListenAddress;
#[cfg(unix)]
use crate::address::unix_path;
use crate::socket::{Socket, with_context};

/// Connections that the system queues while the accept loop is busy or at its cap.
#[cfg(unix)]
const ACCEPT_QUEUE: i32 = 1024;

/// A bound socket and the address it really has.
#[derive(Debug)]
pub(crate) struct Listener {
    kind: Kind,
    address: ListenAddress,
}

#[derive(Debug)]
enum Kind {
    Tcp(Async<TcpListener>),
    #[cfg(unix)]
    Unix(Async<UnixListener>),
}

impl Listener {
    /// Binds `host:port` or `unix:path`; port 0 lets the system choose.
    ///
    /// # Errors
    /// Those of the system, with the address in the text.
    pub(crate) async fn bind(address: &str) -> io::Result<Self> {
        let bound = match Self::try_bind(address).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                return Err(io::Error::new(error.kind(), format!("cannot listen on {address}: the address is in use")));
            }
            other => other,
        };
        bound.map_err(|error| with_context(&error, &format!("cannot listen on {address}")))
    }

    async fn try_bind(address: &str) -> io::Result<Self> {
        #[cfg(unix)]
        if let Some(path) = unix_path(address) {
            return Self::bind_unix(path);
        }
        // With several addresses of one name, the first that can be bound.
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "the name has no address");
        for candidate in smol::net::resolve(address).await? {
            match Self::bind_tcp(candidate) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bind_tcp(address: SocketAddr) -> io::Result<Self> {
        let listener = Async::<TcpListener>::bind(address)?;
        #[cfg(unix)]
        rustix::net::listen(&listener, ACCEPT_QUEUE)?;
        let address = ListenAddress::Tcp(listener.get_ref().local_addr()?);
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
        Ok(Self { kind: Kind::Unix(Async::new(listener)?), address: ListenAddress::Unix(PathBuf::from(path)) })
    }

    pub(crate) const fn address(&self) -> &ListenAddress {
        &self.address
    }

    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        Ok(match &self.kind {
            Kind::Tcp(listener) => {
                let (stream, peer) = next(listener, TcpListener::accept).await?;
                Accepted::Tcp(stream, peer)
            }
            #[cfg(unix)]
            Kind::Unix(listener) => Accepted::Unix(next(listener, UnixListener::accept).await?.0),
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
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Accepted {
    pub(crate) fn into_socket(self) -> io::Result<Socket> {
        match self {
            Self::Tcp(stream, peer) => Socket::tcp(Async::new(stream)?, peer),
            #[cfg(unix)]
            Self::Unix(stream) => Ok(Socket::Unix(Async::new(stream)?)),
        }
    }
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
