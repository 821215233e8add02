//! Length-prefixed messages (gRPC over HTTP/2, "Length-Prefixed-Message"): one octet of flags, four of length.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::mem;
use core::ops::RangeInclusive;

use bytes::{Buf, Bytes, BytesMut};

use super::assembly::Assembly;
use super::status::{Origin, Status};
use crate::buf::{BufferPool, Landing, LentMemory, MessageBuf, Run, WAIT_FROM, detach};

/// Octets in front of each message.
pub(crate) const PREFIX: usize = 5;

/// Flag of a compressed message.
const COMPRESSED: u8 = 1;

/// The prefix of a message of `len` octets, or `None` if the length does not fit into it.
pub(crate) fn prefix(len: usize, compressed: bool) -> Option<[u8; PREFIX]> {
    let [a, b, c, d] = u32::try_from(len).ok()?.to_be_bytes();
    // There is nothing to gain in an empty message, and some peers cannot inflate nothing.
    let flags = if compressed && len > 0 { COMPRESSED } else { 0 };
    Some([flags, a, b, c, d])
}

/// Cuts a body, however it is split, into messages.
///
/// A [`Scan`] runs over the octets as they arrive and refuses a message by its prefix, before its payload is
/// stored. The message at the front is [put together](Assembly); what arrives behind a complete one waits as it came, so
/// that memory follows octets and not messages, and can be taken as it came.
#[derive(Debug)]
pub(crate) struct Decoder {
    scan: Scan,
    /// Complete messages that were not pulled. The first of them is `front` or, if that is empty, begins `backlog`.
    waiting: u64,
    front: Front,
    /// What waits behind a complete message, if there ever was anything. Empty when there is none.
    backlog: Option<Box<Backlog>>,
    /// Octets received and not pulled, prefixes included.
    buffered: usize,
}

impl Decoder {
    pub(crate) fn new(terms: Terms) -> Self {
        let scan = Scan { terms, prefix: Prefix::default(), missing: 0, begun: 0, failed: false };
        Self { scan, waiting: 0, front: Front::default(), backlog: None, buffered: 0 }
    }

