//! The most memory that a connection holds, whatever its peer does: a sum over its limits.

use super::calls::Calls;
use super::server::RESPONSE_KINDS;
use super::{Client, Connection, Server};
use crate::buf::{BufferPool, RecvBuf};
use crate::call::{Accepted, BodyDecoder, ClientCall, Reply, ServerCall, Status};
use crate::config::Config;
use crate::event::CallId;
use crate::http2::{Side, memory};
use crate::time::DeadlineQueue;

/// The most memory that one connection of trirpc-core holds, in bytes, by what it is held for.
///
/// It is what the allocator is asked for, whatever the peer sends and however it splits it; an allocator adds its own to
/// each piece. With *S* for [`max_concurrent_streams`](Config::max_concurrent_streams):
///
/// | term | worst case | chiefly set by |
/// |---|---|---|
/// | `connection` | the struct itself | |
/// | `input` | the window that is read into, the one before it, and those that messages wait in | `max_read`, `max_lent_input` |
/// | `tables` | HPACK's two tables; one header block, gathered and decoded | `header_table`, `max_header_list` |
/// | `streams` | *S* slots of streams and calls, with their places in queues, and closed ids | *S*, `max_closed_streams`, `max_pending` |
/// | `heads` | (*S* + 1) × a list of `max_header_list` and `max_headers`; a client's calls have two | *S*, `max_header_list`, `max_headers` |
/// | `messages` | 2 × (*S* × `initial_stream_window` + `max_reserved`) | these |
/// | `sending` | *S* × 2 × `send_buffer` | *S*, `send_buffer` |
/// | `output` | 2 × `transmit_target`, and what `max_control_queue` allows | these |
/// | `kept` | memory that serves again: pool, output's chunks, heads that repeat | `pool_bytes`, `transmit_target`, `max_known_heads` |
///
/// The factors of 2 are what growing buffers and reused ones may have to spare; a connection that reaches one of the terms
/// seldom reaches the others. With a limit that is unlimited, so is the sum: `usize::MAX`.
///
/// **What is not in it.** What the application owns: messages that it received, until it drops them, and the window or
/// buffer that each lies in; a message that it sends and that is larger than `send_buffer`; metadata that it sends. A
/// client's calls beyond *S* at once, for the application opens them, and the server allows them. Memory of large messages
/// that the application dropped is given back, down to `pool_bytes`, with the next message, or by
/// [`Connection::trim`](crate::Connection::trim). Drivers, tasks and handlers of the layers above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryBound {
    /// The struct itself.
    pub connection: usize,
    /// Receive windows.
    pub input: usize,
    /// HPACK's tables, and the block at hand.
    pub tables: usize,
    /// Slots of streams and calls.
    pub streams: usize,
    /// Header lists of calls that were not released.
    pub heads: usize,
    /// Messages that were received, whole or in part, and not taken.
    pub messages: usize,
    /// Messages that were sent, and wait for the peer's windows.
    pub sending: usize,
    /// Frames that the transport has not taken.
    pub output: usize,
    /// What is kept for the next calls, and given back by
    /// [`release_idle`](crate::Connection::release_idle).
    pub kept: usize,
}

impl MemoryBound {
    /// The bound of a connection of `side` with the limits of `config`.
    pub fn new(side: Side, config: &Config) -> Self {
        let streams = config.max_concurrent_streams as usize;
        let list = memory::list(config, config.max_header_list as usize);
        let (connection, lists, call, calls, alone) = match side {
            Side::Server => (size_of::<Connection<Server>>(), 1, size_of::<Accepted>(), streams, 0),
            Side::Client => {
                let call = size_of::<Reply>() + size_of::<Status>();
                // Those that wait for a stream, and those whose head waits for the transport.
                let calls = streams.saturating_add(config.max_pending.saturating_mul(2));
                // The one message that is received whatever is reserved, with its prefix and an octet for its end.
                let message = config.max_recv_message.saturating_add(6);
                let alone = message.saturating_sub(config.initial_stream_window as usize);
                (size_of::<Connection<Client>>(), 2, call, calls, alone)
            }
        };
        let (slots, templates) = match side {
            Side::Server => {
                (Calls::<ServerCall>::max_bytes(calls), 1 + config.max_known_heads.clamp(1, RESPONSE_KINDS))
            }
            // Those of plans, and those that calls have waited with.
            Side::Client => (Calls::<ClientCall>::max_bytes(calls), config.max_known_heads.max(1).saturating_mul(2)),
        };
        // Deadlines of at most twice as many calls as there are, the queue of events, and the backlog.
        let queued = 4 * DeadlineQueue::<CallId>::ENTRY + 4 * size_of::<CallId>();
        let known = memory::list(config, memory::MAX_KNOWN_LIST.min(config.max_header_list as usize));
        let known = config.max_known_heads.saturating_mul(known.saturating_mul(2).saturating_add(call));
        Self {
            connection,
            input: RecvBuf::max_bytes(config),
            tables: memory::tables(config),
            streams: memory::streams(config, calls)
                .saturating_add(slots)
                .saturating_add(calls.saturating_mul(queued + BodyDecoder::MAX_BOXED)),
            heads: streams.saturating_mul(list.saturating_mul(lists).saturating_add(call)).saturating_add(list),
            messages: messages(config, alone),
            sending: streams.saturating_mul(memory::sending(config)),
            output: memory::output(config, calls),
            kept: memory::kept(config)
                .saturating_add(known)
                .saturating_add(memory::templates(templates))
                .saturating_add(BufferPool::max_bytes(config.pool_bytes)),
        }
    }

