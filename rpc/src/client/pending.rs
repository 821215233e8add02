//! A call that waits for a connection.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use trirpc_core::Instant;
use trirpc_core::buf::{Encoded, Run};
use trirpc_core::call::{CallOptions, Metadata, MethodSpec, Status};

use crate::marker::BoxFuture;
use crate::raw::{CallKey, Carrier, Half, Outcome, Outgoing, RawCall, Received};
use crate::session::{Attached, ClientSession};

/// What to start once there is a connection.
pub(crate) struct Request {
    pub(crate) method: MethodSpec,
    pub(crate) options: CallOptions,
    pub(crate) codec: &'static str,
    /// The only message of a call that has one, encoded when the call was made.
    pub(crate) message: Option<Encoded>,
    pub(crate) attached: Attached,
}

impl Request {
    fn start(mut self, session: &ClientSession, now: Instant) -> RawCall {
        let attached = &mut self.attached;
        let started = match self.message {
            Some(message) => session.try_start_encoded(&self.method, &self.options, self.codec, message, attached),
            None => session.try_start(&self.method, &self.options, self.codec, attached),
        };
        started.unwrap_or_else(|(status, _)| {
            attached.abandon(Some(now), &status);
            RawCall::failed(status)
        })
    }
}

/// Carries one call from before there is a connection until its owners have moved to the session.
///
/// Its lock is held for moments only: neither a session, nor a waker, nor the timer is touched under it.
pub(crate) struct PendingCall {
    state: Mutex<State>,
    deadline: Option<Instant>,
    waits_for_ready: bool,
}

struct State {
    stage: Stage,
    recv: Option<Waker>,
    send: Option<Waker>,
    /// Ends at the deadline: no connection exists yet that could fire it.
    sleep: Option<BoxFuture<'static, ()>>,
    /// The send side was finished before there was anybody to tell.
    is_finished: bool,
    /// Directions whose owner ended as it should, before there was anybody to tell.
    released: Vec<Half>,
}

enum Stage {
    Waiting(Box<Request>),
    /// Somebody took the request and starts it.
    Starting,
    Started(Arc<dyn Carrier>, CallKey),
    Failed(Status),
}

impl Stage {
    /// A request that is never started: nobody asks for its outcome any more but those who watch.
    fn abandon(self, now: Option<Instant>, status: &Status) {
        if let Self::Waiting(mut request) = self {
            request.attached.abandon(now, status);
        }
    }
}

/// What an operation finds.
enum Found {
    Waits,
    Started(Arc<dyn Carrier>, CallKey),
    Failed(Status),
}

impl PendingCall {
    /// `sleep` ends at `deadline`.
    pub(crate) fn new(
        request: Request,
        deadline: Option<Instant>,
        sleep: Option<BoxFuture<'static, ()>>,
        waits_for_ready: bool,
    ) -> Arc<Self> {
        let stage = Stage::Waiting(Box::new(request));
        let state = State { stage, recv: None, send: None, sleep, is_finished: false, released: Vec::new() };
        Arc::new(Self { state: Mutex::new(state), deadline, waits_for_ready })
    }

    /// Whether a failed attempt leaves it waiting.
    pub(crate) const fn waits_for_ready(&self) -> bool {
        self.waits_for_ready
    }

