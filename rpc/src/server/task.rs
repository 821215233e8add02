//! The task of one call's handler.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use trirpc_core::call::{Metadata, Status};

use super::call::{IncomingCall, Request};
use super::handling::{Handling, Spare};
use super::router::Route;
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
    New(Route, Box<Request>),
    Running(Handling),
    Done,
}

impl ServerTask {
    /// A task that is yet to call the handler.
    pub(crate) const fn new(seat: CallSeat, route: Route, request: Box<Request>) -> Self {
        Self { seat, stage: Stage::New(route, request) }
    }

    /// Calls the handler and gives it one poll. `None` if that was its end; otherwise what is left is to be spawned.
    /// The handler lives in the memory of `spare`, and leaves it there when it is done.
    ///
    /// Nobody is woken by what happens before the task runs, and nobody needs to be: a new task is polled, and its
    /// handler sees then what has happened, or leaves the task's waker.
    pub(crate) fn poll_new(seat: &CallSeat, route: Route, request: Box<Request>, spare: &mut Spare) -> Option<Self> {
        let (mut handling, memory) = (Handling::DONE, mem::take(spare));
        let poll = catch_unwind(AssertUnwindSafe(|| {
            handling = call(seat, route, request, memory);
            Pin::new(&mut handling).poll(&mut Context::from_waker(Waker::noop()))
        }));
        if let Ok(Poll::Pending) = poll {
            return Some(Self { seat: seat.clone(), stage: Stage::Running(handling) });
        }
        *spare = clear(handling);
        settle(seat, poll);
        None
    }

    /// Calls the handler, or lets it go on. User code: it may panic.
    fn advance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.stage = match mem::replace(&mut self.stage, Stage::Done) {
            Stage::New(route, request) => Stage::Running(call(&self.seat, route, request, Spare::default())),
            stage => stage,
        };
        match &mut self.stage {
            Stage::Running(handling) => Pin::new(handling).poll(cx),
            Stage::New(..) | Stage::Done => Poll::Ready(()),
        }
    }

    /// The handler is done or not needed any more.
    fn finish(&mut self) {
        match mem::replace(&mut self.stage, Stage::Done) {
            Stage::Running(handling) => drop(clear(handling)),
            Stage::New(..) | Stage::Done => {}
        }
    }

    fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let over = self.seat.poll_over(cx);
        if over.is_ready() {
            self.finish();
            self.seat.end(Status::cancelled("the call is over"), Metadata::new());
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
        if resumed && this.poll_over(cx).is_ready() {
            return Poll::Ready(());
        }
        match catch_unwind(AssertUnwindSafe(|| this.advance(cx))) {
            Ok(Poll::Pending) if resumed => Poll::Pending,
            Ok(Poll::Pending) => this.poll_over(cx),
            end => {
                this.finish();
                settle(&this.seat, end);
                Poll::Ready(())
            }
        }
    }
}

/// Calls the handler of a call, unless an interceptor refuses it. User code: it may panic.
fn call(seat: &CallSeat, route: Route, request: Box<Request>, spare: Spare) -> Handling {
    match IncomingCall::new(seat.clone(), route.spec, request, spare) {
        Some(call) => seat.router().call(route, call),
        None => Handling::DONE,
    }
}

/// Drops a handler, which may panic too.
fn clear(handling: Handling) -> Spare {
    catch_unwind(AssertUnwindSafe(|| handling.clear())).unwrap_or_default()
}

/// The handler has ended: sees to it that its call was answered.
fn settle(seat: &CallSeat, end: Result<Poll<()>, Box<dyn Any + Send>>) {
    if seat.is_answered() {
        return;
    }
    let status = match end {
        Ok(_) => Status::internal("the handler ended without an answer"),
        Err(panic) => Status::internal(format!("the handler panicked: {}", panic_text(&*panic))),
    };
    seat.end(status, Metadata::new());
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
            self.finish();
            self.seat.end(Status::unavailable("the server dropped the handler"), Metadata::new());
        }
    }
}

impl fmt::Debug for ServerTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTask").field("seat", &self.seat).finish_non_exhaustive()
    }
}
