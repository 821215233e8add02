//! Buffers: bytes come in through [`RecvBuf`], go out through [`Transmit`], and are never copied between.
//!
//! Both belong to the driver, so it reads and writes without holding any lock. Ownership of memory is a
//! `Bytes` handle: a buffer is reused only when `try_reclaim` or `try_into_mut` proves that nobody else
//! holds a slice of it, so an early or a double return cannot be expressed.

mod arena;
mod burst;
mod coalesce;
mod encode_buf;
mod message;
mod pool;
mod recv;
mod rope;
mod run;
mod scatter;
mod tails;
mod transmit;

pub(crate) use arena::Arena;
pub use burst::Burst;
pub(crate) use burst::Terms;
pub use coalesce::{CoalesceBuf, FlushPolicy};
pub use encode_buf::EncodeBuf;
pub(crate) use message::detach;
pub use message::{Contiguous, Encoded, MessageBuf};
pub use pool::BufferPool;
pub(crate) use pool::Landing;
pub use recv::RecvBuf;
pub use rope::Piece;
pub use run::Run;
pub use scatter::Spaces;
pub(crate) use scatter::{GAP, LentMemory, Scatter};
pub(crate) use tails::Tails;
pub use transmit::Transmit;

/// Slices below this size are copied instead of shared: a copy of it costs nanoseconds, a shared slice
/// pins the window it lies in.
pub(crate) const SHARE_FROM: usize = 1024;

/// Pieces below this size are copied when they have to wait for the rest of their message: a peer that
/// spreads a little over each window would otherwise pin them all. Larger ones are copied later, if they wait for
/// longer: see `Config::max_lent_input`.
pub(crate) const WAIT_FROM: usize = 8 * 1024;

/// Most elements that a vector or a queue has room for that held at most `n`, one after the other.
pub(crate) const fn capacity(n: usize) -> usize {
    match n {
        0 => 0,
        n => match n.checked_next_power_of_two() {
            Some(capacity) if capacity < 4 => 4,
            Some(capacity) => capacity,
            None => usize::MAX,
        },
    }
}

#[cfg(test)]
mod tests;
