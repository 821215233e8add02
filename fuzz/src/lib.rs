//! Fuzz targets as plain functions: each takes any bytes and panics on a finding.
//!
//! A target is a function here, a line in [`TARGETS`], a file in `fuzz_targets` with its `[[bin]]`, and a
//! folder in `corpus`. `run.sh` fuzzes; `tests/tests/fuzz_corpus.rs` replays every corpus on stable.
#![deny(unsafe_code)]

mod calls;
pub mod clock;
mod coalesce;
mod connection;
mod cross_h2;
mod envelope;
mod frame;
pub mod frames;
pub mod generate;
mod hpack;
mod huffman;
mod input;
pub mod memory;
mod metadata;
pub mod model;
pub mod oracle;
pub mod pair;
pub mod pipe;
pub mod random;
pub mod script;
mod scripted;
pub mod trace;
mod triple;
mod validate;

pub use coalesce::coalesce_model;
pub use connection::{client_bytes, server_bytes};
pub use cross_h2::cross_h2;
pub use envelope::envelope;
pub use frame::frame;
pub use hpack::{hpack_decode, hpack_roundtrip};
pub use huffman::huffman;
pub use metadata::metadata;
pub use model::e2e_sim;
pub use scripted::{client_conn, server_conn};
pub use triple::{triple_error_json, triple_unary};
pub use validate::validate;

/// The name of a binary and of its corpus, and the function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("client_bytes", client_bytes),
    ("client_conn", client_conn),
    ("coalesce_model", coalesce_model),
    ("cross_h2", cross_h2),
    ("e2e_sim", e2e_sim),
    ("envelope", envelope),
    ("frame", frame),
    ("hpack_decode", hpack_decode),
    ("hpack_roundtrip", hpack_roundtrip),
    ("huffman", huffman),
    ("metadata", metadata),
    ("server_bytes", server_bytes),
    ("server_conn", server_conn),
    ("triple_error_json", triple_error_json),
    ("triple_unary", triple_unary),
    ("validate", validate),
];
