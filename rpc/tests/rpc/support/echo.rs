//! A service on plain text messages, written as generated code would be.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, BufMut};
use trirpc_core::CodecError;
use trirpc_core::buf::MessageBuf;
use trirpc_core::call::EncodeBuf;
use trirpc_rpc::{
    CallKind, Codec, Context, Handling, IncomingCall, Metadata, Method, MethodCodec, MethodSpec, Sender, Service,
    ServiceDescriptor, Status, Streaming,
};

/// Strings as they are.
pub struct Text(&'static str);

/// The message that [`Text`] announces with a wrong length.
pub const LIE: &str = "encoded length lies";
/// The message that [`Text`] panics on.
pub const EXPLODE: &str = "encoding panics";

impl Codec<String> for Text {
    fn name(&self) -> &'static str {
        self.0
    }

    fn encoded_len(&self, item: &String) -> Option<usize> {
        Some(item.len() + usize::from(item == LIE))
    }

    fn encode(&self, item: &String, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        assert_ne!(item, EXPLODE, "as the test asks");
        dst.buf().put_slice(item.as_bytes());
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<String, CodecError> {
        let bytes = src.copy_to_bytes(src.remaining());
        String::from_utf8(bytes.to_vec()).map_err(|_| CodecError::new("not UTF-8"))
    }
}

pub static CODECS: &[MethodCodec<String, String>] = &[MethodCodec { request: &Text("text"), response: &Text("text") }];
/// A codec that the server does not have.
pub static OTHER_CODECS: &[MethodCodec<String, String>] =
    &[MethodCodec { request: &Text("other"), response: &Text("other") }];

pub static SAY: Method<String, String> = Method::new("/test.Echo/Say", CallKind::Unary, true, CODECS);
pub static LOTS: Method<String, String> = Method::new("/test.Echo/Lots", CallKind::ServerStreaming, false, CODECS);
pub static GATHER: Method<String, String> = Method::new("/test.Echo/Gather", CallKind::ClientStreaming, false, CODECS);
pub static CHAT: Method<String, String> = Method::new("/test.Echo/Chat", CallKind::Bidi, false, CODECS);

/// What has happened to the handlers.
#[derive(Default)]
pub struct Counters {
    pub started: AtomicUsize,
    pub dropped: AtomicUsize,
    pub sent: AtomicUsize,
}

impl Counters {
    pub fn started(&self) -> usize {
        self.started.load(Ordering::SeqCst)
    }

    pub fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

/// Counts a handler that goes, however it goes.
struct Guard(Arc<Counters>);

impl Guard {
    fn new(counters: &Arc<Counters>) -> Self {
        counters.started.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counters))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

pub struct Echo {
    pub counters: Arc<Counters>,
}

impl Echo {
    async fn say(&self, cx: &mut Context, request: String) -> Result<String, Status> {
        let _guard = Guard::new(&self.counters);
        for (key, value) in cx.metadata().clone().iter() {
            if key.starts_with("x-") && !key.ends_with("-bin") {
                cx.headers_mut().append(key, value.to_str().unwrap_or_default())?;
                cx.trailers_mut().append(&format!("{key}-trailer"), value.to_str().unwrap_or_default())?;
            }
        }
        match request.as_str() {
            "panic" => panic!("as the caller asked"),
            "fail" => Err(Status::not_found("no such thing")),
            "wait" => std::future::pending().await,
            "closing" => {
                cx.trailers_mut().append("closing", "true")?;
                Ok(request)
            }
            "remaining" => Ok(format!("{:?}", cx.remaining())),
            "peer" => Ok(cx.peer().unwrap_or("nobody").to_owned()),
            "lie" => Ok(LIE.to_owned()),
            "plain" => {
                cx.disable_compression();
                Ok("x".repeat(5000))
            }
            "large" => Ok("x".repeat(100_000)),
            _ => Ok(request),
        }
    }

    /// `count` or `count×size` messages, or one kind of misbehaviour.
    async fn lots(&self, cx: &mut Context, request: String, tx: &mut Sender<String>) -> Result<(), Status> {
        let _guard = Guard::new(&self.counters);
        let (count, size) = request.split_once('x').unwrap_or((&request, "0"));
        let count: usize = count.parse().map_err(|_| Status::invalid_argument("a number is wanted"))?;
        let size: usize = size.parse().map_err(|_| Status::invalid_argument("a size is wanted"))?;
        cx.headers_mut().append("x-kind", "lots")?;
        for i in 0..count {
            tx.send(&format!("{i}{}", "-".repeat(size))).await?;
            self.counters.sent.fetch_add(1, Ordering::SeqCst);
        }
        cx.trailers_mut().append("x-sent", &count.to_string())?;
        Ok(())
    }

    async fn gather(&self, _: &mut Context, rx: &mut Streaming<String>) -> Result<String, Status> {
        let _guard = Guard::new(&self.counters);
        let mut all = Vec::new();
        while let Some(message) = rx.next().await? {
            match message.as_str() {
                "stop" => return Ok("stopped early".into()),
                "refuse" => return Err(Status::aborted("refused")),
                "wait" => std::future::pending().await,
                _ => all.push(message),
            }
        }
        Ok(all.join("+"))
    }

    async fn chat(&self, _: &mut Context, rx: &mut Streaming<String>, tx: &mut Sender<String>) -> Result<(), Status> {
        let _guard = Guard::new(&self.counters);
        while let Some(message) = rx.next().await? {
            if message == "fail" {
                return Err(Status::aborted("as asked"));
            }
            tx.send(&message).await?;
        }
        Ok(())
    }
}

impl Service for Echo {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static METHODS: &[&MethodSpec] = &[&SAY.spec, &LOTS.spec, &GATHER.spec, &CHAT.spec];
        static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("test.Echo", METHODS);
        &DESCRIPTOR
    }

    fn call(self: Arc<Self>, method: usize, call: IncomingCall) -> Handling {
        match method {
            0 => call.unary(&SAY, move |mut cx, request| async move {
                let result = self.say(&mut cx, request).await;
                cx.respond(&SAY, result);
            }),
            1 => call.server_streaming(&LOTS, move |mut cx, request, mut tx| async move {
                let result = self.lots(&mut cx, request, &mut tx).await;
                cx.finish(result);
            }),
            2 => call.client_streaming(&GATHER, move |mut cx, mut rx| async move {
                let result = self.gather(&mut cx, &mut rx).await;
                cx.respond(&GATHER, result);
            }),
            3 => call.bidi(&CHAT, move |mut cx, mut rx, mut tx| async move {
                let result = self.chat(&mut cx, &mut rx, &mut tx).await;
                cx.finish(result);
            }),
            _ => call.unimplemented(),
        }
    }
}

/// The value of a key, as text.
pub fn text(metadata: &Metadata, key: &str) -> Option<String> {
    metadata.get(key).and_then(|value| value.to_str().map(str::to_owned))
}
