//! The only I/O loop: moves bytes between a transport and its connection.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use trirpc_core::buf::{Spaces, Transmit};
use trirpc_core::{ConnectionError, Instant, Timeout, TransportError};

use crate::input::Input;
use crate::session::{SessionRole, Shared};
use crate::time::{Time, Timer};
use crate::transport::Transport;

/// Rounds of a poll before it yields to other tasks.
const ROUNDS: usize = 32;
/// Slices in one vectored write.
const SLICES: usize = 64;
/// One-slice transports get their output in pieces of this size, so that TLS records stay large.
const SCRATCH: usize = 16 * 1024;
/// Silence after which a connection gives back the memory that it keeps for the next output; also how often one that is
/// not silent returns to the limits of what it keeps.
const IDLE: Duration = Duration::from_secs(1);
/// How long the last bytes may wait for the transport, if the configuration does not say.
const FLUSH: Duration = Duration::from_secs(30);
/// How long the peer's last bytes are read and discarded after our side is closed.
const DISCARD: Duration = Duration::from_secs(1);

/// Runs one connection: a future to be spawned or awaited. Its output says why the connection ended.
///
/// A round is: read; under the lock, hand over what was read, fire timers, take output and hints; then, with
/// the lock released, wake whom the hints concern, and write. So what the frames of one read bring about
/// leaves in one write. When a round finds nothing to do, it stores its waker in the same critical section in
/// which it found out, so no caller's wake-up is lost; while it runs no caller wakes it. A poll is bounded by
/// 32 rounds, and ends with one that woke somebody: they read what came while it is in the processor's cache, the window
/// it lies in is free again for the next read, and what they answer leaves in the next round.
///
/// Dropped early, it fails every call of the session, and the transport is dropped with it.
#[must_use = "a connection does nothing unless its driver is polled"]
#[allow(private_bounds, reason = "the roles are sealed: client and server")]
pub struct Driver<T, R: SessionRole, Z: Time> {
    io: T,
    shared: Arc<Shared<R>>,
    work: R::Work,
    time: Z,
    timer: Z::Timer,
    /// The instant for which `timer` is set and not yet seen to fire.
    timer_at: Option<Instant>,
    /// Whom `timer` wakes then.
    timer_wakes: Option<Waker>,
    rx: Input,
    tx: Transmit,
    scratch: Vec<u8>,
    wakes: Vec<Waker>,
    read: ReadSide,
    /// Whether the connection takes more input, as it said in the last turn.
    wants_read: bool,
    /// A large message is arriving: the connection may know where the next read goes.
    is_bulk: bool,
    /// Most bytes that one read takes; at least one.
    max_read: usize,
    spare: Spare,
    /// When memory for large messages is next returned to its limits.
    trim_at: Instant,
    /// Why the transport takes no more bytes. What it still has to give is read first.
    write_error: Option<TransportError>,
    /// What the transport itself said of its first failure.
    cause: Option<String>,
    /// When a connection that is over stops trying to write its last bytes.
    flush_by: Option<Instant>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadSide {
    /// The transport may have something.
    Ready,
    /// The last read took all there was: ask before the next one.
    Drained,
    /// It has nothing now, and will wake us.
    Pending,
    /// It ended or failed, and the connection is yet to be told.
    Ended(Option<TransportError>),
    /// The connection knows.
    Closed,
}

/// What becomes of the memory that a connection keeps for its next output: one that is silent keeps none.
#[derive(Clone, Copy, Debug)]
enum Spare {
    /// Bytes moved since the driver last slept.
    InUse,
    /// Nothing moved since; to be given back at this instant.
    Idle(Instant),
    /// Given back until bytes move again.
    Released,
}

/// The last steps: our side is closed, the peer's is read to its end.
#[derive(Debug)]
struct Ending {
    reason: ConnectionError,
    is_closed: bool,
}

/// What happened to a round's critical section.
enum Turn {
    /// There is something to write, to wake or to read.
    Work,
    /// The waker is stored: nothing to do until somebody fires it, or until this instant.
    Parked(Option<Instant>),
    /// The connection is over and its output written.
    Over(ConnectionError),
}

#[allow(private_bounds, reason = "the roles are sealed")]
impl<T: Transport, R: SessionRole, Z: Time> Driver<T, R, Z> {
    pub(crate) fn new(io: T, shared: Arc<Shared<R>>, work: R::Work, time: Z) -> Self {
        Self {
            io,
            max_read: shared.max_read(),
            shared,
            work,
            timer: time.timer(),
            trim_at: time.now() + IDLE,
            time,
            timer_at: None,
            timer_wakes: None,
            rx: Input::default(),
            tx: Transmit::new(),
            scratch: Vec::new(),
            wakes: Vec::new(),
            read: ReadSide::Ready,
            wants_read: true,
            is_bulk: false,
            spare: Spare::InUse,
            write_error: None,
            cause: None,
            flush_by: None,
            ending: None,
        }
    }

