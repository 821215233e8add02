//! A global allocator that counts, per thread, so that tests may run at the same time.
//!
//! A test binary installs it with `#[global_allocator] static ALLOCATOR: Counting = Counting;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, counted.
pub struct Counting;

/// What one piece of work asked of the allocator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls that asked for memory, growing included.
    pub allocations: u64,
    /// Bytes asked for.
    pub allocated: u64,
    /// Most bytes held at once beyond those held at the start.
    pub peak: i64,
    /// Bytes still held at the end beyond those held at the start.
    pub held: i64,
}

thread_local! {
    static COST: Cell<Cost> = const { Cell::new(Cost { allocations: 0, allocated: 0, peak: 0, held: 0 }) };
}

/// Runs `work` and says what it cost this thread.
///
/// # Panics
/// If [`Counting`] is not the allocator of this program: then nothing would be counted.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    reset();
    drop(std::hint::black_box(Box::new(1u8)));
    assert_eq!(COST.get().allocations, 1, "the counting allocator is not installed");
    reset();
    let result = work();
    let cost = COST.get();
    (result, cost)
}

fn reset() {
    COST.set(Cost::default());
}

fn count(grown: usize, shrunk: usize) {
    // A thread that is being torn down has no cell any more, and nothing to count.
    let _ = COST.try_with(|cell| {
        let mut cost = cell.get();
        if grown > 0 {
            cost.allocations += 1;
            cost.allocated += grown as u64;
        }
        cost.held += grown as i64 - shrunk as i64;
        cost.peak = cost.peak.max(cost.held);
        cell.set(cost);
    });
}

// SAFETY: every method hands its arguments to the system's allocator unchanged and returns what that returned; the
// counting beside it neither allocates nor touches the memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
