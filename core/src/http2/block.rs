//! Header blocks on the way in: gathered if they are cut, decoded once, turned into heads and trailers.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use bytes::Bytes;

use crate::buf::RecvBuf;
use crate::error::{ErrorCode, PeerMisbehaved, Timeout};
use crate::hpack::ListLimits;
use crate::http::{Headers, ResponseHead};
use crate::http2::Side;
use crate::http2::connection::{Http2, Incoming, LAST_COMFORTABLE_ID};
use crate::http2::frame::{self, FrameHeader, Layout};
use crate::http2::recv::{Checked, Located, State, Step, calm, protocol, stream_closed};
use crate::http2::store::{PastId, StreamKey};
use crate::http2::stream::{Closed, Phase, Stream, StreamState};
use crate::http2::validate::{FieldList, ListKind, Malformed};

/// A header block that is being received.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: u32,
    purpose: Purpose,
    end_stream: bool,
    /// The deprecated priority fields name the stream itself.
    depends_on_itself: bool,
    continuations: usize,
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
    /// A live stream: its response, or trailers.
    Message(StreamKey),
    /// Only the HPACK tables.
    Nothing,
    /// Only the HPACK tables; then the stream, which the peer has reset, is reset once from our side.
    Late,
}

impl Http2 {
    pub(super) fn begin_block(&mut self, header: FrameHeader, layout: Layout) -> Checked<()> {
        let id = header.stream;
        let purpose = match self.locate(id) {
            Located::Live(key) => match self.streams.get(key).and_then(|stream| stream.state.remote()) {
                Some(_) => Purpose::Message(key),
                None => return Err(stream_closed("HEADERS after END_STREAM")),
            },
            Located::Ignored | Located::Past(PastId::Closed(Closed::WeReset)) => Purpose::Nothing,
            Located::Past(PastId::Closed(Closed::PeerReset)) => Purpose::Late,
            Located::Past(PastId::Closed(Closed::Ended)) => return Err(stream_closed("HEADERS on a closed stream")),
            Located::Past(PastId::Skipped) => return Err(protocol("HEADERS with a stream id below the last")),
            Located::Past(PastId::Forgotten) => {
                self.abuse.stream_fault(self.now)?;
                Purpose::Nothing
            }
            Located::Idle if self.side == Side::Server && id % 2 == 1 => {
                self.streams.note_opened(self.max_peer_id, id);
                self.max_peer_id = id;
                Purpose::Request
            }
            Located::Idle => return Err(protocol("HEADERS on a stream that the peer cannot open")),
        };
        self.parser.block = Some(Block {
            id,
            purpose,
            end_stream: header.has(frame::END_STREAM),
            depends_on_itself: layout.dependency == Some(id),
            continuations: 0,
            announced: 0,
            scratch: Vec::new(),
        });
        self.arm(Timeout::HeaderBlock, self.config.header_block_timeout);
        self.begin_fragment(layout.body, layout.padding, header.has(frame::END_HEADERS))
    }

    pub(super) fn continue_block(&mut self, header: FrameHeader) -> Checked<()> {
        if let Some(block) = &mut self.parser.block {
            block.continuations += 1;
            if block.continuations > self.config.max_continuations {
                return Err(calm("too many CONTINUATION frames"));
            }
        }
        self.begin_fragment(header.len as usize, 0, header.has(frame::END_HEADERS))
    }

    fn begin_fragment(&mut self, left: usize, padding: usize, last: bool) -> Checked<()> {
        if let Some(block) = &mut self.parser.block {
            block.announced = block.announced.saturating_add(left);
            // Compression never makes a list larger than this.
            if block.announced > (self.config.max_header_list as usize).saturating_mul(2) {
                return Err(calm("header block far above the limit"));
            }
        }
        self.parser.state = State::Fragment { left, padding, last };
        Ok(())
    }

    pub(super) fn fragment(&mut self, left: usize, padding: usize, last: bool, input: &mut RecvBuf) -> Checked<Step> {
        let Some(block) = &mut self.parser.block else { return Ok(Step::Progress) };
        let in_place = last && block.scratch.is_empty() && input.len() >= left;
        let n = left.min(input.len());
        if !in_place {
            block.scratch.extend_from_slice(input.data().get(..n).unwrap_or_default());
            if n < left {
                input.skip(n);
                self.parser.state = State::Fragment { left: left - n, padding, last };
                return Ok(Step::Starved);
            }
        }
        let octets = input.split_to(n);
        self.parser.state = if padding == 0 { State::Header } else { State::Skip(padding) };
        if !last {
            return Ok(Step::Progress);
        }
        let Some(mut block) = self.parser.block.take() else { return Ok(Step::Progress) };
        self.timers.clear(Timeout::HeaderBlock);
        let octets = if in_place { octets } else { Bytes::from(mem::take(&mut block.scratch)) };
        let event = self.block(&block, &octets)?;
        Ok(event.map_or(Step::Progress, Step::Event))
    }

