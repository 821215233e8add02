//! `h2-server --addr A`: h2 alone, with the bytes of gRPC, without a message type. One task a stream.

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::server::{self, SendResponse};
use http::{HeaderMap, HeaderValue, Response};
use peer_load::{Arguments, runtime, serving};
use tokio::net::{TcpListener, TcpStream};

async fn whole(mut body: RecvStream) -> Result<Bytes, h2::Error> {
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

async fn answer(body: RecvStream, mut response: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let body = whole(body).await?;
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let mut stream = response.send_response(head, false)?;
    stream.send_data(body, false)?;
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}

async fn serve(socket: TcpStream) -> Result<(), h2::Error> {
    let mut builder = server::Builder::new();
    builder.initial_window_size(1 << 20).initial_connection_window_size(8 << 20);
    let mut connection = builder.handshake::<_, Bytes>(socket).await?;
    while let Some(request) = connection.accept().await {
        let (request, response) = request?;
        tokio::spawn(answer(request.into_body(), response));
    }
    Ok(())
}

fn main() -> std::io::Result<()> {
    let arguments = Arguments::read();
    serving();
    runtime().block_on(async move {
        let listener = TcpListener::bind(arguments.addr()).await?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(serve(socket));
        }
    })
}
