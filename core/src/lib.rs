//! Sans-io core of the Triple RPC protocol (Apache Dubbo's, gRPC-compatible).
//!
//! Every byte of the protocol is here, and nothing else: no sockets, wakers, locks, clocks or threads.
//! Bytes come in through [`RecvBuf`](buf::RecvBuf), go out through [`Transmit`](buf::Transmit), and time
//! is an argument. A driver is a loop around one [`Connection`].
//!
//! # Contract
//!
//! 1. Any method may be called at any time, in any order. Draining output and events late costs latency,
//!    never correctness.
//! 2. Each `handle_` method does work bounded by the bytes it is given, `poll_transmit` by
//!    `transmit_target`.
//! 3. Bytes of the peer never panic, and never make the connection hold more than the limits of [`Config`].
//! 4. Faults of the peer need no logic in the driver: the GOAWAY or RST_STREAM is queued, [`Event::Closed`]
//!    says why, and the driver flushes on until `is_closed()`.
//! 5. After `Closed`, every command returns its error and every poll returns nothing new.
//! 6. Nothing is sent twice, and nothing accepted is lost before the connection fails.
//! 7. Everything is `Send`, and has one owner at a time.
//!
//! # Map
//!
//! | module | what is in it | specification |
//! |---|---|---|
//! | [`Connection`], [`CallMut`] | one connection and a view of one call | |
//! | [`call`] | the call machines, status, metadata, codecs | gRPC over HTTP/2, Triple |
//! | [`http2`] | the HTTP/2 engine | RFC 9113 |
//! | [`hpack`] | header compression | RFC 7541 |
//! | [`http`] | heads and header names | RFC 9110 |
//! | [`buf`] | buffers in and out | |
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]
// What could panic says why it does not. Files that read what peers say, and where a number could be theirs, also say
// why arithmetic does not overflow.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::unimplemented
    )
)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod buf;
pub mod call;
pub mod hpack;
pub mod http;
pub mod http2;

mod config;
mod connection;
mod encodings;
mod error;
mod event;
mod sniff;
mod time;

pub use call::Outcome;
pub use config::{Config, ConfigError};
pub use connection::{CallMut, Client, Connection, Endpoint, MemoryBound, Role, Server};
pub use error::{
    CodecError, ConnectionError, ErrorCode, GoAway, OpenError, PeerMisbehaved, SendError, StreamError, Timeout,
    TransportError,
};
pub use event::{CallId, Event, HttpVersion};
pub use http2::Side;
pub use sniff::{Sniffed, sniff};
pub use time::Instant;
