//! Input: a pull parser over the receive window.
//!
//! [`Http2::next`] consumes octets until there is something to say. It gives the same answers for any
//! split of the same octets: fixed payloads and the first octets of DATA and HEADERS are read once they are
//! whole, DATA is handed on piece by piece, and a header block is decoded where it lies if it is whole, else
//! gathered in one scratch. Flow control is charged for a whole frame when its header is read.
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use alloc::vec::Vec;
use bytes::Bytes;

use crate::buf::RecvBuf;
use crate::error::{ErrorCode, GoAway, PeerMisbehaved, Timeout};
use crate::http2::Side;
use crate::http2::abuse::DISPATCHED;
use crate::http2::bdp;
use crate::http2::block::Block;
use crate::http2::connection::{Drain, Http2, Incoming, note_update};
use crate::http2::frame::{self, FrameHeader, HEADER_LEN, Kind, Layout};
use crate::http2::ping;
use crate::http2::settings::Changes;
use crate::http2::store::{PastId, StreamKey};
use crate::http2::stream::{Closed, Phase, StreamState};
use crate::time::Instant;

/// Octets of a GOAWAY's debug data that are kept: a line of a log.
const KEPT_DEBUG: usize = 256;

/// Where the parser is.
#[derive(Debug)]
pub(super) struct Parser {
    pub(super) state: State,
    /// The header block that is being received: only its CONTINUATION may follow.
    pub(super) block: Option<Block>,
    /// The last DATA frame.
    pub(super) recent: Recent,
}

/// A DATA frame of which nothing is left, for guessing the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) stream: Option<StreamKey>,
    pub(super) len: u32,
    /// The one before was of the same stream, and as long.
    pub(super) is_repeated: bool,
}

#[derive(Debug)]
pub(super) enum State {
    /// Server: so many octets of the client's preface were seen.
    Preface(usize),
    /// At a frame header.
    Header,
    /// In the data of a DATA frame.
    Data(Data),
    /// In a fragment of the header block.
    Fragment { left: usize, padding: usize, last: bool },
    /// In octets that mean nothing to us.
    Skip(usize),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    /// `None`: nobody wants it.
    pub(super) stream: Option<StreamKey>,
    pub(super) left: usize,
    pub(super) padding: usize,
    end: bool,
}

pub(super) enum Step {
    Event(Incoming),
    Progress,
    /// More octets are needed.
    Starved,
}

/// A stream id as the peer may mean it.
pub(super) enum Located {
    Live(StreamKey),
    Past(PastId),
    /// Above the last id of our GOAWAY: to be dropped without a word.
    Ignored,
    /// Not used yet, or never to be used.
    Idle,
}

pub(super) type Checked<T> = Result<T, PeerMisbehaved>;

impl Parser {
    pub(super) fn new(side: Side) -> Self {
        let state = match side {
            Side::Client => State::Header,
            Side::Server => State::Preface(0),
        };
        Self { state, block: None, recent: Recent::default() }
    }

    /// `padding` octets, and then the next frame.
    pub(super) fn skip(&mut self, padding: usize) {
        self.state = if padding == 0 { State::Header } else { State::Skip(padding) };
    }
}

impl Http2 {
    /// Consumes input until there is something to say; `None` when it is used up, or when it must wait
    /// until control frames that we owe are written.
    pub(crate) fn next(&mut self, input: &mut RecvBuf, now: Instant) -> Option<Incoming> {
        self.tick(now);
        if input.len() != self.unread {
            self.keepalive.on_read(self.now);
        }
        if !self.has_news() && self.wants_read() {
            self.finish_skipping(input);
            let incoming = self.recognised(input);
            if incoming.is_some() {
                return incoming;
            }
            if input.is_empty() && matches!(self.parser.state, State::Header) {
                self.unread = 0;
                return None;
            }
        }
        let incoming = self.parse(input);
        if incoming.is_none() {
            self.unread = input.len();
        }
        incoming
    }

