//! The body of a request or a response, whichever shape the dialect gives it.

use alloc::boxed::Box;
use core::mem;
use core::ops::RangeInclusive;

use bytes::{Buf, Bytes, BytesMut};

use super::envelope::{PREFIX, Terms, too_large};
use super::protocol::Body;
use super::status::Status;
use super::{bare, envelope, plain, unframed};
use crate::buf::{BufferPool, Landing, LentMemory, MessageBuf, Run};

/// Cuts a body, however it is split, into messages.
///
/// What cuts is made when the first octets come. A body that comes whole, and is one message, needs none of it, and
/// gives the same. A call that waits for a body, as those of streams often do, has no memory for one.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// Nothing came yet.
    Fresh(Fresh),
    /// Nothing came, and nothing is wanted.
    Discarded,
    /// The message that was the body.
    Whole(Whole),
    Envelopes(Box<envelope::Decoder>),
    Unframed(Box<unframed::Decoder>),
}

/// What is known before a body comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fresh {
    body: Body,
    terms: Terms,
    /// Length of the body, if it is the message's too.
    expected: Option<usize>,
}

/// A body that is over.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Until it is pulled.
    message: Option<MessageBuf>,
    /// Octets of the body in front of it.
    prefix: u8,
    /// It lies in memory of its own.
    is_detached: bool,
}

impl Fresh {
    /// What cuts a body that comes in parts.
    fn begin(self) -> Decoder {
        match self.body {
            Body::Envelopes => Decoder::Envelopes(Box::new(envelope::Decoder::new(self.terms))),
            Body::Bare => {
                let message = bare::Decoder::new(self.terms, self.expected);
                Decoder::Unframed(Box::new(unframed::Decoder::Message(message)))
            }
            Body::Plain => Decoder::Unframed(Box::new(unframed::Decoder::Octets(plain::Decoder::default()))),
        }
    }

    /// Length of what is in front of the message that `data` is, and its encoding; if it is one and nothing else, and may
    /// be kept.
    #[inline]
    fn accept(&self, data: &[u8]) -> Option<(usize, Option<&'static str>)> {
        match self.body {
            Body::Envelopes => self.terms.accept(data).map(|encoding| (PREFIX, encoding)),
            Body::Bare => {
                let len = data.len();
                let is_it = len <= self.terms.max_message && self.expected.is_none_or(|expected| expected == len);
                is_it.then(|| (0, self.terms.encoding.filter(|_| len > 0)))
            }
            Body::Plain => None,
        }
    }
}

impl Decoder {
    /// Most bytes of memory beside the decoder itself, without octets and what they are put together with.
    pub(crate) const MAX_BOXED: usize = {
        let (envelopes, unframed) = (size_of::<envelope::Decoder>(), size_of::<unframed::Decoder>());
        if envelopes > unframed { envelopes } else { unframed }
    };

    #[inline]
    pub(crate) const fn new(body: Body, max_message: usize) -> Self {
        Self::Fresh(Fresh { body, terms: Terms { max_message, encoding: None }, expected: None })
    }

    /// Messages may be compressed: the peer announced this encoding, which we know. Said before the body begins.
    pub(crate) const fn allow_compressed(&mut self, encoding: &'static str) {
        if let Self::Fresh(fresh) = self {
            fresh.terms.encoding = Some(encoding);
        }
    }

    /// The head says how long the body is, before it begins. That is the length of the message only where nothing is
    /// around it.
    ///
    /// # Errors
    /// The message is too long.
    pub(crate) fn expect_len(&mut self, len: u64) -> Result<(), Status> {
        match self {
            Self::Fresh(fresh) if fresh.body == Body::Bare => {
                let (len, limit) = (usize::try_from(len).unwrap_or(usize::MAX), fresh.terms.max_message);
                fresh.expected = Some(len);
                if len > limit { Err(too_large(len, limit)) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Takes `data` as all of a body of one message that may be kept: what [`push`](Self::push) and [`end`](Self::end)
    /// make of it.
    ///
    /// # Errors
    /// `data` is something else, or the body has begun before, and nothing happened.
    #[inline]
    pub(crate) fn push_whole(&mut self, mut data: Bytes) -> Result<(), Bytes> {
        let Self::Fresh(fresh) = self else { return Err(data) };
        let Some((prefix, encoding)) = fresh.accept(&data) else { return Err(data) };
        data.advance(prefix);
        let (message, prefix) = (Some(MessageBuf::received(data, encoding)), prefix as u8);
        // What is fresh has nothing to drop, which the compiler cannot know.
        mem::forget(mem::replace(self, Self::Whole(Whole { message, prefix, is_detached: false })));
        Ok(())
    }

    /// The body begins.
    #[inline]
    fn begin(&mut self) {
        if let Self::Fresh(fresh) = self {
            *self = fresh.begin();
        }
    }

    /// Takes the next octets of the body; `landing` has the memory for a large message.
    ///
    /// # Errors
    /// The first message that must not be accepted. The complete messages in front of it can still be pulled; all
    /// later input is dropped.
    pub(crate) fn push(&mut self, data: Bytes, landing: &mut Landing<'_>) -> Result<(), Status> {
        self.begin();
        match self {
            Self::Envelopes(decoder) => decoder.push(data, landing),
            Self::Unframed(decoder) => decoder.push(data, landing),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => Ok(()),
        }
    }

    /// Copies octets to where their message lies, if they are the middle of one or the beginning of a large one: what
    /// [`push`](Self::push) would make of them. False if not, and then nothing happened.
    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        self.begin();
        match self {
            Self::Envelopes(decoder) => decoder.extend(octets, landing),
            Self::Unframed(decoder) => decoder.extend(octets, landing),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => false,
        }
    }

    /// Lends the memory of a large message that is arriving, for what is still to come of it; no octets may be pushed until
    /// it is [back](Self::restore).
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        match self {
            Self::Envelopes(decoder) => decoder.lend(room),
            Self::Unframed(decoder) => decoder.lend(room),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => None,
        }
    }

    /// Takes back what was lent, which holds more of the message by now: the next octets are those.
    ///
    /// # Errors
    /// The message is not wanted any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        match self {
            Self::Envelopes(decoder) => decoder.restore(memory, filled),
            Self::Unframed(decoder) => decoder.restore(memory, filled),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => Err(memory),
        }
    }

