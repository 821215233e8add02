//! `trirpc.test.v1.Echo`, by the rules in the comments of its proto.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use smol::Timer;
use trirpc::proto::StatusDetails;
use trirpc::proto::test_service::echo_server::Echo;
use trirpc::proto::test_service::{
    CollectReply, ExpandRequest, FailRequest, MetaEntry, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest,
};
use trirpc::{Bytes, Code, Context, Metadata, MetadataError, Sender, Status, Streaming};

/// Most bytes that one call makes this service allocate, whatever it asks for.
pub const MAX_PAYLOAD: usize = 64 * 1024 * 1024;

/// What becomes of a call in its handler.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The handler runs.
    Started {
        /// Name of the method.
        method: &'static str,
        /// Metadata of the request.
        metadata: Metadata,
        /// What the client's deadline leaves.
        remaining: Option<Duration>,
    },
    /// The handler answered, well or not.
    Answered {
        /// Name of the method.
        method: &'static str,
    },
    /// The handler was dropped before it could answer: cancelled, out of time or disconnected.
    Dropped {
        /// Name of the method.
        method: &'static str,
    },
}

type Observer = Arc<dyn Fn(Observation) + Send + Sync>;

/// The reference implementation of the service.
#[derive(Clone, Default)]
pub struct EchoService {
    observer: Option<Observer>,
}

impl EchoService {
    /// A service that nobody watches.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells `observer` how each call goes. It is called by the handlers and must not block.
    #[must_use]
    pub fn observed_by(mut self, observer: impl Fn(Observation) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Watches one call until what is returned is dropped.
    fn watch(&self, method: &'static str, cx: &Context) -> Watch<'_> {
        let watch = Watch { service: self, method, answered: false };
        watch.report(|| Observation::Started { method, metadata: cx.metadata().clone(), remaining: cx.remaining() });
        watch
    }
}

impl fmt::Debug for EchoService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EchoService").field("observed", &self.observer.is_some()).finish()
    }
}

/// Reports the end of a call, whichever it is.
struct Watch<'a> {
    service: &'a EchoService,
    method: &'static str,
    answered: bool,
}

impl Watch<'_> {
    fn report(&self, observation: impl FnOnce() -> Observation) {
        if let Some(observer) = &self.service.observer {
            observer(observation());
        }
    }

    fn answer<T>(mut self, answer: T) -> T {
        self.answered = true;
        answer
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let method = self.method;
        self.report(|| match self.answered {
            true => Observation::Answered { method },
            false => Observation::Dropped { method },
        });
    }
}

impl Echo for EchoService {
    async fn say(&self, cx: &mut Context, request: SayRequest) -> Result<SayReply, Status> {
        self.watch("Say", cx).answer(reply(request))
    }

    async fn collect(&self, cx: &mut Context, rx: &mut Streaming<SayRequest>) -> Result<CollectReply, Status> {
        let watch = self.watch("Collect", cx);
        watch.answer(collect(rx).await)
    }

    async fn expand(&self, cx: &mut Context, request: ExpandRequest, tx: &mut Sender<SayReply>) -> Result<(), Status> {
        let watch = self.watch("Expand", cx);
        watch.answer(expand(request, tx).await)
    }

    async fn chat(
        &self,
        cx: &mut Context,
        rx: &mut Streaming<SayRequest>,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        let watch = self.watch("Chat", cx);
        watch.answer(chat(rx, tx).await)
    }

    async fn fail(&self, cx: &mut Context, request: FailRequest) -> Result<SayReply, Status> {
        self.watch("Fail", cx).answer(fail(request))
    }

    async fn sleep(&self, cx: &mut Context, request: SleepRequest) -> Result<SayReply, Status> {
        let watch = self.watch("Sleep", cx);
        Timer::after(Duration::from_millis(u64::from(request.millis))).await;
        watch.answer(Ok(SayReply { text: "slept".to_owned(), ..SayReply::default() }))
    }

    async fn meta(&self, cx: &mut Context, request: MetaRequest) -> Result<MetaReply, Status> {
        let watch = self.watch("Meta", cx);
        watch.answer(meta(cx, request))
    }
}

