//! What only a server does: accepting calls, and answering them.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::sync::Arc;

use bytes::Bytes;

use super::Connection;
use super::calls::Call;
use super::encode::{EncodeError, Fill, encode};
use super::plain::{IsPlain, is_plain};
use super::recent::{Recent, may_recur};
use super::role::{Behaviour, Server};
use super::view::CallMut;
use crate::buf::{Encoded, FlushPolicy};
use crate::call::{
    Accepted, CallKind, CallLimits, Code, Codec, End, Metadata, Protocol, ResponseKind, ServerCall, ServiceVariant,
    Status, success_trailers,
};
use crate::config::Config;
use crate::error::{CodecError, ConnectionError, ErrorCode, SendError, StreamError};
use crate::event::{CallId, Event, HttpVersion};
use crate::http::{Headers, RequestHead, ResponseHead};
use crate::http2::{Http2, StreamKey, Template};
use crate::time::Instant;

/// Room left in the peer's header list for what every response head holds beside the metadata, in bytes.
pub(super) const HEAD_OVERHEAD: usize = 512;

/// Kinds of response whose beginning is kept.
pub(super) const RESPONSE_KINDS: usize = 4;

pub(crate) struct ServerState {
    /// Calls that were not accepted yet, oldest first.
    pub(super) backlog: VecDeque<CallId>,
    /// The next call in the backlog is to be told by an event.
    tells_incoming: bool,
    limits: CallLimits,
    /// Which paths are no calls but plain HTTP, if any.
    pub(super) is_plain: Option<IsPlain>,
    /// What heads said that the engine recognises when they come again. Holding the head keeps its address its own.
    known: Recent<(Arc<RequestHead>, Arc<Accepted>)>,
    /// Memory for the fields of one head, which are gone once it is written.
    pub(super) own_fields: Headers,
    /// What responses begin with.
    pub(super) heads: Recent<KnownResponse>,
    /// What the trailers of success begin with.
    pub(super) success: Template<Headers>,
}

/// What the responses of a kind begin with.
pub(super) struct KnownResponse {
    kind: ResponseKind,
    pub(super) head: Template<ResponseHead>,
    /// The latest of the requests that are shared and have such a response, to be recognised by its address.
    latest: Option<Arc<Accepted>>,
}

impl KnownResponse {
    /// What the response to `request` begins with.
    pub(super) fn new(request: &Accepted) -> Self {
        let (kind, head) = ResponseKind::of(request);
        Self { kind, head: head.into(), latest: None }
    }

    /// Whether the response to `request` begins so too.
    pub(super) fn fits(&mut self, request: &Arc<Accepted>) -> bool {
        if self.latest.as_ref().is_some_and(|latest| Arc::ptr_eq(latest, request)) {
            return true;
        }
        let is_it = self.kind.is_for(request);
        if is_it && may_recur(request) {
            self.latest = Some(Arc::clone(request));
        }
        is_it
    }
}

impl ServerState {
    fn new(config: &Config) -> Self {
        Self {
            backlog: VecDeque::new(),
            tells_incoming: true,
            limits: CallLimits::from(config),
            is_plain: None,
            known: Recent::new(config.max_known_heads),
            own_fields: Headers::new(),
            heads: Recent::new(config.max_known_heads.clamp(1, RESPONSE_KINDS)),
            success: success_trailers().into(),
        }
    }

    /// [`Accepted::read`], or what it gave for the same head.
    #[inline]
    fn accepted(&mut self, head: Arc<RequestHead>) -> Result<Arc<Accepted>, ResponseHead> {
        match self.known.find(|(known, _)| Arc::ptr_eq(known, &head)) {
            Some((_, accepted)) => Ok(Arc::clone(accepted)),
            None => self.read(head),
        }
    }

    /// Reads a head, and keeps what it says if it may come again.
    fn read(&mut self, head: Arc<RequestHead>) -> Result<Arc<Accepted>, ResponseHead> {
        if self.is_plain.as_ref().is_some_and(|of_path| is_plain(&head, of_path)) {
            return Ok(Arc::new(Accepted::plain(head, &self.limits)));
        }
        if !may_recur(&head) {
            return Accepted::read(Arc::unwrap_or_clone(head), &self.limits).map(Arc::new);
        }
        let accepted = Arc::new(Accepted::read(RequestHead::clone(&head), &self.limits)?);
        self.known.insert((head, Arc::clone(&accepted)));
        Ok(accepted)
    }
}

