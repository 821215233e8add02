//! A connection shared between its driver and the callers.
//!
//! # Lock rules
//! One mutex guards the connection and the table of wakers. While it is held: no system calls (the clock
//! is read before), no foreign wakers fired or dropped (they are collected and fired after), and no user code but
//! `Codec::encode` of a message of at most [`INLINE`] bytes, or [`INLINE_UNARY`]; larger messages are encoded outside.
//! Decoding, compressing and inflating are always outside. A codec that panics leaves the core consistent, so a poisoned lock is
//! taken as it is. No other lock is taken while it is held but that of the [outbox], which holds messages that are to be
//! taken in before anything is changed.

mod client;
mod client_handle;
mod dispatch;
mod outbox;
pub(crate) mod parking;
mod plain;
#[cfg(all(test, not(target_family = "wasm")))]
mod race;
mod seat;
mod send;
mod server;
mod slots;

use std::fmt;
use std::mem;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use trirpc_core::buf::{BufferPool, FlushPolicy};
use trirpc_core::call::Status;
use trirpc_core::{
    CallId, CallMut, Config, Connection, ConnectionError, Event, Instant, Role, SendError, TransportError,
};

pub(crate) use client::Unwritten;
pub use client_handle::ClientSession;
pub(crate) use dispatch::Dispatch;
pub(crate) use seat::CallSeat;
pub(crate) use server::Served;
pub use server::ServerSession;

use crate::marker::{MaybeSend, MaybeSync};
use crate::raw::CallKey;
use crate::time::Clock;
use outbox::Outbox;
use parking::Parking;
pub(crate) use slots::Attached;
use slots::{Slot, Slots, collect};

/// Largest message of a stream that is encoded under the lock, in bytes.
pub(crate) const INLINE: usize = 16 * 1024;

/// Largest message of a unary call that is encoded under the lock, in bytes: what the core may encode where it leaves from.
pub(crate) const INLINE_UNARY: usize = 64 * 1024;

/// Sessions of this process so far.
static SESSIONS: AtomicU64 = AtomicU64::new(1);

