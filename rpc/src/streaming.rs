//! Typed halves of a call: the same on both sides.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use trirpc_core::buf::{MessageBuf, Run};
use trirpc_core::call::{Codec, Metadata, Status};

use crate::cancel::{Cancelled, poll_parent};
use crate::decode::{decode, decode_contiguous};
use crate::raw::{Outgoing, RawReceiver, RawSender, Received, Typed};

/// Sends the messages of one direction of a call.
///
/// Single owner; it may live in another task than the call's [`Streaming`]. On a client, dropping it
/// before [`finish`](Self::finish) cancels the call. On a server the handler borrows it, and the call
/// ends with what the handler returns.
pub struct Sender<T: 'static> {
    raw: RawSender,
    /// By a reference that is one pointer: many streams wait.
    codec: &'static &'static dyn Codec<T>,
}

impl<T> Sender<T> {
    pub(crate) fn new(raw: RawSender, codec: &'static &'static dyn Codec<T>) -> Self {
        Self { raw, codec }
    }

    /// Queues `message`, waiting while more than `send_buffer` bytes of this call are unsent: awaiting it
    /// is flow control. A dropped `send` has queued its message whole or not at all.
    ///
    /// # Errors
    /// The call's status, when it has ended (a peer that succeeded without reading on is `Cancelled`
    /// here); `ResourceExhausted` for a message above `max_send_message`; `Internal` when the codec fails.
    pub fn send<'a>(&'a mut self, message: &'a T) -> impl Future<Output = Result<(), Status>> + use<'a, T> {
        self.send_with(message, true)
    }

    /// [`send`](Self::send) for a message that is not worth compressing, on a call whose messages are compressed.
    ///
    /// # Errors
    /// As there.
    pub fn send_uncompressed<'a>(
        &'a mut self,
        message: &'a T,
    ) -> impl Future<Output = Result<(), Status>> + use<'a, T> {
        self.send_with(message, false)
    }

    fn send_with<'a>(
        &'a mut self,
        message: &'a T,
        compress: bool,
    ) -> impl Future<Output = Result<(), Status>> + use<'a, T> {
        let mut encoded = None;
        poll_fn(move |cx| {
            let typed = Typed::new(*self.codec, message);
            self.raw.poll_send(&mut Outgoing { message: &typed, encoded: &mut encoded, compress }, cx)
        })
    }

    /// Lets everything leave that was sent so far and is held back, on a call whose messages are
    /// ([`FlushPolicy`](trirpc_core::buf::FlushPolicy)). It does not wait until it has left.
    ///
    /// # Errors
    /// The call's status, when it has ended.
    pub fn flush(&mut self) -> Result<(), Status> {
        self.raw.flush()
    }

    /// No further message follows, and nothing is held back any more. If the call has failed by now, its receiver says why.
    pub fn finish(self) {
        let _ = self.raw.finish();
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// Receives the messages of one direction of a call.
///
/// Single owner; it may live in another task than the call's [`Sender`]. Credit returns to the peer as
/// messages are taken, so a slow reader slows its peer down and nobody else; up to
/// [`recv_ahead`](trirpc_core::Config::recv_ahead) of them are taken together with one that is asked for. On a client,
/// dropping it before the end cancels the call.
pub struct Streaming<T: 'static> {
    raw: RawReceiver,
    codec: &'static &'static dyn Codec<T>,
    /// Messages that were taken together with the last one, from the first time on that there were any.
    ahead: Option<Box<Run>>,
    /// Boxed, for a server has none of it, and many of its calls wait for a message.
    beside: Option<Box<Beside>>,
}

/// What a client has beside the messages.
#[derive(Default)]
struct Beside {
    headers: Option<Metadata>,
    trailers: Option<Metadata>,
    /// The served call that this one belongs to.
    parent: Option<Cancelled>,
}

impl<T> Streaming<T> {
    pub(crate) fn new(raw: RawReceiver, codec: &'static &'static dyn Codec<T>, headers: Option<Metadata>) -> Self {
        let beside = headers.map(|headers| Box::new(Beside { headers: Some(headers), ..Beside::default() }));
        Self { raw, codec, ahead: None, beside }
    }

