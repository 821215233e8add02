//! The outcome of a call: a code, who is behind it, and what HTTP calls the same thing.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use core::fmt;

use bytes::Bytes;

use super::metadata::{Metadata, MetadataError};
use crate::error::{ConnectionError, ErrorCode, StreamError};

pub(crate) mod tables;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $value:literal, $name:literal $(, $constructor:ident)?;)*) => {
        /// Status codes of gRPC, which all dialects share.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Code {
            $($(#[$doc])* $variant = $value,)*
        }

        impl Code {
            /// Every code, in the order of its number.
            pub const ALL: [Self; 17] = [$(Self::$variant),*];

            /// The registered name, such as `NOT_FOUND`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }

        impl Status {
            $($(
                #[doc = concat!("A status with the code [`", stringify!($variant), "`](Code::", stringify!($variant), ").")]
                pub fn $constructor(message: impl Into<Cow<'static, str>>) -> Self {
                    Self::new(Code::$variant, message)
                }
            )?)*
        }
    };
}

codes! {
    /// Success.
    Ok = 0, "OK";
    /// The call was cancelled, usually by the caller.
    Cancelled = 1, "CANCELLED", cancelled;
    /// An error that carries no better code.
    Unknown = 2, "UNKNOWN", unknown;
    /// The request is wrong whatever the state of the system.
    InvalidArgument = 3, "INVALID_ARGUMENT", invalid_argument;
    /// The deadline passed first; the call may have had its effect.
    DeadlineExceeded = 4, "DEADLINE_EXCEEDED", deadline_exceeded;
    /// What was asked for does not exist.
    NotFound = 5, "NOT_FOUND", not_found;
    /// What was to be created exists.
    AlreadyExists = 6, "ALREADY_EXISTS", already_exists;
    /// The caller may not do this.
    PermissionDenied = 7, "PERMISSION_DENIED", permission_denied;
    /// A quota or a limit is used up.
    ResourceExhausted = 8, "RESOURCE_EXHAUSTED", resource_exhausted;
    /// The system is not in the state that the call needs.
    FailedPrecondition = 9, "FAILED_PRECONDITION", failed_precondition;
    /// The call lost against a concurrent one.
    Aborted = 10, "ABORTED", aborted;
    /// Past the end of a valid range.
    OutOfRange = 11, "OUT_OF_RANGE", out_of_range;
    /// The method does not exist, or does not do this.
    Unimplemented = 12, "UNIMPLEMENTED", unimplemented;
    /// An invariant is broken.
    Internal = 13, "INTERNAL", internal;
    /// The service cannot be reached now; trying again may help.
    Unavailable = 14, "UNAVAILABLE", unavailable;
    /// Data is lost or corrupt.
    DataLoss = 15, "DATA_LOSS", data_loss;
    /// The caller is not known.
    Unauthenticated = 16, "UNAUTHENTICATED", unauthenticated;
}

impl Code {
    /// The code with this number; numbers that are not registered are [`Unknown`](Self::Unknown).
    #[expect(clippy::indexing_slicing, reason = "compared with the length just before")]
    pub const fn from_raw(raw: u32) -> Self {
        if raw < Self::ALL.len() as u32 { Self::ALL[raw as usize] } else { Self::Unknown }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who ended a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The peer: by its status, by plain HTTP, by a reset, or by an answer that breaks the protocol.
    Peer,
    /// This side: a limit, a deadline, a cancellation, or the application.
    #[default]
    Local,
    /// The connection between them.
    Transport,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Peer => "peer",
            Self::Local => "this side",
            Self::Transport => "transport",
        })
    }
}

/// The outcome of a call. One pointer wide; success without metadata allocates nothing.
///
/// A status that the application makes is [`Origin::Local`] until it has crossed the wire. Its metadata are the
/// trailers of the call.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Status(Option<Box<Inner>>);

#[derive(Clone, Default, PartialEq, Eq)]
struct Inner {
    raw: u32,
    origin: Origin,
    unprocessed: bool,
    message: Cow<'static, str>,
    details: Bytes,
    metadata: Metadata,
}

/// What [`Status`] points at while it is plain success.
static SUCCESS: Inner = Inner {
    raw: Code::Ok as u32,
    origin: Origin::Local,
    unprocessed: false,
    message: Cow::Borrowed(""),
    details: Bytes::new(),
    metadata: Metadata::new(),
};

impl Status {
    /// Success.
    pub const OK: Self = Self(None);

