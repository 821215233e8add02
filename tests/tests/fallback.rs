//! `Router::fallback`: plain HTTP beside the services, asked by the `h2` crate over a pipe in memory.

use std::future::{Future, pending};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, Method, Request, Response};
use tokio_util::compat::TokioAsyncReadCompatExt;
use trirpc_cli::echo::EchoService;
use trirpc_proto::test_service::SayRequest;
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::EchoServer;
use trirpc_rpc::{
    CallInfo, Code, Config, Endpoint, HttpRequest, HttpResponse, HttpVersion, Interceptor, Io, ManualTime, Router,
    Status, handshake, serve_connection,
};

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), test).await.expect("in time") });
}

fn serve(router: Router, config: Config) -> tokio::io::DuplexStream {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let config = Arc::new(config);
    let (_, driver) = serve_connection(Io::new(far.compat()), Arc::new(router), config, ManualTime::new(), |task| {
        tokio::spawn(task);
    });
    tokio::spawn(driver);
    near
}

fn echo() -> Router {
    Router::new().add(EchoServer::new(EchoService::new()))
}

/// A client of the `h2` crate.
async fn connect(router: Router) -> SendRequest<Bytes> {
    connect_to(serve(router, Config::default())).await
}

async fn connect_to(io: tokio::io::DuplexStream) -> SendRequest<Bytes> {
    let (client, connection) = h2::client::handshake(io).await.expect("our preface is right");
    tokio::spawn(async move {
        let _ = connection.await;
    });
    client
}

struct Seen {
    head: Response<()>,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

async fn read(response: h2::client::ResponseFuture) -> Result<Seen, h2::Error> {
    let (head, mut body) = response.await?.into_parts();
    let mut whole = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        whole.extend_from_slice(&data);
        body.flow_control().release_capacity(data.len())?;
    }
    Ok(Seen { head: Response::from_parts(head, ()), body: whole.freeze(), trailers: body.trailers().await? })
}

async fn ask(client: &mut SendRequest<Bytes>, method: Method, path: &str, body: &'static [u8]) -> Seen {
    let request = Request::builder().method(method).uri(format!("http://test{path}")).body(()).expect("a request");
    let (response, mut stream) = client.send_request(request, body.is_empty()).expect("sent");
    if !body.is_empty() {
        stream.send_data(Bytes::from_static(body), true).expect("sent");
    }
    read(response).await.expect("a response")
}

/// Tells what it was asked.
async fn describe(mut request: HttpRequest) -> Result<HttpResponse, HttpResponse> {
    let body = request.body().await?;
    let text = format!(
        "{} {} {:?} {} {:?} {}",
        request.method().as_str(),
        request.path(),
        request.query(),
        request.authority(),
        request.header("x-tenant").map(|value| value.escape_ascii().to_string()),
        body.escape_ascii()
    );
    Ok(HttpResponse::new(200).header("Content-Type", "text/plain").body(text).trailer("x-after", "1"))
}

#[test]
fn any_request_that_is_of_no_service_reaches_the_fallback() {
    run(async {
        let mut client = connect(echo().fallback(describe)).await;
        for method in [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS] {
            let request =
                Request::builder().method(method.clone()).uri("http://test/some/where?a=b").header("x-tenant", "blue");
            let (response, mut stream) =
                client.send_request(request.body(()).expect("a request"), false).expect("sent");
            stream.send_data(Bytes::from_static(b"body"), true).expect("sent");
            let seen = read(response).await.expect("a response");
            assert_eq!(seen.head.status(), 200);
            assert_eq!(seen.head.headers()["content-type"], "text/plain");
            assert_eq!(seen.body, format!("{method} /some/where Some(\"a=b\") test Some(\"blue\") body"));
            assert_eq!(seen.head.headers()["content-length"], seen.body.len().to_string());
            assert_eq!(seen.trailers.expect("trailers")["x-after"], "1");
        }
        let seen = ask(&mut client, Method::HEAD, "/", b"").await;
        assert_eq!((seen.head.status().as_u16(), seen.body.len(), seen.trailers), (200, 0, None));
        assert_ne!(seen.head.headers()["content-length"], "0");
    });
}

#[test]
fn services_keep_what_is_theirs() {
    run(async {
        let mut client = connect(echo().fallback(describe)).await;
        let seen = ask(&mut client, Method::GET, "/trirpc.test.v1.Echo/Say", b"").await;
        assert_eq!(
            (seen.head.status().as_u16(), &seen.head.headers()["allow"]),
            (405, &"POST".parse().expect("a value"))
        );
        let seen = ask(&mut client, Method::POST, "/trirpc.test.v1.Echo/Nothing", b"x").await;
        assert_eq!(seen.head.status(), 415);
        let seen = ask(&mut client, Method::GET, "/trirpc.test.v1.Echos/Say", b"").await;
        assert_eq!(seen.head.status(), 200);
        let mut without = connect(echo()).await;
        assert_eq!(ask(&mut without, Method::GET, "/", b"").await.head.status(), 405);
    });
}

