//! What dubbo-go does beside its calls, and what comes of it.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use trirpc::client::UnaryCall;
use trirpc::proto::HealthService;
use trirpc::proto::grpc::health::v1::health_check_response::ServingStatus;
use trirpc::proto::grpc::health::v1::health_server::HealthServer;
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc::proto::test_service::{SayReply, SayRequest, SleepRequest};
use trirpc::rpc::CallInfo;
use trirpc::server::Interceptor;
use trirpc::{CallKind, Channel, Connect, Method, Prost, Router, Server as OurServer, Status};
use trirpc_cli::echo::EchoService;

use crate::SERVICE;
use crate::client::{Failure, same, text, told};
use crate::relay::Relay;
use crate::stand::{Stand, Start};
use crate::table::{Cell, Column};
use trirpc_tests::process::{self, Server};

const WATCHED: &str = "client-watches-health-at-once";
const THREE_TRIES: &str = "client-sends-failed-calls-three-times";
const PINGS: &str = "client-pings-when-idle-for-10-s";
const CLOSING: &str = "server-says-closing-and-calls-move";
const CUT: &str = "server-cuts-and-no-call-is-lost";

/// The names of the cells, in their order.
pub(crate) const NAMES: &[&str] = &[WATCHED, THREE_TRIES, PINGS, CLOSING, CUT];

/// All cells, side by side: they take their time, and little else.
pub(crate) fn run(client: impl Fn() -> Command + Sync, server: impl Fn() -> Command + Sync, ours: Start) -> Column {
    let mut column = Column::new("dubbo-go");
    let cells = thread::scope(|scope| {
        let failing = scope.spawn(|| smol::block_on(failing_calls(client())));
        let idle = scope.spawn(|| idle(client(), ours));
        let ending = scope.spawn(|| smol::block_on(ending(&server)));
        let (watched, tries) = parts(failing.join().expect("no panic"));
        let (closing, cut) = parts(ending.join().expect("no panic"));
        let pings = idle.join().expect("no panic").unwrap_or_else(|error| Err(error.to_string()));
        [(WATCHED, watched), (THREE_TRIES, tries), (PINGS, pings), (CLOSING, closing), (CUT, cut)]
    });
    column.cells.extend(cells.map(|(name, result)| {
        let cell = match result {
            Ok(()) => Cell::Passed,
            Err(why) => Cell::Failed(why),
        };
        (name.to_owned(), cell)
    }));
    column
}

type Verdict = Result<(), Failure>;

/// Two verdicts of one observation, or why there is none.
fn parts(observed: io::Result<(Verdict, Verdict)>) -> (Verdict, Verdict) {
    observed.unwrap_or_else(|error| (Err(error.to_string()), Err(error.to_string())))
}

/// Every call as the server sees it.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<Called>>>);

/// Connection and path.
type Called = (Option<u64>, String);

impl Interceptor for Calls {
    fn on_request(&self, call: &mut CallInfo) -> Result<(), Status> {
        let path = call.method().path().to_owned();
        self.0.lock().expect("no panic under it").push((call.session(), path));
        Ok(())
    }
}

/// `tri:Q77`: 16 calls that fail reach a handler 48 times, on the connection where health is watched as well.
async fn failing_calls(mut client: Command) -> io::Result<(Verdict, Verdict)> {
    let (calls, health) = (Calls::default(), HealthService::new());
    health.set(SERVICE, ServingStatus::Serving);
    let router = Router::new().add(EchoServer::new(EchoService::new())).add(HealthServer::new(health));
    let server = OurServer::builder(router.interceptor(calls.clone())).bind("127.0.0.1:0").await?;
    let addr = server.local_addr().to_string();
    let served = smol::spawn(server.serve_until(std::future::pending()));
    client.args(["--addr", &addr, "--only", "status-codes"]);
    let passed = smol::unblock(move || {
        let mut passed = false;
        process::run(client, |line, _| {
            passed |= line == "PASS status-codes";
            Ok(())
        })?;
        Ok::<_, io::Error>(passed)
    })
    .await?;
    drop(served);
    let calls = calls.0.lock().expect("no panic under it").clone();
    let of = |path: &str| calls.iter().filter(|(_, called)| called == path).map(|(at, _)| *at).collect::<Vec<_>>();
    let (failing, watches) = (of("/trirpc.test.v1.Echo/Fail"), of("/grpc.health.v1.Health/Watch"));
    let at = failing.first().copied().flatten();
    let watched = same(vec![at], watches, "connections of Watch");
    let tries = same((true, vec![at; 48]), (passed, failing), "connections of Fail");
    Ok((watched, tries))
}

