//! The body of a request or a response, whichever shape the dialect gives it.

use bytes::Bytes;

use super::protocol::Body;
use super::status::Status;
use super::{bare, envelope};
use crate::buf::{BufferPool, Landing, MessageBuf, Run};

/// Cuts a body, however it is split, into messages.
#[derive(Debug)]
pub(crate) enum Decoder {
    Envelopes(envelope::Decoder),
    Bare(bare::Decoder),
}

/// The same method of either shape.
macro_rules! either {
    ($self:ident, $decoder:ident => $call:expr) => {
        match $self {
            Self::Envelopes($decoder) => $call,
            Self::Bare($decoder) => $call,
        }
    };
}

impl Decoder {
    #[inline]
    pub(crate) fn new(body: Body, max_message: usize) -> Self {
        match body {
            Body::Envelopes => Self::Envelopes(envelope::Decoder::new(max_message)),
            Body::Bare => Self::Bare(bare::Decoder::new(max_message)),
        }
    }

    /// From here on, messages may be compressed: the peer announced this encoding, which we know.
    pub(crate) const fn allow_compressed(&mut self, encoding: &'static str) {
        either!(self, decoder => decoder.allow_compressed(encoding));
    }

    /// The head says how long the body is. That is the length of the message only where nothing is around it.
    ///
    /// # Errors
    /// The message is too long.
    pub(crate) fn expect_len(&mut self, len: u64) -> Result<(), Status> {
        match self {
            Self::Envelopes(_) => Ok(()),
            Self::Bare(decoder) => decoder.expect_len(usize::try_from(len).unwrap_or(usize::MAX)),
        }
    }

    /// Takes the next octets of the body; `landing` has the memory for a large message.
    ///
    /// # Errors
    /// The first message that must not be accepted. The complete messages in front of it can still be pulled; all
    /// later input is dropped.
    pub(crate) fn push(&mut self, data: Bytes, landing: &mut Landing<'_>) -> Result<(), Status> {
        either!(self, decoder => decoder.push(data, landing))
    }

    /// Takes `data` if it is all of a body of one message that may be kept: what [`push`](Self::push) and
    /// [`end`](Self::end) make of it.
    ///
    /// # Errors
    /// `data` is something else, and nothing happened.
    #[inline]
    pub(crate) fn push_whole(&mut self, data: Bytes) -> Result<(), Bytes> {
        match self {
            // A body of envelopes has nothing to say at its end, unless it is within a message.
            Self::Envelopes(decoder) if decoder.begun() == 0 => decoder.push_message(data),
            Self::Envelopes(_) => Err(data),
            Self::Bare(decoder) => decoder.push_message(data),
        }
    }

    /// Copies octets to where their message lies, if they are the middle of one or the beginning of a large one: what
    /// [`push`](Self::push) would make of them. False if not, and then nothing happened.
    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        either!(self, decoder => decoder.extend(octets, landing))
    }

    /// The body ended where a message may end; see [`is_partial`](Self::is_partial).
    pub(crate) fn end(&mut self) {
        if let Self::Bare(decoder) = self {
            decoder.end();
        }
    }

    /// The next complete message; `pool` has the memory for the one behind it.
    #[inline]
    pub(crate) fn pull(&mut self, pool: &mut BufferPool) -> Option<MessageBuf> {
        match self {
            Self::Envelopes(decoder) => decoder.pull(pool),
            Self::Bare(decoder) => decoder.pull(),
        }
    }

    /// The next complete messages that lie behind each other, up to `max` bytes of them; none where a body is one.
    pub(crate) fn pull_run(&mut self, max: usize, pool: &mut BufferPool) -> Run {
        match self {
            Self::Envelopes(decoder) => decoder.pull_run(max, pool),
            Self::Bare(_) => Run::default(),
        }
    }

    /// Whether a message can be pulled.
    pub(crate) fn is_ready(&self) -> bool {
        either!(self, decoder => decoder.is_ready())
    }

    /// Messages of which at least one octet arrived, pulled ones included.
    pub(crate) fn begun(&self) -> u64 {
        either!(self, decoder => decoder.begun())
    }

    /// Whether the input ends inside a message.
    pub(crate) const fn is_partial(&self) -> bool {
        match self {
            Self::Envelopes(decoder) => decoder.is_partial(),
            // Only the end of the body ends its message.
            Self::Bare(_) => false,
        }
    }

    /// Octets still missing of the message at the front, as far as is known; 0 if one can be pulled.
    pub(crate) fn need(&self) -> usize {
        either!(self, decoder => decoder.need())
    }

    /// Octets received and not pulled, prefixes included.
    pub(crate) fn buffered(&self) -> usize {
        either!(self, decoder => decoder.buffered())
    }

    /// Drops everything received and refuses what is still to come.
    pub(crate) fn discard(&mut self) {
        either!(self, decoder => decoder.discard());
    }
}
