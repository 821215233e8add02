//! `bench.Echo` by connect-rust.

/// Generated code.
pub mod proto {
    connectrpc::include_generated!();
}
