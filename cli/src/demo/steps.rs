//! The calls of the demo, and what each of them must show.

use std::io::Write;
use std::time::{Duration, Instant};

use smol::channel::Receiver;
use trirpc::prost_types::Any;
use trirpc::proto::StatusDetails;
use trirpc::proto::google::rpc::ErrorInfo;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{ExpandRequest, FailDetail, FailRequest, MetaRequest, SayRequest, SleepRequest};
use trirpc::{Bytes, Channel, Code, Metadata, Status};

use super::dialect::Dialect;
use super::report::Report;
use super::report::Side::{Client, Server};
use super::weighed::Weighed;
use super::within;
use crate::echo::Observation;

/// Key and value that every kind of call carries.
const KEY: &str = "x-demo";
const BINARY_KEY: &str = "x-demo-bin";
const BINARY: &[u8] = &[0x00, 0xff, 0x80];

/// Time of the call whose deadline fires, and the latest that it may fire on a busy machine.
const DEADLINE: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(3);

/// Payload of the compressed calls, one way: zeros, which gzip makes small.
const LARGE: usize = 64 * 1024;

pub(super) struct Demo<W> {
    channel: Channel,
    pub(super) client: EchoClient,
    /// The same connection, with messages compressed on the scale.
    pub(super) compressed: EchoClient,
    scale: Weighed,
    dialect: Dialect,
    seen: Seen,
    pub(super) report: Report<W>,
}

impl<W: Write> Demo<W> {
    pub(super) fn new(channel: Channel, seen: Seen, report: Report<W>) -> Self {
        let scale = Weighed::default();
        let compressed = EchoClient::new(channel.clone().send_compression(scale.clone()));
        let client = EchoClient::new(channel.clone());
        Self { channel, client, compressed, scale, dialect: Dialect::Grpc, seen, report }
    }

    /// Every step that the dialect can show.
    pub(super) async fn speak(&mut self, dialect: Dialect) {
        self.dialect = dialect;
        let channel = self.channel.clone().protocol(dialect.protocol());
        self.compressed = EchoClient::new(channel.clone().send_compression(self.scale.clone()));
        self.client = EchoClient::new(channel);

        let outcome = within(self.unary()).await;
        self.outcome(outcome);
        if dialect.has_streams() {
            let outcome = within(self.client_stream()).await;
            self.outcome(outcome);
            let outcome = within(self.server_stream()).await;
            self.outcome(outcome);
            let outcome = within(self.bidi()).await;
            self.outcome(outcome);
        }
        let outcome = within(self.metadata()).await;
        self.outcome(outcome);
        let outcome = within(self.error()).await;
        self.outcome(outcome);
        let outcome = within(self.deadline()).await;
        self.outcome(outcome);
        let outcome = within(self.cancellation()).await;
        self.outcome(outcome);
        let outcome = within(self.compressed_unary()).await;
        self.outcome(outcome);
        if dialect.has_streams() {
            let outcome = within(self.compressed_streams()).await;
            self.outcome(outcome);
        }
        let outcome = within(self.unharmed()).await;
        self.outcome(outcome);
    }

    /// The heading of a step: gRPC's goes without saying.
    fn step(&mut self, name: &str, what: &str) {
        match self.dialect {
            Dialect::Grpc => self.report.step(name, what),
            dialect => self.report.step(&format!("{dialect} {name}"), what),
        }
    }

    /// The last line of a step: that it came to its end.
    fn outcome(&mut self, outcome: Option<Result<(), Status>>) {
        let got = match outcome {
            Some(Ok(())) => return,
            Some(Err(status)) => status.to_string(),
            None => "it did not come to its end".to_owned(),
        };
        self.report.line(Client, "outcome", got, "OK");
    }

    fn client(&mut self, what: &str, got: impl std::fmt::Display, want: impl std::fmt::Display) {
        self.report.line(Client, what, got, want);
    }

