//! Our client and a server that is ten milliseconds away: windows that grow, and what both sides ping for it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use smol::future::zip;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{ExpandRequest, SayRequest};
use trirpc::{Channel, Config, Connect};

use crate::client::{Failure, OK_TIME, all, same, told};
use crate::fleet;
use crate::relay::Relay;
use crate::table::{Cell, Column};
use crate::with_timeout;
use trirpc_tests::process::{Installed, Server};

const DOWN: &str = "16-mib-come";
const UP: &str = "4-mib-go";
const BOTH: &str = "4-mib-go-and-come";
const GROWN: &str = "our-window-grows";
const KEPT: &str = "one-connection-bears-it";

/// The names of the cells, in their order.
pub(crate) const NAMES: &[&str] = &[DOWN, UP, BOTH, GROWN, KEPT];

/// Each way.
const DELAY: Duration = Duration::from_millis(5);
const MESSAGE: u32 = 64 << 10;

type Verdict = Result<(), Failure>;

/// All cells, on one channel, one after the other.
pub(crate) fn run(peer: &'static fleet::Peer, installed: &Arc<Installed>) -> io::Result<Column> {
    let server = Server::start(peer.server(installed).expect("only installed peers are run"))?;
    let relay = Relay::from_afar(server.addr, DELAY)?;
    let connected = smol::block_on(async { Channel::connect(format!("http://{}", relay.addr)).await });
    let channel = connected.map_err(|status| io::Error::other(told(status)))?.protocol(peer.protocol);
    let echo = EchoClient::new(channel);
    let come = in_time(download(&echo));
    let go = in_time(upload(&echo));
    let both = in_time(exchange(&echo));
    // The first window of a stream is what would be on the way if it did not grow.
    let (peak, start) = (relay.peak_down(), u64::from(Config::default().initial_stream_window));
    let grown = if peak >= 4 * start { Ok(()) } else { Err(format!("at most {peak} bytes were on the way to us")) };
    // A peer that finds pings too many ends the connection, and so do we.
    let kept = same(1, relay.connections(), "connections");
    let mut column = Column::new(peer.name);
    column.cells.extend([(DOWN, come), (UP, go), (BOTH, both), (GROWN, grown), (KEPT, kept)].map(|(name, verdict)| {
        let cell = match verdict {
            Ok(()) => Cell::Passed,
            Err(why) => Cell::Failed(why),
        };
        (name.to_owned(), cell)
    }));
    Ok(column)
}

fn in_time(case: impl Future<Output = Verdict>) -> Verdict {
    smol::block_on(with_timeout(OK_TIME, case)).unwrap_or_else(|| Err(format!("still running after {OK_TIME:?}")))
}

fn messages(count: u32) -> Vec<SayRequest> {
    vec![SayRequest { payload: vec![0; MESSAGE as usize].into(), ..SayRequest::default() }; count as usize]
}

async fn download(echo: &EchoClient) -> Verdict {
    let count = (16 << 20) / MESSAGE;
    let request = ExpandRequest { count, size: MESSAGE, ..ExpandRequest::default() };
    let (got, end) = all(echo.expand(request).open()).await;
    end.map_err(told)?;
    same(count as usize, got.len(), "messages")?;
    same(16 << 20, got.iter().map(|reply| reply.payload.len()).sum(), "bytes")
}

async fn upload(echo: &EchoClient) -> Verdict {
    let requests = messages((4 << 20) / MESSAGE);
    let (mut sender, reply) = echo.collect().open();
    for request in &requests {
        sender.send(request).await.map_err(told)?;
    }
    sender.finish();
    same(4 << 20, reply.await.map_err(told)?.payload_bytes, "bytes")
}

async fn exchange(echo: &EchoClient) -> Verdict {
    let requests = messages((4 << 20) / MESSAGE);
    let (mut sender, replies) = echo.chat().open();
    let send = async {
        for request in &requests {
            sender.send(request).await.map_err(told)?;
        }
        sender.finish();
        Verdict::Ok(())
    };
    let (sent, (got, end)) = zip(send, all(replies)).await;
    sent?;
    end.map_err(told)?;
    same(4 << 20, got.iter().map(|reply| reply.payload.len()).sum(), "bytes")
}
