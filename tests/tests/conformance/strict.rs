//! python-h2 with all its checks, as a client of our server and as a server of our client.

use std::future::IntoFuture;
use std::io::Write;
use std::time::Duration;

use smol::Timer;
use smol::future::or;
use trirpc::client::{BidiCall, Channel, ServerStreamingCall, UnaryCall};
use trirpc::proto::Raw;
use trirpc::rpc::MethodCodec;
use trirpc::{Bytes, CallKind, Code, Connect, Method, Status};
use trirpc_tests::process::{self, Program, Server};
use trirpc_tests::random::Random;

use super::{Bench, Outcome, broken};

pub(crate) const PART: &str = "python-h2";

pub(crate) fn server(bench: &Bench) -> Outcome {
    let server = bench.server().map_err(broken)?;
    let mut client =
        bench.installed.command(PART, &Program::Python("client.py")).expect("only what is installed is run");
    client.args(["--addr", &server.addr.to_string()]);
    let (mut passed, mut failed) = (0, Vec::new());
    let run = process::run(client, |line, stdin| {
        match line.split_once(' ') {
            Some(("PASS", _)) => passed += 1,
            _ if line == "terminate" => {
                server.terminate()?;
                stdin.flush()?;
            }
            _ => failed.push(line),
        }
        Ok(())
    });
    run.map_err(broken)?;
    match (passed, failed.is_empty()) {
        (SERVER_CASES, true) => Ok(()),
        _ => Err(format!("{passed} of {SERVER_CASES} cases passed:\n{}", failed.join("\n"))),
    }
}

/// Cases in `client.py`.
const SERVER_CASES: usize = 26;

type Octets = Method<Bytes, Bytes>;

const CODECS: &[MethodCodec<Bytes, Bytes>] = &[MethodCodec::new(&Raw::PROTO)];
static ECHO: Octets = Method::new("/strict.Peer/Echo", CallKind::Unary, false, CODECS);
static EXPAND: Octets = Method::new("/strict.Peer/Expand", CallKind::ServerStreaming, false, CODECS);
static CHAT: Octets = Method::new("/strict.Peer/Chat", CallKind::Bidi, false, CODECS);
static REFUSE: Octets = Method::new("/strict.Peer/Refuse", CallKind::Unary, false, CODECS);
static NEVER: Octets = Method::new("/strict.Peer/Never", CallKind::Unary, false, CODECS);
static EARLY: Octets = Method::new("/strict.Peer/Early", CallKind::Unary, false, CODECS);
static GO_AWAY: Octets = Method::new("/strict.Peer/GoAway", CallKind::Unary, false, CODECS);

pub(crate) fn client(bench: &Bench) -> Outcome {
    let server = bench.installed.command(PART, &Program::Python("server.py")).expect("only what is installed is run");
    let server = Server::start(server).map_err(broken)?;
    let outcome = smol::block_on(calls(&server));
    let faults: Vec<_> = server.said().into_iter().filter(|line| line.starts_with("FAULT")).collect();
    match outcome {
        Ok(()) if faults.is_empty() => Ok(()),
        outcome => Err(format!("{outcome:?}\n{}", faults.join("\n"))),
    }
}

/// Makes calls of every kind, with every end.
async fn calls(server: &Server) -> Result<(), Status> {
    let channel = Channel::connect(format!("http://{}", server.addr)).await?;
    alone(&channel).await?;
    streams(&channel).await?;
    cut_short(&channel).await?;
    for seed in 0..8 {
        script(&channel, seed).await.map_err(|status| Status::data_loss(format!("seed {seed}: {status:?}")))?;
    }
    // One that the server leaves unanswered behind its GOAWAY; the next one finds another connection.
    let gone = UnaryCall::new(channel.clone(), &GO_AWAY, octets(10)).await;
    is_code(gone, Code::Unavailable)?;
    same(&UnaryCall::new(channel.clone(), &ECHO, octets(10)).await?, &octets(10))
}

fn octets(len: usize) -> Bytes {
    (0..len).map(|n| n as u8).collect::<Vec<u8>>().into()
}

