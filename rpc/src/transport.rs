//! What a connection runs over: any ordered byte stream.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

/// An ordered, reliable byte stream with an independent end in each direction.
///
/// `poll_close` closes the write side only: the driver goes on reading, so that the kernel does not
/// answer unread input with a reset that destroys our last frames.
pub trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Whether `poll_write_vectored` takes several slices in one operation.
    ///
    /// When false (TLS), the driver copies up to 16 KiB into one slice, so that records stay large.
    fn is_vectored(&self) -> bool {
        true
    }

    /// Whether `poll_read_vectored` fills several slices in one operation.
    ///
    /// When true, large messages are read straight to where they lie. A transport that fills only the first slice, as the
    /// method does that `futures-io` provides, would read a frame header at a time.
    fn is_read_vectored(&self) -> bool {
        false
    }

    /// Whether a read is worth trying: `Pending` until then, without reading.
    ///
    /// The driver asks after a read that left room in its buffer, because the next one would most likely be in
    /// vain. `Pending` is a promise: the task of `cx` is woken for bytes, an end or an error, also for those that
    /// came since the last read. `Ready` promises nothing, so that a transport that cannot tell says it always.
    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }

    /// Text form of the peer's address, for logs and [`Context::peer`](crate::Context::peer).
    fn peer(&self) -> Option<String> {
        None
    }
}

impl<T: Transport + ?Sized> Transport for Box<T> {
    fn is_vectored(&self) -> bool {
        (**self).is_vectored()
    }

    fn is_read_vectored(&self) -> bool {
        (**self).is_read_vectored()
    }

    fn poll_read_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        (**self).poll_read_ready(cx)
    }

    fn peer(&self) -> Option<String> {
        (**self).peer()
    }
}

/// Makes a [`Transport`] of any `futures-io` stream, also one of another crate.
#[derive(Debug)]
pub struct Io<T> {
    inner: T,
    vectored: bool,
    read_vectored: bool,
    peer: Option<String>,
}

impl<T> Io<T> {
    /// A vectored transport without a peer address.
    pub const fn new(inner: T) -> Self {
        Self { inner, vectored: true, read_vectored: false, peer: None }
    }

    /// Says whether the stream takes several slices in one write.
    pub fn vectored(mut self, vectored: bool) -> Self {
        self.vectored = vectored;
        self
    }

    /// Says whether the stream fills several slices in one read: see [`Transport::is_read_vectored`].
    pub fn read_vectored(mut self, vectored: bool) -> Self {
        self.read_vectored = vectored;
        self
    }

    /// Names the peer.
    pub fn with_peer(mut self, peer: impl Into<String>) -> Self {
        self.peer = Some(peer.into());
        self
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> Transport for Io<T> {
    fn is_vectored(&self) -> bool {
        self.vectored
    }

    fn is_read_vectored(&self) -> bool {
        self.read_vectored
    }

    fn peer(&self) -> Option<String> {
        self.peer.clone()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Io<T> {
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

impl<T: AsyncWrite + Unpin> AsyncWrite for Io<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_close(cx)
    }
}
