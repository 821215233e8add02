//! `connect-server --addr A`

use connectrpc::server::Server;
use connectrpc::{
    ConnectRpcService, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures::{StreamExt, stream};
use peer_connect::proto::bench::{Echo, EchoMsg, EchoServer};
use peer_load::{Arguments, runtime, serving};

struct Service;

fn message(payload: &[u8]) -> EchoMsg {
    EchoMsg { payload: payload.to_vec().into(), ..EchoMsg::default() }
}

#[allow(refining_impl_trait, reason = "the trait leaves open which body a response has")]
impl Echo for Service {
    async fn unary(&self, _: RequestContext, request: ServiceRequest<'_, EchoMsg>) -> ServiceResult<EchoMsg> {
        Response::ok(message(request.payload))
    }

    async fn bidi(&self, _: RequestContext, requests: InboundStream<EchoMsg>) -> ServiceResult<ServiceStream<EchoMsg>> {
        Response::stream_ok(requests.map(|request| request.map(|request| message(request.payload()))))
    }

    async fn cstream(&self, _: RequestContext, mut requests: InboundStream<EchoMsg>) -> ServiceResult<EchoMsg> {
        let mut last = EchoMsg::default();
        while let Some(request) = requests.next().await {
            last = message(request?.payload());
        }
        Response::ok(last)
    }

    async fn sstream(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, EchoMsg>,
    ) -> ServiceResult<ServiceStream<EchoMsg>> {
        let answer = message(request.payload);
        let count = u32::from_be_bytes(*request.payload.first_chunk().expect("a count"));
        Response::stream_ok(stream::iter((0..count).map(move |_| Ok(answer.clone()))))
    }
}

fn main() {
    let arguments = Arguments::read();
    serving();
    runtime().block_on(async move {
        let service = ConnectRpcService::new(EchoServer::new(Service));
        let server = Server::bind(arguments.addr()).await.expect("an address");
        server.serve_with_service(service).await.expect("a listener");
    });
}
