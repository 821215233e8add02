//! Errors, sorted by who is at fault (architecture §14).
//!
//! Misuse by the caller is returned at once and sends nothing. Faults of the peer never need driver
//! logic: the GOAWAY or RST_STREAM is already queued, the error only says why.

use alloc::string::String;
use core::fmt;

use bytes::Bytes;

use crate::sniff::Sniffed;

/// HTTP/2 error code of RST_STREAM and GOAWAY (RFC 9113 §7).
///
/// Unknown codes are kept as they are: they end a call or a connection, never the parser.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $value:literal;)*) => {
        impl ErrorCode {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The registered name, or `None` for an unregistered code.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    /// Graceful end.
    NO_ERROR = 0x0;
    /// The peer broke a rule of the protocol.
    PROTOCOL_ERROR = 0x1;
    /// A fault of this endpoint.
    INTERNAL_ERROR = 0x2;
    /// A flow-control window was overrun or overflowed.
    FLOW_CONTROL_ERROR = 0x3;
    /// SETTINGS was not acknowledged in time.
    SETTINGS_TIMEOUT = 0x4;
    /// A frame arrived for a half-closed or closed stream.
    STREAM_CLOSED = 0x5;
    /// A frame had an invalid size.
    FRAME_SIZE_ERROR = 0x6;
    /// The stream was refused before any processing: it may be retried.
    REFUSED_STREAM = 0x7;
    /// The stream is no longer needed.
    CANCEL = 0x8;
    /// The HPACK state can no longer be maintained.
    COMPRESSION_ERROR = 0x9;
    /// The tunnel of a CONNECT request broke.
    CONNECT_ERROR = 0xa;
    /// The peer generates excessive load.
    ENHANCE_YOUR_CALM = 0xb;
    /// The transport's security is not good enough.
    INADEQUATE_SECURITY = 0xc;
    /// The endpoint wants HTTP/1.1 instead.
    HTTP_1_1_REQUIRED = 0xd;
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "0x{:x}", self.0),
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why [`Connection::open`](crate::Connection::open) and its siblings refused a call.
///
/// Nothing was sent, except with `Codec` after HEADERS had been committed (the stream is then reset).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// `max_pending` calls already wait for a stream; [`Event::Capacity`](crate::Event::Capacity) follows.
    NoCapacity,
    /// The connection is draining (GOAWAY sent or received): open the call on another one.
    GoingAway,
    /// The connection is closed.
    Closed,
    /// The protocol cannot carry this kind of call on this HTTP version.
    Unsupported,
    /// The message is larger than `max_send_message`, or the head larger than the peer accepts.
    TooLarge {
        /// Size that was asked for, in bytes.
        size: usize,
        /// The limit it exceeds.
        limit: usize,
    },
    /// The codec failed, or lied about the encoded length.
    Codec(CodecError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCapacity => f.write_str("too many calls wait for a stream"),
            Self::GoingAway => f.write_str("the connection is going away"),
            Self::Closed => f.write_str("the connection is closed"),
            Self::Unsupported => f.write_str("the protocol cannot carry this kind of call"),
            Self::TooLarge { size, limit } => {
                write!(f, "{size} bytes exceed the limit of {limit} bytes")
            }
            Self::Codec(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a message could not be queued on an open call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer is full; [`Event::Writable`](crate::Event::Writable) follows.
    Blocked,
    /// The send side was already finished by this side.
    Sealed,
    /// Server: the response's head must be sent before a message.
    NoHead,
    /// The call has ended: the peer no longer reads.
    Finished,
    /// The message is larger than `max_send_message`.
    TooLarge {
        /// Size of the message, in bytes.
        size: usize,
        /// The limit it exceeds.
        limit: usize,
    },
    /// What was to be sent is not HTTP, for this reason.
    Invalid(&'static str),
    /// The codec failed, or lied about the encoded length.
    Codec(CodecError),
    /// The call failed earlier; the first error is kept.
    Failed(StreamError),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked => f.write_str("the send buffer is full"),
            Self::Sealed => f.write_str("the send side is already finished"),
            Self::NoHead => f.write_str("the response head must be sent first"),
            Self::Finished => f.write_str("the call has ended"),
            Self::TooLarge { size, limit } => {
                write!(f, "message of {size} bytes exceeds max_send_message of {limit} bytes")
            }
            Self::Invalid(reason) => write!(f, "the response is not HTTP: {reason}"),
            Self::Codec(error) => fmt::Display::fmt(error, f),
            Self::Failed(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl core::error::Error for SendError {}

/// Why one call ended without a status from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// The peer reset the stream.
    Reset(ErrorCode),
    /// The deadline passed.
    Deadline,
    /// This side cancelled the call.
    Cancelled,
    /// The connection failed under the call.
    Connection,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reset(code) => write!(f, "stream reset by the peer: {code}"),
            Self::Deadline => f.write_str("deadline exceeded"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Connection => f.write_str("connection lost"),
        }
    }
}

impl core::error::Error for StreamError {}

/// A codec could not encode or decode a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecError {
    message: String,
}

impl CodecError {
    /// An error with a text for people.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for CodecError {}

/// Why a whole connection ended; carried by [`Event::Closed`](crate::Event::Closed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// Closed on request of this side, after draining.
    Shutdown,
    /// Aborted by this side.
    Aborted(ErrorCode),
    /// The peer broke the protocol; a GOAWAY with this code is queued.
    Misbehaved(PeerMisbehaved),
    /// Server: the client speaks another protocol. It was told nothing, for it would not understand.
    Foreign(Sniffed),
    /// The peer ended the connection with GOAWAY.
    PeerClosed(GoAway),
    /// The transport failed or ended.
    Transport(TransportError),
    /// A connection timer fired.
    Timeout(Timeout),
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shutdown => f.write_str("connection shut down"),
            Self::Aborted(code) => write!(f, "connection aborted: {code}"),
            Self::Misbehaved(fault) => fmt::Display::fmt(fault, f),
            Self::Foreign(protocol) => write!(f, "the peer speaks {protocol}, not HTTP/2"),
            Self::PeerClosed(go_away) => fmt::Display::fmt(go_away, f),
            Self::Transport(error) => fmt::Display::fmt(error, f),
            Self::Timeout(timeout) => fmt::Display::fmt(timeout, f),
        }
    }
}

