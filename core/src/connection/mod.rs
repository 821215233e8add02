//! One connection: an HTTP engine, the calls on it, their deadlines, and the hints to the owner.
//!
//! The only module, beside the unary fast path, that knows both the engine and the call machines: it
//! hands bytes from one to the other and turns the outcome into [`Event`]s.

mod calls;
mod client;
mod detect;
mod encode;
mod events;
mod landing;
mod memory;
mod plain;
mod recent;
mod role;
mod server;
mod stream;
mod unary;
mod view;
mod whole;

#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

pub use client::Endpoint;
pub use memory::MemoryBound;
pub use role::{Client, Role, Server};
pub use view::CallMut;

use crate::buf::{BufferPool, FlushPolicy, Landing, RecvBuf, Transmit};
use crate::config::Config;
use crate::error::{ConnectionError, ErrorCode, GoAway, TransportError};
use crate::event::{CallId, Event, HttpVersion};
use crate::http2::{Http2, Incoming, StreamKey};
use crate::time::{DeadlineQueue, Instant};
use calls::{Calls, Signal};
use events::Events;
use landing::Lent;
use role::Machine;

/// One end of a connection, without its socket.
///
/// The methods fall into four classes: getters; `handle_*` for what the network and the clock bring;
/// commands of the application; `poll_*` for what is to be done. Any method may be called at any time in
/// any order. A driver's turn is: [`handle_input`](Self::handle_input) with what was read,
/// [`handle_timeout`](Self::handle_timeout), [`poll_transmit`](Self::poll_transmit) until it returns
/// `false`, [`poll_event`](Self::poll_event) until `None`, then wait for the socket, for
/// [`poll_timeout`](Self::poll_timeout), or for a command.
pub struct Connection<R: Role> {
    config: Arc<Config>,
    http: Http2,
    calls: Calls<R::Machine>,
    deadlines: DeadlineQueue<CallId>,
    events: Events,
    state: R::State,
    phase: Phase,
    /// Server: which protocol the client speaks is not known yet. Until it is, nothing is sent.
    is_sniffing: bool,
    /// Unary messages that need not wait are encoded straight into the output.
    unary_fast_path: bool,
    /// Memory of the large messages that were received, for the next ones.
    landing_pool: BufferPool,
    /// Memory of a message that the next read goes to.
    lent: Option<Lent>,
    /// Bytes of receive windows that came since calls were last moved out of them.
    lent_input: usize,
    /// The latest instant seen: a clock that goes backwards is held here.
    now: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No new calls; those that are open go on.
    GoingAway,
    Closed,
}

impl<R: Role> Connection<R> {
    fn with_state(config: Arc<Config>, state: R::State, now: Instant) -> Self {
        Self {
            http: Http2::new(R::SIDE, Arc::clone(&config), now),
            unary_fast_path: config.unary_fast_path,
            landing_pool: BufferPool::new(config.pool_bytes),
            lent: None,
            lent_input: 0,
            config,
            calls: Calls::new(),
            deadlines: DeadlineQueue::new(),
            events: Events::new(),
            state,
            phase: Phase::Open,
            is_sniffing: false,
            now,
        }
    }

    // ---- B: the network and the clock ------------------------------------------------------------

    /// Takes what was read. Work is bounded by the bytes in `input`, all of which are consumed or kept
    /// for the next call; bytes of any split give the same outcome.
    pub fn handle_input(&mut self, input: &mut RecvBuf, now: Instant) {
        let now = self.advance(now);
        if self.is_sniffing && !self.recognise(input, now) {
            return;
        }
        if self.lent.is_some() {
            self.land(input, now);
        }
        self.lend_input(input.size());
        while let Some(incoming) = self.http.next(input, now) {
            match incoming {
                Incoming::Data { stream, call, len, end } => self.deliver(stream, call, input, len, end),
                Incoming::WholeRequest { stream, head, len } => {
                    R::whole_request(self, stream, head, input.split_to(len), now);
                }
                Incoming::WholeResponse { stream, call, head, len, trailers } => {
                    let body = input.split_to(len);
                    R::whole_response(self, (stream, call), head, body, trailers);
                }
                incoming => self.dispatch(incoming, now),
            }
        }
    }

    /// The peer closed its write side.
    pub fn handle_eof(&mut self, now: Instant) {
        let now = self.advance(now);
        self.http.handle_eof(now);
        self.pump(now);
    }

    /// The transport failed: nothing more can be read or written.
    pub fn handle_transport_error(&mut self, error: TransportError, now: Instant) {
        let now = self.advance(now);
        self.http.handle_transport_error(error, now);
        self.pump(now);
    }

