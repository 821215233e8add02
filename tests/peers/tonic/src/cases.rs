//! Every case, one function each; the names are those of all peers.

use std::pin::Pin;
use std::time::{Duration, Instant};

use prost::Message;
use tokio::sync::mpsc::{Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::CompressionEncoding;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;

use crate::SERVICE;
use crate::client::{Outcome, Peer, fails, same, timed, told};
use crate::echo::echo_client::EchoClient;
use crate::echo::{ExpandRequest, FailDetail, SayReply, SayRequest, SleepRequest};

const OVER_LIMIT: usize = 5 << 20;

type Case = fn(Peer) -> Pin<Box<dyn Future<Output = Outcome> + Send>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), |peer| Box::pin($name(peer)))),*] };
}

const CASES: &[(&str, Case)] = cases![
    unary,
    message_of_0_bytes,
    message_of_1_byte,
    message_of_64_kib,
    message_of_3900000_bytes,
    request_over_limit,
    reply_over_limit,
    client_stream,
    client_stream_of_none,
    client_stream_of_1000,
    server_stream,
    server_stream_of_none,
    server_stream_of_1000,
    server_stream_error_after_two,
    server_stream_error_at_once,
    bidi_ping_pong,
    bidi_error_midway,
    status_codes,
    status_messages,
    status_details,
    deadline_of_unary,
    deadline_of_stream,
    deadline_met,
    cancel_unary,
    cancel_server_stream,
    cancel_bidi,
    metadata_text,
    metadata_binary,
    metadata_empty_values,
    metadata_of_7_kib,
    metadata_non_ascii,
    unknown_method,
    unknown_service,
    health_check,
    health_watch,
    calls_1000_at_100,
    gzip_unary,
    gzip_stream,
    server_restart,
];

/// Runs the cases whose name starts with `only`, one line each; false if one failed.
pub async fn run(peer: Peer, only: &str) -> bool {
    let mut passed = true;
    for (name, case) in CASES {
        let name = name.replace('_', "-");
        if !name.starts_with(only) {
            continue;
        }
        let outcome = tokio::time::timeout(Duration::from_secs(30), case(peer.clone())).await;
        match outcome.unwrap_or_else(|_| Err("still running after 30 s".to_owned())) {
            Ok(None) => println!("PASS {name}"),
            Ok(Some(note)) => println!("PASS {name} ({note})"),
            Err(why) => {
                passed = false;
                println!("FAIL {name}: {}", why.replace('\n', " "));
            }
        }
    }
    passed
}

fn text(text: impl Into<String>) -> SayRequest {
    SayRequest { text: text.into(), ..SayRequest::default() }
}

/// All replies, and the status of a stream that failed.
async fn all(mut replies: Streaming<SayReply>) -> (Vec<SayReply>, Result<(), Status>) {
    let mut got = Vec::new();
    loop {
        match replies.message().await {
            Ok(Some(reply)) => got.push(reply),
            Ok(None) => return (got, Ok(())),
            Err(status) => return (got, Err(status)),
        }
    }
}

async fn unary(mut peer: Peer) -> Outcome {
    let request = SayRequest { text: "hello".to_owned(), payload: vec![0, 1, 255], reply_size: 0, sequence_id: -7 };
    let reply = peer.say(request).await.map_err(told)?;
    same(SayReply { text: "echo:hello".to_owned(), payload: vec![0, 1, 255], sequence_id: -7 }, reply, "reply")?;
    Ok(None)
}

async fn message_of_0_bytes(mut peer: Peer) -> Outcome {
    let reply = peer.say(SayRequest::default()).await.map_err(told)?;
    same("echo:", reply.text.as_str(), "text")?;
    same(SayReply::default(), peer.fail(0, "", Vec::new()).await.map_err(told)?, "reply")?;
    Ok(None)
}

async fn message_of_1_byte(mut peer: Peer) -> Outcome {
    peer.payload(1).await
}

async fn message_of_64_kib(mut peer: Peer) -> Outcome {
    peer.payload(64 << 10).await
}

async fn message_of_3900000_bytes(mut peer: Peer) -> Outcome {
    peer.payload(3_900_000).await
}

async fn request_over_limit(mut peer: Peer) -> Outcome {
    let tonic = peer.server == "tonic";
    let code = if tonic { Code::OutOfRange } else { Code::ResourceExhausted };
    let request = SayRequest { payload: vec![0; OVER_LIMIT], reply_size: 1, ..SayRequest::default() };
    fails(code, peer.say(request).await)?;
    peer.serves().await?;
    Ok(tonic.then_some("tonic's servers say OUT_OF_RANGE"))
}

