//! Making calls.

mod backoff;
mod call;
mod channel;
mod deferred;
mod handshake;
mod invoke;
mod layer;
mod options;
mod pending;
mod pool;
mod stack;
mod target;
mod unary;

pub use backoff::BackoffPolicy;
pub use call::{
    BidiCall, ClientStreamingCall, FullReply, Reply, ServerStreamingCall, UnaryCall, UnaryMessage, UnaryResponse,
};
pub use channel::Channel;
pub use handshake::handshake;
pub use invoke::Invoke;
pub use layer::{CallLayer, CallLayers, NextCall, OutgoingCall};
pub use pool::{ChannelOptions, Connectivity, Connector};
pub use target::{Address, InvalidTarget, Target};
pub use unary::FirstHead;

pub(crate) use stack::Stack;
