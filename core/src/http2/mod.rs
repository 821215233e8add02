//! HTTP/2 (RFC 9113) without push and without the deprecated priority tree, for clients and servers.
//!
//! The engine is private: [`Connection`](crate::Connection) drives it. Public is [`frame`], the layout of
//! frames, for embedders, traces and fuzzing.
//!
//! | file | what it knows |
//! |---|---|
//! | `frame` | layout of frames |
//! | `settings` | both sides' SETTINGS |
//! | `flow` | windows |
//! | `data` | what the calls give, and how it is cut into frames |
//! | `dribble` | which DATA is worth a frame |
//! | `stream` | one stream: state, what it still sends, what it may receive |
//! | `store` | all streams: slots, ids, closed ids |
//! | `sched` | whose turn it is to send |
//! | `reserve` | windows raised for large messages and for long ways |
//! | `bdp` | how long the way is: the bandwidth-delay product |
//! | `validate` | field lists to heads |
//! | `memo` | header blocks that are recognised |
//! | `abuse` | budgets |
//! | `memory` | the most that all of it holds |
//! | `ping` | keepalive and the round trip of a drain |
//! | `unary` | messages that need no turn |
//! | `template` | field blocks, and those that begin alike |
//! | `whole` | messages that are received in one step |
//! | `landing` | bodies that are read straight to where they lie |
//! | `recv`, `block`, `send`, `end` | input, header blocks, output, and how a connection ends |
//! | `connection` | what they all work on, and the commands on it |

pub mod frame;

mod abuse;
mod bdp;
mod block;
mod close;
mod connection;
mod data;
mod dribble;
mod end;
mod flow;
mod landing;
mod memo;
pub(crate) mod memory;
mod ping;
mod recv;
mod reserve;
mod sched;
mod send;
mod settings;
mod store;
mod stream;
mod template;
mod unary;
mod validate;
mod whole;

#[cfg(test)]
mod tests;

pub(crate) use connection::{Http2, Incoming};
pub(crate) use landing::ArrivingBody;
pub(crate) use store::StreamKey;
pub(crate) use template::Template;
pub(crate) use unary::Message;

/// Which end of the connection this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Opens streams, with odd ids.
    Client,
    /// Answers them.
    Server,
}
