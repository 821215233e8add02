//! The client's end of a session: starting calls and reading their outcome.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use trirpc_core::buf::{Encoded, MessageBuf};
use trirpc_core::call::{CallOptions, Code, Compression, Metadata, MethodSpec, Origin, Recv, Status};
use trirpc_core::{CallId, CallMut, Client, ErrorCode, Event, Instant, OpenError, SendError};

use super::send::{is_inline, over};
use super::slots::{Slot, register};
use super::{SessionRole, Shared, State};
use crate::client::{Attached, Invoke, Stack};
use crate::raw::{CallKey, Carrier, Encode, Erased, Half, Outcome, Outgoing, RawCall, Received};

/// What a client keeps beside a call.
#[derive(Debug, Default)]
pub(crate) struct ClientSlot {
    /// A message that was pulled and not handed out: the single response whose status is still to come,
    /// or the first message of a call that failed behind it.
    message: Option<MessageBuf>,
}

impl SessionRole for Client {
    type Slot = ClientSlot;
    type Extra = ();
    type Work = ();

    fn collect((): &mut (), _: &mut State<Self>) -> bool {
        false
    }

    fn run((): &mut (), _: &Arc<Shared<Self>>) {}

    fn finished(_: &mut Slot<ClientSlot>, _: &mut Vec<Waker>) {}

    fn event(_: &mut State<Self>, _: &Event, _: Instant) {}

    fn before_send(_: &mut Slot<ClientSlot>, _: &mut CallMut<'_, Self>, _: Instant) -> Result<(), SendError> {
        Ok(())
    }

    fn status(call: &CallMut<'_, Self>, cause: Option<&str>) -> Option<Status> {
        call.status().filter(|status| !status.is_ok()).map(|status| explained(status.clone(), cause))
    }
}

impl Shared<Client> {
    fn open(
        &self,
        options: &CallOptions,
        attached: &mut Attached,
        open: impl FnOnce(&mut State<Client>, Instant) -> Result<CallId, OpenError>,
    ) -> Opened {
        self.with(|state, now| match open(state, now) {
            Ok(id) => {
                let mut codings = mem::take(&mut attached.codings);
                codings.max_recv = options.max_recv_message.unwrap_or_else(|| state.conn.config().max_recv_message);
                Ok(state.slots.insert(id, codings, ClientSlot::default()))
            }
            Err(error) => Err((open_status(&error, state), error)),
        })
    }

    /// Nobody can use the rest of a call that sent a damaged message.
    fn give_up(&self, key: CallKey) {
        self.with(|state, now| {
            let id = state.slots.find(key).map(|slot| slot.id);
            if let Some(mut call) = id.and_then(|id| state.conn.call(id)) {
                call.cancel(Code::Cancelled, now);
            }
        });
    }
}

/// The key of the call, or why there is none, as a status and as the core says it.
type Opened = Result<CallKey, (Status, OpenError)>;

fn open_status(error: &OpenError, state: &State<Client>) -> Status {
    let status = match error {
        OpenError::NoCapacity => Status::resource_exhausted(format!(
            "{} calls wait for a stream already: start fewer at a time, or raise max_pending",
            state.conn.config().max_pending
        )),
        OpenError::GoingAway => Status::unavailable("the connection is going away").with_origin(Origin::Transport),
        OpenError::Closed => match &state.closed {
            Some(reason) => explained(Status::from_connection(reason), state.cause.as_deref()),
            None => Status::unavailable("the connection is closed").with_origin(Origin::Transport),
        },
        OpenError::Unsupported => Status::unimplemented(error.to_string()),
        OpenError::TooLarge { .. } => Status::resource_exhausted(error.to_string()),
        OpenError::Codec(error) => Status::internal(format!("the request cannot be encoded: {}", error.message())),
        _ => Status::internal(error.to_string()),
    };
    status.with_unprocessed()
}

impl Carrier for Shared<Client> {
    fn poll_send(&self, key: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.queue(key, message, cx)
    }

    fn finish(&self, key: CallKey) -> Result<(), Status> {
        self.with(|state, now| {
            let Some(slot) = state.slots.find(key) else { return Err(over()) };
            let Some(mut call) = state.conn.call(slot.id) else { return Err(over()) };
            match call.finish(now) {
                Ok(()) => Ok(()),
                Err(_) => Client::status(&call, state.cause.as_deref()).map_or(Ok(()), Err),
            }
        })
    }