impl Connection<Server> {
    /// A server.
    ///
    /// `version` is what ALPN decided, or whoever looked at the first octets: SETTINGS are queued at once, and a client
    /// that does not speak it is told so by GOAWAY. With `None` the connection looks at the first octets itself
    /// ([`sniff`](crate::sniff)): it sends nothing before it knows them to be HTTP/2's, and nothing at all to a client
    /// that speaks anything else, or remains silent; it ends with [`ConnectionError::Foreign`] then, or when
    /// `handshake_timeout` is over, which runs from `now` in any case.
    pub fn new(config: Arc<Config>, version: Option<HttpVersion>, now: Instant) -> Self {
        let state = ServerState::new(&config);
        let mut conn = Self::with_state(config, state, now);
        conn.is_sniffing = match version {
            None => true,
            Some(HttpVersion::Http2) => false,
        };
        conn
    }

    /// The next call that a client opened: its head is there, its messages are not yet. Look at its
    /// [path](CallMut::path), then say what to [expect](CallMut::expect).
    ///
    /// `None` arms the next [`Event::Incoming`].
    pub fn accept(&mut self) -> Option<CallId> {
        while let Some(id) = self.state.backlog.pop_front() {
            if self.calls.get(id).is_some() {
                return Some(id);
            }
        }
        self.state.tells_incoming = true;
        None
    }

    /// Keeps the call of a request for the application to accept, unless its head is refused; `receive` gives it what
    /// came with the head, and returns the body if that is not to be received in one step.
    #[inline]
    fn begin_call(
        &mut self,
        stream: StreamKey,
        head: Arc<RequestHead>,
        now: Instant,
        receive: impl FnOnce(&mut ServerCall) -> Result<(), Bytes>,
    ) {
        let accepted = match self.state.accepted(head) {
            Ok(accepted) => accepted,
            Err(answer) => {
                self.http.send_head(stream, answer, true);
                self.http.release(stream);
                return;
            }
        };
        let (id, call) = self.calls.insert_with(|| Call::new(ServerCall::of(accepted, now), stream));
        call.machine.heed_head();
        if call.machine.failure().is_some() {
            return self.refuse(id);
        }
        if let Some(at) = call.machine.deadline() {
            self.deadlines.insert(at, id);
        }
        self.http.bind(stream, id.index() as u32);
        self.state.backlog.push_back(id);
        if core::mem::take(&mut self.state.tells_incoming) {
            self.events.push(Event::Incoming);
        }
        let received = receive(&mut call.machine);
        if call.machine.failure().is_some() {
            self.settle(id);
        }
        if let Err(body) = received {
            self.receive_in_steps(id, stream, body, true);
        }
    }

    /// Answers a call that its head has failed: the application need not know.
    #[cold]
    fn refuse(&mut self, id: CallId) {
        if let Some(status) = self.calls.get(id).and_then(|call| call.machine.failure().cloned()) {
            let _ = self.answer(id, &status, &Metadata::new());
            self.remove(id);
        }
    }

    /// Ends the response with `status`; the engine sends what is queued. The stream keeps its place until the call's slot
    /// is freed: whoever works on the call still counts.
    fn answer(&mut self, id: CallId, status: &Status, trailers: &Metadata) -> Result<(), SendError> {
        let Some(call) = self.calls.get_mut(id) else { return Err(SendError::Finished) };
        call.is_over = true;
        let stream = call.stream;
        let answered = answer(&mut self.http, stream, &mut call.machine, status, trailers);
        self.http.stop_reading(stream);
        answered
    }

    /// Cuts the call off: nobody is going to answer it, or nobody waits for the answer.
    fn abandon(&mut self, id: CallId, code: ErrorCode) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.is_over = true;
        call.machine.handle_reset(code);
        self.http.reset(call.stream, code);
    }
}

