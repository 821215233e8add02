//! Limits and switches of one connection: every bound of the core is a field here.

mod profiles;
mod text;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

pub use text::ConfigError;
use text::{Reason, Setting};

use crate::encodings::Encodings;

macro_rules! config {
    (
        text { $($(#[$doc:meta])* $field:ident / $text:literal: $kind:ty = $default:expr;)* }
        code { $($(#[$code_doc:meta])* $code:ident: $code_kind:ty;)* }
    ) => {
        #[doc = include_str!("config/tuning.md")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[$doc])* pub $field: $kind,)*
            $($(#[$code_doc])* pub $code: $code_kind,)*
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)* $($code: <$code_kind>::default(),)* }
            }
        }

        impl Config {
            /// Sets the field called `name` from its text form.
            ///
            /// # Errors
            /// An unknown name, or a value of the wrong type; the error says what is accepted.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), ConfigError> {
                match name {
                    $($text => match <$kind as Setting>::parse(value) {
                        Some(parsed) => {
                            self.$field = parsed;
                            Ok(())
                        }
                        None => Err(ConfigError {
                            name: $text.to_string(),
                            reason: Reason::Value {
                                value: value.to_string(),
                                accepts: <$kind as Setting>::ACCEPTS,
                            },
                        }),
                    },)*
                    _ => Err(ConfigError { name: name.to_string(), reason: Reason::Name }),
                }
            }

            /// Every field that has a text form; feeding the pairs to [`set`](Self::set) gives the same
            /// configuration. What needs code to go with it, such as a compression, has none.
            pub fn pairs(&self) -> Vec<(&'static str, String)> {
                alloc::vec![$(($text, self.$field.write()),)*]
            }
        }

        const NAMES: &[&str] = &[$($text),*];
    };
}

config! {
    text {
        /// Streams the peer may have open at once (server: SETTINGS_MAX_CONCURRENT_STREAMS); one more is refused with
        /// REFUSED_STREAM, and clients wait. A stream counts until its handler is done, reset or not. On a client, which
        /// opens its streams itself, it is the number of calls that [`memory_bound`](Self::memory_bound) is for.
        /// Protects handlers, and multiplies `heads`, `messages`, `sending` and `streams`. Raise it where calls wait while
        /// the server is idle. Default 256.
        max_concurrent_streams / "max-concurrent-streams": u32 = 256;
        /// Receive window of each stream, in bytes; 5 (the prefix of a message) to 2^31−1. What the peer may send before
        /// the application takes something; beyond it the connection ends with FLOW_CONTROL_ERROR. Protects `messages`,
        /// twice its size for each stream. Raise it where a stream should carry more in a round trip. Until the peer knows
        /// of a smaller window it may use one of 65,535 bytes; what exceeds this one counts as reserved. Default 64 KiB.
        initial_stream_window / "initial-stream-window": u32 = 64 * 1024;
        /// Receive window of the connection, in bytes; at most 2^31−1. Its credit returns on arrival, so that slow streams
        /// stop nobody else: it costs no memory, and bounds what is on its way to us. Raise it where all streams together
        /// should carry more in a round trip; where it is less than the large messages that come at once, their senders
        /// stop in the middle of them. Default 16 MiB.
        initial_connection_window / "initial-connection-window": u32 = 16 * 1024 * 1024;
        /// Largest frame we accept, in bytes; 16 KiB to 16 MiB − 1; a larger one ends the connection with
        /// FRAME_SIZE_ERROR. Frames are not put together, so that it costs no memory. Default 16 KiB.
        max_frame_size / "max-frame-size": u32 = 16 * 1024;
        /// Largest header list we accept, in bytes of RFC 9113 §10.5.1, which counts 32 for each field. A request above it is
        /// answered 431, a response or trailers cost their call; four times as much, or twice as much encoded, ends the
        /// connection with ENHANCE_YOUR_CALM. Protects `heads`, twice its size for each stream, and `tables`. Raise it for
        /// large tokens in metadata; lower it where streams are many. Default 32 KiB.
        max_header_list / "max-header-list": u32 = 32 * 1024;
        /// Largest header list we send, in bytes of the same count; a call with more metadata fails here, whatever the peer
        /// accepts. Protects peers and proxies, which often take no more. Default 8 KiB.
        max_send_header_list / "max-send-header-list": u32 = 8 * 1024;
        /// Most fields in one header list we accept; beyond it as beyond `max_header_list`. Protects `heads`, 72 bytes each
        /// on top of the strings. Default 128.
        max_headers / "max-headers": usize = 128;
        /// Received heads and trailers that are kept to be recognised when the same octets come again; each of at most
        /// 256 bytes, or 4 KiB of RFC 9113 §10.5.1. With 0 every header block is decoded, which looks the same from
        /// outside; to compare, and to find faults. As many beginnings of heads that are sent, at least one and on a server
        /// at most four, are kept for the next. Part of `kept`. Default 8.
        max_known_heads / "max-known-heads": usize = 8;
        /// HPACK dynamic table we offer, and the most we use of what the peer offers, in bytes. Part of `tables`: each takes
        /// four to six times as much at worst. Below 4 KiB memory is spared throughout, at the price of a few copies for
        /// each head. Default 4 KiB.
        header_table / "header-table": u32 = 4096;
        /// Largest message we accept, in bytes, inflated too; a larger one ends the call with `ResourceExhausted` before it
        /// is buffered. On a server, one above `initial_stream_window` and `max_reserved` together ends it as well.
        /// Default 4 MiB.
        max_recv_message / "max-recv-message": usize = 4 * 1024 * 1024;
        /// Largest message we send, in bytes. Default unlimited.
        max_send_message / "max-send-message": usize = usize::MAX;
        /// Bytes of further messages that a receiver of a stream takes at once together with the one it asks for, prefixes
        /// included: what a call may hold beside its window, for the application. With 0 each message is a look at the
        /// connection of its own.
        /// Default 16 KiB.
        recv_ahead / "recv-ahead": usize = 16 * 1024;
        /// Most bytes that one read takes: the size up to which receive windows grow, while reads fill them. Part of
        /// `input`. Default 256 KiB.
        max_read / "max-read": usize = 256 * 1024;
        /// A message that lacks so many bytes or more is read straight to where it lies, where the transport can
        /// ([`prepare_read`](crate::Connection::prepare_read)); below, a copy is no dearer. A large value never does, which looks
        /// the same to the peer; to compare, and to find faults. Default 32 KiB.
        scatter_from / "scatter-from": usize = 32 * 1024;
        /// Bytes of receive windows ([`RecvBuf`](crate::buf::RecvBuf)) that messages keep alive which nobody has taken yet.
        /// Messages lie where they were read; those that still wait when so many windows have come are copied out of
        /// them, each once. Part of `input`: without it, a few bytes that wait keep a window alive. Default 1 MiB.
        max_lent_input / "max-lent-input": usize = 1024 * 1024;
        /// Bytes by which the windows of streams may grow beyond `initial_stream_window`, all streams together: for
        /// messages that do not fit, of which so many are received at once, and by `adaptive_window`, which leaves room for
        /// one of `max_recv_message` in any case. Other messages wait for their turn; a client receives one whatever is
        /// reserved. Protects `messages`, twice its size. Raise it where several messages above `initial_stream_window`
        /// should arrive together, or several streams over a long way. Default 16 MiB.
        max_reserved / "max-reserved": usize = 16 * 1024 * 1024;
        /// Windows grow with what the way to the peer holds (bandwidth times delay), so that a stream over a long way is
        /// as fast as the way: the connection's freely, which costs no memory, those of streams that are read out of
        /// `max_reserved`, so that it protects no memory of its own. It is measured by PINGs in answer to DATA, one at a
        /// time. Switch it off for a peer that bears no PING. Default on.
        adaptive_window / "adaptive-window": bool = true;
        /// Largest window that `adaptive_window` leads to, in bytes, of a stream and of the connection; at most 2^31−1,
        /// and without effect below the initial windows. Default 16 MiB.
        max_window / "max-window": u32 = 16 * 1024 * 1024;
        /// Output prepared ahead of the transport, in bytes: what one write can take. Large payloads are not copied
        /// for it; the rest lies in chunks of this size, or of 64 KiB if that is less. Protects `output`, which is not
        /// prepared further for a transport that takes nothing. Default 256 KiB.
        transmit_target / "transmit-target": usize = 256 * 1024;
        /// High-water mark of a call's send buffer, in bytes; half of it is the low-water mark. At it, senders wait. Protects
        /// `sending` from peers that close their windows, at worst twice its size for each stream; one message may exceed
        /// it. Raise it where a sender should be further ahead of a slow way. Default 64 KiB.
        send_buffer / "send-buffer": usize = 64 * 1024;
        /// Payloads below this size are copied next to their frame header, larger ones are chained.
        /// Default 1 KiB.
        copy_below / "copy-below": usize = 1024;
        /// Messages below this size are never compressed. Default 1 KiB.
        compress_min / "compress-min": usize = 1024;
        /// Bytes kept for reuse in a buffer pool until the connection is silent: one pool for the large messages that
        /// it receives, one for those that it sends. What is on its way does not count. Part of `kept`; with 0 each large
        /// message is memory of its own. Default 16 MiB.
        pool_bytes / "pool-bytes": usize = 16 * 1024 * 1024;
        /// Client: calls that may wait for a stream, and as many whose heads wait for the transport; one more is told to wait
        /// for [`Event::Capacity`](crate::Event::Capacity). Part of `streams`. Default 1000.
        max_pending / "max-pending": usize = 1000;
        /// Unsent control frames we owe (acknowledgements, resets, window updates) before input pauses;
        /// ten times as many end the connection. Part of `output`: protects it from peers that ask and never read.
        /// Default 1000.
        max_control_queue / "max-control-queue": usize = 1000;
        /// Entries accepted in one SETTINGS frame; more end the connection with ENHANCE_YOUR_CALM. Default 100.
        max_settings_entries / "max-settings-entries": usize = 100;
        /// CONTINUATION frames accepted in one header block: this many, or as many as a header list at its limit needs at
        /// 16 KiB each, if that is more. Beyond it the connection ends with ENHANCE_YOUR_CALM. Default 8.
        max_continuations / "max-continuations": usize = 8;
        /// CONTINUATION frames of less than 64 bytes accepted in one header block, its last one apart: they cost time and
        /// bring nothing. Beyond it the connection ends with ENHANCE_YOUR_CALM. Default 3.
        max_short_continuations / "max-short-continuations": usize = 3;
        /// Client: informational responses (1xx) accepted before the response of one call, which together may also not
        /// exceed `max_header_list`; beyond it the call is reset with ENHANCE_YOUR_CALM. Default 100.
        max_informational / "max-informational": u32 = 100;
        /// Closed streams that are remembered to tell late frames from faults; late frames of others count as faults of
        /// their stream. Twice the streams that may be open is a good value. Part of `streams`, eight bytes each.
        /// Default 512.
        max_closed_streams / "max-closed-streams": usize = 512;
        /// DATA of this many bytes, or that ends a stream, counts as useful work and refills the budgets below. Default 256.
        useful_data / "useful-data": u32 = 256;
        /// Burst of protocol faults that are answered by resetting one stream; a fault on a stream that a handler works
        /// on counts five times. Beyond it the connection ends with ENHANCE_YOUR_CALM, as with all budgets here: it
        /// protects the work that is done for streams that end in a reset. Default 1000.
        max_stream_faults / "max-stream-faults": u32 = 1000;
        /// Protocol faults of streams that are forgiven in a second. Default 33.
        stream_faults_per_second / "stream-faults-per-second": u32 = 33;
        /// Burst of frames that move no message: PING, SETTINGS, WINDOW_UPDATE, PRIORITY, GOAWAY, informational
        /// responses, unknown types, frames of streams long gone. Protects the time that they take. Default 10,000.
        max_control_frames / "max-control-frames": u32 = 10_000;
        /// Such frames that are forgiven in a second. Default 500.
        control_frames_per_second / "control-frames-per-second": u32 = 500;
        /// Such frames that are forgiven for each frame of useful work. Default 4.
        control_frames_earned / "control-frames-earned": u32 = 4;
        /// Burst of resets by the peer; each stream that ends otherwise makes up for one. Protects what is done for calls
        /// that are opened to be cancelled. Default 2000.
        max_peer_resets / "max-peer-resets": u32 = 2000;
        /// Resets by the peer that are forgiven in a second. Default 200.
        peer_resets_per_second / "peer-resets-per-second": u32 = 200;
        /// Server: burst of resets within `early_reset` of a stream's beginning that is borne whatever else happens. Beyond
        /// it the connection ends if they are more than half of all streams that were closed. Default 500.
        max_early_resets / "max-early-resets": u32 = 500;
        /// Server: such resets that are forgiven in a second. Default 100.
        early_resets_per_second / "early-resets-per-second": u32 = 100;
        /// Server: how long after its beginning the reset of an unanswered stream is early; `off` for never. Default 1 s.
        early_reset / "early-reset": Option<Duration> = Some(Duration::from_secs(1));
        /// Server: streams refused in a row, none accepted in between, once the peer knows `max_concurrent_streams`; four
        /// times that is a good value. Protects the time that it takes to refuse them. Default 1024.
        max_refused_streams / "max-refused-streams": u32 = 1024;
        /// Burst of empty DATA frames without END_STREAM; a frame of useful work makes up for one. Default 100.
        max_empty_data / "max-empty-data": u32 = 100;
        /// Such frames that are forgiven in a second. Default 1.
        empty_data_per_second / "empty-data-per-second": u32 = 1;
        /// Burst of DATA frames that the peer's windows cut below `useful_data`; a larger frame makes up for one. Beyond
        /// it they wait for a larger window, or for `dribbles_per_second`: a peer that opens its windows byte by byte
        /// does not have a frame made of each. Default 32.
        max_dribbles / "max-dribbles": u32 = 32;
        /// Such frames that leave in a second in any case. Default 50.
        dribbles_per_second / "dribbles-per-second": u32 = 50;
        /// Time for the peer's preface and first SETTINGS. Default 10 s.
        handshake_timeout / "handshake-timeout": Option<Duration> = Some(Duration::from_secs(10));
        /// Time for the acknowledgement of our SETTINGS. Default 10 s.
        settings_timeout / "settings-timeout": Option<Duration> = Some(Duration::from_secs(10));
        /// Time from the first byte of a header block to its last. Default 10 s.
        header_block_timeout / "header-block-timeout": Option<Duration> = Some(Duration::from_secs(10));
        /// Time a stream with unsent data may wait for the peer's window to take `useful_data` of it; then it is reset with
        /// CANCEL. Default 60 s.
        send_stall_timeout / "send-stall-timeout": Option<Duration> = Some(Duration::from_secs(60));
        /// Time in which the transport must take `min_write_progress` of pending output, or all of it; otherwise the
        /// connection ends without another word. Default 30 s.
        write_stall_timeout / "write-stall-timeout": Option<Duration> = Some(Duration::from_secs(30));
        /// Bytes of pending output that count as progress within `write_stall_timeout`: a peer that reads a byte now and
        /// then does not keep a connection. Default 1 KiB.
        min_write_progress / "min-write-progress": usize = 1024;
        /// Silence after which a PING probes the peer while calls are open. gRPC servers allow one in five minutes unless
        /// configured otherwise, and send away who probes more often: a channel then doubles its interval for that
        /// target, to five minutes at least. Default off.
        keepalive_interval / "keepalive-interval": Option<Duration> = None;
        /// Time for the answer to a keepalive PING. Default 20 s.
        keepalive_timeout / "keepalive-timeout": Option<Duration> = Some(Duration::from_secs(20));
        /// Time without calls after which the connection shuts down. Default off.
        idle_timeout / "idle-timeout": Option<Duration> = None;
        /// Server: age at which a connection shuts down gracefully, so that clients connect anew, and find servers that were
        /// not there before. Up to a tenth more or less, so that those that came together do not go together;
        /// `max_connection_age_grace` is what their calls have left. Default off.
        max_connection_age / "max-connection-age": Option<Duration> = None;
        /// Server: time that calls have left after `max_connection_age`, before the rest is aborted; a shutdown meanwhile
        /// leaves them `drain_timeout`, if that is less. Default off: as long as they take.
        max_connection_age_grace / "max-connection-age-grace": Option<Duration> = None;
        /// Time a graceful shutdown may take before the rest is aborted. Default 30 s.
        drain_timeout / "drain-timeout": Option<Duration> = Some(Duration::from_secs(30));
        /// Client: CR and LF in a response's `grpc-message` become blanks instead of a malformed
        /// response (dubbo-java sends them raw). Default on.
        lenient_grpc_message / "lenient-grpc-message": bool = true;
        /// Unary messages that need not wait are encoded straight into the output. Off, every message goes the
        /// general way, which looks the same to the peer; to compare, and to find faults. Default on.
        unary_fast_path / "unary-fast-path": bool = true;
        /// Bytes of a stream's messages that are held back, to leave together; 0 holds nothing back. At most
        /// `send_buffer`. A call may choose otherwise. Default 0.
        flush_watermark / "flush-watermark": usize = 0;
        /// The longest time that messages are held back, if `flush_watermark` holds any. Default 1 ms.
        flush_linger / "flush-linger": Option<Duration> = Some(Duration::from_millis(1));
    }
    code {
        /// Names of the compressions that this side can undo, the preferred first: a client offers them. Whoever
        /// pulls messages undoes them. Default none.
        accept_compressions: Encodings;
        /// Server: names of the compressions that it uses for clients that accept them, besides the request's
        /// own. Whoever sends messages compresses them. Default none.
        send_compressions: Encodings;
    }
}
