//! What a handle for making calls adds to each of them.

use std::mem;
use std::sync::Arc;

use trirpc_core::Instant;
use trirpc_core::call::{CallOptions, Encodings, MethodSpec, Protocol, Status};

use super::layer::CallLayers;
use crate::compress::{Codings, Compressions, Compressor};
use crate::intercept::{CallInfo, CallSide, Chain, Hooks, Observed};
use crate::session::Attached;

/// What a [`Channel`](crate::Channel) or a [`ClientSession`](crate::ClientSession) adds to its calls. Nothing is
/// the common case, and costs a look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stack {
    pub(crate) compressions: Compressions,
    /// How calls are written that do not say it.
    pub(crate) protocol: Option<Protocol>,
    /// How unary requests are encoded by calls that do not say it; `None` is the connection's switch.
    pub(crate) unary_fast_path: Option<bool>,
    pub(crate) interceptors: Chain,
    pub(crate) layers: Option<CallLayers>,
    /// Where the calls go, for interceptors.
    pub(crate) target: Option<Arc<str>>,
}

impl Stack {
    pub(crate) const NONE: Self = Self {
        compressions: Compressions::NONE,
        protocol: None,
        unary_fast_path: None,
        interceptors: Chain::NONE,
        layers: None,
        target: None,
    };

    /// The options of a call with what this adds. The call is not made yet: whoever fails to make it
    /// [abandons](Attached::abandon) what is attached.
    ///
    /// # Errors
    /// The call asks for a compression that is not here, or an interceptor refuses it.
    pub(crate) fn prepare<'a>(
        &self,
        method: &MethodSpec,
        options: &'a CallOptions,
        now: impl FnOnce() -> Instant,
    ) -> Result<Prepared<'a>, Status> {
        let mut prepared = Prepared { given: options, changed: None, attached: Attached::default() };
        if let (None, Some(protocol)) = (options.protocol, self.protocol) {
            prepared.options_mut().protocol = Some(protocol);
        }
        if let (None, Some(fast)) = (options.unary_fast_path, self.unary_fast_path) {
            prepared.options_mut().unary_fast_path = Some(fast);
        }
        let is_plain = options.compression.is_none() && options.accept_compressions.is_none();
        if !is_plain || !self.compressions.is_none() {
            prepared.attached.codings = self.compress(&mut prepared)?;
        }
        if !self.interceptors.is_none() {
            prepared.attached.observed = Some(self.intercept(method, prepared.options_mut(), now())?);
        }
        Ok(prepared)
    }

    fn intercept(&self, method: &MethodSpec, options: &mut CallOptions, now: Instant) -> Result<Box<Observed>, Status> {
        let protocol = options.protocol.unwrap_or(Protocol::Grpc);
        let info = CallInfo::new(CallSide::Client, method, protocol, now);
        let mut hooks =
            Hooks::new(&self.interceptors, info.with_peer(self.target.as_ref()).with_replays(options.replays));
        hooks.info.metadata = mem::take(&mut options.metadata);
        hooks.info.timeout = options.timeout;
        let passed = hooks.on_request();
        options.metadata = mem::take(&mut hooks.info.metadata);
        options.timeout = hooks.info.timeout;
        match passed {
            Ok(()) => Ok(Observed::new(hooks)),
            Err(status) => {
                hooks.on_refusal(&status, now);
                Err(status)
            }
        }
    }

    /// How the messages of a call are compressed and inflated; names it in the options.
    fn compress(&self, prepared: &mut Prepared<'_>) -> Result<Codings, Status> {
        let options = prepared.options();
        let send = match options.compression {
            Some("identity") => None,
            Some(name) => Some(self.compressions.find(name).ok_or_else(|| unknown(name))?),
            None => self.compressions.default_send(),
        };
        let name = send.map(|algorithm| algorithm.name());
        if self.compressions.is_none() {
            if options.accept_compressions.as_ref().is_some_and(|names| !names.is_empty()) {
                prepared.options_mut().accept_compressions = Some(Encodings::NONE);
            }
            return Ok(Codings::default());
        }
        let owned = prepared.options_mut();
        owned.compression = name;
        owned.accept_compressions = Some(self.compressions.accept_names());
        Ok(Codings::new(self.compressions.clone(), Compressor::new(send)))
    }
}

/// A call that is to be made.
pub(crate) struct Prepared<'a> {
    given: &'a CallOptions,
    /// In place of those that were given.
    changed: Option<Box<CallOptions>>,
    pub(crate) attached: Attached,
}

impl Prepared<'_> {
    pub(crate) fn options(&self) -> &CallOptions {
        self.changed.as_deref().unwrap_or(self.given)
    }

    /// What a session takes to start it.
    pub(crate) fn parts(&mut self) -> (&CallOptions, &mut Attached) {
        (self.changed.as_deref().unwrap_or(self.given), &mut self.attached)
    }

    pub(crate) fn into_owned(self) -> (CallOptions, Attached) {
        (self.changed.map_or_else(|| self.given.clone(), |changed| *changed), self.attached)
    }

    fn options_mut(&mut self) -> &mut CallOptions {
        self.changed.get_or_insert_with(|| Box::new(self.given.clone()))
    }
}

fn unknown(name: &str) -> Status {
    Status::invalid_argument(format!("there is no compression `{name}` here: add it to the channel first"))
}

#[cfg(test)]
mod tests {
    use trirpc_core::call::CallKind;

    use super::*;

    /// bg:R1: the switch of a call comes before its channel's, and that before the connection's, which is `None` here.
    #[test]
    fn a_call_chooses_the_fast_path_before_its_channel_does() {
        static METHOD: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);
        for channel in [None, Some(false), Some(true)] {
            for call in [None, Some(false), Some(true)] {
                let stack = Stack { unary_fast_path: channel, ..Stack::default() };
                let mut options = CallOptions::default();
                options.unary_fast_path = call;
                let prepared = stack.prepare(&METHOD, &options, || Instant::ZERO);
                let Ok(prepared) = prepared else { panic!("nothing refuses the call") };
                assert_eq!(prepared.options().unary_fast_path, call.or(channel), "channel {channel:?}, call {call:?}");
            }
        }
    }
}