    async fn unary(&mut self) -> Result<(), Status> {
        self.step("unary", "Say \"hello\", asking for 1000 bytes");
        let request = SayRequest { text: "hello".to_owned(), reply_size: 1000, sequence_id: 7, ..Default::default() };
        let call = self.client.say(request).metadata(KEY, "unary").metadata(BINARY_KEY, BINARY);
        let reply = call.await?;
        self.server_saw("Say", "unary").await;
        self.client("text", &reply.text, "echo:hello");
        self.client("payload", format!("{} bytes", reply.payload.len()), "1000 bytes");
        self.client("sequence_id", reply.sequence_id, 7);
        self.server_ended("Say", "answered").await;
        Ok(())
    }

    async fn client_stream(&mut self) -> Result<(), Status> {
        self.step("client stream", "Collect \"a\", \"b\", \"c\" with 10 bytes each");
        let call = self.client.collect().metadata(KEY, "client stream").metadata(BINARY_KEY, BINARY);
        let (mut tx, reply) = call.open();
        for text in ["a", "b", "c"] {
            tx.send(&say(text, Bytes::from_static(&[1; 10]))).await?;
        }
        tx.finish();
        let reply = reply.await?;
        self.server_saw("Collect", "client stream").await;
        self.client("count", reply.count, 3);
        self.client("texts", &reply.texts, "a,b,c");
        self.client("payload", format!("{} bytes", reply.payload_bytes), "30 bytes");
        self.server_ended("Collect", "answered").await;
        Ok(())
    }

    async fn server_stream(&mut self) -> Result<(), Status> {
        self.step("server stream", "Expand into 3 replies");
        let request = ExpandRequest { count: 3, size: 5, interval_ms: 10, ..Default::default() };
        let call = self.client.expand(request).metadata(KEY, "server stream").metadata(BINARY_KEY, BINARY);
        let mut rx = call.await?;
        self.server_saw("Expand", "server stream").await;
        for i in 0..3 {
            let got = rx.next().await?.map(|reply| format!("{} with {} bytes", reply.text, reply.payload.len()));
            self.client(&format!("reply {i}"), or_end(got), format!("expand:{i} with 5 bytes"));
        }
        self.client("then", or_end(rx.next().await?.map(|reply| reply.text)), "the end");
        self.server_ended("Expand", "answered").await;
        Ok(())
    }

    async fn bidi(&mut self) -> Result<(), Status> {
        self.step("bidi", "Chat, each message after the answer to the one before");
        let call = self.client.chat().metadata(KEY, "bidi").metadata(BINARY_KEY, BINARY);
        let (mut tx, mut rx) = call.open();
        for text in ["one", "two", "three"] {
            tx.send(&say(text, Bytes::new())).await?;
            let got = rx.next().await?.map(|reply| reply.text);
            self.client(&format!("answer to {text}"), or_end(got), format!("echo:{text}"));
        }
        self.server_saw("Chat", "bidi").await;
        tx.finish();
        self.client("after the half-close", or_end(rx.next().await?.map(|reply| reply.text)), "the end");
        self.server_ended("Chat", "answered").await;
        Ok(())
    }

    async fn metadata(&mut self) -> Result<(), Status> {
        self.step("metadata", "Meta sends back what it was sent, as headers and as trailers");
        let call = self.client.meta(MetaRequest::default());
        let call = call.metadata("x-echo-tenant", "blue").metadata("x-echo-tenant", "green");
        let reply = call.metadata("x-echo-trace-bin", BINARY).full().await?;
        self.server_started("Meta").await;
        let seen = reply.message().seen.iter().find(|entry| entry.key == "x-echo-tenant");
        let seen = seen.map_or_else(String::new, |entry| entry.values.join(", "));
        self.report.line(Server, "x-echo-tenant", seen, "blue, green");
        self.client("header x-head-tenant", values(reply.headers(), "x-head-tenant"), "blue, green");
        self.client("header x-head-trace-bin", values(reply.headers(), "x-head-trace-bin"), "00 ff 80");
        self.client("trailer x-trail-tenant", values(reply.trailers(), "x-trail-tenant"), "blue, green");
        self.client("trailer x-trail-trace-bin", values(reply.trailers(), "x-trail-trace-bin"), "00 ff 80");
        self.server_ended("Meta", "answered").await;
        Ok(())
    }

