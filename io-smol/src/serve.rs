//! The accept loop, and the end of it.

use std::collections::HashMap;
use std::future::{Future, pending};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use smol::channel::{Receiver, Sender, unbounded};
use smol::future::{or, yield_now};
use smol::{Task, Timer};
use trirpc_core::{ConnectionError, Timeout};
use trirpc_rpc::{ServerSession, serve_connection};

use crate::accept::{AcceptBackoff, AcceptError};
use crate::listener::{Accepted, Listener};
use crate::server::Settings;

/// How long closing may take after the calls have ended or were cut off: a driver reads what is still
/// under way for at most a second.
const CLOSE_GRACE: Duration = Duration::from_secs(3);

/// What a server did, told when it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were cut off because their calls did not end within the time limit.
    pub cut_off: usize,
}

impl Served {
    /// Counts what another accept loop did as well.
    pub(crate) const fn add(&mut self, other: Self) {
        self.connections += other.connections;
        self.cut_off += other.cut_off;
    }
}

/// What the accept loop was woken by.
enum Turn {
    Shutdown,
    Ended(Ended),
    Accepted(io::Result<Accepted>),
}

pub(crate) async fn serve(
    listener: Arc<Listener>,
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> io::Result<Served> {
    let mut shutdown = pin!(shutdown);
    let acceptor = listener.accept_with(settings.spawner.reactor())?;
    let mut connections = Connections::new(settings);
    let mut backoff = AcceptBackoff::default();
    let mut resume_at = None;
    let failure = loop {
        let is_full = connections.open.len() >= connections.settings.max_connections;
        let accept = async {
            if is_full {
                pending::<()>().await;
            }
            if let Some(at) = resume_at {
                Timer::at(at).await;
            }
            Turn::Accepted(acceptor.accept().await)
        };
        let stop = async {
            shutdown.as_mut().await;
            Turn::Shutdown
        };
        match or(stop, or(connections.next_ended(), accept)).await {
            Turn::Shutdown => break None,
            Turn::Ended(ended) => connections.forget(&ended),
            Turn::Accepted(Ok(accepted)) => {
                backoff.accepted();
                resume_at = None;
                connections.start(accepted);
                // A full queue must not keep what was accepted from being served.
                yield_now().await;
            }
            Turn::Accepted(Err(error)) => match backoff.failed(&error) {
                AcceptError::Connection => {}
                AcceptError::Exhausted(wait) => resume_at = Some(Instant::now() + wait),
                AcceptError::Listener => break Some(error),
            },
        }
    };
    // With the last of those who listen, the system refuses connections for us.
    drop((acceptor, listener));
    let served = connections.drain().await;
    match failure {
        None => Ok(served),
        Some(error) => Err(error),
    }
}

/// The end of one connection's driver. Without a reason its executor is gone.
struct Ended {
    id: u64,
    reason: Option<ConnectionError>,
}

/// The connections that are open. Owned by the accept loop alone.
struct Connections {
    settings: Settings,
    open: HashMap<u64, (ServerSession, Task<()>)>,
    served: Served,
    /// One message for each open connection at most.
    tell: Sender<Ended>,
    ended: Receiver<Ended>,
}

impl Connections {
    fn new(settings: Settings) -> Self {
        let (tell, ended) = unbounded();
        Self { settings, open: HashMap::new(), served: Served::default(), tell, ended }
    }

    fn start(&mut self, accepted: Accepted) {
        self.served.connections += 1;
        // A client that is gone by now is no concern of ours.
        let Ok(socket) = accepted.into_socket() else { return };
        let Settings { router, config, spawner, .. } = &self.settings;
        let handlers = spawner.clone();
        let (session, driver) =
            serve_connection(socket, Arc::clone(router), Arc::clone(config), spawner.time(), move |task| {
                handlers.spawn(task).detach();
            });
        let id = self.served.connections;
        let end = TellEnd { tell: self.tell.clone(), id, reason: None };
        let task = spawner.spawn(Told { driver, end });
        self.open.insert(id, (session, task));
    }

    async fn next_ended(&self) -> Turn {
        match self.ended.recv().await {
            Ok(ended) => Turn::Ended(ended),
            // We hold a sender ourselves.
            Err(_) => pending().await,
        }
    }

    fn forget(&mut self, ended: &Ended) {
        self.open.remove(&ended.id);
        if ended.reason == Some(ConnectionError::Timeout(Timeout::Drain)) {
            self.served.cut_off += 1;
        }
    }

    /// Ends every connection gracefully; each of them knows the time limit itself.
    async fn drain(mut self) -> Served {
        self.open.values().for_each(|(session, _)| session.shutdown());
        let limit = self.settings.config.drain_timeout;
        let give_up = async {
            match limit {
                Some(limit) => Timer::after(limit.saturating_add(CLOSE_GRACE)).await,
                None => pending().await,
            };
        };
        let mut give_up = pin!(give_up);
        while !self.open.is_empty() {
            let late = async {
                give_up.as_mut().await;
                Turn::Shutdown
            };
            match or(self.next_ended(), late).await {
                Turn::Ended(ended) => self.forget(&ended),
                // Peers that do not even take our last bytes. Dropping the tasks closes their sockets.
                _ => break,
            }
        }
        self.served.cut_off += self.open.len();
        self.served
    }
}

/// A connection's driver, and who is told how it ended. An `async` block would hold the driver twice.
struct Told<D> {
    driver: D,
    end: TellEnd,
}

impl<D: Future<Output = ConnectionError> + Unpin> Future for Told<D> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let reason = ready!(Pin::new(&mut self.driver).poll(cx));
        self.end.reason = Some(reason);
        Poll::Ready(())
    }
}

/// Tells the accept loop of the end of a connection, also when its task is dropped.
struct TellEnd {
    tell: Sender<Ended>,
    id: u64,
    reason: Option<ConnectionError>,
}

impl Drop for TellEnd {
    fn drop(&mut self) {
        // The loop may be gone itself.
        let _ = self.tell.try_send(Ended { id: self.id, reason: self.reason.take() });
    }
}
