//! Our side of a case: the client under test, and how its outcome is judged.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use trirpc::proto::grpc::health::v1::health_client::HealthClient;
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::{FailRequest, MetaReply, MetaRequest, SayReply, SayRequest};
use trirpc::{Channel, Code, Connect, Metadata, Protocol, Status, Streaming};

use crate::fleet;
use crate::stand::Stand;

/// Why a case failed.
pub(crate) type Failure = String;
/// A remark on a case that passed, or why it did not.
pub(crate) type Outcome = Result<Option<&'static str>, Failure>;

/// A case that needs this long has failed.
pub(crate) const OK_TIME: Duration = Duration::from_secs(20);

/// A foreign server. All clones share one channel.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) server: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) stand: Arc<Stand>,
    pub(crate) channel: Channel,
    pub(crate) echo: EchoClient,
    pub(crate) health: HealthClient,
}

impl Peer {
    pub(crate) async fn connect(stand: Arc<Stand>, peer: &'static fleet::Peer) -> Result<Self, Status> {
        let channel = Channel::connect(format!("http://{}", stand.addr())).await?.protocol(peer.protocol);
        let (echo, health) = (EchoClient::new(channel.clone()), HealthClient::new(channel.clone()));
        Ok(Self { server: peer.library, protocol: peer.protocol, stand, channel, echo, health })
    }

    pub(crate) async fn say(&self, request: SayRequest) -> Result<SayReply, Status> {
        self.echo.say(request).timeout(OK_TIME).await
    }

    /// The connection still serves.
    pub(crate) async fn serves(&self) -> Result<(), Failure> {
        let reply = self.say(text("after")).await.map_err(told)?;
        same("echo:after", reply.text.as_str(), "text")
    }

    /// A payload of `size` bytes comes back unchanged.
    pub(crate) async fn payload(&self, size: usize) -> Outcome {
        let payload: Vec<u8> = (0..size).map(|i| (i % 251 * 31) as u8).collect();
        let request = SayRequest { payload: payload.clone().into(), ..SayRequest::default() };
        let reply = self.say(request).await.map_err(told)?;
        if reply.payload == payload { Ok(None) } else { Err(format!("a payload of {size} bytes came back changed")) }
    }

    pub(crate) async fn fail(&self, code: u32, message: &str) -> Result<SayReply, Status> {
        let request = FailRequest { code, message: message.to_owned(), details: Vec::new() };
        self.echo.fail(request).timeout(OK_TIME).await
    }

    /// The message that arrives when the server's handler ends a call with this one.
    pub(crate) fn shown(&self, code: Code, message: &str) -> String {
        match self.server {
            "dubbo-java" => {
                // Sent raw: what is not Latin-1 is lost, ends of lines come as blanks, and escapes are taken for such.
                let latin = |c: char| if c <= '\u{ff}' { vec![c] } else { vec!['?'; c.len_utf16()] };
                let message: String = message.chars().flat_map(latin).collect();
                let message = message.replace(['\r', '\n'], " ").replace("%41", "A");
                format!("{} : {message}", code.name()).trim_end().to_owned()
            }
            _ => message.to_owned(),
        }
    }

