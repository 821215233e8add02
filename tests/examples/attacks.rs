//! Prints what becomes of each attack of the catalogue: the table of docs/attacks.md.
//!
//! ```text
//! cargo run --release -p trirpc-tests --example attacks
//! ```

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use trirpc_tests::alloc::Counting;
use trirpc_tests::attacks::catalogue;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How often each attack is played, and for how long at most: the fastest counts, for nothing else ran then.
const PLAYS: usize = 50;
const ENOUGH: Duration = Duration::from_millis(500);

fn main() {
    println!("| id | attack | outcome | octets read | peak, KiB | time, µs | ns an octet |");
    println!("|---|---|---|---|---|---|---|");
    for attack in catalogue() {
        let mut report = attack.play(since_start);
        let begun = Instant::now();
        for _ in 1..PLAYS {
            report.busy = report.busy.min(attack.play(since_start).busy);
            if begun.elapsed() > ENOUGH {
                break;
            }
        }
        let per_octet = report.busy.as_nanos() as f64 / report.octets.max(1) as f64;
        println!(
            "| {} | {} | {} | {} | {} | {} | {per_octet:.1} |",
            attack.ids,
            attack.name,
            report.outcome,
            report.octets,
            (report.peak + 1023) / 1024,
            report.busy.as_micros(),
        );
    }
}

fn since_start() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