    /// Everything, one step at a time.
    #[inline(never)]
    fn parse(&mut self, input: &mut RecvBuf) -> Option<Incoming> {
        loop {
            if self.has_news() || !self.wants_read() {
                if self.terminal.is_some() {
                    input.skip(input.len());
                }
                let pending = self.next_pending(self.now);
                if pending.is_some() || !self.wants_read() {
                    return pending;
                }
            }
            match self.step(input) {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::Progress) => {}
                Ok(Step::Starved) => return None,
                Err(fault) => self.misbehaved(fault),
            }
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "`n` octets are a part of those that are left")]
    fn step(&mut self, input: &mut RecvBuf) -> Checked<Step> {
        match self.parser.state {
            State::Preface(seen) => self.preface(seen, input),
            State::Header => self.frame(input),
            State::Data(data) => Ok(self.data(data, input)),
            State::Fragment { left, padding, last } => self.fragment(left, padding, last, input),
            State::Skip(left) => {
                let n = left.min(input.len());
                input.skip(n);
                self.parser.skip(left - n);
                Ok(if n == left { Step::Progress } else { Step::Starved })
            }
        }
    }

    /// Comes to the next frame, if it has begun to arrive.
    #[inline]
    fn finish_skipping(&mut self, input: &mut RecvBuf) {
        if let State::Skip(left) = self.parser.state {
            if left <= input.len() {
                input.skip(left);
                self.parser.state = State::Header;
            }
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "no more octets than the preface has")]
    fn preface(&mut self, seen: usize, input: &mut RecvBuf) -> Checked<Step> {
        let expected = frame::PREFACE.get(seen..).unwrap_or_default();
        let n = expected.len().min(input.len());
        if input.data().get(..n) != expected.get(..n) {
            return Err(protocol("not an HTTP/2 preface"));
        }
        input.skip(n);
        let seen = seen + n;
        let whole = seen == frame::PREFACE.len();
        self.parser.state = if whole { State::Header } else { State::Preface(seen) };
        Ok(if whole { Step::Progress } else { Step::Starved })
    }

    // ---- frames ----------------------------------------------------------------------------------

    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "a header, and at most six octets behind it")]
    fn frame(&mut self, input: &mut RecvBuf) -> Checked<Step> {
        let Some((octets, payload)) = input.data().split_first_chunk::<HEADER_LEN>() else { return Ok(Step::Starved) };
        let header = FrameHeader::decode(*octets);
        if !self.peer.is_received() {
            check_first(header, octets)?;
        }
        match &self.parser.block {
            Some(block) if header.kind != Kind::CONTINUATION || header.stream != block.opening.id => {
                return Err(protocol("header block interrupted"));
            }
            None if header.kind == Kind::CONTINUATION => return Err(protocol("CONTINUATION without a header block")),
            _ => {}
        }
        header.check(self.local.max_frame_size())?;
        if !matches!(header.kind, Kind::DATA | Kind::HEADERS) {
            return self.control_frame(header, input);
        }
        let Some(prelude) = payload.get(..header.prelude_len()) else { return Ok(Step::Starved) };
        let layout = Layout::decode(&header, prelude)?;
        input.skip(HEADER_LEN + layout.prelude);
        match header.kind {
            Kind::DATA => {
                let data = self.begin_data(header, layout)?;
                Ok(self.data(data, input))
            }
            _ => self.begin_block(header, layout, input),
        }
    }

    /// A frame that is neither DATA nor HEADERS.
    #[expect(clippy::arithmetic_side_effects, reason = "lengths of 24 bits, and what is kept of one is a part")]
    fn control_frame(&mut self, header: FrameHeader, input: &mut RecvBuf) -> Checked<Step> {
        let len = header.len as usize;
        let payload = input.data().get(HEADER_LEN..).unwrap_or_default();
        match header.kind {
            Kind::CONTINUATION => {
                input.skip(HEADER_LEN);
                self.continue_block(header)?;
            }
            Kind::PUSH_PROMISE => return Err(protocol("PUSH_PROMISE, which is switched off")),
            Kind::SETTINGS => {
                if len > self.config.max_settings_entries.saturating_mul(frame::SETTING_LEN) {
                    return Err(calm("too many entries in SETTINGS"));
                }
                let Some(payload) = payload.get(..len) else { return Ok(Step::Starved) };
                if header.has(frame::ACK) {
                    input.skip(HEADER_LEN + len);
                    self.settings_acknowledged()?;
                } else {
                    let changes = self.peer.apply(payload, self.side)?;
                    input.skip(HEADER_LEN + len);
                    self.settings(changes)?;
                }
            }
            Kind::GOAWAY => {
                let Some(kept) = payload.get(..len.min(8 + KEPT_DEBUG)) else { return Ok(Step::Starved) };
                let Some((fixed, debug)) = kept.split_first_chunk::<8>() else { return Ok(Step::Starved) };
                let ((last, code), debug, kept) =
                    (frame::decode_goaway(*fixed), Bytes::copy_from_slice(debug), kept.len());
                input.skip(HEADER_LEN + kept);
                self.parser.state = State::Skip(len - kept);
                self.go_away(last, GoAway { code, debug })?;
            }
            Kind::PING => {
                let Some(octets) = payload.first_chunk::<8>().copied() else { return Ok(Step::Starved) };
                input.skip(HEADER_LEN + len);
                self.ping(octets, header.has(frame::ACK))?;
            }
            Kind::RST_STREAM => {
                let Some(octets) = payload.first_chunk::<4>().copied() else { return Ok(Step::Starved) };
                input.skip(HEADER_LEN + len);
                self.rst_stream(header.stream, frame::decode_rst_stream(octets))?;
            }
            Kind::WINDOW_UPDATE => {
                let Some(octets) = payload.first_chunk::<4>().copied() else { return Ok(Step::Starved) };
                input.skip(HEADER_LEN + len);
                self.window_update(header.stream, frame::decode_window_update(octets))?;
            }
            Kind::PRIORITY => {
                let Some(octets) = payload.first_chunk::<5>().copied() else { return Ok(Step::Starved) };
                input.skip(HEADER_LEN + len);
                self.abuse.control_frame(1, self.now)?;
                if frame::decode_priority(octets) == header.stream {
                    return Err(protocol("PRIORITY of a stream that depends on itself"));
                }
            }
            _ => {
                self.abuse.control_frame(1, self.now)?;
                input.skip(HEADER_LEN);
                self.parser.state = State::Skip(len);
            }
        }
        Ok(Step::Progress)
    }

    pub(super) fn locate(&self, id: u32) -> Located {
        if let Some(key) = self.streams.by_id(id) {
            return Located::Live(key);
        }
        let is_odd = id % 2 == 1;
        let used = match self.side {
            Side::Client => is_odd && id < self.next_id,
            Side::Server if is_odd && self.goaway_sent.is_some_and(|(last, _)| id > last) => return Located::Ignored,
            Side::Server => is_odd && id <= self.max_peer_id,
        };
        if used { Located::Past(self.streams.past(id)) } else { Located::Idle }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "who is withdrawn was counted, in both")]
    fn settings(&mut self, changes: Changes) -> Checked<()> {
        // Each stream's window is touched: charge for that.
        let weight = if changes.window_delta == 0 { 1 } else { (self.streams.len() as u64 / 64).saturating_add(1) };
        self.abuse.control_frame(weight, self.now)?;
        self.write_settings_ack();
        if let Some((smallest, last)) = changes.header_table {
            self.encoder.set_peer_max_table_size(smallest);
            self.encoder.set_peer_max_table_size(last);
        }
        if changes.window_delta != 0 {
            for (key, stream) in self.streams.iter_mut() {
                if stream.state.local().is_none() && stream.state != StreamState::Idle {
                    continue;
                }
                stream.send_window.shift(changes.window_delta).map_err(|_| PeerMisbehaved {
                    code: ErrorCode::FLOW_CONTROL_ERROR,
                    detail: "SETTINGS overflow the window of a stream",
                })?;
                self.sched.enqueue(key, stream);
            }
        }
        if changes.first {
            self.timers.clear(Timeout::Handshake);
            self.arm(Timeout::Settings, self.config.settings_timeout);
            self.events.push_back(Incoming::Connected);
        }
        let excess = self.active.saturating_sub(self.peer.max_concurrent_streams() as usize);
        let withdrawn = self.sched.withdraw(excess, &mut self.streams);
        self.active -= withdrawn;
        self.uncommitted -= withdrawn;
        self.admit_pending();
        Ok(())
    }

    fn settings_acknowledged(&mut self) -> Checked<()> {
        let delta = self.local.acknowledge()?;
        self.timers.clear(Timeout::Settings);
        self.decoder.set_max_table_size(self.local.header_table_size());
        let mut due = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.recv_window.shift(delta);
            due.push(key);
        }
        // A target that was lowered may make credit due that was not before.
        for key in due {
            self.note_update(key);
            // A smaller window may not hold the message any more that its stream waits for.
            if let Some(need) = self.streams.get(key).map(|stream| stream.need).filter(|&need| need > 0) {
                self.need(key, need as usize);
            }
        }
        Ok(())
    }

    fn ping(&mut self, payload: [u8; 8], ack: bool) -> Checked<()> {
        if !ack {
            self.abuse.ping(self.now)?;
            self.write_ping(payload, true);
            return Ok(());
        }
        self.abuse.control_frame(1, self.now)?;
        if payload == ping::DRAIN && self.drain == Drain::RoundTrip {
            self.drain_streams();
        } else if payload == bdp::PAYLOAD {
            self.path_measured();
        } else if !ping::is_ours(payload) {
            self.abuse.stream_fault(1, self.now)?;
        }
        Ok(())
    }

    fn go_away(&mut self, last: u32, go_away: GoAway) -> Checked<()> {
        // Each may mean a look at all streams.
        self.abuse.control_frame((self.streams.len() as u64 / 64).saturating_add(1), self.now)?;
        if self.peer_goaway_last.is_some_and(|earlier| last > earlier) {
            return Err(protocol("the last stream id of GOAWAY rose"));
        }
        if self.side == Side::Client && last % 2 == 0 && last != 0 {
            return Err(protocol("the last stream id of GOAWAY is not ours"));
        }
        self.peer_goaway_last = Some(last);
        self.drain_by_peer(go_away);
        // The id is one of the receiver's streams: to a server it says nothing (§6.8).
        if self.side == Side::Client {
            let unprocessed: Vec<StreamKey> = self
                .streams
                .iter_mut()
                .filter(|(_, stream)| !stream.state.is_closed() && (stream.id == 0 || stream.id > last))
                .map(|(key, _)| key)
                .collect();
            for key in unprocessed {
                self.report_reset(key, ErrorCode::REFUSED_STREAM, true);
                self.close(key, Closed::WeReset);
            }
        }
        self.events.push_back(Incoming::GoAway);
        Ok(())
    }

    fn rst_stream(&mut self, id: u32, code: ErrorCode) -> Checked<()> {
        match self.locate(id) {
            Located::Live(key) => {
                self.charge_reset(key)?;
                self.report_reset(key, code, true);
                self.close(key, Closed::PeerReset);
                Ok(())
            }
            Located::Idle => Err(protocol("RST_STREAM on an idle stream")),
            Located::Past(PastId::Skipped | PastId::Closed(Closed::PeerReset)) => self.abuse.stream_fault(1, self.now),
            Located::Past(_) | Located::Ignored => self.abuse.control_frame(1, self.now),
        }
    }

    /// The peer resets a live stream.
    fn charge_reset(&mut self, key: StreamKey) -> Checked<()> {
        let (opened, early) = match self.side {
            Side::Client => (self.next_id / 2, false),
            Side::Server => (self.abuse.streams_accepted(), self.is_early(key)),
        };
        let closed = opened.saturating_add(1).saturating_sub(self.streams.on_wire() as u32);
        self.abuse.peer_reset(early, closed, self.now)
    }

    /// Server: is the stream unanswered, and young?
    fn is_early(&self, key: StreamKey) -> bool {
        let (Some(stream), Some(within)) = (self.streams.get(key), self.config.early_reset) else { return false };
        stream.state.local().is_some() && self.now.since_ticks(stream.opened) < within
    }

    fn window_update(&mut self, id: u32, increment: u32) -> Checked<()> {
        self.abuse.control_frame(1, self.now)?;
        if increment == 0 {
            return Err(protocol("WINDOW_UPDATE of zero"));
        }
        if id == 0 {
            self.send_window.increase(increment).map_err(|_| PeerMisbehaved {
                code: ErrorCode::FLOW_CONTROL_ERROR,
                detail: "WINDOW_UPDATE overflows the connection's window",
            })?;
            self.window_opened();
            return Ok(());
        }
        match self.locate(id) {
            Located::Live(key) => {
                let Some(stream) = self.streams.get_mut(key) else { return Ok(()) };
                if stream.send_window.increase(increment).is_err() {
                    return self.stream_fault(key, ErrorCode::FLOW_CONTROL_ERROR);
                }
                self.sched.enqueue(key, stream);
                Ok(())
            }
            Located::Idle => Err(protocol("WINDOW_UPDATE on an idle stream")),
            Located::Past(PastId::Skipped) => self.abuse.stream_fault(1, self.now),
            // Late ones are usual, and right.
            Located::Past(_) | Located::Ignored => Ok(()),
        }
    }

    // ---- DATA ------------------------------------------------------------------------------------

    #[inline]
    pub(super) fn begin_data(&mut self, header: FrameHeader, layout: Layout) -> Checked<Data> {
        let overrun = |detail| PeerMisbehaved { code: ErrorCode::FLOW_CONTROL_ERROR, detail };
        self.recv_window.receive(header.len).map_err(|_| overrun("the connection's window is overrun"))?;
        // Returned on arrival, for live and dead streams alike: one slow call must not stop the others.
        self.recv_window.release(header.len as usize);
        let end = header.has(frame::END_STREAM);
        if layout.body == 0 && !end {
            self.abuse.empty_data(self.now)?;
        }
        let stream = match self.locate(header.stream) {
            Located::Live(key) => self.admit_data(key, header, layout, end)?,
            Located::Idle => return Err(protocol("DATA on an idle stream")),
            Located::Ignored | Located::Past(PastId::Closed(Closed::WeReset)) => None,
            Located::Past(PastId::Closed(Closed::PeerReset)) => {
                self.refuse(header.stream, ErrorCode::STREAM_CLOSED)?;
                None
            }
            Located::Past(PastId::Closed(Closed::Ended)) => return Err(stream_closed("DATA on a closed stream")),
            Located::Past(PastId::Skipped) => return Err(protocol("DATA on a stream that was skipped")),
            Located::Past(PastId::Forgotten) => {
                self.abuse.control_frame(1, self.now)?;
                None
            }
        };
        let before = self.parser.recent;
        let is_repeated = before.stream == stream && before.len == header.len;
        self.parser.recent = Recent { stream, len: header.len, is_repeated };
        Ok(Data { stream, left: layout.body, padding: layout.padding, end })
    }

    /// Checks a DATA frame against its stream. `None` if the stream was reset for it.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "the body is a part of the payload")]
    fn admit_data(
        &mut self,
        key: StreamKey,
        header: FrameHeader,
        layout: Layout,
        end: bool,
    ) -> Checked<Option<StreamKey>> {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        match stream.state.remote() {
            Some(Phase::Body) => {}
            Some(Phase::Head) => return self.stream_fault(key, ErrorCode::PROTOCOL_ERROR).map(|()| None),
            None => return Err(stream_closed("DATA after END_STREAM")),
        }
        stream.recv_window.receive(header.len).map_err(|_| PeerMisbehaved {
            code: ErrorCode::FLOW_CONTROL_ERROR,
            detail: "a stream's window is overrun",
        })?;
        // The application never sees padding, so nobody else would return it.
        stream.recv_window.release(header.len as usize - layout.body);
        self.reservations.received(stream, layout.body);
        if let Some(due) = stream.content_length.due() {
            match due.checked_sub(layout.body as u64) {
                Some(left) if left == 0 || !end => stream.content_length = Some(left).into(),
                _ => return self.stream_fault(key, ErrorCode::PROTOCOL_ERROR).map(|()| None),
            }
        }
        if !self.local.is_acknowledged() && self.holds_unintended() {
            self.give_up(key, ErrorCode::FLOW_CONTROL_ERROR);
            return Ok(None);
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        if self.abuse.is_useful(layout.body, end) {
            self.abuse.useful_frame();
        }
        if !end {
            note_update(&mut self.updates, key, stream);
        }
        self.admit_reservations();
        Ok(Some(key))
    }

    /// Where our windows are small, a peer that does not know them yet may send more than we mean to hold. It counts as
    /// reserved; where reservations end, a stream may be reset that made use of its right (RFC 9113 §6.9.3).
    #[cold]
    fn holds_unintended(&mut self) -> bool {
        let window = i64::from(self.config.initial_stream_window);
        if window >= i64::from(frame::DEFAULT_WINDOW) {
            return false;
        }
        let excess =
            self.streams.iter_mut().map(|(_, stream)| stream.recv_window.buffered().saturating_sub(window).max(0));
        usize::try_from(excess.sum::<i64>()).unwrap_or(usize::MAX) > self.reservations.limit()
    }

    /// Octets of the DATA frame in progress, paid for by the window of `key`, that were not delivered yet.
    pub(super) fn arriving(&self, key: StreamKey) -> usize {
        match self.parser.state {
            State::Data(data) if data.stream == Some(key) => data.left,
            _ => 0,
        }
    }

    /// Is the DATA frame in progress the one that ends the peer's half of `key`, and is that half open still?
    pub(super) fn is_end_arriving(&self, key: StreamKey) -> bool {
        match self.parser.state {
            State::Data(Data { stream, end: true, .. }) if stream == Some(key) => {
                self.streams.get(key).is_some_and(|stream| stream.state.remote().is_some())
            }
            _ => false,
        }
    }

    fn data(&mut self, data: Data, input: &mut RecvBuf) -> Step {
        let n = data.left.min(input.len());
        if n == 0 && data.left > 0 {
            self.parser.state = State::Data(data);
            return Step::Starved;
        }
        match self.pass_data(data, n) {
            Some(event) => Step::Event(event),
            None => {
                input.skip(n);
                Step::Progress
            }
        }
    }

    /// Comes behind the next `n` octets of a DATA frame. `None` if nobody is to be told of them.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "`n` octets are a part of those that are left")]
    pub(super) fn pass_data(&mut self, mut data: Data, n: usize) -> Option<Incoming> {
        data.left -= n;
        let end = data.left == 0 && data.end;
        self.parser.state = match (data.left, data.padding) {
            (0, 0) => State::Header,
            (0, padding) => State::Skip(padding),
            _ => State::Data(data),
        };
        data.stream.filter(|_| n > 0 || end).and_then(|key| self.deliver(key, n, end))
    }

    fn deliver(&mut self, key: StreamKey, len: usize, end: bool) -> Option<Incoming> {
        // Between two pieces of a frame the stream may have been reset from our side.
        let stream = self.streams.get_mut(key).filter(|stream| stream.state.remote().is_some())?;
        let (call, released) = (stream.call, stream.released);
        if end {
            self.received_end(key);
        }
        (!released).then_some(Incoming::Data { stream: key, call, len, end })
    }

    /// END_STREAM arrived.
    pub(super) fn received_end(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.state.received_end();
        if stream.state.is_closed() {
            self.close(key, Closed::Ended);
        } else if self.side == Side::Client {
            // The response is complete; what was not sent of the request has become pointless.
            self.reset(key, ErrorCode::NO_ERROR);
        } else {
            self.reservations.ended(key, stream);
            self.admit_reservations();
        }
    }

    // ---- faults that cost one stream -------------------------------------------------------------

    /// The peer's message on a live stream is malformed.
    pub(super) fn stream_fault(&mut self, key: StreamKey, code: ErrorCode) -> Checked<()> {
        self.give_up(key, code);
        let weight = if self.side == Side::Server { DISPATCHED } else { 1 };
        self.abuse.stream_fault(weight, self.now)
    }

    /// Resets a stream that has no slot, once: late frames on it are dropped from then on.
    pub(super) fn refuse(&mut self, id: u32, code: ErrorCode) -> Checked<()> {
        self.write_rst(id, code);
        self.streams.remember(id, Closed::WeReset);
        self.abuse.stream_fault(1, self.now)
    }
}

/// The first frame is SETTINGS (§3.4).
#[cold]
fn check_first(header: FrameHeader, octets: &[u8; HEADER_LEN]) -> Checked<()> {
    if octets.starts_with(b"HTTP/1.") {
        return Err(protocol("the peer speaks HTTP/1, not HTTP/2"));
    }
    if header.kind != Kind::SETTINGS || header.has(frame::ACK) {
        return Err(protocol("the first frame is not SETTINGS"));
    }
    Ok(())
}

pub(super) const fn protocol(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::PROTOCOL_ERROR, detail }
}

pub(super) const fn stream_closed(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::STREAM_CLOSED, detail }
}

pub(super) const fn calm(detail: &'static str) -> PeerMisbehaved {
    PeerMisbehaved { code: ErrorCode::ENHANCE_YOUR_CALM, detail }
}
