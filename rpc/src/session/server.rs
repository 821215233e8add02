//! The server's end of a session: calls that come in, and their answers.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use trirpc_core::buf::Run;
use trirpc_core::call::{Accepted, Metadata, MethodSpec, Recv, Status};
use trirpc_core::{CallId, CallMut, ErrorCode, Event, Instant, SendError, Server, StreamError};

use super::dispatch::{Dispatch, Start};
use super::send::over;
use super::slots::{Attached, Slot, collect, register};
use super::{SessionRole, Shared, State};
use crate::cancel::Signal;
use crate::compress::{Codings, Compressor};
use crate::intercept::{CallInfo, CallSide, Hooks, Observed};
use crate::raw::{CallKey, Carrier, Half, Outcome, Outgoing, Received};
use crate::server::{Request, Route, Router};

/// What a server keeps beside a call.
#[derive(Debug)]
pub(crate) struct ServerSlot {
    /// The handler's task: woken when the call is over, so that the handler is dropped.
    pub(super) task: Option<Waker>,
    /// Where the call goes, while its single request is not there yet.
    waiting: Option<Route>,
    /// Response headers that were not sent yet, if there are any.
    pub(super) headers: Option<Box<Metadata>>,
    /// The response headers were sent, or are being sent.
    pub(super) is_head_sent: bool,
    /// The peer is gone, the deadline passed, or the connection failed.
    pub(super) is_over: bool,
    /// Tells tasks that the handler started.
    pub(super) signal: Option<Arc<Signal>>,
}

impl ServerSlot {
    /// Whether there is nothing in it to be dropped.
    pub(super) fn is_bare(&self) -> bool {
        self.task.is_none() && self.signal.is_none() && self.headers.is_none()
    }

    /// Response headers that are to be sent now; `None` if they were sent before.
    pub(super) fn take_headers(&mut self) -> Option<Metadata> {
        if mem::replace(&mut self.is_head_sent, true) {
            return None;
        }
        Some(self.headers.take().map_or_else(Metadata::new, |headers| *headers))
    }

    /// Response headers, as long as they can be changed.
    pub(super) fn lend_headers(&mut self) -> Option<Metadata> {
        let headers = self.headers.take();
        (!self.is_head_sent).then(|| headers.map_or_else(Metadata::new, |headers| *headers))
    }

    /// Puts them back, unless they were sent meanwhile.
    pub(super) fn put_headers(&mut self, headers: Metadata) {
        if !self.is_head_sent && !headers.is_empty() {
            self.headers = Some(Box::new(headers));
        }
    }
}

/// What a server's session keeps beside its calls.
#[derive(Debug)]
pub(crate) struct ServerState {
    fixed: Served,
    routes: Routes,
    /// Calls whose handler is to be started by the driver; bounded by the calls of the connection.
    starts: Vec<Start>,
    pub(super) spare: Requests,
}

/// What is served, and to whom.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) router: Arc<Router>,
    pub(crate) peer: Option<Arc<str>>,
}

impl Served {
    pub(crate) fn new(router: Arc<Router>, peer: Option<String>) -> Self {
        Self { router, peer: peer.map(Arc::from) }
    }
}

impl From<Served> for ServerState {
    fn from(fixed: Served) -> Self {
        Self { fixed, routes: Routes::default(), starts: Vec::new(), spare: Requests::default() }
    }
}

/// The ways of the last few heads that the connection shares between calls.
#[derive(Debug, Default)]
struct Routes {
    /// At most [`Routes::LEN`].
    known: Vec<(Arc<Accepted>, Route)>,
    /// Which of them is to be forgotten next, once there are so many.
    oldest: usize,
}

impl Routes {
    const LEN: usize = 8;

    fn find(&mut self, router: &Router, accepted: &Arc<Accepted>) -> Result<Route, Status> {
        let known = self.known.iter().find(|(known, _)| Arc::ptr_eq(known, accepted));
        if let Some((_, route)) = known {
            return Ok(*route);
        }
        let route = router.find(accepted)?;
        // A head that only its call knows does not come again.
        if Arc::strong_count(accepted) > 1 {
            let known = (Arc::clone(accepted), route);
            if self.known.len() < Self::LEN {
                self.known.push(known);
            } else {
                self.known[self.oldest] = known;
                self.oldest = (self.oldest + 1) % Self::LEN;
            }
        }
        Ok(route)
    }
}

