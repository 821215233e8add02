//! The server's end of a session: calls that come in, and their answers.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use trirpc_core::call::{Metadata, Protocol, Recv, Status};
use trirpc_core::{CallId, CallMut, ErrorCode, Event, Instant, SendError, Server};

use super::send::{is_inline, over};
use super::slots::{Slot, collect, register};
use super::{SessionRole, Shared, State};
use crate::cancel::Signal;
use crate::compress::{Codings, Compressor};
use crate::marker::MaybeSend;
use crate::raw::{CallKey, Carrier, Encode, Erased, Half, Outcome, Outgoing, Received};
use crate::server::{Route, Router, ServerTask};

/// What a server keeps beside a call.
#[derive(Debug)]
pub(crate) struct ServerSlot {
    /// The handler's task: woken when the call is over, so that the handler is dropped.
    task: Option<Waker>,
    /// Where the call goes, while its single request is not there yet.
    waiting: Option<Route>,
    /// Response headers that were not sent yet; `None` once they were.
    headers: Option<Metadata>,
    /// The peer is gone, the deadline passed, or the connection failed.
    is_over: bool,
    /// Tells tasks that the handler started.
    signal: Option<Arc<Signal>>,
}

/// What a server's session keeps beside its calls.
#[derive(Debug)]
pub(crate) struct ServerState {
    router: Arc<Router>,
    peer: Option<Arc<str>>,
    /// Calls whose handler is to be started by the driver; bounded by the calls of the connection.
    starts: Vec<Start>,
}

impl ServerState {
    pub(crate) fn new(router: Arc<Router>, peer: Option<String>) -> Self {
        Self { router, peer: peer.map(Arc::from), starts: Vec::new() }
    }
}

/// A call whose handler is to be started.
#[derive(Debug)]
pub(crate) struct Start {
    key: CallKey,
    route: Route,
}

/// How a server's driver starts handlers.
pub(crate) struct Dispatch {
    starts: Vec<Start>,
    spawn: SpawnFn,
}

#[cfg(not(target_family = "wasm"))]
type SpawnFn = Box<dyn FnMut(ServerTask) + Send>;
#[cfg(target_family = "wasm")]
type SpawnFn = Box<dyn FnMut(ServerTask)>;

impl Dispatch {
    pub(crate) fn new(spawn: impl FnMut(ServerTask) + MaybeSend + 'static) -> Self {
        Self { starts: Vec::new(), spawn: Box::new(spawn) }
    }
}

impl SessionRole for Server {
    type Slot = ServerSlot;
    type Extra = ServerState;
    type Work = Dispatch;

    fn collect(dispatch: &mut Dispatch, state: &mut State<Self>) -> bool {
        dispatch.starts.append(&mut state.extra.starts);
        !dispatch.starts.is_empty()
    }

    fn run(dispatch: &mut Dispatch, shared: &Arc<Shared<Self>>) {
        for Start { key, route } in dispatch.starts.drain(..) {
            (dispatch.spawn)(ServerTask::new(CallSeat { shared: Arc::clone(shared), key }, route));
        }
    }

    fn finished(slot: &mut Slot<ServerSlot>, wakes: &mut Vec<Waker>) {
        slot.role.is_over = true;
        collect(&mut slot.role.task, wakes);
        wakes.extend(slot.role.signal.take().map(Waker::from));
    }

    fn event(state: &mut State<Self>, event: &Event, now: Instant) {
        match *event {
            Event::Incoming => {
                while let Some(id) = state.conn.accept() {
                    state.admit(id, now);
                }
            }
            Event::Readable(id) => {
                if let Some((key, slot)) = state.slots.by_id(id) {
                    if let Some(route) = slot.role.waiting.take() {
                        state.extra.starts.push(Start { key, route });
                    }
                }
            }
            Event::Finished(id) => {
                let never_started = state.slots.by_id(id).filter(|(_, slot)| slot.role.waiting.is_some());
                if let Some(key) = never_started.map(|(key, _)| key) {
                    state.end(key, over(), Metadata::new(), now);
                }
            }
            _ => {}
        }
    }

