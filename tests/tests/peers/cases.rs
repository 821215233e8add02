//! Every case against a foreign server, one function each; the names are those that the peers' clients report.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use trirpc::client::UnaryCall;
use trirpc::proto::grpc::health::v1::HealthCheckRequest;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{
    ExpandRequest, FailDetail, FailRequest, MetaRequest, SayReply, SayRequest, SleepRequest,
};
use trirpc::{Bytes, CallKind, Code, Gzip, Method, Prost, Protocol, Sender, Status, StatusDetails, Streaming};

use crate::client::{OK_TIME, Outcome, Peer, all, all_of, fails, same, text, told};
use crate::{SERVICE, with_timeout};

const OVER_LIMIT: usize = 5 << 20;

pub(crate) type Case = fn(Peer) -> Pin<Box<dyn Future<Output = Outcome>>>;

macro_rules! cases {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), |peer| Box::pin($name(peer)))),*] };
}

pub(crate) const CASES: &[(&str, Case)] = cases![
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

/// The names of all cases, in their order.
pub(crate) fn names() -> Vec<String> {
    CASES.iter().map(|(name, _)| dashed(name)).collect()
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

/// Runs a case; its line is as the peers' clients print it.
pub(crate) async fn run(peer: &Peer, name: &str, case: Case) -> String {
    let name = dashed(name);
    let is_streaming = ["stream", "bidi", "watch"].iter().any(|word| name.contains(word));
    let case = if is_streaming && peer.protocol == Protocol::Connect {
        Box::pin(no_streams(peer.clone()))
    } else {
        case(peer.clone())
    };
    let outcome = with_timeout(Duration::from_secs(30), case).await;
    match outcome.unwrap_or_else(|| Err("still running after 30 s".to_owned())) {
        Ok(None) => format!("PASS {name}"),
        Ok(Some(note)) => format!("PASS {name} ({note})"),
        Err(why) => format!("FAIL {name}: {why}"),
    }
}

async fn no_streams(peer: Peer) -> Outcome {
    let (_, end) = expand(&peer, ExpandRequest::default()).await;
    fails(Code::Unimplemented, end)?;
    peer.serves().await?;
    Ok(Some("trirpc has no streams of Connect: its client refuses them"))
}

async fn unary(peer: Peer) -> Outcome {
    let payload = Bytes::from_static(&[0, 1, 255]);
    let request = SayRequest { payload: payload.clone(), sequence_id: -7, ..text("hello") };
    let reply = peer.say(request).await.map_err(told)?;
    same(SayReply { text: "echo:hello".to_owned(), payload, sequence_id: -7 }, reply, "reply")?;
    Ok(None)
}

async fn message_of_0_bytes(peer: Peer) -> Outcome {
    same("echo:", peer.say(SayRequest::default()).await.map_err(told)?.text.as_str(), "text")?;
    same(SayReply::default(), peer.fail(0, "").await.map_err(told)?, "reply")?;
    Ok(None)
}

async fn message_of_1_byte(peer: Peer) -> Outcome {
    peer.payload(1).await
}

async fn message_of_64_kib(peer: Peer) -> Outcome {
    peer.payload(64 << 10).await
}

async fn message_of_3900000_bytes(peer: Peer) -> Outcome {
    peer.payload(3_900_000).await
}

async fn request_over_limit(peer: Peer) -> Outcome {
    let tonic = peer.server == "tonic";
    let code = if tonic { Code::OutOfRange } else { Code::ResourceExhausted };
    let request = SayRequest { payload: vec![0; OVER_LIMIT].into(), reply_size: 1, ..SayRequest::default() };
    if peer.server == "dubbo-java" {
        same(1, peer.say(request).await.map_err(told)?.payload.len(), "payload")?;
        return Ok(Some("dubbo-java's servers have no limit"));
    }
    fails(code, peer.say(request).await)?;
    peer.serves().await?;
    Ok(tonic.then_some("tonic's servers say OUT_OF_RANGE"))
}

async fn reply_over_limit(peer: Peer) -> Outcome {
    let request = SayRequest { reply_size: OVER_LIMIT as u32, ..SayRequest::default() };
    fails(Code::ResourceExhausted, peer.say(request).await)?;
    peer.serves().await?;
    Ok(None)
}

/// Sends the requests, ends the stream, and takes the reply: (count, payload bytes, texts).
async fn collect(peer: &Peer, requests: Vec<SayRequest>) -> Result<(u32, u64, String), String> {
    let (mut sender, reply) = peer.echo.collect().timeout(OK_TIME).open();
    for request in &requests {
        sender.send(request).await.map_err(told)?;
    }
    sender.finish();
    let reply = reply.await.map_err(told)?;
    Ok((reply.count, reply.payload_bytes, reply.texts))
}

async fn client_stream(peer: Peer) -> Outcome {
    let requests = ["a", "b", "c"].map(|t| SayRequest { payload: b"xy"[..].into(), ..text(t) });
    same((3, 6, "a,b,c".to_owned()), collect(&peer, requests.into()).await?, "reply")?;
    Ok(None)
}

async fn client_stream_of_none(peer: Peer) -> Outcome {
    same((0, 0, String::new()), collect(&peer, Vec::new()).await?, "reply")?;
    Ok(None)
}

async fn client_stream_of_1000(peer: Peer) -> Outcome {
    let requests = vec![SayRequest { payload: vec![0; 1000].into(), ..SayRequest::default() }; 1000];
    let (count, payload_bytes, _) = collect(&peer, requests).await?;
    same((1000, 1_000_000), (count, payload_bytes), "reply")?;
    Ok(None)
}

async fn expand(peer: &Peer, request: ExpandRequest) -> (Vec<SayReply>, Result<(), Status>) {
    all(peer.echo.expand(request).timeout(OK_TIME).open()).await
}

async fn server_stream(peer: Peer) -> Outcome {
    let (got, end) = expand(&peer, ExpandRequest { count: 3, size: 4, ..ExpandRequest::default() }).await;
    end.map_err(told)?;
    let reply = |i: i64| SayReply { text: format!("expand:{i}"), payload: vec![0; 4].into(), sequence_id: i };
    same((0..3).map(reply).collect(), got, "replies")?;
    Ok(None)
}

async fn server_stream_of_none(peer: Peer) -> Outcome {
    let (got, end) = expand(&peer, ExpandRequest::default()).await;
    end.map_err(told)?;
    same(0, got.len(), "replies")?;
    Ok(None)
}

async fn server_stream_of_1000(peer: Peer) -> Outcome {
    let (got, end) = expand(&peer, ExpandRequest { count: 1000, size: 1000, ..ExpandRequest::default() }).await;
    end.map_err(told)?;
    same((0..1000).collect::<Vec<i64>>(), got.iter().map(|reply| reply.sequence_id).collect(), "sequence")?;
    Ok(None)
}

async fn server_stream_error_after_two(peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 2, end_code: 5, end_message: "gone".to_owned(), ..ExpandRequest::default() };
    let (got, end) = expand(&peer, request).await;
    same(2, got.len(), "messages before the error")?;
    same(peer.shown(Code::NotFound, "gone").as_str(), fails(Code::NotFound, end)?.message(), "message")?;
    Ok(peer.note_on_messages())
}

async fn server_stream_error_at_once(peer: Peer) -> Outcome {
    let request = ExpandRequest { end_code: 7, end_message: "no".to_owned(), ..ExpandRequest::default() };
    let status = fails(Code::PermissionDenied, expand(&peer, request).await.1)?;
    same(peer.shown(Code::PermissionDenied, "no").as_str(), status.message(), "message")?;
    Ok(peer.note_on_messages())
}

/// One request of a bidi call, and its reply.
async fn exchange(
    sender: &mut Sender<SayRequest>,
    replies: &mut Streaming<SayReply>,
    sent: &str,
) -> Result<(), String> {
    sender.send(&text(sent)).await.map_err(told)?;
    let reply = replies.next().await.map_err(told)?.ok_or("the stream ended")?;
    same(format!("echo:{sent}"), reply.text, "text")
}

async fn bidi_ping_pong(peer: Peer) -> Outcome {
    let (mut sender, mut replies) = peer.echo.chat().timeout(OK_TIME).open();
    for i in 0..50 {
        exchange(&mut sender, &mut replies, &i.to_string()).await?;
    }
    sender.finish();
    let (rest, end) = all(replies).await;
    end.map_err(told)?;
    same(0, rest.len(), "replies after half-close")?;
    Ok(None)
}

async fn bidi_error_midway(peer: Peer) -> Outcome {
    let (mut sender, mut replies) = peer.echo.chat().timeout(OK_TIME).open();
    exchange(&mut sender, &mut replies, "ok").await?;
    sender.send(&text("fail:enough")).await.map_err(told)?;
    let status = fails(Code::FailedPrecondition, replies.next().await)?;
    same(peer.shown(Code::FailedPrecondition, "enough").as_str(), status.message(), "message")?;
    Ok(peer.note_on_messages())
}

async fn status_codes(peer: Peer) -> Outcome {
    for number in 1..=16 {
        let status = peer.fail(number, "as asked").await.err().ok_or("a reply")?;
        let want = peer.shown(status.code(), "as asked");
        same((number, want.as_str()), (status.raw_code(), status.message()), "status")?;
    }
    Ok(peer.note_on_messages())
}

async fn status_messages(peer: Peer) -> Outcome {
    for message in ["", "100% a+b & c=d %zz %41", "naïve 中文 🚀", "line1\nline2\ttab\r\nend"] {
        let status = fails(Code::NotFound, peer.fail(5, message).await)?;
        same(peer.shown(Code::NotFound, message).as_str(), status.message(), "message")?;
    }
    Ok(peer.note_on_messages())
}

async fn status_details(peer: Peer) -> Outcome {
    let sent = [1, 2].map(|number| FailDetail { reason: "reason".to_owned(), number });
    let packed = sent.iter().map(|detail| prost_types::Any::from_msg(detail).expect("memory suffices"));
    let request = FailRequest { code: 9, message: "with details".to_owned(), details: packed.collect() };
    let status = fails(Code::FailedPrecondition, peer.echo.fail(request).timeout(OK_TIME).await)?;
    same(peer.shown(Code::FailedPrecondition, "with details").as_str(), status.message(), "message")?;
    let all = status.rpc_status().map_err(|error| error.to_string())?;
    if ["dubbo-go", "dubbo-java"].contains(&peer.server) {
        same(0, all.map_or(0, |all| all.details.len()), "details")?;
        return Ok(Some("Dubbo's servers drop the details of an error"));
    }
    let all = all.ok_or("no details")?;
    same((9, "with details", 2), (all.code, all.message.as_str(), all.details.len()), "details")?;
    same(Ok(Some(sent[0].clone())), status.detail::<FailDetail>(), "the first detail")?;
    Ok(None)
}

async fn deadline_of_unary(peer: Peer) -> Outcome {
    let start = Instant::now();
    let result = peer.echo.sleep(SleepRequest { millis: 5000 }).timeout(Duration::from_millis(300)).await;
    let took = start.elapsed();
    fails(Code::DeadlineExceeded, result)?;
    same(true, (Duration::from_millis(250)..Duration::from_secs(2)).contains(&took), "ended at its deadline")?;
    peer.serves().await?;
    Ok(None)
}

async fn deadline_of_stream(peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 1000, interval_ms: 100, ..ExpandRequest::default() };
    let (got, end) = all(peer.echo.expand(request).timeout(Duration::from_millis(500)).open()).await;
    fails(Code::DeadlineExceeded, end)?;
    same(true, (1..10).contains(&got.len()), "replies within the deadline")?;
    Ok(None)
}