/// Memory of requests that were answered, for those to come.
#[derive(Debug, Default)]
pub(super) struct Requests {
    #[expect(clippy::vec_box, reason = "they are moved on as they are")]
    kept: Vec<Box<Request>>,
}

impl Requests {
    /// As many as a turn of the driver mostly finds. Each is 128 bytes with its message's place.
    const LEN: usize = 128;

    /// A request that has nothing but its head.
    fn take(&mut self, accepted: &Arc<Accepted>) -> Box<Request> {
        match self.kept.pop() {
            Some(mut request) => {
                if !Arc::ptr_eq(&request.accepted, accepted) {
                    request.accepted = Arc::clone(accepted);
                }
                request
            }
            None => Box::new(Request::new(Arc::clone(accepted))),
        }
    }

    /// Keeps one that was cleared, and gives it back if there is no room. All are left with one head between them, so that
    /// no more than one outlives its calls.
    pub(super) fn keep(&mut self, mut request: Box<Request>) -> Option<Box<Request>> {
        if self.kept.len() >= Self::LEN {
            return Some(request);
        }
        if let Some(first) = self.kept.first() {
            if !Arc::ptr_eq(&first.accepted, &request.accepted) {
                request.accepted = Arc::clone(&first.accepted);
            }
        }
        self.kept.push(request);
        None
    }
}

impl SessionRole for Server {
    type Slot = ServerSlot;
    type Fixed = Served;
    type Extra = ServerState;
    type Work = Dispatch;

    fn collect(dispatch: &mut Dispatch, state: &mut State<Self>, _: Instant) -> bool {
        dispatch.take(&mut state.extra.starts)
    }

    fn run(dispatch: &mut Dispatch, shared: &Arc<Shared<Self>>) {
        dispatch.run(shared);
    }

    fn release_idle(dispatch: &mut Dispatch, extra: &mut ServerState) {
        dispatch.release_idle();
        extra.starts.shrink_to_fit();
        extra.spare = Requests::default();
        extra.routes = Routes::default();
    }

    fn finished(slot: &mut Slot<ServerSlot>, wakes: &mut Vec<Waker>) {
        slot.role.is_over = true;
        collect(&mut slot.role.task, wakes);
        wakes.extend(slot.role.signal.take().map(Waker::from));
    }

    fn is_told(slot: &Slot<ServerSlot>) -> bool {
        slot.role.waiting.is_some()
    }

    fn tell(state: &mut State<Self>, key: CallKey, event: &Event, now: Instant) {
        match *event {
            Event::Readable(id) => {
                if let Some(slot) = state.slots.find(key) {
                    let (route, compressor) = (slot.role.waiting.take(), slot.codings.compressor());
                    if let Some(route) = route {
                        state.start(key, id, route, compressor);
                    }
                }
            }
            Event::Finished(_) => {
                state.end(key, over(), Metadata::new(), now);
            }
            _ => {}
        }
    }

    fn incoming(state: &mut State<Self>, now: Instant) {
        while let Some(id) = state.conn.accept() {
            state.admit(id, now);
        }
    }

    fn observes(fixed: &Served) -> bool {
        !fixed.router.interceptors().is_none()
    }

    fn before_send(slot: &mut Slot<ServerSlot>, call: &mut CallMut<'_, Self>, now: Instant) -> Result<(), SendError> {
        match slot.role.take_headers() {
            Some(headers) => call.send_head(&headers, now),
            None => Ok(()),
        }
    }

    fn status(_: &CallMut<'_, Self>, _: Option<&str>) -> Option<Status> {
        None
    }
}

