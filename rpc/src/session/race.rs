//! A send that races with the end of its stream, on real threads (arch:C3): the message is delivered or refused, and
//! never swallowed.
//!
//! The race runs through the shared half of the call layer, below the handles that have one owner each. The same race
//! runs on a copy that does what a buffer above the connection does, with its seal and without: without, it fails.

use std::hint;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use bytes::{Buf, BufMut};
use trirpc_core::buf::Run;
use trirpc_core::buf::{Encoded, FlushPolicy, MessageBuf};
use trirpc_core::call::{CallKind, CallOptions, Codec, EncodeBuf, Metadata, Method, MethodCodec, MethodSpec, Status};
use trirpc_core::{CodecError, Config, Endpoint, HttpVersion};

use super::ClientSession;
use crate::client::{Invoke, handshake};
use crate::duplex::duplex;
use crate::raw::{CallKey, Carrier, Half, Outcome, Outgoing, RawCall, Received, Typed, encode, send_status};
use crate::server::{Handling, IncomingCall, Router, Service, ServiceDescriptor, serve_connection};
use crate::time::ManualTime;

const ROUNDS: usize = 200;
/// Bytes of each message.
pub(super) const SIZE: usize = 100;

/// Octets as they are.
struct Octets;

impl Codec<Vec<u8>> for Octets {
    fn name(&self) -> &'static str {
        "octets"
    }

    fn encoded_len(&self, item: &Vec<u8>) -> Option<usize> {
        Some(item.len())
    }

    fn encode(&self, item: &Vec<u8>, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(item);
        Ok(())
    }

    fn decode(&self, src: &mut MessageBuf) -> Result<Vec<u8>, CodecError> {
        Ok(src.copy_to_bytes(src.remaining()).to_vec())
    }
}

static CODECS: &[MethodCodec<Vec<u8>, Vec<u8>>] = &[MethodCodec { request: &Octets, response: &Octets }];
static COUNT: Method<Vec<u8>, Vec<u8>> = Method::new("/t.Race/Count", CallKind::ClientStreaming, false, CODECS);

/// Answers with how many bytes came.
struct Counter;

impl Service for Counter {
    fn descriptor(&self) -> &'static ServiceDescriptor {
        static METHODS: &[&MethodSpec] = &[&COUNT.spec];
        static DESCRIPTOR: ServiceDescriptor = ServiceDescriptor::new("t.Race", METHODS);
        &DESCRIPTOR
    }

    fn call(self: Arc<Self>, _: usize, call: IncomingCall) -> Handling {
        call.client_streaming(&COUNT, |cx, mut rx| async move {
            let mut bytes = 0u64;
            let result = loop {
                match rx.next().await {
                    Ok(Some(message)) => bytes += message.len() as u64,
                    Ok(None) => break Ok(bytes.to_be_bytes().to_vec()),
                    Err(status) => break Err(status),
                }
            };
            cx.respond(&COUNT, result);
        })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// A client whose calls are served by a thread each.
fn serve() -> ClientSession {
    let ((near, far), time, config) = (duplex(64 * 1024), ManualTime::new(), Arc::new(Config::default()));
    let router = Arc::new(Router::new().add(Counter));
    let (session, driver) = serve_connection(far, router, Arc::clone(&config), time.clone(), |task| {
        thread::spawn(move || block_on(task));
    });
    thread::spawn(move || block_on(async { drop((driver.await, session)) }));
    let (session, driver) = handshake(near, config, Endpoint::http("race"), HttpVersion::Http2, time);
    thread::spawn(move || block_on(async { drop(driver.await) }));
    session
}

pub(super) fn open(session: &ClientSession, policy: FlushPolicy) -> RawCall {
    let mut options = CallOptions::default();
    options.flush = Some(policy);
    session.start(&COUNT.spec, &options, Octets.name())
}

pub(super) fn send(carrier: &dyn Carrier, key: CallKey) -> Poll<Result<(), Status>> {
    let item = vec![7; SIZE];
    let message = Typed::new(&Octets, &item);
    carrier.poll_send(key, &mut Outgoing::new(&message, &mut None), &mut Context::from_waker(Waker::noop()))
}

/// Bytes that a call accepted and that arrived, where `sends` threads send until they are refused, one flushes all the
/// time if `flushes`, and one ends the stream after a while that depends on `round`.
fn race(call: RawCall, carrier: &dyn Carrier, sends: usize, flushes: bool, round: usize) -> (usize, usize) {
    let key = call.parts().1;
    let accepted = AtomicUsize::new(0);
    let is_finished = AtomicBool::new(false);
    let start = Barrier::new(sends + 1);
    thread::scope(|scope| {
        for _ in 0..sends {
            scope.spawn(|| {
                start.wait();
                loop {
                    let was_finished = is_finished.load(Ordering::SeqCst);
                    match send(carrier, key) {
                        Poll::Ready(Ok(())) => drop(accepted.fetch_add(SIZE, Ordering::SeqCst)),
                        Poll::Ready(Err(_)) => return,
                        Poll::Pending => thread::yield_now(),
                    }
                    if was_finished {
                        return;
                    }
                }
            });
        }
        if flushes {
            scope.spawn(|| {
                while !is_finished.load(Ordering::SeqCst) {
                    // Once the end is said, the call may be over before this thread knows.
                    let _ = carrier.flush(key);
                    thread::yield_now();
                }
            });
        }
        start.wait();
        for _ in 0..round * 50 {
            hint::spin_loop();
        }
        carrier.finish(key).unwrap();
        is_finished.store(true, Ordering::SeqCst);
    });
    let mut receiver = call.into_receiver();
    let mut outcome = block_on(std::future::poll_fn(|cx| receiver.poll_outcome(cx))).unwrap();
    (accepted.into_inner(), outcome.message.get_u64() as usize)
}

/// arch:C3, arch:C1, bg:W7, bg:W8, bg:W16: bytes out are accepted messages × size, whoever flushes and ends meanwhile.
#[test]
fn a_send_that_races_with_the_end_is_delivered_or_refused() {
    let session = serve();
    for policy in [FlushPolicy::coalesce(None), FlushPolicy::Immediate] {
        for round in 0..ROUNDS {
            let call = open(&session, policy);
            let (carrier, _) = call.parts();
            let (accepted, delivered) = race(call, &*carrier, 1 + round % 2, round % 3 == 0, round);
            assert_eq!(accepted, delivered, "round {round}, {policy:?}");
        }
    }
}

/// arch:C3, bg:W7: the race above can tell: a buffer in front of the connection passes with its seal, and fails without.
#[test]
fn without_the_seal_the_race_loses_messages() {
    let session = serve();
    for seals in [true, false] {
        let lost = (0..ROUNDS).filter(|&round| {
            let call = open(&session, FlushPolicy::Immediate);
            let front = Front { carrier: call.parts().0, seals, state: Mutex::default() };
            let (accepted, delivered) = race(call, &front, 1, false, round);
            accepted != delivered
        });
        let lost = lost.count();
        assert_eq!(lost > 0, !seals, "{lost} rounds lost something");
    }
}

/// arch:C8, bg:W17: where nothing leaves, any number of senders get no more than the bound into the call.
#[test]
fn concurrent_senders_share_one_bound() {
    let (near, _far) = duplex(64 * 1024);
    let config = Arc::new(Config::default());
    let bound = config.send_buffer + SIZE + 5;
    let (session, _driver) = handshake(near, config, Endpoint::http("race"), HttpVersion::Http2, ManualTime::new());
    for policy in [FlushPolicy::coalesce(None), FlushPolicy::Immediate] {
        let call = open(&session, policy);
        let (carrier, key) = call.parts();
        let accepted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while send(&*carrier, key).is_ready() {
                        accepted.fetch_add(SIZE + 5, Ordering::SeqCst);
                    }
                });
            }
        });
        let accepted = accepted.into_inner();
        assert!((bound - SIZE - 5..bound).contains(&accepted), "{accepted} of {bound}");
    }
}

