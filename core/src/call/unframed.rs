//! A body without envelopes: one message, or octets that are none.

use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::status::Status;
use super::{bare, plain};
use crate::buf::{Landing, LentMemory, MessageBuf};

/// What is made of such a body. The methods are those of [`bare::Decoder`]; pieces of plain octets are pulled as messages
/// are, and not counted as such.
#[derive(Debug)]
pub(crate) enum Decoder {
    Message(bare::Decoder),
    Octets(plain::Decoder),
}

impl Decoder {
    pub(crate) fn push(&mut self, data: Bytes, landing: &mut Landing<'_>) -> Result<(), Status> {
        match self {
            Self::Message(decoder) => decoder.push(data, landing),
            Self::Octets(decoder) => {
                decoder.extend(&data);
                Ok(())
            }
        }
    }

    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        match self {
            Self::Message(decoder) => decoder.extend(octets, landing),
            Self::Octets(decoder) => {
                decoder.extend(octets);
                true
            }
        }
    }

    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        match self {
            Self::Message(decoder) => decoder.lend(room),
            Self::Octets(_) => None,
        }
    }

    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        match self {
            Self::Message(decoder) => decoder.restore(memory, filled),
            Self::Octets(_) => Err(memory),
        }
    }

    pub(crate) fn landed(&mut self, n: usize) {
        if let Self::Message(decoder) = self {
            decoder.landed(n);
        }
    }

    pub(crate) fn end(&mut self) {
        if let Self::Message(decoder) = self {
            decoder.end();
        }
    }

    pub(crate) fn pull(&mut self) -> Option<MessageBuf> {
        match self {
            Self::Message(decoder) => decoder.pull(),
            Self::Octets(decoder) => decoder.pull(),
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Message(decoder) => decoder.is_ready(),
            Self::Octets(decoder) => decoder.is_ready(),
        }
    }

    pub(crate) fn begun(&self) -> u64 {
        match self {
            Self::Message(decoder) => decoder.begun(),
            Self::Octets(_) => 0,
        }
    }

    pub(crate) fn need(&self) -> usize {
        match self {
            Self::Message(decoder) => decoder.need(),
            Self::Octets(_) => 0,
        }
    }

    pub(crate) fn buffered(&self) -> usize {
        match self {
            Self::Message(decoder) => decoder.buffered(),
            Self::Octets(decoder) => decoder.buffered(),
        }
    }

    pub(crate) fn detach(&mut self) {
        match self {
            Self::Message(decoder) => decoder.detach(),
            // They are copies.
            Self::Octets(_) => {}
        }
    }

    pub(crate) fn discard(&mut self) {
        match self {
            Self::Message(decoder) => decoder.discard(),
            Self::Octets(decoder) => decoder.discard(),
        }
    }
}
