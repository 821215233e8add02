//! What the tests of this crate share: an executor that runs in steps, a text codec, an echo service.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod echo;
pub mod executor;
pub mod link;

pub use echo::{CHAT, Echo, GATHER, LOTS, SAY};
pub use executor::Executor;
pub use link::{Link, link};
