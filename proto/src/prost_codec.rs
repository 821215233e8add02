//! The codec `proto`.

use alloc::format;
use alloc::string::ToString;

use trirpc_core::CodecError;
use trirpc_core::buf::{Contiguous, MessageBuf};
use trirpc_core::call::{Codec, EncodeBuf, MethodCodec};

use crate::ProstOwned;

/// Protocol Buffers by [prost], for every message type.
///
/// A message is encoded in place, into the buffer that goes to the transport, and decoded from the chunks
/// in which it arrived. A field of type [`bytes::Bytes`] of 1 KiB or more that lies in one chunk is a slice of
/// it, not a copy; it keeps the chunk's memory for as long as it lives.
///
/// A decoded message takes memory in proportion to its encoded length, which `max_recv_message` limits: an
/// empty element of a repeated field is two bytes on the wire and one value of its type in memory. Nesting is
/// refused beyond 100 levels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prost;

impl Prost {
    /// The codecs of a method whose messages are Protobuf, for [`Method::new`](trirpc_core::call::Method::new).
    pub const fn codecs<Req, Res>() -> &'static [MethodCodec<Req, Res>]
    where
        Req: prost::Message + Default + 'static,
        Res: prost::Message + Default + 'static,
    {
        &[MethodCodec { request: &Self, response: &Self }]
    }

    /// The same, for messages whose `bytes` fields are all `Vec<u8>`: these are copied once, and not twice. Generated code
    /// uses [`ProstOwned`] itself.
    ///
    /// A field of type [`bytes::Bytes`] would work, and keep the memory of a whole receive window for a few bytes.
    pub const fn owned_codecs<Req, Res>() -> &'static [MethodCodec<Req, Res>]
    where
        Req: prost::Message + Default + 'static,
        Res: prost::Message + Default + 'static,
    {
        &[MethodCodec { request: &ProstOwned::PLAIN, response: &ProstOwned::PLAIN }]
    }
}

impl<T: prost::Message + Default> Codec<T> for Prost {
    fn name(&self) -> &'static str {
        "proto"
    }

    fn encoded_len(&self, item: &T) -> Option<usize> {
        Some(item.encoded_len())
    }

    fn encode(&self, item: &T, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        // Where size is worth more than time all messages are written in one way.
        let overwritten = if cfg!(target_family = "wasm") { None } else { dst.overwrite(|octets| item.encode(octets)) };
        if let Some(encoded) = overwritten {
            return encoded.map_err(|error| CodecError::new(error.to_string()));
        }
        let (len, room) = (item.encoded_len(), dst.remaining());
        if len > room {
            return Err(too_long(len, room));
        }
        // Prost writes byte by byte, and with the limit each has one more look at the bounds.
        item.encode_raw(dst.buf().get_mut());
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<T, CodecError> {
        T::decode(src).map_err(|error| CodecError::new(error.to_string()))
    }

    fn decode_contiguous(&self, src: Contiguous<'_>) -> Result<T, CodecError> {
        if cfg!(target_family = "wasm") {
            // Once more the code of every message is too much there.
            return self.decode(&mut src.into());
        }
        T::decode(src).map_err(|error| CodecError::new(error.to_string()))
    }
}

#[cold]
fn too_long(len: usize, room: usize) -> CodecError {
    CodecError::new(format!("{len} bytes do not fit into {room}"))
}
