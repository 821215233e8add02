//! Messages that lie whole in the receive window: told at once, with their body and end, where a frame at a time tells
//! of the head, of each piece of the body, and of the end.
//!
//! ```text
//! request   HEADERS │ DATA … DATA, END_STREAM │
//! response  HEADERS │ DATA … DATA, END_STREAM │
//! response  HEADERS │ DATA … DATA │ HEADERS, END_STREAM │   trailers that are recognised
//! ```
//!
//! A body of a few frames is made one piece where it lies, over the headers of its frames.
//!
//! Nothing is judged here. Whatever is not just that goes on frame by frame, which is the plain way: a message that is
//! cut, padding, more frames, other frames in between, a window that is overrun.

use alloc::sync::Arc;

use crate::buf::RecvBuf;
use crate::http::Headers;
use crate::http2::Side;
use crate::http2::connection::{Http2, Incoming, LAST_COMFORTABLE_ID};
use crate::http2::frame::{self, FrameHeader, HEADER_LEN, Kind};
use crate::http2::recv::State;
use crate::http2::store::StreamKey;
use crate::http2::stream::{Closed, Phase, StreamState};
use crate::http2::validate::{List, ListKind};

/// DATA that lies whole at the front of the input: all of a body.
#[derive(Clone, Copy)]
struct Body<'a> {
    /// Its octets; no more than a frame has.
    len: u32,
    /// END_STREAM is on it.
    end: bool,
    /// What lies behind it.
    rest: &'a [u8],
}

/// DATA frames of one body that are received in one step, at most. Of a message of 16 KiB, what the envelope adds is in the
/// second; of more than a few frames, a body is better put together in memory that serves one after the other.
const MAX_FRAMES: usize = 4;

/// How a body is cut into several frames.
#[derive(Clone, Copy, Debug, Default)]
struct Pieces {
    /// Octets of each, and zeros behind the last.
    lens: [u32; MAX_FRAMES],
    /// Frames behind the first.
    further: u8,
    /// Of these, such as do not end the stream, and yet count as useful work.
    useful: u8,
}

/// A body that was made one piece.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Joined {
    /// Whose it is.
    id: u32,
    /// Octets of each frame but the last, which has the rest, and zeros behind them.
    lens: [u32; MAX_FRAMES - 1],
}

impl Pieces {
    /// Octets of the headers between the pieces.
    fn gaps(self) -> usize {
        usize::from(self.further) * HEADER_LEN
    }

    /// Moves the pieces, the first at the front of `octets`, together over the headers: the room of these is behind them
    /// then.
    fn join(self, octets: &mut [u8]) {
        let [first, further @ ..] = self.lens.map(|len| len as usize);
        let (mut at, mut joined) = (first, first);
        for len in further.into_iter().take(self.further.into()) {
            let piece = at + HEADER_LEN..at + HEADER_LEN + len;
            debug_assert!(piece.end <= octets.len(), "they lie there whole");
            at = piece.end;
            octets.copy_within(piece, joined);
            joined += len;
        }
    }
}

/// The end of a response, behind its body.
struct Ending {
    /// `None` if the body ends it.
    trailers: Option<Arc<Headers>>,
    /// Octets of the frame of the trailers.
    octets: usize,
}

impl Http2 {
    // ---- heads that are recognised ---------------------------------------------------------------

    /// A message that lies whole at the front of the input, if its head is recognised: what nearly every message is where
    /// calls repeat themselves, so that it is looked for before anything else.
    pub(super) fn recognised(&mut self, input: &mut RecvBuf) -> Option<Incoming> {
        let (header, block, rest) = self.frame_ahead(input.data())?;
        if header.kind != Kind::HEADERS || header.flags != frame::END_HEADERS || !self.is_at_message() {
            return None;
        }
        let taken = HEADER_LEN + block.len() + HEADER_LEN;
        let incoming = match self.side {
            Side::Server => self.recognised_request(header.stream, block, rest),
            Side::Client => self.recognised_response(header.stream, block, rest),
        };
        if incoming.is_some() {
            input.skip(taken);
        }
        incoming
    }