impl State<Server> {
    /// Routes a call by its path, and hands it over to the driver, which starts its handler. A call with a single request
    /// waits for it first.
    fn admit(&mut self, id: CallId, now: Instant) {
        let Some(mut call) = self.conn.call(id) else { return };
        let Some(accepted) = call.request() else { return };
        let (router, routes) = (&self.extra.fixed.router, &mut self.extra.routes);
        let route = match routes.find(router, accepted) {
            Ok(route) => route,
            Err(status) => {
                // The peer may have gone meanwhile: then nobody needs the answer.
                let _ = call.finish(&status, &Metadata::new(), now);
                return;
            }
        };
        let (kind, spec) = (route.kind(), route.spec);
        let mut request = self.extra.spare.take(accepted);
        request.deadline = call.deadline();
        let message = call.expect_request(kind, now);
        let waits = kind.is_single_request() && message.is_none();
        if let Some(message) = message {
            request.put_message(message);
        }
        let waiting = waits.then_some(route);
        let slot = ServerSlot { task: None, waiting, headers: None, is_head_sent: false, is_over: false, signal: None };
        let compressions = router.compressions();
        let mut codings = Codings::default();
        if !compressions.is_none() {
            let encoding = call.send_encoding();
            let send = Compressor::new(encoding.and_then(|name| compressions.find(name)));
            request.compressor = send.clone();
            codings = Codings::new(compressions.clone(), send);
            codings.limit(|| self.conn.config().max_recv_message);
        }
        let observed = self.observe(id, spec, now);
        let key = self.slots.insert(id, Attached { codings, observed, waiter: None }, slot);
        if waits {
            request.clear();
            drop(self.extra.spare.keep(request));
        } else {
            self.extra.starts.push(Start { key, route, request });
        }
    }

    /// Hands a call over to the driver whose single request came later than its head.
    fn start(&mut self, key: CallKey, id: CallId, route: Route, compressor: Compressor) {
        let Some(mut call) = self.conn.call(id) else { return };
        let Some(accepted) = call.request() else { return };
        let mut request = self.extra.spare.take(accepted);
        request.deadline = call.deadline();
        request.compressor = compressor;
        // Where there is no message, the handler's glue asks again, and learns why.
        if let Recv::Message(message) = call.recv() {
            request.put_message(message);
        }
        self.extra.starts.push(Start { key, route, request });
    }

    /// The record of a call that interceptors are to see.
    fn observe(&mut self, id: CallId, spec: &'static MethodSpec, now: Instant) -> Option<Box<Observed>> {
        let chain = self.extra.fixed.router.interceptors();
        if chain.is_none() {
            return None;
        }
        let call = self.conn.call(id).filter(|call| call.http().is_none())?;
        let info =
            CallInfo::new(CallSide::Server, spec, call.protocol(), now).with_peer(self.extra.fixed.peer.as_ref());
        let mut hooks = Hooks::new(chain, info);
        hooks.info.timeout = call.deadline().map(|deadline| deadline - now);
        let mut observed = Observed::new(hooks);
        observed.marks.timeline.head_in = Some(now);
        Some(observed)
    }

    /// How a call ended that its handler did not end.
    fn fate(&mut self, id: CallId, now: Instant) -> Status {
        let Some(call) = self.conn.call(id) else { return over() };
        match (call.failure(), call.deadline()) {
            (Some(status), _) => status.clone(),
            (None, Some(deadline)) if deadline <= now => Status::from(StreamError::Deadline),
            _ => Status::cancelled("the client is gone"),
        }
    }

    /// Ends a call with a status, unless it was answered already.
    pub(super) fn end(&mut self, key: CallKey, status: Status, trailers: Metadata, now: Instant) -> Option<Ended> {
        let mut slot = self.slots.remove(key)?;
        let observed = slot.last_observed(now);
        let outcome = match &observed {
            Some(_) if slot.role.is_over => self.fate(slot.id, now),
            Some(_) => status.clone(),
            None => Status::OK,
        };
        Server::finished(&mut slot, &mut self.wakes);
        if let Some(mut call) = self.conn.call(slot.id) {
            if let Some(headers) = slot.role.headers.take() {
                let _ = call.send_head(&headers, now);
            }
            let _ = call.finish(&status, &trailers, now);
        }
        Some(Ended { _slot: slot, observed, outcome })
    }
}

/// A call that is over: to be dropped, or settled, with the lock released.
pub(super) struct Ended {
    pub(super) _slot: Slot<ServerSlot>,
    pub(super) observed: Option<Box<Observed>>,
    /// For the hooks.
    pub(super) outcome: Status,
}

impl Ended {
    /// Tells the interceptors. A panic of theirs must not take the task with it that ends the call, which may be
    /// panicking already.
    pub(super) fn settle(self) {
        if let Some(hooks) = self.observed.and_then(Observed::into_hooks) {
            let _ = catch_unwind(AssertUnwindSafe(|| hooks.on_finish(&self.outcome)));
        }
    }
}