fn reply(request: SayRequest) -> Result<SayReply, Status> {
    let payload = if request.reply_size > 0 { zeros(request.reply_size)? } else { request.payload };
    Ok(SayReply { text: format!("echo:{}", request.text), payload, sequence_id: request.sequence_id })
}

fn zeros(size: u32) -> Result<Bytes, Status> {
    let size = size as usize;
    if size > MAX_PAYLOAD {
        let message = format!("a payload of {size} bytes is above this service's limit of {MAX_PAYLOAD}");
        return Err(Status::resource_exhausted(message));
    }
    Ok(Bytes::from(vec![0; size]))
}

async fn collect(rx: &mut Streaming<SayRequest>) -> Result<CollectReply, Status> {
    let mut reply = CollectReply::default();
    while let Some(request) = rx.next().await? {
        if reply.texts.len() + request.text.len() > MAX_PAYLOAD {
            return Err(Status::resource_exhausted(format!("the texts are above this service's {MAX_PAYLOAD} bytes")));
        }
        if reply.count > 0 {
            reply.texts.push(',');
        }
        reply.texts.push_str(&request.text);
        reply.count = reply.count.saturating_add(1);
        reply.payload_bytes = reply.payload_bytes.saturating_add(request.payload.len() as u64);
    }
    Ok(reply)
}

async fn expand(request: ExpandRequest, tx: &mut Sender<SayReply>) -> Result<(), Status> {
    let payload = zeros(request.size)?;
    for i in 0..request.count {
        if i > 0 && request.interval_ms > 0 {
            Timer::after(Duration::from_millis(u64::from(request.interval_ms))).await;
        }
        let reply = SayReply { text: format!("expand:{i}"), payload: payload.clone(), sequence_id: i64::from(i) };
        tx.send(&reply).await?;
    }
    match request.end_code {
        0 => Ok(()),
        code => Err(Status::new(Code::from_raw(code), request.end_message)),
    }
}

async fn chat(rx: &mut Streaming<SayRequest>, tx: &mut Sender<SayReply>) -> Result<(), Status> {
    while let Some(request) = rx.next().await? {
        if let Some(message) = request.text.strip_prefix("fail:") {
            return Err(Status::failed_precondition(message.to_owned()));
        }
        tx.send(&reply(request)?).await?;
    }
    Ok(())
}

fn fail(request: FailRequest) -> Result<SayReply, Status> {
    if request.code == 0 {
        return Ok(SayReply::default());
    }
    let status = Status::new(Code::from_raw(request.code), request.message);
    Err(request.details.into_iter().fold(status, Status::with_any))
}

fn meta(cx: &mut Context, request: MetaRequest) -> Result<MetaReply, Status> {
    let payload = zeros(request.reply_size)?;
    let metadata = cx.metadata().clone();
    let mut seen = BTreeMap::new();
    let (mut headers, mut trailers) = (Metadata::new(), Metadata::new());
    for (key, value) in metadata.iter() {
        let bytes = value.to_bytes().map_err(|error| Status::internal(format!("{key}: {error}")))?;
        if let Some(rest) = key.strip_prefix("x-echo-") {
            for (prefix, target) in [("x-head-", &mut headers), ("x-trail-", &mut trailers)] {
                append(target, &format!("{prefix}{rest}"), &bytes)
                    .map_err(|error| Status::invalid_argument(error.to_string()))?;
            }
        }
        let entry: &mut MetaEntry = seen.entry(key.to_owned()).or_default();
        if value.is_binary() {
            entry.bin_values.push(bytes);
        } else {
            entry.values.push(value.to_text().into_owned());
        }
    }
    cx.headers_mut().merge(headers);
    cx.trailers_mut().merge(trailers);
    let seen = seen.into_iter().map(|(key, entry)| MetaEntry { key, ..entry }).collect();
    Ok(MetaReply { seen, payload })
}

/// Appends a value as it came.
fn append(metadata: &mut Metadata, key: &str, value: &Bytes) -> Result<(), MetadataError> {
    match key.ends_with("-bin") {
        true => metadata.append_bin(key, value),
        false => metadata.append_opaque(key, value.clone()),
    }
}
