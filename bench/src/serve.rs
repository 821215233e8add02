//! The server of the benchmark.

use std::io::{self, Write};
use std::time::Duration;

use async_executor::Executor;
use trirpc::server::{InlineHandlers, ServerBuilder};
use trirpc::{Config, EventLoop, Router, Server};
use trirpc_meter::allocations;

use crate::echo::EchoService;
use crate::lent;
use crate::load::Io;
use crate::proto::echo_server::EchoServer;

/// Largest message of the benchmark's servers and clients.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// Serves `bench.Echo` on `addr` by one thread, or by an event loop on each of so many `cores`, until the process is
/// ended. A single loop polls for up to `busy_poll`. Payloads are `Vec<u8>`, or `Bytes` if it `lends` them.
///
/// # Errors
/// The address cannot be listened on, or the listener failed.
pub fn run(
    addr: &str,
    io: Io,
    cores: Option<usize>,
    busy_poll: Option<Duration>,
    inlines: InlineHandlers,
    lends: bool,
) -> io::Result<()> {
    if let Err(error) = allocations::publish() {
        eprintln!("allocations of this server are not published: {error}");
    }
    let mut config = Config::default();
    config.max_recv_message = MAX_MESSAGE;
    config.max_send_message = MAX_MESSAGE;
    let router = if lends {
        Router::new().add(lent::echo_server::EchoServer::new(EchoService))
    } else {
        Router::new().add(EchoServer::new(EchoService))
    };
    let router = router.inline_handlers(inlines);
    let server = Server::builder(router).config(config);
    match (cores, io) {
        (Some(cores), _) => smol::block_on(serve(server.cores(cores), addr)),
        (None, Io::Loop) => {
            let mut event_loop = EventLoop::new()?;
            if let Some(limit) = busy_poll {
                event_loop.set_busy_poll(limit);
            }
            let server = server.executor(&event_loop);
            event_loop.run(serve(server, addr))
        }
        (None, Io::Smol) => {
            let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
            smol::block_on(executor.run(serve(server.executor(executor), addr)))
        }
    }
}

async fn serve(server: ServerBuilder, addr: &str) -> io::Result<()> {
    let server = server.bind(addr).await?;
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "listening on {}", server.local_addr()).and_then(|()| out.flush());
    drop(out);
    server.serve().await.map(drop)
}