async fn reply_over_limit(mut peer: Peer) -> Outcome {
    let request = SayRequest { reply_size: OVER_LIMIT as u32, ..SayRequest::default() };
    fails(Code::OutOfRange, peer.say(request).await)?;
    peer.serves().await?;
    Ok(Some("tonic's clients say OUT_OF_RANGE"))
}

async fn client_stream(mut peer: Peer) -> Outcome {
    let requests = ["a", "b", "c"].map(|t| SayRequest { payload: b"xy".to_vec(), ..text(t) });
    let reply = peer.echo.collect(timed(tokio_stream::iter(requests))).await.map_err(told)?.into_inner();
    same((3, 6, "a,b,c"), (reply.count, reply.payload_bytes, reply.texts.as_str()), "reply")?;
    Ok(None)
}

async fn client_stream_of_none(mut peer: Peer) -> Outcome {
    let reply = peer.echo.collect(timed(tokio_stream::empty())).await.map_err(told)?.into_inner();
    same(0, reply.count, "count")?;
    Ok(None)
}

async fn client_stream_of_1000(mut peer: Peer) -> Outcome {
    let requests = (0..1000).map(|_| SayRequest { payload: vec![0; 1000], ..SayRequest::default() });
    let reply = peer.echo.collect(timed(tokio_stream::iter(requests))).await.map_err(told)?.into_inner();
    same((1000, 1_000_000), (reply.count, reply.payload_bytes), "reply")?;
    Ok(None)
}

async fn server_stream(mut peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 3, size: 4, ..ExpandRequest::default() };
    let (got, end) = all(peer.expand(request).await.map_err(told)?).await;
    end.map_err(told)?;
    let reply = |i: i64| SayReply { text: format!("expand:{i}"), payload: vec![0; 4], sequence_id: i };
    same((0..3).map(reply).collect(), got, "replies")?;
    Ok(None)
}

async fn server_stream_of_none(mut peer: Peer) -> Outcome {
    let (got, end) = all(peer.expand(ExpandRequest::default()).await.map_err(told)?).await;
    end.map_err(told)?;
    same(0, got.len(), "replies")?;
    Ok(None)
}

async fn server_stream_of_1000(mut peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 1000, size: 1000, ..ExpandRequest::default() };
    let (got, end) = all(peer.expand(request).await.map_err(told)?).await;
    end.map_err(told)?;
    same((0..1000).collect::<Vec<i64>>(), got.iter().map(|reply| reply.sequence_id).collect(), "sequence")?;
    Ok(None)
}

async fn server_stream_error_after_two(mut peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 2, end_code: 5, end_message: "gone".to_owned(), ..ExpandRequest::default() };
    let (got, end) = all(peer.expand(request).await.map_err(told)?).await;
    same(2, got.len(), "messages before the error")?;
    same("gone", fails(Code::NotFound, end)?.message(), "message")?;
    Ok(None)
}

async fn server_stream_error_at_once(mut peer: Peer) -> Outcome {
    let request = ExpandRequest { end_code: 7, end_message: "no".to_owned(), ..ExpandRequest::default() };
    let result = match peer.expand(request).await {
        Ok(replies) => all(replies).await.1,
        Err(status) => Err(status),
    };
    same("no", fails(Code::PermissionDenied, result)?.message(), "message")?;
    Ok(None)
}

/// A bidi call whose first request is there before it starts: tonic's client waits for the response headers, which
/// a server may hold back until its first reply.
async fn chat(peer: &mut Peer, first: &str) -> Result<(Sender<SayRequest>, Streaming<SayReply>), String> {
    let (requests, receiver) = channel(1);
    requests.send(text(first)).await.map_err(|error| error.to_string())?;
    let mut replies = peer.chat(ReceiverStream::new(receiver)).await.map_err(told)?;
    echoed(&mut replies, first).await?;
    Ok((requests, replies))
}

async fn echoed(replies: &mut Streaming<SayReply>, sent: &str) -> Result<(), String> {
    let reply = replies.message().await.map_err(told)?.ok_or("the stream ended")?;
    same(format!("echo:{sent}"), reply.text, "text")
}

async fn bidi_ping_pong(mut peer: Peer) -> Outcome {
    let (requests, mut replies) = chat(&mut peer, "first").await?;
    for i in 0..50 {
        requests.send(text(i.to_string())).await.map_err(|error| error.to_string())?;
        echoed(&mut replies, &i.to_string()).await?;
    }
    drop(requests);
    let (rest, end) = all(replies).await;
    end.map_err(told)?;
    same(0, rest.len(), "replies after half-close")?;
    Ok(None)
}

async fn bidi_error_midway(mut peer: Peer) -> Outcome {
    let (requests, mut replies) = chat(&mut peer, "ok").await?;
    requests.send(text("fail:enough")).await.map_err(|error| error.to_string())?;
    same("enough", fails(Code::FailedPrecondition, replies.message().await)?.message(), "message")?;
    Ok(None)
}

