//! A call that a layer has not made yet.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use trirpc_core::StreamError;
use trirpc_core::buf::Run;
use trirpc_core::call::{Metadata, Status};

use crate::marker::BoxFuture;
use crate::raw::{CallKey, Carrier, Half, Outcome, Outgoing, RawCall, Received};

type Started = (Arc<dyn Carrier>, CallKey);
type Pending<T> = BoxFuture<'static, Result<T, Status>>;

/// Carries one call while its layers run, driven by whoever waits for it.
///
/// The lock is held for moments: the future of the layers is taken out of it to be polled. Two owners may poll, from
/// different tasks; the one who finds the future gone leaves a waker, which the other fires when it puts it back.
pub(super) struct Deferred(Mutex<State>);

struct State {
    stage: Stage,
    /// Ends at the call's deadline.
    sleep: Option<BoxFuture<'static, ()>>,
    recv: Option<Waker>,
    send: Option<Waker>,
    /// Both owners poll at once, and one of them found the layers taken.
    is_awaited: bool,
    is_finished: bool,
    /// Directions whose owner ended as it should.
    released: Vec<Half>,
}

enum Stage {
    /// A unary call: its outcome comes out of the layers.
    Unary(Pending<Outcome>),
    /// Any other call: it comes out of the layers, and goes on by itself.
    Stream(Pending<RawCall>),
    /// Somebody polls the layers.
    Polled,
    Started(Arc<dyn Carrier>, CallKey),
    Failed(Status),
    /// The outcome was handed out.
    Over,
}

/// What a poll of the layers led to.
enum Found {
    Outcome(Outcome),
    Started(Arc<dyn Carrier>, CallKey),
}

impl Deferred {
    /// A unary call; `sleep` ends at its deadline.
    pub(super) fn unary(outcome: Pending<Outcome>, sleep: Option<BoxFuture<'static, ()>>) -> Self {
        Self::new(Stage::Unary(outcome), sleep)
    }

    /// Any other call; `sleep` ends at its deadline.
    pub(super) fn stream(call: Pending<RawCall>, sleep: Option<BoxFuture<'static, ()>>) -> Self {
        Self::new(Stage::Stream(call), sleep)
    }

