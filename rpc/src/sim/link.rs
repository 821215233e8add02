//! A connection of the simulated network: two directions of bytes that take time and may come to grief.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use trirpc_core::Instant;

use super::faults::Faults;
use super::random::Random;
use crate::time::{ManualTime, ManualTimer, Time, Timer};
use crate::transport::Transport;

/// Both ends of a new connection.
pub(super) fn link(faults: &Faults, mut random: Random, time: &ManualTime) -> (End, End) {
    let mut direction = || Arc::new(Mutex::new(Direction::new(faults.clone(), random.fork())));
    let link = Link { directions: [direction(), direction()] };
    let [there, back] = &link.directions;
    let end = |read: &Shared, write: &Shared| End {
        read: Arc::clone(read),
        write: Arc::clone(write),
        link: link.clone(),
        arrival: time.timer(),
        time: time.clone(),
    };
    (end(back, there), end(there, back))
}

/// A handle on a connection, for those who are to break it.
#[derive(Clone, Debug)]
pub(super) struct Link {
    directions: [Shared; 2],
}

type Shared = Arc<Mutex<Direction>>;

impl Link {
    /// Breaks the connection: what is on its way is lost, and both ends learn it at once.
    pub(super) fn reset(&self) {
        for direction in &self.directions {
            lock(direction).break_off();
        }
    }

    /// Whether nothing can pass any more, in either direction.
    pub(super) fn is_over(&self) -> bool {
        self.directions.iter().all(|direction| lock(direction).is_over())
    }
}

/// One end of a connection.
#[derive(Debug)]
pub(super) struct End {
    read: Shared,
    write: Shared,
    link: Link,
    /// Fires when the next bytes arrive.
    arrival: ManualTimer,
    time: ManualTime,
}

/// Bytes on their way.
#[derive(Debug)]
struct Direction {
    faults: Faults,
    random: Random,
    /// What was written, by the instant at which it arrives; in rising order.
    on_the_way: VecDeque<(Instant, VecDeque<u8>)>,
    bytes: usize,
    /// When the last of it arrives: nothing overtakes it.
    last_arrival: Instant,
    /// Until when the line is busy with what was written, if it has a rate.
    busy_until: Instant,
    /// Until when nothing arrives.
    stalled_until: Instant,
    /// When the end of the direction arrives.
    end: Option<Instant>,
    is_broken: bool,
    reader_is_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What an operation led to besides its own result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mishap {
    None,
    /// The connection breaks.
    Reset,
}

impl Direction {
    fn new(faults: Faults, random: Random) -> Self {
        Self {
            faults,
            random,
            on_the_way: VecDeque::new(),
            bytes: 0,
            last_arrival: Instant::ZERO,
            busy_until: Instant::ZERO,
            stalled_until: Instant::ZERO,
            end: None,
            is_broken: false,
            reader_is_gone: false,
            reader: None,
            writer: None,
        }
    }

