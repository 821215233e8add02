//! Harnesses shared by the integration tests of trirpc.

pub mod sources;
