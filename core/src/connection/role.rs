//! The two roles, as types: what a client may do is not there on a server, and the reverse.

use alloc::sync::Arc;
use core::ops::RangeInclusive;

use bytes::{Bytes, BytesMut};

use super::Connection;
use super::calls::{Signal, SignalSet};
use crate::buf::{BufferPool, Landing, LentMemory, Run};
use crate::call::{ClientCall, Code, Metadata, Recv, SendSide, ServerCall};
use crate::error::{ConnectionError, ErrorCode, SendError};
use crate::event::CallId;
use crate::http::{Headers, RequestHead, ResponseHead};
use crate::http2::{Side, StreamKey};
use crate::time::Instant;

/// [`Client`] or [`Server`].
#[allow(private_bounds, reason = "sealed: there are only two roles")]
pub trait Role: Behaviour {
    /// Which end of the connection this role is.
    const SIDE: Side;
}

/// The role that opens calls.
#[derive(Clone, Copy, Debug)]
pub enum Client {}

/// The role that accepts calls.
#[derive(Clone, Copy, Debug)]
pub enum Server {}

impl Role for Client {
    const SIDE: Side = Side::Client;
}

impl Role for Server {
    const SIDE: Side = Side::Server;
}

/// What the roles do differently with what the engine brings.
pub(crate) trait Behaviour: Sized {
    type Machine: Machine;
    type State;

    /// Gives back memory of the role that nothing lies in.
    fn release_idle(state: &mut Self::State);

    /// Server: a request head came in.
    fn request(conn: &mut Connection<Self>, stream: StreamKey, head: Arc<RequestHead>, end: bool, now: Instant)
    where
        Self: Role;

    /// Server: a request came in, all of it.
    fn whole_request(conn: &mut Connection<Self>, stream: StreamKey, head: Arc<RequestHead>, body: Bytes, now: Instant)
    where
        Self: Role;

    /// Client: a response came in, all of it; its end is in the body if there are no trailers.
    fn whole_response(
        conn: &mut Connection<Self>,
        place: (StreamKey, u32),
        head: Arc<ResponseHead>,
        body: Bytes,
        trailers: Option<Arc<Headers>>,
    ) where
        Self: Role;

    /// Client: the final response head of a call came in.
    fn response(conn: &mut Connection<Self>, id: CallId, head: Arc<ResponseHead>, end: bool)
    where
        Self: Role;

    /// The trailers of a call came in, which end the peer's half.
    fn trailers(conn: &mut Connection<Self>, id: CallId, trailers: Arc<Headers>)
    where
        Self: Role;

    /// The stream of a call ended by RST_STREAM: the peer's, or ours for a fault of the peer's.
    fn reset(conn: &mut Connection<Self>, id: CallId, code: ErrorCode, by_peer: bool)
    where
        Self: Role;

    /// A call's deadline passed.
    fn expire(conn: &mut Connection<Self>, id: CallId)
    where
        Self: Role;

    /// The machine of a call that is not over [came to an end](Machine::has_ended): the engine has to follow.
    fn follow(conn: &mut Connection<Self>, id: CallId)
    where
        Self: Role;

    /// The connection is gone under a call.
    fn connection_lost(conn: &mut Connection<Self>, id: CallId, error: &ConnectionError)
    where
        Self: Role;

    /// The engine can open streams again.
    fn capacity(conn: &mut Connection<Self>)
    where
        Self: Role;

    /// The application gives the call up.
    fn cancel(conn: &mut Connection<Self>, id: CallId, code: Code)
    where
        Self: Role;

    /// A message is about to be sent: on a server, the head goes first.
    fn before_message(conn: &mut Connection<Self>, id: CallId) -> Result<(), SendError>
    where
        Self: Role;
}

