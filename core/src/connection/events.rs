//! The queue of hints: deduplicated per call, purged when a call is released.

use alloc::collections::VecDeque;

use super::calls::{Calls, Signal, SignalSet};
use crate::event::{CallId, Event};

pub(crate) struct Events {
    queue: VecDeque<Entry>,
}

/// What was raised at once.
enum Entry {
    Call(CallId, SignalSet),
    Connection(Event),
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(Entry::Connection(event));
    }

    /// Queues what a call [raised](super::calls::Signals::raise), which is something.
    pub(crate) fn push_call(&mut self, id: CallId, raised: SignalSet) {
        self.queue.push_back(Entry::Call(id, raised));
    }

    pub(crate) fn pop<M>(&mut self, calls: &mut Calls<M>) -> Option<Event> {
        if let Some(Entry::Call(id, raised)) = self.queue.front_mut() {
            let (id, signal) = (*id, raised.pop());
            if raised.is_empty() {
                self.queue.pop_front();
            }
            let signal = signal?;
            if let Some(call) = calls.get_mut(id) {
                call.signals.delivered(signal);
            }
            return Some(match signal {
                Signal::Head => Event::Head(id),
                Signal::Readable => Event::Readable(id),
                Signal::Writable => Event::Writable(id),
                Signal::Finished => Event::Finished(id),
            });
        }
        match self.queue.pop_front()? {
            Entry::Connection(event) => Some(event),
            Entry::Call(..) => None,
        }
    }

    /// Drops what is queued for a released call; without it a caller that never polls events would grow
    /// the queue with every call.
    pub(crate) fn forget(&mut self, id: CallId) {
        self.queue.retain(|entry| !matches!(entry, Entry::Call(of, _) if *of == id));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