    fn new(stage: Stage, sleep: Option<BoxFuture<'static, ()>>) -> Self {
        Self(Mutex::new(State {
            stage,
            sleep,
            recv: None,
            send: None,
            is_awaited: false,
            is_finished: false,
            released: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll(&self, half: Half, cx: &mut Context<'_>) -> Poll<Result<Found, Status>> {
        let (mut stage, mut sleep, stale) = {
            let mut state = self.lock();
            match &state.stage {
                Stage::Started(carrier, key) => return Poll::Ready(Ok(Found::Started(Arc::clone(carrier), *key))),
                Stage::Failed(status) => return Poll::Ready(Err(status.clone())),
                Stage::Over => return Poll::Ready(Err(Status::cancelled("the call is over"))),
                Stage::Unary(_) | Stage::Stream(_) | Stage::Polled => {}
            }
            let waker = if half == Half::Send { &mut state.send } else { &mut state.recv };
            let stale = waker.replace(cx.waker().clone());
            state.is_awaited |= matches!(state.stage, Stage::Polled);
            (mem::replace(&mut state.stage, Stage::Polled), state.sleep.take(), stale)
        };
        drop(stale);
        let mut found = None;
        let next = match &mut stage {
            Stage::Unary(outcome) => match outcome.as_mut().poll(cx) {
                Poll::Pending => None,
                Poll::Ready(Ok(outcome)) => {
                    found = Some(outcome);
                    Some(Stage::Over)
                }
                Poll::Ready(Err(status)) => Some(Stage::Failed(status)),
            },
            Stage::Stream(call) => match call.as_mut().poll(cx) {
                Poll::Pending => None,
                Poll::Ready(Ok(call)) => {
                    let (carrier, key) = call.parts();
                    call.give_up();
                    Some(Stage::Started(carrier, key))
                }
                Poll::Ready(Err(status)) => Some(Stage::Failed(status)),
            },
            // The other owner is at it, and wakes this one.
            _ => return Poll::Pending,
        };
        let expired = next.is_none() && sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready());
        let next = next.or_else(|| expired.then(|| Stage::Failed(StreamError::Deadline.into())));
        let is_settled = next.is_some();
        // Outside the lock: these may be of any length.
        let (next, _done) = match next {
            Some(next) => (next, Some((stage, sleep.take()))),
            None => (stage, None),
        };
        self.settle(half, next, sleep, is_settled);
        match found {
            Some(outcome) => Poll::Ready(Ok(Found::Outcome(outcome))),
            None if is_settled => self.poll(half, cx),
            None => Poll::Pending,
        }
    }

    /// Puts the call where it has come to, tells it what its owners did meanwhile, and wakes the other owner.
    fn settle(&self, half: Half, next: Stage, sleep: Option<BoxFuture<'static, ()>>, is_settled: bool) {
        let (owed, other, unwanted) = {
            let mut state = self.lock();
            let wakes_other = is_settled || mem::take(&mut state.is_awaited);
            let other = if half == Half::Send { &mut state.recv } else { &mut state.send };
            let other = if wakes_other { other.take() } else { None };
            match (&state.stage, &next) {
                (Stage::Polled, Stage::Started(carrier, key)) => {
                    let owed = (Arc::clone(carrier), *key, state.is_finished, mem::take(&mut state.released));
                    state.stage = next;
                    (Some(owed), other, None)
                }
                (Stage::Polled, _) => {
                    (state.stage, state.sleep) = (next, sleep);
                    (None, other, None)
                }
                // Cancelled meanwhile.
                _ => (None, other, Some((next, sleep))),
            }
        };
        if let Some((Stage::Started(carrier, key), _)) = &unwanted {
            carrier.release(*key, Half::Both, true);
        }
        drop(unwanted);
        if let Some((carrier, key, is_finished, released)) = owed {
            if is_finished {
                // A failure is the outcome of the call: the receiving side sees it.
                let _ = carrier.finish(key);
            }
            released.into_iter().for_each(|half| carrier.release(key, half, false));
        }
        other.into_iter().for_each(Waker::wake);
    }

    /// The call itself, once there is one.
    fn started(&self, half: Half, cx: &mut Context<'_>) -> Poll<Result<Started, Status>> {
        Poll::Ready(match ready!(self.poll(half, cx))? {
            Found::Started(carrier, key) => Ok((carrier, key)),
            Found::Outcome(_) => Err(Status::internal("a unary call has nothing but its outcome")),
        })
    }
}

impl Carrier for Deferred {
    fn poll_send(&self, _: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let (carrier, key) = ready!(self.started(Half::Send, cx))?;
        carrier.poll_send(key, message, cx)
    }

    fn flush(&self, _: CallKey) -> Result<(), Status> {
        let started = match &self.lock().stage {
            Stage::Started(carrier, key) => (Arc::clone(carrier), *key),
            Stage::Failed(status) => return Err(status.clone()),
            // Nothing was sent yet.
            _ => return Ok(()),
        };
        started.0.flush(started.1)
    }

    fn finish(&self, _: CallKey) -> Result<(), Status> {
        let started = {
            let mut state = self.lock();
            state.is_finished = true;
            match &state.stage {
                Stage::Started(carrier, key) => (Arc::clone(carrier), *key),
                Stage::Failed(status) => return Err(status.clone()),
                _ => return Ok(()),
            }
        };
        started.0.finish(started.1)
    }

    fn poll_head(&self, _: CallKey, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        let (carrier, key) = ready!(self.started(Half::Recv, cx))?;
        carrier.poll_head(key, cx)
    }

    fn poll_recv(&self, _: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        let (carrier, key) = ready!(self.started(Half::Recv, cx))?;
        carrier.poll_recv(key, cx, ahead)
    }

    fn poll_outcome(&self, _: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        match ready!(self.poll(Half::Recv, cx))? {
            Found::Outcome(outcome) => Poll::Ready(Ok(outcome)),
            Found::Started(carrier, key) => carrier.poll_outcome(key, half, cx),
        }
    }

    fn release(&self, _: CallKey, half: Half, cancel: bool) {
        let (started, dropped, wakers) = {
            let mut state = self.lock();
            let started = match &state.stage {
                Stage::Started(carrier, key) => Some((Arc::clone(carrier), *key)),
                _ => None,
            };
            let mut dropped = None;
            if started.is_none() {
                if cancel {
                    let failed = Stage::Failed(Status::cancelled("the call was dropped").with_unprocessed());
                    dropped = Some((mem::replace(&mut state.stage, failed), state.sleep.take()));
                } else {
                    state.released.push(half);
                }
            }
            // The layers may be waiting in the name of an owner that is gone: the other one takes them over.
            (started, dropped, [state.recv.take(), state.send.take()])
        };
        drop(dropped);
        wakers.into_iter().flatten().for_each(Waker::wake);
        if let Some((carrier, key)) = started {
            carrier.release(key, half, cancel);
        }
    }

    fn may_move(&self) -> bool {
        true
    }

    fn moved(&self, _: CallKey) -> Option<(Arc<dyn Carrier>, CallKey)> {
        match &self.lock().stage {
            Stage::Started(carrier, key) => Some((Arc::clone(carrier), *key)),
            _ => None,
        }
    }
}
