//! Where drivers and handlers run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_executor::Executor;
use smol::Task;

use crate::event_loop::{EventLoop, Handle, Reactor};
use crate::time::SocketTime;

/// The executor of a channel or a server: smol's global one, unless another is handed in.
///
/// An [`EventLoop`] brings its own reactor and timers; the others use smol's.
#[derive(Clone, Default)]
pub struct Spawner(Inner);

#[derive(Clone, Default)]
enum Inner {
    #[default]
    Global,
    Shared(Arc<Executor<'static>>),
    Static(&'static Executor<'static>),
    Loop(Handle),
}

impl Spawner {
    /// Spawns on smol's global executor, whose threads are `SMOL_THREADS` (one by default).
    pub const fn global() -> Self {
        Self(Inner::Global)
    }

    /// Starts a task; dropping it cancels.
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        match &self.0 {
            Inner::Global => smol::spawn(future),
            Inner::Shared(executor) => executor.spawn(future),
            Inner::Static(executor) => executor.spawn(future),
            Inner::Loop(handle) => handle.spawn(future),
        }
    }

    /// Who watches the sockets, if it is not smol.
    pub(crate) const fn reactor(&self) -> Option<&Arc<Reactor>> {
        match &self.0 {
            Inner::Loop(handle) => Some(&handle.reactor),
            Inner::Global | Inner::Shared(_) | Inner::Static(_) => None,
        }
    }

    /// The clock and the timers that go with it.
    pub(crate) fn time(&self) -> SocketTime {
        SocketTime::new(self.reactor().cloned())
    }
}

impl From<&EventLoop> for Spawner {
    fn from(event_loop: &EventLoop) -> Self {
        Self(Inner::Loop(event_loop.handle()))
    }
}

impl From<Arc<Executor<'static>>> for Spawner {
    fn from(executor: Arc<Executor<'static>>) -> Self {
        Self(Inner::Shared(executor))
    }
}

impl From<&'static Executor<'static>> for Spawner {
    fn from(executor: &'static Executor<'static>) -> Self {
        Self(Inner::Static(executor))
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Inner::Global => "Spawner(smol)",
            Inner::Shared(_) | Inner::Static(_) => "Spawner(executor)",
            Inner::Loop(_) => "Spawner(event loop)",
        })
    }
}
