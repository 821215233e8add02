//! What a unary call takes in one step, beside the many steps that every call has.
//!
//! A driver of many small calls looks each of them up once where its request is there, and once where its outcome is:
//! [`CallMut::expect_request`] is [`expect`](CallMut::expect) and [`recv`](CallMut::recv), and
//! [`Connection::take_outcome`] is `recv`, [`metadata`](CallMut::metadata) and [`release`](CallMut::release). The many
//! steps stay, for calls that come in parts; both ways give the same.

use alloc::sync::Arc;

use bytes::Bytes;

use super::Connection;
use super::calls::Signal;
use super::client::is_closing;
use super::role::{Behaviour, Client, Machine, Role, Server};
use super::view::CallMut;
use crate::buf::{FlushPolicy, Landing, MessageBuf};
use crate::call::{CallKind, Outcome};
use crate::event::CallId;
use crate::http::{Headers, ResponseHead};
use crate::http2::{Side, StreamKey};
use crate::time::Instant;

impl CallMut<'_, Server> {
    /// The router's answer, as [`expect`](Self::expect), and the request itself if the method takes a single one and it
    /// is there: no [`Event::Readable`](crate::Event::Readable) tells of it then.
    ///
    /// With `None` the call goes on as after `expect`.
    pub fn expect_request(&mut self, kind: CallKind, now: Instant) -> Option<MessageBuf> {
        self.conn.advance(now);
        let call = self.conn.calls.get_mut(self.id)?;
        let stream = call.stream;
        let request = call.machine.expect_request(kind, &mut self.conn.landing_pool);
        if !kind.is_single_response() {
            self.conn.set_flush_policy(self.id, FlushPolicy::from(&*self.conn.config));
        }
        match &request {
            // The peer's half is over: there is no window to open.
            Some(request) => self.conn.landing_pool.keep_message(request),
            None => {
                self.conn.http.reads_request(stream);
                self.conn.settle(self.id);
            }
        }
        request
    }
}

impl Connection<Client> {
    /// Frees the slot of a call that has ended, and returns its outcome: for calls with a single response. `None`, and
    /// nothing happened, while there is no outcome, and once the slot was released.
    ///
    /// Messages of a stream of responses that were not pulled are dropped, but for the first.
    pub fn take_outcome(&mut self, id: CallId) -> Option<Outcome> {
        let call = self.calls.get_mut(id)?;
        let outcome = call.machine.take_outcome(&mut self.landing_pool)?;
        self.remove(id);
        Some(outcome)
    }

    /// Hands a response that is whole to its call. One of a single message and success, all of whose fields are known,
    /// ends the call at once.
    #[inline]
    pub(super) fn finish_call(
        &mut self,
        (stream, index): (StreamKey, u32),
        head: Arc<ResponseHead>,
        body: Bytes,
        trailers: Option<Arc<Headers>>,
    ) {
        let Some((id, call)) = self.calls.at(index) else {
            self.http.end_whole(stream);
            return;
        };
        let status = trailers.as_ref().and_then(|trailers| self.state.known_outcome(trailers));
        let ended = match self.state.known_reply(call.machine.plan(), &head) {
            Some(reply) if status.is_some() == trailers.is_some() => call.machine.handle_success(reply, body, status),
            _ => Err(body),
        };
        if let Err(body) = ended {
            return self.finish_in_steps(id, stream, head, body, trailers);
        }
        call.is_over = true;
        let is_closing = call.machine.status().is_some_and(is_closing);
        if call.signals.raise(Signal::Finished.into()) {
            self.events.push_call(id);
        }
        self.http.end_whole(stream);
        if is_closing {
            self.retire();
        }
    }

    /// Hands a response that is whole to its call as if it came frame by frame: what the call has no use for any more
    /// once it reset the stream is dropped.
    #[inline(never)]
    fn finish_in_steps(
        &mut self,
        id: CallId,
        stream: StreamKey,
        head: Arc<ResponseHead>,
        body: Bytes,
        trailers: Option<Arc<Headers>>,
    ) {
        let index = id.index() as u32;
        self.with(index, |conn, id| Client::response(conn, id, head, false));
        self.receive_in_steps(id, stream, body, trailers.is_none());
        if let Some(trailers) = trailers.filter(|_| self.http.end_whole(stream)) {
            self.with(index, |conn, id| Client::trailers(conn, id, trailers));
        }
    }
}

impl<R: Role> Connection<R> {
    /// Hands a body that is whole to its call frame by frame; `ends` if the last frame ends the peer's half. What may not be
    /// kept costs the stream at the frame that shows it, and not at the end.
    #[cold]
    pub(super) fn receive_in_steps(&mut self, id: CallId, stream: StreamKey, mut body: Bytes, ends: bool) {
        let Some(frames) = self.http.in_frames(stream, u32::try_from(body.len()).unwrap_or(u32::MAX)) else {
            let goes_on = match R::SIDE {
                Side::Client if ends => self.http.end_whole(stream),
                Side::Client => self.http.is_live(stream),
                Side::Server => true,
            };
            if goes_on {
                self.receive(id, stream, body, ends);
            }
            return;
        };
        for (len, is_last) in frames {
            let end = ends && is_last;
            if !self.http.receive_frame(stream, len, end) {
                return;
            }
            self.receive(id, stream, body.split_to(body.len().min(len as usize)), end);
        }
    }

    /// Hands octets that were taken off the input to a call.
    fn receive(&mut self, id: CallId, stream: StreamKey, octets: Bytes, end: bool) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let paid = call.machine.buffered() + octets.len();
        let may_come = if end { 0 } else { self.http.may_come(stream) };
        call.machine.handle_data(octets, &mut Landing { pool: &mut self.landing_pool, may_come });
        if end {
            call.machine.handle_end();
        }
        self.delivered(id, stream, paid);
    }
}
