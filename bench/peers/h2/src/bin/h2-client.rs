//! `h2-client`, with the arguments of `trirpc-bench load`; unary only.

use std::future::poll_fn;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use http::{Request, Uri};
use peer_load::{Arguments, closed_loop};
use tokio::net::TcpStream;

async fn call(mut client: SendRequest<Bytes>, uri: Uri, body: Bytes) -> Result<u32, h2::Error> {
    poll_fn(|cx| client.poll_ready(cx)).await?;
    let request = Request::builder().method("POST").uri(uri);
    let request = request.header("te", "trailers").header("content-type", "application/grpc").body(());
    let (response, mut stream) = client.send_request(request.expect("a request"), false)?;
    let expected = body.len();
    stream.send_data(body, true)?;
    let mut answer = response.await?.into_body();
    let mut received = 0;
    while let Some(data) = answer.data().await {
        let length = data?.len();
        received += length;
        answer.flow_control().release_capacity(length)?;
    }
    assert_eq!(received, expected);
    let trailers = answer.trailers().await?.expect("trailers");
    assert_eq!(trailers["grpc-status"], "0");
    Ok(1)
}

fn main() {
    let arguments = Arguments::read();
    let addr = arguments.addr();
    let uri: Uri = format!("http://{addr}/bench.Echo/Unary").parse().expect("a URI");
    let mut message = BytesMut::new();
    prost::encoding::bytes::encode(1, &arguments.message(), &mut message);
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.len() as u32);
    body.put(message);
    let body = body.freeze();
    closed_loop(
        "h2",
        &arguments,
        async move || {
            let socket = TcpStream::connect(addr).await.expect("a server");
            socket.set_nodelay(true).expect("a socket");
            let mut builder = Builder::new();
            builder.initial_window_size(1 << 20).initial_connection_window_size(8 << 20);
            let (client, connection) = builder.handshake::<_, Bytes>(socket).await.expect("a handshake");
            tokio::task::spawn_local(async move { drop(connection.await) });
            client
        },
        Clone::clone,
        move |client| {
            let call = call(client, uri.clone(), body.clone());
            async { call.await.expect("an answer") }
        },
    );
}
