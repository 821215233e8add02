//! Header compression for HTTP/2 (RFC 7541): an encoder and a decoder without I/O.
//!
//! ```
//! use bytes::BytesMut;
//! use trirpc_core::hpack::{Decoder, Encoder, ListLimits, DEFAULT_TABLE_SIZE};
//! use trirpc_core::http::HeaderName;
//!
//! let (mut encoder, mut decoder) = (Encoder::new(DEFAULT_TABLE_SIZE), Decoder::new(DEFAULT_TABLE_SIZE));
//! let mut block = BytesMut::new();
//! encoder.begin(&mut block);
//! encoder.field(&HeaderName::TE, b"trailers", false, &mut block);
//!
//! let mut fields = Vec::new();
//! let limits = ListLimits { bytes: 16 * 1024, fields: 128 };
//! decoder.decode(&block.freeze(), limits, &mut |field| fields.push(field)).unwrap();
//! assert_eq!(fields[0].name, HeaderName::TE);
//! ```

mod decoder;
mod dynamic_table;
mod encoder;
mod error;
mod huffman;
mod integer;
mod policy;
mod static_table;
mod strings;

pub use decoder::{Decoder, ListLimits, ListSize};
pub use encoder::Encoder;
pub use error::DecodeError;

/// Size of both dynamic tables before any SETTINGS (RFC 9113 §6.5.2), in bytes.
pub const DEFAULT_TABLE_SIZE: u32 = 4096;

/// Index of the newest entry of the dynamic table: the static table comes before it.
const FIRST_DYNAMIC: usize = static_table::LEN + 1;

#[cfg(test)]
mod tests;