impl CallMut<'_, Server> {
    /// What the request's head says: shared with calls whose head is the same, so that what is kept for a method or a
    /// client may be found by its identity. `None` once the slot was released.
    pub fn request(&self) -> Option<&Arc<Accepted>> {
        self.machine().map(ServerCall::request)
    }

    /// Path without the query: `/package.Service/Method`.
    pub fn path(&self) -> &str {
        self.request().map_or("", |request| request.path())
    }

    /// Host and port that the request is for; may be empty.
    pub fn authority(&self) -> &str {
        self.request().map_or("", |request| request.authority())
    }

    /// Wire protocol of the request.
    pub fn protocol(&self) -> Protocol {
        self.request().map_or(Protocol::Grpc, |request| request.protocol())
    }

    /// [Name](crate::call::Codec::name) of the codec that the request names.
    pub fn codec_name(&self) -> &str {
        self.request().map_or("", |request| request.codec_name())
    }

    /// Encoding that was negotiated for the response: each of its messages may be compressed with it, or not.
    pub fn send_encoding(&self) -> Option<&'static str> {
        self.request().and_then(|request| request.response_encoding())
    }

    /// Why the request was refused, if the peer was told so in place of the handler's answer.
    pub fn failure(&self) -> Option<&Status> {
        self.machine().and_then(ServerCall::failure)
    }

    /// Which implementation of the service the call is for.
    pub fn variant(&self) -> ServiceVariant {
        self.request().map_or(ServiceVariant::DEFAULT, |request| request.variant().clone())
    }

    /// Whether the call is over for the peer: reset, expired, refused for its fault, or lost with the
    /// connection. What the handler still does has no effect.
    pub fn is_over(&self) -> bool {
        self.conn.calls.get(self.id).is_none_or(|call| call.is_over)
    }

    /// The router's answer: what kind of method the path names. Nothing can be received before it.
    pub fn expect(&mut self, kind: CallKind, now: Instant) {
        self.conn.advance(now);
        if let Some(call) = self.conn.calls.get_mut(self.id) {
            call.machine.expect(kind);
            self.conn.http.reads_request(call.stream);
        }
        self.conn.set_flush_policy(self.id, FlushPolicy::from(&*self.conn.config));
        self.conn.settle(self.id);
    }

    /// Answers that the method takes `offered` codecs only, in the way of the dialect.
    pub fn refuse_codec(self, offered: &[&str], now: Instant) {
        self.conn.advance(now);
        if let Some(call) = self.conn.calls.get_mut(self.id) {
            call.machine.refuse_codec(offered);
        }
        self.conn.settle(self.id);
        self.release();
    }

    /// Sends the response head, ahead of the first message; a dialect whose head tells the outcome keeps it until then.
    ///
    /// # Errors
    /// `Sealed` if it was sent already; `TooLarge` for more metadata than the peer takes.
    pub fn send_head(&mut self, metadata: &Metadata, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        send_head(self.conn, self.id, metadata)
    }

    /// Answers with one message and success, in one run of frames, and frees the slot.
    ///
    /// # Errors
    /// The message could not be sent; the peer was told so (`Internal` or `ResourceExhausted`).
    pub fn respond<T>(
        self,
        codec: &dyn Codec<T>,
        response: &T,
        head: &Metadata,
        trailers: &Metadata,
        now: Instant,
    ) -> Result<(), SendError> {
        let now = self.conn.advance(now);
        if let Some(len) = codec.encoded_len(response) {
            let fill: Fill<'_> = &mut |dst| codec.encode(response, dst);
            if let Some(answered) = self.conn.answer_in_place(self.id, len, fill, (head, trailers), now) {
                return answered;
            }
        }
        match encode(codec, response, self.conn.config.max_send_message) {
            Ok(bytes) => self.respond_encoded(Encoded { bytes, compressed: false }, head, trailers, now),
            Err(error) => {
                let status = match &error {
                    EncodeError::TooLarge { size, limit } => too_large(*size, *limit),
                    EncodeError::Codec(error) => encode_failure(error),
                };
                self.finish(&status, &Metadata::new(), now)?;
                Err(error.into())
            }
        }
    }

    /// [`respond`](Self::respond) with a message that the caller encoded: one that is large or compressed.
    ///
    /// # Errors
    /// As [`respond`](Self::respond).
    pub fn respond_encoded(
        mut self,
        response: Encoded,
        head: &Metadata,
        trailers: &Metadata,
        now: Instant,
    ) -> Result<(), SendError> {
        let sent = self.send_whole(response, head, now);
        let status = match &sent {
            Ok(()) => Status::OK,
            Err(SendError::TooLarge { size, limit }) => too_large(*size, *limit),
            Err(error) => Status::internal(format!("the response cannot be sent: {error}")),
        };
        let trailers = if status.is_ok() { trailers } else { &Metadata::new() };
        // The call ends whether or not the message could be sent.
        let finished = self.finish(&status, trailers, now);
        sent.and(finished)
    }

    fn send_whole(&mut self, response: Encoded, head: &Metadata, now: Instant) -> Result<(), SendError> {
        if self.machine().is_some_and(|machine| !machine.is_head_sent()) {
            self.send_head(head, now)?;
        }
        // The one message of a response may exceed the send buffer: there is nothing after it to hold back.
        self.push(response)
    }

    /// Ends the call with `status` and frees the slot. If nothing was sent yet, the status is the whole
    /// response.
    ///
    /// # Errors
    /// The call has ended already, and the peer will not see this status.
    pub fn finish(self, status: &Status, trailers: &Metadata, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        let answered = match self.send_error() {
            Some(error) => Err(error),
            None => self.conn.answer(self.id, status, trailers),
        };
        self.conn.remove(self.id);
        answered
    }

    /// Frees the slot of a call that nobody answers: the stream is reset if it is still open.
    pub fn release(self) {
        if !self.is_over() {
            self.conn.abandon(self.id, ErrorCode::CANCEL);
        }
        self.conn.remove(self.id);
    }

    fn machine(&self) -> Option<&ServerCall> {
        self.conn.calls.get(self.id).map(|call| &call.machine)
    }
}

