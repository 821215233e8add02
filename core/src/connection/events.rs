//! The queue of hints: deduplicated per call, purged when a call is released.

use alloc::collections::VecDeque;

use super::calls::{Calls, Signal, Signals};
use crate::event::{CallId, Event};

pub(crate) struct Events {
    queue: VecDeque<Event>,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(event);
    }

    /// Queues `signal` of call `id`, unless it already was and has not been acted on.
    pub(crate) fn raise(&mut self, id: CallId, signals: &mut Signals, signal: Signal) {
        if signals.raise(signal) {
            self.queue.push_back(match signal {
                Signal::Head => Event::Head(id),
                Signal::Readable => Event::Readable(id),
                Signal::Writable => Event::Writable(id),
                Signal::Finished => Event::Finished(id),
            });
        }
    }

    pub(crate) fn pop<M>(&mut self, calls: &mut Calls<M>) -> Option<Event> {
        let event = self.queue.pop_front()?;
        if let Some((id, signal)) = call_signal(&event) {
            if let Some(call) = calls.get_mut(id) {
                call.signals.delivered(signal);
            }
        }
        Some(event)
    }

    /// Drops what is queued for a released call; without it a caller that never polls events would grow
    /// the queue with every call.
    pub(crate) fn forget(&mut self, id: CallId) {
        self.queue.retain(|event| call_signal(event).is_none_or(|(of, _)| of != id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

fn call_signal(event: &Event) -> Option<(CallId, Signal)> {
    match *event {
        Event::Head(id) => Some((id, Signal::Head)),
        Event::Readable(id) => Some((id, Signal::Readable)),
        Event::Writable(id) => Some((id, Signal::Writable)),
        Event::Finished(id) => Some((id, Signal::Finished)),
        Event::Connected { .. } | Event::Capacity | Event::Incoming | Event::GoingAway | Event::Closed(_) => None,
    }
}
