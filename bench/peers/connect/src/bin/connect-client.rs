//! `connect-client`, with the arguments of `trirpc-bench load`, unary only; `--protocol grpc|connect`.

use connectrpc::Protocol;
use connectrpc::client::{ClientConfig, Http2Connection};
use http::Uri;
use peer_connect::proto::bench::{EchoClient, EchoMsg};
use peer_load::{Arguments, closed_loop};

/// Requests that a connection's task takes in advance.
const QUEUE: usize = 1024;

fn main() {
    let arguments = Arguments::read();
    let uri: Uri = format!("http://{}", arguments.addr()).parse().expect("a URI");
    let protocol = if arguments.text("protocol", "grpc") == "connect" { Protocol::Connect } else { Protocol::Grpc };
    let config = ClientConfig::new(uri.clone()).with_protocol(protocol);
    let message = EchoMsg { payload: arguments.message().into(), ..EchoMsg::default() };
    closed_loop(
        "connect",
        &arguments,
        async move || Http2Connection::connect_plaintext(uri.clone()).await.expect("a server").shared(QUEUE),
        move |connection| std::rc::Rc::new(EchoClient::new(connection.clone(), config.clone())),
        move |client| {
            let message = message.clone();
            async move {
                let expected = message.payload.len();
                let answer = client.unary(message).await.expect("an answer");
                assert_eq!(answer.view().payload.len(), expected);
                1
            }
        },
    );
}