    pub(crate) fn within(mut self, parent: Option<Cancelled>) -> Self {
        if parent.is_some() {
            self.beside.get_or_insert_default().parent = parent;
        }
        self
    }

    /// The next message, or `None` after the last. Messages that arrived before a failure come first.
    ///
    /// # Errors
    /// The status of a call that did not end well, once; `None` after that.
    #[expect(clippy::should_implement_trait, reason = "as every stream has it; an iterator cannot wait")]
    pub fn next(&mut self) -> impl Future<Output = Result<Option<T>, Status>> + use<'_, T> {
        poll_fn(|cx| self.poll_message(cx))
    }

    /// The peer's metadata before its first message; waits for it.
    ///
    /// # Errors
    /// The status of a call that ended without.
    pub async fn headers(&mut self) -> Result<&Metadata, Status> {
        let beside = self.beside.get_or_insert_default();
        if beside.headers.is_none() {
            beside.headers = Some(poll_fn(|cx| self.raw.poll_head(cx)).await?);
        }
        Ok(beside.headers.get_or_insert_default())
    }

    /// The metadata that came with the status: known once [`next`](Self::next) has returned `None`.
    pub fn trailers(&self) -> Option<&Metadata> {
        self.beside.as_ref()?.trailers.as_ref()
    }

    /// As [`next`](Self::next), for hand-written futures.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Status>> {
        let Some(message) = self.ahead.as_mut().and_then(|ahead| ahead.next_message()) else {
            return self.poll_received(cx);
        };
        let message = decode_contiguous(*self.codec, message);
        self.settle(message)
    }

    /// A message was decoded, or could not be.
    #[inline]
    fn settle(&mut self, message: Result<T, Status>) -> Poll<Result<Option<T>, Status>> {
        match message {
            Ok(message) => {
                if let Some(ahead) = &mut self.ahead {
                    ahead.release_spent();
                }
                Poll::Ready(Ok(Some(message)))
            }
            Err(status) => Poll::Ready(Err(self.fail(status))),
        }
    }

    /// Nothing follows.
    #[cold]
    fn fail(&mut self, status: Status) -> Status {
        self.raw.set_ended();
        self.ahead = None;
        status
    }

    /// What the call itself has to give, once nothing is left of what was taken ahead.
    #[inline(never)] // once for many messages, where there are many
    fn poll_received(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<T>, Status>> {
        match ready!(self.poll_call(cx)) {
            Ok(None) => Poll::Ready(Ok(None)),
            Ok(Some(mut message)) => {
                let message = decode(*self.codec, &mut message);
                self.settle(message)
            }
            Err(status) => Poll::Ready(Err(self.fail(status))),
        }
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<MessageBuf>, Status>> {
        if self.raw.has_ended() {
            return Poll::Ready(Ok(None));
        }
        let mut first = Run::default();
        let ahead = self.ahead.as_mut().map_or(&mut first, |ahead| &mut **ahead);
        let received = match self.raw.poll_recv(cx, Some(ahead)) {
            Poll::Ready(received) => received,
            Poll::Pending => match &mut self.beside {
                Some(beside) => Err(ready!(poll_parent(&mut beside.parent, cx))),
                None => return Poll::Pending,
            },
        };
        if first.messages() > 0 {
            self.ahead = Some(Box::new(first));
        }
        Poll::Ready(match received {
            Ok(Received::Message(message)) => Ok(Some(message)),
            Ok(Received::End(trailers)) => {
                self.raw.set_ended();
                self.beside.get_or_insert_default().trailers = Some(trailers);
                Ok(None)
            }
            Err(status) => Err(status),
        })
    }
}

impl<T> Stream for Streaming<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_message(cx).map(Result::transpose)
    }
}

impl<T> fmt::Debug for Streaming<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streaming")
            .field("raw", &self.raw)
            .field("ended", &self.raw.has_ended())
            .finish_non_exhaustive()
    }
}
