//! What a handler knows of its call besides the messages.

use std::any::{Any, TypeId};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use trirpc_core::Instant;
use trirpc_core::buf::FlushPolicy;
use trirpc_core::call::{Metadata, Method, MethodSpec, Protocol, Status};

use super::call::Request;
use crate::cancel::Cancelled;
use crate::compress::Compressor;
use crate::marker::MaybeSend;
use crate::raw::Typed;
use crate::session::CallSeat;

/// The call that a handler serves.
///
/// The handler is dropped when its call is cancelled, past its deadline or disconnected; it need not
/// watch for that itself.
#[derive(Debug)]
pub struct Context {
    pub(super) seat: CallSeat,
    pub(super) method: &'static MethodSpec,
    pub(super) request: Box<Request>,
    /// Place among the codecs of the method.
    pub(super) codec: usize,
    pub(super) trailers: Option<Box<Metadata>>,
}

impl Context {
    /// The metadata of the request.
    pub fn metadata(&self) -> &Metadata {
        self.request.metadata()
    }

    /// When the client stops waiting.
    pub const fn deadline(&self) -> Option<Instant> {
        self.request.deadline
    }

    /// Time until the deadline; zero when it has passed.
    pub fn remaining(&self) -> Option<Duration> {
        self.request.deadline.map(|deadline| deadline - self.seat.now())
    }

    /// The client's address, where the transport knows one.
    pub fn peer(&self) -> Option<&str> {
        self.seat.peer()
    }

    /// The method that was called.
    pub const fn method(&self) -> &'static MethodSpec {
        self.method
    }

    /// The wire protocol of the call.
    pub fn protocol(&self) -> Protocol {
        self.request.accepted.protocol()
    }

    /// Resolves when the call is over, also when it was answered: for tasks that the handler started.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled::new(self.seat.signal())
    }

    /// Values that interceptors and transports left for the handler.
    pub const fn extensions(&self) -> &Extensions {
        &self.request.extensions
    }

    /// Values for those who come after.
    pub fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.request.extensions
    }

    /// Response metadata that go before the first message. After it they are on their way, and changes
    /// are lost.
    pub fn headers_mut(&mut self) -> HeadersMut<'_> {
        HeadersMut { headers: self.seat.take_headers().unwrap_or_default(), seat: &self.seat }
    }

    /// Response metadata that go with the status.
    pub fn trailers_mut(&mut self) -> &mut Metadata {
        self.trailers.get_or_insert_default()
    }

    /// Sends the messages from here on as they are, whatever was agreed on: for a response that does not compress.
    pub fn disable_compression(&mut self) {
        self.request.compressor = Compressor::default();
        self.seat.disable_compression();
    }

    /// Chooses when the messages of the response leave, where there may be several. At first it is as in
    /// [`Config`](trirpc_core::Config::flush_watermark).
    pub fn set_flush_policy(&mut self, policy: FlushPolicy) {
        self.seat.set_flush_policy(policy);
    }

    /// Generated code: answers a call that has a single response.
    #[doc(hidden)]
    pub fn respond<Req, Res>(self, method: &'static Method<Req, Res>, result: Result<Res, Status>) {
        let codec = method.codecs().get(self.codec).unwrap_or_else(|| method.default_codec()).response;
        match result {
            Ok(message) => self.seat.respond(&Typed::new(codec, &message), self.request, self.trailers),
            Err(status) => self.finish(Err(status)),
        }
    }

    /// Generated code: ends a call whose messages were sent one by one.
    #[doc(hidden)]
    pub fn finish(self, result: Result<(), Status>) {
        let trailers = self.trailers.map_or_else(Metadata::new, |trailers| *trailers);
        self.seat.finish(result.err().unwrap_or(Status::OK), trailers, self.request);
    }
}

/// Response headers, lent for changing. They are handed over when this is dropped, so drop it before
/// the first message.
#[derive(Debug)]
pub struct HeadersMut<'a> {
    headers: Metadata,
    seat: &'a CallSeat,
}

impl Deref for HeadersMut<'_> {
    type Target = Metadata;

    fn deref(&self) -> &Metadata {
        &self.headers
    }
}

impl DerefMut for HeadersMut<'_> {
    fn deref_mut(&mut self) -> &mut Metadata {
        &mut self.headers
    }
}

impl Drop for HeadersMut<'_> {
    fn drop(&mut self) {
        self.seat.put_headers(std::mem::take(&mut self.headers));
    }
}

#[cfg(not(target_family = "wasm"))]
type Value = Box<dyn Any + Send + Sync>;
#[cfg(target_family = "wasm")]
type Value = Box<dyn Any>;

/// Values by their type; at most one of each.
#[derive(Default)]
pub struct Extensions {
    /// Few, so that looking through them is quicker than hashing; and mostly none.
    #[expect(clippy::box_collection, reason = "every call has room for it")]
    values: Option<Box<Vec<(TypeId, Value)>>>,
}

impl Extensions {
    /// The value of type `T`.
    pub fn get<T: 'static>(&self) -> Option<&T> {
        self.values.as_ref()?.get(self.place::<T>()?)?.1.downcast_ref()
    }

    pub(super) fn clear(&mut self) {
        self.values = None;
    }

    /// Adds a value and returns the one of its type that was there before.
    pub fn insert<T: MaybeSend + crate::MaybeSync + 'static>(&mut self, value: T) -> Option<T> {
        let before = self.remove();
        self.values.get_or_insert_default().push((TypeId::of::<T>(), Box::new(value)));
        before
    }

    /// Takes the value of type `T`.
    pub fn remove<T: 'static>(&mut self) -> Option<T> {
        let place = self.place::<T>()?;
        self.values.as_mut()?.swap_remove(place).1.downcast().ok().map(|value| *value)
    }

    fn place<T: 'static>(&self) -> Option<usize> {
        self.values.as_ref()?.iter().position(|(id, _)| *id == TypeId::of::<T>())
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extensions").field("len", &self.values.as_ref().map_or(0, |values| values.len())).finish()
    }
}