    /// One poll, up to the point where the window of the thread is given back.
    fn run(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        if self.ending.is_some() {
            return self.poll_ending(cx);
        }
        // Whatever woke us, the transport may be ready again.
        if self.read == ReadSide::Pending {
            self.read = ReadSide::Drained;
        }
        let mut write_blocked = false;
        // Something may be due when we are woken. What becomes due while we run is seen when we park.
        let mut may_be_due = true;
        for _ in 0..ROUNDS {
            let now = self.time.now();
            if self.timer_at.is_some_and(|at| at <= now) {
                // Deadlines go before what came meanwhile: they make room that it may need.
                self.timer_at = None;
                may_be_due = true;
            } else if self.wants_read {
                self.read(cx);
            }
            if may_be_due && self.trim_at <= now {
                self.trim_at = now + IDLE;
                self.shared.trim();
            }
            let turn = self.turn(write_blocked, mem::take(&mut may_be_due), now, cx.waker());
            let has_woken = !self.wakes.is_empty();
            self.deliver();
            match turn {
                Turn::Work => {}
                Turn::Parked(armed) => {
                    let idle = self.release_idle(now);
                    let armed = armed.into_iter().chain(idle).min();
                    if !self.poll_timer(armed, cx) {
                        return Poll::Pending;
                    }
                    may_be_due = true;
                    continue;
                }
                Turn::Over(reason) => {
                    self.timer.reset(self.time.now() + DISCARD);
                    self.ending = Some(Ending { reason, is_closed: false });
                    return self.poll_ending(cx);
                }
            }
            if !write_blocked {
                write_blocked = self.write(cx);
            }
            if has_woken {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// One critical section: everything that concerns the connection.
    fn turn(&mut self, write_blocked: bool, may_be_due: bool, now: Instant, waker: &Waker) -> Turn {
        let Self { shared, rx, tx, read, wants_read, is_bulk, write_error, cause, flush_by, wakes, work, .. } = self;
        let mut stale = None;
        let turn = shared.turn(now, |state| {
            stale = state.parking.withdraw();
            if !rx.is_empty() {
                state.conn.handle_input(rx.window(), now);
                *is_bulk = state.conn.may_prepare_read();
            }
            if let ReadSide::Ended(error) = *read {
                *read = ReadSide::Closed;
                state.cause = cause.take();
                match error.or(*write_error) {
                    Some(error) => state.conn.handle_transport_error(error, now),
                    None => state.conn.handle_eof(now),
                }
            } else if let (Some(error), ReadSide::Pending) = (*write_error, *read) {
                // Nothing more to read either: the connection is gone.
                *read = ReadSide::Closed;
                state.cause = cause.take();
                state.conn.handle_transport_error(error, now);
            }
            if may_be_due {
                state.conn.handle_timeout(now);
            }
            let more = state.conn.poll_transmit(tx, now);
            state.drain_events(now);
            state.take_wakes(wakes);
            let has_starts = R::collect(work, state, now);
            if write_error.is_some() {
                // Nobody takes it.
                tx.advance(tx.len());
            }
            if let Some(reason) = &state.closed {
                let is_flushed = tx.is_empty() && state.conn.is_closed();
                let limit = state.conn.config().write_stall_timeout.unwrap_or(FLUSH);
                // The connection's own timers are gone with it: a peer that does not read is left here.
                let flush_by = *flush_by.get_or_insert(now + limit);
                let is_stuck = *reason == ConnectionError::Timeout(Timeout::WriteStall) || flush_by <= now;
                if is_flushed || (is_stuck && write_blocked) {
                    return Turn::Over(reason.clone());
                }
            }
            let can_write = !tx.is_empty() && !write_blocked;
            *wants_read = state.conn.wants_read();
            let can_read = *wants_read && matches!(read, ReadSide::Ready | ReadSide::Drained);
            if can_write || can_read || (more && !write_blocked) || has_starts || !wakes.is_empty() {
                return Turn::Work;
            }
            let armed = state.conn.poll_timeout();
            state.parking.park(waker.clone(), armed, write_blocked);
            Turn::Parked(armed.into_iter().chain(*flush_by).min())
        });
        drop(stale);
        turn
    }

    /// Fires what a turn collected, with no lock held.
    fn deliver(&mut self) {
        if !self.wakes.is_empty() {
            self.wakes.drain(..).for_each(Waker::wake);
        }
        R::run(&mut self.work, &self.shared);
    }

    /// Writes until there is nothing left (false) or the transport takes no more (true).
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.tx.is_empty() && self.write_error.is_none() {
            let poll = self.poll_write(cx);
            match poll {
                Poll::Pending => return true,
                Poll::Ready(Ok(0)) => self.write_error = Some(TransportError::WriteZero),
                Poll::Ready(Ok(n)) => {
                    self.tx.advance(n.min(self.tx.len()));
                    self.spare = Spare::InUse;
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => self.write_error = Some(self.failed(&error)),
            }
        }
        if self.write_error.is_some() && matches!(self.read, ReadSide::Drained | ReadSide::Pending) {
            // What arrived before the failure is still there to read.
            self.read = ReadSide::Ready;
        }
        false
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let io = Pin::new(&mut self.io);
        let mut chunks = self.tx.chunks();
        if let (Some(only), None) = (chunks.next(), chunks.next()) {
            return io.poll_write(cx, only);
        }
        if !io.is_vectored() {
            self.scratch.resize(SCRATCH, 0);
            let n = self.tx.copy_to(&mut self.scratch);
            return io.poll_write(cx, &self.scratch[..n]);
        }
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut filled = 0;
        for (slice, chunk) in slices.iter_mut().zip(self.tx.chunks()) {
            *slice = IoSlice::new(chunk);
            filled += 1;
        }
        io.poll_write_vectored(cx, &slices[..filled])
    }

    /// One read into the receive window, unless there is nothing to read.
    fn read(&mut self, cx: &mut Context<'_>) {
        if self.read == ReadSide::Drained && self.io.poll_read_ready(cx).is_pending() {
            self.read = ReadSide::Pending;
        }
        if !matches!(self.read, ReadSide::Ready | ReadSide::Drained) {
            return;
        }
        let (poll, room) = self.poll_read(cx);
        self.read = match poll {
            Poll::Pending => ReadSide::Pending,
            Poll::Ready(Ok(0)) => ReadSide::Ended(None),
            Poll::Ready(Ok(n)) => {
                self.rx.window().commit(n);
                self.spare = Spare::InUse;
                if n < room { ReadSide::Drained } else { ReadSide::Ready }
            }
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => ReadSide::Ready,
            Poll::Ready(Err(error)) => ReadSide::Ended(Some(self.failed(&error))),
        };
    }

    /// Reads once; returns for how much there was room as well.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> (Poll<io::Result<usize>>, usize) {
        let window = self.rx.window();
        if self.is_bulk && self.io.is_read_vectored() {
            self.shared.look(|state| state.conn.prepare_read(window));
        }
        let io = Pin::new(&mut self.io);
        if !window.is_scattered() {
            let space = window.space();
            let room = space.len().min(self.max_read);
            return (io.poll_read(cx, &mut space[..room]), room);
        }
        let mut spaces = window.spaces();
        let (mut room, mut slices) = (0, 0);
        let mut all: [_; Spaces::MAX] = std::array::from_fn(|_| {
            let space = spaces.next().unwrap_or_default();
            let len = space.len().min(self.max_read.saturating_sub(room));
            room += len;
            slices += usize::from(len > 0);
            IoSliceMut::new(&mut space[..len])
        });
        (io.poll_read_vectored(cx, &mut all[..slices]), room)
    }

    /// Keeps what a failed transport says, for the statuses of the calls.
    fn failed(&mut self, error: &io::Error) -> TransportError {
        self.cause.get_or_insert_with(|| error.to_string());
        transport_error(error)
    }

    /// Gives spare memory back after a second without traffic. When to look again, if at all.
    fn release_idle(&mut self, now: Instant) -> Option<Instant> {
        match self.spare {
            Spare::InUse => self.spare = Spare::Idle(now + IDLE),
            Spare::Idle(at) if at <= now => {
                self.spare = Spare::Released;
                self.shared.release_idle(&mut self.work);
                if self.tx.is_empty() {
                    self.tx = Transmit::new();
                }
            }
            Spare::Idle(_) | Spare::Released => {}
        }
        match self.spare {
            Spare::Idle(at) => Some(at),
            Spare::InUse | Spare::Released => None,
        }
    }

    /// Sets the timer, and says whether it has fired already. One that fires for an instant that was seen to have
    /// passed costs a round.
    fn poll_timer(&mut self, armed: Option<Instant>, cx: &mut Context<'_>) -> bool {
        let Some(armed) = armed else { return false };
        // A timer that is set for an earlier instant fires early, which costs one round and no system call.
        if self.timer_at.is_none_or(|at| armed < at) {
            self.timer.reset(armed);
            self.timer_at = Some(armed);
        } else if self.timer_wakes.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            // It was asked already.
            return false;
        }
        let fired = self.timer.poll_expired(cx).is_ready();
        if fired {
            self.timer_at = None;
        }
        self.timer_wakes = (!fired).then(|| cx.waker().clone());
        fired
    }

    /// Closes our side and reads the peer's to its end, for a second at most: a socket that is dropped
    /// with unread input is reset, and a reset destroys what we wrote last.
    fn poll_ending(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        let Some(ending) = &mut self.ending else { return Poll::Pending };
        let is_late = self.timer.poll_expired(cx).is_ready();
        if is_late || self.write_error.is_some() || self.read == ReadSide::Closed {
            let _ = Pin::new(&mut self.io).poll_close(cx);
            return Poll::Ready(ending.reason.clone());
        }
        if !ending.is_closed {
            match Pin::new(&mut self.io).poll_close(cx) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => ending.is_closed = true,
                Poll::Ready(Err(_)) => return Poll::Ready(ending.reason.clone()),
            }
        }
        for _ in 0..ROUNDS {
            match Pin::new(&mut self.io).poll_read(cx, self.rx.window().space()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(n)) if n > 0 => {}
                // A peer that has closed can be written to no more; a close that is under way may need it.
                Poll::Ready(_) => return Poll::Ready(ending.reason.clone()),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

// Nothing is pinned inside: the transport and the timer are `Unpin` themselves.
#[allow(private_bounds, reason = "the roles are sealed")]
impl<T, R: SessionRole, Z: Time> Unpin for Driver<T, R, Z> {}

impl<T: Transport, R: SessionRole, Z: Time> Future for Driver<T, R, Z> {
    type Output = ConnectionError;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        let poll = self.run(cx);
        self.rx.give_back();
        poll
    }
}

impl<T, R: SessionRole, Z: Time> Drop for Driver<T, R, Z> {
    fn drop(&mut self) {
        self.shared.disconnect();
    }
}

impl<T, R: SessionRole, Z: Time> fmt::Debug for Driver<T, R, Z> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver")
            .field("shared", &self.shared)
            .field("unwritten", &self.tx.len())
            .field("read", &self.read)
            .finish_non_exhaustive()
    }
}

/// How the core is told of a transport's failure.
fn transport_error(error: &io::Error) -> TransportError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe => {
            TransportError::Reset
        }
        io::ErrorKind::UnexpectedEof => TransportError::Eof,
        io::ErrorKind::WriteZero => TransportError::WriteZero,
        io::ErrorKind::InvalidData => TransportError::Tls,
        _ => TransportError::Other,
    }
}