    fn write(&mut self, bufs: &[IoSlice<'_>], now: Instant, cx: &Context<'_>) -> Poll<io::Result<(usize, Mishap)>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if self.reader_is_gone || self.end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let wanted: usize = bufs.iter().map(|buf| buf.len()).sum();
        if wanted == 0 {
            return Poll::Ready(Ok((0, Mishap::None)));
        }
        let room = self.faults.capacity.max(1).saturating_sub(self.bytes);
        if room == 0 {
            self.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let n = self.cut(wanted.min(room));
        let mut taken = VecDeque::with_capacity(n);
        for buf in bufs {
            let part = buf.len().min(n - taken.len());
            taken.extend(&buf[..part]);
        }
        let arrival = self.arrival(n, now);
        self.bytes += n;
        self.on_the_way.push_back((arrival, taken));
        let mishap = self.chance(now);
        wake(&mut self.reader);
        Poll::Ready(Ok((n, mishap)))
    }

    /// When `n` bytes that are written now arrive.
    fn arrival(&mut self, n: usize, now: Instant) -> Instant {
        if let Some(nanos) = (n as u64).saturating_mul(1_000_000_000).checked_div(self.faults.rate) {
            self.busy_until = self.busy_until.max(now) + Duration::from_nanos(nanos);
        }
        let arrival = now.max(self.busy_until) + self.faults.delay(&mut self.random);
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    fn read(&mut self, buf: &mut [u8], now: Instant) -> Poll<io::Result<(usize, Mishap)>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if buf.is_empty() {
            return Poll::Ready(Ok((0, Mishap::None)));
        }
        if now < self.stalled_until {
            return Poll::Pending;
        }
        let arrived = self.on_the_way.iter().take_while(|(at, _)| *at <= now).map(|(_, bytes)| bytes.len()).sum();
        if arrived == 0 {
            let is_at_end = self.bytes == 0 && self.end.is_some_and(|at| at <= now);
            return if is_at_end { Poll::Ready(Ok((0, Mishap::None))) } else { Poll::Pending };
        }
        let n = self.cut(buf.len().min(arrived));
        let mut filled = 0;
        while let Some((_, bytes)) = self.on_the_way.front_mut().filter(|_| filled < n) {
            filled += io::Read::read(bytes, &mut buf[filled..n]).unwrap_or(0);
            if bytes.is_empty() {
                self.on_the_way.pop_front();
            }
        }
        self.bytes -= n;
        let mishap = self.chance(now);
        wake(&mut self.writer);
        Poll::Ready(Ok((n, mishap)))
    }

    /// When there will be something to read, if that is known.
    fn next_arrival(&self) -> Option<Instant> {
        let next = self.on_the_way.front().map(|(at, _)| *at).or(self.end)?;
        Some(next.max(self.stalled_until))
    }

    /// How much of `most` bytes one operation takes: all, some, few, or one.
    fn cut(&mut self, most: usize) -> usize {
        if !self.faults.splits {
            return most;
        }
        match self.random.below(4) {
            0 => 1,
            1 => most.min(1 + self.random.below(16)),
            2 => 1 + self.random.below(most),
            _ => most,
        }
    }

    /// What else an operation leads to.
    fn chance(&mut self, now: Instant) -> Mishap {
        let Faults { stall_one_in, half_close_one_in, reset_one_in, stall, .. } = self.faults;
        if self.random.one_in(stall_one_in) {
            self.stalled_until = now + self.random.duration(Duration::ZERO, stall);
        }
        if self.random.one_in(half_close_one_in) {
            self.close(now);
        }
        if self.random.one_in(reset_one_in) { Mishap::Reset } else { Mishap::None }
    }

    fn close(&mut self, now: Instant) {
        if self.end.is_none() {
            self.end = Some(self.arrival(0, now));
            wake(&mut self.reader);
        }
    }

    fn break_off(&mut self) {
        self.is_broken = true;
        self.discard();
        wake(&mut self.reader);
        wake(&mut self.writer);
    }

    fn discard(&mut self) {
        self.on_the_way.clear();
        self.bytes = 0;
    }

    fn is_over(&self) -> bool {
        self.is_broken || self.reader_is_gone || (self.end.is_some() && self.bytes == 0)
    }
}

impl End {
    /// The connection, as a whole.
    pub(super) fn link(&self) -> Link {
        self.link.clone()
    }

    fn settle(&self, poll: Poll<io::Result<(usize, Mishap)>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok((_, Mishap::Reset))) = poll {
            self.link.reset();
        }
        poll.map_ok(|(n, _)| n)
    }
}

impl Transport for End {
    fn is_read_vectored(&self) -> bool {
        true
    }

    fn peer(&self) -> Option<String> {
        Some("simulated".into())
    }
}

impl AsyncRead for End {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        let now = Time::now(&self.time);
        let (poll, next) = {
            let direction = &mut *lock(&self.read);
            let poll = direction.read(buf, now);
            if poll.is_pending() {
                direction.reader = Some(cx.waker().clone());
            }
            (poll, direction.next_arrival())
        };
        if let (Poll::Pending, Some(next)) = (&poll, next) {
            self.arrival.reset(next);
            if self.arrival.poll_expired(cx).is_ready() {
                // It has arrived in between, by a clock that somebody else moves.
                cx.waker().wake_by_ref();
            }
        }
        self.settle(poll)
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut all = vec![0; bufs.iter().map(|buf| buf.len()).sum()];
        self.poll_read(cx, &mut all).map_ok(|n| {
            let mut unread = &all[..n];
            bufs.iter_mut().map(|buf| io::Read::read(&mut unread, buf).unwrap_or(0)).sum()
        })
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let now = Time::now(&self.time);
        let poll = lock(&self.write).write(bufs, now, cx);
        self.settle(poll)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.write).close(Time::now(&self.time));
        Poll::Ready(Ok(()))
    }
}

