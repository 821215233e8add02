//! The task of one call's handler.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use trirpc_core::call::{Metadata, Status};

use super::call::IncomingCall;
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
    New(Route),
    Running(BoxFuture<'static, ()>),
    Done,
}

impl ServerTask {
    pub(crate) const fn new(seat: CallSeat, route: Route) -> Self {
        Self { seat, stage: Stage::New(route) }
    }

    /// Calls the handler, or lets it go on. User code: it may panic.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Stage::New(route) = &self.stage {
            let Some(call) = IncomingCall::new(self.seat.clone(), route.spec) else { return Poll::Ready(()) };
            self.stage = Stage::Running(route.service.clone().call(route.method, call));
        }
        match &mut self.stage {
            Stage::Running(handler) => handler.as_mut().poll(cx),
            Stage::New(_) | Stage::Done => Poll::Ready(()),
        }
    }

    /// Drops the handler, which may panic too, and makes sure that the call was answered.
    fn finish(&mut self, status: Status) {
        let stage = std::mem::replace(&mut self.stage, Stage::Done);
        let _ = catch_unwind(AssertUnwindSafe(move || drop(stage)));
        self.seat.end(status, Metadata::new());
    }
}

impl Future for ServerTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let resumed = matches!(this.stage, Stage::Running(_));
        if resumed && this.seat.poll_over(cx).is_ready() {
            this.finish(Status::cancelled("the call is over"));
            return Poll::Ready(());
        }
        match catch_unwind(AssertUnwindSafe(|| this.advance(cx))) {
            Ok(Poll::Pending) => {
                if !resumed && this.seat.poll_over(cx).is_ready() {
                    this.finish(Status::cancelled("the call is over"));
                    return Poll::Ready(());
                }
                Poll::Pending
            }
            Ok(Poll::Ready(())) => {
                this.finish(Status::internal("the handler ended without an answer"));
                Poll::Ready(())
            }
            Err(panic) => {
                this.finish(Status::internal(format!("the handler panicked: {}", panic_text(&*panic))));
                Poll::Ready(())
            }
        }
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
            self.finish(Status::unavailable("the server dropped the handler"));
        }
    }
}

impl fmt::Debug for ServerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTask").field("seat", &self.seat).finish_non_exhaustive()
    }
}