    /// A whole header block. It is decoded whatever becomes of its stream, or the tables would part.
    fn block(&mut self, block: &Block, octets: &Bytes) -> Checked<Option<Incoming>> {
        let lenient = self.config.lenient_grpc_message;
        let phase = match block.purpose {
            Purpose::Message(key) => self.streams.get(key).and_then(|stream| stream.state.remote()),
            _ => None,
        };
        let kind = match (self.side, phase) {
            (Side::Server, None) => ListKind::Request,
            (Side::Server, Some(_)) => ListKind::RequestTrailers,
            (Side::Client, Some(Phase::Body)) => ListKind::ResponseTrailers { lenient },
            (Side::Client, _) => ListKind::Response { lenient },
        };
        let mut list = FieldList::new(kind);
        let limits = ListLimits { bytes: self.config.max_header_list as usize, fields: self.config.max_headers };
        let size = self
            .decoder
            .decode(octets, limits, &mut |field| list.push(field))
            .map_err(|error| PeerMisbehaved { code: error.code(), detail: error.detail() })?;
        let too_large = !size.is_within(limits);
        match block.purpose {
            Purpose::Nothing => Ok(None),
            Purpose::Late => self.refuse(block.id, ErrorCode::STREAM_CLOSED).map(|()| None),
            Purpose::Request => self.request(block, list, too_large),
            Purpose::Message(key) => {
                // While the block was under way the stream may have been reset from our side.
                let Some(phase) = phase else { return Ok(None) };
                if too_large {
                    return self.stream_fault(key, ErrorCode::ENHANCE_YOUR_CALM).map(|()| None);
                }
                let outcome = if block.depends_on_itself {
                    Err(Malformed("a stream that depends on itself"))
                } else {
                    match phase {
                        Phase::Head => self.response(key, block, list, size.bytes),
                        Phase::Body => self.trailers(key, block, list),
                    }
                };
                match outcome {
                    Ok(event) => Ok(event),
                    Err(Malformed(_)) => self.stream_fault(key, ErrorCode::PROTOCOL_ERROR).map(|()| None),
                }
            }
        }
    }

    fn request(&mut self, block: &Block, list: FieldList, too_large: bool) -> Checked<Option<Incoming>> {
        let id = block.id;
        if self.streams.len() >= self.config.max_concurrent_streams as usize {
            self.write_rst(id, ErrorCode::REFUSED_STREAM);
            self.streams.remember(id, Closed::WeReset);
            // Until the peer has acknowledged the limit it cannot know it.
            if self.local.is_acknowledged() {
                self.abuse.stream_fault(self.now)?;
            }
            return Ok(None);
        }
        if too_large {
            let head = ResponseHead { status: 431, headers: Headers::new() };
            self.answer_refused(id, &head);
            if block.end_stream {
                self.streams.remember(id, Closed::Ended);
                return self.abuse.stream_fault(self.now).map(|()| None);
            }
            return self.refuse(id, ErrorCode::NO_ERROR).map(|()| None);
        }
        let checked = list.into_request().and_then(|(head, length)| {
            let fits = !block.end_stream || length.unwrap_or(0) == 0;
            if fits && !block.depends_on_itself { Ok((head, length)) } else { Err(Malformed("")) }
        });
        let Ok((head, content_length)) = checked else {
            return self.refuse(id, ErrorCode::PROTOCOL_ERROR).map(|()| None);
        };
        let mut state = StreamState::Open { local: Phase::Head, remote: Phase::Body };
        if block.end_stream {
            state.received_end();
        }
        let mut stream = Stream::new(state, self.peer.initial_window, self.local.stream_window());
        stream.id = id;
        stream.content_length = content_length;
        let key = self.streams.insert(stream);
        self.streams.bind_id(id, key);
        self.abuse.useful_frame();
        self.note_busy();
        if id > LAST_COMFORTABLE_ID {
            self.shutdown(self.now);
        }
        Ok(Some(Incoming::Request { stream: key, head: Arc::new(head), end: block.end_stream }))
    }

    fn response(
        &mut self,
        key: StreamKey,
        block: &Block,
        list: FieldList,
        size: usize,
    ) -> Result<Option<Incoming>, Malformed> {
        let (head, content_length) = list.into_response()?;
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let end = block.end_stream;
        if head.status < 200 {
            // Informational, and of no interest to a call. All of them together may be as large as one list.
            stream.informational = stream.informational.saturating_add(u32::try_from(size).unwrap_or(u32::MAX));
            let bearable = stream.informational <= self.config.max_header_list;
            return if end || head.status == 101 || !bearable { Err(Malformed("informational")) } else { Ok(None) };
        }
        let bodiless = stream.is_head || matches!(head.status, 204 | 304);
        stream.content_length = if bodiless { Some(0) } else { content_length };
        if end && stream.content_length.unwrap_or(0) != 0 {
            return Err(Malformed("content-length without a body"));
        }
        stream.state.received_head();
        let (call, released) = (stream.call, stream.released);
        self.abuse.useful_frame();
        if end {
            self.received_end(key);
        }
        Ok((!released).then_some(Incoming::Response { stream: key, call, head: Arc::new(head), end }))
    }

    fn trailers(&mut self, key: StreamKey, block: &Block, list: FieldList) -> Result<Option<Incoming>, Malformed> {
        let headers = list.into_trailers()?;
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if !block.end_stream || stream.content_length.unwrap_or(0) != 0 {
            return Err(Malformed("trailers without END_STREAM, or a body shorter than content-length"));
        }
        let (call, released) = (stream.call, stream.released);
        self.abuse.useful_frame();
        self.received_end(key);
        Ok((!released).then_some(Incoming::Trailers { stream: key, call, headers: Arc::new(headers) }))
    }
}
