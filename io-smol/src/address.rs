//! Where a server listens.

use std::fmt;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListenAddress {
    /// TCP, with the port that the system chose if 0 was asked for.
    Tcp(SocketAddr),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(PathBuf),
}

impl ListenAddress {
    /// The address as [`Connect::connect`](crate::Connect::connect) takes it.
    ///
    /// A server that listens on every interface is reached on this machine by the loopback address.
    pub fn uri(&self) -> String {
        match self {
            Self::Tcp(addr) if addr.ip().is_unspecified() => {
                let loopback = match addr {
                    SocketAddr::V4(_) => SocketAddr::from(([127, 0, 0, 1], addr.port())),
                    SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, addr.port())),
                };
                format!("http://{loopback}")
            }
            Self::Tcp(addr) => format!("http://{addr}"),
            #[cfg(unix)]
            Self::Unix(_) => self.to_string(),
        }
    }

    /// The TCP address, if it is one.
    pub const fn as_tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(addr) => Some(*addr),
            #[cfg(unix)]
            Self::Unix(_) => None,
        }
    }
}

/// `127.0.0.1:50051`, `[::1]:50051`, `unix:/run/echo.sock`.
impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(addr) => write!(f, "{addr}"),
            #[cfg(unix)]
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// What follows `unix:`; `unix:///run/x` is written too.
#[cfg(unix)]
pub(crate) fn unix_path(address: &str) -> Option<&Path> {
    let path = address.strip_prefix("unix:")?;
    Some(Path::new(path.strip_prefix("//").unwrap_or(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_every_interface_is_reached_by_the_loopback_address() {
        let uri = |text: &str| ListenAddress::Tcp(text.parse().expect(text)).uri();
        assert_eq!(uri("0.0.0.0:7"), "http://127.0.0.1:7");
        assert_eq!(uri("[::]:7"), "http://[::1]:7");
        assert_eq!(uri("10.1.1.1:7"), "http://10.1.1.1:7");
    }

    #[cfg(unix)]
    #[test]
    fn a_unix_socket_may_be_written_with_and_without_slashes() {
        assert_eq!(unix_path("unix:///run/x.sock"), Some(Path::new("/run/x.sock")));
        assert_eq!(unix_path("unix:/run/x.sock"), Some(Path::new("/run/x.sock")));
        assert_eq!(unix_path("127.0.0.1:80"), None);
    }
}