    fn poll_head(&self, key: CallKey, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        self.with(|state, _| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            let is_failed = call.status().is_some_and(|status| !status.is_ok());
            if is_failed && slot.role.message.is_none() {
                // A call that failed without a message has nothing worth waiting for but its status.
                match call.recv() {
                    Recv::Message(message) => slot.role.message = Some(message),
                    Recv::Blocked | Recv::End => return Poll::Ready(Err(outcome(&call, state.cause.as_deref()))),
                }
            }
            match call.metadata() {
                Some(metadata) => Poll::Ready(Ok(metadata.clone())),
                None if call.status().is_some() => Poll::Ready(Ok(Metadata::new())),
                None => {
                    register(&mut slot.recv, cx, &mut state.stale);
                    Poll::Pending
                }
            }
        })
    }

    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>) -> Poll<Result<Received, Status>> {
        let mut inflater = None;
        let poll = self.with(|state, _| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            match slot.role.message.take().map_or_else(|| call.recv(), Recv::Message) {
                Recv::Message(message) => {
                    inflater = slot.codings.inflater(&message);
                    Poll::Ready(Ok(Received::Message(message)))
                }
                Recv::Blocked => {
                    register(&mut slot.recv, cx, &mut state.stale);
                    Poll::Pending
                }
                Recv::End => Poll::Ready(match call.status() {
                    Some(status) if status.is_ok() => Ok(Received::End(status.metadata().clone())),
                    _ => Err(outcome(&call, state.cause.as_deref())),
                }),
            }
        });
        match (inflater, poll) {
            (Some(inflater), Poll::Ready(Ok(Received::Message(message)))) => {
                let inflated = inflater.inflate(message);
                if inflated.is_err() {
                    self.give_up(key);
                }
                Poll::Ready(inflated.map(Received::Message))
            }
            (_, poll) => poll,
        }
    }

    fn poll_outcome(&self, key: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        let mut inflater = None;
        let poll = self.with(|state, now| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready((Err(over()), None)) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready((Err(over()), None)) };
            loop {
                match call.recv() {
                    Recv::Message(message) => slot.role.message = Some(message),
                    Recv::Blocked => {
                        register(&mut slot.recv, cx, &mut state.stale);
                        return Poll::Pending;
                    }
                    Recv::End => break,
                }
            }
            let answer = match call.status() {
                Some(status) if status.is_ok() => match slot.role.message.take() {
                    Some(message) => {
                        inflater = slot.codings.inflater(&message);
                        let headers = call.metadata().cloned().unwrap_or_default();
                        Ok(Outcome { message, headers, trailers: status.metadata().clone() })
                    }
                    None => {
                        Err(Status::unimplemented("the peer succeeded without a message").with_origin(Origin::Peer))
                    }
                },
                _ => Err(outcome(&call, state.cause.as_deref())),
            };
            Poll::Ready((answer, state.release(key, half, false, now)))
        });
        // The slot, with whatever waker is in it, is dropped with the lock released.
        match (inflater, poll) {
            (Some(inflater), Poll::Ready((Ok(Outcome { message, headers, trailers }), _))) => {
                Poll::Ready(inflater.inflate(message).map(|message| Outcome { message, headers, trailers }))
            }
            (_, poll) => poll.map(|(answer, _)| answer),
        }
    }

    fn release(&self, key: CallKey, half: Half, cancel: bool) {
        let dropped = self.with(|state, now| state.release(key, half, cancel, now));
        drop(dropped);
    }
}

/// The status of a call that has not ended well.
fn outcome(call: &CallMut<'_, Client>, cause: Option<&str>) -> Status {
    Client::status(call, cause).unwrap_or_else(over)
}

/// Adds what the transport said to the status of a call that it failed.
fn explained(status: Status, cause: Option<&str>) -> Status {
    let Some(cause) = cause.filter(|_| status.origin() == Origin::Transport) else { return status };
    let explained = Status::new(status.code(), format!("{}: {cause}", status.message())).with_origin(Origin::Transport);
    if status.is_unprocessed() { explained.with_unprocessed() } else { explained }
}

impl State<Client> {
    /// The owner of `half` is gone. Returns what is to be dropped once the lock is released.
    fn release(&mut self, key: CallKey, half: Half, cancel: bool, now: Instant) -> Option<Slot<ClientSlot>> {
        let slot = self.slots.find(key)?;
        slot.halves.remove(half);
        let (id, gone) = (slot.id, slot.halves.is_empty());
        if cancel {
            if let Some(mut call) = self.conn.call(id) {
                call.cancel(Code::Cancelled, now);
            }
        }
        if !gone {
            return None;
        }
        if let Some(call) = self.conn.call(id) {
            call.release();
        }
        self.slots.remove(key)
    }
}

