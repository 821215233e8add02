//! Harnesses shared by the integration tests of trirpc.

pub mod alloc;
pub mod clock;
pub mod frames;
pub mod generate;
pub mod model;
pub mod pair;
pub mod pipe;
pub mod random;
pub mod sources;

pub use trirpc_fuzz::trace;
