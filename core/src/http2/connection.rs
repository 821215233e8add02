//! One HTTP/2 connection: its parts, the commands on it, and how it ends.
//!
//! Input is in `recv`, output in `send`. Both work on this struct; what decides anything by itself is a
//! part with a file of its own.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use crate::buf::{Arena, Tails};
use crate::config::Config;
use crate::error::{ConnectionError, ErrorCode, OpenError, PeerMisbehaved, Timeout};
use crate::hpack;
use crate::http::{DeadlineField, Headers, Method, RequestHead, ResponseHead};
use crate::http2::Side;
use crate::http2::abuse::Abuse;
use crate::http2::bdp::Bdp;
use crate::http2::dribble::Dribbles;
use crate::http2::flow::{RecvWindow, SendWindow};
use crate::http2::frame::{self, DEFAULT_WINDOW, MAX_WINDOW};
use crate::http2::memo::Memo;
use crate::http2::ping::KeepAlive;
use crate::http2::recv::Parser;
use crate::http2::reserve::Reservations;
use crate::http2::sched::Scheduler;
use crate::http2::send::Handed;
use crate::http2::settings::{LocalSettings, PeerSettings};
use crate::http2::store::{Store, StreamKey};
use crate::http2::stream::{Closed, End, Head, Phase, Stream, StreamState};
use crate::http2::template::{Block, SharedHeads, Template};
use crate::http2::whole::Joined;
use crate::time::{DeadlineQueue, Instant, TimerTable};

/// Largest chunk that output is copied into, in octets: one that is used again is still in the processor's cache.
pub(super) const MAX_CHUNK: usize = 64 * 1024;

/// Bytes of buffers for small messages that are kept for the next streams, at most.
pub(super) const MAX_TAILS: usize = 128 * 1024;

/// Ids past this are left for what is in flight: the connection drains and another one takes over.
pub(super) const LAST_COMFORTABLE_ID: u32 = MAX_WINDOW / 4 * 3;

/// What the engine has to say to the owner of the calls.
#[derive(Debug, PartialEq)]
pub(crate) enum Incoming {
    /// Server: a request, checked, its stream counted. Heads and trailers are shared: who is given the same one again
    /// may take up what was made of it.
    Request { stream: StreamKey, head: Arc<RequestHead>, end: bool },
    /// Client: the final response head.
    Response { stream: StreamKey, call: u32, head: Arc<ResponseHead>, end: bool },
    /// Server: a request whose body lies behind its head, as the next `len` octets of the input, which are the owner's to
    /// take off as with `Data`. The peer's half is over: there is no credit to give back.
    WholeRequest { stream: StreamKey, head: Arc<RequestHead>, len: usize },
    /// Client: a response of which everything is there: its body is the next `len` octets of the input, the owner's to
    /// take off, and `trailers` end it, or the body if there are none. The stream is as it is when a body has arrived:
    /// the owner resets it, should the head or the body be of no use, and otherwise says
    /// [`end_whole`](Http2::end_whole) before it looks at the trailers.
    WholeResponse { stream: StreamKey, call: u32, head: Arc<ResponseHead>, len: usize, trailers: Option<Arc<Headers>> },
    /// A piece of body: the next `len` octets of the input, which are the owner's to take off before it asks for more.
    /// The stream's credit waits for [`Http2::consumed`].
    Data { stream: StreamKey, call: u32, len: usize, end: bool },
    /// Trailers, which end the peer's half.
    Trailers { stream: StreamKey, call: u32, headers: Arc<Headers> },
    /// The stream is gone: the peer reset it or never processed it (`by_peer`), or we did, because of a
    /// fault of the peer's or for lack of progress. `code` is what is or would be in the RST_STREAM.
    Reset { stream: StreamKey, call: u32, code: ErrorCode, by_peer: bool },
    /// The send buffer was full and is down to the low-water mark.
    Writable { stream: StreamKey, call: u32 },
    /// The peer's first SETTINGS arrived.
    Connected,
    /// After [`OpenError::NoCapacity`]: a stream may be opened.
    Capacity,
    /// The peer sent GOAWAY. On a client each stream it did not process gets a `Reset` with
    /// REFUSED_STREAM.
    GoAway,
    /// The connection is over; nothing follows.
    Closed(ConnectionError),
}