/// What the two roles do differently.
pub(crate) trait SessionRole: Role + Sized + 'static {
    /// Kept beside each call.
    type Slot: fmt::Debug;
    /// Known from the start; no lock guards it.
    type Fixed: MaybeSend + MaybeSync;
    /// Kept once.
    type Extra;

    /// What the driver does for the calls, besides waking.
    type Work;

    /// The driver, under the lock: takes what it is to do. True if there is something.
    fn collect(work: &mut Self::Work, state: &mut State<Self>, now: Instant) -> bool;

    /// The driver, with no lock held: does it.
    fn run(work: &mut Self::Work, shared: &Arc<Shared<Self>>);

    /// Gives back memory that nothing needs at present.
    fn release_idle(work: &mut Self::Work, extra: &mut Self::Extra);

    /// Wakes whatever else waits for the end of a call.
    fn finished(slot: &mut Slot<Self::Slot>, wakes: &mut Vec<Waker>);

    /// Whether more is to be done with the events of this call than to wake its owners.
    fn is_told(slot: &Slot<Self::Slot>) -> bool;

    /// An event of such a call, whose owners will be woken.
    fn tell(state: &mut State<Self>, key: CallKey, event: &Event, now: Instant);

    /// There are calls to be accepted.
    fn incoming(state: &mut State<Self>, now: Instant);

    /// Whether interceptors of the session itself look at its calls.
    fn observes(fixed: &Self::Fixed) -> bool;

    /// Called before each message that is sent.
    fn before_send(slot: &mut Slot<Self::Slot>, call: &mut CallMut<'_, Self>, now: Instant) -> Result<(), SendError>;

    /// Why a call cannot go on, where the role knows better than the error does. `cause` is what the
    /// transport said when it failed.
    fn status(call: &CallMut<'_, Self>, cause: Option<&str>) -> Option<Status>;
}

/// What driver, session handles and calls share.
pub(crate) struct Shared<R: SessionRole> {
    clock: Box<dyn Clock>,
    pub(crate) fixed: R::Fixed,
    /// Unique in this process.
    id: u64,
    /// Whether a call here may be watched by interceptors of the session itself, so that a message that is sent looks for
    /// them.
    observes: bool,
    /// When the driver's turn began, or when somebody woke it for one, in nanoseconds of its clock; 0 while it sleeps.
    /// Only a hint: it saves callers that come meanwhile a look at the clock.
    awake_at: AtomicU64,
    /// When the driver's last turn began.
    seen_at: AtomicU64,
    /// Whether there ever was a call here of which it matters when its messages are sent or received.
    is_timed: AtomicBool,
    /// The [bits](CallKey::bits) of the call that was answered last. Only a hint: it saves the driver, whose handlers
    /// mostly are done when they have answered, a look under the lock.
    answered: AtomicU64,
    state: Mutex<State<R>>,
    outbox: Outbox,
    max_send_message: usize,
    compress_min: usize,
    recv_ahead: usize,
    /// Buffers for messages that are encoded outside; never locked together with `state`.
    pool: Mutex<BufferPool>,
}

/// What the lock guards.
pub(crate) struct State<R: SessionRole> {
    pub(crate) conn: Connection<R>,
    pub(crate) slots: Slots<R::Slot>,
    pub(crate) parking: Parking,
    pub(crate) extra: R::Extra,
    /// Why the connection ended, once it has.
    pub(crate) closed: Option<ConnectionError>,
    /// What the transport said when it failed.
    pub(crate) cause: Option<String>,
    /// GOAWAY was sent or received, or the connection ended.
    pub(crate) going_away: bool,
    /// To fire once the lock is released.
    wakes: Vec<Waker>,
    /// To drop once the lock is released.
    stale: Vec<Waker>,
}

impl<R: SessionRole> Shared<R> {
    pub(crate) fn new(conn: Connection<R>, fixed: R::Fixed, extra: R::Extra, clock: impl Clock + 'static) -> Arc<Self> {
        let observes = R::observes(&fixed);
        let config = conn.config();
        let Config { max_send_message, compress_min, recv_ahead, .. } = *config;
        let is_timed = observes || FlushPolicy::from(config).is_timed();
        let pool = Mutex::new(BufferPool::new(config.pool_bytes));
        let state = State {
            conn,
            slots: Slots::new(),
            parking: Parking::default(),
            extra,
            closed: None,
            cause: None,
            going_away: false,
            wakes: Vec::new(),
            stale: Vec::new(),
        };
        Arc::new(Self {
            clock: Box::new(clock),
            fixed,
            id: SESSIONS.fetch_add(1, Ordering::Relaxed),
            observes,
            awake_at: AtomicU64::new(0),
            seen_at: AtomicU64::new(0),
            is_timed: AtomicBool::new(is_timed),
            answered: AtomicU64::new(CallKey::ONLY.bits()),
            state: Mutex::new(state),
            outbox: Outbox::new(),
            max_send_message,
            compress_min,
            recv_ahead,
            pool,
        })
    }

    /// [`Config::max_read`], at least one byte: a read of none would be the end.
    pub(crate) fn max_read(&self) -> usize {
        self.look(|state| state.conn.config().max_read.max(1))
    }

    pub(crate) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A caller's turn: changes the state, then wakes whom the change concerns.
    pub(crate) fn with<T>(&self, change: impl FnOnce(&mut State<R>, Instant) -> T) -> T {
        self.with_at(self.lately(), change)
    }

    /// [`with`](Self::with) at `now`, where it matters to the microsecond.
    pub(crate) fn with_at<T>(&self, now: Instant, change: impl FnOnce(&mut State<R>, Instant) -> T) -> T {
        let mut state = self.lock();
        if self.outbox.is_open() {
            self.take_in(&mut state, now);
        }
        let result = change(&mut state, now);
        // A cancelled call concerns whoever waits on its other half, also while the driver is stuck on
        // a full socket: hints are not left to it.
        if state.conn.has_events() {
            state.drain_events(now);
        }
        let driver = state.unpark();
        if driver.is_some() && now.as_nanos() > self.seen_at.load(Ordering::Relaxed) {
            self.awake_at.store(now.as_nanos(), Ordering::Relaxed);
        }
        if !state.wakes.is_empty() || !state.stale.is_empty() {
            let (wakes, stale) = (mem::take(&mut state.wakes), mem::take(&mut state.stale));
            drop(state);
            drop(stale);
            wakes.into_iter().chain(driver).for_each(Waker::wake);
        } else if let Some(driver) = driver {
            drop(state);
            driver.wake();
        }
        result
    }

    /// A look that changes nothing that concerns others.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut State<R>) -> T) -> T {
        look(&mut self.lock())
    }

    /// The driver's turn at `now`: it fires what it collects itself.
    pub(crate) fn turn<T>(&self, now: Instant, change: impl FnOnce(&mut State<R>) -> T) -> T {
        self.awake_at.store(now.as_nanos(), Ordering::Relaxed);
        self.seen_at.store(now.as_nanos(), Ordering::Relaxed);
        let mut state = self.lock();
        if self.outbox.is_open() {
            self.take_in(&mut state, now);
        }
        let result = change(&mut state);
        if state.parking.is_parked() {
            self.awake_at.store(0, Ordering::Relaxed);
        }
        result
    }

    /// The present, as the driver saw it at the start of its turn while it is in the middle of one, or as who woke it for
    /// one did.
    pub(crate) fn lately(&self) -> Instant {
        match self.awake_at.load(Ordering::Relaxed) {
            nanos if nanos > 0 && !self.is_timed.load(Ordering::Relaxed) => Instant::from_nanos(nanos),
            _ => self.now(),
        }
    }

    /// The present, for what no timer follows from, such as messages of a stream: when the driver was last at it, as long
    /// as nobody asks when a message came or left, and none is held back for a time.
    pub(crate) fn about_now(&self) -> Instant {
        if self.is_timed.load(Ordering::Relaxed) {
            return self.lately();
        }
        Instant::from_nanos(self.seen_at.load(Ordering::Relaxed))
    }

    /// From now on it matters when messages are sent and received.
    pub(crate) fn watch_time(&self) {
        self.is_timed.store(true, Ordering::Relaxed);
    }

    /// Returns memory that is kept for large messages to its limits.
    pub(crate) fn trim(&self) {
        self.look(|state| state.conn.trim());
        self.pool().settle();
    }

    /// Gives memory back that is kept for traffic to come.
    pub(crate) fn release_idle(&self, work: &mut R::Work) {
        let mut state = self.lock();
        state.conn.release_idle();
        state.slots.release_idle();
        state.wakes.shrink_to_fit();
        state.stale.shrink_to_fit();
        self.outbox.release_idle();
        R::release_idle(work, &mut state.extra);
        drop(state);
        self.pool().clear();
    }

    /// The driver is gone: every call fails, and everybody who waits is woken.
    pub(crate) fn disconnect(&self) {
        self.awake_at.store(0, Ordering::Relaxed);
        let driver = self.with(|state, now| {
            let driver = state.parking.withdraw();
            if state.closed.is_none() {
                state.conn.handle_transport_error(TransportError::Other, now);
            }
            state.drain_events(now);
            state.wake_all();
            driver
        });
        drop(driver);
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self) -> MutexGuard<'_, BufferPool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: SessionRole> State<R> {
    /// Turns the connection's hints into wakers to fire.
    pub(crate) fn drain_events(&mut self, now: Instant) {
        while let Some(event) = self.conn.poll_event() {
            match event {
                Event::Head(id) | Event::Readable(id) | Event::Writable(id) | Event::Finished(id) => {
                    self.call_event(id, &event, now);
                }
                Event::Incoming => R::incoming(self, now),
                Event::GoingAway => self.going_away = true,
                Event::Closed(error) => {
                    self.going_away = true;
                    self.closed = Some(error);
                    self.wake_all();
                    // Also a driver that waits for a full socket: it has an end to come to.
                    self.wakes.extend(self.parking.withdraw());
                }
                _ => {}
            }
        }
    }

    fn call_event(&mut self, id: CallId, event: &Event, now: Instant) {
        let Some((key, slot)) = self.slots.by_id(id) else { return };
        slot.has_news = true;
        match event {
            Event::Writable(_) => collect(&mut slot.send, &mut self.wakes),
            Event::Finished(_) => {
                collect(&mut slot.recv, &mut self.wakes);
                collect(&mut slot.send, &mut self.wakes);
                R::finished(slot, &mut self.wakes);
            }
            _ => collect(&mut slot.recv, &mut self.wakes),
        }
        if R::is_told(slot) {
            R::tell(self, key, event, now);
        }
    }

    /// The waker of a parked driver that a change concerns.
    fn unpark(&mut self) -> Option<Waker> {
        if !self.parking.is_parked() {
            return None;
        }
        let (has_work, timeout) = (self.conn.wants_poll(), self.conn.poll_timeout());
        self.parking.unpark(has_work, timeout)
    }

    /// Takes the wakers that are to be fired once the lock is released, into an empty list.
    pub(crate) fn take_wakes(&mut self, wakes: &mut Vec<Waker>) {
        mem::swap(&mut self.wakes, wakes);
    }

    fn wake_all(&mut self) {
        for slot in self.slots.iter_mut() {
            collect(&mut slot.recv, &mut self.wakes);
            collect(&mut slot.send, &mut self.wakes);
            R::finished(slot, &mut self.wakes);
        }
    }
}

impl<R: SessionRole> fmt::Debug for Shared<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Session")
            .field("calls", &state.slots.len())
            .field("going_away", &state.going_away)
            .field("closed", &state.closed)
            .finish_non_exhaustive()
    }
}
