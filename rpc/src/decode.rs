//! From a received message to its type, outside every lock.

use trirpc_core::CodecError;
use trirpc_core::buf::{Contiguous, MessageBuf};
use trirpc_core::call::{Codec, Status};

/// Decodes one message; a failure says which codec refused it.
#[inline(always)] // once a message
pub(crate) fn decode<T>(codec: &dyn Codec<T>, message: &mut MessageBuf) -> Result<T, Status> {
    if message.is_compressed() {
        return Err(Status::internal("the peer compressed a message with an encoding that was not offered"));
    }
    let size = message.len();
    codec.decode(message).map_err(|error| invalid(size, codec.name(), &error))
}

/// [`decode`] for a message that lies in one piece and is not compressed.
#[inline(always)] // once a message
pub(crate) fn decode_contiguous<T>(codec: &dyn Codec<T>, message: Contiguous<'_>) -> Result<T, Status> {
    let size = message.len();
    codec.decode_contiguous(message).map_err(|error| invalid(size, codec.name(), &error))
}

#[cold]
fn invalid(size: usize, codec: &str, error: &CodecError) -> Status {
    Status::internal(format!("a message of {size} bytes is no valid {codec}: {}", error.message()))
}
