//! What calls of different kinds cost beside each other, by what can be counted without a profiler. The gates compare
//! their instructions.
//!
//! One test function: the allocator is counted, and another test's thread would be counted with it.

use trirpc_bench::gates::{CELLS, Cell, GROWTH, Side};
use trirpc_meter::allocations::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn calls_cost_no_more_than_they_have_to() {
    the_fast_path_never_allocates_or_writes_more();
    a_call_allocates_and_writes_the_same_however_many_streams_are_open();
}

/// bg:R11: with and without gzip, at 128 B, 1 KiB, 16 KiB and 2 MiB, gRPC and Triple, a call by the fast path
/// allocates no more often and no more bytes than one by the general path, and makes no more writes of no more bytes.
fn the_fast_path_never_allocates_or_writes_more() {
    let mut quadrants = 0;
    for general in CELLS {
        let Some(fast) = general.fast_twin().and_then(Cell::named) else { continue };
        let [by_fast, by_general] = [fast, *general].map(|cell| cell.run().expect(cell.name));
        for (side, (fast, general_way)) in Side::BOTH.into_iter().zip(by_fast.iter().zip(&by_general)) {
            let name = format!("{}, {}", general.name, side.name());
            assert!(fast.allocations <= general_way.allocations, "{name}: {fast:?}, {general_way:?}");
            assert!(fast.allocated <= general_way.allocated, "{name}: {fast:?}, {general_way:?}");
            assert!(fast.writes <= general_way.writes, "{name}: {fast:?}, {general_way:?}");
            assert_eq!(fast.written, general_way.written, "{name}: the same octets");
            assert!(fast.writes > 0 && general_way.allocations > 0, "{name}: something was counted");
        }
        quadrants += 1;
    }
    assert!(quadrants >= 8, "gzip and identity at four sizes");
}

/// bg:B4: beside 1 open stream and beside 1,000, a call costs the same.
fn a_call_allocates_and_writes_the_same_however_many_streams_are_open() {
    let alone = GROWTH[0].run().expect(GROWTH[0].name);
    for cell in &GROWTH[1..3] {
        let work = cell.run().expect(cell.name);
        for (side, (now, then)) in Side::BOTH.into_iter().zip(work.iter().zip(&alone)) {
            let name = format!("{}, {}", cell.name, side.name());
            assert_eq!((now.writes, now.written), (then.writes, then.written), "{name}");
            assert!(now.allocations <= then.allocations, "{name}: {now:?}, {then:?}");
            assert!(now.allocated <= then.allocated, "{name}: {now:?}, {then:?}");
        }
    }
}
