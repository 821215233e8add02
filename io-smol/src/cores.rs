//! A server on several threads, each with an event loop, a share of the accept queue, and connections of its own.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::thread;

use smol::channel::{Receiver, Sender, bounded, unbounded};
use smol::future::or;

use crate::event_loop::EventLoop;
use crate::listener::Listener;
use crate::serve::{Served, serve};
use crate::server::Settings;
use crate::spawner::Spawner;

/// What a core tells when it is done.
type Outcome = io::Result<Served>;

/// A signal that is given by dropping its other end.
type Signal = Receiver<()>;

/// Serves each of `shards` by a thread of its own, until `shutdown` or until one of them fails, which stops all.
/// Dropping the future cuts every connection off.
pub(crate) async fn serve_on_cores(
    shards: Vec<Arc<Listener>>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Outcome {
    let (stop, stopped) = bounded::<()>(1);
    let (_hold, released) = bounded::<()>(1);
    let (tell, outcomes) = unbounded();
    let mut running = shards.len();
    let max_connections = settings.max_connections.div_ceil(running.max(1));
    for (n, listener) in shards.into_iter().enumerate() {
        let settings = Settings { max_connections, ..settings.clone() };
        let core = Core { event_loop: EventLoop::new()?, listener, settings, stopped: stopped.clone() };
        let (released, tell) = (released.clone(), tell.clone());
        thread::Builder::new().name(format!("trirpc-{n}")).spawn(move || core.run(&released, &tell))?;
    }
    let mut shutdown = pin!(shutdown);
    let mut stop = Some(stop);
    let mut total = Ok(Served::default());
    while running > 0 {
        let ended = async { outcomes.recv().await.ok() };
        let outcome = match stop {
            Some(_) => {
                let asked = async {
                    shutdown.as_mut().await;
                    None
                };
                or(asked, ended).await
            }
            None => ended.await,
        };
        let Some(outcome) = outcome else {
            stop = None;
            continue;
        };
        running -= 1;
        match (&mut total, outcome) {
            (Ok(total), Ok(served)) => total.add(served),
            (Ok(_), Err(error)) => {
                total = Err(error);
                stop = None;
            }
            (Err(_), _) => {}
        }
    }
    total
}

/// What one thread does.
struct Core {
    event_loop: EventLoop,
    listener: Arc<Listener>,
    settings: Settings,
    stopped: Signal,
}

impl Core {
    fn run(self, released: &Signal, tell: &Sender<Outcome>) {
        let Self { mut event_loop, listener, mut settings, stopped } = self;
        settings.spawner = Spawner::from(&event_loop);
        let served = serve(listener, settings, async move {
            let _ = stopped.recv().await;
        });
        let cut_off = async {
            let _ = released.recv().await;
            Err(io::Error::other("the server was dropped"))
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| event_loop.run(or(cut_off, served))));
        // With everything that it held, before anybody is told that it is over.
        drop(event_loop);
        // Nobody is there to be told if the server was dropped.
        let _ = tell.try_send(outcome.unwrap_or_else(|_| Err(io::Error::other("the thread of a core panicked"))));
    }
}
