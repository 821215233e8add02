//! Long ways: how much a stream carries where a round trip takes 100 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trirpc_cli::echo::EchoService;
use trirpc_proto::test_service::echo_client::EchoClient;
use trirpc_proto::test_service::echo_server::EchoServer;
use trirpc_proto::test_service::{ExpandRequest, SayRequest};
use trirpc_rpc::sim::{Faults, Sim, World};
use trirpc_rpc::{Channel, Config, Router, Time};

use super::SERVER;

const GIGABIT: u64 = 125_000_000;
const MESSAGE: u32 = 128 * 1024;

/// 100 ms there and back.
fn long_way(rate: u64) -> Faults {
    let mut faults = Faults::none();
    faults.delay = (Duration::from_millis(50), Duration::from_millis(50));
    faults.rate = rate;
    faults
}

fn world(rate: u64, config: &Config) -> (Sim, Channel) {
    let sim = Sim::new(1, long_way(rate));
    sim.serve(SERVER, Router::new().add(EchoServer::new(EchoService::new())), config.clone());
    let channel = sim.channel(SERVER, config.clone()).expect("a target");
    (sim, channel)
}

fn fixed() -> Config {
    let mut config = Config::default();
    config.adaptive_window = false;
    config
}

/// Begins a stream from the server that never ends, and counts its octets.
fn download(world: &World, channel: Channel) -> Arc<AtomicU64> {
    let octets = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&octets);
    world.spawn(async move {
        let request = ExpandRequest { count: u32::MAX, size: MESSAGE, ..ExpandRequest::default() };
        let mut rx = EchoClient::new(channel).expand(request).open();
        while let Ok(Some(reply)) = rx.next().await {
            counter.fetch_add(reply.payload.len() as u64, Ordering::Relaxed);
        }
    });
    octets
}

/// Begins a stream to the server that never ends, and counts the octets that it takes.
fn upload(world: &World, channel: Channel) -> Arc<AtomicU64> {
    let octets = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&octets);
    world.spawn(async move {
        let (mut tx, _reply) = EchoClient::new(channel).collect().open();
        let request = SayRequest { payload: vec![7; MESSAGE as usize].into(), ..SayRequest::default() };
        while tx.send(&request).await.is_ok() {
            counter.fetch_add(request.payload.len() as u64, Ordering::Relaxed);
        }
    });
    octets
}

/// Megabits a second of each of `streams`, in half a second after `warm_up`.
fn rates(sim: &Sim, warm_up: Duration, streams: &[Arc<AtomicU64>]) -> Vec<u64> {
    sim.pass(warm_up);
    let before: Vec<u64> = streams.iter().map(|octets| octets.load(Ordering::Relaxed)).collect();
    let begin = sim.time().now();
    sim.pass(Duration::from_millis(500));
    let micros = (sim.time().now() - begin).as_micros() as u64;
    let after = streams.iter().map(|octets| octets.load(Ordering::Relaxed));
    after.zip(before).map(|(after, before)| (after - before) * 8 / micros).collect()
}

const WARM_UP: Duration = Duration::from_secs(3);

/// Checklist §3.3: one stream from a server fills half of a gigabit over 100 ms once its window has grown.
#[test]
fn a_stream_to_the_client_fills_a_long_way() {
    let (sim, channel) = world(GIGABIT, &Config::default());
    let stream = download(&sim, channel);
    let rate = rates(&sim, WARM_UP, &[stream])[0];
    assert!(rate >= 500, "{rate} Mbit/s");
}

/// The same to a server.
#[test]
fn a_stream_to_the_server_fills_a_long_way() {
    let (sim, channel) = world(GIGABIT, &Config::default());
    let stream = upload(&sim, channel);
    let rate = rates(&sim, WARM_UP, &[stream])[0];
    assert!(rate >= 500, "{rate} Mbit/s");
}

/// Their twin: with windows that do not grow the same stream carries a window a round trip.
#[test]
fn without_growth_a_stream_carries_a_window_a_round_trip() {
    for begin in [download, upload] {
        let (sim, channel) = world(GIGABIT, &fixed());
        let stream = begin(&sim, channel);
        let rate = rates(&sim, WARM_UP, &[stream])[0];
        assert!((1..=20).contains(&rate), "{rate} Mbit/s");
    }
}

/// Two streams share a long way evenly, the one that came later, too.
#[test]
fn two_streams_share_a_long_way() {
    let (sim, channel) = world(GIGABIT, &Config::default());
    let first = download(&sim, channel.clone());
    sim.pass(Duration::from_secs(2));
    let second = download(&sim, channel);
    let rates = rates(&sim, WARM_UP, &[first, second]);
    let (first, second) = (rates[0], rates[1]);
    assert!(first + second >= 500, "{first} and {second} Mbit/s");
    assert!(first.max(second) <= first.min(second) * 2, "{first} and {second} Mbit/s");
}

/// `max_reserved` bounds it: what there is is used, and nothing stands still.
#[test]
fn a_small_budget_is_used_up_and_nothing_stops() {
    let mut config = Config::default();
    config.max_recv_message = 256 * 1024;
    config.max_reserved = 1024 * 1024;
    let (sim, channel) = world(GIGABIT, &config);
    let streams: Vec<_> = (0..8).map(|_| download(&sim, channel.clone())).collect();
    let rates = rates(&sim, WARM_UP, &streams);
    assert!(rates.iter().all(|&rate| rate >= 2), "{rates:?}");
}

/// Where the way is narrow, windows do not grow far beyond what it holds: what waits on the way stays little.
#[test]
fn a_narrow_way_is_not_flooded() {
    // 20 Mbit/s over 100 ms hold 250 KB.
    let (sim, channel) = world(GIGABIT / 50, &Config::default());
    let stream = download(&sim, channel.clone());
    let rate = rates(&sim, WARM_UP, &[stream])[0];
    // Whole messages are counted: one more or less in half a second is 2 Mbit/s.
    assert!((15..=24).contains(&rate), "{rate} Mbit/s");
    // A call beside it has to wait for what is on the way.
    let world = sim.world();
    let took = sim.run(super::load::transfer(world, channel, 1)).expect("it ends");
    assert!(took < Duration::from_millis(900), "{took:?}");
}
