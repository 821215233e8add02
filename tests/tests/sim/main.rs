//! Services under the simulator: networks that delay, cut, stall, end and break, in an order that a seed brings back.
//!
//! `TRIRPC_SIM_CALLS` says how many calls each network carries (3,000 if it is not set), `TRIRPC_SIM_SEED` which world
//! to see again.

mod load;
mod path;

use std::time::Duration;

use load::{Load, Report};
use trirpc_rpc::sim::{Faults, Random, Sim};
use trirpc_rpc::{Config, Router};

const SERVER: &str = "http://server.sim:50051";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

fn calls() -> u64 {
    number("TRIRPC_SIM_CALLS", 3000)
}

/// One world and what became of its calls.
fn simulate(seed: u64, faults: &Faults, calls: u64) -> Report {
    simulate_aging(seed, faults, calls, None)
}

/// One whose server lets connections become this old.
fn simulate_aging(seed: u64, faults: &Faults, calls: u64, age: Option<Duration>) -> Report {
    let sim = Sim::new(seed, faults.clone());
    let load = Load::new(&sim, calls);
    let mut config = config(&mut sim.random());
    if *faults == Faults::rough() {
        // Before it has seen the limit, or while handlers that nobody waits for hold their slots, a client may open
        // more streams than a server takes: those are refused.
        config.max_concurrent_streams = config.max_concurrent_streams.max(100);
    }
    let mut served = config.clone();
    served.max_connection_age = age;
    sim.serve(SERVER, Router::new().add(load.service()), served);
    let channel = sim.channel(SERVER, config).expect("a target");
    let ended = sim.run(load.run(channel.wait_for_ready(true)));
    let report = ended.unwrap_or_else(|stuck| panic!("seed {seed}: {stuck}: {}", load.progress()));
    load.check(seed);
    report
}

/// Limits from ordinary to hardly anything.
fn config(random: &mut Random) -> Config {
    let mut config = Config::default();
    config.initial_stream_window = [5, 100, 16 * 1024, 64 * 1024, 1 << 20][random.below(5)];
    config.initial_connection_window = [64 * 1024, 1 << 20, 8 << 20][random.below(3)];
    config.max_concurrent_streams = [1, 7, 100, 256][random.below(4)];
    config.send_buffer = [1, 1000, 64 * 1024][random.below(3)];
    config.transmit_target = [1000, 16 * 1024, 64 * 1024][random.below(3)];
    config.max_known_heads = [0, 1, 8][random.below(3)];
    config.unary_fast_path = !random.one_in(3);
    config
}

/// The seeds of a test: one that was asked for, or `count` of its own.
fn seeds(first: u64, count: u64) -> Vec<u64> {
    match std::env::var_os("TRIRPC_SIM_SEED") {
        Some(_) => vec![number("TRIRPC_SIM_SEED", 0)],
        None => (first..first + count).collect(),
    }
}

/// h2:P10: where every byte arrives, every call that nobody gives up ends well, once, with the right bytes.
#[test]
fn on_a_rough_network_every_call_ends_well() {
    for seed in seeds(100, 5) {
        let report = simulate(seed, &Faults::rough(), calls() / 5);
        assert_eq!(report.failed, 0, "seed {seed}: {report:?}");
        assert!(report.served > 0 && report.given_up > 0, "seed {seed}: {report:?}");
        assert_eq!(report.connections, 1, "seed {seed}: {report:?}");
    }
}

/// h2:P10, bg:R10: a server that sends its clients away as soon as they have settled loses no call that it has begun, and no
/// unary one; streams that it has not begun are told to be unprocessed, for the application to begin them again.
#[test]
fn connections_that_grow_old_lose_no_calls_that_were_begun() {
    for seed in seeds(150, 5) {
        let report = simulate_aging(seed, &Faults::rough(), calls() / 5, Some(Duration::from_secs(1)));
        assert_eq!(report.failed, report.unprocessed_streams, "seed {seed}: {report:?}");
        assert!(report.served > report.failed && report.connections > 3, "seed {seed}: {report:?}");
    }
}

/// h2:P10, bg:R10: where connections end and break, every call ends, once: with the right bytes, or with an error
/// that says so; no request reaches its handler twice.
#[test]
fn on_a_hostile_network_every_call_ends_once() {
    for seed in seeds(200, 5) {
        let report = simulate(seed, &Faults::hostile(), calls() / 5);
        assert!(report.served > 0, "seed {seed}: {report:?}");
        assert!(report.connections > 1, "seed {seed}: {report:?}");
    }
}

/// h2:P16: a run is its seed: the same calls end the same way at the same instants, and other seeds differ.
#[test]
fn a_seed_brings_a_run_back() {
    let once = simulate(7, &Faults::hostile(), 300);
    assert_eq!(simulate(7, &Faults::hostile(), 300), once);
    assert_ne!(simulate(8, &Faults::hostile(), 300).digest, once.digest);
}

/// A server that goes away in order takes no call with it; one that crashes fails those that it had, and no other.
#[test]
fn a_server_may_go_and_come_back() {
    for seed in seeds(300, 10) {
        let sim = Sim::new(seed, Faults::rough());
        let load = Load::new(&sim, 200);
        sim.serve(SERVER, Router::new().add(load.service()), Config::default());
        let (world, again) = (sim.world(), load.clone());
        sim.spawn(async move {
            for round in 0..4 {
                world.sleep(Duration::from_millis(200)).await;
                if round % 2 == 0 {
                    world.shutdown(SERVER);
                } else {
                    world.crash(SERVER);
                }
                world.sleep(Duration::from_millis(100)).await;
                world.serve(SERVER, Router::new().add(again.service()), Config::default());
            }
        });
        let channel = sim.channel(SERVER, Config::default()).expect("a target");
        let report = sim.run(load.run(channel.wait_for_ready(true))).expect("it comes back");
        load.check(seed);
        assert!(report.connections >= 2, "seed {seed}: {report:?}");
    }
}

/// Bytes a second and a long way: what is configured is what passes.
#[test]
fn a_line_with_a_rate_carries_what_it_says() {
    let mut faults = Faults::none();
    faults.delay = (Duration::from_millis(50), Duration::from_millis(50));
    faults.rate = 1 << 20;
    let sim = Sim::new(1, faults);
    let load = Load::new(&sim, 0);
    sim.serve(SERVER, Router::new().add(load.service()), Config::default());
    let channel = sim.channel(SERVER, Config::default()).expect("a target");
    let took = sim.run(load::transfer(sim.world(), channel, 3 << 20)).expect("it ends");
    let ideal = Duration::from_millis(3000 + 200);
    assert!(took >= ideal && took < ideal * 3, "{took:?}");
}