/// Unary calls, one after the other and all at once.
async fn alone(channel: &Channel) -> Result<(), Status> {
    for len in [0, 1, 100, 16_384, 1_000_000] {
        let reply = UnaryCall::new(channel.clone(), &ECHO, octets(len)).metadata("tenant", "blue").await?;
        same(&reply, &octets(len))?;
    }
    let all = (0..50).map(|n| UnaryCall::new(channel.clone(), &ECHO, octets(n * 500)));
    let all: Vec<_> = all.map(|call| smol::spawn(async { call.await })).collect();
    for (n, reply) in all.into_iter().enumerate() {
        same(&reply.await?, &octets(n * 500))?;
    }
    Ok(())
}

async fn streams(channel: &Channel) -> Result<(), Status> {
    let mut replies = ServerStreamingCall::new(channel.clone(), &EXPAND, octets(2000)).await?;
    let mut count = 0;
    while let Some(reply) = replies.next().await? {
        same(&reply, &octets(2000))?;
        count += 1;
    }
    if count != 300 {
        return Err(Status::data_loss(format!("{count} of 300 replies")));
    }
    let (mut tx, mut rx) = BidiCall::new(channel.clone(), &CHAT).open();
    for n in 0..40 {
        tx.send(&octets(n * 1000)).await?;
        same(&rx.next().await?.unwrap_or_default(), &octets(n * 1000))?;
    }
    tx.finish();
    match rx.next().await? {
        None => Ok(()),
        Some(_) => Err(Status::data_loss("a reply to nothing")),
    }
}

/// Calls that either side ends before the other has.
async fn cut_short(channel: &Channel) -> Result<(), Status> {
    let refused = UnaryCall::new(channel.clone(), &REFUSE, octets(10)).await;
    is_code(refused, Code::FailedPrecondition)?;
    let late = UnaryCall::new(channel.clone(), &NEVER, octets(10)).timeout(Duration::from_millis(50)).await;
    is_code(late, Code::DeadlineExceeded)?;
    for len in [10, 500_000] {
        give_up(UnaryCall::new(channel.clone(), &NEVER, octets(len)), Duration::from_millis(50)).await;
    }
    // The answer is there before the request has ended, and the rest of it is not wanted.
    same(&UnaryCall::new(channel.clone(), &EARLY, octets(500_000)).await?, &octets(0))
}

/// Drops a call after some time, unless it has ended before.
async fn give_up(call: impl IntoFuture<Output = Result<impl Sized, Status>>, after: Duration) {
    let late = async {
        Timer::after(after).await;
    };
    or(async { drop(call.await) }, late).await;
}

/// Calls of random kinds and sizes, many at once, some of them given up.
async fn script(channel: &Channel, seed: u64) -> Result<(), Status> {
    let mut random = Random::new(seed);
    let calls = (0..100).map(|_| {
        let (channel, kind, len) = (channel.clone(), random.below(6), random.length(60_000));
        let wait = Duration::from_micros(random.below(20_000) as u64);
        smol::spawn(async move {
            match kind {
                0 => give_up(UnaryCall::new(channel, &NEVER, octets(len)), wait).await,
                1 => give_up(UnaryCall::new(channel, &ECHO, octets(len)), wait).await,
                2 => {
                    let mut replies = ServerStreamingCall::new(channel, &EXPAND, octets(len / 20)).await?;
                    // The rest is not wanted.
                    for _ in 0..len % 300 {
                        same(&replies.next().await?.unwrap_or_default(), &octets(len / 20))?;
                    }
                }
                3 => is_code(UnaryCall::new(channel, &REFUSE, octets(len)).await, Code::FailedPrecondition)?,
                _ => same(&UnaryCall::new(channel, &ECHO, octets(len)).await?, &octets(len))?,
            }
            Ok::<_, Status>(())
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await?;
    }
    Ok(())
}

fn same(reply: &Bytes, expected: &Bytes) -> Result<(), Status> {
    let (came, due) = (reply.len(), expected.len());
    if reply == expected { Ok(()) } else { Err(Status::data_loss(format!("{came} octets in place of {due}"))) }
}

fn is_code<T>(result: Result<T, Status>, code: Code) -> Result<(), Status> {
    match result {
        Err(status) if status.code() == code => Ok(()),
        Err(status) => Err(status),
        Ok(_) => Err(Status::data_loss(format!("success in place of {code:?}"))),
    }
}
