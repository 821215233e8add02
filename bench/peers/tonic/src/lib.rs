//! `bench.Echo` by tonic.

use std::pin::Pin;

use tokio_stream::{Stream, StreamExt, iter};
use tonic::{Request, Response, Status, Streaming};

/// The message of `bench/proto/echo.proto`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct EchoMsg {
    #[prost(bytes = "vec", tag = "1")]
    pub payload: Vec<u8>,
}

include!(concat!(env!("OUT_DIR"), "/bench.Echo.rs"));

/// Largest message of servers and clients.
pub const MAX_MESSAGE: usize = 64 << 20;

/// What came goes back.
#[derive(Clone, Copy, Debug)]
pub struct Service;

#[tonic::async_trait]
impl echo_server::Echo for Service {
    type BidiStream = Streaming<EchoMsg>;
    type SstreamStream = Pin<Box<dyn Stream<Item = Result<EchoMsg, Status>> + Send>>;

    async fn unary(&self, request: Request<EchoMsg>) -> Result<Response<EchoMsg>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn bidi(&self, request: Request<Streaming<EchoMsg>>) -> Result<Response<Self::BidiStream>, Status> {
        Ok(Response::new(request.into_inner()))
    }

    async fn cstream(&self, request: Request<Streaming<EchoMsg>>) -> Result<Response<EchoMsg>, Status> {
        let mut messages = request.into_inner();
        let mut last = EchoMsg::default();
        while let Some(message) = messages.next().await {
            last = message?;
        }
        Ok(Response::new(last))
    }

    async fn sstream(&self, request: Request<EchoMsg>) -> Result<Response<Self::SstreamStream>, Status> {
        let message = request.into_inner();
        let count = message.payload.first_chunk().ok_or_else(|| Status::invalid_argument("no count"))?;
        let answers = (0..u32::from_be_bytes(*count)).map(move |_| Ok(message.clone()));
        Ok(Response::new(Box::pin(iter(answers))))
    }
}
