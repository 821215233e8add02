//! What only a client does: opening calls, and reading their outcome.

use alloc::format;
use alloc::sync::Arc;

use bytes::Bytes;

use super::calls::Call;
use super::encode::encode;
use super::recent::{Recent, may_recur};
use super::role::{Behaviour, Client};
use super::view::CallMut;
use super::{Connection, Phase};
use crate::buf::{Encoded, FlushPolicy};
use crate::call::{
    CallLimits, CallOptions, ClientCall, Code, Codec, MethodSpec, Origin, Plan, Reply, Status, status_of,
};
use crate::config::Config;
use crate::error::{ConnectionError, ErrorCode, OpenError, SendError, StreamError};
use crate::event::{CallId, Event, HttpVersion};
use crate::http::{Headers, RequestHead, ResponseHead};
use crate::http2::{StreamKey, Template};
use crate::time::Instant;

/// Where a client's calls go: the `:scheme` and `:authority` of every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`.
    pub scheme: Bytes,
    /// Host, and port where it is not the scheme's own.
    pub authority: Bytes,
}

impl Endpoint {
    /// A cleartext endpoint.
    pub fn http(authority: impl Into<Bytes>) -> Self {
        Self { scheme: Bytes::from_static(b"http"), authority: authority.into() }
    }

    /// An endpoint behind TLS.
    pub fn https(authority: impl Into<Bytes>) -> Self {
        Self { scheme: Bytes::from_static(b"https"), authority: authority.into() }
    }
}

pub(crate) struct ClientState {
    endpoint: Endpoint,
    limits: CallLimits,
    pub(super) plans: Recent<Planned>,
    /// Memory for the fields of one head, which are gone once it is written.
    pub(super) own_fields: Headers,
    /// What heads of responses said, and trailers, that the engine recognises when they come again. Holding them keeps
    /// their addresses their own.
    replies: Recent<KnownReply>,
    outcomes: Recent<(Arc<Headers>, Option<Status>)>,
}

/// What a head said to calls of a plan, and of those that read like it.
struct KnownReply {
    head: Arc<ResponseHead>,
    plan: Arc<Plan>,
    reply: Arc<Reply>,
}

/// A plan, and what the heads of its requests begin with.
pub(super) struct Planned {
    pub(super) plan: Arc<Plan>,
    pub(super) head: Template<RequestHead>,
}

impl ClientState {
    fn new(endpoint: Endpoint, config: &Config) -> Self {
        let limits = CallLimits::from(config);
        Self {
            endpoint,
            limits,
            // The call that is being opened has one.
            plans: Recent::new(config.max_known_heads.max(1)),
            own_fields: Headers::new(),
            replies: Recent::new(config.max_known_heads),
            outcomes: Recent::new(config.max_known_heads),
        }
    }

    /// Place of the plan for a call.
    ///
    /// # Errors
    /// The protocol cannot carry calls of this kind.
    #[inline]
    fn plan(&mut self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> Result<usize, OpenError> {
        if let Some(place) = self.plans.position(|planned| planned.plan.is_for(method, options, codec)) {
            return Ok(place);
        }
        self.new_plan(method, options, codec)
    }

    #[cold]
    fn new_plan(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
    ) -> Result<usize, OpenError> {
        let plan = Arc::new(Plan::new(method, options, codec, &self.limits)?);
        let Endpoint { scheme, authority } = self.endpoint.clone();
        let head = plan.plain_head(scheme, authority).into();
        Ok(self.plans.insert(Planned { plan, head }))
    }

    /// What a head that came before said to calls of the plan.
    pub(super) fn known_reply(&self, plan: &Arc<Plan>, head: &Arc<ResponseHead>) -> Option<&Arc<Reply>> {
        let is_it = |known: &&KnownReply| Arc::ptr_eq(&known.head, head) && known.plan.reads_like(plan);
        self.replies.find(is_it).map(|known| &known.reply)
    }

    /// The status in trailers that came before.
    pub(super) fn known_outcome(&self, trailers: &Arc<Headers>) -> Option<&Status> {
        self.outcomes.find(|(known, _)| Arc::ptr_eq(known, trailers))?.1.as_ref()
    }

    /// [`Plan::read`], or what it gave for the same head.
    fn reply(&mut self, plan: &Arc<Plan>, head: Arc<ResponseHead>) -> Arc<Reply> {
        if !may_recur(&head) {
            return Arc::new(plan.read(Arc::unwrap_or_clone(head)));
        }
        if let Some(known) = self.known_reply(plan, &head) {
            return Arc::clone(known);
        }
        let reply = Arc::new(plan.read(ResponseHead::clone(&head)));
        self.replies.insert(KnownReply { head, plan: Arc::clone(plan), reply: Arc::clone(&reply) });
        reply
    }

    /// Calls `f` with the status in trailers, if they have one.
    fn outcome(&mut self, trailers: Arc<Headers>, f: impl FnOnce(Option<&Status>)) {
        if !may_recur(&trailers) {
            return f(status_of(Arc::unwrap_or_clone(trailers)).as_ref());
        }
        let place = self.outcomes.position(|(known, _)| Arc::ptr_eq(known, &trailers));
        let place = place.unwrap_or_else(|| {
            let status = status_of(Headers::clone(&trailers));
            self.outcomes.insert((trailers, status))
        });
        f(self.outcomes.get(place).and_then(|(_, status)| status.as_ref()));
    }
}

impl Connection<Client> {
    /// A client. The preface and SETTINGS are queued at once; calls may be opened before the server's
    /// SETTINGS arrive, and leave with the preface.
    pub fn new(config: Arc<Config>, endpoint: Endpoint, version: HttpVersion, now: Instant) -> Self {
        let HttpVersion::Http2 = version;
        let state = ClientState::new(endpoint, &config);
        Self::with_state(config, state, now)
    }

