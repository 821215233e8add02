//! Where a channel connects to: parsed, not resolved.

use std::fmt;

use trirpc_core::Endpoint;

/// A parsed target: `http://host:port`, `https://host:port` or `unix:/path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    text: String,
    secure: bool,
    authority: String,
    address: Address,
}

/// What is to be connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host, by name or address (IPv6 without brackets), and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(String),
}

impl Target {
    /// Parses a target. A port that is left out is 80, or 443 for `https`.
    ///
    /// # Errors
    /// The error says what a target looks like.
    pub fn parse(text: &str) -> Result<Self, InvalidTarget> {
        let invalid = |reason| InvalidTarget { text: text.to_owned(), reason };
        if let Some(path) = text.strip_prefix("unix:") {
            // Both `unix:/path` and `unix:///path` are in use.
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(invalid("the path of a Unix socket is absolute"));
            }
            // The path is no host name, and peers refuse an authority that is none.
            let authority = "localhost".to_owned();
            return Ok(Self { text: text.to_owned(), secure: false, authority, address: Address::Unix(path.into()) });
        }
        let (secure, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(invalid("the scheme is missing or unknown")),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(invalid("a target has neither path nor user"));
        }
        let (host, port) = split_authority(authority, if secure { 443 } else { 80 }).map_err(invalid)?;
        let address = Address::Tcp { host: host.to_owned(), port };
        Ok(Self { text: text.to_owned(), secure, authority: authority.to_owned(), address })
    }

    /// The text that was parsed.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether TLS is asked for.
    pub const fn is_secure(&self) -> bool {
        self.secure
    }

    /// What is to be connected to.
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// Scheme and authority of the requests.
    pub fn endpoint(&self) -> Endpoint {
        let authority = self.authority.clone();
        if self.secure { Endpoint::https(authority) } else { Endpoint::http(authority) }
    }
}

fn split_authority(authority: &str, default: u16) -> Result<(&str, u16), &'static str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the bracket of the IPv6 address is not closed")?;
            (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or("behind `]` comes `:port`")?) })
        }
        None => match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err("an IPv6 address stands in brackets"),
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() || !host.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the host is missing, or no host name");
    }
    match port {
        None => Ok((host, default)),
        Some(port) => port.parse().map(|port| (host, port)).map_err(|_| "the port is a number below 65536"),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A text that is no target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTarget {
    text: String,
    reason: &'static str,
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no target: {}; write http://host:port, https://host:port or unix:/path",
            self.text, self.reason
        )
    }
}

impl std::error::Error for InvalidTarget {}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(text: &str) -> (String, u16, bool, String) {
        let target = Target::parse(text).expect(text);
        let Address::Tcp { host, port } = target.address().clone() else { panic!("{text} is TCP") };
        let authority = String::from_utf8(target.endpoint().authority.to_vec()).expect("text");
        (host, port, target.is_secure(), authority)
    }

    #[test]
    fn targets_of_each_scheme_parse() {
        assert_eq!(tcp("http://localhost:50051"), ("localhost".into(), 50051, false, "localhost:50051".into()));
        assert_eq!(tcp("https://example.org"), ("example.org".into(), 443, true, "example.org".into()));
        assert_eq!(tcp("http://[::1]:8080/"), ("::1".into(), 8080, false, "[::1]:8080".into()));
        assert_eq!(tcp("http://[::1]"), ("::1".into(), 80, false, "[::1]".into()));
        for text in ["unix:/run/app.sock", "unix:///run/app.sock"] {
            let target = Target::parse(text).expect(text);
            assert_eq!(target.address(), &Address::Unix("/run/app.sock".into()));
            assert_eq!(&target.endpoint().authority[..], b"localhost");
        }
    }

    #[test]
    fn a_wrong_target_is_told_what_one_looks_like() {
        for text in [
            "",
            "localhost:50051",
            "ftp://host",
            "http://",
            "http://:80",
            "http://host:port",
            "http://host:65536",
            "http://::1:80",
            "http://[::1",
            "http://[::1]80",
            "http://host/path",
            "http://user@host",
            "http://ho st",
            "unix:relative",
        ] {
            let error = Target::parse(text).expect_err(text).to_string();
            assert!(error.contains("http://host:port"), "{error}");
        }
    }
}