/// A buffer in front of a connection, as others have it: sending fills it, and the end of the stream empties it.
struct Front {
    carrier: Arc<dyn Carrier>,
    /// Whether the end also closes the buffer, in the same step.
    seals: bool,
    state: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    messages: Vec<Encoded>,
    is_sealed: bool,
}

impl Front {
    fn empty(&self, key: CallKey, messages: Vec<Encoded>, cx: &mut Context<'_>) {
        for encoded in messages {
            let nothing = Vec::new();
            let nothing = Typed::new(&Octets, &nothing);
            let mut encoded = Some(encoded);
            let mut outgoing = Outgoing::new(&nothing, &mut encoded);
            while self.carrier.poll_send(key, &mut outgoing, cx).is_pending() {
                thread::yield_now();
            }
        }
    }
}

impl Carrier for Front {
    fn poll_send(&self, key: CallKey, message: &mut Outgoing<'_>, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let mut state = self.state.lock().unwrap();
        if state.is_sealed {
            return Poll::Ready(Err(send_status(trirpc_core::SendError::Sealed)));
        }
        state.messages.push(encode(message.message, bytes::BytesMut::new(), SIZE)?);
        if state.messages.len() >= 10 {
            let messages = std::mem::take(&mut state.messages);
            self.empty(key, messages, cx);
        }
        Poll::Ready(Ok(()))
    }

    fn flush(&self, _: CallKey) -> Result<(), Status> {
        Ok(())
    }

    fn finish(&self, key: CallKey) -> Result<(), Status> {
        let mut state = self.state.lock().unwrap();
        state.is_sealed = self.seals;
        let messages = std::mem::take(&mut state.messages);
        self.empty(key, messages, &mut Context::from_waker(Waker::noop()));
        drop(state);
        self.carrier.finish(key)
    }

    fn poll_head(&self, key: CallKey, cx: &mut Context<'_>) -> Poll<Result<Metadata, Status>> {
        self.carrier.poll_head(key, cx)
    }

    fn poll_recv(&self, key: CallKey, cx: &mut Context<'_>, ahead: Option<&mut Run>) -> Poll<Result<Received, Status>> {
        self.carrier.poll_recv(key, cx, ahead)
    }

    fn poll_outcome(&self, key: CallKey, half: Half, cx: &mut Context<'_>) -> Poll<Result<Outcome, Status>> {
        self.carrier.poll_outcome(key, half, cx)
    }

    fn release(&self, key: CallKey, half: Half, cancel: bool) {
        self.carrier.release(key, half, cancel);
    }
}