    async fn error(&mut self) -> Result<(), Status> {
        self.step("error", "Fail with a code, a message and two details (google.rpc.Status)");
        let info =
            ErrorInfo { reason: "OUT_OF_TEA".to_owned(), domain: "trirpc.test".to_owned(), ..Default::default() };
        let detail = FailDetail { reason: "kettle".to_owned(), number: 418 };
        let details = [Any::from_msg(&info), Any::from_msg(&detail)].into_iter().flatten().collect();
        let request =
            FailRequest { code: Code::FailedPrecondition as u32, message: "no tea, 100 %".to_owned(), details };
        let status = self.client.fail(request).await.err().unwrap_or(Status::OK);
        self.server_started("Fail").await;
        self.client("code", status.code(), "FAILED_PRECONDITION");
        self.client("message", status.message(), "no tea, 100 %");
        self.client("who failed", status.origin(), "peer");
        let got = status.detail::<ErrorInfo>().ok().flatten().map(|info| format!("{} of {}", info.reason, info.domain));
        self.client("detail ErrorInfo", got.unwrap_or_default(), "OUT_OF_TEA of trirpc.test");
        let got =
            status.detail::<FailDetail>().ok().flatten().map(|detail| format!("{} {}", detail.reason, detail.number));
        self.client("detail FailDetail", got.unwrap_or_default(), "kettle 418");
        self.server_ended("Fail", "answered").await;
        Ok(())
    }

    async fn deadline(&mut self) -> Result<(), Status> {
        self.step("deadline", "Sleep 60 s with a timeout of 100 ms");
        let begin = Instant::now();
        let call = self.client.sleep(SleepRequest { millis: 60_000 }).timeout(DEADLINE);
        let status = call.await.err().unwrap_or(Status::OK);
        self.report.time(Client, "returned after", begin.elapsed(), DEADLINE..=LATEST);
        self.client("code", status.code(), "DEADLINE_EXCEEDED");
        let remaining = self.server_started("Sleep").await.and_then(|(_, remaining)| remaining);
        self.report.time(
            Server,
            "time left at its start",
            remaining.unwrap_or_default(),
            Duration::from_millis(1)..=DEADLINE,
        );
        self.server_ended("Sleep", "dropped").await;
        Ok(())
    }

    async fn cancellation(&mut self) -> Result<(), Status> {
        self.step("cancellation", "Sleep 60 s, and the client loses interest");
        let call = smol::spawn(self.client.sleep(SleepRequest { millis: 60_000 }).into_future());
        let started = self.server_started("Sleep").await.is_some();
        self.report.line(Server, "handler of Sleep", if started { "started" } else { "not started" }, "started");
        let cancelled = call.cancel().await.is_none();
        self.client("call", if cancelled { "dropped" } else { "answered" }, "dropped");
        self.server_ended("Sleep", "dropped").await;
        Ok(())
    }

    async fn compressed_unary(&mut self) -> Result<(), Status> {
        self.step("compressed unary", "Say with 64 KiB of zeros, which come back, both ways by gzip");
        let reply = self.compressed.say(say("packed", Bytes::from_static(&[0; LARGE]))).await?;
        self.client("payload", format!("{} bytes", reply.payload.len()), format!("{LARGE} bytes"));
        self.weighed(1, 1);
        self.server_started("Say").await;
        self.server_ended("Say", "answered").await;
        Ok(())
    }