impl Incoming {
    /// Octets of the input that are the owner's to take off.
    #[cfg(test)]
    pub(crate) fn body_len(&self) -> usize {
        match self {
            Self::WholeRequest { len, .. } | Self::WholeResponse { len, .. } | Self::Data { len, .. } => *len,
            _ => 0,
        }
    }
}

/// How far a graceful end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drain {
    No,
    /// Server: said that it will go away, and waits one round trip for requests already under way.
    RoundTrip,
    /// Waits for the last stream.
    Streams,
}

/// The engine.
pub(crate) struct Http2 {
    pub(super) side: Side,
    pub(super) config: Arc<Config>,
    /// The latest instant seen.
    pub(super) now: Instant,

    pub(super) parser: Parser,
    /// Octets that were left in the receive window when there was nothing more to say.
    pub(super) unread: usize,
    /// The last body of several frames that was received in one step.
    pub(super) joined: Joined,
    pub(super) decoder: hpack::Decoder,
    pub(super) memo: Memo,
    pub(super) encoder: hpack::Encoder,
    pub(super) local: LocalSettings,
    pub(super) peer: PeerSettings,
    pub(super) send_window: SendWindow,
    pub(super) recv_window: RecvWindow,

    pub(super) streams: Store,
    pub(super) sched: Scheduler,
    pub(super) reservations: Reservations,
    pub(super) bdp: Bdp,
    /// Streams whose window update is due.
    pub(super) updates: Vec<StreamKey>,

    pub(super) arena: Arena,
    /// Memory of streams that have sent what they had.
    pub(super) tails: Tails,
    pub(super) handed: Handed,
    /// What requests begin with that have waited for their turn.
    pub(super) shared_heads: SharedHeads,

    pub(super) abuse: Abuse,
    pub(super) dribbles: Dribbles,
    pub(crate) keepalive: KeepAlive,
    pub(super) timers: TimerTable,
    pub(super) stalls: DeadlineQueue<StreamKey>,
    /// Streams that hold messages back for a time.
    pub(super) lingers: DeadlineQueue<StreamKey>,
    /// See `is_burst`.
    pub(super) is_burst: bool,
    pub(super) events: VecDeque<Incoming>,

    /// Client: the id of the next stream.
    pub(super) next_id: u32,
    /// Client: what was written of streams below this id was handed to the transport.
    pub(super) handed_id: u32,
    /// The transport is gone, and with it what was in the arena.
    pub(super) is_output_lost: bool,
    /// Client: streams that hold one of the peer's slots, on the wire or about to be.
    pub(super) active: usize,
    /// Client: those of them whose HEADERS is not committed.
    pub(super) uncommitted: usize,
    /// `open` was refused for lack of capacity.
    pub(super) capacity_wanted: bool,
    /// Server: the highest id the client has used.
    pub(super) max_peer_id: u32,
    /// Server: some request of this connection came with `expect: 100-continue`.
    pub(super) is_continue_due: bool,
    /// Are there streams? Decides between the idle timer and keepalive.
    pub(super) busy: bool,

    pub(super) drain: Drain,
    pub(super) drain_reason: ConnectionError,
    pub(super) drain_deadline: Option<Instant>,
    pub(super) goaway_sent: Option<(u32, ErrorCode)>,
    /// Last stream id of the peer's latest GOAWAY.
    pub(super) peer_goaway_last: Option<u32>,
    pub(super) terminal: Option<ConnectionError>,
    pub(super) closed_reported: bool,
}