async fn deadline_met(peer: Peer) -> Outcome {
    let reply = peer.echo.sleep(SleepRequest { millis: 50 }).timeout(OK_TIME).await.map_err(told)?;
    same("slept", reply.text.as_str(), "text")?;
    Ok(None)
}

async fn cancel_unary(peer: Peer) -> Outcome {
    let call = async { peer.echo.sleep(SleepRequest { millis: 5000 }).timeout(OK_TIME).await };
    // Dropping the call is what cancels it.
    same(true, with_timeout(Duration::from_millis(200), call).await.is_none(), "still running when dropped")?;
    peer.serves().await?;
    Ok(None)
}

async fn cancel_server_stream(peer: Peer) -> Outcome {
    let request = ExpandRequest { count: 1000, size: 10_000, interval_ms: 1, ..ExpandRequest::default() };
    let mut replies = peer.echo.expand(request).timeout(OK_TIME).open();
    replies.next().await.map_err(told)?.ok_or("the stream ended")?;
    drop(replies);
    peer.serves().await?;
    Ok(None)
}

async fn cancel_bidi(peer: Peer) -> Outcome {
    let (mut sender, mut replies) = peer.echo.chat().timeout(OK_TIME).open();
    exchange(&mut sender, &mut replies, "one").await?;
    drop(replies);
    same(true, sender.send(&text("two")).await.is_err(), "a cancelled call takes no message")?;
    peer.serves().await?;
    Ok(None)
}