    /// All of it.
    pub fn total(&self) -> usize {
        let Self { connection, input, tables, streams, heads, messages, sending, output, kept } = *self;
        [connection, input, tables, streams, heads, messages, sending, output, kept]
            .into_iter()
            .fold(0, usize::saturating_add)
    }
}

impl Config {
    /// The most memory that a connection of either side holds, in bytes: the larger [`MemoryBound`].
    ///
    /// ```
    /// use trirpc_core::Config;
    ///
    /// assert!(Config::embedded().memory_bound() <= 64 * 1024);
    /// ```
    pub fn memory_bound(&self) -> usize {
        let total = |side| MemoryBound::new(side, self).total();
        total(Side::Server).max(total(Side::Client))
    }
}

/// What a message is put together with, and what waits behind it, without octets, in bytes.
const PARTS: usize = 512;

/// What may have arrived and not been taken; `alone` is what is received beyond reservations. A buffer that is used again
/// may have twice the size, and so may one that has grown, or is growing.
fn messages(config: &Config, alone: usize) -> usize {
    let streams = config.max_concurrent_streams as usize;
    let windows = (config.initial_stream_window as usize).max(BufferPool::MIN_BUFFER).saturating_mul(2);
    let windows = windows.saturating_add(PARTS);
    let raised = config.max_reserved.saturating_add(alone).saturating_mul(2);
    streams.saturating_mul(windows).saturating_add(raised)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(side: Side, config: &Config) -> usize {
        MemoryBound::new(side, config).total()
    }

    /// `h2:P3`: what the profiles promise.
    #[test]
    fn profiles_are_within_what_they_are_for() {
        let (small, many, usual) = (Config::embedded(), Config::server_many_connections(), Config::default());
        assert!(small.memory_bound() <= 64 * 1024, "{:?}", MemoryBound::new(Side::Client, &small));
        // As `config/tuning.md` has them; where pointers are shorter, they are less.
        let is_wide = cfg!(target_pointer_width = "64");
        for (config, kib) in [(usual, 140 << 10), (many, 18 << 10), (small, 60)] {
            let total = total(Side::Server, &config) / 1024;
            let least = if is_wide { kib * 9 / 10 } else { 0 };
            assert!((least..=kib * 11 / 10).contains(&total), "{total} KiB");
        }
    }

    /// Every limit that a peer can use up makes the bound larger, and an unlimited one has no bound.
    #[test]
    fn the_bound_rises_with_each_limit() {
        type Raise = fn(&mut Config);
        let raise: [(&str, Raise); 16] = [
            ("max_concurrent_streams", |config| config.max_concurrent_streams *= 2),
            ("initial_stream_window", |config| config.initial_stream_window *= 2),
            ("max_header_list", |config| config.max_header_list *= 2),
            ("max_send_header_list", |config| config.max_send_header_list *= 2),
            ("max_headers", |config| config.max_headers *= 2),
            ("max_known_heads", |config| config.max_known_heads *= 2),
            ("header_table", |config| config.header_table *= 2),
            ("max_read", |config| config.max_read *= 2),
            ("max_lent_input", |config| config.max_lent_input *= 2),
            ("max_reserved", |config| config.max_reserved *= 2),
            ("transmit_target", |config| config.transmit_target *= 2),
            ("send_buffer", |config| config.send_buffer *= 2),
            ("pool_bytes", |config| config.pool_bytes *= 2),
            ("max_pending", |config| config.max_pending *= 2),
            ("max_control_queue", |config| config.max_control_queue *= 2),
            ("max_closed_streams", |config| config.max_closed_streams *= 2),
        ];
        for (name, raise) in raise {
            let mut config = Config::default();
            let before = config.memory_bound();
            raise(&mut config);
            assert!(config.memory_bound() > before, "{name}");
        }
        let unlimited = Config { max_reserved: usize::MAX, ..Config::default() };
        assert_eq!(unlimited.memory_bound(), usize::MAX);
    }
}
