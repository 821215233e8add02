//! What a connection holds, counted at the allocator.
//!
//! An [`Account`] is charged with what is allocated while the connection works, and credited when that is freed, whoever
//! frees it: each piece of memory knows for whom it was asked for. Only where [`ByOwner`] is the allocator of the program.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::mem::size_of;

use trirpc_core::{Config, MemoryBound, Side};

/// The system's allocator, with the owner of each piece in front of it.
pub struct ByOwner;

/// Accounts of one thread at a time.
const ACCOUNTS: usize = 4;

/// What the counting itself may add: lists of the application that grow in the connection's name.
const SLACK: usize = 1024;

#[derive(Clone, Copy)]
struct Balance {
    /// Whose it is: pieces of an earlier owner in the same place do not count.
    owner: u64,
    held: i64,
    peak: i64,
}

thread_local! {
    static BALANCES: [Cell<Balance>; ACCOUNTS] =
        const { [const { Cell::new(Balance { owner: 0, held: 0, peak: 0 }) }; ACCOUNTS] };
    static OWNERS: Cell<u64> = const { Cell::new(0) };
    /// Who allocates now; 0 is nobody.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The memory of one connection, on one thread. The fourth that is opened after it takes its place.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    owner: u64,
    is_counted: bool,
}

impl Account {
    /// A new one.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let owner = OWNERS.get() + 1;
        OWNERS.set(owner);
        BALANCES.with(|balances| balance(balances, owner).set(Balance { owner, held: 0, peak: 0 }));
        let mut account = Self { owner, is_counted: true };
        let probe = account.charge(|| std::hint::black_box(Box::new(0u64)));
        account.is_counted = account.peak() == size_of::<u64>();
        drop(probe);
        account
    }

    /// Does `work` at the expense of this account.
    pub fn charge<T>(&self, work: impl FnOnce() -> T) -> T {
        let _previous = Restored(CURRENT.replace(self.owner));
        work()
    }

    /// Most bytes that were held at once.
    pub fn peak(&self) -> usize {
        usize::try_from(self.balance().peak).unwrap_or(0)
    }

    /// Bytes that are held.
    pub fn held(&self) -> usize {
        usize::try_from(self.balance().held).unwrap_or(0)
    }

    fn balance(&self) -> Balance {
        BALANCES.with(|balances| balance(balances, self.owner).get())
    }

    /// Whether the allocator of this program counts.
    pub fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// `h2:P3`: the connection has held no more than its limits add up to. A client's `calls` are the application's: it
    /// opened them all.
    #[track_caller]
    pub fn assert_within(&self, side: Side, config: &Config, calls: usize) {
        if !self.is_counted {
            return;
        }
        let mut config = config.clone();
        if side == Side::Client {
            let calls = u32::try_from(calls).unwrap_or(u32::MAX);
            config.max_concurrent_streams = config.max_concurrent_streams.max(calls);
        }
        let bound = MemoryBound::new(side, &config);
        // The struct itself is not on the heap here.
        let most = bound.total().saturating_sub(bound.connection).saturating_add(SLACK);
        assert!(self.peak() <= most, "{} bytes were held, and {most} is all there may be: {bound:?}", self.peak());
    }
}

/// Does `work` of the application's within that of a connection, at nobody's expense.
pub fn uncharged<T>(work: impl FnOnce() -> T) -> T {
    let _previous = Restored(CURRENT.replace(0));
    work()
}

/// Who allocated before, and does again, also behind a panic.
struct Restored(u64);

impl Drop for Restored {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

fn balance(balances: &[Cell<Balance>; ACCOUNTS], owner: u64) -> &Cell<Balance> {
    &balances[(owner % ACCOUNTS as u64) as usize]
}

fn count(owner: u64, grown: usize, shrunk: usize) {
    if owner == 0 {
        return;
    }
    // A thread that is being torn down counts nothing any more.
    let _ = BALANCES.try_with(|balances| {
        let cell = balance(balances, owner);
        let mut balance = cell.get();
        if balance.owner == owner {
            balance.held += grown as i64 - shrunk as i64;
            balance.peak = balance.peak.max(balance.held);
            cell.set(balance);
        }
    });
}

/// Octets in front of a piece of this alignment: its owner, in the last eight of them.
fn front(align: usize) -> usize {
    align.max(2 * size_of::<u64>())
}

/// The layout with the owner in front.
fn with_owner(layout: Layout) -> Option<Layout> {
    let front = front(layout.align());
    Layout::from_size_align(layout.size().checked_add(front)?, front).ok()
}

// SAFETY: every piece is one of the system's allocator, which is larger by `front` octets and as well aligned; what is handed
// out begins behind these, and is handed back to the system's allocator from its beginning on. The counting beside it
// neither allocates nor touches the memory.
#[expect(unsafe_code, reason = "an allocator is")]
unsafe impl GlobalAlloc for ByOwner {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(whole) = with_owner(layout) else { return std::ptr::null_mut() };
        // SAFETY: the size is not zero, for there is the front.
        let base = unsafe { System.alloc(whole) };
        if base.is_null() {
            return base;
        }
        let owner = CURRENT.try_with(Cell::get).unwrap_or(0);
        count(owner, layout.size(), 0);
        // SAFETY: the front lies in the piece, is aligned to sixteen octets at least and has as many.
        unsafe {
            let memory = base.add(front(layout.align()));
            memory.cast::<u64>().sub(1).write(owner);
            memory
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        let front = front(layout.align());
        // SAFETY: `alloc` has put the owner in front of it.
        count(unsafe { memory.cast::<u64>().sub(1).read() }, 0, layout.size());
        if let Some(whole) = with_owner(layout) {
            // SAFETY: that is the piece which the system's allocator gave.
            unsafe { System.dealloc(memory.sub(front), whole) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let front = front(layout.align());
        let (Some(whole), Some(larger)) = (with_owner(layout), size.checked_add(front)) else {
            return std::ptr::null_mut();
        };
        // SAFETY: `alloc` has put the owner in front of it.
        let owner = unsafe { memory.cast::<u64>().sub(1).read() };
        // SAFETY: that is the piece which the system's allocator gave; the caller has looked at the size.
        let base = unsafe { System.realloc(memory.sub(front), whole, larger) };
        if base.is_null() {
            return base;
        }
        count(owner, size, layout.size());
        // SAFETY: the front lies in the piece.
        unsafe { base.add(front) }
    }
}
