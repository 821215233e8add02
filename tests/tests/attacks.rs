//! Every attack of the catalogue comes to the end that it should, within the memory that it may take; and honest peers
//! that do nearly the same are served. The example `attacks` prints the same as a table.

use std::time::Duration;

use trirpc_core::{Config, Connection, HttpVersion, Instant, Server};
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::attacks::catalogue;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// `h2:A1`–`h2:A47`, `h2:A51`, `h2:B86`, `h2:E5`, `h2:P3`: outcome and memory, and that nothing is left when the
/// connection is dropped.
#[test]
fn every_attack_ends_as_it_should_and_within_its_memory() {
    let mut wrong = Vec::new();
    for attack in catalogue() {
        let report = attack.play(|| Duration::ZERO);
        let name = format!("{} {}", attack.ids, attack.name);
        if report.outcome != attack.outcome {
            wrong.push(format!("{name}: {}, not {}", report.outcome, attack.outcome));
        }
        if report.peak > attack.peak_kib as i64 * 1024 {
            wrong.push(format!("{name}: {} KiB at the peak, not {}", report.peak / 1024, attack.peak_kib));
        }
        if report.left != 0 {
            wrong.push(format!("{name}: {} bytes are left", report.left));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// `h2:E5`, `h2:P3`: with the limits of the small profiles, too, no attack makes a connection hold more than
/// [`Config::memory_bound`] says.
#[test]
fn no_attack_exceeds_the_bound_of_small_profiles() {
    let mut wrong = Vec::new();
    let profiles = [("embedded", Config::embedded()), ("many connections", Config::server_many_connections())];
    for (profile, config) in profiles {
        let bound = config.memory_bound();
        for mut attack in catalogue().into_iter().filter(|attack| attack.config == Config::default()) {
            attack.config = config.clone();
            let report = attack.play(|| Duration::ZERO);
            if report.peak > bound as i64 {
                wrong.push(format!("{profile}: {} {}: {} of {bound}", attack.ids, attack.name, report.peak));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// `h2:A50`: a connection that is opened and left costs its state and its greeting; tables come with the first use.
#[test]
fn a_new_connection_allocates_next_to_nothing() {
    let config = std::sync::Arc::new(Config::default());
    let (conn, cost) =
        measure(|| Connection::<Server>::new(config, Some(HttpVersion::Http2), Instant::ZERO + Duration::from_secs(1)));
    assert!(cost.peak <= 1024, "{cost:?}");
    drop(conn);
}