    /// Why what [`shown`](Self::shown) says is not what was sent.
    pub(crate) fn note_on_messages(&self) -> Option<&'static str> {
        (self.server == "dubbo-java")
            .then_some("dubbo-java's servers put the status before a message, and send it raw in Latin-1")
    }

    /// What the handler sees of these values, and what comes back, by one of the two unary paths.
    async fn meta(&self, values: &[(&str, &[&[u8]])], fast: bool) -> Result<(MetaReply, Metadata, Metadata), Failure> {
        let mut call = self.echo.meta(MetaRequest::default()).timeout(OK_TIME).unary_fast_path(fast);
        for (name, values) in values {
            for value in *values {
                call = call.metadata(format!("x-echo-{name}"), value);
            }
        }
        Ok(call.full().await.map_err(told)?.into_parts())
    }

    /// Each value is seen by the handler, and returns in headers and trailers, in order; by both unary paths alike
    /// (bg:S15).
    pub(crate) async fn comes_back(&self, values: &[(&str, &[&[u8]])]) -> Outcome {
        let (reply, headers, trailers) = self.meta(values, true).await?;
        let (general, general_headers, general_trailers) = self.meta(values, false).await?;
        same(comparable(&general), comparable(&reply), "seen by both paths")?;
        same(fields(&general_headers), fields(&headers), "headers by both paths")?;
        same(fields(&general_trailers), fields(&trailers), "trailers by both paths")?;
        let seen: BTreeMap<String, Vec<Vec<u8>>> = reply
            .seen
            .into_iter()
            .map(|entry| {
                let text = entry.values.into_iter().map(String::into_bytes);
                (entry.key, text.chain(entry.bin_values.iter().map(|value| value.to_vec())).collect())
            })
            .collect();
        let mut note = None;
        for (name, values) in values {
            let is_binary = name.ends_with("-bin");
            let mut want: Vec<Vec<u8>> = values.iter().map(|value| value.to_vec()).collect();
            let (mut in_headers, mut in_trailers) = (true, true);
            match self.server {
                "tonic" => {
                    in_trailers = false;
                    note = Some("tonic's servers have no trailers for a unary success");
                }
                "grpc-js" if !is_binary && want.len() > 1 => {
                    want = vec![want.join(&b", "[..])];
                    note = Some("Node joins the values of a repeated key by commas");
                }
                "dubbo-java" => {
                    want.drain(..want.len() - 1);
                    in_headers = false;
                    note = Some("dubbo-java's handlers see the last value of a key, and reply in trailers only");
                }
                _ => {}
            }
            // What is not ASCII has no place in a reply, whose strings are UTF-8.
            if is_binary || values.iter().all(|value| value.is_ascii()) {
                same(Some(&want), seen.get(&format!("x-echo-{name}")), &format!("seen {name}"))?;
            }
            let returned = |is_there: bool| if is_there { want.clone() } else { Vec::new() };
            same(returned(in_headers), all_of(&headers, &format!("x-head-{name}"))?, "header")?;
            same(returned(in_trailers), all_of(&trailers, &format!("x-trail-{name}"))?, "trailer")?;
        }
        Ok(note)
    }
}

/// The values of a key that a handler saw, as text and as octets.
type Seen<'a> = (Vec<&'a str>, Vec<&'a [u8]>);

/// All that a handler saw of a head, by keys, but for the time that was left.
fn comparable(reply: &MetaReply) -> BTreeMap<&str, Seen<'_>> {
    let seen = reply.seen.iter().filter(|entry| !entry.key.contains("timeout"));
    let values = seen.map(|entry| {
        let text = entry.values.iter().map(String::as_str).collect();
        (&*entry.key, (text, entry.bin_values.iter().map(|value| &value[..]).collect()))
    });
    values.collect()
}

/// All that a server sent, but for the time; by keys, which Go sends in any order, each with its values in theirs.
fn fields(metadata: &Metadata) -> Vec<(&str, &[u8])> {
    let fields = metadata.iter().map(|(key, value)| (key, value.as_wire()));
    let mut fields: Vec<_> = fields.filter(|(key, _)| *key != "date").collect();
    fields.sort_by_key(|(key, _)| *key);
    fields
}

pub(crate) fn all_of(metadata: &Metadata, key: &str) -> Result<Vec<Vec<u8>>, Failure> {
    let values = metadata.get_all(key).map(|value| match key.ends_with("-bin") {
        true => value.to_bytes().map(|bytes| bytes.to_vec()).map_err(|error| error.to_string()),
        false => Ok(value.as_wire().to_vec()),
    });
    values.collect()
}

/// A request with this text and nothing else.
pub(crate) fn text(text: impl Into<String>) -> SayRequest {
    SayRequest { text: text.into(), ..SayRequest::default() }
}

/// All replies, and how the stream ended.
pub(crate) async fn all(mut replies: Streaming<SayReply>) -> (Vec<SayReply>, Result<(), Status>) {
    let mut got = Vec::new();
    loop {
        match replies.next().await {
            Ok(Some(reply)) => got.push(reply),
            Ok(None) => return (got, Ok(())),
            Err(status) => return (got, Err(status)),
        }
    }
}

pub(crate) fn told(status: Status) -> Failure {
    format!("{:?}: {}", status.code(), status.message())
}

pub(crate) fn same<T: PartialEq + Debug>(want: T, got: T, what: &str) -> Result<(), Failure> {
    if want == got { Ok(()) } else { Err(format!("{what}: want {want:?}, got {got:?}").chars().take(400).collect()) }
}

/// The status of a call that must fail with this code.
pub(crate) fn fails<T: Debug>(code: Code, result: Result<T, Status>) -> Result<Status, Failure> {
    match result {
        Err(status) if status.code() == code => Ok(status),
        Err(status) => Err(format!("want {code:?}, got {}", told(status))),
        Ok(reply) => Err(format!("want {code:?}, got a reply {reply:?}").chars().take(200).collect()),
    }
}
