//! A transport that counts what is written to it.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};
use trirpc::rpc::Transport;

/// Writes that took bytes: of a socket, each would have been a system call.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes(Arc<[AtomicU64; 2]>);

impl Writes {
    fn add(&self, outcome: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = outcome {
            self.0[0].fetch_add(1, Ordering::Relaxed);
            self.0[1].fetch_add(*bytes as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0[0].load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.0[1].load(Ordering::Relaxed)
    }
}

/// `T`, counted.
#[derive(Debug)]
pub(super) struct Counted<T> {
    inner: T,
    writes: Writes,
}

impl<T> Counted<T> {
    pub(super) const fn new(inner: T, writes: Writes) -> Self {
        Self { inner, writes }
    }
}

impl<T: Transport> Transport for Counted<T> {
    fn is_vectored(&self) -> bool {
        self.inner.is_vectored()
    }

    fn is_read_vectored(&self) -> bool {
        self.inner.is_read_vectored()
    }

    fn peer(&self) -> Option<String> {
        self.inner.peer()
    }
}

impl<T: Transport> AsyncRead for Counted<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }

    fn poll_read_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_read_vectored(cx, bufs)
    }
}

impl<T: Transport> AsyncWrite for Counted<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.writes.add(&outcome);
        outcome
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.writes.add(&outcome);
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