impl Behaviour for Server {
    type Machine = ServerCall;
    type State = ServerState;

    fn release_idle(state: &mut ServerState) {
        state.backlog.shrink_to_fit();
        state.known.clear();
        state.heads.clear();
        state.own_fields = Headers::new();
    }

    fn request(conn: &mut Connection<Self>, stream: StreamKey, head: Arc<RequestHead>, end: bool, now: Instant) {
        conn.begin_call(stream, head, now, |call| {
            if end {
                call.handle_end(None);
            }
            Ok(())
        });
    }

    fn whole_request(
        conn: &mut Connection<Self>,
        stream: StreamKey,
        head: Arc<RequestHead>,
        body: Bytes,
        now: Instant,
    ) {
        conn.begin_call(stream, head, now, |call| call.handle_whole(body));
    }

    fn whole_response(
        _: &mut Connection<Self>,
        _: (StreamKey, u32),
        _: Arc<ResponseHead>,
        _: Bytes,
        _: Option<Arc<Headers>>,
    ) {
    }

    fn response(_: &mut Connection<Self>, _: CallId, _: Arc<ResponseHead>, _: bool) {}

    fn trailers(conn: &mut Connection<Self>, id: CallId, _: Arc<Headers>) {
        if let Some(call) = conn.calls.get_mut(id) {
            call.machine.handle_end(None);
        }
    }

    fn reset(conn: &mut Connection<Self>, id: CallId, code: ErrorCode, _by_peer: bool) {
        if let Some(call) = conn.calls.get_mut(id) {
            call.machine.handle_reset(code);
            call.is_over = true;
        }
    }

    fn expire(conn: &mut Connection<Self>, id: CallId) {
        let status = Status::from(StreamError::Deadline);
        let _ = conn.answer(id, &status, &Metadata::new());
    }

    fn follow(conn: &mut Connection<Self>, id: CallId) {
        if let Some(status) = conn.calls.get(id).and_then(|call| call.machine.failure().cloned()) {
            let _ = conn.answer(id, &status, &Metadata::new());
        }
    }

