//! Messages as the bytes they are on the wire.

use alloc::format;

use bytes::{Buf, BufMut, Bytes};
use trirpc_core::CodecError;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::{Codec, EncodeBuf};

/// Passes messages through unread: for proxies, generic calls and foreign serialisations.
///
/// A message that arrived in one chunk of 1 KiB or more is not copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raw {
    name: &'static str,
}

impl Raw {
    /// Bytes that are Protobuf messages.
    pub const PROTO: Self = Self::new("proto");

    /// Bytes that the peer knows under `name`, the content subtype.
    pub const fn new(name: &'static str) -> Self {
        Self { name }
    }
}

impl Codec<Bytes> for Raw {
    fn name(&self) -> &'static str {
        self.name
    }

    fn encoded_len(&self, item: &Bytes) -> Option<usize> {
        Some(item.len())
    }

    fn encode(&self, item: &Bytes, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        if item.len() > dst.remaining() {
            return Err(CodecError::new(format!("{} bytes do not fit into {}", item.len(), dst.remaining())));
        }
        dst.buf().put_slice(item);
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Bytes, CodecError> {
        Ok(src.copy_to_bytes(src.len()))
    }
}
