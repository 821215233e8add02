//! Messages that are whole when they are queued, and need not wait: their frames go straight into the arena.
//!
//! The general way of a message leads through the stream, where it is kept, and the scheduler, which gives the stream
//! a turn at the next output. Nothing of that is needed when no other stream waits, the windows hold the whole
//! message, and a few DATA frames take it. Then the turns are had at once, by the same writers of frames, so that the
//! octets are those of the general way; and the message is encoded where it leaves from. One of several frames is encoded
//! in one piece, and then parted to let the headers of its frames in.
//!
//! ```text
//! arena  … │ HEADERS │ DATA header │ prefix │ payload: lent by Region │ trailers (server)
//!                    ▲ where a Region that is not committed cuts the output off
//! ```

use bytes::{BufMut, BytesMut};

use crate::error::{ErrorCode, OpenError};
use crate::http::{DeadlineField, Headers, InlineField, Method, RequestHead, ResponseHead, Rest};
use crate::http2::Side;
use crate::http2::connection::{Drain, Http2, LAST_COMFORTABLE_ID};
use crate::http2::frame::{self, FrameHeader, HEADER_LEN, Kind};
use crate::http2::settings::MAX_DATA;
use crate::http2::store::StreamKey;
use crate::http2::stream::{End, Phase, StreamState};
use crate::http2::template::{Block, Template};
use crate::time::Instant;

/// DATA frames of a message that is encoded in place, at most, which is also a turn's: what is parted is moved.
const MAX_FRAMES: usize = 3;

/// The part of [`transmit_target`](crate::Config::transmit_target) that a message of several frames may take: one that is
/// as large as all that a write takes is better chained than copied.
const TARGET_PART: usize = 4;

/// A body of one message, before there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    /// What goes in front of the payload, in a dialect with envelopes.
    pub(crate) prefix: Option<[u8; 5]>,
    /// Octets of payload.
    pub(crate) len: usize,
}

impl Message {
    /// Octets of DATA.
    fn octets(&self) -> usize {
        self.prefix.map_or(0, |prefix| prefix.len()) + self.len
    }
}

impl Http2 {
    /// Client: can a request with a body of `octets` be written at once?
    ///
    /// Output that the transport did not take counts as the arena does: who cancels calls and opens others must not be
    /// able to pile up output without end.
    pub(crate) fn has_room_for_request(&self, octets: usize) -> bool {
        self.drain == Drain::No
            && self.next_id <= LAST_COMFORTABLE_ID
            && self.sched.pending() == 0
            && self.has_slot()
            && self.has_room(octets, self.peer.initial_window as usize)
    }

    /// Server: can a response with a body of `octets` be written at once, the first thing on its stream?
    pub(crate) fn has_room_for_response(&self, key: StreamKey, octets: usize) -> bool {
        let Some(stream) = self.streams.get(key) else { return false };
        stream.is_response_due() && self.has_room(octets, stream.send_window.available())
    }

    fn has_room(&self, octets: usize, window: usize) -> bool {
        self.terminal.is_none()
            && !self.is_runnable()
            && self.handed.left() + self.arena.len() < self.transmit_target()
            && (octets <= window.min(self.send_window.available()).min(MAX_DATA)
                || self.has_room_for_parts(octets, window))
    }

    /// Can a body of several frames be written at once, where windows and a part of the output's room are what is left to
    /// ask?
    #[cold]
    fn has_room_for_parts(&self, octets: usize, window: usize) -> bool {
        octets <= window.min(self.send_window.available()).min(self.max_whole_body())
    }

    /// Octets of a body of several frames that has a turn of its own for all of them, at most.
    pub(super) fn max_whole_body(&self) -> usize {
        (MAX_DATA * MAX_FRAMES).min(self.transmit_target() / TARGET_PART)
    }

    /// Client: writes the head of a request, with `deadline` behind `rest`, and lends the region of its message. Only
    /// where [`has_room_for_request`](Self::has_room_for_request).
    ///
    /// # Errors
    /// `TooLarge`: the peer takes no such head. Nothing was written.
    pub(crate) fn write_request(
        &mut self,
        head: &mut Template<RequestHead>,
        mut rest: Rest<'_>,
        deadline: Option<DeadlineField>,
        call: u32,
        message: Message,
        now: Instant,
    ) -> Result<Region<'_>, OpenError> {
        self.tick(now);
        let deadline_size = deadline.map_or(0, |deadline| deadline.max_list_size());
        self.check_size(head.list_size + rest.list_size() + deadline_size)?;
        rest.last = deadline.and_then(|deadline| InlineField::deadline(deadline, self.now));
        // Its turn is now, and it is on the wire from the beginning.
        let id = self.next_id;
        let opened = StreamState::Open { local: Phase::Body, remote: Phase::Head };
        let (key, stream) = self.streams.insert(opened, self.peer.initial_window, self.local.stream_window());
        stream.id = id;
        stream.call = call;
        stream.is_head = head.head.method == Method::Head;
        self.streams.bind_id(id, key);
        self.next_id += 2;
        self.active += 1;
        self.note_busy();
        Ok(self.begin(key, id, &mut Block::of_request(head, &rest), message, true))
    }

    /// Server: writes the head of a response and lends the region of its message, which is the end of the response if
    /// `end`; otherwise trailers are. Only where [`has_room_for_response`](Self::has_room_for_response).
    pub(crate) fn write_response(
        &mut self,
        key: StreamKey,
        head: &mut Template<ResponseHead>,
        rest: Rest<'_>,
        message: Message,
        end: bool,
        now: Instant,
    ) -> Region<'_> {
        self.tick(now);
        let mut id = 0;
        if let Some(stream) = self.streams.get_mut(key) {
            stream.state.sent_head();
            id = stream.id;
        }
        self.begin(key, id, &mut Block::of_response(head, &rest), message, end)
    }

    #[inline(always)]
    fn begin(&mut self, key: StreamKey, id: u32, head: &mut Block<'_>, message: Message, end: bool) -> Region<'_> {
        self.emit_control();
        let octets = message.octets();
        let is_whole = end && octets == 0;
        self.write_block(id, is_whole, head);
        if is_whole {
            self.sent_end(key);
        }
        // There is room for as many headers as there may be.
        let run = self.arena.reserve(MAX_FRAMES * HEADER_LEN + octets);
        let start = run.len();
        if octets > 0 {
            frame::data_header(run, id, octets as u32, end);
            run.put_slice(message.prefix.as_ref().map_or(&[], |prefix| prefix));
        }
        Region { http: self, key, start, octets, end, is_settled: false }
    }
}

