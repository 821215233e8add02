//! What a caller may choose for one call, and what bounds every call of a connection.

use core::time::Duration;

use super::metadata::Metadata;
use super::protocol::{Protocol, TripleHeaders};
use super::variant::ServiceVariant;
use crate::buf::FlushPolicy;
use crate::config::Config;
use crate::encodings::Encodings;

/// Choices for one call.
///
/// ```
/// use core::time::Duration;
/// use trirpc_core::call::CallOptions;
///
/// let mut options = CallOptions::default();
/// options.timeout = Some(Duration::from_secs(2));
/// options.metadata.append("tenant", "blue")?;
/// # Ok::<(), trirpc_core::call::MetadataError>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// Wire protocol; `None` is gRPC framing on HTTP/2. A protocol without streams of its own carries them as gRPC.
    pub protocol: Option<Protocol>,
    /// Names of the header fields of Triple's unary calls.
    pub triple_headers: TripleHeaders,
    /// Which implementation of the service the call is for, where the server has several.
    pub variant: ServiceVariant,
    /// Time from `open` to the end of the call; `None` is no deadline.
    pub timeout: Option<Duration>,
    /// Request metadata.
    pub metadata: Metadata,
    /// Compression of the messages we send, by its name on the wire; `None` is none.
    pub compression: Option<&'static str>,
    /// Compressions that the response may use; `None` is the connection's `accept_compressions`.
    pub accept_compressions: Option<Encodings>,
    /// Times that this call was made before, and certainly not processed; for those who watch calls.
    pub replays: u32,
    /// Largest message accepted on this call, in bytes; `None` is the connection's `max_recv_message`.
    pub max_recv_message: Option<usize>,
    /// When the messages that we send leave, if there may be any number of them; `None` is the connection's
    /// [`flush_watermark`](Config::flush_watermark) and [`flush_linger`](Config::flush_linger).
    pub flush: Option<FlushPolicy>,
    /// Whether a unary request may be encoded straight into the output; `None` is the connection's switch.
    pub unary_fast_path: Option<bool>,
}

/// What bounds the calls of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallLimits {
    /// Largest message accepted, in bytes; a larger one ends the call with `ResourceExhausted`.
    pub max_recv_message: usize,
    /// Largest message sent, in bytes.
    pub max_send_message: usize,
    /// Compressions that this side can undo, the preferred first.
    pub accept_compressions: Encodings,
    /// Server: compressions that it uses for a client that accepts them, besides the request's own.
    pub send_compressions: Encodings,
}

impl From<&Config> for CallLimits {
    fn from(config: &Config) -> Self {
        Self {
            max_recv_message: config.max_recv_message,
            max_send_message: config.max_send_message,
            accept_compressions: config.accept_compressions.clone(),
            send_compressions: config.send_compressions.clone(),
        }
    }
}
