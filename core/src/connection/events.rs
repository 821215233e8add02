//! The queue of hints: one entry a call at most, purged when the call is released.

use alloc::collections::VecDeque;

use super::calls::{Calls, Signal};
use crate::event::{CallId, Event};

pub(crate) struct Events {
    /// Whose turn it is: a call's, of which its [signals](super::calls::Signals) say what is to be told, or the
    /// connection's.
    turns: VecDeque<Option<CallId>>,
    connection: VecDeque<Event>,
}

impl Events {
    pub(crate) const fn new() -> Self {
        Self { turns: VecDeque::new(), connection: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, event: Event) {
        self.turns.push_back(None);
        self.connection.push_back(event);
    }

    /// Queues a call of which something [is to be told](super::calls::Signals::raise).
    #[inline]
    pub(crate) fn push_call(&mut self, id: CallId) {
        self.turns.push_back(Some(id));
    }

    #[inline]
    pub(crate) fn pop<M>(&mut self, calls: &mut Calls<M>) -> Option<Event> {
        while let Some(id) = *self.turns.front()? {
            let signals = calls.get_mut(id).map(|call| &mut call.signals);
            let signal = signals.and_then(|signals| signals.pop().map(|signal| (signal, signals.has_queued())));
            if !signal.is_some_and(|(_, has_more)| has_more) {
                self.turns.pop_front();
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
        self.turns.pop_front();
        self.connection.pop_front()
    }

    /// Drops what is queued for a released call; without it a caller that never polls events would grow
    /// the queue with every call.
    pub(crate) fn forget(&mut self, id: CallId) {
        self.turns.retain(|turn| *turn != Some(id));
    }

    /// Gives back memory that nothing is queued in.
    pub(crate) fn release_idle(&mut self) {
        self.turns.shrink_to_fit();
        self.connection.shrink_to_fit();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}