async fn status_codes(mut peer: Peer) -> Outcome {
    for code in 1..=16 {
        let status = fails(Code::from_i32(code), peer.fail(code as u32, "as asked", Vec::new()).await)?;
        same("as asked", status.message(), "message")?;
    }
    Ok(None)
}

async fn status_messages(mut peer: Peer) -> Outcome {
    for message in ["", "100% a+b & c=d %zz %41", "naïve 中文 🚀", "line1\nline2\ttab\r\nend"] {
        same(message, fails(Code::NotFound, peer.fail(5, message, Vec::new()).await)?.message(), "message")?;
    }
    Ok(None)
}

async fn status_details(mut peer: Peer) -> Outcome {
    let details: Vec<_> = [1, 2]
        .map(|number| prost_types::Any {
            type_url: "type.googleapis.com/trirpc.test.v1.FailDetail".to_owned(),
            value: FailDetail { reason: "reason".to_owned(), number }.encode_to_vec(),
        })
        .into();
    let status = fails(Code::FailedPrecondition, peer.fail(9, "with details", details.clone()).await)?;
    let blob = tonic_types::Status::decode(status.details()).map_err(|error| error.to_string())?;
    same(tonic_types::Status { code: 9, message: "with details".to_owned(), details }, blob, "details")?;
    Ok(None)
}

async fn deadline_of_unary(mut peer: Peer) -> Outcome {
    let start = Instant::now();
    let result = peer.sleep(5000, Duration::from_millis(300)).await;
    let took = start.elapsed();
    same(true, (Duration::from_millis(250)..Duration::from_secs(2)).contains(&took), "ended at its deadline")?;
    // Its own timer and the server's answer race; only the latter has the right code.
    if fails(Code::DeadlineExceeded, result.clone()).is_err() {
        same("Timeout expired", fails(Code::Cancelled, result)?.message(), "message")?;
    }
    Ok(Some("tonic's clients may say CANCELLED"))
}

/// tonic's own deadline covers a call up to the response headers: what follows is the server's to end.
async fn deadline_of_stream(mut peer: Peer) -> Outcome {
    let mut request = Request::new(ExpandRequest { count: 1000, interval_ms: 100, ..ExpandRequest::default() });
    request.set_timeout(Duration::from_millis(500));
    let replies = peer.echo.expand(request).await.map_err(told)?.into_inner();
    let ended = tokio::time::timeout(Duration::from_secs(2), all(replies)).await;
    match ended {
        Ok((got, end)) => {
            fails(Code::DeadlineExceeded, end)?;
            same(true, (1..10).contains(&got.len()), "replies within the deadline")?;
            Ok(None)
        }
        Err(_) if peer.server == "tonic" => Ok(Some("tonic's deadline ends with the response headers")),
        Err(_) => Err("the stream outlives its deadline".to_owned()),
    }
}

async fn deadline_met(mut peer: Peer) -> Outcome {
    let reply = peer.sleep(50, Duration::from_secs(10)).await.map_err(told)?;
    same("slept", reply.text.as_str(), "text")?;
    Ok(None)
}