impl Http2 {
    /// Parts `octets` of DATA, which are behind the header at `start` of the run, into frames. The last is the end of our
    /// half if `end`.
    #[cold]
    #[expect(clippy::indexing_slicing, reason = "the run was made as long as all parts with their headers just before")]
    fn part(&mut self, start: usize, id: u32, octets: usize, end: bool) {
        let parts = octets.div_ceil(MAX_DATA);
        (1..parts).for_each(|_| self.abuse.useful_frame());
        let run = self.arena.run();
        let body = start + HEADER_LEN;
        run.resize(run.len() + (parts - 1) * HEADER_LEN, 0);
        // The last is moved first, over nothing but room.
        for n in (0..parts).rev() {
            let part = body + n * MAX_DATA..(body + (n + 1) * MAX_DATA).min(body + octets);
            let flags = if end && n + 1 == parts { frame::END_STREAM } else { 0 };
            let header = FrameHeader { len: part.len() as u32, kind: Kind::DATA, flags, stream: id }.to_octets();
            let at = start + n * (HEADER_LEN + MAX_DATA);
            run.copy_within(part, at + HEADER_LEN);
            run[at..at + HEADER_LEN].copy_from_slice(&header);
        }
    }
}

/// The place of a message's payload in the output, behind its head and the header of its DATA frame.
///
/// Dropped without [`commit`](Self::commit), as when a codec fails or unwinds, it takes DATA back and resets the
/// stream. The head stays, for the peer's HPACK table depends on it.
pub(crate) struct Region<'a> {
    http: &'a mut Http2,
    key: StreamKey,
    /// Where DATA begins in the run.
    start: usize,
    /// Octets of DATA; 0 if there is none.
    octets: usize,
    /// The message ends our half.
    end: bool,
    is_settled: bool,
}

impl Region<'_> {
    /// Where the payload goes: exactly as many octets as were announced fit behind what is there.
    pub(crate) fn payload(&mut self) -> &mut BytesMut {
        self.http.arena.run()
    }

    /// The payload is there: the windows pay for it, and our half ends, by `trailers` if the message does not end it.
    ///
    /// On a server that is all there is to do with the stream, which is [released](Http2::release).
    #[inline(always)]
    pub(crate) fn commit(mut self, trailers: Option<(&mut Template<Headers>, Rest<'_>)>) -> StreamKey {
        let (key, octets) = (self.key, self.octets);
        debug_assert_eq!(self.http.arena.run().len(), self.start + if octets > 0 { HEADER_LEN + octets } else { 0 });
        self.is_settled = true;
        let http = &mut *self.http;
        let Some(stream) = http.streams.get_mut(key) else { return key };
        stream.end = End::OnData;
        // An empty body ended with the head.
        if octets == 0 {
            if http.side == Side::Server {
                http.release(key);
            }
            return key;
        }
        let id = stream.id;
        stream.released = http.side == Side::Server;
        let is_last = stream.state == StreamState::HalfClosedRemote(Phase::Body) && stream.is_quiet();
        stream.send_window.take(octets);
        http.send_window.take(octets);
        http.abuse.useful_frame();
        if octets > MAX_DATA {
            http.part(self.start, id, octets, self.end);
        }
        if let Some((trailers, rest)) = trailers {
            http.write_block(id, true, &mut Block::of_trailers(trailers, &rest));
        }
        if is_last {
            http.end_quietly(key, id);
        } else {
            http.sent_end(key);
        }
        key
    }

    /// There will be nothing behind the head.
    #[cold]
    fn give_up(&mut self) {
        let (key, start) = (self.key, self.start);
        self.payload().truncate(start);
        match self.http.side {
            // Nobody knows of it yet; what is let go before its end is reset.
            Side::Client => self.http.release(key),
            // The call still owns the stream.
            Side::Server => self.http.reset(key, ErrorCode::INTERNAL_ERROR),
        }
    }

    /// There will be no message, but an outcome behind the head: only while nothing says that the message is the end.
    pub(crate) fn retract(mut self) {
        debug_assert!(!self.end);
        self.is_settled = true;
        let start = self.start;
        self.payload().truncate(start);
    }
}

impl Drop for Region<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.is_settled {
            self.give_up();
        }
    }
}
