//! Against the `h2` crate, over an in-memory pipe: our client with its server, its client with our server. `h2` is
//! the engine below tonic and hyper, and knows nothing of gRPC: these tests look at HTTP/2 alone.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::io::DuplexStream;
use tokio_util::compat::TokioAsyncReadCompatExt;
use trirpc_cli::echo::EchoService;
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::EchoServer;
use trirpc_proto::test_service::{ExpandRequest, FailRequest, SayReply, SayRequest};
use trirpc_rpc::{
    ClientSession, Code, Config, Endpoint, HttpVersion, Io, ManualTime, Origin, Router, ServerSession, handshake,
    serve_connection,
};

/// Small enough that large messages take many turns of the pipe.
const PIPE: usize = 4096;
const LARGE: usize = 300_000;

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("in time") });
}

fn our_client(io: DuplexStream) -> EchoClient<ClientSession> {
    let endpoint = Endpoint::http("test");
    let (session, driver) =
        handshake(Io::new(io.compat()), Arc::new(Config::default()), endpoint, HttpVersion::Http2, ManualTime::new());
    tokio::spawn(driver);
    EchoClient::new(session)
}

fn our_server(io: DuplexStream) -> ServerSession {
    let router = Arc::new(Router::new().add(EchoServer::new(EchoService::new())));
    let config = Arc::new(Config::default());
    let (session, driver) = serve_connection(Io::new(io.compat()), router, config, ManualTime::new(), |task| {
        tokio::spawn(task);
    });
    tokio::spawn(driver);
    session
}

fn envelope(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    message.encode(&mut framed).expect("BytesMut grows");
    framed.freeze()
}

fn messages<M: Message + Default>(mut body: Bytes) -> Vec<M> {
    let mut messages = Vec::new();
    while body.has_remaining() {
        assert_eq!(body.get_u8(), 0, "not compressed");
        let len = body.get_u32() as usize;
        messages.push(M::decode(body.split_to(len)).expect("a message"));
    }
    messages
}

async fn read(body: &mut RecvStream) -> Bytes {
    let mut whole = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data.expect("data");
        whole.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len()).expect("what was received");
    }
    whole.freeze()
}

/// Writes as the windows allow.
async fn write(stream: &mut SendStream<Bytes>, mut data: Bytes, end: bool) {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.expect("open").expect("a window");
        let piece = data.split_to(room.min(data.len()));
        stream.send_data(piece, false).expect("sent");
    }
    if end {
        stream.send_data(Bytes::new(), true).expect("sent");
    }
}

fn text(text: &str) -> SayRequest {
    SayRequest { text: text.to_owned(), ..SayRequest::default() }
}

// ---- our client, its server ----------------------------------------------------------------------------------

/// Accepts requests one after the other, and answers each by `answer`.
async fn h2_server<F>(io: DuplexStream, answer: impl Fn(Request<RecvStream>, h2::server::SendResponse<Bytes>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connection = h2::server::Builder::new()
        .initial_window_size(65_535)
        .handshake::<_, Bytes>(io)
        .await
        .expect("our preface and SETTINGS are right");
    while let Some(request) = connection.accept().await {
        let (request, respond) = request.expect("a request h2 accepts");
        tokio::spawn(answer(request, respond));
    }
}

fn ok_head() -> Response<()> {
    Response::builder().header("content-type", "application/grpc").header("x-head", "1").body(()).expect("a head")
}

fn trailers(code: u16) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    trailers.insert("x-trail", "2".parse().expect("a value"));
    trailers
}

async fn echo(request: Request<RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
    assert_eq!(request.method(), "POST");
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.headers()["content-type"], "application/grpc");
    assert!(!request.headers().contains_key("content-length"), "bg:R9: an enveloped body announces no length");
    let path = request.uri().path().to_owned();
    let body = read(&mut request.into_body()).await;
    let requests: Vec<SayRequest> = messages(body);
    let mut stream = respond.send_response(ok_head(), false).expect("a response");
    for request in requests {
        let reply = SayReply { text: format!("{path}:{}", request.text), payload: request.payload, sequence_id: 0 };
        write(&mut stream, envelope(&reply), false).await;
    }
    stream.send_trailers(trailers(0)).expect("trailers");
}

#[test]
fn our_client_calls_an_h2_server() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        tokio::spawn(h2_server(theirs, echo));
        let client = our_client(ours);

        let reply = client.say(text("one")).metadata("tenant", "blue").full().await.expect("answered");
        assert_eq!(reply.headers().get("x-head").and_then(|value| value.to_str()), Some("1"));
        assert_eq!(reply.trailers().get("x-trail").and_then(|value| value.to_str()), Some("2"));
        assert_eq!(reply.into_message().text, "/trirpc.test.v1.Echo/Say:one");

        // Larger than every window on either side.
        let large = SayRequest { payload: vec![7; LARGE].into(), ..SayRequest::default() };
        assert_eq!(client.say(large).await.expect("answered").payload, vec![7; LARGE]);

        let (mut tx, mut rx) = client.chat().open();
        for word in ["a", "b", "c"] {
            tx.send(&text(word)).await.expect("sent");
        }
        tx.finish();
        for word in ["a", "b", "c"] {
            let reply = rx.next().await.expect("a message").expect("not the end");
            assert_eq!(reply.text, format!("/trirpc.test.v1.Echo/Chat:{word}"));
        }
        assert_eq!(rx.next().await.expect("the end"), None);

        let calls: Vec<_> = (0..200)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { client.say(text(&n.to_string())).await.map(|reply| reply.text) })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            let reply = call.await.expect("no panic").expect("answered");
            assert_eq!(reply, format!("/trirpc.test.v1.Echo/Say:{n}"));
        }
    });
}