/// Calls on one connection. Clones share it; the last to go shuts it down gracefully: calls in flight
/// end as they would have.
#[derive(Clone, Debug)]
pub struct ClientSession {
    handle: Arc<Handle>,
    stack: Stack,
}

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared<Client>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.with(|state, now| state.conn.shutdown(now));
    }
}

impl ClientSession {
    pub(crate) fn new(shared: Arc<Shared<Client>>) -> Self {
        Self { handle: Arc::new(Handle { shared }), stack: Stack::default() }
    }

    /// A handle that also offers the server to compress its responses so; the first is preferred.
    #[must_use]
    pub fn accept_compression(mut self, compression: impl Compression + 'static) -> Self {
        self.stack.compressions.accept(Arc::new(compression));
        self
    }

    /// A handle whose messages are compressed so; of several, by the first. As
    /// [`Channel::send_compression`](crate::Channel::send_compression).
    #[must_use]
    pub fn send_compression(mut self, compression: impl Compression + 'static) -> Self {
        let compression: Arc<dyn Compression> = Arc::new(compression);
        // A server may answer a compressed request by the same compression without looking at what is offered.
        self.stack.compressions.accept(Arc::clone(&compression));
        self.stack.compressions.send(compression);
        self
    }

    /// Whether calls may be started: no GOAWAY came or went, and the connection stands.
    pub fn is_open(&self) -> bool {
        self.shared().turn(|state| !state.going_away)
    }

    /// Whether both are handles of one connection.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle, &other.handle)
    }

    /// Calls that were started and whose handles still exist.
    pub fn open_calls(&self) -> usize {
        self.shared().turn(|state| state.slots.len())
    }

    /// Refuses new calls, lets those that run end, then closes; at most `drain_timeout` long.
    pub fn shutdown(&self) {
        self.shared().with(|state, now| state.conn.shutdown(now));
    }

    /// Ends the connection at once, and every call with it.
    pub fn abort(&self, code: ErrorCode) {
        self.shared().with(|state, now| state.conn.abort(code, now));
    }

    /// Tasks that are to be woken by this session: none, when nobody waits.
    pub fn waiting(&self) -> usize {
        self.shared().turn(|state| state.slots.wakers())
    }

    /// Starts a call whose messages follow.
    pub(crate) fn try_start(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let key = self.shared().open(options, attached, |state, now| state.conn.open(method, options, codec, now))?;
        Ok(self.raw(key))
    }

    /// Starts a call with its only request.
    pub(crate) fn try_start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let shared = self.shared();
        if !is_inline(request) || attached.codings.send.wants(request.encoded_len(), shared.compress_min) {
            let encoded = shared.encode(request).map_err(|status| (status, OpenError::Unsupported))?;
            return self.try_start_encoded(method, options, codec, encoded, attached);
        }
        let key = shared.open(options, attached, |state, now| {
            state.conn.open_unary(method, options, &Erased(codec), &request, now)
        })?;
        Ok(self.raw(key))
    }

    /// Starts a call with its only request, encoded before; it is compressed here if the call is.
    pub(crate) fn try_start_encoded(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: Encoded,
        attached: &mut Attached,
    ) -> Result<RawCall, (Status, OpenError)> {
        let shared = self.shared();
        let request = shared.compress(request, &attached.codings.send);
        let request = request.map_err(|status| (status, OpenError::Unsupported))?;
        let kept = request.clone();
        let opened = shared
            .open(options, attached, |state, now| state.conn.open_unary_encoded(method, options, codec, request, now));
        shared.recycle(Some(kept));
        Ok(self.raw(opened?))
    }

    fn raw(&self, key: CallKey) -> RawCall {
        RawCall::new(Arc::clone(self.shared()) as Arc<dyn Carrier>, key)
    }

    fn shared(&self) -> &Arc<Shared<Client>> {
        &self.handle.shared
    }
}

impl Invoke for ClientSession {
    fn start(&self, method: &MethodSpec, options: &CallOptions, codec: &'static str) -> RawCall {
        let started = self.stack.prepare(options).and_then(|(options, mut attached)| {
            self.try_start(method, &options, codec, &mut attached).map_err(|(status, _)| status)
        });
        started.unwrap_or_else(RawCall::failed)
    }

    fn start_unary(
        &self,
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        request: &dyn Encode,
    ) -> RawCall {
        let started = self.stack.prepare(options).and_then(|(options, mut attached)| {
            self.try_start_unary(method, &options, codec, request, &mut attached).map_err(|(status, _)| status)
        });
        started.unwrap_or_else(RawCall::failed)
    }

    fn now(&self) -> Instant {
        self.shared().now()
    }
}
