//! One stream (RFC 9113 §5.1): its state, what it still has to send, what it may still receive.
//!
//! ```text
//!                          HEADERS committed (client)
//!                          HEADERS arrived (server)
//!             ,--------.                              ,----------------------------------.
//!             |  Idle  |----------------------------->|  Open { local, remote }          |
//!             '--------'                              '----------------------------------'
//!                 |                END_STREAM received |        |        | END_STREAM sent
//!                 |                                    v        |        v
//!                 |            ,---------------------------.    |    ,---------------------------.
//!                 |            | HalfClosedRemote(local)   |    |    | HalfClosedLocal(remote)   |
//!                 |            '---------------------------'    |    '---------------------------'
//!                 |                    END_STREAM sent |        |        | END_STREAM received
//!                 |                    RST_STREAM      |        |        | RST_STREAM
//!                 | cancelled                          v        v        v
//!                 | (no frame)                 ,----------------------------------.
//!                 '--------------------------->|  Closed(how)                     |
//!                                              '----------------------------------'
//! ```
//!
//! A half that is open knows what it waits for: its head, or its body. "Reserved" is missing because push
//! is refused. An idle stream of the peer has no object at all; `Idle` is a client's stream whose HEADERS
//! has not been committed, which therefore has no id.

use alloc::boxed::Box;
use alloc::sync::Arc;

use crate::buf::{CoalesceBuf, FlushPolicy};
use crate::http::{DeadlineField, Headers, RequestHead, ResponseHead};
use crate::http2::flow::{RecvWindow, SendWindow};
use crate::time::Instant;

/// What the open half of a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The head of the message. Informational responses do not end this phase.
    Head,
    /// DATA, trailers, or the end.
    Body,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Both sides sent END_STREAM.
    Ended,
    /// The peer sent RST_STREAM.
    PeerReset,
    /// We sent RST_STREAM, or refused or ignored the stream: late frames are honest.
    WeReset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamState {
    Idle,
    Open { local: Phase, remote: Phase },
    HalfClosedLocal(Phase),
    HalfClosedRemote(Phase),
    Closed(Closed),
}

impl StreamState {
    /// What our half waits for; `None` if it ended, or has not begun.
    pub(crate) fn local(self) -> Option<Phase> {
        match self {
            Self::Open { local, .. } | Self::HalfClosedRemote(local) => Some(local),
            Self::Idle | Self::HalfClosedLocal(_) | Self::Closed(_) => None,
        }
    }

    /// What the peer's half waits for; `None` if it ended, or has not begun.
    pub(crate) fn remote(self) -> Option<Phase> {
        match self {
            Self::Open { remote, .. } | Self::HalfClosedLocal(remote) => Some(remote),
            Self::Idle | Self::HalfClosedRemote(_) | Self::Closed(_) => None,
        }
    }

    pub(crate) fn is_closed(self) -> bool {
        matches!(self, Self::Closed(_))
    }

    /// Does the stream exist for the peer?
    pub(crate) fn is_on_wire(self) -> bool {
        !matches!(self, Self::Idle | Self::Closed(_))
    }

    /// A head was committed to the output. On a client that opens the stream.
    pub(crate) fn sent_head(&mut self) {
        *self = match *self {
            Self::Idle => Self::Open { local: Phase::Body, remote: Phase::Head },
            Self::Open { remote, .. } => Self::Open { local: Phase::Body, remote },
            Self::HalfClosedRemote(_) => Self::HalfClosedRemote(Phase::Body),
            other => other,
        };
    }

    /// The final head of the peer's message arrived.
    pub(crate) fn received_head(&mut self) {
        *self = match *self {
            Self::Open { local, .. } => Self::Open { local, remote: Phase::Body },
            Self::HalfClosedLocal(_) => Self::HalfClosedLocal(Phase::Body),
            other => other,
        };
    }

    /// END_STREAM was committed to the output.
    pub(crate) fn sent_end(&mut self) {
        *self = match *self {
            Self::Open { remote, .. } => Self::HalfClosedLocal(remote),
            Self::HalfClosedRemote(_) => Self::Closed(Closed::Ended),
            other => other,
        };
    }

    /// END_STREAM arrived.
    pub(crate) fn received_end(&mut self) {
        *self = match *self {
            Self::Open { local, .. } => Self::HalfClosedRemote(local),
            Self::HalfClosedLocal(_) => Self::Closed(Closed::Ended),
            other => other,
        };
    }
}