    #[inline]
    fn recognised_request(&mut self, id: u32, block: &[u8], rest: &[u8]) -> Option<Incoming> {
        let is_new = id % 2 == 1 && id > self.max_peer_id && id <= LAST_COMFORTABLE_ID;
        if !is_new || self.goaway_sent.is_some() || !self.takes_stream() {
            return None;
        }
        let List::Request { head, content_length } =
            self.memo.known(ListKind::Request, self.decoder.generation(), block)?
        else {
            return None;
        };
        let len = self.request_body(id, *content_length, rest)?;
        let head = Arc::clone(head);
        self.note_opened(id);
        let stream = self.accept(id, StreamState::HalfClosedRemote(Phase::Head), None);
        self.took_request(len);
        Some(Incoming::WholeRequest { stream, head, len: len as usize })
    }

    #[inline]
    fn recognised_response(&mut self, id: u32, block: &[u8], rest: &[u8]) -> Option<Incoming> {
        let key = self.streams.by_id(id)?;
        let stream = self.streams.get(key).filter(|stream| stream.takes_whole_response(Phase::Head))?;
        let kind = ListKind::Response { lenient: self.config.lenient_grpc_message };
        let List::Response { head, content_length, .. } = self.memo.known(kind, self.decoder.generation(), block)?
        else {
            return None;
        };
        if head.status < 200 || head.has_no_body() {
            return None;
        }
        let window = self.local.intended(stream.recv_window.window());
        let body = self.body_ahead(id, *content_length, window, rest)?;
        let ending = self.ending_ahead(id, &body)?;
        let (call, head, len) = (stream.call, Arc::clone(head), body.len);
        self.took_response(key, body.len, &ending);
        self.abuse.useful_frame();
        Some(Incoming::WholeResponse { stream: key, call, head, len: len as usize, trailers: ending.trailers })
    }

    // ---- heads that were decoded -----------------------------------------------------------------

    /// Server: receives the DATA that is all the body of a new request, whose head was read last, and returns its length.
    /// The octets are next in the input.
    pub(super) fn whole_request(&mut self, id: u32, length: Option<u64>, input: &mut RecvBuf) -> Option<usize> {
        if !self.is_between_frames() {
            return None;
        }
        if let Some(len) = self.request_body(id, length, input.data()) {
            input.skip(HEADER_LEN);
            self.took_request(len);
            return Some(len as usize);
        }
        let window = self.local.intended(self.local.stream_window().into());
        let (body, pieces) = self.pieces_ahead(id, length, window, input.data()).filter(|(body, _)| body.end)?;
        let len = body.len;
        self.take_pieces(id, pieces, input);
        self.took_request(len);
        self.parser.skip(pieces.gaps());
        Some(len as usize)
    }

    /// Client: receives the body and the end of a response, whose head was read last. The octets of the body are next in
    /// the input; the stream stays as it is before the end, for [`end_whole`](Self::end_whole).
    pub(super) fn whole_response(
        &mut self,
        key: StreamKey,
        input: &mut RecvBuf,
    ) -> Option<(usize, Option<Arc<Headers>>)> {
        let stream = self.streams.get(key).filter(|stream| stream.takes_whole_response(Phase::Body))?;
        if !self.is_between_frames() {
            return None;
        }
        let (id, window) = (stream.id, self.local.intended(stream.recv_window.window()));
        let length = stream.content_length.due();
        if let Some(body) = self.body_ahead(id, length, window, input.data()) {
            if let Some(ending) = self.ending_ahead(id, &body) {
                let len = body.len;
                input.skip(HEADER_LEN);
                self.took_response(key, len, &ending);
                return Some((len as usize, ending.trailers));
            }
        }
        let (body, pieces) = self.pieces_ahead(id, length, window, input.data())?;
        let mut ending = self.ending_ahead(id, &body)?;
        let len = body.len;
        ending.octets += pieces.gaps();
        self.take_pieces(id, pieces, input);
        self.took_response(key, len, &ending);
        Some((len as usize, ending.trailers))
    }

