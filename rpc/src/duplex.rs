//! An in-memory byte stream pair: both ends of a connection in one process, without sockets.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};

use crate::transport::Transport;

/// Two connected ends; each direction holds at most `capacity` bytes, and a writer waits beyond that.
///
/// # Panics
/// When `capacity` is zero: no byte could ever pass.
pub fn duplex(capacity: usize) -> (Duplex, Duplex) {
    assert!(capacity > 0, "a duplex needs a capacity of at least one byte");
    let (there, back) = (Arc::new(Direction::new(capacity)), Arc::new(Direction::new(capacity)));
    (Duplex { read: back.clone(), write: there.clone() }, Duplex { read: there, write: back })
}

/// One end of a [`duplex`] pair.
///
/// Dropping an end closes its write side (the peer reads what is buffered, then the end) and breaks
/// its read side (the peer's writes fail with `BrokenPipe`), as a socket does.
#[derive(Debug)]
pub struct Duplex {
    read: Arc<Direction>,
    write: Arc<Direction>,
}

#[derive(Debug)]
struct Direction {
    capacity: usize,
    state: Mutex<Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    /// At most `capacity` bytes.
    bytes: VecDeque<u8>,
    writer_closed: bool,
    reader_gone: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Direction {
    fn new(capacity: usize) -> Self {
        Self { capacity, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Flow> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the flow and wakes the party that `wake` returns, with the lock released.
    fn change<T>(&self, change: impl FnOnce(&mut Flow) -> (T, Option<Waker>)) -> T {
        let (result, wake) = change(&mut self.lock());
        if let Some(waker) = wake {
            waker.wake();
        }
        result
    }

    fn write(&self, cx: &mut Context<'_>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.change(|flow| {
            if flow.reader_gone {
                return (Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())), None);
            }
            if flow.writer_closed {
                return (Poll::Ready(Err(io::Error::new(io::ErrorKind::BrokenPipe, "write side is closed"))), None);
            }
            let mut room = self.capacity - flow.bytes.len();
            if bufs.iter().all(|buf| buf.is_empty()) {
                return (Poll::Ready(Ok(0)), None);
            }
            if room == 0 {
                flow.writer = Some(cx.waker().clone());
                return (Poll::Pending, None);
            }
            let mut written = 0;
            for buf in bufs {
                let n = buf.len().min(room);
                flow.bytes.extend(&buf[..n]);
                written += n;
                room -= n;
            }
            (Poll::Ready(Ok(written)), flow.reader.take())
        })
    }

    fn close(&self) {
        self.change(|flow| {
            flow.writer_closed = true;
            ((), flow.reader.take())
        });
    }
}

impl Transport for Duplex {
    fn is_read_vectored(&self) -> bool {
        true
    }

    fn peer(&self) -> Option<String> {
        Some("memory".into())
    }
}

impl AsyncRead for Duplex {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_read_vectored(cx, &mut [IoSliceMut::new(buf)])
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        self.read.change(|flow| {
            if bufs.iter().all(|buf| buf.is_empty()) {
                return (Poll::Ready(Ok(0)), None);
            }
            if flow.bytes.is_empty() {
                if flow.writer_closed {
                    return (Poll::Ready(Ok(0)), None);
                }
                flow.reader = Some(cx.waker().clone());
                return (Poll::Pending, None);
            }
            let n = bufs.iter_mut().map(|buf| io::Read::read(&mut flow.bytes, buf).unwrap_or(0)).sum();
            (Poll::Ready(Ok(n)), flow.writer.take())
        })
    }
}

impl AsyncWrite for Duplex {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.write.write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write.write(cx, bufs)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write.close();
        Poll::Ready(Ok(()))
    }
}

impl Drop for Duplex {
    fn drop(&mut self) {
        self.write.close();
        self.read.change(|flow| {
            flow.reader_gone = true;
            flow.bytes.clear();
            ((), flow.writer.take())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(end: &mut Duplex, n: usize) -> Poll<io::Result<Vec<u8>>> {
        let mut buf = vec![0; n];
        Pin::new(end).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf).map_ok(|n| {
            buf.truncate(n);
            buf
        })
    }

    fn write(end: &mut Duplex, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(end).poll_write(&mut Context::from_waker(Waker::noop()), bytes)
    }

    fn ready<T>(poll: Poll<io::Result<T>>) -> T {
        match poll {
            Poll::Ready(Ok(value)) => value,
            Poll::Ready(Err(error)) => panic!("{error}"),
            Poll::Pending => panic!("pending"),
        }
    }

    #[test]
    fn bytes_arrive_in_order_and_a_full_direction_waits() {
        let (mut a, mut b) = duplex(4);
        assert_eq!(ready(write(&mut a, b"abcdef")), 4);
        assert!(write(&mut a, b"ef").is_pending());
        assert_eq!(ready(read(&mut b, 3)), b"abc");
        assert_eq!(ready(write(&mut a, b"ef")), 2);
        assert_eq!(ready(read(&mut b, 9)), b"def");
        assert!(read(&mut b, 9).is_pending());
    }

    #[test]
    fn a_closed_side_is_read_to_its_end_and_the_other_direction_goes_on() {
        let (mut a, mut b) = duplex(8);
        ready(write(&mut a, b"last"));
        ready(Pin::new(&mut a).poll_close(&mut Context::from_waker(Waker::noop())));
        assert!(matches!(write(&mut a, b"x"), Poll::Ready(Err(_))));
        assert_eq!(ready(read(&mut b, 9)), b"last");
        assert_eq!(ready(read(&mut b, 9)), b"");
        ready(write(&mut b, b"still"));
        assert_eq!(ready(read(&mut a, 9)), b"still");
    }

    #[test]
    fn a_dropped_end_breaks_the_writer_and_ends_the_reader() {
        let (a, mut b) = duplex(8);
        drop(a);
        assert!(matches!(write(&mut b, b"x"), Poll::Ready(Err(e)) if e.kind() == io::ErrorKind::BrokenPipe));
        assert_eq!(ready(read(&mut b, 1)), b"");
    }
}
