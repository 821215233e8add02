//! Generated clients call generated servers, over an in-memory connection.

use std::future::Future;
use std::sync::Arc;

use async_executor::LocalExecutor;
use futures_lite::future::block_on;
use trirpc_core::{Config, Endpoint, HttpVersion};
use trirpc_proto::codegen::{Code, Context, Sender, Status, Streaming};
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::{self, Echo, EchoServer};
use trirpc_proto::test_service::{
    CollectReply, ExpandRequest, FailRequest, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest, echo_method,
};
use trirpc_rpc::{ClientSession, ManualTime, Router, Service, duplex, handshake, serve_connection};

/// Runs handlers: they are `Send` where there are threads.
#[cfg(not(target_family = "wasm"))]
type Handlers = async_executor::Executor<'static>;
#[cfg(target_family = "wasm")]
type Handlers = LocalExecutor<'static>;

/// Enough of the service to see that each method reaches its handler and comes back.
struct Impl;

fn say(request: SayRequest) -> SayReply {
    SayReply { text: format!("echo:{}", request.text), payload: request.payload, sequence_id: request.sequence_id }
}

impl Echo for Impl {
    async fn say(&self, cx: &mut Context, request: SayRequest) -> Result<SayReply, Status> {
        assert_eq!(cx.method().path(), "/trirpc.test.v1.Echo/Say");
        Ok(say(request))
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
            tx.send(&SayReply { text: format!("expand:{i}"), ..Default::default() }).await?;
        }
        match request.end_code {
            0 => Ok(()),
            _ => Err(Status::new(Code::from_raw(request.end_code), request.end_message)),
        }
    }

    async fn chat(
        &self,
        _: &mut Context,
        rx: &mut Streaming<SayRequest>,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        while let Some(request) = rx.next().await? {
            tx.send(&say(request)).await?;
        }
        Ok(())
    }

    async fn fail(&self, _: &mut Context, request: FailRequest) -> Result<SayReply, Status> {
        Err(Status::new(Code::from_raw(request.code), request.message))
    }

    async fn sleep(&self, _: &mut Context, _: SleepRequest) -> Result<SayReply, Status> {
        std::future::pending().await
    }

    async fn meta(&self, cx: &mut Context, _: MetaRequest) -> Result<MetaReply, Status> {
        Err(Status::unimplemented(cx.method().path().to_owned()))
    }
}

/// Runs `test` with a client of `Impl`.
fn with_client<F: Future>(test: impl FnOnce(EchoClient<ClientSession>) -> F) -> F::Output {
    with_session(Router::new(), |session| test(EchoClient::new(session)))
}

/// Runs `test` with a session to `Impl`, served by `router`.
fn with_session<F: Future>(router: Router, test: impl FnOnce(ClientSession) -> F) -> F::Output {
    let executor = LocalExecutor::new();
    let (near, far) = duplex(64 * 1024);
    let (time, config) = (ManualTime::new(), Arc::new(Config::default()));
    let router = Arc::new(router.add(EchoServer::new(Impl)));
    let handlers = Arc::new(Handlers::new());
    let spawner = Arc::clone(&handlers);
    let spawn = move |task| spawner.spawn(task).detach();
    let (_server, server_driver) = serve_connection(far, router, Arc::clone(&config), time.clone(), spawn);
    let endpoint = Endpoint { scheme: "http".into(), authority: "test".into() };
    let (session, client_driver) = handshake(near, config, endpoint, HttpVersion::Http2, time);
    executor.spawn(server_driver).detach();
    executor.spawn(client_driver).detach();
    let test = test(session);
    block_on(handlers.run(executor.run(test)))
}

fn request(text: &str) -> SayRequest {
    SayRequest { text: text.into(), payload: vec![1; 2000].into(), reply_size: 0, sequence_id: 7 }
}

#[test]
fn a_unary_call_goes_there_and_back() {
    let reply = with_client(|client| async move { client.say(request("a")).await });
    assert_eq!(reply.expect("success"), say(request("a")));
}

#[test]
fn a_failure_comes_back_with_code_and_message() {
    let fail = FailRequest { code: 9, message: "no".into(), details: Vec::new() };
    let status = with_client(|client| async move { client.fail(fail).await }).unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::FailedPrecondition, "no"));
}

#[test]
fn a_server_stream_delivers_its_messages_and_then_its_status() {
    with_client(|client| async move {
        let expand = ExpandRequest { count: 3, end_code: 8, end_message: "enough".into(), ..Default::default() };
        let mut rx = client.expand(expand).await.expect("a stream");
        for i in 0..3 {
            assert_eq!(rx.next().await.expect("a message").expect("not the end").text, format!("expand:{i}"));
        }
        let status = rx.next().await.unwrap_err();
        assert_eq!((status.code(), status.message()), (Code::ResourceExhausted, "enough"));
    });
}

#[test]
fn a_client_stream_is_answered_once() {
    with_client(|client| async move {
        let (mut tx, reply) = client.collect().open();
        for text in ["a", "b", "c"] {
            tx.send(&request(text)).await.expect("room");
        }
        tx.finish();
        assert_eq!(reply.await.expect("success").texts, "abc");
    });
}

#[test]
fn a_bidi_call_answers_each_message_while_it_is_open() {
    with_client(|client| async move {
        let (mut tx, mut rx) = client.chat().open();
        for text in ["a", "b"] {
            tx.send(&request(text)).await.expect("room");
            assert_eq!(rx.next().await.expect("a message"), Some(say(request(text))));
        }
        tx.finish();
        assert_eq!(rx.next().await.expect("success"), None);
    });
}

#[test]
fn the_descriptor_lists_the_methods_in_the_order_of_the_dispatch() {
    let server = EchoServer::new(Impl);
    let descriptor = server.descriptor();
    assert_eq!(descriptor.name(), echo_server::SERVICE_NAME);
    let names: Vec<_> = descriptor.methods().iter().map(|spec| spec.path()).collect();
    let all = ["Say", "Collect", "Expand", "Chat", "Fail", "Sleep", "Meta"];
    assert_eq!(names, all.map(|name| format!("/trirpc.test.v1.Echo/{name}")));
    assert_eq!(descriptor.methods()[1], &echo_method::COLLECT.spec);
}

/// tri:14 tri:19 tri:20 tri:61
#[cfg(feature = "gzip")]
#[test]
fn messages_go_both_ways_in_gzip_and_inflate_to_the_limit_at_most() {
    use trirpc_proto::Gzip;

    let router = Router::new().accept_compression(Gzip::new());
    with_session(router, |session| async move {
        let client = EchoClient::new(session.clone().send_compression(Gzip::new()));
        for size in [0, 1, 1023, 1024, 100_000, 4_194_000] {
            let request = SayRequest { payload: vec![7; size].into(), ..SayRequest::default() };
            let reply = client.say(request.clone()).await.expect("answered");
            assert_eq!(reply.payload, request.payload);
        }
        // Some bytes over the default limit, in a few kilobytes on the wire.
        let request = SayRequest { payload: vec![7; 4 * 1024 * 1024].into(), ..SayRequest::default() };
        let status = client.say(request).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("max_recv_message of 4194304 bytes"), "{status}");
        let (mut tx, mut rx) = client.chat().open();
        for text in ["a", "b"] {
            tx.send(&request_of(text)).await.expect("sent");
            assert_eq!(rx.next().await.expect("echoed").expect("not the end"), say(request_of(text)));
        }
    });
}

#[cfg(feature = "gzip")]
fn request_of(text: &str) -> SayRequest {
    SayRequest { text: text.repeat(3000), ..request(text) }
}
