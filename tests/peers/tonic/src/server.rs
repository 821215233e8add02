//! The Echo service and gRPC health on tonic. The rules of each method are in echo.proto.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use prost::Message;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt};
use tonic::codec::CompressionEncoding;
use tonic::metadata::{KeyAndValueRef, MetadataMap};
use tonic::{Code, Request, Response, Status, Streaming};

use crate::echo::echo_server::{Echo, EchoServer};
use crate::echo::{
    CollectReply, ExpandRequest, FailRequest, MetaEntry, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest,
};

type Replies = Pin<Box<dyn Stream<Item = Result<SayReply, Status>> + Send>>;

/// Serves until it is killed, and prints the address it listens on.
pub async fn serve(addr: &str) -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind(addr).await?;
    println!("listening on {}", listener.local_addr()?);
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_serving::<EchoServer<Service>>().await;
    let gzip = CompressionEncoding::Gzip;
    let echo = EchoServer::new(Service).accept_compressed(gzip).send_compressed(gzip);
    let router = tonic::transport::Server::builder().add_service(health).add_service(echo);
    Ok(router.serve_with_incoming(TcpListenerStream::new(listener)).await?)
}

struct Service;

/// Says on stdout that a call ended before its handler did.
struct Unfinished(&'static str);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            println!("dropped {}", self.0);
        }
    }
}

fn reply(request: SayRequest) -> SayReply {
    let payload = if request.reply_size > 0 { vec![0; request.reply_size as usize] } else { request.payload };
    SayReply { text: format!("echo:{}", request.text), payload, sequence_id: request.sequence_id }
}

/// The request metadata, values of a key in their order, and what goes back in response headers.
fn seen_and_head(metadata: &MetadataMap) -> (Vec<MetaEntry>, MetadataMap) {
    let (mut seen, mut head) = (BTreeMap::<String, MetaEntry>::new(), MetadataMap::new());
    let entry = |seen: &mut BTreeMap<String, MetaEntry>, key: &str, text: Option<String>, binary: Option<Vec<u8>>| {
        let entry =
            seen.entry(key.to_owned()).or_insert_with(|| MetaEntry { key: key.to_owned(), ..MetaEntry::default() });
        entry.values.extend(text);
        entry.bin_values.extend(binary);
    };
    for pair in metadata.iter() {
        match pair {
            KeyAndValueRef::Ascii(key, value) => {
                let text = String::from_utf8_lossy(value.as_bytes()).into_owned();
                entry(&mut seen, key.as_str(), Some(text), None);
                if let Some(rest) = key.as_str().strip_prefix("x-echo-") {
                    let name = tonic::metadata::AsciiMetadataKey::from_bytes(format!("x-head-{rest}").as_bytes());
                    head.append(name.expect("the rest of a key"), value.clone());
                }
            }
            KeyAndValueRef::Binary(key, value) => {
                let bytes = value.to_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default();
                entry(&mut seen, key.as_str(), None, Some(bytes));
                if let Some(rest) = key.as_str().strip_prefix("x-echo-") {
                    let name = tonic::metadata::BinaryMetadataKey::from_bytes(format!("x-head-{rest}").as_bytes());
                    head.append_bin(name.expect("the rest of a key"), value.clone());
                }
            }
        }
    }
    (seen.into_values().collect(), head)
}

#[tonic::async_trait]
impl Echo for Service {
    type ExpandStream = Replies;
    type ChatStream = Replies;

    async fn say(&self, request: Request<SayRequest>) -> Result<Response<SayReply>, Status> {
        Ok(Response::new(reply(request.into_inner())))
    }

    async fn collect(&self, request: Request<Streaming<SayRequest>>) -> Result<Response<CollectReply>, Status> {
        let (mut requests, mut texts, mut payload_bytes) = (request.into_inner(), Vec::new(), 0);
        while let Some(request) = requests.message().await? {
            texts.push(request.text);
            payload_bytes += request.payload.len() as u64;
        }
        Ok(Response::new(CollectReply { count: texts.len() as u32, payload_bytes, texts: texts.join(",") }))
    }

    async fn expand(&self, request: Request<ExpandRequest>) -> Result<Response<Replies>, Status> {
        let ExpandRequest { count, size, interval_ms, end_code, end_message } = request.into_inner();
        let end = (end_code != 0).then(|| Err(Status::new(Code::from_i32(end_code as i32), end_message)));
        let replies = tokio_stream::iter(0..count).then(move |i| async move {
            if i > 0 && interval_ms > 0 {
                tokio::time::sleep(Duration::from_millis(interval_ms.into())).await;
            }
            Ok(SayReply { text: format!("expand:{i}"), payload: vec![0; size as usize], sequence_id: i.into() })
        });
        Ok(Response::new(Box::pin(replies.chain(tokio_stream::iter(end)))))
    }

    async fn chat(&self, request: Request<Streaming<SayRequest>>) -> Result<Response<Replies>, Status> {
        let replies = request.into_inner().map(|request| {
            let request = request?;
            match request.text.strip_prefix("fail:") {
                Some(message) => Err(Status::failed_precondition(message)),
                None => Ok(reply(request)),
            }
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<SayReply>, Status> {
        let FailRequest { code, message, details } = request.into_inner();
        if code == 0 {
            return Ok(Response::new(SayReply::default()));
        }
        let status = tonic_types::Status { code: code as i32, message: message.clone(), details };
        if status.details.is_empty() {
            return Err(Status::new(Code::from_i32(code as i32), message));
        }
        Err(Status::with_details(Code::from_i32(code as i32), message, status.encode_to_vec().into()))
    }

    async fn sleep(&self, request: Request<SleepRequest>) -> Result<Response<SayReply>, Status> {
        let mut unfinished = Unfinished("Sleep");
        tokio::time::sleep(Duration::from_millis(request.into_inner().millis.into())).await;
        unfinished.0 = "";
        Ok(Response::new(SayReply { text: "slept".to_owned(), ..SayReply::default() }))
    }

    /// tonic has no place for trailers of a unary call that succeeds, so only the headers are sent back.
    async fn meta(&self, request: Request<MetaRequest>) -> Result<Response<MetaReply>, Status> {
        let (seen, head) = seen_and_head(request.metadata());
        let payload = vec![0; request.get_ref().reply_size as usize];
        let mut response = Response::new(MetaReply { seen, payload });
        *response.metadata_mut() = head;
        Ok(response)
    }
}
