//! Harnesses shared by the integration tests of trirpc.

pub mod alloc;
pub mod attacks;
pub mod process;
pub mod sources;

pub use trirpc_fuzz::{clock, frames, generate, model, pair, pipe, random, script, trace};