    /// Takes the next octets of the body; `landing` has the memory for a large message.
    ///
    /// # Errors
    /// The first message that must not be accepted. The complete messages in front of it can still be pulled; all
    /// later input is dropped.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    pub(crate) fn push(&mut self, data: Bytes, landing: &mut Landing<'_>) -> Result<(), Status> {
        if self.scan.failed {
            return Ok(());
        }
        let Err(mut data) = self.push_message(data) else { return Ok(()) };
        let is_first = self.waiting == 0;
        let Scanned { accepted, completed, result } = self.scan.run(&data);
        data.truncate(accepted);
        self.buffered += data.len();
        self.waiting += completed;
        if is_first {
            self.front.fill(&mut data, &self.scan, landing);
        }
        if !data.is_empty() {
            self.backlog.get_or_insert_default().push(data);
        }
        result
    }

    /// Takes `data` if it is a message that may be kept, the next one, and nothing but that: what a call of one message
    /// receives. The long way gives the same.
    ///
    /// # Errors
    /// `data` is something else, and nothing happened.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn push_message(&mut self, mut data: Bytes) -> Result<(), Bytes> {
        let Some(encoding) = self.scan.terms.accept(&data).filter(|_| self.is_between()) else { return Err(data) };
        self.scan.begun += 1;
        self.buffered += data.len();
        data.advance(PREFIX);
        self.front.complete = Some(MessageBuf::received(data, encoding));
        self.front.is_lent = true;
        self.waiting = 1;
        Ok(())
    }

    /// Whether the next octet begins a message, which is the next to be pulled.
    const fn is_between(&self) -> bool {
        self.scan.is_between() && self.waiting == 0
    }

    /// Flags and length of the message that begins with `data`, and what is there of its payload and of what follows;
    /// if it is the next one, and may be kept.
    fn next_message<'a>(&self, data: &'a [u8]) -> Option<(u8, usize, &'a [u8])> {
        if self.is_between() { self.scan.terms.begin(data) } else { None }
    }

    /// Copies octets to where their message lies, if they are the middle of one, or the beginning of a large one and
    /// nothing else; false if not, and then nothing happened.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    pub(crate) fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        if self.front.extend(octets, landing) {
            self.scan.missing -= octets.len();
            self.waiting = u64::from(self.front.is_complete());
        } else if octets.len() < WAIT_FROM || !self.begin(octets, landing) {
            return false;
        }
        self.buffered += octets.len();
        true
    }

    /// Lends the memory of the message that is being put together: see [`Assembly::lend`].
    pub(crate) fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
        if self.scan.failed || self.waiting > 0 { None } else { self.front.assembly.as_mut()?.lend(room) }
    }

    /// Takes back what was lent.
    ///
    /// # Errors
    /// Nobody wants it any more.
    pub(crate) fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
        match &mut self.front.assembly {
            Some(assembly) => assembly.restore(memory, filled),
            None => Err(memory),
        }
    }

    /// The next `n` octets of the message lie in its memory already.
    #[expect(clippy::arithmetic_side_effects, reason = "what is subtracted is a part, and lies in memory")]
    pub(crate) fn landed(&mut self, n: usize) {
        let (Some(missing), Some(assembly)) = (&mut self.front.missing, &mut self.front.assembly) else { return };
        let n = n.min(*missing);
        *missing -= n;
        assembly.landed(n);
        self.front.finish();
        self.scan.missing -= n;
        self.waiting = u64::from(self.front.is_complete());
        self.buffered += n;
    }

    /// Takes the beginning of a message of which more is to come.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn begin(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        let Some((flags, len, payload)) = self.next_message(octets) else { return false };
        if len <= payload.len() {
            return false;
        }
        self.scan.begun += 1;
        self.scan.missing = len - payload.len();
        self.front.begin(len, self.scan.terms.encoding_of(flags, len));
        self.front.append(payload, landing);
        true
    }

    /// The next complete message; `pool` has the memory for the one behind it.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    pub(crate) fn pull(&mut self, pool: &mut BufferPool) -> Option<MessageBuf> {
        if self.waiting == 0 {
            return None;
        }
        self.fill_front(pool);
        let message = self.front.complete.take();
        let octets = message.as_ref().map_or(0, MessageBuf::len) + PREFIX;
        self.taken(1, octets, pool);
        message
    }

    /// The messages at the front that lie behind each other and are not compressed, up to `max` bytes of them with their
    /// prefixes; `pool` as for [`pull`](Self::pull).
    pub(crate) fn pull_run(&mut self, max: usize, pool: &mut BufferPool) -> Run {
        if self.waiting == 0 || self.front.is_complete() {
            return Run::default();
        }
        let Some(data) = self.backlog.as_mut().and_then(|backlog| backlog.first()) else { return Run::default() };
        let (len, messages) = Run::measure(data, max);
        if messages == 0 {
            return Run::default();
        }
        let run = Run::new(data.split_to(len), messages);
        self.taken(messages as u64, len, pool);
        run
    }

    /// So many messages are gone. What is behind the last complete one is the beginning of the next.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn taken(&mut self, messages: u64, octets: usize, pool: &mut BufferPool) {
        self.waiting -= messages;
        self.buffered = self.buffered.saturating_sub(octets);
        if self.waiting == 0 {
            self.fill_front(pool);
        }
    }

    /// Puts the message at the front together, as far as it is there.
    #[inline]
    fn fill_front(&mut self, pool: &mut BufferPool) {
        if self.backlog.is_some() {
            self.unfold_backlog(pool);
        }
    }

    fn unfold_backlog(&mut self, pool: &mut BufferPool) {
        let Some(backlog) = &mut self.backlog else { return };
        // Of the message there is what waits here; for more, its sender has a window.
        let landing = &mut Landing { pool, may_come: self.buffered };
        while !self.front.is_complete() {
            let Some(data) = backlog.first() else { break };
            self.front.fill(data, &self.scan, landing);
        }
    }

    /// Whether a message can be pulled.
    pub(crate) const fn is_ready(&self) -> bool {
        self.waiting > 0
    }

    /// Messages of which at least one octet arrived, pulled ones included.
    pub(crate) const fn begun(&self) -> u64 {
        self.scan.begun
    }

    /// Whether the input ends inside a message.
    pub(crate) const fn is_partial(&self) -> bool {
        self.scan.missing > 0 || self.scan.prefix.read > 0
    }

    /// Octets still missing of the message at the front, once its length is known; 0 if one can be pulled.
    pub(crate) const fn need(&self) -> usize {
        match self.front.missing {
            Some(missing) => missing,
            None => 0,
        }
    }

    /// Octets received and not pulled, prefixes included.
    pub(crate) const fn buffered(&self) -> usize {
        self.buffered
    }

    /// Moves what was received and not pulled out of the receive windows, each octet once.
    pub(crate) fn detach(&mut self) {
        self.front.detach();
        if let Some(backlog) = &mut self.backlog {
            backlog.detach();
        }
    }

    /// Drops everything received and refuses what is still to come.
    pub(crate) fn discard(&mut self) {
        if self.buffered > 0 {
            self.front = Front::default();
            self.backlog = None;
            self.buffered = 0;
            self.waiting = 0;
        }
        self.scan.failed = true;
        self.scan.missing = 0;
        self.scan.prefix.read = 0;
    }
}

