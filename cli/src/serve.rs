//! `tri serve`: the test service, until a signal.

use std::io::{self, Write};

use trirpc::proto::HealthService;
use trirpc::proto::grpc::health::v1::health_check_response::ServingStatus;
use trirpc::proto::grpc::health::v1::health_server::HealthServer;
use trirpc::proto::test_service::echo_server::{self, EchoServer};
use trirpc::server::{HttpRequest, HttpResponse};
use trirpc::{Config, Gzip, Router, Server};

use crate::echo::{EchoService, Observation};
use crate::signal::Signals;

/// What `--fallback` answers. Tools that test HTTP/2 need a few octets to cut into frames.
const PAGE: &str = "\
This is `tri serve --fallback`: no service is here, and whatever is asked gets this answer.
trirpc.test.v1.Echo and grpc.health.v1.Health are beside it.
";

/// Serves until a signal has been answered by a graceful end.
///
/// # Errors
/// The address cannot be listened on, or the listener failed.
pub(crate) async fn serve(addr: String, config: Config, fallback: bool) -> io::Result<()> {
    let mut signals = Signals::new()?;
    let health = HealthService::new();
    health.set(echo_server::SERVICE_NAME, ServingStatus::Serving);
    // Peers' test programs wait for this line.
    let echo = EchoService::new().observed_by(|observation| {
        if let Observation::Dropped { method } = observation {
            say(&format!("dropped {method}"));
        }
    });
    let router = Router::new().add(EchoServer::new(echo)).add(HealthServer::new(health.clone()));
    let router = router.accept_compression(Gzip::default()).send_compression(Gzip::default());
    let router = if fallback { router.fallback(page) } else { router };
    let limit = config.drain_timeout;
    let server = Server::builder(router).config(config).bind(addr).await?;
    say(&format!("listening on {}", server.local_addr()));
    let served = server
        .serve_until(async move {
            let signal = signals.next().await;
            let limit = limit.map_or_else(String::new, |limit| format!(" for at most {limit:?}"));
            say(&format!("{signal}: running calls may end{limit}; again to end at once"));
            health.shut_down();
            signals.end_process_on_next();
        })
        .await?;
    say(&format!("served {} connections, cut off {}", served.connections, served.cut_off));
    Ok(())
}

/// Answers whatever is asked, once it was asked to the end. What is sent is read and dropped.
async fn page(mut request: HttpRequest) -> Result<HttpResponse, HttpResponse> {
    while request.chunk().await?.is_some() {}
    Ok(HttpResponse::new(200).header("content-type", "text/plain; charset=utf-8").body(PAGE))
}

/// Prints a line at once, also into a pipe. A reader that has gone is no reason to stop serving.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
