//! Both unary paths over real sockets, by threads that share a channel.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use smol::channel::{Sender, unbounded};
use smol::future::zip;
use smol::{Executor, block_on};
use trirpc::proto::test_service::echo_client::EchoClient;
use trirpc::proto::test_service::echo_server::EchoServer;
use trirpc::proto::test_service::{FailRequest, MetaRequest, SayRequest};
use trirpc::{Channel, Code, Config, Connect, Metadata, Router, Server};
use trirpc_cli::echo::EchoService;

/// Threads that call at the same time, each with two calls in flight.
const THREADS: usize = 8;
const CALLS: usize = 100;

/// Sizes on both sides of what is encoded in place, and of a frame.
const SIZES: [usize; 6] = [0, 1, 128, 1024, 20_000, 100_000];

/// A server whose calls run on two threads of their own, until the sender is dropped.
struct Running {
    uri: String,
    _stop: Sender<()>,
}

fn serve(config: Config) -> Running {
    let executor: &'static Executor<'static> = Box::leak(Box::new(Executor::new()));
    let (stop, stopped) = unbounded::<()>();
    for _ in 0..2 {
        let stopped = stopped.clone();
        thread::spawn(move || block_on(executor.run(stopped.recv())));
    }
    let router = Router::new().add(EchoServer::new(EchoService::new()));
    let server = block_on(Server::builder(router).config(config).executor(executor).bind("127.0.0.1:0"));
    let server = server.expect("an address");
    let uri = server.local_addr().uri();
    executor.spawn(async { drop(server.serve().await) }).detach();
    Running { uri, _stop: stop }
}

/// The work of a caller, by its number.
fn by_threads(work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| work(next.fetch_add(1, Ordering::Relaxed)));
        }
    });
}

fn request(caller: usize, call: usize) -> SayRequest {
    let payload = vec![(caller * 31 + call) as u8; SIZES[(caller + call) % SIZES.len()]];
    SayRequest { text: format!("{caller} {call}"), payload: payload.into(), ..SayRequest::default() }
}

/// bg:S19: with the switch on, calls of several threads over one connection each get their own answer.
#[test]
fn calls_of_many_threads_by_the_fast_path_get_their_own_answers() {
    let server = serve(Config::default());
    let channel = block_on(async { Channel::connect(&server.uri).await }).expect("a server").unary_fast_path(true);
    let client = EchoClient::new(channel);
    by_threads(|caller| {
        for call in (0..CALLS).step_by(2) {
            let (one, other) = (request(caller, call), request(caller, call + 1));
            let answers =
                block_on(zip(async { client.say(one.clone()).await }, async { client.say(other.clone()).await }));
            for (request, answer) in [(one, answers.0), (other, answers.1)] {
                let answer = answer.expect("an answer");
                assert_eq!(answer.text, format!("echo:{}", request.text));
                assert_eq!(answer.payload, request.payload);
            }
        }
    });
}

fn fields(metadata: &Metadata) -> Vec<(String, Vec<u8>)> {
    metadata.iter().map(|(key, value)| (key.to_owned(), value.as_wire().to_vec())).collect()
}

/// bg:R8: equal requests by both paths at once, from several threads, get equal responses: message, headers and trailers,
/// or status and metadata. The server's switch stands one way for half of the calls, the other way for the rest.
#[test]
fn equal_requests_get_equal_responses_by_both_paths() {
    for answers_fast in [true, false] {
        let mut config = Config::default();
        config.unary_fast_path = answers_fast;
        let server = serve(config);
        let channel = block_on(async { Channel::connect(&server.uri).await }).expect("a server");
        let [fast, general] = [true, false].map(|on| EchoClient::new(channel.clone().unary_fast_path(on)));
        by_threads(|caller| {
            for call in 0..CALLS {
                same_say(&fast, &general, request(caller, call));
                let value = format!("{caller}-{call}");
                same_metadata(&fast, &general, &value);
                same_failure(
                    &fast,
                    &general,
                    FailRequest { code: 1 + (call % 16) as u32, message: value, ..FailRequest::default() },
                );
            }
        });
    }
}

fn same_say(fast: &EchoClient, general: &EchoClient, request: SayRequest) {
    let calls = zip(async { fast.say(request.clone()).await }, async { general.say(request.clone()).await });
    let [fast, general] = <[_; 2]>::from(block_on(calls)).map(|answer| answer.expect("an answer"));
    assert_eq!(fast, general);
    assert_eq!(fast.payload, request.payload);
}

fn same_metadata(fast: &EchoClient, general: &EchoClient, value: &str) {
    let call = |client: &EchoClient| {
        let call = client.meta(MetaRequest::default());
        call.metadata("x-echo-text", value).metadata("x-echo-octets-bin", [0, 255, 7]).full()
    };
    let [fast, general] = <[_; 2]>::from(block_on(zip(call(fast), call(general)))).map(|answer| {
        let (message, headers, trailers) = answer.expect("an answer").into_parts();
        (message, fields(&headers), fields(&trailers))
    });
    assert_eq!(fast, general);
    assert!(!fast.1.is_empty() && !fast.2.is_empty(), "there is something to compare");
}

fn same_failure(fast: &EchoClient, general: &EchoClient, request: FailRequest) {
    let calls = zip(async { fast.fail(request.clone()).await }, async { general.fail(request.clone()).await });
    let [fast, general] = <[_; 2]>::from(block_on(calls)).map(|answer| answer.expect_err("a failure"));
    assert_eq!(fast, general);
    assert_eq!((fast.code(), fast.message()), (Code::from_raw(request.code), request.message.as_str()));
}