/// The prefix of a message, as far as it arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Prefix {
    octets: [u8; PREFIX],
    /// So many of them: at most [`PREFIX`].
    read: u8,
}

impl Prefix {
    /// Takes octets off `data` until the prefix is whole; returns its flags and length then, and starts over.
    #[expect(clippy::indexing_slicing, reason = "`n` is at most what is missing of the prefix")]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn fill(&mut self, data: &mut impl Buf) -> Option<(u8, usize)> {
        let read = usize::from(self.read);
        let n = (PREFIX - read).min(data.remaining());
        data.copy_to_slice(&mut self.octets[read..read + n]);
        self.read += n as u8; // at most `PREFIX`
        if read + n < PREFIX {
            return None;
        }
        self.read = 0;
        let [flags, a, b, c, d] = self.octets;
        Some((flags, u32::from_be_bytes([a, b, c, d]) as usize))
    }
}

/// Which messages may be kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Length of the largest.
    pub(crate) max_message: usize,
    /// Encoding of those that are compressed.
    pub(crate) encoding: Option<&'static str>,
}

impl Terms {
    /// The encoding of the message that `data` is, if it is one and nothing else, and may be kept.
    #[inline]
    pub(crate) fn accept(&self, data: &[u8]) -> Option<Option<&'static str>> {
        let (flags, len, payload) = self.begin(data)?;
        (len == payload.len()).then(|| self.encoding_of(flags, len))
    }

    /// Flags and length of the message that begins with `data`, and what lies behind its prefix, if it may be kept.
    #[inline]
    fn begin<'a>(&self, data: &'a [u8]) -> Option<(u8, usize, &'a [u8])> {
        let (&[flags, a, b, c, d], payload) = data.split_first_chunk::<PREFIX>()?;
        let len = u32::from_be_bytes([a, b, c, d]) as usize;
        self.check(flags, len).is_ok().then_some((flags, len, payload))
    }

    /// Passes over the whole messages that `octets` begins with and that may be kept; returns how many there are.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "fewer messages than octets")]
    fn pass_whole(&self, octets: &mut &[u8]) -> u64 {
        let mut messages = 0;
        while let Some(behind) = self.begin(octets).and_then(|(_, len, payload)| payload.get(len..)) {
            *octets = behind;
            messages += 1;
        }
        messages
    }

    #[inline]
    fn check(&self, flags: u8, len: usize) -> Result<(), Status> {
        let is_known = flags == 0 || (flags == COMPRESSED && self.encoding.is_some());
        if is_known && len <= self.max_message { Ok(()) } else { Err(self.fault(flags, len)) }
    }

    /// What is wrong with a prefix.
    #[cold]
    fn fault(&self, flags: u8, len: usize) -> Status {
        if flags & !COMPRESSED != 0 {
            return peer_fault(alloc::format!("message with unknown flags 0x{flags:02x}"));
        }
        if flags == COMPRESSED && self.encoding.is_none() {
            return peer_fault("compressed message without an announced encoding");
        }
        too_large(len, self.max_message)
    }

    /// The encoding of a message with this prefix. An empty message has none, for some peers mark those too.
    fn encoding_of(&self, flags: u8, len: usize) -> Option<&'static str> {
        self.encoding.filter(|_| flags == COMPRESSED && len > 0)
    }
}

