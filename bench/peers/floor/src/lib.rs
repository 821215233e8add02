//! The floor: the bytes of a gRPC call, and hardly anything else.
//!
//! A client and a server that speak valid HTTP/2 with gRPC inside, from constants: header blocks are written as they
//! are, and never decoded; nothing is checked but lengths; flow control is the least that works. No library of RPC can
//! be much cheaper, and how far one is above shows what its work costs. Both are also the neutral partner of a server
//! or client that is measured: what they cost does not depend on whom they talk to.
//!
//! [`stream`] is the floor of messages that follow each other, without HTTP/2.
//!
//! [`Machine`] is the protocol, from bytes to bytes; [`drive`] carries it over sockets, by epoll or by smol.

pub mod client;
pub mod drive;
mod frame;
pub mod server;
pub mod stream;

use std::time::Instant;

/// One connection's protocol.
pub trait Machine: 'static {
    /// Writes what this side says first.
    fn start(&mut self, out: &mut Vec<u8>);

    /// Takes whole frames from the front of `input`, which was read at `now`, and writes what they call for. Returns how
    /// many bytes it took.
    fn feed(&mut self, input: &[u8], now: Instant, out: &mut Vec<u8>) -> usize;

    /// Whether there is nothing more to say and to wait for.
    fn is_finished(&self) -> bool {
        false
    }
}