/// One connection carries calls and plain requests side by side; interceptors see calls only.
#[test]
fn calls_go_on_beside_plain_requests() {
    struct Counts(Arc<AtomicUsize>);

    impl Interceptor for Counts {
        fn on_request(&self, _: &mut CallInfo) -> Result<(), Status> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    run(async {
        let calls = Arc::new(AtomicUsize::new(0));
        let router = echo().fallback(|_| async { HttpResponse::new(404) }).interceptor(Counts(Arc::clone(&calls)));
        let io = Io::new(serve(router.clone(), Config::default()).compat());
        let (session, driver) =
            handshake(io, Arc::default(), Endpoint::http("test"), HttpVersion::Http2, ManualTime::new());
        tokio::spawn(driver);
        let echo = EchoClient::new(session.clone());
        let request = SayRequest { text: "hi".to_owned(), ..SayRequest::default() };
        assert_eq!(echo.say(request).await.expect("an answer").text, "echo:hi");
        // A call of a service that is not there gets HTTP's answer, which means the same to it.
        let health = trirpc_proto::grpc::health::v1::health_client::HealthClient::new(session);
        let status =
            health.check(trirpc_proto::grpc::health::v1::HealthCheckRequest::default()).await.expect_err("none");
        assert_eq!(status.code(), Code::Unimplemented, "{status:?}");
        let mut client = connect(router).await;
        assert_eq!(ask(&mut client, Method::GET, "/", b"").await.head.status(), 404);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
    });
}

/// `max_recv_message` bounds a body that is taken whole, by its announced length or by what has come.
#[test]
fn a_body_that_is_too_long_is_refused_with_413() {
    run(async {
        let mut config = Config::default();
        config.max_recv_message = 1000;
        for announced in [true, false] {
            for (len, status) in [(1000, 200), (1001, 413)] {
                let mut client = connect_to(serve(Router::new().fallback(describe), config.clone())).await;
                let mut request = Request::builder().method(Method::PUT).uri("http://test/");
                if announced {
                    request = request.header("content-length", len);
                }
                let (response, mut stream) =
                    client.send_request(request.body(()).expect("a request"), false).expect("sent");
                stream.send_data(Bytes::from(vec![b'x'; len]), true).expect("sent");
                assert_eq!(read(response).await.expect("a response").head.status(), status, "{len}, {announced}");
            }
        }
    });
}

/// What a handler does not take waits at the client.
#[test]
fn a_body_may_be_taken_piece_by_piece() {
    run(async {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&taken);
        let router = Router::new().fallback(move |mut request: HttpRequest| {
            let sink = Arc::clone(&sink);
            async move {
                while let Some(piece) = request.chunk().await? {
                    sink.lock().expect("not poisoned").push(piece.len());
                    tokio::task::yield_now().await;
                }
                Ok::<_, HttpResponse>(HttpResponse::new(204))
            }
        });
        let mut config = Config::default();
        config.initial_stream_window = 65_535;
        config.adaptive_window = false;
        let mut client = connect_to(serve(router, config)).await;
        let request = Request::builder().method(Method::PUT).uri("http://test/").body(()).expect("a request");
        let (response, mut stream) = client.send_request(request, false).expect("sent");
        stream.send_data(Bytes::from(vec![b'x'; 1_000_000]), true).expect("sent");
        assert_eq!(read(response).await.expect("a response").head.status(), 204);
        let taken = taken.lock().expect("not poisoned");
        assert_eq!(taken.iter().sum::<usize>(), 1_000_000);
        assert!(taken.iter().all(|&len| len <= 65_535), "{taken:?}");
    });
}

/// Answers early, panics, and answers that are not HTTP end the request, and nothing else.
#[test]
fn whatever_a_handler_does_the_connection_goes_on() {
    run(async {
        let router = Router::new().fallback(|request: HttpRequest| async move {
            match request.path() {
                "/panics" => panic!("of the test"),
                "/waits" => pending().await,
                "/forges" => HttpResponse::new(200).header("x-forged", "a\r\nb: c"),
                "/upgrades" => HttpResponse::new(101),
                "/large" => HttpResponse::new(200).body(vec![b'x'; 3_000_000]),
                _ => HttpResponse::new(200).body("early"),
            }
        });
        let mut client = connect(router).await;
        for path in ["/panics", "/forges", "/upgrades"] {
            assert_eq!(ask(&mut client, Method::GET, path, b"").await.head.status(), 500, "{path}");
        }
        // The request never ends: its answer does.
        let request = Request::builder().method(Method::POST).uri("http://test/early").body(()).expect("a request");
        let (response, mut stream) = client.send_request(request, false).expect("sent");
        stream.send_data(Bytes::from_static(b"begun"), false).expect("sent");
        assert_eq!(read(response).await.expect("a response").body, "early");
        // One that is given up leaves its slot.
        let request = Request::builder().uri("http://test/waits").body(()).expect("a request");
        let (response, mut stream) = client.send_request(request, true).expect("sent");
        stream.send_reset(h2::Reason::CANCEL);
        assert!(response.await.is_err());
        assert_eq!(ask(&mut client, Method::GET, "/large", b"").await.body.len(), 3_000_000);
    });
}
