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
use super::role::{Behaviour, Client, Server};
use super::view::CallMut;
use crate::buf::{FlushPolicy, Landing, MessageBuf};
use crate::call::{CallKind, Outcome};
use crate::event::CallId;
use crate::http::{Headers, ResponseHead};
use crate::http2::StreamKey;
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
        let outcome = call.machine.take_outcome(&mut self.landing_pool);
        if let Some(Outcome { message, .. }) = &outcome {
            message.iter().for_each(|message| self.landing_pool.keep_message(message));
            self.remove(id);
        }
        outcome
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
        let end = trailers.is_none();
        let goes_on = if end { self.http.end_whole(stream) } else { self.http.is_live(stream) };
        if let Some(call) = self.calls.get_mut(id).filter(|_| goes_on) {
            let paid = call.machine.buffered() + body.len();
            call.machine.handle_data_in(body, &mut Landing { pool: &mut self.landing_pool, may_come: 0 });
            if end {
                call.machine.handle_end(None);
            }
            self.delivered(id, stream, paid);
        }
        if let Some(trailers) = trailers.filter(|_| self.http.end_whole(stream)) {
            self.with(index, |conn, id| Client::trailers(conn, id, trailers));
        }
    }
}
