//! The calls of a connection: a slab with generations, and what each call has been told.

use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::buf::capacity;
use crate::event::CallId;
use crate::http2::StreamKey;

/// One call: the pure machine and its place in the engine.
pub(crate) struct Call<M> {
    pub(crate) machine: M,
    pub(crate) stream: StreamKey,
    pub(crate) signals: Signals,
    /// The engine has nothing more for this call, and takes nothing more from it.
    pub(crate) is_over: bool,
}

impl<M> Call<M> {
    #[inline]
    pub(crate) const fn new(machine: M, stream: StreamKey) -> Self {
        Self { machine, stream, signals: Signals::new(), is_over: false }
    }
}

/// Kinds of event that belong to a call, in the order in which they are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Signal {
    Head = 1,
    Readable = 2,
    Writable = 4,
    Finished = 8,
}

/// A set of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SignalSet(u8);

impl SignalSet {
    pub(crate) const NONE: Self = Self(0);
    const ALL: Self = Self(0b1111);

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    const fn contains(self, signal: Signal) -> bool {
        self.0 & signal as u8 != 0
    }

    pub(crate) const fn add(&mut self, signal: Signal) {
        self.0 |= signal as u8;
    }

    /// Takes the first one out.
    pub(crate) fn pop(&mut self) -> Option<Signal> {
        let all = [Signal::Head, Signal::Readable, Signal::Writable, Signal::Finished];
        let first = all.into_iter().find(|signal| self.contains(*signal))?;
        self.0 &= !(first as u8);
        Some(first)
    }
}

impl From<Signal> for SignalSet {
    fn from(signal: Signal) -> Self {
        Self(signal as u8)
    }
}

/// Which events a call may still raise, and which wait to be told.
///
/// A kind is raised only while it is armed, and raising disarms it. `Readable` and `Writable` are armed again when the
/// application runs into `Blocked`; the other two are raised once in a call's life. `Finished` takes the place of what
/// was not told yet: who hears of the end looks at everything that is there.
#[derive(Clone, Copy)]
pub(crate) struct Signals {
    armed: SignalSet,
    queued: SignalSet,
}

impl Signals {
    const fn new() -> Self {
        Self { armed: SignalSet::ALL, queued: SignalSet::NONE }
    }

    pub(crate) fn arm(&mut self, signal: Signal) {
        self.armed.add(signal);
    }

    /// Queues those of `due` that are armed. True if nothing was queued before, and something is now.
    pub(crate) fn raise(&mut self, due: SignalSet) -> bool {
        let (raised, was_empty) = (SignalSet(self.armed.0 & due.0), self.queued.is_empty());
        self.armed.0 &= !raised.0;
        self.queued.0 |= raised.0;
        if raised.contains(Signal::Finished) {
            self.queued = Signal::Finished.into();
            self.armed = SignalSet::NONE;
        }
        was_empty && !self.queued.is_empty()
    }

    /// What is to be told next.
    pub(crate) fn pop(&mut self) -> Option<Signal> {
        self.queued.pop()
    }

    pub(crate) fn has_queued(self) -> bool {
        !self.queued.is_empty()
    }
}

/// Slab of calls. A slot is reused under the next generation.
pub(crate) struct Calls<M> {
    slots: Vec<Slot<M>>,
    free: Vec<u32>,
    /// Generation of slots that are new: no id of those that were given back has it.
    generation: NonZeroU32,
}

struct Slot<M> {
    generation: NonZeroU32,
    call: Option<Call<M>>,
}

