//! What the tests of this crate share: an executor that runs in steps, a text codec, an echo service.
#![allow(dead_code, reason = "each test binary uses a part")]

pub mod echo;
pub mod executor;
pub mod link;
pub mod network;
pub mod rle;
pub mod script;

pub use echo::{CHAT, GATHER, LOTS, SAY};
pub use link::{Link, link};