    fn connection_lost(conn: &mut Connection<Self>, id: CallId, _: &ConnectionError) {
        if let Some(call) = conn.calls.get_mut(id) {
            call.machine.handle_reset(ErrorCode::CANCEL);
            call.is_over = true;
        }
    }

    fn capacity(_: &mut Connection<Self>) {}

    fn before_message(conn: &mut Connection<Self>, id: CallId) -> Result<(), SendError> {
        match conn.calls.get(id) {
            Some(call) if call.machine.is_head_sent() => Ok(()),
            _ => send_head(conn, id, &Metadata::new()),
        }
    }

    fn cancel(conn: &mut Connection<Self>, id: CallId, _code: Code) {
        if conn.calls.get(id).is_some_and(|call| !call.is_over) {
            conn.abandon(id, ErrorCode::CANCEL);
        }
    }
}

fn send_head(conn: &mut Connection<Server>, id: CallId, metadata: &Metadata) -> Result<(), SendError> {
    let Some(call) = conn.calls.get_mut(id) else { return Err(SendError::Finished) };
    let (size, limit) = (metadata.as_headers().list_size() + HEAD_OVERHEAD, conn.http.send_header_limit());
    if size > limit && !metadata.is_empty() {
        return Err(SendError::TooLarge { size, limit });
    }
    if let Some(head) = call.machine.head(metadata)? {
        conn.http.send_head(call.stream, head, false);
    }
    Ok(())
}

/// Queues the end of a response, or all of it.
pub(super) fn answer(
    http: &mut Http2,
    stream: StreamKey,
    machine: &mut ServerCall,
    status: &Status,
    trailers: &Metadata,
) -> Result<(), SendError> {
    let end = machine.finish(status, trailers, http.send_header_limit())?;
    send_end(http, stream, end);
    Ok(())
}

fn send_end(http: &mut Http2, stream: StreamKey, end: End) {
    match end {
        End::Whole { head, body } if body.is_empty() => http.send_head(stream, head, true),
        End::Whole { head, body } => {
            http.send_head(stream, head, false);
            http.send_data(stream, None, body);
            http.finish(stream, None);
        }
        End::Trailers(headers) => http.finish(stream, Some(headers)),
    }
}

/// What the peer is told when the response cannot be encoded.
pub(super) fn encode_failure(error: &CodecError) -> Status {
    Status::internal(format!("encoding the response failed: {error}"))
}

fn too_large(size: usize, limit: usize) -> Status {
    Status::resource_exhausted(format!("response of {size} bytes exceeds max_send_message of {limit} bytes"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::http::{HeaderName, Headers, Method};

    fn head(path: &'static str) -> Arc<RequestHead> {
        let mut headers = Headers::new();
        headers.push(HeaderName::CONTENT_TYPE, "application/grpc");
        Arc::new(RequestHead {
            method: Method::Post,
            scheme: Bytes::from_static(b"http"),
            authority: Bytes::from_static(b"localhost"),
            path: Bytes::from_static(path.as_bytes()),
            headers,
            deadline: None,
        })
    }

    /// Only what may come again is kept, and only so many.
    #[test]
    fn heads_that_come_again_are_read_once() {
        let config = Config::default();
        let mut state = ServerState::new(&config);
        let (known, other) = (head("/a.B/C"), head("/a.B/D"));
        let first = state.accepted(Arc::clone(&known)).unwrap();
        let second = state.accepted(Arc::clone(&other)).unwrap();
        assert!(Arc::ptr_eq(&first, &state.accepted(Arc::clone(&known)).unwrap()));
        assert_eq!((first.path(), second.path()), ("/a.B/C", "/a.B/D"));
        for _ in 0..100 {
            state.accepted(head("/a.B/E")).unwrap();
        }
        assert!(
            Arc::ptr_eq(&first, &state.accepted(Arc::clone(&known)).unwrap()),
            "driven out by heads that come once"
        );
        for _ in 0..config.max_known_heads {
            let kept = head("/a.B/E");
            state.accepted(Arc::clone(&kept)).unwrap();
        }
        assert!(!Arc::ptr_eq(&first, &state.accepted(known).unwrap()), "more are kept than may be");
    }
}
