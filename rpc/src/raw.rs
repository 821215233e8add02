//! One call without its types: the seam between typed calls and whatever carries them.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::BytesMut;
use trirpc_core::buf::{Encoded, MessageBuf, Run};
use trirpc_core::call::{Codec, EncodeBuf, Metadata, Status};
use trirpc_core::{CodecError, SendError};

use crate::marker::{MaybeSend, MaybeSync};

/// A message that can be encoded, its type and codec erased.
pub trait Encode {
    /// As [`Codec::encoded_len`].
    fn encoded_len(&self) -> Option<usize>;

    /// As [`Codec::encode`].
    ///
    /// # Errors
    /// The message cannot be expressed.
    fn encode(&self, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError>;
}

/// A borrowed message and its codec. It is measured once.
pub(crate) struct Typed<'a, T> {
    codec: &'a dyn Codec<T>,
    item: &'a T,
    len: Option<usize>,
}

impl<'a, T> Typed<'a, T> {
    pub(crate) fn new(codec: &'a dyn Codec<T>, item: &'a T) -> Self {
        Self { codec, item, len: codec.encoded_len(item) }
    }
}

impl<T> Encode for Typed<'_, T> {
    fn encoded_len(&self) -> Option<usize> {
        self.len
    }

    fn encode(&self, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        self.codec.encode(self.item, dst)
    }
}

/// Encodes a message outside every lock, into `buf`.
pub(crate) fn encode(message: &dyn Encode, mut buf: BytesMut, limit: usize) -> Result<Encoded, Status> {
    let announced = message.encoded_len();
    if let Some(size) = announced.filter(|&size| size > limit) {
        return Err(send_status(SendError::TooLarge { size, limit }));
    }
    buf.reserve(announced.unwrap_or_default());
    let encoded = message.encode(&mut EncodeBuf::new(&mut buf, announced.unwrap_or(limit)));
    encoded.map_err(|error| send_status(SendError::Codec(error)))?;
    match announced {
        Some(len) if len != buf.len() => {
            let error = format!("the codec announced {len} bytes and wrote {}", buf.len());
            Err(send_status(SendError::Codec(CodecError::new(error))))
        }
        _ => Ok(Encoded { bytes: buf.freeze(), compressed: false }),
    }
}

/// What a refused message means for its call.
pub(crate) fn send_status(error: SendError) -> Status {
    match error {
        SendError::Failed(error) => error.into(),
        SendError::Finished => Status::cancelled("the peer ended the call before it had read every message"),
        SendError::TooLarge { .. } => Status::resource_exhausted(error.to_string()),
        SendError::Codec(error) => Status::internal(format!("the message cannot be encoded: {}", error.message())),
        SendError::Sealed | SendError::Blocked => Status::failed_precondition(error.to_string()),
        _ => Status::internal(error.to_string()),
    }
}

/// The codec of an [`Encode`], under the name of the real one: what a connection is given.
pub(crate) struct Erased(pub(crate) &'static str);

impl Codec<&dyn Encode> for Erased {
    fn name(&self) -> &'static str {
        self.0
    }

    fn encoded_len(&self, item: &&dyn Encode) -> Option<usize> {
        item.encoded_len()
    }

    fn encode(&self, item: &&dyn Encode, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        item.encode(dst)
    }

    fn decode(&self, _: &mut MessageBuf) -> Result<&'static dyn Encode, CodecError> {
        Err(CodecError::new("an erased message can only be encoded"))
    }
}

/// A message on its way into a call.
///
/// Lives as long as the `send` that it belongs to: a large message is encoded once, outside any lock,
/// and waits here while the call has no room.
pub struct Outgoing<'a> {
    /// The message.
    pub message: &'a dyn Encode,
    /// Its encoded form, once somebody made it: kept by whoever asks again.
    pub encoded: &'a mut Option<Encoded>,
    /// Whether it may be compressed, if the call is.
    pub compress: bool,
}

impl<'a> Outgoing<'a> {
    /// A message that may be compressed; there is nothing in `encoded` yet.
    pub const fn new(message: &'a dyn Encode, encoded: &'a mut Option<Encoded>) -> Self {
        Self { message, encoded, compress: true }
    }
}

impl fmt::Debug for Outgoing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("encoded", &self.encoded).finish_non_exhaustive()
    }
}

/// Names one call among those that a [`Carrier`] carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallKey {
    index: u32,
    generation: u32,
}

impl CallKey {
    /// The key of a carrier that carries one call only.
    pub const ONLY: Self = Self::new(0, 0);

    /// A slot and the generation of its content; the meaning is the carrier's.
    pub const fn new(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    /// The slot.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Both in one number.
    pub(crate) const fn bits(self) -> u64 {
        (self.index as u64) << 32 | self.generation as u64
    }

    /// The generation of its content.
    pub const fn generation(self) -> u32 {
        self.generation
    }
}

/// The directions of a call that one task owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Messages from us.
    Send,
    /// Messages to us, and the outcome.
    Recv,
    /// Both, in one hand.
    Both,
}