/// Finds the messages in the input and checks their prefixes.
#[derive(Debug)]
struct Scan {
    terms: Terms,
    prefix: Prefix,
    /// Octets before the end of the payload that is running.
    missing: usize,
    begun: u64,
    failed: bool,
}

impl Scan {
    /// Whether a message may begin here.
    const fn is_between(&self) -> bool {
        self.missing == 0 && self.prefix.read == 0 && !self.failed
    }

    /// Runs over `data`.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn run(&mut self, data: &[u8]) -> Scanned {
        let (mut rest, mut completed) = (data, 0);
        loop {
            if self.is_between() {
                let whole = self.terms.pass_whole(&mut rest);
                self.begun += whole;
                completed += whole;
            }
            let payload = self.missing.min(rest.len());
            rest.advance(payload);
            self.missing -= payload;
            completed += u64::from(payload > 0 && self.missing == 0);
            if rest.is_empty() {
                return Scanned { accepted: data.len(), completed, result: Ok(()) };
            }
            if self.prefix.read == 0 {
                self.begun += 1;
            }
            let accepted = data.len() - rest.len();
            let Some((flags, len)) = self.prefix.fill(&mut rest) else {
                return Scanned { accepted: data.len(), completed, result: Ok(()) };
            };
            if let Err(status) = self.terms.check(flags, len) {
                self.failed = true;
                return Scanned { accepted, completed, result: Err(status) };
            }
            self.missing = len;
            completed += u64::from(len == 0);
        }
    }
}

/// What a [`Scan`] found.
struct Scanned {
    /// How much belongs to messages that may be kept.
    accepted: usize,
    /// Messages that are complete with it.
    completed: u64,
    result: Result<(), Status>,
}

/// The message at the front, as far as it arrived.
#[derive(Debug, Default)]
struct Front {
    prefix: Prefix,
    /// Once the prefix is whole, and until the message is: octets of payload still missing.
    missing: Option<usize>,
    /// Where a payload in several pieces is put together; stays for the next one.
    assembly: Option<Box<Assembly>>,
    complete: Option<MessageBuf>,
    /// `complete` may lie in a receive window.
    is_lent: bool,
}

impl Front {
    const fn is_complete(&self) -> bool {
        self.complete.is_some()
    }

