//! Prints what becomes of each attack of the catalogue: the table of docs/attacks.md.
//!
//! ```text
//! cargo run --release -p trirpc-tests --example attacks
//! ```

use std::time::Duration;

use trirpc_tests::alloc::Counting;
use trirpc_tests::attacks::catalogue;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    println!("| id | attack | outcome | octets read | peak, KiB | ns an octet |");
    println!("|---|---|---|---|---|---|");
    for attack in catalogue() {
        let report = attack.play(cpu_time);
        let per_octet = report.busy.as_nanos() as f64 / report.octets.max(1) as f64;
        println!(
            "| {} | {} | {} | {} | {} | {per_octet:.1} |",
            attack.ids,
            attack.name,
            report.outcome,
            report.octets,
            (report.peak + 1023) / 1024,
        );
    }
}

/// What this thread has computed so far (Linux; elsewhere nothing is measured).
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}
