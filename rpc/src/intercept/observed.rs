//! The record of one call, kept beside it.

use trirpc_core::Instant;
use trirpc_core::buf::Run;
use trirpc_core::call::{Metadata, Status};

use super::{CallInfo, Chain, Timeline, Traffic};

/// Instants and counters of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Marks {
    pub(crate) timeline: Timeline,
    pub(crate) sent: Traffic,
    pub(crate) received: Traffic,
    pub(crate) session: Option<u64>,
}

impl Marks {
    pub(crate) fn message_sent(&mut self, len: usize, now: Instant) {
        self.sent.count(1, len);
        self.timeline.first_message_out.get_or_insert(now);
        self.timeline.last_message_out = Some(now);
    }

    pub(crate) fn message_received(&mut self, len: usize, now: Instant) {
        self.received.count(1, len);
        self.timeline.first_message_in.get_or_insert(now);
        self.timeline.last_message_in = Some(now);
    }

    pub(crate) fn messages_received(&mut self, run: &Run, now: Instant) {
        if run.messages() > 0 {
            self.received.count(run.messages(), run.bytes());
            self.timeline.last_message_in = Some(now);
        }
    }
}

impl Traffic {
    fn count(&mut self, messages: usize, bytes: usize) {
        self.messages += messages as u64;
        self.bytes += bytes as u64;
    }
}

/// A call that is watched. The marks stay with the call; the hooks leave it while they run, for they run with no
/// lock held.
#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) marks: Marks,
    hooks: Option<Hooks>,
}

impl Observed {
    pub(crate) fn new(hooks: Hooks) -> Box<Self> {
        Box::new(Self { marks: hooks.info.marks, hooks: Some(hooks) })
    }

    /// The hooks, to run them as they find the call now.
    pub(crate) fn take(&mut self) -> Option<Hooks> {
        let mut hooks = self.hooks.take()?;
        hooks.info.marks = self.marks;
        Some(hooks)
    }

    /// The hooks, unless they have seen the response already.
    pub(crate) fn take_unanswered(&mut self) -> Option<Hooks> {
        if self.hooks.as_ref().is_some_and(|hooks| !hooks.is_answered) { self.take() } else { None }
    }

    /// The hooks for the last time, unless they are running at the moment.
    pub(crate) fn into_hooks(mut self: Box<Self>) -> Option<Hooks> {
        self.take()
    }

    pub(crate) fn put_back(&mut self, hooks: Hooks) {
        self.hooks = Some(hooks);
    }
}

/// Interceptors and what they know of the call.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub(crate) info: CallInfo,
    chain: Chain,
    /// Interceptors that let the request pass.
    entered: usize,
    is_answered: bool,
}

impl Hooks {
    pub(crate) fn new(chain: &Chain, info: CallInfo) -> Self {
        Self { info, chain: chain.clone(), entered: 0, is_answered: false }
    }

    /// Runs `on_request`, up to the first that refuses.
    pub(crate) fn on_request(&mut self) -> Result<(), Status> {
        for interceptor in self.chain.interceptors() {
            interceptor.on_request(&mut self.info)?;
            self.entered += 1;
        }
        Ok(())
    }

    /// Runs `on_response` with the metadata of the response; returns them as the hooks left them.
    pub(crate) fn on_response(&mut self, metadata: Metadata) -> Metadata {
        self.is_answered = true;
        self.info.response = metadata;
        for interceptor in self.chain.interceptors().iter().rev() {
            interceptor.on_response(&mut self.info);
        }
        std::mem::take(&mut self.info.response)
    }

    /// Runs `on_finish` of those that let the request pass.
    pub(crate) fn on_finish(self, status: &Status) {
        for interceptor in self.chain.interceptors()[..self.entered].iter().rev() {
            interceptor.on_finish(&self.info, status);
        }
    }

    /// Runs `on_finish` of those that let the request pass, when one refused it.
    pub(crate) fn on_refusal(mut self, status: &Status, now: Instant) {
        self.info.marks.timeline.finished = Some(now);
        self.on_finish(status);
    }

    /// Runs what is left for a response whose head and outcome came together.
    pub(crate) fn on_outcome(mut self, metadata: Option<Metadata>, status: &Status) {
        if let Some(metadata) = metadata.filter(|_| !self.is_answered) {
            self.on_response(metadata);
        }
        self.on_finish(status);
    }
}
