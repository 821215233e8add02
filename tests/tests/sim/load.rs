//! Calls of all kinds, and a ledger of what became of them.

use std::collections::hash_map::DefaultHasher;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use trirpc_cli::echo::EchoService;
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::{Echo, EchoServer};
use trirpc_proto::test_service::{
    CollectReply, ExpandRequest, FailRequest, MetaReply, MetaRequest, SayReply, SayRequest, SleepRequest,
};
use trirpc_rpc::sim::{Random, Sim, World};
use trirpc_rpc::{Channel, Code, Context, Instant, Sender, Status, Streaming, Time};

/// Callers at the same time.
const CALLERS: usize = 40;

/// Kinds of calls up to this one are unary.
const LAST_UNARY: usize = 1;

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub served: u64,
    /// Ended with an error that nobody had asked for.
    pub failed: u64,
    /// Of these, streams that no server has processed, which only the application could begin again.
    pub unprocessed_streams: u64,
    /// Cancelled by their callers, or out of time.
    pub given_up: u64,
    pub connections: u64,
    /// The first of the errors that nobody had asked for.
    pub first_error: Option<String>,
    /// Of every end, with its instant.
    pub digest: u64,
}

#[derive(Default)]
struct Ledger {
    begun: u64,
    /// How often the handler of each call ran.
    runs: Vec<u8>,
    ended: Vec<bool>,
    report: Report,
    digest: DefaultHasher,
}

/// Calls to be made.
#[derive(Clone)]
pub(crate) struct Load {
    world: World,
    calls: u64,
    ledger: Arc<Mutex<Ledger>>,
}

/// How a call ended.
#[derive(Debug, Hash)]
enum End {
    Served,
    Failed(i32),
    GivenUp,
}

impl Load {
    pub(crate) fn new(sim: &Sim, calls: u64) -> Self {
        Self { world: sim.world(), calls, ledger: Arc::default() }
    }

    /// The service that the calls go to.
    pub(crate) fn service(&self) -> EchoServer<Shop> {
        EchoServer::new(Shop { inner: EchoService::new(), load: self.clone() })
    }

