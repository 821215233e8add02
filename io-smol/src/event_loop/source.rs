//! A socket that is registered with a reactor for as long as it lives.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use mio::event::Event;
use smol::io::{AsyncRead, AsyncWrite};

use super::reactor::Reactor;

/// What a reactor knows of a socket: whether it is worth trying to read or to write, and who waits for that.
///
/// An edge is told once. So whoever tries takes the mark away *before* the system call: an edge that comes during it
/// leaves a new one. A call that did not take all there was puts the mark back.
#[derive(Debug)]
pub(super) struct Readiness(Mutex<Sides>);

#[derive(Debug)]
struct Sides {
    read: Side,
    write: Side,
}

#[derive(Debug)]
struct Side {
    is_ready: bool,
    /// The end was told. It comes with the last bytes in one event, and not again.
    is_over: bool,
    waiting: Option<Waker>,
}

/// A direction.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Read,
    Write,
}

impl Side {
    /// Nobody has looked yet.
    const NEW: Self = Self { is_ready: true, is_over: false, waiting: None };

    fn tell(&mut self, is_ready: bool, is_over: bool, due: &mut Vec<Waker>) {
        self.is_over |= is_over;
        if is_ready || is_over {
            self.is_ready = true;
            due.extend(self.waiting.take());
        }
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self(Mutex::new(Sides { read: Side::NEW, write: Side::NEW }))
    }
}

impl Readiness {
    /// Takes note of an event, and hands over whom it concerns.
    pub(super) fn tell(&self, event: &Event, due: &mut Vec<Waker>) {
        let mut sides = self.lock();
        sides.read.tell(event.is_readable() || event.is_error(), event.is_read_closed(), due);
        sides.write.tell(event.is_writable() || event.is_error(), event.is_write_closed(), due);
    }

    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, direction: Direction, change: impl FnOnce(&mut Side) -> T) -> T {
        let mut sides = self.lock();
        change(match direction {
            Direction::Read => &mut sides.read,
            Direction::Write => &mut sides.write,
        })
    }

    /// Whether a try is worth it; otherwise `cx` is woken when it is. `begin` takes the mark away, and the result says
    /// whether the end was told.
    fn poll(&self, direction: Direction, begin: bool, cx: &mut Context<'_>) -> Poll<bool> {
        let mut stale = None;
        let poll = self.with(direction, |side| {
            let is_over = side.is_over;
            if side.is_ready || is_over {
                (side.is_ready, side.is_over) = (side.is_ready && !begin, is_over && !begin);
                return Poll::Ready(is_over);
            }
            if !side.waiting.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                stale = side.waiting.replace(cx.waker().clone());
            }
            Poll::Pending
        });
        // With the lock released: a task may go with its last waker.
        drop(stale);
        poll
    }
}

/// Whether a call that left room took all there was. Elsewhere only a call that would block says so.
const SHORT_IS_ALL: bool = cfg!(unix);

/// A socket that its reactor watches. Dropped, it is closed and forgotten.
#[derive(Debug)]
pub(crate) struct Registered<S: mio::event::Source> {
    source: S,
    key: usize,
    readiness: Arc<Readiness>,
    reactor: Arc<Reactor>,
}

impl<S: mio::event::Source> Registered<S> {
    /// Has `reactor` watch `source`, which does not block.
    pub(crate) fn new(mut source: S, reactor: &Arc<Reactor>) -> io::Result<Self> {
        let (key, readiness) = reactor.register(&mut source)?;
        Ok(Self { source, key, readiness, reactor: Arc::clone(reactor) })
    }

    pub(crate) const fn get_ref(&self) -> &S {
        &self.source
    }

    /// The reactor that watches it.
    pub(crate) const fn reactor(&self) -> &Arc<Reactor> {
        &self.reactor
    }

    pub(crate) fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.readiness.poll(Direction::Read, false, cx).map(drop)
    }

    /// Calls `accept`, or whatever takes one thing at a time, when there may be something to take.
    pub(crate) fn poll_take<T>(
        &self,
        cx: &mut Context<'_>,
        mut take: impl FnMut(&S) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        self.poll_io(Direction::Read, cx, |source| take(source).map(|taken| (taken, true)))
    }

    /// Tries `call` when it may succeed. It says whether there may be more to do at once.
    fn poll_io<T>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        mut call: impl FnMut(&S) -> io::Result<(T, bool)>,
    ) -> Poll<io::Result<T>> {
        loop {
            let was_over = ready!(self.readiness.poll(direction, true, cx));
            let outcome = call(&self.source);
            let is_blocked = matches!(&outcome, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
            let is_all = SHORT_IS_ALL && matches!(outcome, Ok((_, false)));
            let has_more = !is_blocked && !is_all;
            if has_more || (was_over && !is_blocked) {
                self.readiness.with(direction, |side| {
                    side.is_ready |= has_more;
                    side.is_over |= was_over;
                });
            }
            if !is_blocked {
                return Poll::Ready(outcome.map(|(value, _)| value));
            }
        }
    }

    /// Whether the reactor has not told of an end yet.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.readiness.with(Direction::Read, |side| !side.is_over)
    }
}

impl<S: mio::event::Source> Drop for Registered<S> {
    fn drop(&mut self) {
        self.reactor.deregister(&mut self.source, self.key);
    }
}

// Nothing is pinned: the socket is used by reference.
impl<S: mio::event::Source> Unpin for Registered<S> {}

impl<S: mio::event::Source> AsyncRead for Registered<S>
where
    for<'a> &'a S: Read,
{
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        // A read that left room took all there was.
        self.poll_io(Direction::Read, cx, |mut source| source.read(buf).map(|n| (n, n == 0 || n == buf.len())))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        let read = |mut source: &S| source.read_vectored(bufs).map(|n| (n, n == 0 || n == len));
        self.poll_io(Direction::Read, cx, read)
    }
}

impl<S: mio::event::Source> AsyncWrite for Registered<S>
where
    for<'a> &'a S: Write,
{
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_io(Direction::Write, cx, |mut source| source.write(buf).map(|n| (n, n == buf.len())))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let len: usize = bufs.iter().map(|buf| buf.len()).sum();
        self.poll_io(Direction::Write, cx, |mut source| source.write_vectored(bufs).map(|n| (n, n == len)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
