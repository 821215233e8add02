//! The same driver on another runtime: tokio's sockets through `tokio_util::compat`, a clock of forty lines, and
//! `tokio::spawn`. This is what pluggable I/O means.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::Sleep;
use tokio_util::compat::TokioAsyncReadCompatExt;
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::{Echo, EchoServer};
use trirpc_proto::test_service::{
    CollectReply, ExpandRequest, FailRequest, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest,
};
use trirpc_rpc::{
    ClientSession, Code, Config, Context, Endpoint, HttpVersion, Instant, Io, Router, Sender, Status, Streaming, Time,
    Timer, handshake, serve_connection,
};

#[derive(Clone, Copy)]
struct TokioTime {
    epoch: tokio::time::Instant,
}

impl TokioTime {
    fn new() -> Self {
        Self { epoch: tokio::time::Instant::now() }
    }
}

impl Time for TokioTime {
    type Timer = TokioTimer;

    fn now(&self) -> Instant {
        Instant::ZERO + self.epoch.elapsed()
    }

    fn timer(&self) -> TokioTimer {
        TokioTimer { epoch: self.epoch, sleep: None }
    }
}

struct TokioTimer {
    epoch: tokio::time::Instant,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Timer for TokioTimer {
    fn reset(&mut self, at: Instant) {
        let at = self.epoch + Duration::from_nanos(at.as_nanos());
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().reset(at),
            None => self.sleep = Some(Box::pin(tokio::time::sleep_until(at))),
        }
    }

    fn poll_expired(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

struct Service;

impl Echo for Service {
    async fn say(&self, cx: &mut Context, request: SayRequest) -> Result<SayReply, Status> {
        let text = format!("{} from {}", request.text, cx.peer().unwrap_or("nowhere"));
        Ok(SayReply { text, ..SayReply::default() })
    }

    async fn collect(&self, _: &mut Context, rx: &mut Streaming<SayRequest>) -> Result<CollectReply, Status> {
        let mut reply = CollectReply::default();
        while let Some(request) = rx.next().await? {
            reply.count += 1;
            reply.texts += &request.text;
        }
        Ok(reply)
    }

    async fn expand(&self, _: &mut Context, request: ExpandRequest, tx: &mut Sender<SayReply>) -> Result<(), Status> {
        for i in 0..request.count {
            tx.send(&SayReply { text: i.to_string(), ..SayReply::default() }).await?;
        }
        Ok(())
    }

    async fn chat(
        &self,
        _: &mut Context,
        rx: &mut Streaming<SayRequest>,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        while let Some(request) = rx.next().await? {
            tx.send(&SayReply { text: request.text, ..SayReply::default() }).await?;
        }
        Ok(())
    }

    async fn fail(&self, _: &mut Context, request: FailRequest) -> Result<SayReply, Status> {
        Err(Status::not_found(request.message))
    }

    async fn sleep(&self, _: &mut Context, _: SleepRequest) -> Result<SayReply, Status> {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        Ok(SayReply::default())
    }

    async fn meta(&self, _: &mut Context, _: MetaRequest) -> Result<MetaReply, Status> {
        panic!("on purpose")
    }
}

fn io(stream: TcpStream) -> Io<tokio_util::compat::Compat<TcpStream>> {
    stream.set_nodelay(true).expect("a socket option");
    let peer = stream.peer_addr().expect("connected").to_string();
    Io::new(stream.compat()).with_peer(peer)
}

async fn serve(listener: TcpListener) {
    let router = Arc::new(Router::new().add(EchoServer::new(Service)));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        let config = Arc::new(Config::default());
        let (_, driver) = serve_connection(io(stream), Arc::clone(&router), config, TokioTime::new(), |task| {
            tokio::spawn(task);
        });
        tokio::spawn(driver);
    }
}

#[test]
fn all_kinds_of_call_run_on_tokio() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let server = tokio::spawn(serve(listener));
        let stream = TcpStream::connect(address).await.expect("connected");
        let endpoint = Endpoint::http(address.to_string());
        let (session, driver) =
            handshake(io(stream), Arc::new(Config::default()), endpoint, HttpVersion::Http2, TokioTime::new());
        let driver = tokio::spawn(driver);
        tokio::time::timeout(Duration::from_secs(60), calls(EchoClient::new(session))).await.expect("in time");
        // The last handle is gone: the connection shuts down, and the driver says why it ended.
        let reason = tokio::time::timeout(Duration::from_secs(5), driver).await.expect("in time").expect("no panic");
        assert_eq!(reason, trirpc_core::ConnectionError::Shutdown);
        server.abort();
    });
}

fn text(text: &str) -> SayRequest {
    SayRequest { text: text.to_owned(), ..SayRequest::default() }
}

async fn calls(client: EchoClient<ClientSession>) {
    let reply = client.say(text("hello")).await.expect("answered");
    assert!(reply.text.starts_with("hello from 127.0.0.1:"), "{}", reply.text);

    let mut rx = client.expand(ExpandRequest { count: 3, ..ExpandRequest::default() }).await.expect("a stream");
    let mut count = 0;
    while let Some(reply) = rx.next().await.expect("a message") {
        assert_eq!(reply.text, count.to_string());
        count += 1;
    }
    assert_eq!(count, 3);

    let (mut tx, reply) = client.collect().open();
    for word in ["a", "b"] {
        tx.send(&text(word)).await.expect("sent");
    }
    tx.finish();
    assert_eq!(reply.await.expect("answered").texts, "ab");

    // The two halves of a call in two tasks.
    let (mut tx, mut rx) = client.chat().open();
    let sending = tokio::spawn(async move {
        for i in 0..1000 {
            tx.send(&text(&i.to_string())).await.expect("sent");
        }
        tx.finish();
    });
    for i in 0..1000 {
        assert_eq!(rx.next().await.expect("a message").expect("not the end").text, i.to_string());
    }
    assert_eq!(rx.next().await.expect("the end"), None);
    sending.await.expect("no panic");

    let status =
        client.fail(FailRequest { message: "gone".into(), ..FailRequest::default() }).await.expect_err("fails");
    assert_eq!((status.code(), status.message()), (Code::NotFound, "gone"));
    let late = client.sleep(SleepRequest::default()).timeout(Duration::from_millis(50)).await.expect_err("late");
    assert_eq!(late.code(), Code::DeadlineExceeded);
    let status = client.meta(MetaRequest::default()).await.expect_err("panics");
    assert_eq!(status.code(), Code::Internal);

    // Many callers on one connection, from many threads.
    let many: Vec<_> = (0..200)
        .map(|i| {
            let client = client.clone();
            tokio::spawn(async move { client.say(text(&i.to_string())).await.map(|reply| (i, reply.text)) })
        })
        .collect();
    for call in many {
        let (i, text) = call.await.expect("no panic").expect("answered");
        assert!(text.starts_with(&format!("{i} from")));
    }
}