    // ---- what both have in common ----------------------------------------------------------------

    /// Makes `pieces`, whose first is behind the header that is next, one piece that is next.
    fn take_pieces(&mut self, id: u32, pieces: Pieces, input: &mut RecvBuf) {
        let mut lens = [0; MAX_FRAMES - 1];
        lens.iter_mut().zip(pieces.lens).take(pieces.further.into()).for_each(|(len, piece)| *len = piece);
        self.joined = Joined { id, lens };
        (0..pieces.useful).for_each(|_| self.abuse.useful_frame());
        input.skip(HEADER_LEN);
        pieces.join(input.data_mut());
    }

    fn took_request(&mut self, len: u32) {
        self.recv_window.pass(len);
        self.abuse.useful_frame();
    }

    #[inline]
    fn took_response(&mut self, key: StreamKey, len: u32, ending: &Ending) {
        self.recv_window.pass(len);
        self.parser.skip(ending.octets);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.state = StreamState::HalfClosedLocal(Phase::Body);
            // That it holds them was looked at.
            let _ = stream.recv_window.receive(len);
        }
        // A frame that ends the stream counts as its end.
        if ending.trailers.is_some() && self.abuse.is_useful(len as usize, false) {
            self.abuse.useful_frame();
        }
    }

    /// Client: the owner of a whole response has come to its end, and the stream is gone. False if it was reset on the
    /// way: what is left of the response is nobody's then, as ever.
    pub(crate) fn end_whole(&mut self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.get(key).filter(|stream| !stream.state.is_closed()) else { return false };
        let (id, is_quiet) = (stream.id, stream.is_quiet());
        self.abuse.useful_frame();
        if is_quiet {
            self.end_quietly(key, id);
        } else {
            self.close(key, Closed::Ended);
            self.streams.remove(key);
        }
        true
    }

    /// The owner of a whole message wants its body, of `len` octets, as it came, for how much of it there is at a time
    /// decides what becomes of it. If it came in several frames, the stream is again as it was in front of the first, to
    /// [receive](Self::receive_frame) them one by one: the length of each, and whether it is the last.
    #[cold]
    pub(crate) fn in_frames(&mut self, key: StreamKey, len: u32) -> Option<impl Iterator<Item = (u32, bool)> + use<>> {
        let Joined { id, lens } = core::mem::take(&mut self.joined);
        let stream = self.streams.get_mut(key).filter(|stream| stream.id == id)?;
        match stream.state {
            StreamState::HalfClosedRemote(local) => stream.state = StreamState::Open { local, remote: Phase::Body },
            _ => stream.recv_window.unreceive(len),
        }
        let rest = len.saturating_sub(lens.iter().sum());
        Some(lens.into_iter().take_while(|&len| len > 0).map(|len| (len, false)).chain([(rest, true)]))
    }

    /// Of a body that is received as it came: DATA of `len` octets. False if the stream is of no use any more.
    #[cold]
    pub(crate) fn receive_frame(&mut self, key: StreamKey, len: u32, end: bool) -> bool {
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.state.remote().is_some()) else {
            return false;
        };
        // That it holds them was looked at.
        let _ = stream.recv_window.receive(len);
        self.reservations.received(stream, len as usize);
        if let Some(due) = stream.content_length.due() {
            stream.content_length = Some(due.saturating_sub(len.into())).into();
        }
        match (end, self.side) {
            (true, Side::Client) => return self.end_whole(key),
            (true, Side::Server) => self.received_end(key),
            (false, _) => {
                self.note_update(key);
                self.admit_reservations();
            }
        }
        true
    }

    /// Is the stream open in any direction, or about to be?
    pub(crate) fn is_live(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_some_and(|stream| !stream.state.is_closed())
    }

    /// May the next frame begin a message?
    #[inline]
    fn is_at_message(&self) -> bool {
        self.peer.is_received() && self.is_between_frames()
    }

    /// Is neither a frame nor a field block under way?
    #[inline]
    fn is_between_frames(&self) -> bool {
        matches!(self.parser.state, State::Header) && self.parser.block.is_none()
    }

    /// The length of the body of the request `id`, if that is one DATA frame, which ends it.
    #[inline]
    fn request_body(&self, id: u32, length: Option<u64>, octets: &[u8]) -> Option<u32> {
        let window = self.local.intended(self.local.stream_window().into());
        self.body_ahead(id, length, window, octets).filter(|body| body.end).map(|body| body.len)
    }

    /// The frame at the front of `octets`, if it is DATA of `id` that lies there whole, that is as long as it should be,
    /// and that fits the windows; that of the stream is `window`.
    #[inline]
    fn body_ahead<'a>(&self, id: u32, length: Option<u64>, window: i64, octets: &'a [u8]) -> Option<Body<'a>> {
        let (header, _, rest) = self.frame_ahead(octets)?;
        let end = header.has(frame::END_STREAM);
        let is_body = header.kind == Kind::DATA
            && header.stream == id
            && header.flags & !frame::END_STREAM == 0
            && (end || header.len > 0)
            && i64::from(header.len) <= window.min(self.recv_window.window())
            && length.is_none_or(|length| length == u64::from(header.len));
        is_body.then_some(Body { len: header.len, end, rest })
    }

    /// As [`body_ahead`](Self::body_ahead), a body of several frames. What is returned of it is all of it.
    #[inline(never)]
    fn pieces_ahead<'a>(
        &self,
        id: u32,
        length: Option<u64>,
        window: i64,
        octets: &'a [u8],
    ) -> Option<(Body<'a>, Pieces)> {
        let mut body = self.body_ahead(id, None, window, octets).filter(|body| !body.end)?;
        let mut pieces = Pieces { lens: [body.len, 0, 0, 0], further: 0, useful: 0 };
        while !body.end && body.rest.get(3) == Some(&Kind::DATA.0) {
            let next = self.body_ahead(id, None, window, body.rest)?;
            pieces.useful += u8::from(!next.end && self.abuse.is_useful(next.len as usize, false));
            pieces.further += 1;
            *pieces.lens.get_mut(usize::from(pieces.further))? = next.len;
            body = Body { len: body.len + next.len, ..next };
        }
        let is_all = i64::from(body.len) <= window.min(self.recv_window.window())
            && length.is_none_or(|length| length == u64::from(body.len));
        is_all.then_some((body, pieces))
    }

    /// What ends the response `id` behind `body`, if it lies there whole and is recognised.
    #[inline]
    fn ending_ahead(&self, id: u32, body: &Body<'_>) -> Option<Ending> {
        if body.end {
            return Some(Ending { trailers: None, octets: 0 });
        }
        let (header, block, _) = self.frame_ahead(body.rest)?;
        let flags = frame::END_STREAM | frame::END_HEADERS;
        if header.kind != Kind::HEADERS || header.stream != id || header.flags != flags {
            return None;
        }
        let kind = ListKind::ResponseTrailers { lenient: self.config.lenient_grpc_message };
        match self.memo.known(kind, self.decoder.generation(), block)? {
            List::Trailers(trailers) => {
                Some(Ending { trailers: Some(Arc::clone(trailers)), octets: HEADER_LEN + block.len() })
            }
            _ => None,
        }
    }

    /// The first frame of `octets`, if it is there whole and no larger than may be: header, payload, and what follows.
    #[inline]
    fn frame_ahead<'a>(&self, octets: &'a [u8]) -> Option<(FrameHeader, &'a [u8], &'a [u8])> {
        let (header, rest) = octets.split_first_chunk::<HEADER_LEN>()?;
        let header = FrameHeader::decode(*header);
        let (payload, rest) = rest.split_at_checked(header.len as usize)?;
        (header.len <= self.local.max_frame_size()).then_some((header, payload, rest))
    }
}
