//! What calls of different kinds cost beside each other, by what can be counted without a profiler. The gates compare
//! their instructions.

use std::path::Path;

use trirpc_bench::gates::{CELLS, Cell, GROWTH, Side, Work};

/// The cell in a process of its own, whose allocator counts.
fn run(cell: &Cell) -> [Work; 2] {
    cell.run_by(Path::new(env!("CARGO_BIN_EXE_trirpc-bench"))).expect(cell.name)
}

/// Whether a figure is no more than another, but for the moment at which some buffer grows: nothing that a call in a
/// hundred does is a cost of each.
fn no_more(one: u64, other: u64) -> bool {
    one <= other + other / 100
}

/// bg:R11: with and without gzip, at 128 B, 1 KiB, 16 KiB and 2 MiB, gRPC and Triple, a call by the fast path
/// allocates no more often and no more bytes than one by the general path, and makes no more writes of no more bytes.
#[test]
fn the_fast_path_never_allocates_or_writes_more() {
    let mut quadrants = 0;
    for general in CELLS {
        let Some(fast) = general.fast_twin().and_then(Cell::named) else { continue };
        let [by_fast, by_general] = [fast, *general].map(|cell| run(&cell));
        for (side, (fast, general_way)) in Side::BOTH.into_iter().zip(by_fast.iter().zip(&by_general)) {
            let name = format!("{}, {}", general.name, side.name());
            assert!(no_more(fast.allocations, general_way.allocations), "{name}: {fast:?}, {general_way:?}");
            assert!(no_more(fast.allocated, general_way.allocated), "{name}: {fast:?}, {general_way:?}");
            assert!(no_more(fast.writes, general_way.writes), "{name}: {fast:?}, {general_way:?}");
            assert_eq!(fast.written, general_way.written, "{name}: the same octets");
            assert!(fast.writes > 0 && general_way.allocations > 0, "{name}: something was counted");
        }
        quadrants += 1;
    }
    assert!(quadrants >= 8, "gzip and identity at four sizes");
}

/// bg:B4: beside 1 open stream and beside 1,000, a call costs the same.
#[test]
fn a_call_allocates_and_writes_the_same_however_many_streams_are_open() {
    let alone = run(&GROWTH[0]);
    for cell in &GROWTH[1..3] {
        for (side, (now, then)) in Side::BOTH.into_iter().zip(run(cell).iter().zip(&alone)) {
            let name = format!("{}, {}", cell.name, side.name());
            assert_eq!((now.writes, now.written), (then.writes, then.written), "{name}");
            assert!(no_more(now.allocations, then.allocations), "{name}: {now:?}, {then:?}");
            assert!(no_more(now.allocated, then.allocated), "{name}: {now:?}, {then:?}");
        }
    }
}