    /// Fires what is due at `now`. Always legal, early or late.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        while let Some(id) = self.deadlines.pop_expired(now) {
            // The queue deletes lazily: a call may be gone, or its deadline no longer be this one.
            if self
                .calls
                .get(id)
                .is_some_and(|call| !call.is_over && call.machine.deadline().is_some_and(|at| at <= now))
            {
                R::expire(self, id);
                self.settle(id);
            }
        }
        self.http.handle_timeout(now);
        self.pump(now);
    }

    // ---- C: the application ----------------------------------------------------------------------

    /// A view of a call, or `None` once its slot was released.
    pub fn call(&mut self, id: CallId) -> Option<CallMut<'_, R>> {
        self.calls.get(id).is_some().then(|| CallMut::new(self, id))
    }

    /// Ends the connection gracefully: says GOAWAY, refuses new calls, lets those that are open finish,
    /// and closes after the last or after `drain_timeout`.
    pub fn shutdown(&mut self, now: Instant) {
        let now = self.advance(now);
        self.http.shutdown(now);
        self.go_away();
        self.pump(now);
    }

    /// Probes the peer only after a silence of `interval` from now on, if that is longer than
    /// [`keepalive_interval`](Config::keepalive_interval); where that is off it stays off.
    ///
    /// For a target whose last connection ended because of too many PINGs.
    pub fn slow_keepalive(&mut self, interval: Duration) {
        self.http.keepalive.slow_down(interval);
    }

    /// Ends the connection at once: GOAWAY with `code`, and every call fails.
    pub fn abort(&mut self, code: ErrorCode, now: Instant) {
        let now = self.advance(now);
        self.http.abort(code, now);
        self.pump(now);
    }

    // ---- D: output -------------------------------------------------------------------------------

    /// Tops `out` up to `transmit_target`; `true` if more is waiting.
    ///
    /// What is still in `out` tells the core what was not written yet, so pass the same `out` each time.
    pub fn poll_transmit(&mut self, out: &mut Transmit, now: Instant) -> bool {
        let now = self.advance(now);
        if self.is_sniffing {
            return false;
        }
        let more = self.http.poll_transmit(out, now);
        // Output makes room in send buffers, and ends streams.
        self.pump(now);
        more
    }

    /// Gives back the memory that is kept for the next calls, their messages and the next output, and forgets the heads that
    /// might come again. HPACK's tables stay.
    ///
    /// For a driver whose connection was silent for about a second; [`RecvBuf::release_idle`] is its counterpart.
    pub fn release_idle(&mut self) {
        self.landing_pool.clear();
        self.calls.release_idle();
        if self.calls.len() == 0 {
            self.deadlines.clear();
        }
        R::release_idle(&mut self.state);
        self.events.release_idle();
        self.http.release_idle();
    }

    /// Whether [`poll_event`](Self::poll_event) may have something to tell.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns the memory that is kept for large messages to its limit, once what was on its way has arrived.
    ///
    /// For a driver, about once a second while there is traffic: a connection whose large messages are over then keeps
    /// no more than `pool_bytes` for them.
    pub fn trim(&mut self) {
        self.landing_pool.settle();
    }

    /// The next hint, or `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop(&mut self.calls)
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called next. May name a deadline that was
    /// cancelled since (an early wake), never one that is late.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.deadlines.next(), self.http.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    // ---- A: getters ------------------------------------------------------------------------------

    /// False while reading on would only make us owe the peer more answers than we may queue.
    pub fn wants_read(&self) -> bool {
        self.http.wants_read()
    }

    /// True if [`poll_transmit`](Self::poll_transmit) or [`poll_event`](Self::poll_event) has something.
    pub fn wants_poll(&self) -> bool {
        !self.events.is_empty() || self.wants_transmit()
    }

    /// True once the connection is over and all its output was handed out.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed && !self.wants_transmit()
    }

    /// Calls whose slot was not released yet.
    pub fn open_calls(&self) -> usize {
        self.calls.len()
    }

    /// What the peer's last GOAWAY said, if one came before the end of the connection.
    pub fn peer_go_away(&self) -> Option<&GoAway> {
        self.http.peer_go_away()
    }

    /// The silence after which the peer is probed, if it is.
    pub fn keepalive_interval(&self) -> Option<Duration> {
        self.http.keepalive.interval()
    }

    /// The limits in force.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn wants_transmit(&self) -> bool {
        !self.is_sniffing && self.http.wants_transmit()
    }

    // ---- from the engine to the calls ------------------------------------------------------------

    /// What is received lies in another window of `size` bytes, which lives for as long as anything that it brought does.
    /// A message that is taken soon is best left where it is. Those that wait are moved out of their windows, once these
    /// are `max_lent_input` together: it costs a look at each call now and then, and at most a copy of each octet.
    #[inline]
    fn lend_input(&mut self, size: usize) {
        self.lent_input = self.lent_input.saturating_add(size);
        if self.lent_input > self.config.max_lent_input {
            self.lent_input = size;
            self.calls.machines().for_each(Machine::detach);
        }
    }

    fn advance(&mut self, now: Instant) -> Instant {
        self.now = self.now.max(now);
        self.now
    }

    /// Takes what the engine has to say without new input.
    fn pump(&mut self, now: Instant) {
        while let Some(incoming) = self.http.next_pending(now) {
            self.dispatch(incoming, now);
        }
    }

    fn dispatch(&mut self, incoming: Incoming, now: Instant) {
        match incoming {
            Incoming::Request { stream, head, end } => R::request(self, stream, head, end, now),
            Incoming::Response { call, head, end, .. } => self.with(call, |conn, id| R::response(conn, id, head, end)),
            // What has a body comes with input, and is delivered there.
            Incoming::Data { .. } | Incoming::WholeRequest { .. } | Incoming::WholeResponse { .. } => {}
            Incoming::Trailers { call, headers, .. } => self.with(call, |conn, id| R::trailers(conn, id, headers)),
            Incoming::Reset { call, code, by_peer, .. } => {
                self.with(call, |conn, id| R::reset(conn, id, code, by_peer));
            }
            Incoming::Writable { call, .. } => {
                if let Some((id, call)) = self.calls.at(call) {
                    if call.signals.raise(Signal::Writable.into()) {
                        self.events.push_call(id);
                    }
                }
            }
            Incoming::Connected => self.events.push(Event::Connected { version: HttpVersion::Http2 }),
            Incoming::Capacity => R::capacity(self),
            Incoming::GoAway => self.go_away(),
            Incoming::Closed(error) => self.close(error),
        }
    }

    /// Lets the machine of the call in slot `index` move.
    fn with(&mut self, index: u32, f: impl FnOnce(&mut Self, CallId)) {
        if let Some((id, _)) = self.calls.at(index) {
            f(self, id);
            self.settle(id);
        }
    }

    /// Hands the next `len` octets of the input to a call.
    fn deliver(&mut self, stream: StreamKey, index: u32, input: &mut RecvBuf, len: usize, end: bool) {
        let Some((id, call)) = self.calls.at(index) else { return input.skip(len) };
        let paid = call.machine.buffered() + len;
        let may_come = if end { 0 } else { self.http.may_come(stream) };
        let landing = &mut Landing { pool: &mut self.landing_pool, may_come };
        // A part of a large message is copied to where the message lies, and the window stays whole.
        if call.machine.extend_message(input.data().get(..len).unwrap_or_default(), landing) {
            input.skip(len);
        } else {
            call.machine.handle_data(input.split_to(len), landing);
        }
        if end {
            call.machine.handle_end();
        }
        self.delivered(id, stream, paid);
    }

    /// Looks what the machine of a call made of data; `paid` octets that it holds or held were paid for by the stream's
    /// window.
    fn delivered(&mut self, id: CallId, stream: StreamKey, paid: usize) {
        let Some(call) = self.calls.get(id) else { return };
        // What a failed machine threw away was paid for too.
        let dropped = paid.saturating_sub(call.machine.buffered());
        let need = call.machine.need();
        if dropped > 0 {
            self.http.consumed(stream, dropped);
        }
        if need > 0 {
            self.http.need(stream, need);
        }
        self.settle(id);
    }

    /// Raises what became true for a call after its machine moved.
    fn settle(&mut self, id: CallId) {
        let Some(mut call) = self.calls.get_mut(id) else { return };
        if !call.is_over && call.machine.has_ended() {
            R::follow(self, id);
            let Some(followed) = self.calls.get_mut(id) else { return };
            call = followed;
        }
        let due = if call.is_over { Signal::Finished.into() } else { call.machine.due() };
        if call.signals.raise(due) {
            self.events.push_call(id);
        }
    }

    fn go_away(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::GoingAway;
            self.events.push(Event::GoingAway);
        }
    }

    fn close(&mut self, error: ConnectionError) {
        if self.phase == Phase::Closed {
            return;
        }
        self.phase = Phase::Closed;
        self.forget_greeting();
        let ids: Vec<CallId> = self.calls.ids().collect();
        for id in ids {
            R::connection_lost(self, id, &error);
            self.settle(id);
        }
        self.events.push(Event::Closed(error));
    }

    fn set_flush_policy(&mut self, id: CallId, policy: FlushPolicy) {
        if let Some(call) = self.calls.get(id).filter(|call| call.machine.send_side().is_stream()) {
            self.http.set_flush_policy(call.stream, policy);
        }
    }

    /// Frees a call's slot; what the engine still has to send of it goes out.
    #[inline(always)]
    fn remove(&mut self, id: CallId) {
        if let Some(stream) = self.free(id) {
            self.http.release(stream);
        }
    }

    /// Frees a call's slot. Its stream, if there was a call, is still to be released.
    #[inline(always)]
    fn free(&mut self, id: CallId) -> Option<StreamKey> {
        let (stream, signals) = self.calls.remove(id)?;
        if signals.has_queued() {
            self.events.forget(id);
        }
        Some(stream)
    }
}