    /// A status made on this side.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Some(Box::new(Inner { raw: code as u32, message: message.into(), ..Inner::default() })))
    }

    /// A status that the peer sent as a number, which may be an unregistered one.
    pub(crate) fn from_peer(raw: u32, message: Cow<'static, str>, details: Bytes, metadata: Metadata) -> Self {
        if raw == 0 && message.is_empty() && details.is_empty() && metadata.is_empty() {
            return Self::OK;
        }
        Self(Some(Box::new(Inner { raw, origin: Origin::Peer, unprocessed: false, message, details, metadata })))
    }

    /// The status of a call whose stream the peer reset.
    pub fn from_reset(code: ErrorCode) -> Self {
        let status = Self::new(tables::reset_code(code), alloc::format!("stream reset: {code}"));
        let status = status.with_origin(Origin::Peer);
        if code == ErrorCode::REFUSED_STREAM { status.with_unprocessed() } else { status }
    }

    /// The status of a call whose connection ended under it. Whether the call was
    /// [unprocessed](Self::with_unprocessed) depends on what had been written, which the connection knows.
    pub fn from_connection(error: &ConnectionError) -> Self {
        let (code, origin) = match error {
            ConnectionError::Shutdown | ConnectionError::Aborted(_) => (Code::Unavailable, Origin::Local),
            ConnectionError::Misbehaved(_) | ConnectionError::Foreign(_) => (Code::Internal, Origin::Peer),
            ConnectionError::PeerClosed(go_away) => (tables::go_away_code(go_away.code), Origin::Peer),
            ConnectionError::Transport(_) | ConnectionError::Timeout(_) => (Code::Unavailable, Origin::Transport),
        };
        Self::new(code, alloc::format!("{error}")).with_origin(origin)
    }

    /// Adds a serialised `google.rpc.Status`, for `grpc-status-details-bin`.
    ///
    /// Details of more than 4 KiB are left out on the wire: many peers take no larger header list.
    #[must_use]
    pub fn with_details(mut self, details: Bytes) -> Self {
        self.inner_mut().details = details;
        self
    }

    /// Sets the metadata that go into the trailers with it.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.inner_mut().metadata = metadata;
        self
    }

    /// Says who ended the call.
    #[must_use]
    pub fn with_origin(mut self, origin: Origin) -> Self {
        self.inner_mut().origin = origin;
        self
    }

    /// Says that the peer certainly did not begin to process the call, so that it may be sent again.
    #[must_use]
    pub fn with_unprocessed(mut self) -> Self {
        self.inner_mut().unprocessed = true;
        self
    }

    /// The code.
    pub fn code(&self) -> Code {
        Code::from_raw(self.inner().raw)
    }

    /// The number that the peer sent, which may be one that [`Code`] does not name.
    pub fn raw_code(&self) -> u32 {
        self.inner().raw
    }

    /// Whether it is success.
    pub fn is_ok(&self) -> bool {
        self.code() == Code::Ok
    }

    /// What happened, for people; may be empty.
    pub fn message(&self) -> &str {
        &self.inner().message
    }

    /// A serialised `google.rpc.Status`, or nothing.
    pub fn details(&self) -> &Bytes {
        &self.inner().details
    }

    /// Trailers of the call.
    pub fn metadata(&self) -> &Metadata {
        &self.inner().metadata
    }

    /// Trailers of the call, to add to.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.inner_mut().metadata
    }

    /// Who ended the call.
    pub fn origin(&self) -> Origin {
        self.inner().origin
    }

    /// Whether this side ended the call.
    pub fn is_local(&self) -> bool {
        self.origin() == Origin::Local
    }

    /// Whether the peer certainly did not begin to process the call, so that it may be sent again.
    pub fn is_unprocessed(&self) -> bool {
        self.inner().unprocessed
    }

    pub(crate) fn append_message(&mut self, text: &str) {
        self.inner_mut().message.to_mut().push_str(text);
    }

    fn inner(&self) -> &Inner {
        self.0.as_deref().unwrap_or(&SUCCESS)
    }

    fn inner_mut(&mut self) -> &mut Inner {
        self.0.get_or_insert_default()
    }
}

impl From<StreamError> for Status {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Reset(code) => Self::from_reset(code),
            StreamError::Deadline => Self::deadline_exceeded("deadline exceeded"),
            StreamError::Cancelled => Self::cancelled("cancelled"),
            StreamError::Connection => Self::unavailable("connection lost").with_origin(Origin::Transport),
        }
    }
}

impl From<MetadataError> for Status {
    fn from(error: MetadataError) -> Self {
        Self::invalid_argument(alloc::format!("{error}"))
    }
}

/// Code, message, who failed, and whether the call may be sent again:
/// `UNAVAILABLE: stream reset: REFUSED_STREAM [by the peer, which did not process the call]`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        write!(f, "{}", self.code())?;
        if inner.raw != self.code() as u32 {
            write!(f, " ({})", inner.raw)?;
        }
        if !inner.message.is_empty() {
            write!(f, ": {}", inner.message)?;
        }
        if self.is_ok() {
            return Ok(());
        }
        f.write_str(match (inner.origin, inner.unprocessed) {
            (Origin::Peer, false) => " [by the peer]",
            (Origin::Peer, true) => " [by the peer, which did not process the call]",
            (Origin::Local, false) => " [on this side; the peer may have processed the call]",
            (Origin::Local, true) => " [on this side; the peer did not process the call]",
            (Origin::Transport, false) => " [in transport; the peer may have processed the call]",
            (Origin::Transport, true) => " [in transport; the peer did not process the call]",
        })
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.inner();
        f.debug_struct("Status")
            .field("code", &self.code())
            .field("raw", &inner.raw)
            .field("message", &inner.message)
            .field("details", &inner.details.len())
            .field("metadata", &inner.metadata)
            .field("origin", &inner.origin)
            .field("unprocessed", &inner.unprocessed)
            .finish()
    }
}

impl core::error::Error for Status {}

#[cfg(test)]
mod tests;