    /// Takes what belongs to this message, which is not complete, off `data`, which `scan` has accepted.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn fill(&mut self, data: &mut Bytes, scan: &Scan, landing: &mut Landing<'_>) {
        if self.missing.is_none() {
            let Some((flags, len)) = self.prefix.fill(data) else { return };
            let encoding = scan.terms.encoding_of(flags, len);
            if len <= data.len() {
                self.complete = Some(MessageBuf::received(data.split_to(len), encoding));
                self.is_lent = true;
                return;
            }
            self.begin(len, encoding);
        }
        let (Some(missing), Some(assembly)) = (&mut self.missing, &mut self.assembly) else { return };
        let piece = data.split_to(data.len().min(*missing));
        *missing -= piece.len();
        // All of the payload is one piece, and stays where it is.
        self.is_lent = *missing == 0 && assembly.len() == 0;
        assembly.push(piece, landing);
        self.finish();
    }

    /// Appends octets that all belong to this message, and are not its first. False if they do not.
    fn extend(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
        let has_begun = self.assembly.as_ref().is_some_and(|assembly| assembly.len() > 0);
        let is_within = has_begun && self.missing.is_some_and(|missing| octets.len() <= missing);
        if is_within {
            self.append(octets, landing);
        }
        is_within
    }

    /// The prefix of a message in several pieces is whole.
    fn begin(&mut self, len: usize, encoding: Option<&'static str>) {
        self.missing = Some(len);
        **self.assembly.get_or_insert_default() = Assembly::new(Some(len), encoding);
    }

    /// Copies octets of the payload that is being put together.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "lengths of what lies in memory or was announced in 32 bits; what is subtracted is a part"
    )]
    fn append(&mut self, octets: &[u8], landing: &mut Landing<'_>) {
        let (Some(missing), Some(assembly)) = (&mut self.missing, &mut self.assembly) else { return };
        *missing -= octets.len();
        self.is_lent = false;
        assembly.extend(octets, landing);
        self.finish();
    }

    fn detach(&mut self) {
        if let Some(message) = self.complete.as_mut().filter(|_| mem::take(&mut self.is_lent)) {
            message.detach(0);
        }
    }

    /// The message is complete if nothing is missing.
    fn finish(&mut self) {
        if let (Some(0), Some(assembly)) = (self.missing, &mut self.assembly) {
            self.missing = None;
            self.complete = Some(mem::take(&mut **assembly).finish());
        }
    }
}

/// Octets behind a complete message, as they came. The chunk that is read next stays where it was received; behind it,
/// small ones are copied together, for a peer that spreads a little over each window would pin them all.
#[derive(Debug, Default)]
struct Backlog {
    first: Bytes,
    rest: VecDeque<Bytes>,
    /// Small chunks, copied together behind `rest`.
    tail: BytesMut,
    /// Chunks from the first on that lie in no receive window.
    detached: usize,
}

impl Backlog {
    fn push(&mut self, data: Bytes) {
        if self.first().is_none() {
            self.first = data;
            self.detached = 0;
        } else if data.len() >= WAIT_FROM {
            self.end_tail();
            self.rest.push_back(data);
        } else {
            self.tail.extend_from_slice(&data);
        }
    }

    /// The chunk at the front, to take octets off.
    fn first(&mut self) -> Option<&mut Bytes> {
        if self.first.is_empty() {
            if self.rest.is_empty() {
                self.end_tail();
            }
            self.first = self.rest.pop_front()?;
            self.detached = self.detached.saturating_sub(1);
        }
        Some(&mut self.first)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a length of what lies in memory")]
    fn detach(&mut self) {
        let chunks = core::iter::once(&mut self.first).chain(&mut self.rest);
        chunks.skip(self.detached).for_each(detach);
        self.detached = 1 + self.rest.len();
    }

    fn end_tail(&mut self) {
        if !self.tail.is_empty() {
            self.rest.push_back(mem::take(&mut self.tail).freeze());
        }
    }
}

/// A status for a message that is larger than this side accepts.
pub(crate) fn too_large(len: usize, limit: usize) -> Status {
    Status::resource_exhausted(alloc::format!(
        "received message of {len} bytes exceeds max_recv_message of {limit} bytes"
    ))
}

/// A status for an answer or a request that breaks the protocol.
pub(crate) fn peer_fault(message: impl Into<alloc::borrow::Cow<'static, str>>) -> Status {
    Status::internal(message).with_origin(Origin::Peer)
}

#[cfg(test)]
mod tests;