    /// Whether it is still to be started.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.lock().stage, Stage::Waiting(_))
    }

    /// Starts the call on `session`, with what remains of its time; nothing if nobody waits any more.
    pub(crate) fn start(&self, session: &ClientSession, now: Instant) {
        let mut request = {
            let mut state = self.lock();
            match mem::replace(&mut state.stage, Stage::Starting) {
                Stage::Waiting(request) => request,
                other => {
                    state.stage = other;
                    return;
                }
            }
        };
        if let Some(deadline) = self.deadline {
            request.options.timeout = Some(deadline - now);
        }
        let call = request.start(session, now);
        let (carrier, key) = call.parts();
        let owed = self.change(|state| {
            state.sleep = None;
            if !matches!(state.stage, Stage::Starting) {
                // Cancelled meanwhile.
                return None;
            }
            state.stage = Stage::Started(Arc::clone(&carrier), key);
            Some((state.is_finished, mem::take(&mut state.released)))
        });
        // Dropped here, the call is cancelled.
        let Some((is_finished, released)) = owed else { return };
        call.give_up();
        if is_finished {
            // A failure is the outcome of the call: the receiving side sees it.
            let _ = carrier.finish(key);
        }
        released.into_iter().for_each(|half| carrier.release(key, half, false));
    }

    /// Ends the call if it still waits: the peer has not seen it.
    pub(crate) fn fail(&self, status: &Status, now: Option<Instant>) {
        let status = status.clone().with_unprocessed();
        let failed = self.change(|state| {
            matches!(state.stage, Stage::Waiting(_))
                .then(|| mem::replace(&mut state.stage, Stage::Failed(status.clone())))
        });
        if let Some(stage) = failed {
            stage.abandon(now, &status);
        }
    }

    /// What the call has come to. If it waits, `half` is woken when that changes, at the latest at the
    /// deadline.
    fn look(&self, half: Half, cx: &mut Context<'_>) -> Found {
        let (found, sleep, stale) = {
            let mut state = self.lock();
            let found = state.found();
            let mut stale = None;
            if matches!(found, Found::Waits) {
                let waker = if half == Half::Send { &mut state.send } else { &mut state.recv };
                stale = waker.replace(cx.waker().clone());
            }
            (found, state.sleep.take(), stale)
        };
        drop(stale);
        let Some(mut sleep) = sleep.filter(|_| matches!(found, Found::Waits)) else { return found };
        if sleep.as_mut().poll(cx).is_ready() {
            let status = Status::deadline_exceeded("the deadline passed while the call waited for a connection");
            self.fail(&status, self.deadline);
        } else {
            self.lock().sleep = Some(sleep);
        }
        self.lock().found()
    }

    /// Changes the state, and wakes both owners once the lock is released.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        let (recv, send) = (state.recv.take(), state.send.take());
        drop(state);
        recv.into_iter().chain(send).for_each(Waker::wake);
        result
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn found(&self) -> Found {
        match &self.stage {
            Stage::Waiting(_) | Stage::Starting => Found::Waits,
            Stage::Started(carrier, key) => Found::Started(Arc::clone(carrier), *key),
            Stage::Failed(status) => Found::Failed(status.clone()),
        }
    }
}

impl Carrier for PendingCall {
    fn poll_send(&self, _: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match self.look(Half::Send, cx) {
            Found::Waits => Poll::Pending,
            Found::Started(carrier, key) => carrier.poll_send(key, message, cx),
            Found::Failed(status) => Poll::Ready(Err(status)),
        }
    }

    fn flush(&self, _: CallKey) -> Result<(), Status> {
        let found = self.lock().found();
        match found {
            // Nothing was sent yet.
            Found::Waits => Ok(()),
            Found::Started(carrier, key) => carrier.flush(key),
            Found::Failed(status) => Err(status),
        }
    }

    fn finish(&self, _: CallKey) -> Result<(), Status> {
        let found = {
            let mut state = self.lock();
            state.is_finished = true;
            state.found()
        };
        match found {
            Found::Waits => Ok(()),
            Found::Started(carrier, key) => carrier.finish(key),
            Found::Failed(status) => Err(status),
        }
    }

    fn poll_head(&self, _: CallKey, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        match self.look(Half::Recv, cx) {
            Found::Waits => Poll::Pending,
            Found::Started(carrier, key) => carrier.poll_head(key, cx),
            Found::Failed(status) => Poll::Ready(Err(status)),
        }
    }

    fn poll_recv(&self, _: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        match self.look(Half::Recv, cx) {
            Found::Waits => Poll::Pending,
            Found::Started(carrier, key) => carrier.poll_recv(key, cx, ahead),
            Found::Failed(status) => Poll::Ready(Err(status)),
        }
    }

    fn poll_outcome(&self, _: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        match self.look(Half::Recv, cx) {
            Found::Waits => Poll::Pending,
            Found::Started(carrier, key) => carrier.poll_outcome(key, half, cx),
            Found::Failed(status) => Poll::Ready(Err(status)),
        }
    }

    fn release(&self, _: CallKey, half: Half, cancel: bool) {
        let (found, dropped) = self.change(|state| {
            let found = state.found();
            let mut dropped = None;
            match (&found, cancel) {
                (Found::Waits, true) => {
                    let failed = Stage::Failed(Status::cancelled("the call was dropped").with_unprocessed());
                    dropped = Some((mem::replace(&mut state.stage, failed), state.sleep.take()));
                }
                (Found::Waits, false) => state.released.push(half),
                _ => {}
            }
            (found, dropped)
        });
        if let Some((stage, _sleep)) = dropped {
            stage.abandon(None, &Status::cancelled("the call was dropped"));
        }
        if let Found::Started(carrier, key) = found {
            carrier.release(key, half, cancel);
        }
    }

    fn may_move(&self) -> bool {
        true
    }

    fn moved(&self, _: CallKey) -> Option<(Arc<dyn Carrier>, CallKey)> {
        match self.lock().found() {
            Found::Started(carrier, key) => Some((carrier, key)),
            _ => None,
        }
    }
}
