//! What the Rust programs of the peers have in common: their arguments, and the closed loop of a client.
//!
//! Linking this crate installs the counting allocator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local};
use trirpc_meter::Window;
use trirpc_meter::allocations::{Counting, publish};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `--name value` pairs of the command line. Names are those of `trirpc-bench load`.
#[derive(Clone, Debug)]
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Those of this process.
    pub fn read() -> Self {
        let mut pairs = BTreeMap::new();
        let mut words = env::args().skip(1);
        while let Some(name) = words.next() {
            let name = name.strip_prefix("--").unwrap_or_else(|| panic!("`{name}` is no --name")).to_owned();
            let value = words.next().unwrap_or_else(|| panic!("--{name} has no value"));
            pairs.insert(name, value);
        }
        Self(pairs)
    }

    /// The value of `--name`, or `default`.
    pub fn value<T: FromStr>(&self, name: &str, default: T) -> T {
        let parse = |text: &String| text.parse().unwrap_or_else(|_| panic!("--{name} {text}"));
        self.0.get(name).map_or(default, parse)
    }

    /// The text of `--name`, or `default`.
    pub fn text(&self, name: &str, default: &str) -> String {
        self.value(name, default.to_owned())
    }

    /// Where to listen, or whom to call.
    pub fn addr(&self) -> SocketAddr {
        self.value("addr", SocketAddr::from(([127, 0, 0, 1], 50051)))
    }

    /// Connections of a client.
    pub fn connections(&self) -> usize {
        self.value("conns", 1)
    }

    /// Operations in flight, over all connections.
    pub fn callers(&self) -> usize {
        self.value("conc", 1)
    }

    /// Bytes of a message's payload.
    pub fn payload(&self) -> usize {
        self.value("payload", 128)
    }

    /// Messages a stream and direction.
    pub fn messages(&self) -> u32 {
        self.value("msgs", 128)
    }

    /// How many operations are to be measured; `None` to go by time.
    pub fn calls(&self) -> Option<u64> {
        Some(self.value("calls", 0)).filter(|calls| *calls > 0)
    }

    /// Time before the measurement, and time of the measurement.
    pub fn times(&self) -> [Duration; 2] {
        [("warm", 0.5), ("secs", 2.0)].map(|(name, default)| Duration::from_secs_f64(self.value(name, default)))
    }

    /// A window on this process and the server's.
    pub fn window(&self) -> Window {
        Window::open(self.value("server-pid", 0))
    }

    /// What is told of a run beside its figures.
    pub fn labels(&self, peer: &str) -> Value {
        json!({
            "peer": peer,
            "mode": self.text("mode", "unary"),
            "payload": self.payload(),
            "conns": self.connections(),
            "conc": self.callers(),
        })
    }

    /// The payload of every message: it asks in its first four bytes for [`messages`](Self::messages) answers.
    pub fn message(&self) -> Vec<u8> {
        let mut payload = vec![0x5a; self.payload()];
        if let Some(count) = payload.first_chunk_mut() {
            *count = self.messages().to_be_bytes();
        }
        payload
    }
}

/// To be called by a server first.
pub fn serving() {
    if let Err(error) = publish() {
        eprintln!("allocations of this server are not published: {error}");
    }
}

/// The runtime of all Rust peers: one thread, as trirpc's programs.
pub fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

struct Shared {
    window: Window,
    left: u64,
}

/// Runs a client to its end and prints the line of JSON: `connect` once a connection, then `operation` again and again
/// by every caller. An operation returns how many messages it carried each way.
pub fn closed_loop<C, D, O>(
    peer: &str,
    arguments: &Arguments,
    connect: impl AsyncFn() -> C + 'static,
    prepare: impl Fn(&C) -> D + 'static,
    operation: impl Fn(D) -> O + Clone + 'static,
) where
    C: 'static,
    D: Clone + 'static,
    O: Future<Output = u32> + 'static,
{
    let (peer, arguments) = (peer.to_owned(), arguments.clone());
    LocalSet::new().block_on(&runtime(), async move {
        let mut connections = Vec::new();
        for _ in 0..arguments.connections() {
            connections.push(connect().await);
        }
        let left = arguments.calls().unwrap_or(u64::MAX);
        let shared = Rc::new(RefCell::new(Shared { window: arguments.window(), left }));
        let callers = (0..arguments.callers()).map(|caller| {
            let client = prepare(&connections[caller % connections.len()]);
            spawn_local(call_again_and_again(client, operation.clone(), Rc::clone(&shared)))
        });
        let callers: Vec<_> = callers.collect();
        if arguments.calls().is_some() {
            for caller in callers {
                caller.await.expect("no call fails");
            }
        } else {
            let [warm, measured] = arguments.times();
            tokio::time::sleep(warm).await;
            shared.borrow_mut().window.restart();
            tokio::time::sleep(measured).await;
            assert!(callers.iter().all(|caller| !caller.is_finished()), "no call fails");
        }
        println!("{}", shared.borrow().window.report(arguments.labels(&peer)));
    });
}

async fn call_again_and_again<D: Clone, O: Future<Output = u32>>(
    client: D,
    operation: impl Fn(D) -> O,
    shared: Rc<RefCell<Shared>>,
) {
    loop {
        {
            let mut shared = shared.borrow_mut();
            if shared.left == 0 {
                return;
            }
            shared.left -= 1;
        }
        let start = Instant::now();
        let messages = operation(client.clone()).await;
        shared.borrow_mut().window.add(start.elapsed(), messages);
    }
}
