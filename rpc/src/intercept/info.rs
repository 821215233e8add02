//! What interceptors see of a call.

use std::sync::Arc;
use std::time::Duration;

use trirpc_core::Instant;
use trirpc_core::call::{Metadata, MethodSpec, Protocol};

use super::observed::Marks;
use crate::server::Extensions;

/// Which end of a call this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallSide {
    /// The call was made here.
    Client,
    /// The call is served here.
    Server,
}

/// When what happened to a call, by the clock of its connection; `None` is not yet, or never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timeline {
    /// Client: the call was made. Server: its head arrived.
    pub opened: Instant,
    /// Client: a connection took it. Between `opened` and this it waited for one.
    pub assigned: Option<Instant>,
    /// Client: the head left with the output of the connection. Server: the head of the response was handed to it.
    pub first_byte_out: Option<Instant>,
    /// Client: the head of the response arrived. Server: as `opened`.
    pub head_in: Option<Instant>,
    /// The first message was handed to the connection.
    pub first_message_out: Option<Instant>,
    /// The last message so far was.
    pub last_message_out: Option<Instant>,
    /// The application took the first message of the peer.
    pub first_message_in: Option<Instant>,
    /// The application took the last message so far.
    pub last_message_in: Option<Instant>,
    /// The outcome was known.
    pub finished: Option<Instant>,
}

/// Messages of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// How many.
    pub messages: u64,
    /// Their bytes as they were on the wire, compressed or not, without what is around them.
    pub bytes: u64,
}

/// One call, as an [`Interceptor`](super::Interceptor) sees it.
#[derive(Debug)]
pub struct CallInfo {
    pub(super) side: CallSide,
    pub(super) method: MethodSpec,
    pub(super) protocol: Protocol,
    pub(super) peer: Option<Arc<str>>,
    pub(super) replays: u32,
    pub(crate) timeout: Option<Duration>,
    pub(crate) metadata: Metadata,
    pub(crate) response: Metadata,
    pub(crate) handler_extensions: Extensions,
    pub(super) extensions: Extensions,
    pub(super) marks: Marks,
}

impl CallInfo {
    pub(crate) fn new(side: CallSide, method: &MethodSpec, protocol: Protocol, opened: Instant) -> Self {
        let mut marks = Marks::default();
        marks.timeline.opened = opened;
        Self {
            side,
            method: method.clone(),
            protocol,
            peer: None,
            replays: 0,
            timeout: None,
            metadata: Metadata::new(),
            response: Metadata::new(),
            handler_extensions: Extensions::default(),
            extensions: Extensions::default(),
            marks,
        }
    }

    pub(crate) fn with_peer(mut self, peer: Option<&Arc<str>>) -> Self {
        self.peer = peer.cloned();
        self
    }

    pub(crate) const fn with_replays(mut self, replays: u32) -> Self {
        self.replays = replays;
        self
    }

    /// Which end this is.
    pub const fn side(&self) -> CallSide {
        self.side
    }

    /// The method that is called.
    pub const fn method(&self) -> &MethodSpec {
        &self.method
    }

    /// The wire protocol.
    pub const fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Client: the channel's target. Server: the client's address, where the transport knows it.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Number of the connection, unique in this process, once the call is on one.
    pub const fn session(&self) -> Option<u64> {
        self.marks.session
    }

    /// Client: times that the call was made before, and certainly not processed.
    pub const fn replays(&self) -> u32 {
        self.replays
    }

    /// The request's metadata; in `on_request` only, for after that they are on their way.
    pub const fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The request's metadata, for changing what the server, or the handler, gets.
    pub const fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Time that the call may take: on a client from its start, on a server from `opened`.
    pub const fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Client, in `on_request`: gives the call this much time.
    pub const fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// The response's metadata; in `on_response` only.
    pub const fn response(&self) -> &Metadata {
        &self.response
    }

    /// Server, in `on_response`: the response's metadata, for changing what the client gets.
    pub const fn response_mut(&mut self) -> &mut Metadata {
        &mut self.response
    }

    /// What the hooks of this call keep between them.
    pub const fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// What the hooks of this call keep between them.
    pub const fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.extensions
    }

    /// Server, in `on_request`: values that the handler finds in its [`Context`](crate::Context).
    pub const fn handler_extensions_mut(&mut self) -> &mut Extensions {
        &mut self.handler_extensions
    }

    /// When what happened.
    pub const fn timeline(&self) -> &Timeline {
        &self.marks.timeline
    }

    /// Messages from us to the peer.
    pub const fn sent(&self) -> Traffic {
        self.marks.sent
    }

    /// Messages from the peer to us, those that nobody took left out.
    pub const fn received(&self) -> Traffic {
        self.marks.received
    }
}