/// A response that is one field block, a reset before and after the head, and plain HTTP: each ends its call alone.
/// `h2:B52`: a call that is refused is started once more, and not again.
#[test]
fn our_client_understands_every_way_an_h2_server_ends_a_call() {
    static REFUSALS: AtomicUsize = AtomicUsize::new(0);
    async fn end(request: Request<RecvStream>, mut respond: h2::server::SendResponse<Bytes>) {
        let requests: Vec<SayRequest> = messages(read(&mut request.into_body()).await);
        match requests[0].text.as_str() {
            "trailers-only" => {
                let head = Response::builder().header("content-type", "application/grpc").header("grpc-status", "5");
                respond.send_response(head.body(()).expect("a head"), true).expect("a response");
            }
            "refuse" => {
                REFUSALS.fetch_add(1, Relaxed);
                respond.send_reset(h2::Reason::REFUSED_STREAM);
            }
            "reset" => {
                let mut stream = respond.send_response(ok_head(), false).expect("a response");
                stream.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
            }
            "no-trailers" => {
                let mut stream = respond.send_response(ok_head(), false).expect("a response");
                write(&mut stream, envelope(&SayReply::default()), true).await;
            }
            "plain" => {
                let head = Response::builder().status(503).header("content-type", "text/plain");
                let mut stream = respond.send_response(head.body(()).expect("a head"), false).expect("a response");
                write(&mut stream, Bytes::from_static(b"overloaded"), true).await;
            }
            other => panic!("{other}"),
        }
    }
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        tokio::spawn(h2_server(theirs, end));
        let client = our_client(ours);
        for (how, code, unprocessed) in [
            ("trailers-only", Code::NotFound, false),
            ("refuse", Code::Unavailable, true),
            ("reset", Code::ResourceExhausted, false),
            ("no-trailers", Code::Internal, false),
            ("plain", Code::Unavailable, false),
        ] {
            let status = client.say(text(how)).await.expect_err(how);
            assert_eq!((status.code(), status.origin()), (code, Origin::Peer), "{how}: {status}");
            assert_eq!(status.is_unprocessed(), unprocessed, "{how}");
        }
        assert_eq!(REFUSALS.load(Relaxed), 2);
    });
}

#[test]
fn our_client_finishes_its_calls_after_the_goaway_of_an_h2_server() {
    run(async {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let server = tokio::spawn(async move {
            let mut connection = h2::server::handshake(theirs).await.expect("a connection");
            let (request, respond) = connection.accept().await.expect("a request").expect("a request h2 accepts");
            connection.graceful_shutdown();
            tokio::spawn(echo(request, respond));
            while let Some(request) = connection.accept().await {
                let (request, respond) = request.expect("a request h2 accepts");
                tokio::spawn(echo(request, respond));
            }
        });
        let client = our_client(ours);
        assert_eq!(client.say(text("last")).await.expect("answered").text, "/trirpc.test.v1.Echo/Say:last");
        server.await.expect("no panic");
        let status = client.say(text("too late")).await.expect_err("the connection is gone");
        assert_eq!(status.code(), Code::Unavailable, "{status}");
        assert!(status.is_unprocessed());
    });
}

// ---- its client, our server ----------------------------------------------------------------------------------

async fn h2_client(io: DuplexStream) -> h2::client::SendRequest<Bytes> {
    let (client, connection) =
        h2::client::Builder::new().initial_window_size(65_535).handshake::<_, Bytes>(io).await.expect("a connection");
    tokio::spawn(async move { connection.await.expect("our frames are right") });
    client
}

fn head(method: &str) -> Request<()> {
    Request::post(format!("http://test/trirpc.test.v1.Echo/{method}"))
        .header("te", "trailers")
        .header("content-type", "application/grpc")
        .body(())
        .expect("a request")
}

