//! The foreign peers: what is started of each, and what it does otherwise in the cells of the run itself.

use std::process::Command;

use trirpc::Protocol;

use trirpc_tests::process::{Installed, Program};

/// A foreign library.
pub(crate) struct Peer {
    /// Heads its column.
    pub(crate) name: &'static str,
    /// Its cells differ from others by what the library does, not by the protocol.
    pub(crate) library: &'static str,
    /// The protocol of both clients.
    pub(crate) protocol: Protocol,
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

/// Their parts of the installation.
pub(crate) const PARTS: &[&str] = &["grpcio", "tonic", "go", "node", "java"];

pub(crate) const PEERS: &[Peer] = &[
    Peer {
        name: "grpcio",
        library: "grpcio",
        protocol: Protocol::Grpc,
        part: "grpcio",
        server: Program::Python("server.py"),
        client: Program::Python("client.py"),
        cancels: (BOTH, BOTH),
        compresses: (true, false),
        connections: ONE,
    },
    Peer {
        name: "tonic",
        library: "tonic",
        protocol: Protocol::Grpc,
        part: "tonic",
        server: Program::Native("tonic-peer", &["serve"]),
        client: Program::Native("tonic-peer", &["run"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "grpc-go",
        library: "grpc-go",
        protocol: Protocol::Grpc,
        part: "go",
        server: Program::Native("bin/grpc", &[]),
        client: Program::Native("bin/grpc", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "connect-go",
        library: "connect-go",
        protocol: Protocol::Grpc,
        part: "go",
        server: Program::Native("bin/connect", &[]),
        client: Program::Native("bin/connect", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "dubbo-go",
        library: "dubbo-go",
        protocol: Protocol::Grpc,
        part: "go",
        server: Program::Native("bin/dubbo", &[]),
        client: Program::Native("bin/dubbo", &["client"]),
        cancels: (BOTH, BOTH),
        compresses: (false, true),
        connections: (3, "dubbo-go connects once for each service: Echo, Health, and the unknown one"),
    },
    Peer {
        name: "grpc-js",
        library: "grpc-js",
        protocol: Protocol::Grpc,
        part: "node",
        server: Program::Node("server.mjs"),
        client: Program::Node("client.mjs"),
        cancels: (BOTH, BOTH),
        compresses: (true, false),
        connections: (2, "grpc-js compresses by channel, so the gzip cases have a connection of their own"),
    },
    Peer {
        name: "dubbo-java",
        library: "dubbo-java",
        protocol: Protocol::Grpc,
        part: "java",
        server: Program::Java("trirpc.test.peer.Server"),
        client: Program::Java("trirpc.test.peer.Client"),
        cancels: (
            (1, "dubbo-java's clients tell a server of a deadline, but not that a unary call was given up"),
            (0, "dubbo-java's servers do not tell a unary handler that its call has ended"),
        ),
        compresses: (true, false),
        connections: (2, "dubbo-java compresses by its environment, so the gzip cases have a process of their own"),
    },
    Peer {
        name: "connect-go, Connect",
        library: "connect-go",
        protocol: Protocol::Connect,
        part: "go",
        server: Program::Native("bin/connect", &[]),
        client: Program::Native("bin/connect", &["client", "connect"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
    },
    Peer {
        name: "dubbo-go, Triple",
        library: "dubbo-go",
        protocol: Protocol::Triple,
        part: "go",
        server: Program::Native("bin/dubbo", &[]),
        client: Program::Native("bin/dubbo", &["client", "triple"]),
        cancels: (BOTH, BOTH),
        compresses: (true, true),
        connections: ONE,
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
