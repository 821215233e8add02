//! Sessions, drivers and typed calls, without sockets, threads or sleeps.
#![allow(unreachable_pub, reason = "modules of a test binary have no outside")]

mod ahead;
mod calls;
mod channel;
mod coalesce;
mod compress;
mod dispatch;
mod driver;
mod endings;
mod intercept;
mod interleave;
mod layers;
mod pings;
mod support;
mod triple;
