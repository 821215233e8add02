//! Small messages of one call on their way to its connection, behind a lock of their own.
//!
//! Who sends many small messages in a row needs the connection for the first two only: they are queued, and a turn of the
//! driver is to come that takes them. Until somebody takes the connection's lock for a change, the driver or another
//! caller, the next messages of that call are encoded beside it, and whoever takes the lock takes them in first. So
//! nobody can tell that they were not in the connection all along.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trirpc_core::buf::Burst;
use trirpc_core::{CallMut, Instant};

use super::{SessionRole, Shared, State};
use crate::raw::{CallKey, Encode};

/// What is not in the connection yet. There is one call at most that may push.
///
/// It is opened and closed under the connection's lock only. The lock in here is taken with that one held or without it,
/// and none is taken while it is held.
pub(super) struct Outbox {
    /// [Bits](CallKey::bits) of the call that may push, 0 if there is none. Without the lock that of the connection gives,
    /// this is a hint.
    call: AtomicU64,
    pushed: Mutex<Pushed>,
}

#[derive(Default)]
struct Pushed {
    /// Whose messages these are.
    key: Option<CallKey>,
    burst: Burst,
}

impl Outbox {
    pub(super) fn new() -> Self {
        Self { call: AtomicU64::new(0), pushed: Mutex::default() }
    }

    /// Whether a call may push, as far as is known.
    #[inline]
    pub(super) fn may_push(&self, key: CallKey) -> bool {
        self.call.load(Ordering::Relaxed) == key.bits()
    }

    /// Takes a message, if its call may push and there is room; if not, nothing happened.
    #[inline(always)] // there is one caller for each role
    pub(super) fn push(&self, key: CallKey, message: &dyn Encode) -> bool {
        let Some(len) = message.encoded_len() else { return false };
        let pushed = &mut *self.lock();
        pushed.key == Some(key) && pushed.burst.push(len, |dst| message.encode(dst))
    }

    /// Whether a call may push. With the lock of the connection held.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.call.load(Ordering::Relaxed) != 0
    }

    /// Lets `call` push what more it has. With the lock of the connection held, and nobody pushing.
    #[cold]
    pub(super) fn open<R: SessionRole>(&self, key: CallKey, call: &mut CallMut<'_, R>) {
        let pushed = &mut *self.lock();
        call.begin_burst(&mut pushed.burst);
        pushed.key = Some(key);
        self.call.store(key.bits(), Ordering::Relaxed);
    }

    /// Gives the memory back, unless a call may push. With the lock of the connection held.
    pub(super) fn release_idle(&self) {
        if !self.is_open() {
            *self.lock() = Pushed::default();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pushed> {
        // A codec that panicked has left no whole message.
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: SessionRole> Shared<R> {
    /// Closes the outbox, and takes in what was pushed: before anything else happens to the connection.
    #[cold]
    pub(super) fn take_in(&self, state: &mut State<R>, now: Instant) {
        let pushed = &mut *self.outbox.lock();
        self.outbox.call.store(0, Ordering::Relaxed);
        let id = pushed.key.take().and_then(|key| state.slots.find(key)).map(|slot| slot.id);
        if let Some(mut call) = id.and_then(|id| state.conn.call(id)) {
            call.send_burst(&pushed.burst, now);
        }
        pushed.burst.end();
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use std::sync::Arc;
    use std::task::Poll;

    use trirpc_core::buf::FlushPolicy;
    use trirpc_core::call::Code;
    use trirpc_core::{Client, Config, Endpoint, HttpVersion};

    use super::super::race::{SIZE, open, send};
    use super::*;
    use crate::client::handshake;
    use crate::duplex::duplex;
    use crate::raw::{Carrier, Half, RawCall};
    use crate::time::ManualTime;

    /// Octets of a message in its stream.
    const WHOLE: usize = SIZE + 5;

    /// Plays with a session whose driver never runs.
    fn play(steps: impl FnOnce(&dyn Fn(FlushPolicy) -> RawCall, &Shared<Client>)) {
        let (config, time) = (Arc::new(Config::default()), ManualTime::new());
        let (session, _driver) = handshake(duplex(1024).0, config, Endpoint::http("outbox"), HttpVersion::Http2, time);
        steps(&|policy| open(&session, policy), session.shared());
    }

    fn say(shared: &Shared<Client>, call: &RawCall) -> Result<(), Code> {
        match send(shared, call.parts().1) {
            Poll::Ready(sent) => sent.map_err(|status| status.code()),
            Poll::Pending => panic!("there is room"),
        }
    }

    /// Octets that the connection takes for this call, without taking in anything.
    fn room(shared: &Shared<Client>, call: &RawCall) -> usize {
        shared.look(|state| {
            let id = state.slots.find(call.parts().1).expect("a call").id;
            state.conn.call(id).expect("a call").send_capacity()
        })
    }

    #[test]
    fn messages_stay_beside_the_connection_until_somebody_changes_it() {
        play(|open, shared| {
            let (call, other) = (open(FlushPolicy::Immediate), open(FlushPolicy::Immediate));
            let whole = room(shared, &call);
            for queued in [1, 2, 2, 2, 2, 2, 2, 2, 2] {
                say(shared, &call).unwrap();
                assert_eq!(whole - room(shared, &call), queued * WHOLE);
            }
            say(shared, &other).unwrap();
            assert_eq!((room(shared, &call), room(shared, &other)), (whole - 9 * WHOLE, whole - WHOLE));
            assert!(!shared.outbox.is_open());
            (0..3).for_each(|_| say(shared, &call).unwrap());
            shared.turn(shared.now(), |_| ());
            assert_eq!(room(shared, &call), whole - 12 * WHOLE);
        });
    }

    /// A message that the call's end goes before is refused, and none is told that it was sent.
    #[test]
    fn a_call_that_is_over_takes_no_more_beside_the_connection() {
        play(|open, shared| {
            let call = open(FlushPolicy::Immediate);
            (0..5).for_each(|_| say(shared, &call).unwrap());
            assert!(shared.outbox.is_open());
            shared.release(call.parts().1, Half::Recv, true);
            assert_eq!(say(shared, &call), Err(Code::Cancelled));
            let call = open(FlushPolicy::Immediate);
            (0..5).for_each(|_| say(shared, &call).unwrap());
            Carrier::finish(shared, call.parts().1).unwrap();
            assert_eq!(say(shared, &call), Err(Code::FailedPrecondition));
        });
    }

    #[test]
    fn a_call_that_holds_back_sends_by_its_connection() {
        play(|open, shared| {
            let call = open(FlushPolicy::coalesce(None));
            (0..5).for_each(|_| say(shared, &call).unwrap());
            assert!(!shared.outbox.is_open());
        });
    }
}
