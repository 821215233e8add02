//! Triple and gRPC in Rust: the crate an application depends on.