    /// Takes the next `n` octets of the body, which lie in the memory of their message: what [`push`](Self::push) would make of
    /// them.
    pub(crate) fn landed(&mut self, n: usize) {
        match self {
            Self::Envelopes(decoder) => decoder.landed(n),
            Self::Unframed(decoder) => decoder.landed(n),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => {}
        }
    }

    /// The body ended where a message may end; see [`is_partial`](Self::is_partial).
    pub(crate) fn end(&mut self) {
        if matches!(self, Self::Fresh(fresh) if fresh.body != Body::Envelopes) {
            self.begin();
        }
        if let Self::Unframed(decoder) = self {
            decoder.end();
        }
    }

    /// The next complete message; `pool` has the memory for the one behind it.
    #[inline]
    pub(crate) fn pull(&mut self, pool: &mut BufferPool) -> Option<MessageBuf> {
        match self {
            Self::Fresh(_) | Self::Discarded => None,
            Self::Whole(whole) => whole.message.take(),
            Self::Envelopes(decoder) => decoder.pull(pool),
            Self::Unframed(decoder) => decoder.pull(),
        }
    }

    /// The next complete messages that lie behind each other, up to `max` bytes of them; none where a body is one.
    pub(crate) fn pull_run(&mut self, max: usize, pool: &mut BufferPool) -> Run {
        match self {
            Self::Envelopes(decoder) => decoder.pull_run(max, pool),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) | Self::Unframed(_) => Run::default(),
        }
    }

    /// Whether a message can be pulled.
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Fresh(_) | Self::Discarded => false,
            Self::Whole(whole) => whole.message.is_some(),
            Self::Envelopes(decoder) => decoder.is_ready(),
            Self::Unframed(decoder) => decoder.is_ready(),
        }
    }

    /// Messages of which at least one octet arrived, pulled ones included.
    pub(crate) fn begun(&self) -> u64 {
        match self {
            Self::Fresh(_) | Self::Discarded => 0,
            Self::Whole(_) => 1,
            Self::Envelopes(decoder) => decoder.begun(),
            Self::Unframed(decoder) => decoder.begun(),
        }
    }

    /// Whether the input ends inside a message.
    pub(crate) const fn is_partial(&self) -> bool {
        match self {
            Self::Envelopes(decoder) => decoder.is_partial(),
            // Only the end of the body ends its message.
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) | Self::Unframed(_) => false,
        }
    }

    /// Octets still missing of the message at the front, as far as is known; 0 if one can be pulled.
    pub(crate) fn need(&self) -> usize {
        match self {
            Self::Fresh(Fresh { body: Body::Bare, terms, expected }) => bare::Decoder::new(*terms, *expected).need(),
            Self::Fresh(_) | Self::Discarded | Self::Whole(_) => 0,
            Self::Envelopes(decoder) => decoder.need(),
            Self::Unframed(decoder) => decoder.need(),
        }
    }

    /// Octets received and not pulled, prefixes included.
    pub(crate) fn buffered(&self) -> usize {
        match self {
            Self::Fresh(_) | Self::Discarded => 0,
            Self::Whole(whole) => whole.message.as_ref().map_or(0, |message| message.len() + usize::from(whole.prefix)),
            Self::Envelopes(decoder) => decoder.buffered(),
            Self::Unframed(decoder) => decoder.buffered(),
        }
    }

    /// Moves what was received and not pulled out of the receive windows, each octet once.
    pub(crate) fn detach(&mut self) {
        match self {
            Self::Fresh(_) | Self::Discarded => {}
            Self::Whole(whole) => {
                if let Some(message) = whole.message.as_mut().filter(|_| !whole.is_detached) {
                    message.detach(0);
                    whole.is_detached = true;
                }
            }
            Self::Envelopes(decoder) => decoder.detach(),
            Self::Unframed(decoder) => decoder.detach(),
        }
    }

    /// Drops everything received and refuses what is still to come.
    pub(crate) fn discard(&mut self) {
        match self {
            Self::Fresh(_) => *self = Self::Discarded,
            Self::Discarded => {}
            Self::Whole(whole) => *whole = Whole { message: None, prefix: 0, is_detached: true },
            Self::Envelopes(decoder) => decoder.discard(),
            Self::Unframed(decoder) => decoder.discard(),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::call::Code;

    /// What there is to see of a decoder, and its messages.
    fn seen(decoder: &mut Decoder) -> String {
        let pool = &mut BufferPool::new(0);
        let before = (decoder.begun(), decoder.is_partial(), decoder.need(), decoder.buffered(), decoder.is_ready());
        let messages: Vec<_> = core::iter::from_fn(|| decoder.pull(pool))
            .map(|message| (message.encoding(), message.first().clone(), message.len()))
            .collect();
        format!("{:?}", (before, messages, decoder.begun(), decoder.buffered(), decoder.is_ready()))
    }

    /// A body that is taken whole leaves what one leaves that is pushed and ended; what is not a message is left alone.
    #[test]
    fn a_whole_body_gives_what_its_octets_and_its_end_give() {
        let bodies: [&[u8]; 10] = [
            b"",
            b"\0\0\0\0\0",
            b"\0\0\0\0\x01x",
            b"\x01\0\0\0\x01x",
            b"\x01\0\0\0\0",
            b"\0\0\0\0\x02x",
            b"\0\0\0\0\x01xy",
            b"\x02\0\0\0\x01x",
            b"\0\0\0\0\x05hello",
            b"\0\0\0",
        ];
        let mut whole = 0;
        for body in [Body::Envelopes, Body::Bare] {
            for (octets, encoding) in bodies.iter().flat_map(|octets| [(octets, None), (octets, Some("gzip"))]) {
                for expected in [None, Some(octets.len())] {
                    let make = || {
                        let mut decoder = Decoder::new(body, if body == Body::Bare { 9 } else { 4 });
                        encoding.into_iter().for_each(|encoding| decoder.allow_compressed(encoding));
                        expected.into_iter().for_each(|len| drop(decoder.expect_len(len as u64)));
                        decoder
                    };
                    let (mut one, mut many, data) = (make(), make(), Bytes::copy_from_slice(octets));
                    let pushed = many.push(data.clone(), &mut Landing::alone(&mut BufferPool::new(0)));
                    many.end();
                    match one.push_whole(data.clone()) {
                        Ok(()) => {
                            whole += 1;
                            assert!(pushed.is_ok() && many.begun() == 1 && !many.is_partial());
                            assert_eq!(seen(&mut one), seen(&mut many));
                        }
                        Err(left) => {
                            assert_eq!(left, data);
                            assert!(pushed.is_err() || many.is_partial() || many.begun() != 1, "{octets:?}");
                            assert_eq!((one.begun(), one.buffered()), (0, 0));
                        }
                    }
                }
            }
        }
        assert!(whole > 20, "{whole} of them were whole");
    }

    /// tri:129
    #[test]
    fn a_length_above_the_limit_is_refused_where_it_is_the_messages() {
        assert_eq!(Decoder::new(Body::Bare, 10).expect_len(11).unwrap_err().code(), Code::ResourceExhausted);
        assert!(Decoder::new(Body::Bare, 10).expect_len(10).is_ok());
        assert!(Decoder::new(Body::Envelopes, 10).expect_len(11).is_ok());
    }

    /// Nothing is kept behind a body that is over, or not wanted.
    #[test]
    fn what_comes_behind_the_end_is_dropped() {
        let pool = &mut BufferPool::new(0);
        let message = Bytes::from_static(b"\0\0\0\0\x01x");
        for body in [Body::Envelopes, Body::Bare] {
            let mut decoder = Decoder::new(body, 100);
            decoder.push_whole(message.clone()).unwrap();
            assert!(
                decoder.push(message.clone(), &mut Landing::alone(pool)).is_ok()
                    && !decoder.extend(b"x", &mut Landing::alone(pool))
            );
            assert_eq!((decoder.begun(), decoder.buffered()), (1, 6));
            decoder.discard();
            assert!(decoder.pull(pool).is_none() && decoder.buffered() == 0);
            let mut decoder = Decoder::new(body, 100);
            decoder.discard();
            assert!(decoder.push(message.clone(), &mut Landing::alone(pool)).is_ok() && decoder.buffered() == 0);
            assert_eq!(decoder.push_whole(vec![0].into()).map_err(|data| data.len()), Err(1));
        }
    }
}