    /// Makes all calls.
    pub(crate) fn run(&self, channel: Channel) -> impl Future<Output = Report> + Send + 'static {
        let load = self.clone();
        async move {
            let callers: Vec<_> = (0..CALLERS)
                .map(|_| {
                    let (load, channel) = (load.clone(), channel.clone());
                    let (told, telling) = smol::channel::bounded::<()>(1);
                    let world = load.world.clone();
                    world.spawn(async move {
                        let _told = told;
                        let mut random = load.world.random();
                        while let Some(id) = load.begin() {
                            let end = load.call(&EchoClient::new(channel.clone()), id, &mut random).await;
                            load.end(id, &end);
                        }
                    });
                    telling
                })
                .collect();
            for caller in callers {
                let _ = caller.recv().await;
            }
            let mut ledger = load.lock();
            ledger.report.connections = load.world.connections();
            ledger.report.digest = ledger.digest.finish();
            ledger.report.clone()
        }
    }

    /// No call was lost, and none served twice.
    pub(crate) fn check(&self, seed: u64) {
        let ledger = self.lock();
        assert_eq!(ledger.begun, self.calls);
        for (id, ended) in ledger.ended.iter().enumerate() {
            assert!(ended, "seed {seed}: call {id} has no end");
        }
        for (id, runs) in ledger.runs.iter().enumerate() {
            assert!(*runs <= 1, "seed {seed}: call {id} was served {runs} times");
        }
    }

    pub(crate) fn progress(&self) -> String {
        let ledger = self.lock();
        let open: Vec<usize> = (0..ledger.ended.len()).filter(|id| !ledger.ended[*id]).take(5).collect();
        format!("{:?}, and among others without an end: {open:?}", ledger.report)
    }

    fn begin(&self) -> Option<u64> {
        let mut ledger = self.lock();
        let id = ledger.begun;
        if id == self.calls {
            return None;
        }
        ledger.begun += 1;
        ledger.ended.push(false);
        ledger.runs.push(0);
        Some(id)
    }

    fn end(&self, id: u64, end: &End) {
        let now: Instant = self.world.time().now();
        let mut ledger = self.lock();
        assert!(!std::mem::replace(&mut ledger.ended[id as usize], true), "call {id} ended twice");
        match end {
            End::Served => ledger.report.served += 1,
            End::Failed(_) => ledger.report.failed += 1,
            End::GivenUp => ledger.report.given_up += 1,
        }
        (id, end, now.as_nanos()).hash(&mut ledger.digest);
    }

    /// One call of a kind that chance decides.
    async fn call(&self, client: &EchoClient<Channel>, id: u64, random: &mut Random) -> End {
        // A caller in eight has little patience, one in eight a deadline.
        let patience = random.one_in(8).then(|| random.duration(Duration::ZERO, Duration::from_millis(300)));
        let deadline = random.one_in(8).then(|| random.duration(Duration::from_millis(1), Duration::from_secs(1)));
        let kind = random.below(5);
        let exchange = self.exchange(client, id, kind, random, deadline);
        let outcome = match patience {
            None => Some(exchange.await),
            Some(patience) => self.within(patience, exchange).await,
        };
        match outcome {
            Some(Ok(())) => End::Served,
            None => End::GivenUp,
            Some(Err(status)) if status.code() == Code::DeadlineExceeded && deadline.is_some() => End::GivenUp,
            Some(Err(status)) => {
                let allowed = [Code::Unavailable, Code::Internal, Code::Unknown, Code::Cancelled];
                assert!(allowed.contains(&status.code()), "seed {}: call {id}: {status}", self.world.seed());
                let mut ledger = self.lock();
                ledger.report.unprocessed_streams += u64::from(kind > LAST_UNARY && status.is_unprocessed());
                ledger.report.first_error.get_or_insert_with(|| format!("call {id}: {status}"));
                End::Failed(status.code() as i32)
            }
        }
    }

    /// `future`, or `None` if it takes longer than `patience`: it is dropped then.
    async fn within<T>(&self, patience: Duration, future: impl Future<Output = T>) -> Option<T> {
        let (mut future, mut sleep) = (pin!(future), pin!(self.world.sleep(patience)));
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => sleep.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Makes the call and judges every byte of what comes.
    async fn exchange(
        &self,
        client: &EchoClient<Channel>,
        id: u64,
        kind: usize,
        random: &mut Random,
        deadline: Option<Duration>,
    ) -> Result<(), Status> {
        let size = [0, 10, 300, 5000, 100_000][random.below(5)];
        let messages = random.below(8);
        let request = |n: usize| SayRequest {
            text: format!("{id}/{n}"),
            payload: vec![(id as usize + n) as u8; size].into(),
            sequence_id: id as i64,
            ..SayRequest::default()
        };
        let judge = |n: usize, reply: &SayReply| {
            assert_eq!((reply.text.as_str(), reply.sequence_id), (&*format!("echo:{id}/{n}"), id as i64));
            assert!(reply.payload.len() == size && reply.payload.iter().all(|b| *b == (id as usize + n) as u8));
        };
        let late = deadline.unwrap_or(Duration::from_secs(3600));
        match kind {
            0..=LAST_UNARY => judge(0, &client.say(request(0)).timeout(late).await?),
            2 => {
                let (mut tx, reply) = client.collect().timeout(late).open();
                for n in 0..messages {
                    // Why the call ends early is in its reply.
                    if tx.send(&request(n)).await.is_err() {
                        break;
                    }
                }
                tx.finish();
                let reply = reply.await?;
                assert_eq!((reply.count as usize, reply.payload_bytes as usize), (messages, messages * size));
            }
            3 => {
                let expand = ExpandRequest { count: messages as u32, size: size as u32, ..ExpandRequest::default() };
                let mut rx = client.expand(expand).timeout(late).open();
                for n in 0..messages {
                    let reply = rx.next().await?.expect("as many as asked for");
                    assert_eq!((reply.text, reply.payload.len()), (format!("expand:{n}"), size));
                }
                assert!(rx.next().await?.is_none());
            }
            _ => {
                let (mut tx, mut rx) = client.chat().timeout(late).open();
                for n in 0..messages {
                    if tx.send(&request(n)).await.is_err() {
                        break;
                    }
                    judge(n, &rx.next().await?.expect("an answer to each"));
                }
                tx.finish();
                assert!(rx.next().await?.is_none());
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// How long a response of `size` bytes takes.
pub(crate) async fn transfer(world: World, channel: Channel, size: u32) -> Duration {
    let begin = world.time().now();
    let request = SayRequest { reply_size: size, ..SayRequest::default() };
    let reply = EchoClient::new(channel).say(request).await.expect("served");
    assert_eq!(reply.payload.len(), size as usize);
    world.time().now() - begin
}

/// The echo service, with handlers that take a while, by the world's clock, and a mark for each that runs.
#[derive(Clone)]
pub(crate) struct Shop {
    inner: EchoService,
    load: Load,
}

impl Shop {
    async fn work(&self) {
        let mut random = self.load.world.random();
        if random.one_in(2) {
            self.load.world.sleep(random.duration(Duration::ZERO, Duration::from_millis(100))).await;
        }
    }
}

impl Echo for Shop {
    async fn say(&self, cx: &mut Context, request: SayRequest) -> Result<SayReply, Status> {
        if let Some(runs) = self.load.lock().runs.get_mut(request.sequence_id as usize) {
            *runs += 1;
        }
        self.work().await;
        self.inner.say(cx, request).await
    }

    async fn collect(&self, cx: &mut Context, rx: &mut Streaming<SayRequest>) -> Result<CollectReply, Status> {
        self.work().await;
        self.inner.collect(cx, rx).await
    }

    async fn expand(&self, cx: &mut Context, request: ExpandRequest, tx: &mut Sender<SayReply>) -> Result<(), Status> {
        self.work().await;
        self.inner.expand(cx, request, tx).await
    }

    async fn chat(
        &self,
        cx: &mut Context,
        rx: &mut Streaming<SayRequest>,
        tx: &mut Sender<SayReply>,
    ) -> Result<(), Status> {
        self.work().await;
        self.inner.chat(cx, rx, tx).await
    }

    async fn fail(&self, cx: &mut Context, request: FailRequest) -> Result<SayReply, Status> {
        self.inner.fail(cx, request).await
    }

    async fn sleep(&self, _: &mut Context, request: SleepRequest) -> Result<SayReply, Status> {
        self.load.world.sleep(Duration::from_millis(u64::from(request.millis))).await;
        Ok(SayReply::default())
    }

    async fn meta(&self, cx: &mut Context, request: MetaRequest) -> Result<MetaReply, Status> {
        self.inner.meta(cx, request).await
    }
}
