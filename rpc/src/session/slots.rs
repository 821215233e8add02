//! Who waits for which call: a table beside the connection's own.

use std::mem;
use std::task::{Context, Waker};

use trirpc_core::buf::Run;
use trirpc_core::call::Status;
use trirpc_core::{CallId, CallMut, Instant, Role};

use crate::compress::Codings;
use crate::intercept::{Hooks, Observed};
use crate::raw::{CallKey, Half};

/// The wakers of one call, each owned by one party.
#[derive(Debug)]
pub(crate) struct Slot<X> {
    pub(crate) id: CallId,
    /// Whoever polls for the head or a message.
    pub(crate) recv: Option<Waker>,
    /// Whoever waits for room in the send buffer.
    pub(crate) send: Option<Waker>,
    /// How its messages are compressed and inflated.
    pub(crate) codings: Codings,
    /// What interceptors are to know of it, if there are any.
    pub(crate) observed: Option<Box<Observed>>,
    /// Halves whose owner still exists.
    pub(crate) halves: Halves,
    /// Something has happened to the call since somebody looked for its outcome.
    pub(crate) has_news: bool,
    /// What only one role keeps.
    pub(crate) role: X,
}

/// What goes with a call, apart from what the core is told.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    pub(crate) codings: Codings,
    pub(crate) observed: Option<Box<Observed>>,
    /// Who is going to ask for the outcome.
    pub(crate) waiter: Option<Waker>,
}

impl Attached {
    /// The call never came to be. `now` is left out where there is no clock to ask.
    pub(crate) fn abandon(&mut self, now: Option<Instant>, status: &Status) {
        let Some(mut observed) = self.observed.take() else { return };
        observed.marks.timeline.finished = now;
        if let Some(hooks) = observed.take() {
            hooks.on_finish(status);
        }
    }
}

impl<X> Slot<X> {
    /// Whether there is nothing in it to be dropped, the codings and what the role keeps left aside.
    fn is_bare(&self) -> bool {
        self.recv.is_none() && self.send.is_none() && self.observed.is_none()
    }

    /// Whether its messages go out as they are, and nobody asks when.
    pub(crate) fn is_plain(&self) -> bool {
        self.observed.is_none() && !self.codings.compresses(None, 0)
    }

    /// The hooks, to be run with the lock released, unless they have seen the response.
    pub(crate) fn unanswered_hooks(&mut self) -> Option<Hooks> {
        self.observed.as_mut()?.take_unanswered()
    }

    /// The outcome is known: the record of the call, whose hooks are to be run for the last time with the lock released.
    pub(crate) fn last_observed(&mut self, now: Instant) -> Option<Box<Observed>> {
        let mut observed = self.observed.take()?;
        observed.marks.timeline.finished.get_or_insert(now);
        Some(observed)
    }

    /// The hooks out of it.
    pub(crate) fn last_hooks(&mut self, now: Instant) -> Option<Hooks> {
        self.last_observed(now)?.into_hooks()
    }

    /// One message went to the connection.
    pub(crate) fn message_sent(&mut self, len: usize, now: Instant) {
        if let Some(observed) = &mut self.observed {
            observed.marks.message_sent(len, now);
        }
    }

    /// Takes messages that are there already behind one that was taken, up to `max` bytes of them.
    pub(crate) fn take_ahead<R: Role>(
        &mut self,
        call: &mut CallMut<'_, R>,
        ahead: Option<&mut Run>,
        max: usize,
        now: Instant,
    ) {
        let Some(ahead) = ahead.filter(|ahead| ahead.messages() == 0) else { return };
        *ahead = call.recv_ahead(max);
        if let Some(observed) = &mut self.observed {
            observed.marks.messages_received(ahead, now);
        }
    }

    /// One message came from the connection.
    pub(crate) fn message_received(&mut self, len: usize, now: Instant) {
        if let Some(observed) = &mut self.observed {
            observed.marks.message_received(len, now);
        }
    }
}