async fn metadata_text(peer: Peer) -> Outcome {
    peer.comes_back(&[
        ("a", &[b"one", b"two", b"one"]),
        ("comma", &[b"v,w", b"x"]),
        ("symbols", &[b"!#$%&'()*+-./:;<=>?@[]^_`{|}~"]),
    ])
    .await
}

async fn metadata_binary(peer: Peer) -> Outcome {
    let every: Vec<u8> = (0..=255).collect();
    peer.comes_back(&[("b-bin", &[b"\x00\x01\xff>", b"second", &every]), ("one-bin", &[b"\x80"])]).await
}

async fn metadata_empty_values(peer: Peer) -> Outcome {
    // No two names that differ by the suffix alone: dubbo-java takes it off.
    peer.comes_back(&[("none", &[b""]), ("empty-bin", &[b""]), ("mixed-bin", &[b"", b"x", b""])]).await
}

async fn metadata_of_7_kib(peer: Peer) -> Outcome {
    peer.comes_back(&[("long", &[&[b'v'; 2300]])]).await
}

/// Bytes from 0x80 up pass as they are, as Latin-1 or as nothing in particular; text beyond ASCII is refused here.
async fn metadata_non_ascii(peer: Peer) -> Outcome {
    let text = peer.echo.meta(MetaRequest::default()).metadata("x-echo-text", "中文").timeout(OK_TIME);
    fails(Code::InvalidArgument, text.await)?;
    if peer.server == "grpcio" {
        let latin = peer.echo.meta(MetaRequest::default()).metadata("x-echo-latin", b"na\xefve").timeout(OK_TIME);
        same("Invalid metadata", fails(Code::Internal, latin.await)?.message(), "message")?;
        return Ok(Some("grpcio's servers refuse metadata that is not ASCII"));
    }
    if peer.server == "grpc-js" {
        let call = peer.echo.meta(MetaRequest::default()).metadata("x-echo-latin", b"na\xefve");
        let (_, headers, _) = call.metadata("x-echo-a", "b").timeout(OK_TIME).full().await.map_err(told)?.into_parts();
        same((1, 0), (all_of(&headers, "x-head-a")?.len(), all_of(&headers, "x-head-latin")?.len()), "headers")?;
        return Ok(Some("grpc-js's servers drop metadata that is not ASCII"));
    }
    peer.comes_back(&[("latin", &[b"na\xefve"]), ("opaque", &[b"\x80\xff", b"\xe4\xb8"])]).await
}

