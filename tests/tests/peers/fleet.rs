//! The foreign peers: what is started of each, and what it does otherwise in the cells of the run itself.

use std::process::Command;

use crate::process::{Installed, Program};

/// A foreign library.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// What `install.sh` calls its part of the installation.
    pub(crate) part: &'static str,
    server: Program,
    client: Program,
    /// Calls of `Sleep` that its client makes a server drop, and its server drops.
    pub(crate) cancels: (Count, Count),
    /// Whether its client compresses requests, and its server replies.
    pub(crate) compresses: (bool, bool),
    /// Connections that its client makes for all cases.
    pub(crate) connections: Count,
}

/// A number and, where it is not what others do, the reason.
pub(crate) type Count = (usize, &'static str);

const BOTH: Count = (2, "");
const ONE: Count = (1, "");

pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "grpcio",
        part: "grpcio",
        server: Program::Python("server.py"),
        client: Program::Python("client.py"),
        cancels: (BOTH, BOTH),
        compresses: (true, false),
        connections: ONE,
    },
    Peer {
        name: "tonic",
        part: "tonic",
        server: Program::Native("tonic-peer", &["serve"]),
        client: Program::Native("tonic-peer", &["run"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "grpc-go",
        part: "go",
        server: Program::Native("bin/grpc", &[]),
        client: Program::Native("bin/grpc", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "connect-go",
        part: "go",
        server: Program::Native("bin/connect", &[]),
        client: Program::Native("bin/connect", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "dubbo-go",
        part: "go",
        server: Program::Native("bin/dubbo", &[]),
        client: Program::Native("bin/dubbo", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (false, true),
        connections: (3, "dubbo-go connects once for each service: Echo, Health, and the unknown one"),
    },
];

impl Peer {
    pub(crate) fn server(&self, installed: &Installed) -> Option<Command> {
        installed.command(self.part, &self.server)
    }

    pub(crate) fn client(&self, installed: &Installed) -> Option<Command> {
        installed.command(self.part, &self.client)
    }
}
