//! How messages become bytes: chosen per method, named on the wire by the content type.

use crate::buf::{Contiguous, EncodeBuf, MessageBuf};
use crate::error::CodecError;

/// Encodes and decodes messages of type `T`. Object safe: the content type of a call picks it at run time.
pub trait Codec<T>: Send + Sync {
    /// Name on the wire, which is also the content subtype: `proto`, `json`, …
    fn name(&self) -> &'static str;

    /// Length of `item` when encoded, where it is known without encoding.
    ///
    /// After `Some(n)`, [`encode`](Self::encode) writes exactly `n` bytes; a codec that does not costs the call
    /// its stream, for the length is on the wire already.
    fn encoded_len(&self, item: &T) -> Option<usize>;

    /// Appends `item` to `dst`.
    ///
    /// # Errors
    /// The message cannot be expressed, or does not fit into `dst`.
    fn encode(&self, item: &T, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError>;

    /// Reads one message, the whole of `src`.
    ///
    /// # Errors
    /// `src` is no message of this type.
    fn decode(&self, src: &mut MessageBuf) -> Result<T, CodecError>;

    /// [`decode`](Self::decode) for a message that lies in one piece: of a stream most do. By default it becomes a
    /// [`MessageBuf`], which costs a handle of its memory; a codec that reads it as it is saves that.
    ///
    /// # Errors
    /// As there.
    fn decode_contiguous(&self, src: Contiguous<'_>) -> Result<T, CodecError> {
        self.decode(&mut src.into())
    }
}

#[cfg(test)]
mod tests {
    use bytes::BufMut;

    use super::*;

    #[test]
    fn codecs_are_object_safe() {
        fn name(codec: &dyn Codec<u8>) -> &'static str {
            codec.name()
        }
        struct Byte;
        impl Codec<u8> for Byte {
            fn name(&self) -> &'static str {
                "byte"
            }
            fn encoded_len(&self, _: &u8) -> Option<usize> {
                Some(1)
            }
            fn encode(&self, item: &u8, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
                dst.buf().put_u8(*item);
                Ok(())
            }
            fn decode(&self, src: &mut MessageBuf) -> Result<u8, CodecError> {
                bytes::Buf::try_get_u8(src).map_err(|_| CodecError::new("empty"))
            }
        }
        assert_eq!(name(&Byte), "byte");
        assert_eq!(Byte.decode(&mut MessageBuf::default()), Err(CodecError::new("empty")));
    }
}