    /// Opens a call whose messages are sent with [`CallMut::send`].
    ///
    /// A unary call is better opened with its message, by [`open_unary`](Self::open_unary): the head of a dialect
    /// without envelopes then tells its length.
    ///
    /// # Errors
    /// Nothing was sent; see [`OpenError`].
    pub fn open(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        now: Instant,
    ) -> Result<CallId, OpenError> {
        let now = self.advance(now);
        let machine = self.begin(method, options, codec, now)?;
        let id = self.queue(machine, options)?;
        self.set_flush_policy(id, options.flush.unwrap_or_else(|| FlushPolicy::from(&*self.config)));
        Ok(id)
    }

    /// Opens a call with its only request: head, message and end leave in one run of frames.
    ///
    /// # Errors
    /// Nothing was sent; see [`OpenError`].
    pub fn open_unary<T>(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &dyn Codec<T>,
        request: &T,
        now: Instant,
    ) -> Result<CallId, OpenError> {
        let now = self.advance(now);
        let len = codec.encoded_len(request);
        if let Some(len) = len.filter(|&len| self.is_fast_request(method.kind(), options, len)) {
            let place = self.plan(method, options, codec.name())?;
            return self.open_in_place(place, options, len, &mut |dst| codec.encode(request, dst), now);
        }
        let machine = self.begin(method, options, codec.name(), now)?;
        let bytes = encode(codec, request, self.config.max_send_message)?;
        self.insert_unary(machine, options, Encoded { bytes, compressed: false })
    }

    /// [`open_unary`](Self::open_unary) with a message that the caller encoded: one that is large or
    /// compressed, or was encoded before there was a connection.
    ///
    /// # Errors
    /// Nothing was sent; see [`OpenError`].
    pub fn open_unary_encoded(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: Encoded,
        now: Instant,
    ) -> Result<CallId, OpenError> {
        let now = self.advance(now);
        let machine = self.begin(method, options, codec, now)?;
        self.insert_unary(machine, options, request)
    }

    fn begin(
        &mut self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        now: Instant,
    ) -> Result<ClientCall, OpenError> {
        let place = self.plan(method, options, codec)?;
        self.call_by(place, options, now)
    }

