//! DATA that was read straight to where its message lies: what is guessed of it before, and what is made of it after.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::http2::connection::{Http2, Incoming};
use crate::http2::frame::{self, FrameHeader, HEADER_LEN, Kind, Layout};
use crate::http2::recv::State;
use crate::time::Instant;

/// The body that the next octets belong to, unless the peer does something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArrivingBody {
    /// The stream, as its frames name it.
    pub(crate) id: u32,
    pub(crate) call: u32,
    /// Octets in front of the next frame.
    pub(crate) left: usize,
    /// Length of the frames that are likely to follow, if any are.
    pub(crate) frame: Option<usize>,
}

impl Http2 {
    /// The body that is arriving, if there is one and all input is used up.
    #[inline]
    pub(crate) fn arriving_body(&self) -> Option<ArrivingBody> {
        let recent = self.parser.recent;
        let (stream, left) = match self.parser.state {
            State::Data(data) if data.padding == 0 => (data.stream?, data.left),
            State::Header if self.parser.block.is_none() && recent.is_repeated => (recent.stream?, 0),
            _ => return None,
        };
        let frame = recent.is_repeated.then_some(recent.len as usize).filter(|&len| len > 0);
        let body = self.streams.get(stream).filter(|body| body.state.remote().is_some() && !body.released)?;
        Some(ArrivingBody { id: body.id, call: body.call, left, frame })
    }

    /// Whether the octets are the header of a DATA frame of stream `id` with `len` octets and nothing beside them.
    pub(crate) fn is_data_header(octets: &[u8; HEADER_LEN], id: u32, len: usize) -> bool {
        let FrameHeader { len: announced, kind, stream, .. } = FrameHeader::decode(*octets);
        let is_plain = octets.get(4).is_some_and(|flags| flags & !frame::END_STREAM == 0);
        kind == Kind::DATA && is_plain && stream == id && announced as usize == len
    }

    /// Takes the next `n` octets of a body, which lie where they belong, after the header of their frame if it begins with
    /// them.
    pub(crate) fn landed(&mut self, header: Option<[u8; HEADER_LEN]>, n: usize, now: Instant) -> Option<Incoming> {
        self.tick(now);
        self.keepalive.on_read(self.now);
        if self.terminal.is_some() {
            return None;
        }
        if let Some(header) = header.map(FrameHeader::decode) {
            // It has neither padding nor anything else in front.
            let layout = Layout { prelude: 0, body: header.len as usize, padding: 0, dependency: None };
            let begun = header.check(self.local.max_frame_size()).and_then(|()| self.begin_data(header, layout));
            match begun {
                Ok(data) => self.parser.state = State::Data(data),
                Err(fault) => {
                    self.misbehaved(fault);
                    return None;
                }
            }
        }
        match self.parser.state {
            State::Data(data) if n > 0 || data.left == 0 => self.pass_data(data, n.min(data.left)),
            _ => None,
        }
    }
}
