//! The task of one call's handler.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use trirpc_core::call::{Metadata, Status};

use super::call::{IncomingCall, Request};
use super::router::Route;
use crate::marker::BoxFuture;
use crate::session::CallSeat;

/// Runs a handler to its end, or drops it when its call is over. To be spawned; dropping it ends the call
/// with `Unavailable`.
#[must_use = "a handler runs only when its task is spawned"]
pub struct ServerTask {
    seat: CallSeat,
    stage: Stage,
}

enum Stage {
    /// The handler was not called yet.
    New(Route, Request),
    Running(BoxFuture<'static, ()>),
    Done,
}

impl ServerTask {
    pub(crate) const fn new(seat: CallSeat, route: Route, request: Request) -> Self {
        Self { seat, stage: Stage::New(route, request) }
    }

    /// Gives the handler one poll. `None` if that was its end; otherwise what is left is to be spawned.
    ///
    /// Nobody is woken by what happens before the task runs, and nobody needs to be: a new task is polled, and its
    /// handler sees then what has happened, or leaves the task's waker.
    pub(crate) fn poll_once(mut self) -> Option<Self> {
        match self.poll_handler(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(()) => None,
            Poll::Pending => Some(self),
        }
    }

    /// Calls the handler, or lets it go on, and sees to it that the call is answered when it has ended.
    fn poll_handler(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let outcome = match catch_unwind(AssertUnwindSafe(|| self.advance(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(())) => Ok(()),
            Err(panic) => Err(panic),
        };
        self.finish(|| match outcome {
            Ok(()) => Status::internal("the handler ended without an answer"),
            Err(panic) => Status::internal(format!("the handler panicked: {}", panic_text(&*panic))),
        });
        Poll::Ready(())
    }

    /// User code: it may panic.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::New(route, request) => match IncomingCall::new(self.seat.clone(), route.spec, request) {
                Some(call) => Stage::Running(self.seat.router().call(route, call)),
                None => Stage::Done,
            },
            stage => stage,
        };
        match &mut self.stage {
            Stage::Running(handler) => handler.as_mut().poll(cx),
            Stage::New(..) | Stage::Done => Poll::Ready(()),
        }
    }

    /// Drops the handler, which may panic too, and answers the call if that was not done.
    fn finish(&mut self, status: impl FnOnce() -> Status) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        let _ = catch_unwind(AssertUnwindSafe(move || drop(stage)));
        if !self.seat.is_answered() {
            self.seat.end(status(), Metadata::new());
        }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let over = self.seat.poll_over(cx);
        if over.is_ready() {
            self.finish(|| Status::cancelled("the call is over"));
        }
        over
    }
}

impl Future for ServerTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // A handler that is new is called whatever became of its call.
        let resumed = matches!(this.stage, Stage::Running(_));
        if resumed && this.poll_over(cx).is_ready() || this.poll_handler(cx).is_ready() {
            return Poll::Ready(());
        }
        if resumed { Poll::Pending } else { this.poll_over(cx) }
    }
}

/// What a panic said, where it said it as text.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "no message",
    }
}

impl Drop for ServerTask {
    fn drop(&mut self) {
        if !matches!(self.stage, Stage::Done) {
            self.finish(|| Status::unavailable("the server dropped the handler"));
        }
    }
}

impl fmt::Debug for ServerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTask").field("seat", &self.seat).finish_non_exhaustive()
    }
}