struct Answer {
    head: http::response::Parts,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Answer {
    async fn of(response: h2::client::ResponseFuture) -> Self {
        let (head, mut body) = response.await.expect("a response").into_parts();
        let data = read(&mut body).await;
        Self { head, body: data, trailers: body.trailers().await.expect("trailers or none") }
    }

    fn status(&self) -> &str {
        let fields = self.trailers.as_ref().unwrap_or(&self.head.headers);
        fields["grpc-status"].to_str().expect("a number")
    }
}

async fn call(client: &mut h2::client::SendRequest<Bytes>, method: &str, body: Bytes) -> Answer {
    std::future::poll_fn(|cx| client.poll_ready(cx)).await.expect("room for a stream");
    let (response, mut stream) = client.send_request(head(method), false).expect("sent");
    // Both ways at once: the answer may begin before the request has ended.
    let writing = tokio::spawn(async move { write(&mut stream, body, true).await });
    let answer = Answer::of(response).await;
    writing.await.expect("no panic");
    answer
}

#[test]
fn an_h2_client_calls_our_server() {
    run(async {
        let (theirs, ours) = tokio::io::duplex(PIPE);
        let _session = our_server(ours);
        let mut client = h2_client(theirs).await;

        let answer = call(&mut client, "Say", envelope(&text("one"))).await;
        assert_eq!(answer.head.status, 200);
        assert_eq!(answer.head.headers["content-type"], "application/grpc");
        assert_eq!(messages::<SayReply>(answer.body.clone())[0].text, "echo:one");
        assert_eq!(answer.status(), "0");

        let large = SayRequest { payload: vec![7; LARGE].into(), ..SayRequest::default() };
        let answer = call(&mut client, "Say", envelope(&large)).await;
        assert_eq!(messages::<SayReply>(answer.body.clone())[0].payload, vec![7; LARGE]);

        let expand = ExpandRequest { count: 500, size: 1000, ..ExpandRequest::default() };
        let answer = call(&mut client, "Expand", envelope(&expand)).await;
        assert_eq!(messages::<SayReply>(answer.body.clone()).len(), 500);
        assert_eq!(answer.status(), "0");

        // An error before any message is one field block.
        let fail = FailRequest { code: 9, message: "100 %".into(), ..FailRequest::default() };
        let answer = call(&mut client, "Fail", envelope(&fail)).await;
        assert_eq!((answer.status(), answer.trailers.is_none(), answer.body.is_empty()), ("9", true, true));
        assert_eq!(answer.head.headers["grpc-message"], "100 %25");
        assert_eq!(call(&mut client, "Nothing", Bytes::new()).await.status(), "12");

        let calls: Vec<_> = (0..500)
            .map(|n| {
                let mut client = client.clone();
                tokio::spawn(async move { call(&mut client, "Say", envelope(&text(&n.to_string()))).await })
            })
            .collect();
        for (n, call) in calls.into_iter().enumerate() {
            let answer = call.await.expect("no panic");
            assert_eq!(messages::<SayReply>(answer.body)[0].text, format!("echo:{n}"));
        }
    });
}

/// `h2:T3`: who is answered before it has sent everything gets the answer, and then a reset without an error.
#[test]
fn our_server_answers_an_h2_client_that_is_still_sending() {
    run(async {
        let (theirs, ours) = tokio::io::duplex(PIPE);
        let _session = our_server(ours);
        let mut client = h2_client(theirs).await;
        let (response, mut stream) = client.send_request(head("Nothing"), false).expect("sent");
        let answer = Answer::of(response).await;
        assert_eq!(answer.status(), "12");
        let reason = std::future::poll_fn(|cx| stream.poll_reset(cx)).await.expect("a reset");
        assert_eq!(reason, h2::Reason::NO_ERROR);
        // The connection lives.
        assert_eq!(call(&mut client, "Say", envelope(&text("x"))).await.status(), "0");
    });
}

#[test]
fn an_h2_client_that_resets_its_streams_leaves_no_call_behind() {
    run(async {
        let (theirs, ours) = tokio::io::duplex(PIPE);
        let session = our_server(ours);
        let mut client = h2_client(theirs).await;
        for _ in 0..50 {
            std::future::poll_fn(|cx| client.poll_ready(cx)).await.expect("room for a stream");
            let (response, mut stream) = client.send_request(head("Chat"), false).expect("sent");
            write(&mut stream, envelope(&text("x")), false).await;
            let mut body = response.await.expect("a response").into_body();
            body.data().await.expect("a message").expect("data");
            stream.send_reset(h2::Reason::CANCEL);
        }
        while session.open_calls() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(call(&mut client, "Say", envelope(&text("x"))).await.status(), "0");
    });
}

#[test]
fn an_h2_client_finishes_its_calls_after_our_goaway() {
    run(async {
        let (theirs, ours) = tokio::io::duplex(PIPE);
        let session = our_server(ours);
        let mut client = h2_client(theirs).await;
        let (response, mut stream) = client.send_request(head("Chat"), false).expect("sent");
        write(&mut stream, envelope(&text("before")), false).await;
        let mut body = response.await.expect("a response").into_body();
        body.data().await.expect("a message").expect("data");
        session.shutdown();
        write(&mut stream, envelope(&text("after")), true).await;
        let rest = read(&mut body).await;
        assert_eq!(messages::<SayReply>(rest)[0].text, "echo:after");
        assert_eq!(body.trailers().await.expect("no error").expect("trailers")["grpc-status"], "0");
        while !session.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
