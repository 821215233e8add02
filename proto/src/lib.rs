//! Protobuf for trirpc: the codec, rich errors, and the messages of well-known services.
//!
//! - [`Prost`] encodes and decodes every [`prost::Message`]; [`Raw`] passes bytes through.
#![cfg_attr(feature = "gzip", doc = "- [`Gzip`] compresses messages.")]
#![cfg_attr(not(feature = "gzip"), doc = "- `Gzip` (a feature) compresses messages.")]
//! - [`StatusDetails`] packs messages into a status and reads them out (`grpc-status-details-bin`).
//! - [`google::rpc`] and [`grpc::health::v1`] are the messages that go with them, and the methods of the
//!   health service.
//!
//! No std is needed, an allocator is. Code that `trirpc-build` generates with the root
//! `::trirpc_proto::codegen` has messages and methods that need no more than this crate.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

mod details;
#[cfg(feature = "gzip")]
mod gzip;
#[cfg(feature = "stubs")]
mod health;
mod owned_codec;
mod prost_codec;
mod raw_codec;

pub use details::StatusDetails;
#[cfg(feature = "gzip")]
pub use gzip::Gzip;
#[cfg(feature = "stubs")]
pub use health::HealthService;
pub use owned_codec::{ProstField, ProstOwned};
pub use prost_codec::Prost;
pub use raw_codec::Raw;

/// Messages of the packages `google.*`.
#[allow(missing_docs, unused_qualifications)]
pub mod google {
    /// Status with details, and the standard details.
    pub mod rpc {
        include!("generated/google.rpc.rs");
    }
}

/// Messages and services of the packages `grpc.*`.
#[allow(missing_docs, unused_qualifications)]
pub mod grpc {
    /// Health checking.
    pub mod health {
        /// Version 1.
        pub mod v1 {
            include!("generated/grpc.health.v1.rs");
        }
    }
}

/// `trirpc.test.v1`: the service by which the project tests itself and its peers.
#[cfg(feature = "test-service")]
#[allow(missing_docs, unused_qualifications)]
pub mod test_service {
    include!("generated/trirpc.test.v1.rs");
}

/// Every name that generated code refers to: a root for `trirpc-build`.
///
/// Without the feature `stubs` it serves messages and methods, with it also clients and servers.
pub mod codegen {
    #[doc(no_inline)]
    pub use prost;
    #[doc(no_inline)]
    pub use prost_types;
    pub use trirpc_core::call::{CallKind, Method, MethodCodec};

    pub use crate::{Prost, ProstField, ProstOwned};

    #[cfg(feature = "stubs")]
    pub use stubs::*;

    /// What clients and servers need besides.
    #[cfg(feature = "stubs")]
    mod stubs {
        pub use trirpc_core::call::{Code, MethodSpec, Status};
        pub use trirpc_rpc::{
            BidiCall, Channel, ClientStreamingCall, Context, Handling, IncomingCall, Invoke, MaybeSend, MaybeSync,
            Sender, ServerStreamingCall, Service, ServiceDescriptor, Streaming, UnaryCall,
        };
    }
}