    fn before_send(slot: &mut Slot<ServerSlot>, call: &mut CallMut<'_, Self>, now: Instant) -> Result<(), SendError> {
        match slot.role.headers.take() {
            Some(headers) => call.send_head(&headers, now),
            None => Ok(()),
        }
    }

    fn status(_: &CallMut<'_, Self>, _: Option<&str>) -> Option<Status> {
        None
    }
}

impl State<Server> {
    /// Routes a call by its path. A call with a single request waits for it.
    fn admit(&mut self, id: CallId, now: Instant) {
        let Some(mut call) = self.conn.call(id) else { return };
        let route = match self.extra.router.find(call.path(), &call.variant()) {
            Ok(route) => route,
            Err(status) => {
                // The peer may have gone meanwhile: then nobody needs the answer.
                let _ = call.finish(&status, &Metadata::new(), now);
                return;
            }
        };
        let kind = route.kind();
        call.expect(kind, now);
        let waits = kind.is_single_request();
        let (waiting, start) = if waits { (Some(route), None) } else { (None, Some(route)) };
        let slot = ServerSlot { task: None, waiting, headers: Some(Metadata::new()), is_over: false, signal: None };
        let compressions = self.extra.router.compressions();
        let mut codings = Codings::default();
        if !compressions.is_none() {
            let encoding = self.conn.call(id).and_then(|call| call.send_encoding());
            codings.send = Compressor::new(encoding.and_then(|name| compressions.find(name)));
            codings.accept = compressions.clone();
            codings.max_recv = self.conn.config().max_recv_message;
        }
        let key = self.slots.insert(id, codings, slot);
        self.extra.starts.extend(start.map(|route| Start { key, route }));
    }

    /// Ends a call with a status, unless it was answered already. Returns what is to be dropped once the
    /// lock is released.
    fn end(&mut self, key: CallKey, status: Status, trailers: Metadata, now: Instant) -> Option<Slot<ServerSlot>> {
        let mut slot = self.slots.remove(key)?;
        Server::finished(&mut slot, &mut self.wakes);
        if let Some(mut call) = self.conn.call(slot.id) {
            let headers = slot.role.headers.take().filter(|headers| !headers.is_empty());
            if let Some(headers) = headers {
                let _ = call.send_head(&headers, now);
            }
            let _ = call.finish(&status, &trailers, now);
        }
        Some(slot)
    }
}

