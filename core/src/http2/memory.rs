//! Most memory that the parts of the engine hold, by the limits of a configuration.

use bytes::Bytes;

use super::connection::{Incoming, MAX_CHUNK, MAX_TAILS};
use super::frame::HEADER_LEN;
use super::memo::Memo;
use super::settings::MAX_DATA;
use super::store::{Store, StreamKey};
use super::{block, template};
use crate::buf::{Arena, CoalesceBuf, capacity};
use crate::config::Config;
use crate::hpack::{Decoder, Encoder};
use crate::http::Field;
use crate::time::DeadlineQueue;

pub(crate) use super::memo::MAX_LIST as MAX_KNOWN_LIST;

/// Longest control frame, and the handle of the group that it is counted in, in bytes: GOAWAY with its text, or an answer
/// of HTTP's own.
const CONTROL_FRAME: usize = 64;

/// HPACK's tables of both directions, what of a list is being decoded, and a header block that is being gathered.
pub(crate) fn tables(config: &Config) -> usize {
    let block = block::max_encoded(config);
    Decoder::max_bytes(config.header_table, block)
        .saturating_add(Encoder::max_bytes(config.header_table))
        .saturating_add(block)
}

/// A received list of `bytes` by HTTP's count.
pub(crate) fn list(config: &Config, bytes: usize) -> usize {
    let fields = capacity(config.max_headers.min(bytes / Field::OVERHEAD).max(8));
    Decoder::max_strings(bytes, config.header_table).saturating_add(fields.saturating_mul(size_of::<Field>()))
}

/// `streams` at once, without what was received for them and what they have to send; and what is remembered of others.
pub(crate) fn streams(config: &Config, streams: usize) -> usize {
    // Four queues, the updates, and two timers of at most twice as many entries; of events, one a stream.
    let key = 5 * size_of::<StreamKey>() + 4 * DeadlineQueue::<StreamKey>::ENTRY + size_of::<Incoming>();
    Store::max_bytes(streams, config.max_closed_streams).saturating_add(capacity(streams).saturating_mul(key))
}

/// What one stream has to send: its buffer, which memory for small messages may fill by half, and the next of it.
pub(crate) fn sending(config: &Config) -> usize {
    let tail = CoalesceBuf::MAX_TAIL.min(config.send_buffer);
    config.send_buffer.saturating_mul(2).saturating_add(tail + size_of::<CoalesceBuf>())
}

/// Output that the transport has not taken: the target and one turn more, in chunks that may be half full; two chunks that
/// are kept, and the present one; and what is owed by then.
pub(crate) fn output(config: &Config, streams: usize) -> usize {
    let chunk = config.transmit_target.min(MAX_CHUNK);
    let block = (config.max_send_header_list as usize).saturating_add(HEADER_LEN);
    let written = config.transmit_target.saturating_add(block.saturating_mul(2));
    let data = MAX_DATA.min(config.send_buffer);
    let owed = config.max_control_queue.saturating_add(2 * streams).saturating_mul(CONTROL_FRAME);
    // A chained payload and what lies in front of it, each with a handle in the arena and one in `Transmit`.
    let handles = capacity(2 * (written / config.copy_below.max(1) + 1)).saturating_mul(2 * size_of::<Bytes>());
    [written, written, data, (Arena::KEPT_CHUNKS + 1).saturating_mul(chunk), handles, owed]
        .into_iter()
        .fold(0, usize::saturating_add)
}

/// What is kept for the next streams: memory for small messages, heads that may come again (the lists left out), and
/// beginnings of heads that go.
pub(crate) fn kept(config: &Config) -> usize {
    let tails = config.transmit_target.saturating_mul(2).min(MAX_TAILS);
    tails.saturating_add(Memo::max_bytes(config.max_known_heads))
}

/// Beginnings of `n` heads that are sent again and again; the fields are the application's.
pub(crate) fn templates(n: usize) -> usize {
    n.saturating_mul(template::MAX_BYTES)
}