impl<M> Calls<M> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), generation: NonZeroU32::MIN }
    }

    /// Most bytes of memory for `calls` at once.
    pub(crate) const fn max_bytes(calls: usize) -> usize {
        capacity(calls).saturating_mul(size_of::<Slot<M>>() + size_of::<u32>())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Slot of the next call.
    pub(crate) fn next_index(&self) -> u32 {
        // Calls are bounded by `max_concurrent_streams` and `max_pending`, far below u32.
        self.free.last().copied().unwrap_or(self.slots.len() as u32)
    }

    /// Puts a call into a slot. It is made there, for it is large, and moving it costs as much as making it.
    #[inline]
    #[expect(clippy::indexing_slicing, reason = "a free slot, or the one that was pushed")]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce() -> Call<M>) -> (CallId, &mut Call<M>) {
        let index = self.next_index();
        if self.free.pop().is_none() {
            self.slots.push(Slot { generation: self.generation, call: None });
        }
        let slot = &mut self.slots[index as usize];
        (CallId::new(index, slot.generation), slot.call.get_or_insert_with(make))
    }

    pub(crate) fn get(&self, id: CallId) -> Option<&Call<M>> {
        let slot = self.slots.get(id.index())?;
        if slot.generation == id.generation() { slot.call.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: CallId) -> Option<&mut Call<M>> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation() { slot.call.as_mut() } else { None }
    }

    /// Frees a slot, and returns what the engine and the events still need to know of its call.
    pub(crate) fn remove(&mut self, id: CallId) -> Option<(StreamKey, Signals)> {
        let slot = self.slots.get_mut(id.index())?;
        let call = slot.call.as_ref().filter(|_| slot.generation == id.generation())?;
        let rest = (call.stream, call.signals);
        slot.call = None;
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        self.free.push(id.index() as u32);
        Some(rest)
    }

    /// Gives memory back that no call needs, once there is none. Ids that were given out stay stale.
    pub(crate) fn release_idle(&mut self) {
        if self.len() == 0 {
            let generation = self.slots.iter().map(|slot| slot.generation).fold(self.generation, NonZeroU32::max);
            *self = Self { generation, ..Self::new() };
        }
    }

    /// The live call in slot `index`: the engine names calls by slot, and forgets them in the same step.
    pub(crate) fn at(&mut self, index: u32) -> Option<(CallId, &mut Call<M>)> {
        let slot = self.slots.get_mut(index as usize)?;
        let id = CallId::new(index, slot.generation);
        slot.call.as_mut().map(|call| (id, call))
    }

    /// The call in slot `index`.
    pub(crate) fn get_at(&self, index: u32) -> Option<&Call<M>> {
        self.slots.get(index as usize)?.call.as_ref()
    }

    /// The machines of all calls.
    pub(crate) fn machines(&mut self) -> impl Iterator<Item = &mut M> {
        self.slots.iter_mut().filter_map(|slot| slot.call.as_mut().map(|call| &mut call.machine))
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = CallId> + '_ {
        let ids = (0..).zip(&self.slots).map(|(index, slot)| (slot, CallId::new(index, slot.generation)));
        ids.filter_map(|(slot, id)| slot.call.as_ref().map(|_| id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u8) -> Call<u8> {
        Call::new(n, StreamKey::for_test())
    }

    #[test]
    fn a_stale_id_never_names_another_call() {
        let mut calls = Calls::new();
        let (first, _) = calls.insert_with(|| call(1));
        assert_eq!(calls.get(first).unwrap().machine, 1);
        assert!(calls.remove(first).is_some());
        assert!(calls.remove(first).is_none(), "an id is spent once");
        let (second, _) = calls.insert_with(|| call(2));
        assert_eq!(second.index(), first.index(), "the slot is reused");
        assert!(calls.get(first).is_none());
        assert_eq!(calls.get(second).unwrap().machine, 2);
        assert_eq!(calls.len(), 1);
    }

    #[test]
    fn an_id_stays_stale_when_the_slots_are_given_back() {
        let mut calls = Calls::new();
        let old: Vec<CallId> = (0..10).map(|n| calls.insert_with(|| call(n)).0).collect();
        calls.release_idle();
        assert_eq!(calls.len(), 10, "nothing happens while there are calls");
        for id in &old {
            assert!(calls.remove(*id).is_some());
        }
        calls.release_idle();
        assert_eq!((calls.slots.capacity(), calls.free.capacity()), (0, 0));
        let (new, _) = calls.insert_with(|| call(11));
        assert!(old.iter().all(|id| calls.get(*id).is_none()) && calls.get(new).is_some());
    }

    #[test]
    fn an_event_is_raised_once_until_it_is_armed_again() {
        let readable = SignalSet::from(Signal::Readable);
        let mut signals = Signals::new();
        assert!(signals.raise(readable) && !signals.raise(readable));
        assert!(!signals.raise(Signal::Head.into()), "an entry of the queue is enough for a call");
        assert!(signals.has_queued());
        let told = core::iter::from_fn(|| signals.pop());
        assert!(told.eq([Signal::Head, Signal::Readable]));
        assert!(!signals.has_queued());
        assert!(!signals.raise(readable), "not acted on yet");
        signals.arm(Signal::Readable);
        assert!(signals.raise(readable));
    }

    #[test]
    fn the_end_of_a_call_takes_the_place_of_what_was_not_told() {
        let mut signals = Signals::new();
        assert!(signals.raise(Signal::Readable.into()));
        assert!(!signals.raise(SignalSet::ALL), "it is queued already");
        assert_eq!((signals.pop(), signals.pop()), (Some(Signal::Finished), None));
        for signal in [Signal::Head, Signal::Readable, Signal::Writable, Signal::Finished] {
            assert!(!signals.raise(signal.into()), "{signal:?} behind the end");
        }
    }
}
