//! One message, put together from the pieces in which it arrives.

use core::mem;

use bytes::{Bytes, BytesMut};

use crate::buf::{MessageBuf, WAIT_FROM};

/// Keeps large pieces as they are and copies small ones together: without that, a peer that sends single octets costs a
/// handle for each, and pins what they came in.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    message: MessageBuf,
    /// Small pieces, copied together behind `message`.
    tail: BytesMut,
}

impl Assembly {
    /// `encoding` is that of a compressed message.
    pub(crate) fn new(encoding: Option<&'static str>) -> Self {
        Self { message: MessageBuf::new(encoding), tail: BytesMut::new() }
    }

    /// Appends a piece; the last one need not be copied.
    pub(crate) fn push(&mut self, piece: Bytes, is_last: bool) {
        if piece.len() < WAIT_FROM && (!is_last || !self.tail.is_empty()) {
            self.tail.extend_from_slice(&piece);
        } else {
            self.message.push(mem::take(&mut self.tail).freeze());
            self.message.push(piece);
        }
    }

    /// Octets so far.
    pub(crate) fn len(&self) -> usize {
        self.message.len() + self.tail.len()
    }

    /// All of it.
    pub(crate) fn finish(mut self) -> MessageBuf {
        self.message.push(self.tail.freeze());
        self.message
    }
}
