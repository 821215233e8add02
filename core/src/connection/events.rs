//! The queue of hints: one entry a call at most, purged when the call is released.

use alloc::collections::VecDeque;

use super::calls::{Calls, Signal};
use crate::event::{CallId, Event};

pub(crate) struct Events {
    queue: VecDeque<Entry>,
}

enum Entry {
    /// What the [signals](super::calls::Signals) of the call say.
    Call(CallId),
    Connection(Event),
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { queue: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(Entry::Connection(event));
    }

    /// Queues a call of which something [is to be told](super::calls::Signals::raise).
    pub(crate) fn push_call(&mut self, id: CallId) {
        self.queue.push_back(Entry::Call(id));
    }

    pub(crate) fn pop<M>(&mut self, calls: &mut Calls<M>) -> Option<Event> {
        while let Some(Entry::Call(id)) = self.queue.front() {
            let id = *id;
            let signals = calls.get_mut(id).map(|call| &mut call.signals);
            let signal = signals.and_then(|signals| signals.pop().map(|signal| (signal, signals.has_queued())));
            if !signal.is_some_and(|(_, has_more)| has_more) {
                self.queue.pop_front();
            }
            if let Some((signal, _)) = signal {
                return Some(match signal {
                    Signal::Head => Event::Head(id),
                    Signal::Readable => Event::Readable(id),
                    Signal::Writable => Event::Writable(id),
                    Signal::Finished => Event::Finished(id),
                });
            }
        }
        match self.queue.pop_front()? {
            Entry::Connection(event) => Some(event),
            Entry::Call(_) => None,
        }
    }

    /// Drops what is queued for a released call; without it a caller that never polls events would grow
    /// the queue with every call.
    pub(crate) fn forget(&mut self, id: CallId) {
        self.queue.retain(|entry| !matches!(entry, Entry::Call(of) if *of == id));
    }

    /// Gives back memory that nothing is queued in.
    pub(crate) fn release_idle(&mut self) {
        self.queue.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