/// As a socket: what was written is still delivered, and the peer's writes fail.
impl Drop for End {
    fn drop(&mut self) {
        lock(&self.write).close(Time::now(&self.time));
        let read = &mut *lock(&self.read);
        read.reader_is_gone = true;
        read.discard();
        wake(&mut read.writer);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

fn lock(direction: &Shared) -> MutexGuard<'_, Direction> {
    direction.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(faults: Faults) -> (End, End, ManualTime) {
        let time = ManualTime::new();
        let (a, b) = link(&faults, Random::new(1), &time);
        (a, b, time)
    }

    fn read(end: &mut End, n: usize) -> Poll<Result<Vec<u8>, io::ErrorKind>> {
        let mut buf = vec![0; n];
        let poll = Pin::new(end).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
        poll.map_ok(|n| buf[..n].to_vec()).map_err(|error| error.kind())
    }

    fn write(end: &mut End, bytes: &[u8]) -> Poll<Result<usize, io::ErrorKind>> {
        Pin::new(end).poll_write(&mut Context::from_waker(Waker::noop()), bytes).map_err(|error| error.kind())
    }

    fn ready<T>(value: T) -> Poll<Result<T, io::ErrorKind>> {
        Poll::Ready(Ok(value))
    }

    #[test]
    fn bytes_take_their_time_and_a_full_line_waits() {
        let mut faults = Faults::none();
        faults.delay = (Duration::from_millis(3), Duration::from_millis(3));
        faults.capacity = 4;
        let (mut a, mut b, time) = ends(faults);
        assert_eq!(write(&mut a, b"abcdef"), ready(4));
        assert!(write(&mut a, b"ef").is_pending());
        assert!(read(&mut b, 9).is_pending());
        time.advance(Duration::from_millis(2));
        assert!(read(&mut b, 9).is_pending());
        assert_eq!(time.next(), Some(Instant::from_nanos(3_000_000)), "the reader is woken for them");
        time.advance(Duration::from_millis(1));
        assert_eq!(read(&mut b, 3), ready(b"abc".to_vec()));
        assert_eq!(write(&mut a, b"ef"), ready(2));
        assert_eq!(read(&mut b, 9), ready(b"d".to_vec()));
    }

    #[test]
    fn a_reset_loses_what_is_on_its_way_and_tells_both_ends() {
        let (mut a, mut b, _) = ends(Faults::none());
        assert_eq!(write(&mut a, b"lost"), ready(4));
        a.link().reset();
        assert_eq!(read(&mut b, 9), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
        assert_eq!(write(&mut b, b"x"), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
        assert_eq!(write(&mut a, b"x"), Poll::Ready(Err(io::ErrorKind::ConnectionReset)));
        assert!(a.link().is_over());
    }

    #[test]
    fn an_end_comes_after_the_bytes_before_it() {
        let (mut a, mut b, _) = ends(Faults::none());
        assert_eq!(write(&mut a, b"last"), ready(4));
        drop(a);
        assert_eq!(read(&mut b, 9), ready(b"last".to_vec()));
        assert_eq!(read(&mut b, 9), ready(Vec::new()));
        assert_eq!(write(&mut b, b"x"), Poll::Ready(Err(io::ErrorKind::BrokenPipe)));
    }

    #[test]
    fn a_rate_spreads_what_is_written_at_once() {
        let mut faults = Faults::none();
        faults.rate = 1000;
        let (mut a, mut b, time) = ends(faults);
        for _ in 0..3 {
            assert_eq!(write(&mut a, &[0; 500]), ready(500));
        }
        for _ in 0..3 {
            assert!(read(&mut b, 9999).is_pending());
            time.advance(Duration::from_millis(500));
            assert_eq!(read(&mut b, 9999), ready(vec![0; 500]));
        }
    }

    #[test]
    fn cuts_and_stalls_lose_nothing() {
        let (mut a, mut b, time) = ends(Faults::rough());
        let (mut sent, mut got) = (0, Vec::new());
        while got.len() < 20_000 {
            if let (true, Poll::Ready(Ok(n))) = (sent < 20_000, write(&mut a, &vec![sent as u8; 20_000 - sent])) {
                sent += n;
            }
            match read(&mut b, 700) {
                Poll::Ready(read) => got.extend(read.expect("no fault that loses anything")),
                Poll::Pending => time.advance(Duration::from_millis(1)),
            }
        }
        assert_eq!(got.len(), 20_000);
    }
}
