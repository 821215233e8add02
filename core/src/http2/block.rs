//! Header blocks on the way in: gathered if they are cut, decoded once, turned into heads and trailers.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;

use crate::buf::RecvBuf;
use crate::config::Config;
use crate::error::{ErrorCode, PeerMisbehaved, Timeout};
use crate::hpack::ListLimits;
use crate::http::{HeaderName, Headers, RequestHead, ResponseHead};
use crate::http2::Side;
use crate::http2::connection::{Http2, Incoming, LAST_COMFORTABLE_ID};
use crate::http2::frame::{self, FrameHeader, Layout};
use crate::http2::memo::{Candidate, Recalled};
use crate::http2::recv::{Checked, Located, State, Step, calm, protocol, stream_closed};
use crate::http2::store::{PastId, StreamKey};
use crate::http2::stream::{Closed, Phase, StreamState};
use crate::http2::validate::{FieldList, List, ListKind, Malformed};

/// How a header block began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    pub(super) id: u32,
    purpose: Purpose,
    end_stream: bool,
    /// The deprecated priority fields name the stream itself.
    depends_on_itself: bool,
}

/// A header block that arrives in pieces.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) opening: Opening,
    continuations: usize,
    /// Those of them that brought next to nothing, and were not the last.
    short: usize,
    /// Octets of fragments announced so far.
    announced: usize,
    /// Fragments that were not decoded where they lay.
    scratch: Vec<u8>,
}

/// What a header block is for.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// Server: a new stream.
    Request,
    /// A live stream, and what it waits for: its response, or trailers.
    Message(StreamKey, Phase),
    /// Only the HPACK tables.
    Nothing,
    /// Only the HPACK tables; then the stream, which the peer has reset, is reset once from our side.
    Late,
}

/// A fragment of fewer octets brings next to nothing: not a field of usual size.
const SHORT_FRAGMENT: u32 = 64;

/// Frames of the smallest limit that a header list needs which is as large as may be, and hardly compressed.
fn frames_of_list(config: &Config) -> usize {
    let octets = config.max_header_list as usize;
    (octets.saturating_add(octets / 4)).div_ceil(frame::MIN_MAX_FRAME_SIZE as usize)
}

/// Why a list is of no use to its stream.
#[derive(Clone, Copy, Debug)]
enum Unfit {
    TooLarge,
    Malformed,
}

impl From<Malformed> for Unfit {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

impl Http2 {
    /// HEADERS, of which `input` holds what follows the prelude.
    #[inline]
    pub(super) fn begin_block(&mut self, header: FrameHeader, layout: Layout, input: &mut RecvBuf) -> Checked<Step> {
        let id = header.stream;
        let purpose = match self.locate(id) {
            Located::Live(key) => match self.streams.get(key).and_then(|stream| stream.state.remote()) {
                Some(phase) => Purpose::Message(key, phase),
                None => return Err(stream_closed("HEADERS after END_STREAM")),
            },
            Located::Ignored | Located::Past(PastId::Closed(Closed::WeReset) | PastId::Forgotten) => {
                self.abuse.control_frame(1, self.now)?;
                Purpose::Nothing
            }
            Located::Past(PastId::Closed(Closed::PeerReset)) => Purpose::Late,
            Located::Past(PastId::Closed(Closed::Ended)) => return Err(stream_closed("HEADERS on a closed stream")),
            Located::Past(PastId::Skipped) => return Err(protocol("HEADERS with a stream id below the last")),
            Located::Idle if self.side == Side::Server && id % 2 == 1 => {
                self.note_opened(id);
                Purpose::Request
            }
            Located::Idle => return Err(protocol("HEADERS on a stream that the peer cannot open")),
        };
        let opening = Opening {
            id,
            purpose,
            end_stream: header.has(frame::END_STREAM),
            depends_on_itself: layout.dependency == Some(id),
        };
        let last = header.has(frame::END_HEADERS);
        if last && input.len() >= layout.body {
            self.check_announced(layout.body)?;
            self.parser.skip(layout.padding);
            return self.whole_block(opening, layout.body, input);
        }
        self.parser.block = Some(Block { opening, continuations: 0, short: 0, announced: 0, scratch: Vec::new() });
        self.arm(Timeout::HeaderBlock, self.config.header_block_timeout);
        self.begin_fragment(layout.body, layout.padding, last)?;
        Ok(Step::Progress)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "both are compared with limits after each step")]
    pub(super) fn continue_block(&mut self, header: FrameHeader) -> Checked<()> {
        if let Some(block) = &mut self.parser.block {
            block.continuations += 1;
            if block.continuations > self.config.max_continuations.max(frames_of_list(&self.config)) {
                return Err(calm("too many CONTINUATION frames"));
            }
            if header.len < SHORT_FRAGMENT && !header.has(frame::END_HEADERS) {
                block.short += 1;
                if block.short > self.config.max_short_continuations {
                    return Err(calm("too many short CONTINUATION frames"));
                }
                self.abuse.control_frame(1, self.now)?;
            }
        }
        self.begin_fragment(header.len as usize, 0, header.has(frame::END_HEADERS))
    }

