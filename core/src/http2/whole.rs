//! Messages that lie whole in the receive window: told at once, with their body and end, where a frame at a time tells
//! of the head, of each piece of the body, and of the end.
//!
//! ```text
//! request   HEADERS │ DATA, END_STREAM │
//! response  HEADERS │ DATA, END_STREAM │
//! response  HEADERS │ DATA │ HEADERS, END_STREAM │   trailers that are recognised
//!                   ▲ where the input is when the head was decoded
//! ```
//!
//! Nothing is judged here. Whatever is not just that goes on frame by frame, which is the plain way: a message that is
//! cut, padding, more DATA than one frame, other frames in between, a window that is overrun.
#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic))]

use alloc::sync::Arc;

use crate::buf::RecvBuf;
use crate::http::Headers;
use crate::http2::connection::Http2;
use crate::http2::frame::{self, FrameHeader, HEADER_LEN, Kind};
use crate::http2::recv::{State, is_useful};
use crate::http2::store::StreamKey;
use crate::http2::stream::{Closed, Phase, StreamState};
use crate::http2::validate::{List, ListKind};

/// DATA that lies whole at the front of the input: all of a body.
#[derive(Clone, Copy)]
struct Body<'a> {
    octets: &'a [u8],
    /// END_STREAM is on it.
    end: bool,
    /// What lies behind it.
    rest: &'a [u8],
}

/// A response that lies whole at the front of the input, but for its head.
pub(super) struct Answer {
    /// Octets of the body, which are next in the input.
    pub(super) len: usize,
    /// What ends it; `None` if that is the body.
    pub(super) trailers: Option<Arc<Headers>>,
}

impl Http2 {
    /// Server: receives the DATA frame that is all the body of a new request, whose head was read last, and returns its
    /// length. The octets are next in the input.
    pub(super) fn whole_request(&mut self, id: u32, length: Option<u64>, input: &mut RecvBuf) -> Option<usize> {
        let window = i64::from(self.local.stream_window());
        let len = self.body_ahead(id, length, window, input).filter(|body| body.end)?.octets.len();
        input.skip(HEADER_LEN);
        self.recv_window.pass(len);
        self.abuse.useful_frame();
        Some(len)
    }

    /// Client: receives the body and the end of a response, whose head was read last. The octets of the body are next in
    /// the input; the stream stays as it is before the end, for [`end_whole`](Self::end_whole).
    pub(super) fn whole_response(&mut self, key: StreamKey, input: &mut RecvBuf) -> Option<Answer> {
        let stream = self.streams.get(key)?;
        // A request that is still being sent has to be cut off, and a released call is told nothing.
        if stream.state != StreamState::HalfClosedLocal(Phase::Body) || stream.released || stream.is_head {
            return None;
        }
        let body = self.body_ahead(stream.id, stream.content_length, stream.recv_window.window(), input)?;
        let (len, end) = (body.octets.len(), body.end);
        let (trailers, behind) = if end {
            (None, 0)
        } else {
            let (trailers, len) = self.known_trailers(stream.id, body.rest)?;
            (Some(trailers), HEADER_LEN + len)
        };
        input.skip(HEADER_LEN);
        self.parser.skip(behind);
        self.recv_window.pass(len);
        if let Some(stream) = self.streams.get_mut(key) {
            // That it holds them was looked at.
            let _ = stream.recv_window.receive(len as u32);
        }
        // One that ends the stream counts as its end.
        if !end && is_useful(len, end) {
            self.abuse.useful_frame();
        }
        Some(Answer { len, trailers })
    }

    /// Client: the owner of a whole response has come to its end, and the stream is gone. False if it was reset on the
    /// way: what is left of the response is nobody's then, as ever.
    pub(crate) fn end_whole(&mut self, key: StreamKey) -> bool {
        let is_live = self.is_live(key);
        if is_live {
            self.abuse.useful_frame();
            self.close(key, Closed::Ended);
            self.streams.remove(key);
        }
        is_live
    }

    /// Is the stream open in any direction, or about to be?
    pub(crate) fn is_live(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_some_and(|stream| !stream.state.is_closed())
    }

    /// The frame at the front of the input, if it is DATA of `id` that lies there whole and is as long as it should be.
    fn body_ahead<'a>(&self, id: u32, length: Option<u64>, window: i64, input: &'a RecvBuf) -> Option<Body<'a>> {
        if !matches!(self.parser.state, State::Header) {
            return None;
        }
        let (header, octets, rest) = self.frame_ahead(input.data())?;
        let len = i64::from(header.len);
        let is_body = header.kind == Kind::DATA
            && header.stream == id
            && header.flags & !frame::END_STREAM == 0
            && len <= window.min(self.recv_window.window())
            && length.is_none_or(|length| length == u64::from(header.len));
        is_body.then_some(Body { octets, end: header.has(frame::END_STREAM), rest })
    }

    /// Trailers of `id` that lie whole at the front of `octets` and are recognised, and the length of their block.
    fn known_trailers(&self, id: u32, octets: &[u8]) -> Option<(Arc<Headers>, usize)> {
        let (header, block, _) = self.frame_ahead(octets)?;
        if header.kind != Kind::HEADERS || header.stream != id || header.flags != frame::END_STREAM | frame::END_HEADERS
        {
            return None;
        }
        let kind = ListKind::ResponseTrailers { lenient: self.config.lenient_grpc_message };
        match self.memo.known(kind, self.decoder.generation(), block)? {
            List::Trailers(trailers) => Some((Arc::clone(trailers), block.len())),
            _ => None,
        }
    }

    /// The first frame of `octets`, if it is there whole and no larger than may be: header, payload, and what follows.
    fn frame_ahead<'a>(&self, octets: &'a [u8]) -> Option<(FrameHeader, &'a [u8], &'a [u8])> {
        let (header, rest) = octets.split_first_chunk::<HEADER_LEN>()?;
        let header = FrameHeader::decode(*header);
        let (payload, rest) = rest.split_at_checked(header.len as usize)?;
        (header.len <= self.local.max_frame_size()).then_some((header, payload, rest))
    }
}
