//! Triple and gRPC in Rust: the crate an application depends on.
//!
//! Everything here is re-exported from the crates below, which can be used alone: [`core`] is the protocol
//! without any I/O, [`rpc`] the async call layer for any executor, [`proto`] Protobuf, and
#![cfg_attr(feature = "smol", doc = "[`smol`] the sockets and executor.")]
#![cfg_attr(not(feature = "smol"), doc = "`smol` (a feature) the sockets and executor.")]
//!
//! Code for a `.proto` comes from `trirpc-build` in a `build.rs`:
//!
//! ```ignore
//! mod hello {
//!     trirpc::include_proto!("hello.v1");
//! }
//! ```
//!
//! The README has a whole server and a whole client; `examples/` has them as programs.
#![forbid(unsafe_code)]

pub use trirpc_core as core;
pub use trirpc_proto as proto;
pub use trirpc_rpc as rpc;
#[cfg(feature = "smol")]
pub use trirpc_smol as smol;

pub use bytes::Bytes;
pub use trirpc_core::Config;
pub use trirpc_core::buf::FlushPolicy;
pub use trirpc_core::call::{
    CallKind, CallOptions, Code, Codec, Compression, Metadata, MetadataError, Method, MethodSpec, Origin, Protocol,
    ServiceVariant, Status, TripleHeaders,
};
#[cfg(feature = "gzip")]
pub use trirpc_proto::Gzip;
pub use trirpc_proto::{Prost, StatusDetails};
pub use trirpc_rpc::{Channel, Context, Invoke, Response, Router, Sender, Service, Streaming};
#[cfg(feature = "smol")]
pub use trirpc_smol::{Connect, EventLoop, Server};

/// Making calls: channels and the builders that the methods of a generated client return.
pub mod client {
    pub use trirpc_rpc::{
        BidiCall, CallLayer, Channel, ChannelOptions, ClientStreamingCall, Connectivity, FullReply, Interceptor,
        Invoke, NextCall, OutgoingCall, Reply, Response, ServerStreamingCall, UnaryCall,
    };
    #[cfg(feature = "smol")]
    pub use trirpc_smol::{ChannelBuilder, Connect};
}

/// Serving calls: routers, and what a handler is given.
pub mod server {
    pub use trirpc_rpc::{
        Cancelled, Context, Extensions, Handling, HttpMethod, HttpRequest, HttpResponse, IncomingCall, InlineHandlers,
        Interceptor, Layered, NextService, Router, Service, ServiceDescriptor, ServiceLayer,
    };
    #[cfg(feature = "smol")]
    pub use trirpc_smol::{ListenAddress, Served, Server, ServerBuilder};
}

/// Includes what `trirpc-build` made of a Protobuf package, such as `hello.v1`, in a `build.rs`.
#[macro_export]
macro_rules! include_proto {
    ($package:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $package, ".rs"));
    };
}

/// Further names that generated code refers to: this crate is its root.
#[doc(hidden)]
pub use {
    std::sync::Arc,
    trirpc_core::call::MethodCodec,
    trirpc_proto::codegen::{ProstField, ProstOwned, prost, prost_types},
    trirpc_rpc::{
        BidiCall, ClientStreamingCall, Handling, IncomingCall, MaybeSend, MaybeSync, ServerStreamingCall,
        ServiceDescriptor, UnaryCall,
    },
};
