//! Configurations for a purpose.

use super::Config;

impl Config {
    /// Limits of a server with thousands of connections, most of which are silent: a seventh of the default's
    /// [worst case](Self::memory_bound), and an idle connection that holds less than 6 KiB.
    ///
    /// A connection has 64 calls at once and, beyond a window of 32 KiB each, one message of 4 MiB at a time.
    pub fn server_many_connections() -> Self {
        Self {
            max_concurrent_streams: 64,
            initial_stream_window: 32 * 1024,
            initial_connection_window: 256 * 1024,
            max_header_list: 8 * 1024,
            max_headers: 64,
            max_known_heads: 4,
            header_table: 2 * 1024,
            max_read: 64 * 1024,
            max_lent_input: 256 * 1024,
            max_reserved: 4 * 1024 * 1024,
            // There is nothing to grow by beside a message.
            adaptive_window: false,
            transmit_target: 64 * 1024,
            send_buffer: 16 * 1024,
            pool_bytes: 1024 * 1024,
            max_control_queue: 256,
            max_closed_streams: 64,
            ..Self::default()
        }
    }

    /// Small limits, for devices with tens of kilobytes of memory: one call at a time, with messages of 4 KiB, within
    /// [64 KiB](Self::memory_bound) on either side.
    ///
    /// The peer must be content with heads of 768 bytes by HTTP's count, which is what gRPC needs and some metadata.
    pub fn embedded() -> Self {
        Self {
            max_concurrent_streams: 1,
            // A message with its prefix, and an octet for its end.
            initial_stream_window: 4 * 1024 + 128,
            initial_connection_window: 64 * 1024 - 1,
            max_header_list: 768,
            max_send_header_list: 768,
            max_headers: 16,
            max_known_heads: 0,
            header_table: 0,
            max_recv_message: 4 * 1024,
            recv_ahead: 0,
            max_read: 2 * 1024,
            max_lent_input: 2 * 1024,
            max_reserved: 0,
            adaptive_window: false,
            transmit_target: 1024,
            send_buffer: 1024,
            pool_bytes: 0,
            max_pending: 1,
            max_control_queue: 8,
            max_closed_streams: 16,
            max_refused_streams: 16,
            ..Self::default()
        }
    }
}