impl Http2 {
    /// A connection whose preface is already queued: a client's first request can leave in the same write.
    pub(crate) fn new(side: Side, config: Arc<Config>, now: Instant) -> Self {
        let local = LocalSettings::new(side, &config);
        let mut engine = Self {
            side,
            now,
            parser: Parser::new(side),
            unread: 0,
            joined: Joined::default(),
            decoder: hpack::Decoder::new(LocalSettings::initial_header_table_size()).spare(config.header_table),
            memo: Memo::new(config.max_known_heads),
            encoder: hpack::Encoder::new(config.header_table),
            local,
            peer: PeerSettings::new(),
            send_window: SendWindow::new(DEFAULT_WINDOW),
            recv_window: RecvWindow::of_connection(DEFAULT_WINDOW),
            streams: Store::new(config.max_closed_streams),
            sched: Scheduler::default(),
            reservations: Reservations::new(side, &config),
            bdp: Bdp::new(&config),
            updates: Vec::new(),
            arena: Arena::new(config.transmit_target.min(MAX_CHUNK), config.copy_below),
            tails: Tails::new(config.transmit_target.saturating_mul(2).min(MAX_TAILS)),
            handed: Handed::default(),
            shared_heads: SharedHeads::new(config.max_known_heads),
            abuse: Abuse::new(&config, now),
            dribbles: Dribbles::new(&config, now),
            keepalive: KeepAlive::new(&config, now),
            timers: TimerTable::default(),
            stalls: DeadlineQueue::new(),
            lingers: DeadlineQueue::new(),
            is_burst: false,
            events: VecDeque::new(),
            next_id: 1,
            handed_id: 1,
            is_output_lost: false,
            active: 0,
            uncommitted: 0,
            capacity_wanted: false,
            max_peer_id: 0,
            is_continue_due: false,
            busy: false,
            drain: Drain::No,
            drain_reason: ConnectionError::Shutdown,
            drain_deadline: None,
            goaway_sent: None,
            peer_goaway_last: None,
            terminal: None,
            closed_reported: false,
            config,
        };
        engine.greet();
        engine.arm(Timeout::Handshake, engine.config.handshake_timeout);
        engine.arm(Timeout::Idle, engine.config.idle_timeout);
        engine.arm(Timeout::Age, engine.max_age());
        engine
    }

    fn greet(&mut self) {
        if self.side == Side::Client {
            self.arena.put(frame::PREFACE);
        }
        let entries = self.local.entries();
        let len = frame::HEADER_LEN + entries.len() * frame::SETTING_LEN;
        frame::settings(self.arena.reserve(len), &entries);
        // The connection's window starts at 65,535 octets whatever SETTINGS say (§6.9.2).
        match self.config.initial_connection_window.min(MAX_WINDOW).checked_sub(DEFAULT_WINDOW) {
            Some(0) => {}
            Some(more) => self.recv_window.raise(more),
            None => self.recv_window.lower(DEFAULT_WINDOW - self.config.initial_connection_window),
        }
        self.emit_control();
    }

    // ---- commands of the calls -------------------------------------------------------------------

    /// Client: queues a request. It gets its id, and its header block is encoded, when its turn to be sent
    /// comes; until then it can be cancelled without a trace.
    pub(crate) fn open(&mut self, head: RequestHead, call: u32) -> Result<StreamKey, OpenError> {
        self.check_open(head.list_size())?;
        let is_head = head.method == Method::Head;
        Ok(self.queue(Head::Request(Box::new(head)), is_head, call))
    }

    /// [`open`](Self::open) with a head that many requests have, and `deadline` behind it.
    pub(crate) fn open_shared(
        &mut self,
        head: &Template<RequestHead>,
        deadline: Option<DeadlineField>,
        call: u32,
    ) -> Result<StreamKey, OpenError> {
        self.check_open(head.list_size + deadline.map_or(0, |deadline| deadline.max_list_size()))?;
        let is_head = head.head.method == Method::Head;
        Ok(self.queue(Head::Shared(Arc::clone(&head.head), deadline.map(Box::new)), is_head, call))
    }

    /// Client: may a request with a head of this list size be queued?
    fn check_open(&mut self, size: usize) -> Result<(), OpenError> {
        debug_assert_eq!(self.side, Side::Client);
        if self.terminal.is_some() {
            return Err(OpenError::Closed);
        }
        if self.next_id > LAST_COMFORTABLE_ID && self.drain == Drain::No {
            self.shutdown(self.now);
        }
        if self.drain != Drain::No {
            return Err(OpenError::GoingAway);
        }
        self.check_size(size)?;
        if !self.can_open() {
            self.capacity_wanted = true;
            return Err(OpenError::NoCapacity);
        }
        Ok(())
    }

    fn queue(&mut self, head: Head, is_head: bool, call: u32) -> StreamKey {
        let (send, recv) = (self.peer.initial_window, self.local.stream_window());
        let (key, stream) = self.streams.insert(StreamState::Idle, send, recv);
        stream.call = call;
        stream.is_head = is_head;
        stream.head = Some(head);
        self.sched.wait_for_slot(key, stream);
        self.admit_pending();
        self.note_busy();
        key
    }

    /// Does the peer take a head of this list size?
    pub(super) fn check_size(&self, size: usize) -> Result<(), OpenError> {
        let limit = self.send_header_limit();
        if size > limit { Err(OpenError::TooLarge { size, limit }) } else { Ok(()) }
    }