    async fn compressed_streams(&mut self) -> Result<(), Status> {
        let zeros = || say("packed", Bytes::from_static(&[0; LARGE]));
        self.step("compressed streams", "each kind of stream with 3 messages of 64 KiB each way, by gzip");
        let (mut tx, reply) = self.compressed.collect().open();
        for _ in 0..3 {
            tx.send(&zeros()).await?;
        }
        tx.finish();
        self.client("Collect", format!("{} bytes", reply.await?.payload_bytes), format!("{} bytes", 3 * LARGE));
        self.weighed(3, 0);

        let request = ExpandRequest { count: 3, size: LARGE as u32, ..Default::default() };
        let (mut rx, mut bytes) = (self.compressed.expand(request).await?, 0);
        while let Some(reply) = rx.next().await? {
            bytes += reply.payload.len();
        }
        self.client("Expand", format!("{bytes} bytes"), format!("{} bytes", 3 * LARGE));
        self.weighed(0, 3);

        let (mut tx, mut rx) = self.compressed.chat().open();
        let mut bytes = 0;
        for _ in 0..3 {
            tx.send(&zeros()).await?;
            bytes += rx.next().await?.map_or(0, |reply| reply.payload.len());
        }
        tx.finish();
        self.client("Chat", format!("{bytes} bytes, then {}", or_end(rx.next().await?.map(|reply| reply.text))), {
            format!("{} bytes, then the end", 3 * LARGE)
        });
        self.weighed(3, 3);
        for method in ["Collect", "Expand", "Chat"] {
            self.server_started(method).await;
            self.server_ended(method, "answered").await;
        }
        Ok(())
    }

    /// Lines on what went through gzip on the client since the last time.
    fn weighed(&mut self, packed: usize, unpacked: usize) {
        let load = self.scale.take();
        self.client("messages by gzip", format!("{} out, {} in", load.packed, load.unpacked), {
            format!("{packed} out, {unpacked} in")
        });
        self.client("on the wire", format!("at most {} % of that", load.percent()), "at most 1 % of that");
    }

    async fn unharmed(&mut self) -> Result<(), Status> {
        self.step("after all that", "Say \"still here\" on the same connection");
        let reply = self.client.say(say("still here", Bytes::new())).await?;
        self.client("text", reply.text, "echo:still here");
        self.server_started("Say").await;
        self.server_ended("Say", "answered").await;
        Ok(())
    }

    async fn server_started(&mut self, method: &'static str) -> Option<(Metadata, Option<Duration>)> {
        self.seen.started(method).await
    }

    /// Lines on the request metadata of a call, as the server saw them.
    async fn server_saw(&mut self, method: &'static str, text: &str) {
        let metadata = self.server_started(method).await.map(|(metadata, _)| metadata).unwrap_or_default();
        self.report.line(Server, KEY, values(&metadata, KEY), text);
        self.report.line(Server, BINARY_KEY, values(&metadata, BINARY_KEY), "00 ff 80");
    }

    /// A line on what became of a call in its handler.
    async fn server_ended(&mut self, method: &'static str, how: &str) {
        let got = self.seen.ended(method).await;
        self.report.line(Server, &format!("handler of {method}"), got, how);
    }
}

/// What the server's handlers report.
pub(super) struct Seen(pub(super) Receiver<Observation>);

impl Seen {
    async fn started(&self, wanted: &'static str) -> Option<(Metadata, Option<Duration>)> {
        within(async {
            loop {
                match self.0.recv().await {
                    Ok(Observation::Started { method, metadata, remaining }) if method == wanted => {
                        return Some((metadata, remaining));
                    }
                    Ok(_) => {}
                    Err(_) => return None,
                }
            }
        })
        .await?
    }

    async fn ended(&self, wanted: &'static str) -> &'static str {
        let ended = within(async {
            loop {
                match self.0.recv().await {
                    Ok(Observation::Answered { method }) if method == wanted => return "answered",
                    Ok(Observation::Dropped { method }) if method == wanted => return "dropped",
                    Ok(_) => {}
                    Err(_) => return "gone",
                }
            }
        });
        ended.await.unwrap_or("still running")
    }
}

fn say(text: &str, payload: Bytes) -> SayRequest {
    SayRequest { text: text.to_owned(), payload, ..Default::default() }
}

fn or_end(message: Option<String>) -> String {
    message.unwrap_or_else(|| "the end".to_owned())
}

/// All values of a key: text, or the bytes in hexadecimal.
fn values(metadata: &Metadata, key: &str) -> String {
    let texts = metadata.get_all(key).map(|value| match value.is_binary() {
        false => value.to_text().into_owned(),
        true => {
            let bytes = value.to_bytes().unwrap_or_default();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}