impl Shared<Server> {
    /// Lets interceptors see a response whose head is about to leave.
    pub(super) fn answer(&self, key: CallKey) {
        let taken = self.with(|state, now| {
            let slot = state.slots.find(key)?;
            let hooks = slot.unanswered_hooks()?;
            if let Some(observed) = &mut slot.observed {
                observed.marks.timeline.first_byte_out = Some(now);
            }
            Some((hooks, slot.role.lend_headers().unwrap_or_default()))
        });
        let Some((mut hooks, headers)) = taken else { return };
        let headers = hooks.on_response(headers);
        let lost = self.with(|state, _| {
            let Some(slot) = state.slots.find(key) else { return Some(hooks) };
            slot.role.put_headers(headers);
            if let Some(observed) = &mut slot.observed {
                observed.put_back(hooks);
            }
            None
        });
        drop(lost);
    }
}

impl Carrier for Shared<Server> {
    fn poll_send(&self, key: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if self.observes {
            self.answer(key);
        }
        self.queue(key, message, cx)
    }

    fn flush(&self, key: CallKey) -> Result<(), Status> {
        self.flush_call(key)
    }

    fn finish(&self, _: CallKey) -> Result<(), Status> {
        // A server's call ends with its status, which the handler's return value decides.
        Ok(())
    }

    fn poll_head(&self, key: CallKey, _: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        self.with(|state, _| {
            let id = state.slots.find(key).map(|slot| slot.id);
            let metadata = id.and_then(|id| state.conn.call(id)?.metadata().cloned());
            Poll::Ready(metadata.ok_or_else(over))
        })
    }

    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        let mut inflater = None;
        let poll = self.with_at(self.about_now(), |state, now| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            match call.recv() {
                Recv::Message(message) => {
                    slot.message_received(message.len(), now);
                    inflater = slot.codings.inflater(&message);
                    slot.take_ahead(&mut call, ahead, self.recv_ahead, now);
                    Poll::Ready(Ok(Received::Message(message)))
                }
                Recv::End if call.is_over() => {
                    Poll::Ready(Err(Status::cancelled("the call ended before its last message")))
                }
                Recv::End => Poll::Ready(Ok(Received::End(Metadata::new()))),
                Recv::Blocked if call.is_over() => Poll::Ready(Err(over())),
                Recv::Blocked => {
                    register(&mut slot.recv, cx, &mut state.stale);
                    Poll::Pending
                }
            }
        });
        match (inflater, poll) {
            (Some(inflater), Poll::Ready(Ok(Received::Message(message)))) => {
                Poll::Ready(inflater.inflate(message).map(Received::Message))
            }
            (_, poll) => poll,
        }
    }

    fn poll_outcome(&self, key: CallKey, _: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        self.poll_recv(key, cx, None).map(|received| match received? {
            Received::Message(message) => Ok(Outcome { message, headers: Metadata::new(), trailers: Metadata::new() }),
            Received::End(_) => Err(Status::unimplemented("the call has no request message")),
        })
    }

    fn release(&self, key: CallKey, half: Half, _: bool) {
        // The call ends with its handler; here only a waker may be left behind.
        let wakers = self.with(|state, _| {
            let slot = state.slots.find(key)?;
            let recv = if half == Half::Send { None } else { slot.recv.take() };
            let send = if half == Half::Recv { None } else { slot.send.take() };
            Some((recv, send))
        });
        drop(wakers);
    }
}

/// One served connection. Dropping it changes nothing: the driver serves on.
#[derive(Clone, Debug)]
pub struct ServerSession {
    shared: Arc<Shared<Server>>,
}

impl ServerSession {
    pub(crate) const fn new(shared: Arc<Shared<Server>>) -> Self {
        Self { shared }
    }

    /// Refuses new calls, lets those that run end, then closes; at most `drain_timeout` long.
    pub fn shutdown(&self) {
        self.shared.with(|state, now| state.conn.shutdown(now));
    }

    /// Ends the connection at once, and every call with it.
    pub fn abort(&self, code: ErrorCode) {
        self.shared.with(|state, now| state.conn.abort(code, now));
    }

    /// Calls that came in and were not answered yet.
    pub fn open_calls(&self) -> usize {
        self.shared.with(|state, _| state.slots.len())
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.shared.with(|state, _| state.closed.is_some())
    }
}