    fn begin_fragment(&mut self, left: usize, padding: usize, last: bool) -> Checked<()> {
        if let Some(block) = &mut self.parser.block {
            block.announced = block.announced.saturating_add(left);
            let announced = block.announced;
            self.check_announced(announced)?;
        }
        self.parser.state = State::Fragment { left, padding, last };
        Ok(())
    }

    /// Compression never makes a list much larger than it is.
    fn check_announced(&self, octets: usize) -> Checked<()> {
        if octets > max_encoded(&self.config) {
            return Err(calm("header block far above the limit"));
        }
        Ok(())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "`n` octets are a part of those that are left")]
    pub(super) fn fragment(&mut self, left: usize, padding: usize, last: bool, input: &mut RecvBuf) -> Checked<Step> {
        let Some(block) = &mut self.parser.block else { return Ok(Step::Progress) };
        let n = left.min(input.len());
        make_room(&mut block.scratch, n, max_encoded(&self.config));
        block.scratch.extend_from_slice(input.data().get(..n).unwrap_or_default());
        input.skip(n);
        if n < left {
            self.parser.state = State::Fragment { left: left - n, padding, last };
            return Ok(Step::Starved);
        }
        self.parser.skip(padding);
        if !last {
            return Ok(Step::Progress);
        }
        let Some(Block { mut opening, scratch, .. }) = self.parser.block.take() else { return Ok(Step::Progress) };
        self.timers.clear(Timeout::HeaderBlock);
        if let Purpose::Message(key, _) = opening.purpose {
            // While the block was under way the stream may have been reset from our side.
            let phase = self.streams.get(key).and_then(|stream| stream.state.remote());
            opening.purpose = phase.map_or(Purpose::Nothing, |phase| Purpose::Message(key, phase));
        }
        let (list, _) = self.decode(self.kind(&opening), &scratch)?;
        drop(scratch);
        self.block(&opening, list, input)
    }

    /// A block that lies in the first `len` octets of `input`.
    #[inline]
    fn whole_block(&mut self, opening: Opening, len: usize, input: &mut RecvBuf) -> Checked<Step> {
        let kind = self.kind(&opening);
        let octets = input.data().get(..len).unwrap_or_default();
        let list = match self.memo.recall(kind, self.decoder.generation(), octets) {
            Recalled::Known(list) => {
                input.skip(len);
                Ok(list)
            }
            Recalled::Again(candidate) => self.decode_to_keep(candidate, kind, len, input)?,
            Recalled::Unknown => {
                let (list, _) = self.decode(kind, octets)?;
                input.skip(len);
                list
            }
        };
        self.block(&opening, list, input)
    }

    fn kind(&self, opening: &Opening) -> ListKind {
        let lenient = self.config.lenient_grpc_message;
        match (self.side, opening.purpose) {
            (Side::Server, Purpose::Message(..)) => ListKind::RequestTrailers,
            (Side::Server, _) => ListKind::Request,
            (Side::Client, Purpose::Message(_, Phase::Body)) => ListKind::ResponseTrailers { lenient },
            (Side::Client, _) => ListKind::Response { lenient },
        }
    }

    /// [`decode`](Self::decode) of a block that was seen before.
    fn decode_to_keep(
        &mut self,
        candidate: Candidate,
        kind: ListKind,
        len: usize,
        input: &mut RecvBuf,
    ) -> Checked<Result<List, Unfit>> {
        let octets = input.data().get(..len).unwrap_or_default();
        let (list, size) = self.decode(kind, octets)?;
        if let Ok(list) = &list {
            self.memo.keep(candidate, octets, self.decoder.generation(), size, list);
        }
        input.skip(len);
        Ok(list)
    }

    /// Decodes a block, whatever becomes of its stream, or the tables would part. Also returns the size of its list.
    fn decode(&mut self, kind: ListKind, octets: &[u8]) -> Checked<(Result<List, Unfit>, usize)> {
        let mut list = FieldList::new(kind);
        let limits = ListLimits { bytes: self.config.max_header_list as usize, fields: self.config.max_headers };
        let size = self
            .decoder
            .decode(octets, limits, &mut |field| list.push(field))
            .map_err(|error| PeerMisbehaved { code: error.code(), detail: error.detail() })?;
        let list =
            if size.is_within(limits) { list.finish(size.bytes).map_err(Unfit::from) } else { Err(Unfit::TooLarge) };
        Ok((list, size.bytes))
    }

    /// What a whole block means for its stream.
    #[inline]
    fn block(&mut self, opening: &Opening, list: Result<List, Unfit>, input: &mut RecvBuf) -> Checked<Step> {
        let event = match opening.purpose {
            Purpose::Request => self.request(opening, list, input)?,
            Purpose::Message(key, _) => match list.and_then(|list| self.message(key, opening, list, input)) {
                Ok(event) => event,
                Err(unfit) => {
                    let code = match unfit {
                        Unfit::TooLarge => ErrorCode::ENHANCE_YOUR_CALM,
                        Unfit::Malformed => ErrorCode::PROTOCOL_ERROR,
                    };
                    self.stream_fault(key, code)?;
                    None
                }
            },
            Purpose::Nothing => None,
            Purpose::Late => {
                self.refuse(opening.id, ErrorCode::STREAM_CLOSED)?;
                None
            }
        };
        Ok(event.map_or(Step::Progress, Step::Event))
    }

    fn request(
        &mut self,
        opening: &Opening,
        list: Result<List, Unfit>,
        input: &mut RecvBuf,
    ) -> Checked<Option<Incoming>> {
        let Opening { id, end_stream, .. } = *opening;
        if !self.takes_stream() {
            self.write_rst(id, ErrorCode::REFUSED_STREAM);
            self.streams.remember(id, Closed::WeReset);
            // Until the peer has acknowledged the limit it cannot know it.
            if self.local.is_acknowledged() {
                self.abuse.refused()?;
                // Nor can it know that a handler still works on a stream that is closed.
                if self.streams.on_wire() >= self.config.max_concurrent_streams as usize {
                    self.abuse.stream_fault(1, self.now)?;
                }
            }
            return Ok(None);
        }
        let is_complete = |length: Option<u64>| !end_stream || length.unwrap_or(0) == 0;
        let (head, content_length) = match list {
            Ok(List::Request { head, content_length }) if is_complete(content_length) && !opening.depends_on_itself => {
                (head, content_length)
            }
            Err(Unfit::TooLarge) => {
                let head = ResponseHead { status: 431, headers: Headers::new() };
                self.answer_refused(id, &head);
                if end_stream {
                    self.streams.remember(id, Closed::Ended);
                    return self.abuse.stream_fault(1, self.now).map(|()| None);
                }
                return self.refuse(id, ErrorCode::NO_ERROR).map(|()| None);
            }
            _ => return self.refuse(id, ErrorCode::PROTOCOL_ERROR).map(|()| None),
        };
        let body = if end_stream { None } else { self.whole_request(id, content_length, input) };
        let mut state = StreamState::Open { local: Phase::Head, remote: Phase::Body };
        if end_stream || body.is_some() {
            state.received_end();
        }
        let key = self.accept(id, state, content_length);
        if !end_stream && body.is_none() {
            self.note_expectation(key, &head);
        }
        if id > LAST_COMFORTABLE_ID {
            self.shutdown(self.now);
        }
        Ok(Some(match body {
            Some(len) => Incoming::WholeRequest { stream: key, head, len },
            None => Incoming::Request { stream: key, head, end: end_stream },
        }))
    }

    /// Server: the peer opened `id`.
    pub(super) fn note_opened(&mut self, id: u32) {
        self.streams.note_opened(self.max_peer_id, id);
        self.max_peer_id = id;
    }

    /// Server: may the peer have one stream more?
    pub(super) fn takes_stream(&self) -> bool {
        self.streams.len() < self.config.max_concurrent_streams as usize
    }

    /// Server: a stream of the peer's, whose request is good.
    #[inline(always)]
    pub(super) fn accept(&mut self, id: u32, state: StreamState, content_length: Option<u64>) -> StreamKey {
        let (key, stream) = self.streams.insert(state, self.peer.initial_window, self.local.stream_window());
        stream.id = id;
        stream.opened = self.now.ticks();
        stream.content_length = content_length.into();
        self.streams.bind_id(id, key);
        self.abuse.accepted();
        self.abuse.useful_frame();
        self.note_busy();
        key
    }

    /// A response, or trailers, of a live stream.
    fn message(
        &mut self,
        key: StreamKey,
        opening: &Opening,
        list: List,
        input: &mut RecvBuf,
    ) -> Result<Option<Incoming>, Unfit> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let end = opening.end_stream;
        if opening.depends_on_itself {
            return Err(Unfit::Malformed);
        }
        let (call, released) = (stream.call, stream.released);
        let event = match list {
            List::Request { .. } => return Err(Unfit::Malformed),
            List::Response { head, size, .. } if head.status < 200 => {
                // Of no interest to a call.
                if end || head.status == 101 {
                    return Err(Unfit::Malformed);
                }
                return self.bear_informational(key, size).map(|()| None);
            }
            List::Response { head, content_length, .. } => {
                let bodiless = stream.is_head || head.has_no_body();
                stream.content_length = if bodiless { Some(0) } else { content_length }.into();
                if end && !stream.content_length.allows_end() {
                    return Err(Unfit::Malformed);
                }
                stream.state.received_head();
                match if end { None } else { self.whole_response(key, input) } {
                    Some((len, trailers)) => Incoming::WholeResponse { stream: key, call, head, len, trailers },
                    None => Incoming::Response { stream: key, call, head, end },
                }
            }
            List::Trailers(headers) => {
                // Nothing may follow them, and nothing may be missing of the body.
                if !end || !stream.content_length.allows_end() {
                    return Err(Unfit::Malformed);
                }
                Incoming::Trailers { stream: key, call, headers }
            }
        };
        self.abuse.useful_frame();
        if end {
            self.received_end(key);
        }
        Ok((!released).then_some(event))
    }

    /// Server: does the client wait for leave to send the body of this request? Most bodies come with their head.
    fn note_expectation(&mut self, key: StreamKey, head: &RequestHead) {
        let expects =
            head.headers.get(&HeaderName::EXPECT).is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        if let Some(stream) = self.streams.get_mut(key).filter(|_| expects) {
            stream.awaits_continue = true;
            self.is_continue_due = true;
        }
    }

    /// Client: an informational response of `size`. All of one call together may be as large as one list, and each counts
    /// as the share of it that `max_informational` leaves to it.
    fn bear_informational(&mut self, key: StreamKey, size: usize) -> Result<(), Unfit> {
        if let Err(fault) = self.abuse.control_frame(1, self.now) {
            self.misbehaved(fault);
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
        let limit = self.config.max_header_list;
        let share = limit.checked_div(self.config.max_informational).unwrap_or(u32::MAX);
        let size = u32::try_from(size).unwrap_or(u32::MAX).max(share);
        stream.informational = stream.informational.saturating_add(size);
        if stream.informational <= limit { Ok(()) } else { Err(Unfit::TooLarge) }
    }
}

/// Most octets that a block may have.
pub(crate) const fn max_encoded(config: &Config) -> usize {
    (config.max_header_list as usize).saturating_mul(2)
}

/// Makes room for `n` more octets of at most `max`: twice as much each time, and never more than that.
fn make_room(scratch: &mut Vec<u8>, n: usize, max: usize) {
    let needed = scratch.len().saturating_add(n);
    if needed > scratch.capacity() {
        let wanted = scratch.capacity().saturating_mul(2).min(max).max(needed);
        scratch.reserve_exact(wanted.saturating_sub(scratch.len()));
    }
}