/// What is left of a slot that was discarded, to be dropped once the lock is released: it may run code of others.
pub(crate) struct Discarded<X> {
    pub(crate) codings: Codings,
    /// The rest, without the codings. There seldom is one, hence the box.
    pub(crate) slot: Option<Box<Slot<X>>>,
}

/// Which halves of a call are still owned by somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Halves(u8);

impl Halves {
    pub(crate) const BOTH: Self = Self(0b11);

    pub(crate) fn remove(&mut self, half: Half) {
        self.0 &= !half.bit();
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the owner of `half` is the last.
    pub(crate) fn are(self, half: Half) -> bool {
        self.0 & !half.bit() == 0
    }
}

/// Slots at the index of their [`CallId`], so that an event finds its waiters without a search.
///
/// Bounded by the calls of the connection. A [`CallKey`] carries a generation, so that a handle that
/// outlives its call never reaches the next call in the same slot.
#[derive(Debug)]
pub(crate) struct Slots<X> {
    entries: Vec<Entry<X>>,
    len: usize,
    /// Generation of entries that are new: none of those that were given back had a later one.
    generation: u32,
}

#[derive(Debug)]
struct Entry<X> {
    generation: u32,
    slot: Option<Slot<X>>,
}

impl<X> Slots<X> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), len: 0, generation: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, id: CallId, attached: Attached, role: X) -> CallKey {
        let index = id.index();
        if self.entries.len() <= index {
            let generation = self.generation;
            self.entries.resize_with(index + 1, || Entry { generation, slot: None });
        }
        let Attached { codings, observed, waiter } = attached;
        let entry = &mut self.entries[index];
        entry.generation = entry.generation.wrapping_add(1);
        if entry.slot.is_none() {
            self.len += 1;
        }
        entry.slot =
            Some(Slot { id, recv: waiter, send: None, codings, observed, halves: Halves::BOTH, has_news: false, role });
        CallKey::new(index as u32, entry.generation)
    }

    pub(crate) fn find(&mut self, key: CallKey) -> Option<&mut Slot<X>> {
        let entry = self.entries.get_mut(key.index())?;
        if entry.generation == key.generation() { entry.slot.as_mut() } else { None }
    }

    /// The slot that an event is about.
    pub(crate) fn by_id(&mut self, id: CallId) -> Option<(CallKey, &mut Slot<X>)> {
        let entry = self.entries.get_mut(id.index())?;
        let key = CallKey::new(id.index() as u32, entry.generation);
        let slot = entry.slot.as_mut()?;
        (slot.id == id).then_some((key, slot))
    }

    pub(crate) fn remove(&mut self, key: CallKey) -> Option<Slot<X>> {
        let entry = self.entries.get_mut(key.index())?;
        if entry.generation != key.generation() {
            return None;
        }
        let slot = entry.slot.take()?;
        self.len -= 1;
        Some(slot)
    }

    /// Removes a slot, and returns what of it is to be dropped; `is_bare` says whether the role keeps nothing of that
    /// kind.
    pub(crate) fn discard(&mut self, key: CallKey, is_bare: impl FnOnce(&X) -> bool) -> Discarded<X> {
        let entry = self.entries.get_mut(key.index()).filter(|entry| entry.generation == key.generation());
        let Some(place) = entry.map(|entry| &mut entry.slot) else {
            return Discarded { codings: Codings::default(), slot: None };
        };
        let Some(slot) = place else {
            return Discarded { codings: Codings::default(), slot: None };
        };
        let codings = mem::take(&mut slot.codings);
        if slot.is_bare() && is_bare(&slot.role) {
            // A slot that is bare has nothing to drop, which the compiler cannot know.
            mem::forget(place.take());
            self.len -= 1;
            return Discarded { codings, slot: None };
        }
        Discarded { codings, slot: self.remove(key).map(Box::new) }
    }

    /// Gives the memory back if there is no call.
    pub(crate) fn release_idle(&mut self) {
        if self.len == 0 {
            self.generation = self.entries.iter().fold(self.generation, |latest, entry| latest.max(entry.generation));
            self.entries = Vec::new();
        }
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<X>> {
        self.entries.iter_mut().filter_map(|entry| entry.slot.as_mut())
    }

    /// Wakers that are stored.
    pub(crate) fn wakers(&self) -> usize {
        let slots = self.entries.iter().filter_map(|entry| entry.slot.as_ref());
        slots.map(|slot| usize::from(slot.recv.is_some()) + usize::from(slot.send.is_some())).sum()
    }
}

