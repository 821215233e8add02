//! In which dialects the demo's calls go over the wire.

use std::fmt;

use trirpc::Protocol;

/// A wire protocol that the demo can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// gRPC over HTTP/2: every kind of call.
    Grpc,
    /// Triple's own: unary calls with a bare body. Its streams are gRPC.
    Triple,
    /// Connect: unary calls with a bare body.
    Connect,
}

impl Dialect {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Grpc, Self::Triple, Self::Connect];

    /// As it is written on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Triple => "triple",
            Self::Connect => "connect",
        }
    }

    pub(super) const fn protocol(self) -> Protocol {
        match self {
            Self::Grpc => Protocol::Grpc,
            Self::Triple => Protocol::Triple,
            Self::Connect => Protocol::Connect,
        }
    }

    /// Whether it has streams that are not another dialect's.
    pub(super) const fn has_streams(self) -> bool {
        matches!(self, Self::Grpc)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "gRPC",
            Self::Triple => "Triple",
            Self::Connect => "Connect",
        })
    }
}
