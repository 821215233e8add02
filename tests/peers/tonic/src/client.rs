//! The calls that cases are made of.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio_stream::Stream;
use tonic::metadata::{AsciiMetadataKey, BinaryMetadataKey, KeyAndValueRef, MetadataMap};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::health_client::HealthClient;

use crate::echo::echo_client::EchoClient;
use crate::echo::{ExpandRequest, FailRequest, MetaRequest, SayReply, SayRequest, SleepRequest};

/// Why a case failed.
pub type Failure = String;
/// A remark on a case that passed, or why it did not.
pub type Outcome = Result<Option<&'static str>, Failure>;
/// Values of each key, in order; those of `-bin` keys decoded.
pub type Values = BTreeMap<String, Vec<Vec<u8>>>;

/// A case that needs this long has failed.
const OK_TIME: Duration = Duration::from_secs(20);

/// The server under test. All clones share one connection.
#[derive(Clone)]
pub struct Peer {
    pub server: String,
    pub channel: Channel,
    pub echo: EchoClient<Channel>,
    pub health: HealthClient<Channel>,
}

impl Peer {
    pub async fn connect(addr: &str, server: String) -> Result<Self, Box<dyn std::error::Error>> {
        let channel = Endpoint::from_shared(format!("http://{addr}"))?.connect().await?;
        let (echo, health) = (EchoClient::new(channel.clone()), HealthClient::new(channel.clone()));
        Ok(Self { server, channel, echo, health })
    }

    pub async fn say(&mut self, request: SayRequest) -> Result<SayReply, Status> {
        Ok(self.echo.say(timed(request)).await?.into_inner())
    }

    /// The connection still serves.
    pub async fn serves(&mut self) -> Result<(), Failure> {
        let reply = self.say(SayRequest { text: "after".to_owned(), ..SayRequest::default() }).await.map_err(told)?;
        same("echo:after", reply.text.as_str(), "text")
    }

    /// A payload of `size` bytes comes back unchanged.
    pub async fn payload(&mut self, size: usize) -> Outcome {
        let payload: Vec<u8> = (0..size).map(|i| (i % 251 * 31) as u8).collect();
        let reply = self.say(SayRequest { payload: payload.clone(), ..SayRequest::default() }).await.map_err(told)?;
        if reply.payload == payload { Ok(None) } else { Err(format!("a payload of {size} bytes came back changed")) }
    }

    pub async fn fail(&mut self, code: u32, message: &str, details: Vec<prost_types::Any>) -> Result<SayReply, Status> {
        let request = FailRequest { code, message: message.to_owned(), details };
        Ok(self.echo.fail(timed(request)).await?.into_inner())
    }

    pub async fn sleep(&mut self, millis: u32, timeout: Duration) -> Result<SayReply, Status> {
        let mut request = Request::new(SleepRequest { millis });
        request.set_timeout(timeout);
        Ok(self.echo.sleep(request).await?.into_inner())
    }

    pub async fn expand(&mut self, request: ExpandRequest) -> Result<Streaming<SayReply>, Status> {
        Ok(self.echo.expand(timed(request)).await?.into_inner())
    }

    pub async fn chat<S>(&mut self, requests: S) -> Result<Streaming<SayReply>, Status>
    where
        S: Stream<Item = SayRequest> + Send + 'static,
    {
        Ok(self.echo.chat(timed(requests)).await?.into_inner())
    }

    /// Each value is seen by the handler, and returns in headers and trailers, in order.
    pub async fn comes_back(&mut self, values: &[(&str, &[&[u8]])]) -> Outcome {
        let mut request = timed(MetaRequest { reply_size: 0 });
        for (name, values) in values {
            for value in *values {
                append(request.metadata_mut(), format!("x-echo-{name}"), value);
            }
        }
        let response = self.echo.meta(request).await.map_err(told)?;
        // tonic puts the trailers of a unary call into the same map as its headers.
        let received = by_key(response.metadata());
        let seen: Values = response
            .into_inner()
            .seen
            .into_iter()
            .map(|entry| {
                let text = entry.values.into_iter().map(String::into_bytes);
                (entry.key, text.chain(entry.bin_values).collect())
            })
            .collect();
        let tonic = self.server == "tonic";
        for (name, values) in values {
            let want = Some(values.iter().map(|value| value.to_vec()).collect::<Vec<_>>());
            // What is not ASCII has no place in a reply, whose strings are UTF-8.
            if name.ends_with("-bin") || values.iter().all(|value| value.is_ascii()) {
                same(want.as_ref(), seen.get(&format!("x-echo-{name}")), "seen")?;
            }
            same(want.as_ref(), received.get(&format!("x-head-{name}")), "header")?;
            let trailers = if tonic { None } else { want.as_ref() };
            same(trailers, received.get(&format!("x-trail-{name}")), "trailer")?;
        }
        Ok(tonic.then_some("tonic's servers have no trailers for a unary success"))
    }
}

pub fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(OK_TIME);
    request
}

fn append(metadata: &mut MetadataMap, name: String, value: &[u8]) {
    if name.ends_with("-bin") {
        let key = BinaryMetadataKey::from_bytes(name.as_bytes()).expect("a key");
        metadata.append_bin(key, tonic::metadata::MetadataValue::from_bytes(value));
    } else {
        let key = AsciiMetadataKey::from_bytes(name.as_bytes()).expect("a key");
        metadata.append(key, tonic::metadata::MetadataValue::try_from(value).expect("a value"));
    }
}

fn by_key(metadata: &MetadataMap) -> Values {
    let mut values = Values::new();
    for pair in metadata.iter() {
        let (key, value) = match pair {
            KeyAndValueRef::Ascii(key, value) => (key.as_str(), Bytes::copy_from_slice(value.as_bytes())),
            KeyAndValueRef::Binary(key, value) => (key.as_str(), value.to_bytes().unwrap_or_default()),
        };
        values.entry(key.to_owned()).or_default().push(value.to_vec());
    }
    values
}

pub fn told(status: Status) -> Failure {
    format!("{:?}: {}", status.code(), status.message())
}

pub fn same<T: PartialEq + std::fmt::Debug>(want: T, got: T, what: &str) -> Result<(), Failure> {
    if want == got { Ok(()) } else { Err(format!("{what}: want {want:?}, got {got:?}").chars().take(400).collect()) }
}

/// The status of a call that must fail with this code.
pub fn fails<T: std::fmt::Debug>(code: Code, result: Result<T, Status>) -> Result<Status, Failure> {
    match result {
        Err(status) if status.code() == code => Ok(status),
        Err(status) => Err(format!("want {code:?}, got {}", told(status))),
        Ok(reply) => Err(format!("want {code:?}, got a reply {reply:?}").chars().take(200).collect()),
    }
}