async fn cancel_unary(mut peer: Peer) -> Outcome {
    let mut echo = peer.echo.clone();
    let call = tokio::spawn(async move { echo.sleep(timed(SleepRequest { millis: 5000 })).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    call.abort();
    same(true, call.await.is_err_and(|error| error.is_cancelled()), "dropped")?;
    peer.serves().await?;
    Ok(None)
}

async fn cancel_server_stream(mut peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 1000, size: 10_000, interval_ms: 1, ..ExpandRequest::default() };
    let mut replies = peer.expand(request).await.map_err(told)?;
    replies.message().await.map_err(told)?.ok_or("the stream ended")?;
    drop(replies);
    peer.serves().await?;
    Ok(None)
}

async fn cancel_bidi(mut peer: Peer) -> Outcome {
    let (_requests, replies) = chat(&mut peer, "one").await?;
    drop(replies);
    peer.serves().await?;
    Ok(None)
}

async fn metadata_text(mut peer: Peer) -> Outcome {
    peer.comes_back(&[
        ("a", &[b"one", b"two", b"one"]),
        ("comma", &[b"v,w", b"x"]),
        ("symbols", &[b"!#$%&'()*+-./:;<=>?@[]^_`{|}~"]),
    ])
    .await
}

async fn metadata_binary(mut peer: Peer) -> Outcome {
    let every: Vec<u8> = (0..=255).collect();
    peer.comes_back(&[("b-bin", &[b"\x00\x01\xff>", b"second", &every]), ("one-bin", &[b"\x80"])]).await
}

async fn metadata_empty_values(mut peer: Peer) -> Outcome {
    peer.comes_back(&[("none", &[b""]), ("none-bin", &[b""]), ("mixed-bin", &[b"", b"x", b""])]).await
}

async fn metadata_of_7_kib(mut peer: Peer) -> Outcome {
    peer.comes_back(&[("long", &[&[b'v'; 2300]])]).await
}

async fn metadata_non_ascii(mut peer: Peer) -> Outcome {
    peer.comes_back(&[("latin", &[b"na\xefve"]), ("utf8", &["中文".as_bytes()])]).await
}

async fn unknown(peer: Peer, path: &'static str) -> Outcome {
    let mut grpc = tonic::client::Grpc::new(peer.channel);
    grpc.ready().await.map_err(|error| error.to_string())?;
    let codec = tonic_prost::ProstCodec::<SayRequest, SayReply>::default();
    let result = grpc.unary(timed(SayRequest::default()), PathAndQuery::from_static(path), codec).await;
    fails(Code::Unimplemented, result)?;
    Ok(None)
}

async fn unknown_method(peer: Peer) -> Outcome {
    unknown(peer, "/trirpc.test.v1.Echo/NoSuch").await
}

async fn unknown_service(peer: Peer) -> Outcome {
    unknown(peer, "/no.such.Service/Method").await
}

async fn health_check(mut peer: Peer) -> Outcome {
    for service in ["", SERVICE] {
        let request = HealthCheckRequest { service: service.to_owned() };
        same(1, peer.health.check(timed(request)).await.map_err(told)?.into_inner().status, "status")?;
    }
    let request = HealthCheckRequest { service: "nobody".to_owned() };
    fails(Code::NotFound, peer.health.check(timed(request)).await)?;
    Ok(None)
}

async fn health_watch(mut peer: Peer) -> Outcome {
    let request = HealthCheckRequest { service: SERVICE.to_owned() };
    let mut replies = peer.health.watch(timed(request)).await.map_err(told)?.into_inner();
    same(1, replies.message().await.map_err(told)?.ok_or("the stream ended")?.status, "status")?;
    Ok(None)
}

async fn calls_1000_at_100(peer: Peer) -> Outcome {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..100 {
        let mut peer = peer.clone();
        workers.spawn(async move {
            for call in 0..10 {
                let sent = (worker * 10 + call).to_string();
                let reply = peer.say(SayRequest { payload: vec![0; 128], ..text(sent.clone()) }).await.map_err(told)?;
                same(format!("echo:{sent}"), reply.text, "text")?;
            }
            Ok::<_, String>(())
        });
    }
    while let Some(done) = workers.join_next().await {
        done.map_err(|error| error.to_string())??;
    }
    Ok(None)
}

fn gzip(peer: &Peer) -> EchoClient<Channel> {
    peer.echo.clone().send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip)
}

/// Asks whoever runs this for something, and waits for a line on standard input.
async fn ask(what: &str) -> Result<(), String> {
    println!("{what}");
    let answer = tokio::task::spawn_blocking(|| std::io::stdin().lines().next()).await;
    same(true, matches!(answer, Ok(Some(Ok(_)))), &format!("an answer to `{what}` on standard input"))
}

/// A payload of zeros each way; the run measures that few bytes pass.
async fn gzip_unary(peer: Peer) -> Outcome {
    ask("measure").await?;
    let request = SayRequest { payload: vec![0; 1 << 20], ..SayRequest::default() };
    let reply = gzip(&peer).say(timed(request)).await.map_err(told)?.into_inner();
    same(true, reply.payload == vec![0; 1 << 20], "payload")?;
    Ok(None)
}

async fn gzip_stream(peer: Peer) -> Outcome {
    ask("measure").await?;
    let sizes = [256 << 10, 0, 1, 256 << 10];
    let requests = sizes.map(|size| SayRequest { payload: vec![0; size], ..SayRequest::default() });
    let replies = gzip(&peer).chat(timed(tokio_stream::iter(requests))).await.map_err(told)?.into_inner();
    let (got, end) = all(replies).await;
    end.map_err(told)?;
    same(sizes.to_vec(), got.iter().map(|reply| reply.payload.len()).collect(), "sizes")?;
    Ok(None)
}

/// Whoever runs this kills the server and starts another.
async fn server_restart(mut peer: Peer) -> Outcome {
    peer.serves().await?;
    ask("restart").await?;
    while let Err(status) = peer.say(text("again")).await {
        // tonic maps a connection that breaks during a call to UNKNOWN.
        same(true, matches!(status.code(), Code::Unavailable | Code::Unknown), &told(status))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    peer.serves().await?;
    Ok(None)
}