async fn unknown_method(peer: Peer) -> Outcome {
    static NO_SUCH: Method<SayRequest, SayReply> =
        Method::new("/trirpc.test.v1.Echo/NoSuch", CallKind::Unary, false, Prost::codecs());
    let result = UnaryCall::new(peer.channel, &NO_SUCH, SayRequest::default()).timeout(OK_TIME).await;
    if peer.server == "dubbo-java" {
        fails(Code::Unknown, result)?;
        return Ok(Some("dubbo-java's servers say UNKNOWN for an unknown method: a NullPointerException"));
    }
    fails(Code::Unimplemented, result)?;
    Ok(None)
}

async fn unknown_service(peer: Peer) -> Outcome {
    static NO_SUCH: Method<SayRequest, SayReply> =
        Method::new("/no.such.Service/Method", CallKind::Unary, false, Prost::codecs());
    let call = UnaryCall::new(peer.channel, &NO_SUCH, SayRequest::default());
    fails(Code::Unimplemented, call.timeout(OK_TIME).await)?;
    Ok(None)
}

async fn health_check(peer: Peer) -> Outcome {
    for service in ["", SERVICE] {
        let request = HealthCheckRequest { service: service.to_owned() };
        same(1, peer.health.check(request).timeout(OK_TIME).await.map_err(told)?.status, "status")?;
    }
    let request = HealthCheckRequest { service: "nobody".to_owned() };
    let result = peer.health.check(request).timeout(OK_TIME).await;
    if peer.server == "dubbo-go" {
        same(17, fails(Code::Unknown, result)?.raw_code(), "code")?;
        return Ok(Some("dubbo-go's servers say 17, not NOT_FOUND, for an unknown service's health"));
    }
    fails(Code::NotFound, result)?;
    Ok(None)
}