impl Half {
    pub(crate) const fn bit(self) -> u8 {
        match self {
            Self::Send => 0b01,
            Self::Recv => 0b10,
            Self::Both => 0b11,
        }
    }
}

/// What came in.
#[derive(Debug)]
pub enum Received {
    /// A whole message, inflated if the peer had compressed it.
    Message(MessageBuf),
    /// The peer is done and succeeded. On a client these are the trailers.
    End(Metadata),
}

/// The whole answer to a call with a single response.
#[derive(Debug)]
pub struct Outcome {
    /// The response message, inflated if the peer had compressed it.
    pub message: MessageBuf,
    /// Metadata before it.
    pub headers: Metadata,
    /// Metadata after it.
    pub trailers: Metadata,
}

/// Carries calls: a session, a channel that still connects, `fetch`, a test double.
///
/// Object safe and shared by the halves of a call, so that typed streams need to know neither the
/// carrier's type nor a box of their own. Each half of a call is polled by one task at a time; the two
/// halves may be polled by different ones.
pub trait Carrier: MaybeSend + MaybeSync {
    /// Queues a message, waiting for room. Nothing was queued unless it returns `Ready(Ok(()))`.
    ///
    /// # Errors
    /// The status of the call, when it has ended; or why the message cannot be sent.
    fn poll_send(&self, key: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>>;

    /// Lets everything leave that the call's [policy](trirpc_core::buf::FlushPolicy) holds back.
    ///
    /// # Errors
    /// The status of the call, when it has ended.
    fn flush(&self, key: CallKey) -> Result<(), Status>;

    /// No further message will be sent.
    ///
    /// # Errors
    /// The status of the call, when it has ended with an error.
    fn finish(&self, key: CallKey) -> Result<(), Status>;

    /// The peer's metadata before its first message.
    ///
    /// # Errors
    /// The status of a call that ended without.
    fn poll_head(&self, key: CallKey, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>>;

    /// The next message, or the end. Others that are there already may be put into `ahead`, where there is one and nothing
    /// in it: those are to be handed out before this is asked again.
    ///
    /// # Errors
    /// The status of a call that did not end well. Every message that came before was handed out.
    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>>;

    /// The answer to a call with a single response, all of it, once it is known. When it returns `Ready`,
    /// `half` has been released with it.
    ///
    /// # Errors
    /// The status of a call that did not end well.
    fn poll_outcome(&self, key: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>>;

    /// The owner of `half` is gone. With `cancel` the peer is told that nobody waits any more; when both
    /// directions are gone, the call's resources are freed.
    fn release(&self, key: CallKey, half: Half, cancel: bool);

    /// Whether the call may [move](Self::moved) to another carrier.
    fn may_move(&self) -> bool {
        false
    }

    /// Where the call has moved to, if it has; asked only of those from which it [may](Self::may_move).
    fn moved(&self, key: CallKey) -> Option<(Arc<dyn Carrier>, CallKey)> {
        let _ = key;
        None
    }
}

/// A share in a call. Dropped before its end, it cancels the call.
struct Share {
    carrier: Arc<dyn Carrier>,
    key: CallKey,
    /// The carrier may hand the call on.
    may_move: bool,
    half: Half,
    /// What this share owns ended as it should.
    done: bool,
    /// The carrier knows already that this share is gone.
    released: bool,
    /// The carrier keeps the waker of who asks for the outcome, since the call was started: it is the last one.
    awaited: bool,
    /// The end of the messages was told.
    ended: bool,
}

impl Share {
    fn new(carrier: Arc<dyn Carrier>, key: CallKey, half: Half) -> Self {
        let may_move = carrier.may_move();
        Self { carrier, key, may_move, half, done: false, released: false, awaited: false, ended: false }
    }

    /// Follows the call to the session on which it runs by now.
    #[inline]
    fn follow(&mut self) {
        if self.may_move {
            self.follow_moved();
        }
    }

    #[cold]
    fn follow_moved(&mut self) {
        if let Some((carrier, key)) = self.carrier.moved(self.key) {
            self.may_move = carrier.may_move();
            (self.carrier, self.key) = (carrier, key);
        }
    }

    fn release(&mut self) {
        if !self.released {
            self.released = true;
            self.carrier.release(self.key, self.half, !self.done);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.released {
            self.follow();
            self.release();
        }
    }
}

/// A call that was started. Dropping it cancels it; [`split`](Self::split) gives its two halves.
pub struct RawCall(Share);

impl RawCall {
    /// A handle to the call that `carrier` knows as `key`. The handle owns both directions.
    pub fn new(carrier: Arc<dyn Carrier>, key: CallKey) -> Self {
        Self(Share::new(carrier, key, Half::Both))
    }

    /// Says that `carrier` keeps the waker that came with the start of the call, and wakes it as if it had been left by
    /// [`RawReceiver::poll_outcome`], which found nothing. Such a call does not move to another carrier.
    #[must_use]
    pub fn awaited(mut self) -> Self {
        self.0.awaited = true;
        self
    }

    /// A call that failed before it started.
    pub fn failed(status: Status) -> Self {
        Self::new(Arc::new(Failed(status)), CallKey::ONLY)
    }

    /// The carrier and its name for the call.
    pub(crate) fn parts(&self) -> (Arc<dyn Carrier>, CallKey) {
        (Arc::clone(&self.0.carrier), self.0.key)
    }

    /// Leaves the call to others who own it.
    pub(crate) fn give_up(mut self) {
        self.0.released = true;
    }

    /// The two directions, for different tasks.
    pub fn split(mut self) -> (RawSender, RawReceiver) {
        self.0.released = true;
        let share = |half| Share::new(Arc::clone(&self.0.carrier), self.0.key, half);
        (RawSender(share(Half::Send)), RawReceiver(share(Half::Recv)))
    }

    /// A call whose send side is finished: all that is left is receiving.
    pub fn into_receiver(self) -> RawReceiver {
        RawReceiver(self.0)
    }
}

impl fmt::Debug for RawCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawCall").field("key", &self.0.key).finish_non_exhaustive()
    }
}

/// The sending half of a call. Dropped before [`finish`](Self::finish), it cancels the call.
pub struct RawSender(Share);

impl RawSender {
    /// The sending half of a call that `carrier` knows as `key`.
    pub(crate) fn new(carrier: Arc<dyn Carrier>, key: CallKey) -> Self {
        Self(Share::new(carrier, key, Half::Send))
    }

    /// As [`Carrier::poll_send`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_send(&mut self, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        self.0.follow();
        self.0.carrier.poll_send(self.0.key, message, cx)
    }

    /// As [`Carrier::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&mut self) -> Result<(), Status> {
        self.0.follow();
        self.0.carrier.flush(self.0.key)
    }

