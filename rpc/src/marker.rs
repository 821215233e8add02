//! `Send` where threads exist, nothing where they do not.
//!
//! Browser handles are not `Send`, and everything else wants to be spawned on a thread pool. Public
//! bounds name these markers, so that one source serves both.

use std::future::Future;
use std::pin::Pin;

#[cfg(not(target_family = "wasm"))]
mod bounds {
    /// `Send` on native targets, no bound on wasm.
    pub trait MaybeSend: Send {}
    impl<T: Send + ?Sized> MaybeSend for T {}

    /// `Sync` on native targets, no bound on wasm.
    pub trait MaybeSync: Sync {}
    impl<T: Sync + ?Sized> MaybeSync for T {}
}

#[cfg(target_family = "wasm")]
mod bounds {
    /// `Send` on native targets, no bound on wasm.
    pub trait MaybeSend {}
    impl<T: ?Sized> MaybeSend for T {}

    /// `Sync` on native targets, no bound on wasm.
    pub trait MaybeSync {}
    impl<T: ?Sized> MaybeSync for T {}
}

pub use bounds::{MaybeSend, MaybeSync};

/// A boxed future: `Send` on native targets, not on wasm.
#[cfg(not(target_family = "wasm"))]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A boxed future: `Send` on native targets, not on wasm.
#[cfg(target_family = "wasm")]
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;
