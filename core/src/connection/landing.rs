//! Large messages whose octets are read straight to where they lie: see [`Connection::prepare_read`].

use super::Connection;
use super::role::{Machine, Role};
use crate::buf::{GAP, RecvBuf, Scatter};
use crate::error::ErrorCode;
use crate::event::CallId;
use crate::http2::frame::HEADER_LEN;
use crate::http2::{ArrivingBody, Http2, Incoming, StreamKey};
use crate::time::Instant;

const _: () = assert!(GAP == HEADER_LEN, "what lies between two pieces of a body is a frame header");

/// Octets that are read where a frame begins in the middle of a large message: as a rule its header, perhaps behind control
/// frames, after which the next read knows where to go.
const PEEK: usize = 4096;

/// Whose memory the next read goes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    id: CallId,
    /// The stream, as its frames name it.
    stream: u32,
}

impl<R: Role> Connection<R> {
    /// Whether [`prepare_read`](Self::prepare_read) has something to prepare: a large message is arriving.
    #[inline]
    pub fn may_prepare_read(&self) -> bool {
        let body = self.http.arriving_body();
        body.is_some_and(|body| {
            self.calls.get_at(body.call).is_some_and(|call| call.machine.need() >= self.config.scatter_from)
        })
    }

    /// Lends `input`, if it is empty, the memory of a large message that is arriving: the next read then goes to its
    /// [`spaces`](RecvBuf::spaces), and brings octets of the message to where they belong, without a copy.
    ///
    /// For a transport that reads into several pieces of memory at once (`readv`). What is lent comes back with the next
    /// [`handle_input`](Self::handle_input), which has to have the same `input`, whether something was read or not; with another
    /// one the connection is aborted, for the message is lost. Who never calls this loses nothing but time.
    pub fn prepare_read(&mut self, input: &mut RecvBuf) {
        if !input.is_empty() || self.lent.is_some() || !self.may_prepare_read() {
            return;
        }
        let Some(ArrivingBody { id: stream, call, left, frame }) = self.http.arriving_body() else { return };
        let Some((id, call)) = self.calls.at(call) else { return };
        let at_most = frame.map_or(left, |_| usize::MAX).min(self.config.max_read);
        if left == 0 {
            input.limit_next_read(PEEK);
        } else if let Some(lent) = call.machine.lend(self.config.scatter_from..=at_most) {
            input.scatter(Scatter::new(lent, left, frame.unwrap_or(1)));
            self.lent = Some(Lent { id, stream });
        }
    }

    /// Takes back what was lent to `input`, and takes what was read there.
    pub(super) fn land(&mut self, input: &mut RecvBuf, now: Instant) {
        let Some(Lent { id, stream }) = self.lent.take() else { return };
        let Some(mut scatter) = input.take_scatter() else {
            // The memory of a message is gone with an input that nobody showed us.
            return self.http.abort(ErrorCode::INTERNAL_ERROR, now);
        };
        let guessed = scatter.guessed(|header, len| Http2::is_data_header(header, stream, len));
        input.gather(&mut scatter, guessed);
        let call = self.calls.get_mut(id);
        let is_wanted =
            call.is_some_and(|call| scatter.return_memory(|memory, filled| call.machine.restore(memory, filled)));
        if !is_wanted {
            // Whatever came meanwhile is for the engine to judge.
            input.gather(&mut scatter, 0);
            return self.landing_pool.put_back(scatter.into_memory());
        }
        for (header, n) in scatter.landed() {
            self.pump(now);
            if let Some(Incoming::Data { stream, call, len, end }) = self.http.landed(header, n, now) {
                self.deliver_landed(stream, call, len, end);
            }
        }
    }

    /// The next `len` octets of a call's body lie where they belong.
    fn deliver_landed(&mut self, stream: StreamKey, index: u32, len: usize, end: bool) {
        let Some((id, call)) = self.calls.at(index) else { return };
        let paid = call.machine.buffered().saturating_add(len);
        call.machine.landed(len);
        if end {
            call.machine.handle_end();
        }
        self.delivered(id, stream, paid);
    }
}
