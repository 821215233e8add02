//! What a handle for making calls adds to each of them.

use std::borrow::Cow;
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
    ) -> Result<(Cow<'a, CallOptions>, Attached), Status> {
        let mut options = Cow::Borrowed(options);
        if let (None, Some(protocol)) = (options.protocol, self.protocol) {
            options.to_mut().protocol = Some(protocol);
        }
        if let (None, Some(fast)) = (options.unary_fast_path, self.unary_fast_path) {
            options.to_mut().unary_fast_path = Some(fast);
        }
        let codings = self.compress(&mut options)?;
        let observed =
            if self.interceptors.is_none() { None } else { Some(self.intercept(method, options.to_mut(), now())?) };
        Ok((options, Attached { codings, observed }))
    }

    fn intercept(&self, method: &MethodSpec, options: &mut CallOptions, now: Instant) -> Result<Box<Observed>, Status> {
        let protocol = options.protocol.unwrap_or(Protocol::Grpc);
        let info = CallInfo::new(CallSide::Client, method, protocol, now);
        let mut hooks =
            Hooks::new(&self.interceptors, info.with_peer(self.target.as_ref()).with_replays(options.replays));
        hooks.info.metadata = std::mem::take(&mut options.metadata);
        hooks.info.timeout = options.timeout;
        let passed = hooks.on_request();
        options.metadata = std::mem::take(&mut hooks.info.metadata);
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
    fn compress(&self, options: &mut Cow<'_, CallOptions>) -> Result<Codings, Status> {
        let send = match options.compression {
            Some("identity") => None,
            Some(name) => Some(self.compressions.find(name).ok_or_else(|| unknown(name))?),
            None => self.compressions.default_send(),
        };
        let name = send.map(|algorithm| algorithm.name());
        if self.compressions.is_none() {
            if options.accept_compressions.as_ref().is_some_and(|names| !names.is_empty()) {
                options.to_mut().accept_compressions = Some(Encodings::NONE);
            }
            return Ok(Codings::default());
        }
        let owned = options.to_mut();
        owned.compression = name;
        owned.accept_compressions = Some(self.compressions.accept_names());
        Ok(Codings::new(self.compressions.clone(), Compressor::new(send)))
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
                let Ok((options, _)) = prepared else { panic!("nothing refuses the call") };
                assert_eq!(options.unary_fast_path, call.or(channel), "channel {channel:?}, call {call:?}");
            }
        }
    }
}