impl Carrier for Shared<Server> {
    fn poll_send(&self, key: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.queue(key, message, cx)
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

    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>) -> Poll<Result<Received, Status>> {
        let mut inflater = None;
        let poll = self.with(|state, _| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            match call.recv() {
                Recv::Message(message) => {
                    inflater = slot.codings.inflater(&message);
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
        self.poll_recv(key, cx).map(|received| match received? {
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

/// One call on a server, as its handler's task sees it.
#[derive(Clone, Debug)]
pub(crate) struct CallSeat {
    shared: Arc<Shared<Server>>,
    key: CallKey,
}

/// What a call brought with it.
#[derive(Debug)]
pub(crate) struct RequestInfo {
    pub(crate) metadata: Metadata,
    pub(crate) deadline: Option<Instant>,
    pub(crate) protocol: Protocol,
    pub(crate) codec: String,
    pub(crate) peer: Option<Arc<str>>,
    pub(crate) compressor: Compressor,
}

impl CallSeat {
    pub(crate) fn now(&self) -> Instant {
        self.shared.now()
    }

    /// The call's carrier and key, for its typed halves.
    pub(crate) fn carrier(&self) -> (Arc<dyn Carrier>, CallKey) {
        (Arc::clone(&self.shared) as Arc<dyn Carrier>, self.key)
    }

    /// `None` once the call is over.
    pub(crate) fn request(&self) -> Option<RequestInfo> {
        self.shared.with(|state, _| {
            let slot = state.slots.find(self.key)?;
            let call = state.conn.call(slot.id)?;
            Some(RequestInfo {
                metadata: call.metadata().cloned().unwrap_or_default(),
                deadline: call.deadline(),
                protocol: call.protocol(),
                codec: call.codec_name().to_owned(),
                peer: state.extra.peer.clone(),
                compressor: slot.codings.send.clone(),
            })
        })
    }

    /// Takes the response headers for changing them; `None` once they were sent.
    pub(crate) fn take_headers(&self) -> Option<Metadata> {
        self.shared.with(|state, _| state.slots.find(self.key)?.role.headers.as_mut().map(std::mem::take))
    }

    /// Puts them back, unless they were sent meanwhile.
    pub(crate) fn put_headers(&self, headers: Metadata) {
        self.shared.with(|state, _| {
            if let Some(kept) = state.slots.find(self.key).and_then(|slot| slot.role.headers.as_mut()) {
                *kept = headers;
            }
        });
    }

    /// The signal of the call's end; one that has fired if it is over.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.shared.with(|state, _| match state.slots.find(self.key) {
            Some(slot) if !slot.role.is_over => Arc::clone(slot.role.signal.get_or_insert_default()),
            _ => Arc::new(Signal::fired()),
        })
    }

    /// Whether the handler's task should stop; otherwise it is woken when it should.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.with(|state, _| match state.slots.find(self.key) {
            Some(slot) if !slot.role.is_over => {
                register(&mut slot.role.task, cx, &mut state.stale);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
    }

    /// Compresses no further message of the response.
    pub(crate) fn disable_compression(&self) {
        self.shared.with(|state, _| {
            if let Some(slot) = state.slots.find(self.key) {
                slot.codings.send = Compressor::default();
            }
        });
    }

    /// Answers with the only response: head, message and trailers leave in one run.
    pub(crate) fn respond(&self, message: &dyn Encode, compressor: &Compressor, trailers: Metadata) {
        let shared = &self.shared;
        let encoded = if is_inline(message) && !compressor.wants(message.encoded_len(), shared.compress_min) {
            Ok(None)
        } else {
            shared.encode(message).and_then(|plain| shared.compress(plain, compressor)).map(Some)
        };
        let mut encoded = match encoded {
            Ok(encoded) => encoded,
            Err(status) => return self.end(status, trailers),
        };
        let kept = encoded.clone();
        let dropped = self.shared.with(|state, now| {
            let slot = state.slots.find(self.key)?;
            if slot.role.is_over {
                return state.end(self.key, over(), trailers, now);
            }
            let headers = slot.role.headers.take().unwrap_or_default();
            let id = slot.id;
            let mut slot = state.slots.remove(self.key);
            if let Some(slot) = &mut slot {
                Server::finished(slot, &mut state.wakes);
            }
            let call = state.conn.call(id)?;
            let sent = match encoded.take() {
                Some(encoded) => call.respond_encoded(encoded, &headers, &trailers, now),
                None => call.respond(&Erased(""), &message, &headers, &trailers, now),
            };
            // The core answers for a codec that failed; a call that has ended needs no answer.
            drop(sent);
            slot
        });
        drop(dropped);
        self.shared.recycle(kept);
    }

    /// Ends the call, unless it was answered already: its codec is none of `offered`, which are all.
    pub(crate) fn refuse_codec(&self, offered: &[&str]) {
        let dropped = self.shared.with(|state, now| {
            let id = state.slots.find(self.key).map(|slot| slot.id);
            if let Some(call) = id.and_then(|id| state.conn.call(id)) {
                call.refuse_codec(offered, now);
            }
            state.end(self.key, over(), Metadata::new(), now)
        });
        drop(dropped);
    }

    /// Ends the call, unless it was answered already.
    pub(crate) fn end(&self, status: Status, trailers: Metadata) {
        let dropped = self.shared.with(|state, now| state.end(self.key, status, trailers, now));
        drop(dropped);
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