/// Its pings are answered, and after them the connection still serves. Nothing else passes meanwhile.
fn idle(mut client: Command, ours: Start) -> io::Result<Verdict> {
    const PING: u64 = 17;
    let stand = Stand::start(ours)?;
    client.args(["--addr", &stand.addr().to_string(), "--only", "server-restart"]);
    let mut verdict = Err("the client did not pass".to_owned());
    let mut quiet = None;
    process::run(client, |line, stdin| {
        match line.as_str() {
            // Nobody restarts anything: it only waits.
            "restart" => {
                thread::sleep(Duration::from_millis(500));
                let before = stand.traffic();
                thread::sleep(Duration::from_secs(12));
                quiet = Some(stand.traffic().since(before));
                io::Write::write_all(stdin, b"go on\n")?;
            }
            "PASS server-restart" => verdict = Ok(()),
            _ => {}
        }
        Ok(())
    })?;
    let (up, down) = quiet.map_or((0, 0), |traffic| (traffic.up, traffic.down));
    let pings = same((PING, PING), (up, down), "bytes up and down while it is idle");
    let one = same(1, stand.connections(), "connections");
    Ok(verdict.and(pings).and(one))
}

static SAY: Method<SayRequest, SayReply> =
    Method::new("/trirpc.test.v1.Echo/Say", CallKind::Unary, true, Prost::codecs());
static SLEEP: Method<SleepRequest, SayReply> =
    Method::new("/trirpc.test.v1.Echo/Sleep", CallKind::Unary, true, Prost::codecs());

/// `tri:195`, `tri:Q81`: a server that is told to end takes calls for six more seconds and says `closing: true` with
/// each; then it cuts the connection, whatever runs there. No GOAWAY is ever sent.
async fn ending(server: impl Fn() -> Command) -> io::Result<(Verdict, Verdict)> {
    const RUNS_INTO_THE_CUT: u32 = 8000;
    let (first, second) = (Server::start(server())?, Server::start(server())?);
    let relay = Relay::to(first.addr)?;
    let channel =
        Channel::connect(format!("http://{}", relay.addr)).await.map_err(|status| io::Error::other(told(status)))?;
    let long = UnaryCall::new(channel.clone(), &SLEEP, SleepRequest { millis: RUNS_INTO_THE_CUT });
    let long = smol::spawn(long.timeout(Duration::from_secs(40)).into_future());
    smol::Timer::after(Duration::from_millis(300)).await;

    relay.lead_to(second.addr);
    first.terminate()?;
    let start = Instant::now();
    let (mut moved, mut lost) = (Err("all calls stay".to_owned()), Ok(()));
    while start.elapsed() < Duration::from_secs(8) {
        let call = UnaryCall::new(channel.clone(), &SAY, text("ending")).timeout(Duration::from_secs(10));
        if let Err(status) = call.await {
            lost = Err(told(status));
        }
        // The trailer moved them, not the cut.
        if relay.connections() == 2 && start.elapsed() < Duration::from_secs(4) {
            moved = Ok(());
        }
        smol::Timer::after(Duration::from_millis(20)).await;
    }
    let long = long.await.map(|reply| reply.text).map_err(told);
    let replayed = same(Ok("slept".to_owned()), long, "a call that the cut takes along");
    let two = same(2, relay.connections(), "connections");
    Ok((moved, lost.and(replayed).and(two)))
}