    /// Place of the plan for a call.
    #[inline]
    fn plan(&mut self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> Result<usize, OpenError> {
        match self.phase {
            Phase::Open => self.state.plan(method, options, codec),
            Phase::GoingAway => Err(OpenError::GoingAway),
            Phase::Closed => Err(OpenError::Closed),
        }
    }

    /// A call by the plan in a place.
    fn call_by(&self, place: usize, options: &CallOptions, now: Instant) -> Result<ClientCall, OpenError> {
        let planned = self.state.plans.get(place).ok_or(OpenError::Unsupported)?;
        Ok(ClientCall::of(Arc::clone(&planned.plan), options.timeout.map(|timeout| now + timeout)))
    }

    fn insert_unary(
        &mut self,
        mut machine: ClientCall,
        options: &CallOptions,
        request: Encoded,
    ) -> Result<CallId, OpenError> {
        let prefix = machine.envelope(request.bytes.len(), request.compressed).map_err(open_error)?;
        machine.finish().map_err(open_error)?;
        let id = self.queue(machine, options)?;
        if let Some(call) = self.calls.get(id) {
            if prefix.is_none() && request.bytes.is_empty() {
                self.http.finish_on_head(call.stream);
            } else {
                self.http.send_data(call.stream, prefix, request.bytes);
                self.http.finish(call.stream, None);
            }
        }
        Ok(id)
    }

    fn queue(&mut self, machine: ClientCall, options: &CallOptions) -> Result<CallId, OpenError> {
        let (index, deadline) = (self.calls.next_index(), machine.deadline());
        // Where nothing is in the head that belongs to this call alone, it waits with that of the plan.
        let is_plain =
            machine.send_side().is_enveloped() && options.metadata.is_empty() && options.variant.is_default();
        let is_it = |planned: &Planned| Arc::ptr_eq(&planned.plan, machine.plan());
        let stream = match self.state.plans.position(is_it).and_then(|place| self.state.plans.get(place)) {
            Some(planned) if is_plain => {
                let field = deadline.and_then(|at| planned.plan.deadline_field(at));
                self.http.open_shared(&planned.head, field, index)?
            }
            _ => {
                let Endpoint { scheme, authority } = self.state.endpoint.clone();
                self.http.open(machine.request_head(options, scheme, authority), index)?
            }
        };
        Ok(self.insert_with(stream, deadline, || machine))
    }

    /// Keeps the call whose stream was opened for the slot that is next.
    #[inline]
    pub(super) fn insert_with(
        &mut self,
        stream: StreamKey,
        deadline: Option<Instant>,
        machine: impl FnOnce() -> ClientCall,
    ) -> CallId {
        let (id, _) = self.calls.insert_with(|| Call::new(machine(), stream));
        if let Some(at) = deadline {
            self.deadlines.insert(at, id);
        }
        id
    }

    /// The peer takes no further calls, though it did not say so by GOAWAY.
    pub(super) fn retire(&mut self) {
        self.http.retire();
        self.go_away();
    }

    /// Ends a call on this side. The status tells whether the peer can have seen anything of it.
    fn fail(&mut self, id: CallId, status: Status) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let is_unprocessed = !self.http.was_written(call.stream);
        call.machine.fail(if is_unprocessed { status.with_unprocessed() } else { status });
    }
}

impl CallMut<'_, Client> {
    /// Ends the request: there will be no further message. A second time changes nothing.
    ///
    /// # Errors
    /// The call has ended already.
    pub fn finish(&mut self, now: Instant) -> Result<(), SendError> {
        self.conn.advance(now);
        let Some(call) = self.conn.calls.get_mut(self.id) else { return Err(SendError::Finished) };
        call.machine.finish()?;
        self.conn.http.finish(call.stream, None);
        Ok(())
    }

    /// Whether the head of the request has left with the output.
    pub fn is_written(&self) -> bool {
        self.conn.calls.get(self.id).is_some_and(|call| self.conn.http.was_written(call.stream))
    }

    /// The outcome with the trailers, once it is known; messages may still wait to be pulled.
    pub fn status(&self) -> Option<&Status> {
        self.conn.calls.get(self.id).and_then(|call| call.machine.status())
    }

    /// Whether the peer certainly did not begin to process the call, so that it may be sent again.
    pub fn unprocessed(&self) -> bool {
        self.status().is_some_and(Status::is_unprocessed)
    }

    /// Frees the slot and returns the outcome. A call without one is cancelled, and returns `None`.
    pub fn release(self) -> Option<Status> {
        let status = self.status().cloned();
        self.conn.remove(self.id);
        status
    }
}

impl Behaviour for Client {
    type Machine = ClientCall;
    type State = ClientState;

    fn release_idle(state: &mut ClientState) {
        state.replies.clear();
        state.outcomes.clear();
        state.own_fields = Headers::new();
    }

    fn request(_: &mut Connection<Self>, _: StreamKey, _: Arc<RequestHead>, _: bool, _: Instant) {}

