//! The client's end of a session: starting calls and reading their outcome.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use trirpc_core::buf::{FlushPolicy, MessageBuf, Run};
use trirpc_core::call::{CallOptions, Code, Metadata, Origin, Recv, Status};
use trirpc_core::{CallId, CallMut, Client, Connection, Event, Instant, OpenError, SendError};

use super::send::over;
use super::slots::{Attached, Discarded, Slot, register};
use super::{SessionRole, Shared, State};
use crate::compress::Inflater;
use crate::intercept::{Hooks, Observed};
use crate::raw::{CallKey, Carrier, Half, Outcome, Outgoing, Received};

/// Calls that are watched and whose head has not left yet, in the order in which they were made; bounded by the
/// calls of the connection.
pub(crate) type Unwritten = VecDeque<CallKey>;

/// What a client keeps beside a call.
#[derive(Debug, Default)]
pub(crate) struct ClientSlot {
    /// A message that was pulled and not handed out: the single response whose status is still to come,
    /// or the first message of a call that failed behind it.
    message: Option<MessageBuf>,
}

impl SessionRole for Client {
    type Slot = ClientSlot;
    type Fixed = ();
    type Extra = Unwritten;
    type Work = ();

    fn collect((): &mut (), state: &mut State<Self>, now: Instant) -> bool {
        state.mark_written(now);
        false
    }

    fn run((): &mut (), _: &Arc<Shared<Self>>) {}

    fn release_idle((): &mut (), unwritten: &mut Unwritten) {
        unwritten.shrink_to_fit();
    }

    fn finished(_: &mut Slot<ClientSlot>, _: &mut Vec<Waker>) {}

    fn is_told(slot: &Slot<ClientSlot>) -> bool {
        slot.observed.is_some()
    }

    fn tell(state: &mut State<Self>, key: CallKey, event: &Event, now: Instant) {
        let Some(observed) = state.slots.find(key).and_then(|slot| slot.observed.as_mut()) else { return };
        let timeline = &mut observed.marks.timeline;
        match *event {
            Event::Head(_) => timeline.head_in = Some(now),
            Event::Finished(id) => {
                // A head that came with the end has no event of its own.
                if state.conn.call(id).is_some_and(|call| call.metadata().is_some()) {
                    timeline.head_in.get_or_insert(now);
                }
                timeline.finished = Some(now);
            }
            _ => {}
        }
    }

    fn incoming(_: &mut State<Self>, _: Instant) {}

    fn observes((): &()) -> bool {
        false
    }

    fn before_send(_: &mut Slot<ClientSlot>, _: &mut CallMut<'_, Self>, _: Instant) -> Result<(), SendError> {
        Ok(())
    }

    fn status(call: &CallMut<'_, Self>, cause: Option<&str>) -> Option<Status> {
        call.status().filter(|status| !status.is_ok()).map(|status| explained(status.clone(), cause))
    }
}

impl Shared<Client> {
    pub(super) fn open(
        &self,
        options: &CallOptions,
        attached: &mut Attached,
        sent: Option<usize>,
        open: impl FnOnce(&mut State<Client>, Instant) -> Result<CallId, OpenError>,
    ) -> Opened {
        // A deadline must not be early.
        if attached.observed.is_some() || options.flush.is_some_and(FlushPolicy::is_timed) {
            self.watch_time();
        }
        let is_timed = options.timeout.is_some() || attached.observed.is_some();
        let now = if is_timed { self.now() } else { self.lately() };
        self.with_at(now, |state, now| match open(state, now) {
            Ok(id) => {
                let mut attached = mem::take(attached);
                let max_recv = || options.max_recv_message.unwrap_or_else(|| state.conn.config().max_recv_message);
                attached.codings.limit(max_recv);
                let is_observed = attached.observed.is_some();
                if let Some(observed) = &mut attached.observed {
                    observed.marks.session = Some(self.id);
                    observed.marks.timeline.assigned = Some(now);
                    sent.into_iter().for_each(|len| observed.marks.message_sent(len, now));
                }
                let key = state.slots.insert(id, attached, ClientSlot::default());
                if is_observed {
                    state.extra.push_back(key);
                }
                Ok(key)
            }
            Err(error) => Err((open_status(&error, state), error)),
        })
    }

    /// Runs the hooks that see a response, and leaves them to the call again.
    fn answer(&self, key: CallKey, mut hooks: Hooks, metadata: Metadata) -> Metadata {
        let metadata = hooks.on_response(metadata);
        let lost = self.with(|state, _| match state.slots.find(key).and_then(|slot| slot.observed.as_mut()) {
            Some(observed) => {
                observed.put_back(hooks);
                None
            }
            None => Some(hooks),
        });
        drop(lost);
        metadata
    }

