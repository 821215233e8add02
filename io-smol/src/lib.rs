//! smol sockets for trirpc: client channels and servers over TCP and Unix sockets.
//!
//! [`Connect`] adds `Channel::connect` to [`Channel`](trirpc_rpc::Channel), [`Server`] serves a
//! [`Router`](trirpc_rpc::Router). Tasks run on smol's global executor, or on any
//! [`Executor`](async_executor::Executor) that is handed in, with the reactor of smol and no threads of our own, but
//! names are resolved on smol's blocking pool. An [`EventLoop`] in place of an executor has its own reactor and stays
//! on one thread: the shape for speed, as is [`ServerBuilder::cores`], which runs one a core.
//!
//! A custom transport needs none of this: [`SmolTime`] and [`trirpc_rpc::handshake`] run a connection over
//! any `futures-io` stream.
#![forbid(unsafe_code)]

mod accept;
mod address;
mod connect;
mod cores;
mod event_loop;
mod listener;
mod race;
mod serve;
mod server;
mod socket;
mod spawner;
mod time;

pub use address::ListenAddress;
pub use connect::{ChannelBuilder, Connect};
pub use event_loop::EventLoop;
pub use serve::Served;
pub use server::{Server, ServerBuilder};
pub use spawner::Spawner;
pub use time::{SmolTime, SmolTimer};