    fn response(conn: &mut Connection<Self>, id: CallId, head: Arc<ResponseHead>, end: bool) {
        let Some(call) = conn.calls.get_mut(id) else { return };
        if call.machine.awaits_reply(end) {
            let reply = conn.state.reply(call.machine.plan(), head);
            call.machine.handle_reply(reply, end);
        } else {
            call.machine.handle_head(Arc::unwrap_or_clone(head), end);
        }
    }

    fn whole_request(_: &mut Connection<Self>, _: StreamKey, _: Arc<RequestHead>, _: Bytes, _: Instant) {}

    #[inline]
    fn whole_response(
        conn: &mut Connection<Self>,
        place: (StreamKey, u32),
        head: Arc<ResponseHead>,
        body: Bytes,
        trailers: Option<Arc<Headers>>,
    ) {
        conn.finish_call(place, head, body, trailers);
    }

    fn trailers(conn: &mut Connection<Self>, id: CallId, trailers: Arc<Headers>) {
        let Some(call) = conn.calls.get_mut(id) else { return };
        conn.state.outcome(trailers, |status| call.machine.handle_outcome(Some(status)));
    }

    fn reset(conn: &mut Connection<Self>, id: CallId, code: ErrorCode, by_peer: bool) {
        if by_peer {
            if let Some(call) = conn.calls.get_mut(id) {
                call.machine.handle_reset(code);
            }
        } else {
            let status = given_up(code, &conn.config);
            conn.fail(id, status);
        }
    }

    fn expire(conn: &mut Connection<Self>, id: CallId) {
        conn.fail(id, Status::from(StreamError::Deadline));
    }

    /// Whatever ended the call, nothing of it is sent any more: a peer that answered early would only
    /// throw it away.
    fn follow(conn: &mut Connection<Self>, id: CallId) {
        let Some(call) = conn.calls.get_mut(id) else { return };
        let Some(status) = call.machine.status() else { return };
        let is_closing = is_closing(status);
        call.is_over = true;
        conn.http.reset(call.stream, call.machine.wants_reset().unwrap_or(ErrorCode::CANCEL));
        if is_closing {
            conn.retire();
        }
    }

    fn connection_lost(conn: &mut Connection<Self>, id: CallId, error: &ConnectionError) {
        conn.fail(id, Status::from_connection(error));
    }

    fn capacity(conn: &mut Connection<Self>) {
        conn.events.push(Event::Capacity);
    }

    fn before_message(_: &mut Connection<Self>, _: CallId) -> Result<(), SendError> {
        Ok(())
    }

    fn cancel(conn: &mut Connection<Self>, id: CallId, code: Code) {
        let status = match code {
            Code::DeadlineExceeded => Status::from(StreamError::Deadline),
            Code::Cancelled => Status::from(StreamError::Cancelled),
            code => Status::new(code, "ended by this side"),
        };
        conn.fail(id, status);
    }
}

/// Why the engine gave a stream up, by the code that it sent.
fn given_up(code: ErrorCode, config: &Config) -> Status {
    match code {
        ErrorCode::ENHANCE_YOUR_CALM => Status::resource_exhausted(format!(
            "the response exceeds max_header_list of {} bytes, max_headers of {}, or max_reserved of {} bytes",
            config.max_header_list, config.max_headers, config.max_reserved
        )),
        ErrorCode::CANCEL => Status::unavailable("the peer took no more of the request within send_stall_timeout")
            .with_origin(Origin::Peer),
        ErrorCode::REFUSED_STREAM => Status::unavailable("no stream id is left on this connection"),
        code => Status::internal(format!("the response is malformed: {code}")).with_origin(Origin::Peer),
    }
}

/// A dubbo-go server that shuts down says so in the trailers of its replies and, some seconds later, cuts the
/// connection: there is no GOAWAY (tri:Q81). What is open may still end well; the next call goes elsewhere.
pub(super) fn is_closing(status: &Status) -> bool {
    let trailers = status.metadata();
    !trailers.is_empty() && trailers.get("closing").is_some_and(|value| value.as_wire() == b"true")
}

/// The machine refuses a single request only for its size.
pub(super) fn open_error(error: SendError) -> OpenError {
    match error {
        SendError::TooLarge { size, limit } => OpenError::TooLarge { size, limit },
        SendError::Codec(error) => OpenError::Codec(error),
        _ => OpenError::Unsupported,
    }
}
