//! `tri demo`: a server and a client over TCP, call by call.

mod dialect;
mod report;
mod steps;
mod weighed;

use std::future::Future;
use std::io::{self, Write};
use std::time::Duration;

use smol::channel::unbounded;
use smol::future::or;
use smol::{Timer, pin};
use trirpc::proto::test_service::echo_server::{Echo, EchoServer};
use trirpc::{Channel, Connect, Gzip, Router, Server};

pub use dialect::Dialect;
pub use report::{Format, Report, Side};

use crate::echo::EchoService;
use steps::{Demo, Seen};

/// Longest that one step, or the end of the server, may take.
const STEP_LIMIT: Duration = Duration::from_secs(10);

/// Runs a server with the service that `wrap` makes of the reference one, and a client that calls it in each of
/// the dialects. The server is told nothing of them: it finds out call by call.
/// `Ok(true)` if every line was as it must be.
///
/// # Errors
/// The server cannot listen, the client cannot connect, or the output fails.
pub async fn run<S: Echo, W: Write>(
    wrap: impl FnOnce(EchoService) -> S,
    dialects: &[Dialect],
    mut report: Report<W>,
) -> io::Result<bool> {
    let (tell, observations) = unbounded();
    let service = EchoService::new().observed_by(move |observation| {
        // The other end is kept until the server is gone.
        let _ = tell.try_send(observation);
    });
    let router = Router::new().add(EchoServer::new(wrap(service)));
    let router = router.accept_compression(Gzip::default()).send_compression(Gzip::default());
    let server = Server::builder(router).bind("127.0.0.1:0").await?;
    let uri = server.local_addr().uri();
    let (stop, stopped) = unbounded::<()>();
    let serving = smol::spawn(server.serve_until(async move {
        let _ = stopped.recv().await;
    }));

    report.step("start", &format!("a server listens on {uri}, a client connects over TCP"));
    let channel = Channel::connect(&uri).await.map_err(io::Error::other)?;
    report.line(Side::Client, "connected", true, true);
    let mut demo = Demo::new(channel, Seen(observations), report);
    for &dialect in dialects {
        demo.speak(dialect).await;
    }

    let Demo { client, compressed, mut report, .. } = demo;
    report.step("shutdown", "the server stops while the client is connected");
    drop((stop, client, compressed));
    let ended = within(serving).await.transpose()?;
    report.line(Side::Server, "connections cut off", ended.map_or(-1, |ended| ended.cut_off as i64), 0);
    report.finish()
}

/// The output of `future`, unless it takes longer than a step may.
async fn within<T>(future: impl Future<Output = T>) -> Option<T> {
    pin!(future);
    or(async { Some(future.await) }, async {
        Timer::after(STEP_LIMIT).await;
        None
    })
    .await
}