async fn health_watch(peer: Peer) -> Outcome {
    let request = HealthCheckRequest { service: SERVICE.to_owned() };
    let mut replies = peer.health.watch(request).timeout(OK_TIME).open();
    same(1, replies.next().await.map_err(told)?.ok_or("the stream ended")?.status, "status")?;
    Ok(None)
}

async fn calls_1000_at_100(peer: Peer) -> Outcome {
    let workers = (0..100).map(|worker| {
        let peer = peer.clone();
        async move {
            for call in 0..10 {
                let sent = (worker * 10 + call).to_string();
                let request = SayRequest { payload: vec![0; 128].into(), ..text(sent.clone()) };
                let reply = peer.say(request).await.map_err(told)?;
                same(format!("echo:{sent}"), reply.text, "text")?;
            }
            Ok::<_, String>(())
        }
    });
    let workers: Vec<_> = workers.map(smol::spawn).collect();
    for worker in workers {
        worker.await?;
    }
    Ok(None)
}

/// A payload of zeros each way; the run measures that few bytes pass.
async fn gzip_unary(peer: Peer) -> Outcome {
    let echo = EchoClient::new(peer.channel.send_compression(Gzip::default()));
    let payload = Bytes::from(vec![0; 1 << 20]);
    let request = SayRequest { payload: payload.clone(), ..SayRequest::default() };
    same(true, payload == echo.say(request).timeout(OK_TIME).await.map_err(told)?.payload, "payload")?;
    Ok(None)
}

async fn gzip_stream(peer: Peer) -> Outcome {
    let echo = EchoClient::new(peer.channel.send_compression(Gzip::default()));
    let (mut sender, mut replies) = echo.chat().timeout(OK_TIME).open();
    for size in [256 << 10, 0, 1, 256 << 10] {
        let request = SayRequest { payload: vec![0; size].into(), ..text("zeros") };
        sender.send(&request).await.map_err(told)?;
        let reply = replies.next().await.map_err(told)?.ok_or("the stream ended")?;
        same(("echo:zeros", size), (reply.text.as_str(), reply.payload.len()), "reply")?;
    }
    sender.finish();
    let (rest, end) = all(replies).await;
    end.map_err(told)?;
    same(0, rest.len(), "replies after half-close")?;
    Ok(None)
}

/// The server is killed, and another one listens where it was.
async fn server_restart(peer: Peer) -> Outcome {
    peer.serves().await?;
    let stand = Arc::clone(&peer.stand);
    smol::unblock(move || stand.restart()).await.map_err(|error| error.to_string())?;
    while let Err(status) = peer.say(text("again")).await {
        same(Code::Unavailable, status.code(), status.message())?;
        smol::Timer::after(Duration::from_millis(20)).await;
    }
    peer.serves().await?;
    Ok(None)
}