/// What a connection needs of a call machine, whichever its role.
pub(crate) trait Machine {
    fn handle_data(&mut self, data: Bytes, landing: &mut Landing<'_>);
    /// Copies octets to where their message lies, if they are a part of one large message; false if not, and then
    /// nothing happened.
    fn extend_message(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool;
    /// Lends the memory of a large message that is arriving, for what is still to come of it: nothing of it may come
    /// otherwise until the memory is back.
    fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory>;
    /// Takes back what was lent, unless the message is not wanted any more.
    fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut>;
    /// The next `n` octets of the body lie in the memory of their message, which is back.
    fn landed(&mut self, n: usize);
    /// Moves octets that wait out of the receive windows.
    fn detach(&mut self);
    /// The peer's half ended without trailers, or they mean nothing.
    fn handle_end(&mut self);
    fn recv(&mut self, pool: &mut BufferPool) -> Recv;
    fn recv_run(&mut self, max: usize, pool: &mut BufferPool) -> Run;
    fn envelope(&mut self, len: usize, compressed: bool) -> Result<Option<[u8; 5]>, SendError>;
    /// What may be sent.
    fn send_side(&self) -> &SendSide;
    /// The same, if nothing has to be sent before the next message.
    fn next_side(&mut self) -> Option<&mut SendSide>;
    /// The message of the last envelope, unless the machine keeps it for the end.
    fn keep(&mut self, message: Bytes) -> Option<Bytes>;
    /// Why nothing more can be sent, if the call has ended.
    fn send_error(&self) -> Option<SendError>;
    fn metadata(&self) -> Option<&Metadata>;
    /// When the call ends at the latest.
    fn deadline(&self) -> Option<Instant>;
    /// It came to an end on its own: by the outcome, or a fault of the peer's.
    fn has_ended(&self) -> bool;
    /// What is true of a call that goes on and is worth an event: the peer's head may be shown to the application, or
    /// `recv` has a whole message or the end.
    fn due(&self) -> SignalSet;
    /// `recv` has something other than `Blocked`.
    fn is_readable(&self) -> bool;
    /// Octets held.
    fn buffered(&self) -> usize;
    /// Octets missing of the message whose prefix was read.
    fn need(&self) -> usize;
}

/// What both machines have under a name of their own.
macro_rules! delegations {
    () => {
        fn handle_data(&mut self, data: Bytes, landing: &mut Landing<'_>) {
            self.handle_data_in(data, landing);
        }

        fn extend_message(&mut self, octets: &[u8], landing: &mut Landing<'_>) -> bool {
            self.extend_message(octets, landing)
        }

        fn lend(&mut self, room: RangeInclusive<usize>) -> Option<LentMemory> {
            self.lend(room)
        }

        fn restore(&mut self, memory: BytesMut, filled: usize) -> Result<(), BytesMut> {
            self.restore(memory, filled)
        }

        fn landed(&mut self, n: usize) {
            self.landed(n);
        }

        fn detach(&mut self) {
            self.detach();
        }

        fn handle_end(&mut self) {
            self.handle_end(None);
        }

        fn recv(&mut self, pool: &mut BufferPool) -> Recv {
            self.recv_in(pool)
        }

        fn recv_run(&mut self, max: usize, pool: &mut BufferPool) -> Run {
            self.recv_run(max, pool)
        }

        fn envelope(&mut self, len: usize, compressed: bool) -> Result<Option<[u8; 5]>, SendError> {
            self.envelope(len, compressed)
        }

        fn send_side(&self) -> &SendSide {
            self.send_side()
        }

        fn next_side(&mut self) -> Option<&mut SendSide> {
            self.next_side()
        }

        fn send_error(&self) -> Option<SendError> {
            self.send_error()
        }

        fn deadline(&self) -> Option<Instant> {
            self.deadline()
        }

        fn is_readable(&self) -> bool {
            self.is_readable()
        }

        fn buffered(&self) -> usize {
            self.buffered()
        }

        fn need(&self) -> usize {
            self.need()
        }
    };
}

impl Machine for ClientCall {
    delegations!();

    fn keep(&mut self, message: Bytes) -> Option<Bytes> {
        Some(message)
    }

    fn metadata(&self) -> Option<&Metadata> {
        self.metadata()
    }

    fn has_ended(&self) -> bool {
        self.status().is_some()
    }

    fn due(&self) -> SignalSet {
        let mut due = SignalSet::NONE;
        if self.metadata().is_some() {
            due.add(Signal::Head);
        }
        if self.is_readable() {
            due.add(Signal::Readable);
        }
        due
    }
}

impl Machine for ServerCall {
    delegations!();

    fn keep(&mut self, message: Bytes) -> Option<Bytes> {
        self.keep(message)
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(self.request().metadata())
    }

    fn has_ended(&self) -> bool {
        self.failure().is_some()
    }

    fn due(&self) -> SignalSet {
        if self.is_readable() { Signal::Readable.into() } else { SignalSet::NONE }
    }
}
