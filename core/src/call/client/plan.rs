//! What the calls of a method have in common: worked out once, and shared by those that make the same choices.

use core::ptr;

use bytes::Bytes;

use crate::call::body::Decoder;
use crate::call::method::{CallKind, MethodSpec};
use crate::call::options::{CallLimits, CallOptions};
use crate::call::protocol::{self, Protocol, ProtocolSpec, TripleHeaders};
use crate::call::send::SendSide;
use crate::encodings::{Encodings, IDENTITY};
use crate::error::OpenError;
use crate::http::{DeadlineField, HeaderName, Headers, Method, RequestHead};
use crate::time::Instant;

/// `user-agent` of every request.
pub(super) const USER_AGENT: &str = concat!("trirpc/", env!("CARGO_PKG_VERSION"));

/// Everything of a call that its metadata, its variant, its deadline and its messages have no part in.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) spec: &'static ProtocolSpec,
    pub(super) kind: CallKind,
    path: Bytes,
    pub(super) codec: &'static str,
    compression: Option<&'static str>,
    pub(super) accept_compressions: Encodings,
    max_recv_message: usize,
    max_send_message: usize,
    choices: Choices,
}

/// What of [`CallOptions`] a plan depends on.
#[derive(Debug, PartialEq, Eq)]
struct Choices {
    protocol: Option<Protocol>,
    triple_headers: TripleHeaders,
    compression: Option<&'static str>,
    accept_compressions: Option<Encodings>,
    max_recv_message: Option<usize>,
}

impl Plan {
    /// # Errors
    /// The protocol cannot carry calls of this kind.
    pub(crate) fn new(
        method: &MethodSpec,
        options: &CallOptions,
        codec: &'static str,
        limits: &CallLimits,
    ) -> Result<Self, OpenError> {
        let kind = method.kind();
        let protocol = options.protocol.unwrap_or(Protocol::Grpc);
        let spec = protocol::for_client(protocol, options.triple_headers, kind).ok_or(OpenError::Unsupported)?;
        let offer = options.accept_compressions.as_ref().unwrap_or(&limits.accept_compressions);
        Ok(Self {
            spec,
            kind,
            path: method.path_bytes().clone(),
            codec,
            compression: options.compression.filter(|name| *name != IDENTITY),
            accept_compressions: offer.clone(),
            max_recv_message: options.max_recv_message.unwrap_or(limits.max_recv_message),
            max_send_message: limits.max_send_message,
            choices: Choices {
                protocol: options.protocol,
                triple_headers: options.triple_headers,
                compression: options.compression,
                accept_compressions: options.accept_compressions.clone(),
                max_recv_message: options.max_recv_message,
            },
        })
    }

    /// Whether [`new`](Self::new) with these and the same limits gives the same.
    #[inline]
    pub(crate) fn is_for(&self, method: &MethodSpec, options: &CallOptions, codec: &str) -> bool {
        let path = method.path_bytes();
        let choices = &self.choices;
        (ptr::eq(&*self.path, &**path) || self.path == *path)
            && self.kind == method.kind()
            && (ptr::eq(self.codec, codec) || self.codec == codec)
            && choices.protocol == options.protocol
            && choices.triple_headers == options.triple_headers
            && choices.compression == options.compression
            && choices.accept_compressions == options.accept_compressions
            && choices.max_recv_message == options.max_recv_message
    }

    /// The head, as far as it is the same for all calls; `announces` that messages may be compressed.
    pub(super) fn head(&self, announces: bool, scheme: Bytes, authority: Bytes) -> RequestHead {
        let mut headers = Headers::with_capacity(8);
        let (name, value) = self.spec.marker;
        headers.push(name.clone(), value);
        headers.push(HeaderName::CONTENT_TYPE, self.spec.content_type(self.codec));
        if let Some(name) = self.compression.filter(|_| announces) {
            headers.push(self.spec.encoding.clone(), name);
        }
        if !self.accept_compressions.is_empty() {
            headers.push(self.spec.accept_encoding.clone(), self.accept_compressions.header());
        }
        headers.push(HeaderName::USER_AGENT, USER_AGENT);
        RequestHead { method: Method::Post, scheme, authority, path: self.path.clone(), headers, deadline: None }
    }

    /// The head of calls whose messages are not compressed, as far as it is the same for all of them.
    pub(crate) fn plain_head(&self, scheme: Bytes, authority: Bytes) -> RequestHead {
        self.head(self.send_side().announces_encoding(), scheme, authority)
    }

    /// The field that tells a deadline.
    pub(crate) fn deadline_field(&self, at: Instant) -> Option<DeadlineField> {
        let field = self.spec.timeout()?;
        Some(DeadlineField { at, name: field.name, format: field.format.format() })
    }

    /// What a call may send.
    #[inline]
    pub(crate) fn send_side(&self) -> SendSide {
        let (single, compresses) = (self.kind.is_single_request(), self.compression.is_some());
        SendSide::new(self.spec.body, single, self.max_send_message, compresses)
    }

    #[inline]
    pub(super) fn decoder(&self) -> Decoder {
        Decoder::new(self.spec.body, self.max_recv_message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

    fn limits() -> CallLimits {
        CallLimits::from(&crate::config::Config::default())
    }

    /// Every choice that makes another plan is noticed, and those that do not are not.
    #[test]
    fn a_plan_is_for_calls_that_would_make_the_same_one() {
        let plain = Plan::new(&SAY, &CallOptions::default(), "proto", &limits()).unwrap();
        let same = MethodSpec::from_bytes(Bytes::copy_from_slice(b"/t.Echo/Say"), CallKind::Unary, true).unwrap();
        let mut options = CallOptions::default();
        options.metadata.append("k", "v").unwrap();
        options.timeout = Some(core::time::Duration::from_secs(1));
        assert!(plain.is_for(&SAY, &CallOptions::default(), "proto") && plain.is_for(&same, &options, "proto"));

        let other = MethodSpec::new("/t.Echo/Yell", CallKind::Unary, false);
        let stream = MethodSpec::new("/t.Echo/Say", CallKind::Bidi, false);
        assert!(!plain.is_for(&other, &options, "proto") && !plain.is_for(&stream, &options, "proto"));
        assert!(!plain.is_for(&SAY, &options, "json"));
        let changes: [fn(&mut CallOptions); 5] = [
            |options| options.protocol = Some(Protocol::Triple),
            |options| options.triple_headers = TripleHeaders::DubboJs,
            |options| options.compression = Some("gzip"),
            |options| options.accept_compressions = Some(Encodings::from_static(&["zstd"])),
            |options| options.max_recv_message = Some(1),
        ];
        for change in changes {
            let mut options = CallOptions::default();
            change(&mut options);
            assert!(!plain.is_for(&SAY, &options, "proto"), "{options:?}");
            assert!(Plan::new(&SAY, &options, "proto", &limits()).unwrap().is_for(&SAY, &options, "proto"));
        }
    }
}
