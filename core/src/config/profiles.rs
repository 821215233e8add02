//! Configurations for a purpose.

use super::Config;

impl Config {
    /// Small limits for devices with tens of kilobytes of memory.
    pub fn embedded() -> Self {
        Self {
            max_concurrent_streams: 4,
            initial_stream_window: 4 * 1024,
            initial_connection_window: 64 * 1024 - 1,
            max_header_list: 2 * 1024,
            max_send_header_list: 2 * 1024,
            max_headers: 32,
            max_known_heads: 2,
            header_table: 512,
            max_recv_message: 4 * 1024,
            recv_ahead: 0,
            max_reserved: 8 * 1024,
            transmit_target: 2 * 1024,
            send_buffer: 4 * 1024,
            copy_below: 512,
            pool_bytes: 0,
            max_pending: 4,
            max_control_queue: 64,
            max_closed_streams: 16,
            max_refused_streams: 16,
            ..Self::default()
        }
    }
}