    /// Nobody can use the rest of a call that sent a damaged message.
    fn give_up(&self, key: CallKey, status: &Status) {
        let hooks = self.with(|state, now| {
            let slot = state.slots.find(key)?;
            if let Some(mut call) = state.conn.call(slot.id) {
                call.cancel(Code::Cancelled, now);
            }
            slot.last_hooks(now)
        });
        if let Some(hooks) = hooks {
            hooks.on_finish(status);
        }
    }
}

/// The key of the call, or why there is none, as a status and as the core says it.
pub(super) type Opened = Result<CallKey, (Status, OpenError)>;

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

    fn flush(&self, key: CallKey) -> Result<(), Status> {
        self.flush_call(key)
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
        let mut hooks = None;
        let poll = self.with(|state, now| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            let is_failed = call.status().is_some_and(|status| !status.is_ok());
            if is_failed && slot.role.message.is_none() {
                // A call that failed without a message has nothing worth waiting for but its status.
                match call.recv() {
                    Recv::Message(message) => slot.role.message = Some(message),
                    Recv::Blocked | Recv::End => {
                        hooks = slot.last_hooks(now);
                        return Poll::Ready(Err(outcome(&call, state.cause.as_deref())));
                    }
                }
            }
            match call.metadata() {
                Some(metadata) => {
                    hooks = slot.unanswered_hooks();
                    Poll::Ready(Ok(metadata.clone()))
                }
                None if call.status().is_some() => Poll::Ready(Ok(Metadata::new())),
                None => {
                    // Who waits for the answer must not hold back the question.
                    let _ = call.flush(now);
                    register(&mut slot.recv, cx, &mut state.stale);
                    Poll::Pending
                }
            }
        });
        match (hooks, poll) {
            (Some(hooks), Poll::Ready(Ok(metadata))) => Poll::Ready(Ok(self.answer(key, hooks, metadata))),
            (Some(hooks), Poll::Ready(Err(status))) => {
                hooks.on_finish(&status);
                Poll::Ready(Err(status))
            }
            (_, poll) => poll,
        }
    }

    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        let (mut inflater, mut hooks, mut head) = (None, None, None);
        let poll = self.with_at(self.about_now(), |state, now| {
            let Some(slot) = state.slots.find(key) else { return Poll::Ready(Err(over())) };
            let Some(mut call) = state.conn.call(slot.id) else { return Poll::Ready(Err(over())) };
            match slot.role.message.take().map_or_else(|| call.recv(), Recv::Message) {
                Recv::Message(message) => {
                    inflater = slot.codings.inflater(&message);
                    slot.message_received(message.len(), now);
                    slot.take_ahead(&mut call, ahead, self.recv_ahead, now);
                    hooks = slot.unanswered_hooks();
                    head = hooks.as_ref().and_then(|_| call.metadata().cloned());
                    Poll::Ready(Ok(Received::Message(message)))
                }
                Recv::Blocked => {
                    register(&mut slot.recv, cx, &mut state.stale);
                    Poll::Pending
                }
                Recv::End => {
                    hooks = slot.last_hooks(now);
                    head = hooks.as_ref().and_then(|_| call.metadata().cloned());
                    Poll::Ready(match call.status() {
                        Some(status) if status.is_ok() => Ok(Received::End(status.metadata().clone())),
                        _ => Err(outcome(&call, state.cause.as_deref())),
                    })
                }
            }
        });
        match (poll, hooks) {
            (Poll::Ready(Ok(Received::Message(message))), hooks) => {
                if let Some(hooks) = hooks {
                    self.answer(key, hooks, head.unwrap_or_default());
                }
                let Some(inflater) = inflater else { return Poll::Ready(Ok(Received::Message(message))) };
                let inflated = inflater.inflate(message);
                if let Err(status) = &inflated {
                    self.give_up(key, status);
                }
                Poll::Ready(inflated.map(Received::Message))
            }
            (Poll::Ready(end), Some(hooks)) => {
                hooks.on_outcome(head, end.as_ref().err().unwrap_or(&Status::OK));
                Poll::Ready(end)
            }
            (poll, _) => poll,
        }
    }

    fn poll_outcome(&self, key: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        // What the critical section finds is put here, not returned: it is large, and need not be there yet.
        let (mut taken, mut inflater, mut observed, mut released) = (None, None, None, None);
        let is_known = self.with_at(self.about_now(), |state, now| {
            let Some(slot) = state.slots.find(key) else { return true };
            if slot.has_news {
                taken = take_outcome(&mut state.conn, slot, half, now);
                slot.has_news = false;
            }
            let Some(outcome) = &mut taken else {
                register(&mut slot.recv, cx, &mut state.stale);
                return false;
            };
            inflater = outcome.message.as_ref().and_then(|message| slot.codings.inflater(message));
            if !outcome.status.is_ok() {
                outcome.status = explained(mem::take(&mut outcome.status), state.cause.as_deref());
            }
            observed = slot.last_observed(now);
            released = state.forget(key, half);
            true
        });
        // The slot, with whatever waker is in it, is dropped with the lock released.
        drop(released);
        if !is_known {
            return Poll::Pending;
        }
        let Some(hooks) = observed.and_then(Observed::into_hooks) else { return Poll::Ready(whole(taken, inflater)) };
        let answer = whole(taken, inflater);
        match &answer {
            Ok(outcome) => hooks.on_outcome(Some(outcome.headers.clone()), &Status::OK),
            Err(status) => hooks.on_finish(status),
        }
        Poll::Ready(answer)
    }

    fn release(&self, key: CallKey, half: Half, cancel: bool) {
        let (mut released, mut observed) = (None, None);
        self.with(|state, now| {
            released = state.release(key, half, cancel, now);
            observed = released.as_mut().and_then(|released| released.rest.slot.as_mut()?.last_observed(now));
        });
        let hooks = observed.and_then(Observed::into_hooks);
        if let (Some(released), Some(hooks)) = (released, hooks) {
            hooks.on_finish(&released.status.unwrap_or_else(over));
        }
    }
}