/// Stores the waker of `cx`, without cloning it when it is already there. One that it takes the place of
/// is put aside: dropped here, under the lock, it might take a task with it.
pub(crate) fn register(waker: &mut Option<Waker>, cx: &Context<'_>, stale: &mut Vec<Waker>) {
    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
        stale.extend(waker.replace(cx.waker().clone()));
    }
}

/// Moves a stored waker to the list of those to fire once the lock is released.
pub(crate) fn collect(waker: &mut Option<Waker>, wakes: &mut Vec<Waker>) {
    wakes.extend(mem::take(waker));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use trirpc_core::call::{CallKind, CallOptions, MethodSpec};
    use trirpc_core::{Client, Config, Connection, Endpoint, HttpVersion};

    use super::*;
    use crate::compress::{Compressions, Compressor};

    static SAY: MethodSpec = MethodSpec::new("/t.Echo/Say", CallKind::Unary, false);

    fn ids(count: usize) -> Vec<CallId> {
        let (config, now) = (Arc::new(Config::default()), Instant::default());
        let mut conn = Connection::<Client>::new(config, Endpoint::http("t"), HttpVersion::Http2, now);
        (0..count).map(|_| conn.open(&SAY, &CallOptions::default(), "t", now).expect("room")).collect()
    }

    #[test]
    fn a_key_names_no_other_call_also_after_the_memory_was_given_back() {
        let (ids, mut slots) = (ids(3), Slots::new());
        let mut old = Vec::new();
        for round in 0..5 {
            let keys: Vec<CallKey> = ids.iter().map(|id| slots.insert(*id, Attached::default(), round)).collect();
            assert!(old.iter().all(|key| slots.find(*key).is_none()), "round {round}");
            slots.release_idle();
            assert_eq!(slots.len(), 3, "calls keep their slots");
            for key in &keys {
                assert_eq!(slots.find(*key).map(|slot| slot.role), Some(round));
                assert!(slots.discard(*key, |_| true).slot.is_none() && slots.find(*key).is_none());
                assert!(slots.discard(*key, |_| true).slot.is_none(), "it is gone");
            }
            old.extend(keys);
            if round % 2 == 0 {
                slots.release_idle();
                assert_eq!((slots.len(), slots.entries.capacity()), (0, 0));
            }
        }
    }

    #[test]
    fn what_may_run_code_of_others_is_not_dropped_with_its_slot() {
        let (ids, mut slots) = (ids(1), Slots::new());
        let key = slots.insert(ids[0], Attached::default(), ());
        assert!(slots.discard(key, |()| false).slot.is_some(), "the role says so");
        let key = slots.insert(ids[0], Attached::default(), ());
        slots.find(key).expect("there").recv = Some(Waker::noop().clone());
        assert!(slots.discard(key, |()| true).slot.is_some(), "a waker");
        let codings = Codings::new(Compressions::default(), Compressor::default());
        let key = slots.insert(ids[0], Attached { codings, ..Attached::default() }, ());
        let discarded = slots.discard(key, |()| true);
        assert!(discarded.slot.is_none() && !discarded.codings.is_none(), "compressions");
        assert_eq!(slots.len(), 0);
    }
}
