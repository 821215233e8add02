//! A counting allocator, whose counters another process can read.
//!
//! A program installs it with `#[global_allocator] static ALLOCATOR: Counting = Counting;`.
#![allow(unsafe_code, reason = "an allocator is unsafe by its nature, and so is memory shared with another process")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::num::NonZero;
use std::ops::Sub;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use nix::sys::mman::{MapFlags, ProtFlags, mmap};

/// The system's allocator, counted for the whole process.
#[derive(Debug)]
pub struct Counting;

/// What was asked of the allocator since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocations {
    /// Calls that asked for memory, growing included.
    pub calls: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes held.
    pub live: u64,
}

/// The layout that readers of the shared file expect.
#[repr(C)]
struct Counters {
    calls: AtomicU64,
    bytes: AtomicU64,
    live: AtomicU64,
}

/// Length of the shared file: one page.
const SHARED: usize = 4096;

static OWN: Counters = Counters { calls: AtomicU64::new(0), bytes: AtomicU64::new(0), live: AtomicU64::new(0) };
static CURRENT: AtomicPtr<Counters> = AtomicPtr::new(ptr::from_ref(&OWN).cast_mut());

fn counters() -> &'static Counters {
    // SAFETY: the pointer is to `OWN` or to a mapping that is never removed; both hold atomics only.
    unsafe { &*CURRENT.load(Ordering::Relaxed) }
}

/// A load and a store, not a locked addition: the programs that are measured run on one thread, and what is counted
/// shall cost next to nothing. With more threads the figure is a lower bound.
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

fn count(grown: usize, shrunk: usize) {
    let counters = counters();
    if grown > 0 {
        bump(&counters.calls, 1);
        bump(&counters.bytes, grown as u64);
    }
    bump(&counters.live, (grown as u64).wrapping_sub(shrunk as u64));
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

impl Allocations {
    /// Those of this process; all zero where [`Counting`] is not installed.
    pub fn now() -> Self {
        let counters = counters();
        Self {
            calls: counters.calls.load(Ordering::Relaxed),
            bytes: counters.bytes.load(Ordering::Relaxed),
            live: counters.live.load(Ordering::Relaxed),
        }
    }

    /// Those of a process that [publishes](publish) them.
    pub fn of(pid: u32) -> Option<Self> {
        let mut words = [0u8; 24];
        File::open(shared_path(pid)).ok()?.read_exact(&mut words).ok()?;
        let word = |at: usize| words[at..at + 8].try_into().map(u64::from_ne_bytes).ok();
        Some(Self { calls: word(0)?, bytes: word(8)?, live: word(16)? })
    }
}

impl Sub for Allocations {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            calls: self.calls.wrapping_sub(earlier.calls),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            live: self.live.wrapping_sub(earlier.live),
        }
    }
}

/// Where a process has its counters, by the convention of the peers' programs.
fn shared_path(pid: u32) -> PathBuf {
    Path::new("/dev/shm").join(format!("bb-alloc-{pid}"))
}

/// Moves the counters of this process to where other processes can read them. Called once, before there are threads.
///
/// # Errors
/// There is no shared memory.
pub fn publish() -> io::Result<()> {
    let path = shared_path(std::process::id());
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
    file.set_len(SHARED as u64)?;
    let length = const { NonZero::new(SHARED).unwrap() };
    // SAFETY: a fresh shared mapping of a file of that length; the kernel chooses the place.
    let mapped =
        unsafe { mmap(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED, &file, 0) };
    let mapped = match mapped {
        Ok(mapped) => mapped.cast::<Counters>(),
        Err(error) => {
            fs::remove_file(&path)?;
            return Err(error.into());
        }
    };
    // SAFETY: the page is mapped for as long as the process lives, aligned, and zeros are valid counters.
    let shared = unsafe { mapped.as_ref() };
    let now = Allocations::now();
    shared.calls.store(now.calls, Ordering::Relaxed);
    shared.bytes.store(now.bytes, Ordering::Relaxed);
    shared.live.store(now.live, Ordering::Relaxed);
    CURRENT.store(mapped.as_ptr(), Ordering::Relaxed);
    Ok(())
}
