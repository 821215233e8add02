//! What every call builder can set.

use std::time::Duration;

use bytes::Bytes;
use trirpc_core::Instant;
use trirpc_core::call::{CallOptions, Status};

use crate::cancel::Cancelled;
use crate::server::Context;

/// Options of a call that was not started yet, and the first mistake made while setting them.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    pub(crate) options: CallOptions,
    pub(crate) error: Option<Status>,
    pub(crate) parent: Option<Cancelled>,
    deadline: Option<Instant>,
}

impl Setup {
    pub(crate) fn timeout(&mut self, timeout: Duration) {
        self.options.timeout = Some(timeout);
    }

    pub(crate) fn metadata(&mut self, key: &str, value: &[u8]) {
        let metadata = &mut self.options.metadata;
        let appended = match std::str::from_utf8(value) {
            _ if key.ends_with("-bin") => metadata.append_bin(key, value),
            Ok(text) => metadata.append(key, text),
            Err(_) => metadata.append_opaque(key, Bytes::copy_from_slice(value)),
        };
        if let Err(error) = appended {
            self.error.get_or_insert_with(|| error.into());
        }
    }

    pub(crate) fn within(&mut self, cx: &Context) {
        if let Some(remaining) = cx.remaining() {
            self.options.timeout = Some(self.options.timeout.map_or(remaining, |own| own.min(remaining)));
        }
        self.parent = Some(cx.cancelled());
    }

    /// Fixes the deadline at the first start; a replay gets what remains of it.
    pub(crate) fn start(&mut self, now: impl FnOnce() -> Instant) -> Result<&CallOptions, Status> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match (self.deadline, self.options.timeout) {
            (None, Some(timeout)) => self.deadline = Some(now() + timeout),
            (Some(deadline), Some(_)) => self.options.timeout = Some(deadline - now()),
            (_, None) => {}
        }
        Ok(&self.options)
    }
}

/// The setters of a call builder, forwarded to its [`Setup`].
macro_rules! setters {
    () => {
        /// Ends the call with `DeadlineExceeded` this long after its start; connecting, sending and
        /// receiving are all covered, and the server learns of it.
        pub fn timeout(mut self, timeout: std::time::Duration) -> Self {
            self.setup.timeout(timeout);
            self
        }

        /// Adds metadata. Keys that end in `-bin` take any bytes, others visible ASCII and blanks. A key
        /// or value that cannot be sent ends the call with `InvalidArgument`.
        pub fn metadata(mut self, key: impl AsRef<str>, value: impl AsRef<[u8]>) -> Self {
            self.setup.metadata(key.as_ref(), value.as_ref());
            self
        }

        /// Compresses the messages of this call by the compression of this name, which the channel must have;
        /// `identity` compresses none.
        pub fn compress(mut self, name: &'static str) -> Self {
            self.setup.options.compression = Some(name);
            self
        }

        /// When the messages of this call leave, if it sends a stream of them.
        pub fn flush_policy(mut self, policy: trirpc_core::buf::FlushPolicy) -> Self {
            self.setup.options.flush = Some(policy);
            self
        }

        /// Makes the call part of the one that is being served: it has no more time than that one, and
        /// ends with it.
        pub fn within(mut self, cx: &crate::server::Context) -> Self {
            self.setup.within(cx);
            self
        }

        /// The wire protocol, instead of the channel's; a protocol without streams of its own carries them as gRPC.
        pub fn protocol(mut self, protocol: trirpc_core::call::Protocol) -> Self {
            self.setup.options.protocol = Some(protocol);
            self
        }

        /// Whether a unary request may be encoded straight into the output, instead of what the channel says. No peer sees
        /// a difference; this is for comparing.
        pub fn unary_fast_path(mut self, enabled: bool) -> Self {
            self.setup.options.unary_fast_path = Some(enabled);
            self
        }

        /// Which implementation of the service the call is for, where the server has several: Dubbo's group and
        /// version.
        pub fn variant(mut self, variant: trirpc_core::call::ServiceVariant) -> Self {
            self.setup.options.variant = variant;
            self
        }

        /// Every option at once; what was set before is replaced.
        pub fn options(mut self, options: trirpc_core::call::CallOptions) -> Self {
            self.setup.options = options;
            self
        }
    };
}
pub(crate) use setters;
