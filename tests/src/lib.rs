//! Harnesses shared by the integration tests of trirpc.

pub mod alloc;
pub mod sources;
