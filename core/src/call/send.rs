//! What both sides of a call may still send.

use super::envelope;
use super::protocol::Body;
use crate::error::{CodecError, SendError};

/// `Open → Sealed`, or `Over` from either when the call ends, which it does once.
#[derive(Debug)]
pub(crate) struct SendSide {
    state: State,
    body: Body,
    /// At most one message may be sent.
    single: bool,
    /// An encoding was announced, so that messages may be compressed.
    compression: bool,
    /// The last message is compressed.
    is_compressed: bool,
    /// A message was sent.
    has_sent: bool,
    /// Length of the largest message: no prefix tells of a longer one.
    max_message: u32,
    /// Length of the last message.
    last: u32,
}

#[derive(Debug)]
enum State {
    Open,
    Sealed,
    Over(SendError),
}

impl SendSide {
    pub(crate) const fn new(body: Body, single: bool, max_message: usize, compression: bool) -> Self {
        let max_message = if max_message < u32::MAX as usize { max_message as u32 } else { u32::MAX };
        let (is_compressed, has_sent) = (false, false);
        Self { state: State::Open, body, single, compression, is_compressed, has_sent, max_message, last: 0 }
    }

    pub(crate) const fn set_single(&mut self, single: bool) {
        self.single = single;
    }

    /// Whether any number of messages may be sent.
    pub(crate) const fn is_stream(&self) -> bool {
        !self.single
    }

    /// Whether each message has a prefix, and nothing else than the messages is in the body.
    pub(crate) fn is_enveloped(&self) -> bool {
        self.body == Body::Envelopes
    }

    /// Accounts for one message and returns what goes in front of it.
    #[inline]
    pub(crate) fn envelope(
        &mut self,
        len: usize,
        compressed: bool,
    ) -> Result<Option<[u8; envelope::PREFIX]>, SendError> {
        self.check()?;
        if self.single && self.has_sent {
            return Err(SendError::Sealed);
        }
        if compressed && !self.compression {
            return Err(SendError::Codec(CodecError::new("compressed message on a call without compression")));
        }
        let limit = self.max_message as usize;
        let prefix = envelope::prefix(len, compressed).filter(|_| len <= limit);
        let prefix = prefix.ok_or(SendError::TooLarge { size: len, limit })?;
        self.note_sent(len);
        self.is_compressed = compressed && len > 0;
        Ok((self.body == Body::Envelopes).then_some(prefix))
    }

    /// The prefix of another message of a stream, of `len` bytes and not compressed, if one may be sent; if not,
    /// [`envelope`](Self::envelope) says why.
    #[inline]
    pub(crate) fn next_prefix(&self, len: usize) -> Option<[u8; envelope::PREFIX]> {
        let is_open = matches!(self.state, State::Open) && self.is_stream() && self.is_enveloped();
        if is_open && len <= self.max_message as usize { envelope::prefix(len, false) } else { None }
    }

    /// Accounts for the only message, of `len` bytes and not compressed, and returns its prefix, as
    /// [`envelope`](Self::envelope) does. That it may be sent is the caller's to know.
    #[inline]
    pub(crate) fn send_only(&mut self, len: usize) -> Option<[u8; envelope::PREFIX]> {
        debug_assert!(self.check().is_ok() && !self.has_sent && len <= self.max_message as usize);
        self.note_sent(len);
        if self.is_enveloped() { envelope::prefix(len, false) } else { None }
    }

    /// Largest message of a stream, in bytes, if some may be sent that are not compressed.
    pub(crate) fn max_next(&self) -> Option<usize> {
        let is_open = matches!(self.state, State::Open) && self.is_stream() && self.is_enveloped();
        is_open.then_some(self.max_message as usize)
    }

    /// Messages were sent, the last of `len` bytes, which is no more than a prefix tells of, and not compressed.
    pub(crate) const fn note_sent(&mut self, len: usize) {
        self.has_sent = true;
        self.is_compressed = false;
        self.last = len as u32;
    }

    /// Whether anything may still be sent, and why not.
    pub(crate) fn check(&self) -> Result<(), SendError> {
        match &self.state {
            State::Open => Ok(()),
            State::Sealed => Err(SendError::Sealed),
            State::Over(error) => Err(error.clone()),
        }
    }

    /// Why nothing more can be sent, if the call has ended.
    pub(crate) fn error(&self) -> Option<SendError> {
        match &self.state {
            State::Open | State::Sealed => None,
            State::Over(error) => Some(error.clone()),
        }
    }

    /// Ends sending; a second time changes nothing.
    pub(crate) fn seal(&mut self) -> Result<(), SendError> {
        match &self.state {
            State::Open | State::Sealed => {
                self.state = State::Sealed;
                Ok(())
            }
            State::Over(error) => Err(error.clone()),
        }
    }

    /// The call has ended; it must not have before.
    pub(crate) fn end(&mut self, error: SendError) {
        self.state = State::Over(error);
    }

    /// Whether the end of sending was shown to the peer, or need not be.
    pub(crate) const fn is_finished(&self) -> bool {
        !matches!(self.state, State::Open)
    }

    /// Length of a body that is one message, once nothing can be added to it.
    pub(crate) fn body_len(&self) -> Option<usize> {
        (self.body == Body::Bare && self.is_finished()).then_some(self.last as usize)
    }

    /// Whether the head has to announce an encoding: that of the messages which may follow, or of the only one.
    pub(crate) fn announces_encoding(&self) -> bool {
        match self.body {
            Body::Envelopes => self.compression,
            Body::Bare => self.is_compressed,
            Body::Plain => false,
        }
    }

    /// Whether a message was sent.
    pub(crate) const fn has_sent(&self) -> bool {
        self.has_sent
    }
}