/// A head that waits for its turn. Boxed: it lives for one turn, the stream for the whole call.
#[derive(Debug)]
pub(crate) enum Head {
    Request(Box<RequestHead>),
    /// A head that other requests have, too, and the deadline of this one.
    Shared(Arc<RequestHead>, Option<Box<DeadlineField>>),
    Response(Box<ResponseHead>),
}

/// How our half will end, once the application has said so.
#[derive(Debug)]
pub(crate) enum End {
    /// Not said yet.
    Open,
    /// END_STREAM on the head.
    OnHead,
    /// END_STREAM on the last DATA, an empty one if need be.
    OnData,
    /// A field block after the last DATA.
    Trailers(Headers),
}

/// The octets of DATA that wait for their turn. Boxed, and not there before the first of them: a message that is written
/// at once never waits.
#[derive(Debug, Default)]
pub(crate) struct Body(Option<Box<CoalesceBuf>>);

impl Body {
    /// The buffer, if there is one.
    pub(crate) fn made(&mut self) -> Option<&mut CoalesceBuf> {
        self.0.as_deref_mut()
    }

    /// The buffer, which is full at `high_water` octets.
    #[inline]
    pub(crate) fn make(&mut self, high_water: usize) -> &mut CoalesceBuf {
        self.0.get_or_insert_with(|| Box::new(CoalesceBuf::new(FlushPolicy::Immediate, high_water)))
    }

    /// Octets that wait.
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |body| body.len())
    }

    /// Does nothing wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Octets that may leave.
    pub(crate) fn eligible(&self) -> usize {
        self.0.as_ref().map_or(0, |body| body.eligible())
    }

    /// As [`CoalesceBuf::frame_len`].
    pub(crate) fn frame_len(&self, max: usize) -> usize {
        self.0.as_ref().map_or(max, |body| body.frame_len(max))
    }

    /// When octets that are held back may leave.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.0.as_ref()?.poll_timeout()
    }
}

/// What is left of a `content-length`, if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentLength(u64);

impl ContentLength {
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// `None` if the head said nothing.
    pub(crate) const fn due(self) -> Option<u64> {
        if self.0 == Self::NONE.0 { None } else { Some(self.0) }
    }

    /// May the body end here?
    pub(crate) const fn allows_end(self) -> bool {
        self.0 == 0 || self.0 == Self::NONE.0
    }
}

impl From<Option<u64>> for ContentLength {
    fn from(length: Option<u64>) -> Self {
        // No body comes to the largest number, nor to the one before it.
        length.map_or(Self::NONE, |length| Self(length.min(u64::MAX - 1)))
    }
}

/// In which queue of the scheduler a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    No,
    /// Client: waits for a slot of the peer's SETTINGS_MAX_CONCURRENT_STREAMS.
    Pending,
    /// Has something to send.
    Ready,
    /// Has more to send after a turn.
    Bulk,
    /// Has DATA, and the connection's window is exhausted.
    Parked,
}

/// A stream of either role.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Zero until HEADERS is committed.
    pub(crate) id: u32,
    /// Index of the call it carries, in the connection's table.
    pub(crate) call: u32,
    pub(crate) state: StreamState,
    /// The call's owner is gone: nothing is reported any more.
    pub(crate) released: bool,
    /// Server: the call has failed, and its owner, who has not let go yet, will not hear the rest of the request.
    pub(crate) failed: bool,
    pub(crate) queued: Queued,

    /// Server: when its request arrived, as [`Instant::ticks`].
    pub(crate) opened: u32,

    // What we send.
    pub(crate) head: Option<Head>,
    /// The octets of the body.
    pub(crate) body: Body,
    pub(crate) end: End,
    pub(crate) send_window: SendWindow,
    /// The body reached the high-water mark: say so when it is down to the low one.
    pub(crate) was_full: bool,
    /// An entry of the linger queue names this stream.
    pub(crate) linger_watched: bool,
    /// Since when there is DATA that no window lets through, or hardly any of it.
    pub(crate) stalled_since: Option<Instant>,
    /// Octets that left since, a few at a time.
    pub(crate) dribbled: u32,
    /// An entry of the stall queue names this stream.
    pub(crate) stall_watched: bool,

    // What we receive.
    pub(crate) recv_window: RecvWindow,
    /// An update of `recv_window` is noted for the next output.
    pub(crate) update_noted: bool,
    /// Octets that the application took since the last update.
    pub(crate) taken: u32,
    /// Octets of DATA still due by `content-length`.
    pub(crate) content_length: ContentLength,
    /// Server: the client sends the body of its request when it is told to go on (RFC 9110 §10.1.1).
    pub(crate) awaits_continue: bool,
    /// The request was HEAD: the response has no body whatever its `content-length` says.
    pub(crate) is_head: bool,
    /// Size of the informational responses so far, in list octets.
    pub(crate) informational: u32,
    /// Octets missing of the message that the call waits for.
    pub(crate) need: u32,
    /// Octets by which the target of `recv_window` was raised for it.
    pub(crate) reserved: u32,
    /// Octets by which the target of `recv_window` was raised because the way is long.
    pub(crate) grown: u32,
    /// Waits for a reservation.
    pub(crate) awaits_reservation: bool,
}

