//! Where drivers and handlers run.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use async_executor::Executor;
use smol::Task;

/// The executor of a channel or a server: smol's global one, unless another is handed in.
///
/// Thread-per-core programs make one executor, one server and one channel a core.
#[derive(Clone, Default)]
pub struct Spawner(Inner);

#[derive(Clone, Default)]
enum Inner {
    #[default]
    Global,
    Shared(Arc<Executor<'static>>),
    Static(&'static Executor<'static>),
}

impl Spawner {
    /// Spawns on smol's global executor, whose threads are `SMOL_THREADS` (one by default).
    pub const fn global() -> Self {
        Self(Inner::Global)
    }

    /// Starts a task; dropping it cancels.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, future: F) -> Task<()> {
        match &self.0 {
            Inner::Global => smol::spawn(future),
            Inner::Shared(executor) => executor.spawn(future),
            Inner::Static(executor) => executor.spawn(future),
        }
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
        })
    }
}
