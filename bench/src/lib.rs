//! The benchmark of trirpc, and the gates that keep its costs from growing.
//!
//! - [`serve`] and [`load`] are the two programs of a benchmark: an echo server, and a client that prints one JSON
//!   line. Any gRPC server can be put under the load, and any client of `bench.Echo` can load the server.
//! - [`gates`] counts instructions, writes and allocations of a call, without a clock and without a socket, and
//!   compares them with what was recorded.
#![forbid(unsafe_code)]

pub mod echo;
pub mod gates;
pub mod load;
pub mod serve;

/// Package `bench`.
#[allow(missing_docs, unused_qualifications)]
pub mod proto {
    trirpc::include_proto!("bench");
}

/// The same with payloads that are lent: `Bytes` that lie where they were received.
#[allow(missing_docs, unused_qualifications)]
pub mod lent {
    include!(concat!(env!("OUT_DIR"), "/lent/bench.rs"));
}