impl Stream {
    pub(crate) fn new(state: StreamState, send_window: u32, recv_window: u32) -> Self {
        Self {
            id: 0,
            call: u32::MAX,
            state,
            released: false,
            failed: false,
            queued: Queued::No,
            opened: 0,
            head: None,
            body: Body::default(),
            end: End::Open,
            send_window: SendWindow::new(send_window),
            was_full: false,
            linger_watched: false,
            stalled_since: None,
            dribbled: 0,
            stall_watched: false,
            recv_window: RecvWindow::new(recv_window),
            update_noted: false,
            taken: 0,
            content_length: ContentLength::NONE,
            awaits_continue: false,
            is_head: false,
            informational: 0,
            need: 0,
            reserved: 0,
            grown: 0,
            awaits_reservation: false,
        }
    }

    /// Server: does nobody read the rest of the request?
    pub(crate) const fn ignores_rest(&self) -> bool {
        self.released || self.failed
    }

    /// Has the application said how our half ends?
    pub(crate) fn is_finished(&self) -> bool {
        !matches!(self.end, End::Open)
    }

    /// Has a server's half not begun in any way?
    pub(crate) fn is_response_due(&self) -> bool {
        self.state.local() == Some(Phase::Head) && self.head.is_none() && self.body.is_empty() && !self.is_finished()
    }

    /// Is there a frame to send, windows apart?
    pub(crate) fn has_output(&self) -> bool {
        if self.head.is_some() {
            return true;
        }
        self.state.local() == Some(Phase::Body) && (self.body.eligible() > 0 || self.is_finished())
    }

    /// `has_output`, and the stream's own window lets a frame through.
    pub(crate) fn is_sendable(&self) -> bool {
        self.has_output() && (self.head.is_some() || self.body.eligible() == 0 || self.send_window.available() > 0)
    }

    /// Client: may the rest of a response be received in one step? The request is out: one that is still being sent has to
    /// be cut off. `phase` is what the response waits for.
    pub(crate) fn takes_whole_response(&self, phase: Phase) -> bool {
        self.state == StreamState::HalfClosedLocal(phase) && !self.is_head && !self.released
    }

    /// Does nothing wait of what it was to send, and nobody elsewhere hold anything for it?
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        let waits = self.awaits_reservation | self.stall_watched | self.linger_watched;
        !waits
            && self.queued == Queued::No
            && self.head.is_none()
            && self.body.0.is_none()
            && !matches!(self.end, End::Trailers(_))
            && self.need == 0
            && self.reserved == 0
            && self.grown == 0
    }

    /// Drops what was not sent.
    pub(crate) fn discard_output(&mut self) {
        self.head = None;
        self.body = Body::default();
        self.end = End::Open;
        self.stalled_since = None;
        self.was_full = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 §5.1: the edges of the diagram, for both roles.
    #[test]
    fn the_state_follows_the_diagram() {
        let mut client = StreamState::Idle;
        client.sent_head();
        assert_eq!(client, StreamState::Open { local: Phase::Body, remote: Phase::Head });
        client.received_head();
        client.sent_end();
        assert_eq!(client, StreamState::HalfClosedLocal(Phase::Body));
        client.received_end();
        assert_eq!(client, StreamState::Closed(Closed::Ended));

        let mut server = StreamState::Open { local: Phase::Head, remote: Phase::Body };
        server.received_end();
        assert_eq!(server, StreamState::HalfClosedRemote(Phase::Head));
        server.sent_head();
        assert_eq!(server.local(), Some(Phase::Body));
        server.sent_end();
        assert_eq!(server, StreamState::Closed(Closed::Ended));
        server.sent_end();
        server.received_end();
        server.sent_head();
        assert_eq!(server, StreamState::Closed(Closed::Ended), "nothing leads out of closed");
    }

    /// Performance goal G16 (a stream in flight costs at most 512 bytes beyond its octets), this part of it.
    #[test]
    fn a_stream_is_small() {
        assert!(size_of::<Stream>() <= 168, "{}", size_of::<Stream>());
    }
}
