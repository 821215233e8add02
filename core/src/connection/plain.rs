//! Requests that are no calls: plain HTTP, for the application to answer.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::Connection;
use super::role::Server;
use super::view::CallMut;
use crate::error::SendError;
use crate::event::CallId;
use crate::http::{Method, RequestHead, Response};
use crate::time::Instant;

/// Says which paths, without their queries, are of plain HTTP.
pub(super) type IsPlain = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Connection<Server> {
    /// Hands over requests of plain HTTP, which are refused otherwise: all whose path, without its query, `is_plain` says
    /// to be such, whatever their method and content type, but for CONNECT. `*` is a path too.
    ///
    /// They are [accepted](Self::accept) as calls are; [`CallMut::http`] tells them apart. [Expect](CallMut::expect) a
    /// stream of requests, [receive](CallMut::recv) the body in pieces, and [`respond_plain`](CallMut::respond_plain).
    pub fn serve_plain(&mut self, is_plain: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.state.is_plain = Some(Box::new(is_plain));
    }

    fn answer_plain(&mut self, id: CallId, response: Response) -> Result<(), SendError> {
        let Some(call) = self.calls.get_mut(id) else { return Err(SendError::Finished) };
        let (stream, finished) = (call.stream, call.machine.finish_plain(response));
        call.is_over = true;
        let sent = finished.map(|Response { head, body, trailers }| {
            let is_head_all = body.is_empty() && trailers.is_empty();
            self.http.send_head(stream, head, is_head_all);
            if !body.is_empty() {
                self.http.send_data(stream, None, body);
            }
            if !is_head_all {
                self.http.finish(stream, (!trailers.is_empty()).then_some(trailers));
            }
        });
        self.http.release(stream);
        sent
    }
}

/// Whether a request is one of plain HTTP.
pub(super) fn is_plain(head: &RequestHead, is_plain: &IsPlain) -> bool {
    let path = head.path.split(|&octet| octet == b'?').next().unwrap_or_default();
    head.method != Method::Connect && core::str::from_utf8(path).is_ok_and(is_plain)
}

impl CallMut<'_, Server> {
    /// The head of a request of plain HTTP; `None` for a call.
    pub fn http(&self) -> Option<&Arc<RequestHead>> {
        self.request()?.http()
    }

    /// Answers in plain HTTP, in one run of frames, and frees the slot. A client that is still sending is told that the
    /// rest is not wanted, once it was sent the response. What nobody may have is left out: the body of an answer to HEAD,
    /// or with status 204 or 304.
    ///
    /// # Errors
    /// What [`Response::check`] says of the response; the client got 500 in its place. Otherwise the request has ended
    /// already, and the client will not see the response.
    pub fn respond_plain(self, response: Response, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        let checked = response.check(self.conn.http.send_header_limit());
        let response = if checked.is_ok() { response } else { Response::from_status(500) };
        let sent = self.conn.answer_plain(self.id, response);
        self.conn.remove(self.id);
        checked.and(sent)
    }
}
