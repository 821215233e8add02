//! Hints from a connection to its owner: what may be done now, never the data itself.

use core::fmt;
use core::num::NonZeroU32;

use crate::error::ConnectionError;

/// Identity of a call on one connection.
///
/// A slot is reused with another generation, so a stale id never names another call.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId {
    index: u32,
    generation: NonZeroU32,
}

impl CallId {
    pub(crate) const fn new(index: u32, generation: NonZeroU32) -> Self {
        Self { index, generation }
    }

    /// Slot of the call: small, dense, reused. For tables that run beside the connection's own.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    pub(crate) const fn generation(self) -> NonZeroU32 {
        self.generation
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {}.{}", self.index, self.generation)
    }
}

/// HTTP version of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpVersion {
    /// HTTP/2 (RFC 9113).
    Http2,
}

/// What changed. The queue has at most one entry a call, and each kind is told at most once until it was acted on.
///
/// `Finished` is the last event of a call, and takes the place of those that were not told yet: a call that ends before
/// anybody polls tells its end alone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The peer's first SETTINGS arrived: it does speak this version.
    Connected {
        /// The version that both speak.
        version: HttpVersion,
    },
    /// After [`OpenError::NoCapacity`](crate::OpenError::NoCapacity): another call may be opened.
    Capacity,
    /// Server: [`accept`](crate::Connection::accept) will return a call.
    Incoming,
    /// Client: the response head of a call arrived.
    Head(CallId),
    /// A whole message, or the end, can be pulled with `recv`.
    ///
    /// Server: not told of a request that [`expect_request`](crate::CallMut::expect_request) has returned.
    Readable(CallId),
    /// After [`SendError::Blocked`](crate::SendError::Blocked): there is room again.
    Writable(CallId),
    /// The call ended in both directions; its status is known. Whoever waits on it must be woken, for whatever it waits:
    /// what there is of head and messages can be had at once, and `recv` is never `Blocked` from here on.
    Finished(CallId),
    /// The peer is going away, or we are: no further call may be opened here. A peer says so by GOAWAY, or as
    /// dubbo-go does, by the trailer `closing: true` of a call.
    GoingAway,
    /// The connection is over. Keep flushing output until `is_closed()`.
    Closed(ConnectionError),
}