    /// As [`Carrier::finish`].
    ///
    /// # Errors
    /// As there.
    pub fn finish(mut self) -> Result<(), Status> {
        self.0.done = true;
        self.0.follow();
        self.0.carrier.finish(self.0.key)
    }
}

impl fmt::Debug for RawSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawSender").field("key", &self.0.key).finish_non_exhaustive()
    }
}

/// The receiving half of a call. Dropped before the end, it cancels the call.
pub struct RawReceiver(Share);

impl RawReceiver {
    /// The receiving half of a call that `carrier` knows as `key`.
    pub(crate) fn new(carrier: Arc<dyn Carrier>, key: CallKey) -> Self {
        Self(Share::new(carrier, key, Half::Recv))
    }

    /// Whether whoever reads typed messages was told their end.
    pub(crate) const fn has_ended(&self) -> bool {
        self.0.ended
    }

    pub(crate) const fn set_ended(&mut self) {
        self.0.ended = true;
    }

    /// Whether [`poll_outcome`](Self::poll_outcome) was spared its first look: see [`RawCall::awaited`].
    pub(crate) const fn is_awaited(&self) -> bool {
        self.0.awaited
    }

    /// As [`Carrier::poll_head`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        self.0.follow();
        let poll = self.0.carrier.poll_head(self.0.key, cx);
        self.0.done |= matches!(poll, Poll::Ready(Err(_)));
        poll
    }

    /// As [`Carrier::poll_recv`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        self.0.follow();
        let poll = self.0.carrier.poll_recv(self.0.key, cx, ahead);
        self.0.done |= matches!(poll, Poll::Ready(Err(_) | Ok(Received::End(_))));
        poll
    }

    /// As [`Carrier::poll_outcome`].
    ///
    /// # Errors
    /// As there.
    pub fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        if !self.0.awaited {
            self.0.follow();
        }
        let poll = self.0.carrier.poll_outcome(self.0.key, self.0.half, cx);
        self.0.released |= poll.is_ready();
        poll
    }
}

impl fmt::Debug for RawReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawReceiver").field("key", &self.0.key).finish_non_exhaustive()
    }
}

/// Carries a call that never started: everything returns its status.
struct Failed(Status);

impl Carrier for Failed {
    fn poll_send(&self, _: CallKey, _: &mut Outgoing<'_>, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Err(self.0.clone()))
    }

    fn flush(&self, _: CallKey) -> Result<(), Status> {
        Err(self.0.clone())
    }

    fn finish(&self, _: CallKey) -> Result<(), Status> {
        Err(self.0.clone())
    }

    fn poll_head(&self, _: CallKey, _: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        Poll::Ready(Err(self.0.clone()))
    }

    fn poll_recv(&self, _: CallKey, _: &mut Context<'_>, _: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        Poll::Ready(Err(self.0.clone()))
    }

    fn poll_outcome(&self, _: CallKey, _: Half, _: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        Poll::Ready(Err(self.0.clone()))
    }

    fn release(&self, _: CallKey, _: Half, _: bool) {}
}
