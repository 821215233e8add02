//! A closed loop of calls against any server of `bench.Echo`.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_executor::Executor;
use serde_json::json;
use smol::Timer;
use trirpc::smol::Spawner;
use trirpc::{Channel, Config, Connect, EventLoop, Status};
use trirpc_meter::{Report, Window};

use crate::echo::{Operation, call_lent};
use crate::lent::{self, EchoMsg};
use crate::proto::echo_client::EchoClient;
use crate::serve::MAX_MESSAGE;

/// How long a load lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// So many operations, all of them measured.
    Calls(u64),
    /// A time to warm up, and a time to measure.
    Time {
        /// Not measured.
        warm: Duration,
        /// Measured.
        measured: Duration,
    },
}

/// Who watches the sockets and runs what waits for them, on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Io {
    /// smol's reactor and an executor.
    #[default]
    Smol,
    /// An [`EventLoop`].
    Loop,
}

impl Io {
    /// As they are written on a command line.
    pub const NAMES: [&'static str; 2] = ["smol", "loop"];
}

impl std::str::FromStr for Io {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        match name {
            "smol" => Ok(Self::Smol),
            "loop" => Ok(Self::Loop),
            _ => Err(()),
        }
    }
}

/// What is called, how, and how often.
#[derive(Clone, Debug)]
pub struct Load {
    /// `host:port`.
    pub addr: String,
    /// The server's process, whose CPU time and allocations are reported; 0 for none.
    pub server_pid: u32,
    /// Connections.
    pub connections: usize,
    /// Callers over all connections; each waits for one operation before it starts the next.
    pub callers: usize,
    /// By what means.
    pub io: Io,
    /// How long an event loop polls for news before it sleeps, at most; its own choice if absent.
    pub busy_poll: Option<Duration>,
    /// What each caller does.
    pub operation: Operation,
    /// Unary calls with payloads that are `Bytes`, in place of the operation.
    pub lends: bool,
    /// When it is over.
    pub length: Length,
}

/// What the callers have in common.
struct Shared {
    window: Window,
    /// Operations that may still be started.
    left: u64,
}

/// Runs the load on one thread.
///
/// # Errors
/// There is no server, or an operation failed.
pub fn run(load: &Load) -> Result<Report, Status> {
    match load.io {
        Io::Smol => {
            let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
            smol::block_on(executor.run(drive(load, executor.into())))
        }
        Io::Loop => {
            let mut event_loop = EventLoop::new().map_err(|error| Status::internal(error.to_string()))?;
            if let Some(limit) = load.busy_poll {
                event_loop.set_busy_poll(limit);
            }
            let spawner = Spawner::from(&event_loop);
            event_loop.run(drive(load, spawner))
        }
    }
}

async fn drive(load: &Load, spawner: Spawner) -> Result<Report, Status> {
    let mut channels = Vec::new();
    for _ in 0..load.connections {
        let mut config = Config::default();
        config.max_recv_message = MAX_MESSAGE;
        config.max_send_message = MAX_MESSAGE;
        let channel = Channel::connect(format!("http://{}", load.addr)).config(config).executor(spawner.clone());
        channels.push(channel.await?);
    }
    let left = match load.length {
        Length::Calls(calls) => calls,
        Length::Time { .. } => u64::MAX,
    };
    let shared = Arc::new(Mutex::new(Shared { window: Window::open(load.server_pid), left }));
    let operation = Arc::new(load.operation.clone());
    let lent = load.lends.then(|| EchoMsg { payload: load.operation.message.payload.clone().into() });
    let spawn = |caller: usize| {
        let (channel, operation) = (channels[caller % channels.len()].clone(), Arc::clone(&operation));
        spawner.spawn(call_again_and_again(channel, operation, lent.clone(), Arc::clone(&shared)))
    };
    let tasks: Vec<_> = (0..load.callers).map(spawn).collect();
    if let Length::Time { warm, measured } = load.length {
        Timer::after(warm).await;
        lock(&shared).window.restart();
        Timer::after(measured).await;
        let report = lock(&shared).window.report(labels(load));
        // A caller that failed is done; the others are in the middle of something.
        for task in tasks {
            if let Some(outcome) = task.cancel().await {
                outcome?;
            }
        }
        return Ok(report);
    }
    for task in tasks {
        task.await?;
    }
    let report = lock(&shared).window.report(labels(load));
    Ok(report)
}

/// Never waited for: everything runs on one thread, and no caller keeps it.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn call_again_and_again(
    channel: Channel,
    operation: Arc<Operation>,
    lent: Option<EchoMsg>,
    shared: Arc<Mutex<Shared>>,
) -> Result<(), Status> {
    let (client, lending) = (EchoClient::new(channel.clone()), lent::echo_client::EchoClient::new(channel));
    loop {
        {
            let mut shared = lock(&shared);
            if shared.left == 0 {
                return Ok(());
            }
            shared.left -= 1;
        }
        let start = Instant::now();
        let messages = match &lent {
            Some(message) => call_lent(&lending, message, operation.protocol).await?,
            None => operation.run(&client).await?,
        };
        lock(&shared).window.add(start.elapsed(), messages);
    }
}

/// What was done, by the names that all programs of the benchmark use.
fn labels(load: &Load) -> serde_json::Value {
    let operation = &load.operation;
    json!({
        "peer": "trirpc",
        "mode": operation.mode.to_string(),
        "protocol": format!("{:?}", operation.protocol).to_lowercase(),
        "payload": operation.message.payload.len(),
        "conns": load.connections,
        "conc": load.callers,
    })
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("left", &self.left).finish_non_exhaustive()
    }
}
