//! A closed loop of calls against any server of `bench.Echo`.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::{Duration, Instant};

use async_executor::{Executor, LocalExecutor};
use serde_json::json;
use smol::Timer;
use trirpc::{Channel, Config, Connect, Status};
use trirpc_meter::{Report, Window};

use crate::echo::Operation;
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
    /// What each caller does.
    pub operation: Operation,
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
    let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
    let callers = LocalExecutor::new();
    smol::block_on(executor.run(callers.run(drive(load, executor, &callers))))
}

async fn drive<'a>(
    load: &'a Load,
    executor: &'static Executor<'static>,
    callers: &LocalExecutor<'a>,
) -> Result<Report, Status> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        let mut config = Config::default();
        config.max_recv_message = MAX_MESSAGE;
        config.max_send_message = MAX_MESSAGE;
        let channel = Channel::connect(format!("http://{}", load.addr)).config(config).executor(executor).await?;
        clients.push(EchoClient::new(channel));
    }
    let left = match load.length {
        Length::Calls(calls) => calls,
        Length::Time { .. } => u64::MAX,
    };
    let shared = Rc::new(RefCell::new(Shared { window: Window::open(load.server_pid), left }));
    let spawn = |caller: usize| {
        let (client, shared) = (clients[caller % clients.len()].clone(), Rc::clone(&shared));
        callers.spawn(call_again_and_again(client, &load.operation, shared))
    };
    let tasks: Vec<_> = (0..load.callers).map(spawn).collect();
    if let Length::Time { warm, measured } = load.length {
        Timer::after(warm).await;
        shared.borrow_mut().window.restart();
        Timer::after(measured).await;
        let report = shared.borrow().window.report(labels(load));
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
    let report = shared.borrow().window.report(labels(load));
    Ok(report)
}

async fn call_again_and_again(
    client: EchoClient<Channel>,
    operation: &Operation,
    shared: Rc<RefCell<Shared>>,
) -> Result<(), Status> {
    loop {
        {
            let mut shared = shared.borrow_mut();
            if shared.left == 0 {
                return Ok(());
            }
            shared.left -= 1;
        }
        let start = Instant::now();
        let messages = operation.run(&client).await?;
        shared.borrow_mut().window.add(start.elapsed(), messages);
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
