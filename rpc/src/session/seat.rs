//! One call of a server, as the task of its handler holds it.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use trirpc_core::buf::{FlushPolicy, MessageBuf};
use trirpc_core::call::{Metadata, Status};
use trirpc_core::{CallMut, Instant, SendError, Server};

use super::send::{is_inline, over};
use super::server::{Ended, ServerSlot};
use super::slots::{Discarded, register};
use super::{SessionRole, Shared};
use crate::cancel::Signal;
use crate::compress::Codings;
use crate::raw::{CallKey, Carrier, Encode, Erased, send_status};
use crate::server::{Request, Router};

const NOTHING: &Metadata = &Metadata::new();

/// One call on a server, as its handler's task sees it.
#[derive(Clone, Debug)]
pub(crate) struct CallSeat {
    shared: Arc<Shared<Server>>,
    pub(super) key: CallKey,
}

impl CallSeat {
    pub(crate) const fn new(shared: Arc<Shared<Server>>, key: CallKey) -> Self {
        Self { shared, key }
    }

    pub(super) fn shared(&self) -> &Shared<Server> {
        &self.shared
    }

    pub(crate) fn now(&self) -> Instant {
        self.shared.now()
    }

    /// The call's carrier and key, for its typed halves.
    pub(crate) fn carrier(&self) -> (Arc<dyn Carrier>, CallKey) {
        (Arc::clone(&self.shared) as Arc<dyn Carrier>, self.key)
    }

    pub(crate) fn router(&self) -> &Router {
        &self.shared.fixed.router
    }

    /// The client's address, where the transport knows one.
    pub(crate) fn peer(&self) -> Option<&str> {
        self.shared.fixed.peer.as_deref()
    }

    /// The message of a single request, inflated if the peer had compressed it.
    ///
    /// # Errors
    /// It cannot be inflated.
    pub(crate) fn open(&self, message: MessageBuf) -> Result<MessageBuf, Status> {
        if !self.shared.observes && !message.is_compressed() {
            return Ok(message);
        }
        let inflater = self.shared.with(|state, now| {
            let slot = state.slots.find(self.key)?;
            slot.message_received(message.len(), now);
            slot.codings.inflater(&message)
        });
        match inflater {
            Some(inflater) => inflater.inflate(message),
            None => Ok(message),
        }
    }

    /// Lets interceptors see the request.
    ///
    /// # Errors
    /// One refused it.
    pub(crate) fn intercept(&self, request: &mut Request) -> Result<(), Status> {
        if !self.shared.observes {
            return Ok(());
        }
        let hooks = self.shared.with(|state, _| {
            let observed = state.slots.find(self.key)?.observed.as_mut()?;
            observed.marks.session = Some(self.shared.id);
            observed.take()
        });
        let Some(mut hooks) = hooks else { return Ok(()) };
        hooks.info.metadata = mem::take(request.metadata_mut());
        let passed = hooks.on_request();
        *request.metadata_mut() = mem::take(&mut hooks.info.metadata);
        request.extensions = mem::take(&mut hooks.info.handler_extensions);
        let lost =
            self.shared.with(|state, _| match state.slots.find(self.key).and_then(|slot| slot.observed.as_mut()) {
                Some(observed) => {
                    observed.put_back(hooks);
                    None
                }
                None => Some(hooks),
            });
        drop(lost);
        passed
    }

    /// Takes the response headers for changing them; `None` once they were sent.
    pub(crate) fn take_headers(&self) -> Option<Metadata> {
        self.shared.with(|state, _| state.slots.find(self.key)?.role.lend_headers())
    }

    /// Puts them back, unless they were sent meanwhile.
    pub(crate) fn put_headers(&self, headers: Metadata) {
        self.shared.with(|state, _| {
            if let Some(slot) = state.slots.find(self.key) {
                slot.role.put_headers(headers);
            }
        });
    }

    /// The signal of the call's end; one that has fired if it is over.
    pub(crate) fn signal(&self) -> Arc<Signal> {
        self.shared.with(|state, _| match state.slots.find(self.key) {
            Some(slot) if !slot.role.is_over => Arc::clone(slot.role.signal.get_or_insert_default()),
            _ => Arc::new(Signal::fired()),
        })
    }