impl core::error::Error for ConnectionError {}

/// A rule of the protocol that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerMisbehaved {
    /// Code of the GOAWAY that answers it.
    pub code: ErrorCode,
    /// Which rule; also the GOAWAY's debug text.
    pub detail: &'static str,
}

impl fmt::Display for PeerMisbehaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer broke the protocol: {} ({})", self.detail, self.code)
    }
}

impl core::error::Error for PeerMisbehaved {}

/// A GOAWAY frame of the peer (RFC 9113 §6.8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoAway {
    /// Why the peer goes away.
    pub code: ErrorCode,
    /// At most 256 bytes of the peer's debug data.
    pub debug: Bytes,
}

impl fmt::Display for GoAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "peer closed the connection: {}", self.code)?;
        if !self.debug.is_empty() {
            write!(f, " \"{}\"", self.debug.escape_ascii())?;
        }
        Ok(())
    }
}

impl core::error::Error for GoAway {}

/// How a transport failed; the driver reports it and keeps the platform's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportError {
    /// The connection was reset.
    Reset,
    /// The stream ended where more bytes were due.
    Eof,
    /// A write took no bytes, or a sink cannot resume after a partial write.
    WriteZero,
    /// The security layer failed.
    Tls,
    /// Anything else.
    Other,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reset => "connection reset",
            Self::Eof => "connection closed by the peer",
            Self::WriteZero => "the transport takes no more bytes",
            Self::Tls => "TLS failed",
            Self::Other => "transport failed",
        })
    }
}

impl core::error::Error for TransportError {}

/// The connection timers, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Timeout {
    /// The peer's preface or first SETTINGS did not arrive.
    Handshake,
    /// Our SETTINGS was not acknowledged.
    Settings,
    /// A header block was not completed.
    HeaderBlock,
    /// A keepalive PING was not answered.
    KeepAlive,
    /// No call was open for too long.
    Idle,
    /// The connection reached the age at which it shuts down.
    Age,
    /// Draining took too long.
    Drain,
    /// Output was pending and the transport took nothing.
    WriteStall,
}

impl fmt::Display for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Handshake => "handshake timed out",
            Self::Settings => "SETTINGS was not acknowledged in time",
            Self::HeaderBlock => "a header block was not completed in time",
            Self::KeepAlive => "keepalive PING was not answered in time",
            Self::Idle => "connection was idle for too long",
            Self::Age => "connection reached its age",
            Self::Drain => "draining took too long",
            Self::WriteStall => "the peer stopped reading",
        })
    }
}

impl core::error::Error for Timeout {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    /// `h2:A43`: what a peer says is shown without its control characters, and not at any length (see `goaway`).
    #[test]
    fn the_peers_text_cannot_forge_a_line_of_a_log() {
        let debug = Bytes::from_static(b"\x1b[31mbye\r\nlevel=error \"x\"\xff");
        let error = ConnectionError::PeerClosed(GoAway { code: ErrorCode::NO_ERROR, debug });
        let text = error.to_string();
        assert!(text.bytes().all(|octet| octet.is_ascii_graphic() || octet == b' '), "{text}");
        assert!(text.contains(r"\x1b[31mbye\r\nlevel=error \"), "{text}");
    }
}
