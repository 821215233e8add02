//! Fuzz targets as plain functions: each takes any bytes and panics on a finding.
//!
//! A target is a function here, a line in [`TARGETS`], a file in `fuzz_targets` with its `[[bin]]`, and a
//! folder in `corpus`. `run.sh` fuzzes; `tests/tests/fuzz_corpus.rs` replays every corpus on stable.
#![forbid(unsafe_code)]

mod connection;
mod envelope;
mod frame;
mod hpack;
mod input;
pub mod oracle;
pub mod trace;

pub use connection::{client_bytes, server_bytes};
pub use envelope::envelope;
pub use frame::frame;
pub use hpack::{hpack_decode, hpack_roundtrip};

/// The name of a binary and of its corpus, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("client_bytes", client_bytes),
    ("envelope", envelope),
    ("frame", frame),
    ("hpack_decode", hpack_decode),
    ("hpack_roundtrip", hpack_roundtrip),
    ("server_bytes", server_bytes),
];
