//! Meters that every program of the benchmark uses, ours and the peers' alike, so that their figures mean the same: CPU
//! time of both processes of a pair, what they allocate, latencies, and the one line of JSON that tells of it.
//!
//! A client opens a [`Window`] with the process id of the server and reads the server's CPU clock from outside, so that
//! a server in any language is measured alike. A server of ours or in Rust also [publishes](allocations::publish) what
//! it allocates.
//!
//! `unsafe` is in [`allocations`] alone.
#![deny(unsafe_code)]

pub mod allocations;
mod cost;
mod histogram;
mod window;

pub use cost::Usage;
pub use histogram::Histogram;
pub use window::{Report, Window};