/// A copy, which of nothing is cheaper than a clone.
fn owned(metadata: &Metadata) -> Metadata {
    if metadata.is_empty() { Metadata::new() } else { metadata.clone() }
}

/// What a caller gets of an outcome that was taken: a message, inflated, or why there is none.
#[inline]
fn whole(taken: Option<trirpc_core::Outcome>, inflater: Option<Inflater>) -> Result<Outcome, Status> {
    match taken {
        None => Err(over()),
        Some(outcome) if !outcome.status.is_ok() => Err(outcome.status),
        Some(trirpc_core::Outcome { message: Some(message), metadata, status }) => {
            let message = match inflater {
                Some(inflater) => inflater.inflate(message)?,
                None => message,
            };
            Ok(Outcome { message, headers: metadata, trailers: owned(status.metadata()) })
        }
        Some(_) => Err(Status::unimplemented("the peer succeeded without a message").with_origin(Origin::Peer)),
    }
}

/// All there is to know of a call with a single response, which leaves the connection unless another half of it has an
/// owner; `None` while it runs.
fn take_outcome(
    conn: &mut Connection<Client>,
    slot: &mut Slot<ClientSlot>,
    half: Half,
    now: Instant,
) -> Option<trirpc_core::Outcome> {
    if slot.halves.are(half) {
        if let Some(mut outcome) = conn.take_outcome(slot.id) {
            if let Some(message) = &outcome.message {
                slot.message_received(message.len(), now);
            }
            // One that came before the end was pulled where it came.
            outcome.message = outcome.message.or_else(|| slot.role.message.take());
            return Some(outcome);
        }
    }
    let mut call = conn.call(slot.id)?;
    loop {
        match call.recv() {
            Recv::Message(message) => {
                slot.message_received(message.len(), now);
                slot.role.message = Some(message);
            }
            Recv::Blocked => return None,
            Recv::End => break,
        }
    }
    let status = call.status().cloned().unwrap_or_else(over);
    let metadata = call.metadata().map(owned).unwrap_or_default();
    Some(trirpc_core::Outcome { message: slot.role.message.take(), metadata, status })
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
    /// Looks which of the calls that are watched have left by now.
    fn mark_written(&mut self, now: Instant) {
        while let Some(&key) = self.extra.front() {
            if let Some(slot) = self.slots.find(key) {
                let call = self.conn.call(slot.id);
                if call.as_ref().is_some_and(|call| !call.is_written()) {
                    return;
                }
                let observed = slot.observed.as_mut().filter(|_| call.is_some_and(|call| !call.unprocessed()));
                if let Some(observed) = observed {
                    observed.marks.timeline.first_byte_out = Some(now);
                }
            }
            self.extra.pop_front();
        }
    }

    /// The owner of `half` is gone. Returns what is to be dropped once the lock is released.
    fn release(&mut self, key: CallKey, half: Half, cancel: bool, now: Instant) -> Option<Released> {
        if cancel {
            let id = self.slots.find(key)?.id;
            if let Some(mut call) = self.conn.call(id) {
                call.cancel(Code::Cancelled, now);
            }
        }
        self.forget(key, half)
    }

    /// The owner of `half` is gone, and the call has ended or was cancelled. Returns what is to be dropped once the lock
    /// is released.
    fn forget(&mut self, key: CallKey, half: Half) -> Option<Released> {
        let slot = self.slots.find(key)?;
        slot.halves.remove(half);
        if !slot.halves.is_empty() {
            return None;
        }
        // It is gone already if its outcome was taken.
        let status = self.conn.call(slot.id).and_then(CallMut::<Client>::release);
        let rest = self.slots.discard(key, |role| role.message.is_none());
        Some(Released { rest, status })
    }
}

/// A call that nobody holds any more.
struct Released {
    /// What must not be dropped under the lock.
    rest: Discarded<ClientSlot>,
    /// Its outcome, if it was known.
    status: Option<Status>,
}