    /// Client: would [`open`](Self::open) find room?
    pub(crate) fn can_open(&self) -> bool {
        let waits = self.sched.pending();
        self.drain == Drain::No && ((waits == 0 && self.has_slot()) || waits < self.config.max_pending)
    }

    /// Largest field list that may be sent: ours and the peer's limit.
    pub(crate) fn send_header_limit(&self) -> usize {
        self.config.max_send_header_list.min(self.peer.max_header_list) as usize
    }

    /// The call that a stream belongs to; `u32::MAX` if there is none.
    #[cfg(test)]
    pub(crate) fn call_of(&self, key: StreamKey) -> u32 {
        self.streams.get(key).map_or(u32::MAX, |stream| stream.call)
    }

    /// Server: names the call that answers a request.
    pub(crate) fn bind(&mut self, key: StreamKey, call: u32) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.call = call;
        }
    }

    /// Server: queues the response head; `end` makes it the whole response.
    pub(crate) fn send_head(&mut self, key: StreamKey, head: ResponseHead, end: bool) {
        let limit = self.send_header_limit();
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.state.local() != Some(Phase::Head) || stream.head.is_some() || stream.is_finished() {
            return;
        }
        let size = head.list_size();
        if size > limit {
            return self.give_up_response(key, size);
        }
        stream.head = Some(Head::Response(Box::new(head)));
        if end {
            stream.end = End::OnHead;
        }
        self.sched.enqueue(key, stream);
    }

    /// Ends our half: with END_STREAM on the last DATA (an empty one if nothing is left to send), or with
    /// trailers.
    pub(crate) fn finish(&mut self, key: StreamKey, trailers: Option<Headers>) {
        let limit = self.send_header_limit();
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.is_finished() || stream.state.is_closed() {
            return;
        }
        stream.end = match trailers {
            Some(trailers) if trailers.list_size() > limit => {
                return self.give_up_response(key, trailers.list_size());
            }
            Some(trailers) => End::Trailers(trailers),
            None => End::OnData,
        };
        if let Some(body) = stream.body.made() {
            // A stream that failed is closed, which was looked at.
            let _ = body.seal();
        }
        self.sched.enqueue(key, stream);
    }

    /// Client: makes the head the whole request. Only before the next output, as with everything that `open` queued.
    pub(crate) fn finish_on_head(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.head.is_some() && !stream.is_finished() {
            stream.end = End::OnHead;
        }
    }

    /// Ends the stream in both directions. A stream that is not on the wire yet leaves no trace there; one
    /// that is closed already is left alone.
    pub(crate) fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        if self.is_end_arriving(key) {
            // The peer has ended its half, of which we have not read all: how much must not decide what it is told.
            self.received_end(key);
        }
        let Some(stream) = self.streams.get(key) else { return };
        let (state, id) = (stream.state, stream.id);
        if state.is_closed() || self.terminal.is_some() {
            return;
        }
        if state.is_on_wire() {
            self.write_rst(id, code);
        }
        self.close(key, Closed::WeReset);
    }

    /// The way to the peer was measured: may the connection's window be larger?
    pub(super) fn path_measured(&mut self) {
        let Some(window) = self.bdp.end(self.recv_window.window(), self.now) else { return };
        if let Ok(more @ 1..) = u32::try_from(i64::from(window) - self.recv_window.target()) {
            self.recv_window.raise(more);
        }
    }

    /// Server: somebody reads the request. A client that waits for that before it sends the body is told to go on, unless
    /// there is an answer already (RFC 9110 §10.1.1).
    #[inline]
    pub(crate) fn reads_request(&mut self, key: StreamKey) {
        if self.is_continue_due {
            self.send_continue(key);
        }
    }

    #[cold]
    fn send_continue(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let waits = mem::take(&mut stream.awaits_continue) && stream.is_response_due();
        if waits && stream.state.remote().is_some() && self.terminal.is_none() {
            let id = stream.id;
            self.write_block(id, false, &mut Block::response(&ResponseHead { status: 100, headers: Headers::new() }));
        }
    }

    /// Gives back memory that is kept for streams and output to come.
    pub(crate) fn release_idle(&mut self) {
        self.streams.release_idle();
        if self.streams.len() == 0 {
            self.stalls.clear();
            self.lingers.clear();
        }
        self.sched.release_idle();
        self.reservations.release_idle();
        self.updates.shrink_to_fit();
        self.memo.clear();
        self.decoder.release_idle();
        self.encoder.release_idle();
        self.arena.release_idle();
        self.tails.clear();
        self.shared_heads.clear();
        self.events.shrink_to_fit();
        self.handed.release_idle();
    }

    /// The call's owner is gone: nothing is reported any more. What a server has finished is still sent;
    /// anything else that is open is reset.
    #[inline]
    pub(crate) fn release(&mut self, key: StreamKey) {
        // Mostly it is gone since its end.
        if self.streams.get(key).is_some() {
            self.let_go(key);
        }
    }

    #[inline(never)]
    fn let_go(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.released = true;
        if !stream.is_quiet() {
            self.reservations.forget(key, stream);
        }
        if stream.state.is_closed() || self.terminal.is_some() {
            self.streams.remove(key);
            self.admit_reservations();
            return;
        }
        match self.side {
            Side::Server => self.stop_reading(key),
            Side::Client => self.reset(key, ErrorCode::CANCEL),
        }
    }

    /// Server: nobody will read the rest of the request. What is finished is still sent, and the stream reset behind it
    /// without an error; one that has no end of ours is reset at once. Its slot stays taken until it is released.
    pub(crate) fn stop_reading(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.failed = true;
        match (stream.is_finished(), stream.state.local()) {
            (true, None) => self.reset(key, ErrorCode::NO_ERROR),
            (true, Some(_)) => {}
            (false, _) => self.reset(key, ErrorCode::CANCEL),
        }
    }

    /// Client: was anything of the stream committed to the output, and the output not lost before it was handed out? If
    /// not, the peer cannot have seen it.
    pub(crate) fn was_written(&self, key: StreamKey) -> bool {
        let Some(stream) = self.streams.get(key) else { return true };
        stream.id != 0 && (stream.id < self.handed_id || !self.is_output_lost)
    }

    /// What the engine has to say, input apart.
    pub(crate) fn next_pending(&mut self, now: Instant) -> Option<Incoming> {
        self.tick(now);
        if self.has_news() || self.owes_far_too_much() { self.news() } else { None }
    }

    /// Is there anything beside input that [`next_pending`](Self::next_pending) must look at?
    pub(super) fn has_news(&self) -> bool {
        !self.events.is_empty() || self.capacity_wanted || self.drain == Drain::Streams || self.terminal.is_some()
    }

    fn news(&mut self) -> Option<Incoming> {
        if self.owes_far_too_much() {
            let detail = "too many unsent control frames";
            self.misbehaved(PeerMisbehaved { code: ErrorCode::ENHANCE_YOUR_CALM, detail });
        }
        while let Some(event) = self.events.pop_front() {
            let stream = match &event {
                Incoming::Reset { stream, .. } | Incoming::Writable { stream, .. } => Some(*stream),
                _ => None,
            };
            // The owner may have let go of the stream since.
            if stream.is_none_or(|key| self.streams.get(key).is_some_and(|stream| !stream.released)) {
                return Some(event);
            }
        }
        self.end_drain();
        if self.capacity_wanted && self.can_open() && self.terminal.is_none() {
            self.capacity_wanted = false;
            return Some(Incoming::Capacity);
        }
        if self.closed_reported {
            return None;
        }
        let error = self.terminal.clone()?;
        self.closed_reported = true;
        Some(Incoming::Closed(error))
    }

    /// Notes a stream whose window update is due, for the next output.
    pub(super) fn note_update(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            note_update(&mut self.updates, key, stream);
        }
    }

    pub(super) fn admit_reservations(&mut self) {
        if self.reservations.is_empty() {
            return;
        }
        while let Some(key) = self.reservations.admit(&mut self.streams) {
            self.note_update(key);
        }
    }

    pub(super) fn arm(&mut self, timer: Timeout, after: Option<core::time::Duration>) {
        if let Some(after) = after {
            self.timers.set(timer, self.now + after);
        }
    }

    /// The time of what is done next.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}

/// See [`Http2::note_update`].
pub(super) fn note_update(updates: &mut Vec<StreamKey>, key: StreamKey, stream: &mut Stream) {
    if stream.recv_window.is_due() && !stream.update_noted && stream.state.remote().is_some() {
        stream.update_noted = true;
        updates.push(key);
    }
}
