//! A body that is one message, with nothing around it: it is whole when the body ends.

use core::mem;
use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::assembly::Assembly;
use super::envelope::{Terms, too_large};
use super::status::Status;
use crate::buf::{Landing, LentMemory, MessageBuf};

/// What is asked for at least while the length of a body is not known, in bytes.
const MIN_NEED: usize = 16 * 1024;

/// Collects a body, however it is split.
#[derive(Debug)]
pub(crate) struct Decoder {
    max_message: usize,
    encoding: Option<&'static str>,
    /// Length of the body, if its head told.
    expected: Option<usize>,
    message: Assembly,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Receiving,
    /// The body ended: the message can be pulled.
    Complete,
    Pulled,
    /// Everything was dropped and is dropped from here on.
    Discarded,
}

impl Decoder {
    /// `expected` is the length of the body, if the head told.
    pub(crate) fn new(terms: Terms, expected: Option<usize>) -> Self {
        let Terms { max_message, encoding } = terms;
        Self { max_message, encoding, expected, message: Assembly::default(), state: State::Receiving }
    }

    /// Takes the next octets of the body; `landing` has the memory for a large one.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn push(&mut self, data: Bytes, landing: &mut Landing<'_>) -> Result<(), Status> {
        if self.state != State::Receiving {
            return Ok(());
        }
        let len = self.message.len().saturating_add(data.len());
        if len > self.max_message {
            return Err(too_large(len, self.max_message));
        }
        if self.message.len() == 0 {
            self.message = Assembly::new(self.expected, self.encoding.filter(|_| !data.is_empty()));
        }
        self.message.push(data, landing);
        Ok(())
    }

    /// Copies octets to the end of the body, if it has begun and its length is known to hold them; false if not, and
    /// then nothing happened.
    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        let len = self.message.len();
        let expected = self.expected.unwrap_or_default().min(self.max_message);
        let is_within = self.state == State::Receiving && len > 0 && octets.len() <= expected.saturating_sub(len);
        if is_within {
            self.message.extend(octets, landing);
        }
        is_within
    }

    /// Lends the memory of the message: see [`Assembly::lend`].
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        let is_receiving = self.state == State::Receiving && self.expected.is_some_and(|len| len <= self.max_message);
        if is_receiving { self.message.lend(room) } else { None }
    }

    /// Takes back what was lent.
    ///
    /// # Errors
    /// Nobody wants it any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        self.message.restore(memory, filled)
    }

    /// The next `n` octets of the message lie in its memory already.
    pub(crate) fn landed(&mut self, n: usize) {
        self.message.landed(n);
    }

    /// Moves what lies in receive windows into memory of its own.
    pub(crate) fn detach(&mut self) {
        self.message.detach();
    }

    /// The body ended.
    pub(crate) fn end(&mut self) {
        if self.state == State::Receiving {
            self.state = State::Complete;
        }
    }

    /// The message, once the body has ended.
    pub(crate) fn pull(&mut self) -> Option<MessageBuf> {
        if self.state != State::Complete {
            return None;
        }
        self.state = State::Pulled;
        Some(mem::take(&mut self.message).finish())
    }

    /// Whether the message can be pulled.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Complete
    }

    /// Messages that arrived, pulled ones included: an empty body is one too.
    pub(crate) fn begun(&self) -> u64 {
        match self.state {
            State::Receiving => u64::from(self.message.len() > 0),
            State::Complete | State::Pulled => 1,
            State::Discarded => 0,
        }
    }

    /// Octets still missing of the message. While its length is not known, as many again as have come.
    pub(crate) fn need(&self) -> usize {
        let len = self.message.len();
        match (self.state, self.expected) {
            (State::Receiving, Some(expected)) => expected.saturating_sub(len),
            // One octet more than may come, so that a body that is too long is known to be.
            (State::Receiving, None) => len.max(MIN_NEED).min(self.max_message.saturating_add(1).saturating_sub(len)),
            _ => 0,
        }
    }

    /// Octets received and not pulled.
    pub(crate) fn buffered(&self) -> usize {
        self.message.len()
    }

    /// Drops everything received and refuses what is still to come.
    pub(crate) fn discard(&mut self) {
        self.message = Assembly::default();
        self.state = State::Discarded;
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use bytes::Buf;

    use super::*;
    use crate::buf::BufferPool;
    use crate::call::Code;

    fn new(max_message: usize, expected: Option<usize>) -> Decoder {
        Decoder::new(Terms { max_message, encoding: None }, expected)
    }

    fn push(decoder: &mut Decoder, data: Bytes) -> Result<(), Status> {
        decoder.push(data, &mut Landing::alone(&mut BufferPool::new(0)))
    }

    fn pulled(decoder: &mut Decoder) -> Option<Vec<u8>> {
        decoder.pull().map(|mut message| message.copy_to_bytes(message.len()).to_vec())
    }

    /// tri:116
    #[test]
    fn an_empty_body_is_a_message() {
        let mut decoder = Decoder::new(Terms { max_message: 0, encoding: Some("gzip") }, None);
        assert_eq!((decoder.begun(), decoder.is_ready(), pulled(&mut decoder)), (0, false, None));
        decoder.end();
        assert_eq!((decoder.begun(), decoder.is_ready(), decoder.need()), (1, true, 0));
        let message = decoder.pull().expect("a message");
        assert!(message.is_empty() && !message.is_compressed());
        assert_eq!((decoder.begun(), decoder.is_ready(), pulled(&mut decoder)), (1, false, None));
    }

    #[test]
    fn any_split_gives_the_same_message() {
        let body: Vec<u8> = (0..5000_u32).map(|n| n as u8).collect();
        let mut pool = BufferPool::new(0);
        for size in [1, 7, 1023, 1024, 4999, 5000] {
            for expected in [None, Some(body.len())] {
                let mut decoder = new(5000, expected);
                for (i, piece) in body.chunks(size).enumerate() {
                    let landing = &mut Landing::alone(&mut pool);
                    let is_taken = i % 2 == 1 && decoder.extend(piece, landing);
                    assert_eq!(is_taken, i % 2 == 1 && expected.is_some());
                    if !is_taken {
                        decoder.push(Bytes::copy_from_slice(piece), landing).unwrap();
                    }
                }
                assert_eq!(decoder.buffered(), body.len());
                decoder.end();
                assert_eq!(pulled(&mut decoder).as_deref(), Some(&body[..]), "{size}");
                assert_eq!(decoder.buffered(), 0);
            }
        }
    }

    /// tri:129
    #[test]
    fn a_body_above_the_limit_is_refused_where_it_passes_it() {
        let mut decoder = new(10, Some(10));
        assert!(push(&mut decoder, vec![0; 10].into()).is_ok());
        assert_eq!(push(&mut decoder, vec![0; 1].into()).unwrap_err().code(), Code::ResourceExhausted);
        decoder.discard();
        assert_eq!((push(&mut decoder, vec![0; 100].into()), decoder.buffered(), decoder.need()), (Ok(()), 0, 0));
        decoder.end();
        assert!(!decoder.is_ready());
    }

    /// Without a length, the window grows with the body and never far beyond it.
    #[test]
    fn what_is_missing_is_the_rest_or_as_much_again() {
        let mut decoder = new(100_000, None);
        assert_eq!(decoder.need(), MIN_NEED);
        push(&mut decoder, vec![0; 40_000].into()).unwrap();
        assert_eq!(decoder.need(), 40_000);
        push(&mut decoder, vec![0; 40_000].into()).unwrap();
        assert_eq!(decoder.need(), 20_001, "up to the octet that would be too many");
        assert_eq!(new(usize::MAX, None).need(), MIN_NEED);
        let mut decoder = new(usize::MAX, Some(70_000));
        push(&mut decoder, vec![0; 40_000].into()).unwrap();
        assert_eq!(decoder.need(), 30_000);
    }
}
