//! Sans-io core of the Triple RPC protocol (Apache Dubbo's, gRPC-compatible).
//!
//! Every byte of the protocol is here, and nothing else: no sockets, wakers, locks, clocks or threads.
//! Bytes come in through [`RecvBuf`](buf::RecvBuf), go out through [`Transmit`](buf::Transmit), and time
//! is an argument.
#![no_std]
#![forbid(unsafe_code)]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

pub mod buf;
pub mod call;
pub mod hpack;
pub mod http;
pub mod http2;

mod config;
mod error;
mod event;
mod time;

pub use config::{Config, ConfigError};
pub use error::{
    CodecError, ConnectionError, ErrorCode, GoAway, OpenError, PeerMisbehaved, SendError, StreamError, Timeout,
    TransportError,
};
pub use event::{CallId, Event, HttpVersion};
pub use time::Instant;
