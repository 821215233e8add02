//! Runtime-neutral async call layer of trirpc.
//!
//! A connection is a [`Driver`], which does all the I/O over a [`Transport`] (any `futures-io` stream) and
//! a [`Time`], and a session, through which calls go. [`handshake`] and [`serve_connection`] return both and
//! spawn nothing: whoever has an executor spawns the driver. [`Channel`] makes client connections on demand.
//!
//! Typed calls are builders, [`UnaryCall`] and its siblings; the halves of a stream are [`Sender`] and
//! [`Streaming`], the same on both sides. Services are added to a [`Router`].
//!
//! # What generated code uses
//! Everything is reached from one root, this crate's or one that re-exports it:
//!
//! - of the core: `Method`, `MethodCodec`, `MethodSpec`, `CallKind`, `Status`;
//! - clients: `Channel`, `Invoke`, `UnaryCall`, `ServerStreamingCall`, `ClientStreamingCall`, `BidiCall`,
//!   each made by `new(invoke, &'static Method, request)`, where the last two take no request;
//! - servers: `Arc`, `Handling`, `MaybeSend`, `MaybeSync`, `Service`, `ServiceDescriptor`, `IncomingCall`,
//!   `Context`, `Sender`, `Streaming`. An arm of `Service::call` is
//!
//! ```text
//! // unary, and client_streaming with `|mut cx, mut rx|`
//! 0 => call.unary(&SAY, move |mut cx, request| async move {
//!     let result = self.service.say(&mut cx, request).await;
//!     cx.respond(&SAY, result);
//! }),
//! // server_streaming, and bidi with `|mut cx, mut rx, mut tx|`
//! 1 => call.server_streaming(&LOTS, move |mut cx, request, mut tx| async move {
//!     let result = self.service.lots(&mut cx, request, &mut tx).await;
//!     cx.finish(result);
//! }),
//! _ => call.unimplemented(),
//! ```
#![forbid(unsafe_code)]

mod cancel;
mod client;
mod compress;
mod decode;
mod driver;
mod duplex;
mod input;
mod intercept;
mod marker;
mod raw;
mod response;
mod server;
mod session;
#[cfg(all(feature = "sim", not(target_family = "wasm")))]
pub mod sim;
mod streaming;
mod time;
mod transport;

pub use cancel::Cancelled;
pub use client::{
    Address, BackoffPolicy, BidiCall, CallLayer, CallLayers, Channel, ChannelOptions, ClientStreamingCall,
    Connectivity, Connector, FirstHead, FullReply, InvalidTarget, Invoke, NextCall, OutgoingCall, Reply,
    ServerStreamingCall, Target, UnaryCall, UnaryMessage, UnaryResponse, handshake,
};
pub use driver::Driver;
pub use duplex::{Duplex, duplex};
pub use intercept::{CallInfo, CallSide, Interceptor, Timeline, Traffic};
pub use marker::{BoxFuture, MaybeSend, MaybeSync};
pub use raw::{CallKey, Carrier, Encode, Half, Outcome, Outgoing, RawCall, RawReceiver, RawSender, Received};
pub use response::Response;
pub use server::{
    Context, Extensions, Handling, HeadersMut, HttpRequest, HttpResponse, IncomingCall, InlineHandlers, Layered,
    NextService, Router, ServerTask, Service, ServiceDescriptor, ServiceLayer, serve_connection,
};
pub use session::{ClientSession, ServerSession};
pub use streaming::{Sender, Streaming};
pub use time::{ManualTime, ManualTimer, Time, Timer};
pub use transport::{Io, Transport};

// What users and generated code need of the core and of std, under the same root.
#[doc(no_inline)]
pub use trirpc_core::buf::FlushPolicy;
#[doc(no_inline)]
pub use trirpc_core::call::{
    CallKind, CallOptions, Code, Codec, Compression, Metadata, Method, MethodCodec, MethodSpec, Origin, Protocol,
    ServiceVariant, Status, TripleHeaders,
};
#[doc(no_inline)]
pub use trirpc_core::http::Method as HttpMethod;
#[doc(no_inline)]
pub use trirpc_core::{Config, ConnectionError, Endpoint, HttpVersion, Instant};

#[doc(hidden)]
pub use std::sync::Arc;
