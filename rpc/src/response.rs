//! A message with the metadata around it.

use trirpc_core::call::Metadata;

/// A response with the metadata that came before and after its message.
#[derive(Clone, Debug)]
pub struct Response<T> {
    message: T,
    headers: Metadata,
    trailers: Metadata,
}

impl<T> Response<T> {
    pub(crate) fn new(message: T, headers: Metadata, trailers: Metadata) -> Self {
        Self { message, headers, trailers }
    }

    /// The message.
    pub const fn message(&self) -> &T {
        &self.message
    }

    /// Metadata that came before the message.
    pub const fn headers(&self) -> &Metadata {
        &self.headers
    }

    /// Metadata that came with the status.
    pub const fn trailers(&self) -> &Metadata {
        &self.trailers
    }

    /// The message alone.
    pub fn into_message(self) -> T {
        self.message
    }

    /// Message, headers, trailers.
    pub fn into_parts(self) -> (T, Metadata, Metadata) {
        (self.message, self.headers, self.trailers)
    }
}