    /// Whether the handler's task should stop; otherwise it is woken when it should.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.shared.with(|state, _| match state.slots.find(self.key) {
            Some(slot) if !slot.role.is_over => {
                register(&mut slot.role.task, cx, &mut state.stale);
                Poll::Pending
            }
            _ => Poll::Ready(()),
        })
    }

    /// Compresses no further message of the response.
    pub(crate) fn disable_compression(&self) {
        self.shared.with(|state, _| {
            if let Some(slot) = state.slots.find(self.key) {
                slot.codings.stop_compressing();
            }
        });
    }

    /// Chooses when the messages of the response leave.
    pub(crate) fn set_flush_policy(&self, policy: FlushPolicy) {
        if policy.is_timed() {
            self.shared.watch_time();
        }
        self.shared.with(|state, now| {
            let id = state.slots.find(self.key).map(|slot| slot.id);
            if let Some(mut call) = id.and_then(|id| state.conn.call(id)) {
                call.set_flush_policy(policy, now);
            }
        });
    }

    /// Answers with the only response: head, message and trailers leave in one run. `request` is what the call brought,
    /// which nobody needs any more.
    pub(crate) fn respond(&self, message: &dyn Encode, mut request: Box<Request>, trailers: Option<Box<Metadata>>) {
        let (shared, len) = (&self.shared, message.encoded_len());
        let compressor = mem::take(&mut request.compressor);
        request.clear();
        if is_inline(message) && !compressor.wants(len, shared.compress_min) {
            return self.answer(len, request, trailers, |call, headers, trailers, now| {
                call.respond(&Erased(""), &message, headers, trailers, now)
            });
        }
        match shared.encode(message).and_then(|plain| shared.compress(plain, &compressor)) {
            Ok(encoded) => {
                let kept = encoded.clone();
                self.answer(Some(encoded.bytes.len()), request, trailers, |call, headers, trailers, now| {
                    call.respond_encoded(encoded, headers, trailers, now)
                });
                shared.recycle(Some(kept));
            }
            Err(status) => self.end(status, trailers.map_or_else(Metadata::new, |trailers| *trailers)),
        }
    }

    /// Ends the call by `send`, which is given the response's metadata, unless it is over.
    fn answer(
        &self,
        len: Option<usize>,
        request: Box<Request>,
        trailers: Option<Box<Metadata>>,
        send: impl FnOnce(CallMut<'_, Server>, &Metadata, &Metadata, Instant) -> Result<(), SendError>,
    ) {
        if self.shared.observes {
            self.shared.answer(self.key);
        }
        let (mut ended, mut dropped, mut coded) = (None, None, Codings::default());
        self.shared.with(|state, now| {
            dropped = state.extra.spare.keep(request);
            let Some(slot) = state.slots.find(self.key) else { return };
            self.shared.answered.store(self.key.bits(), Ordering::Relaxed);
            if slot.role.is_over {
                ended = state.end(self.key, over(), Metadata::new(), now);
                return;
            }
            slot.message_sent(len.unwrap_or_default(), now);
            let (id, headers) = (slot.id, slot.role.headers.take());
            let Discarded { codings, slot } = state.slots.discard(self.key, ServerSlot::is_bare);
            coded = codings;
            // The core answers for a codec that failed; a call that has ended needs no answer.
            let outcome = match state.conn.call(id) {
                Some(call) => {
                    let (headers, trailers) = (headers.as_deref(), trailers.as_deref());
                    let sent = send(call, headers.unwrap_or(NOTHING), trailers.unwrap_or(NOTHING), now);
                    sent.map_or_else(send_status, |()| Status::OK)
                }
                None => over(),
            };
            let Some(mut slot) = slot else { return };
            let observed = slot.last_observed(now);
            Server::finished(&mut slot, &mut state.wakes);
            ended = Some(Ended { _slot: *slot, observed, outcome });
        });
        // With the lock released.
        drop((dropped, coded));
        if let Some(ended) = ended {
            ended.settle();
        }
    }

    /// Ends the call, unless it was answered already: its codec is none of `offered`, which are all.
    pub(crate) fn refuse_codec(&self, offered: &[&str]) {
        let ended = self.shared.with(|state, now| {
            let id = state.slots.find(self.key).map(|slot| slot.id);
            if let Some(call) = id.and_then(|id| state.conn.call(id)) {
                call.refuse_codec(offered, now);
            }
            // The peer has its answer; this is for the interceptors.
            state.end(self.key, Status::unimplemented("the codec is not offered"), Metadata::new(), now)
        });
        if let Some(ended) = ended {
            ended.settle();
        }
    }

    /// Whether the call has been answered, or ended otherwise.
    pub(crate) fn is_answered(&self) -> bool {
        self.shared.answered.load(Ordering::Relaxed) == self.key.bits()
            || self.shared.look(|state| state.slots.find(self.key).is_none())
    }

    /// [`end`](Self::end), with what the call brought, which nobody needs any more.
    pub(crate) fn finish(&self, status: Status, trailers: Metadata, mut request: Box<Request>) {
        request.clear();
        let (ended, dropped) = self
            .shared
            .with(|state, now| (state.end(self.key, status, trailers, now), state.extra.spare.keep(request)));
        drop(dropped);
        if let Some(ended) = ended {
            ended.settle();
        }
    }

    /// Ends the call, unless it was answered already.
    pub(crate) fn end(&self, status: Status, trailers: Metadata) {
        if let Some(ended) = self.shared.with(|state, now| state.end(self.key, status, trailers, now)) {
            ended.settle();
        }
    }
}
