use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::{Buf, Bytes, BytesMut};
use h2::client;
use http::{HeaderMap, HeaderName, Request};
use trirpc_core::buf::Encoded;
use trirpc_core::call::{CallKind, Code, Metadata, Recv, Status};
use trirpc_core::{CallId, Connection, HttpVersion, Server};

use super::{
    Io, LAST_WINDOW, MAX_STEPS, MAX_TURNS, Ours, config, context, envelope, is_farewell, read, size, start, write,
};
use crate::input::Input;
use crate::memory::uncharged;
use crate::random::Random;
use crate::trace::Side;

pub(super) fn run(input: &mut Input<'_>) {
    let mut world = World::new(input);
    for _ in 0..MAX_STEPS {
        if input.is_empty() {
            break;
        }
        world.act(input);
        world.turn();
    }
    world.settle();
}

type Theirs = (client::SendRequest<Bytes>, client::Connection<Io, Bytes>);

struct World {
    ours: Ours<Server>,
    handshake: Option<Pin<Box<dyn Future<Output = Result<Theirs, h2::Error>>>>>,
    sender: Option<client::SendRequest<Bytes>>,
    theirs: Option<client::Connection<Io, Bytes>>,
    calls: Vec<Call>,
    handled: Vec<Handled>,
    is_leaving: bool,
    /// Most that a message of ours may hold, so that none is refused.
    max_message: usize,
}

/// A request of the client of `h2`.
struct Call {
    response: Option<client::ResponseFuture>,
    body: Option<h2::RecvStream>,
    stream: h2::SendStream<Bytes>,
    /// All that was to be sent.
    sent: Vec<u8>,
    messages: usize,
    pending: BytesMut,
    received: BytesMut,
    /// What to end with, and whether it was sent.
    ends_with_trailers: bool,
    is_finishing: bool,
    has_ended: bool,
    disturbed: bool,
    /// `grpc-status`, or nothing if the stream was lost.
    outcome: Option<Option<String>>,
}

/// A call at our server, which goes back as it came.
struct Handled {
    id: CallId,
    held: Option<Bytes>,
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let (limits, seed, window) = (config(input.octet()), input.octet(), input.octet());
        let max_message = limits.max_reserved.saturating_sub(5).min(100_000);
        let conn = || Connection::<Server>::new(Arc::new(limits), Some(HttpVersion::Http2), start());
        let (ours, io) = Ours::new(conn, Side::Server, seed);
        let mut builder = client::Builder::new();
        builder
            .initial_window_size([65_535, 10, 1000, 1 << 20][usize::from(window % 4)])
            .max_frame_size([16_384, 1 << 20][usize::from(window / 4 % 2)])
            .header_table_size([4096, 0, 100, 65_536][usize::from(window / 32 % 4)])
            .enable_push(window >= 128)
            .data_frame_budget(usize::MAX);
        Self {
            ours,
            handshake: Some(Box::pin(async move { builder.handshake::<_, Bytes>(io).await })),
            sender: None,
            theirs: None,
            calls: Vec::new(),
            handled: Vec::new(),
            is_leaving: false,
            max_message,
        }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        let (choice, octet) = (input.octet() % 100, input.octet());
        let number = self.calls.len();
        let call = usize::from(octet) % number.max(1);
        match choice {
            0..=19 => self.open(octet),
            20..=44 if number > 0 => {
                let call = &mut self.calls[call];
                if !call.is_finishing {
                    let size = size(input).min(self.max_message);
                    let message = Random::new(call.messages as u64).bytes(size);
                    call.messages += 1;
                    let octets = envelope(&message);
                    call.sent.extend_from_slice(&octets);
                    call.pending.extend_from_slice(&octets);
                }
            }
            45..=52 if number > 0 => {
                self.calls[call].is_finishing = true;
                self.calls[call].ends_with_trailers = octet % 3 == 0;
            }
            53..=70 => self.calls.iter_mut().for_each(Call::step),
            71 | 72 if number > 0 => {
                self.calls[call].disturbed = true;
                self.calls[call].stream.send_reset(h2::Reason::CANCEL);
            }
            73..=75 => {
                let window = [0, 1, 100, 65_535, 1 << 20][usize::from(octet % 5)];
                if let Some(theirs) = &mut self.theirs {
                    let _ = theirs.set_initial_window_size(window);
                }
            }
            76 => {
                if let Some(mut ping) = self.theirs.as_mut().and_then(client::Connection::ping_pong) {
                    let _ = ping.send_ping(h2::Ping::opaque());
                }
            }
            77 | 78 => self.end_early(octet),
            79 if octet < 60 => {
                self.is_leaving = true;
                let Ours { conn, memory, now, .. } = &mut self.ours;
                memory.charge(|| conn.shutdown(*now));
            }
            80..=88 => self.echo(),
            _ => {
                for _ in 0..octet % 8 {
                    self.turn();
                }
            }
        }
    }

    fn open(&mut self, octet: u8) {
        let Some(sender) = &mut self.sender else { return };
        let Poll::Ready(Ok(())) = sender.poll_ready(&mut context()) else { return };
        let mut request = Request::post("http://test/t.Echo/Chat")
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("x-call", self.calls.len());
        if octet >= 200 {
            request = request.header("x-large", "v".repeat(100 * usize::from(octet)));
        }
        let Ok((response, stream)) = sender.send_request(request.body(()).expect("a request"), false) else { return };
        self.calls.push(Call {
            response: Some(response),
            body: None,
            stream,
            sent: Vec::new(),
            messages: 0,
            pending: BytesMut::new(),
            received: BytesMut::new(),
            ends_with_trailers: false,
            is_finishing: false,
            has_ended: false,
            disturbed: false,
            outcome: None,
        });
    }

    /// Our server ends a call before its time.
    fn end_early(&mut self, octet: u8) {
        let number = self.handled.len().max(1);
        let Some(handled) = self.handled.get(usize::from(octet) % number) else { return };
        let Ours { conn, memory, now, .. } = &mut self.ours;
        let Some(call) = conn.call(handled.id) else { return };
        let index = call.metadata().and_then(|metadata| metadata.get("x-call")?.to_str()?.parse().ok());
        let index: usize = index.expect("the metadata that was sent");
        self.calls[index].disturbed = true;
        memory.charge(|| match octet % 2 {
            0 => call.release(),
            _ => drop(call.finish(&Status::new(Code::Aborted, "enough"), &Metadata::new(), *now)),
        });
    }

    /// Our server's handlers move what can be moved.
    fn echo(&mut self) {
        let Ours { conn, memory, now, .. } = &mut self.ours;
        let now = *now;
        while let Some(id) = memory.charge(|| conn.accept()) {
            let mut call = conn.call(id).expect("accepted just now");
            memory.charge(|| call.expect(CallKind::Bidi, now));
            self.handled.push(Handled { id, held: None });
        }
        let echo = |handled: &mut Handled| {
            loop {
                let Some(mut call) = conn.call(handled.id) else { return false };
                if let Some(message) = handled.held.take() {
                    let encoded = Encoded { bytes: message.clone(), compressed: false };
                    if call.send_capacity() == 0 && !call.is_over() {
                        handled.held = Some(message);
                        return true;
                    }
                    let _ = call.send_encoded(encoded, now);
                }
                match call.recv() {
                    Recv::Message(mut message) => {
                        handled.held = Some(uncharged(|| message.copy_to_bytes(message.len())));
                    }
                    Recv::Blocked => return true,
                    Recv::End if call.is_over() => {
                        call.release();
                        return false;
                    }
                    Recv::End => {
                        let _ = call.finish(&Status::OK, &Metadata::new(), now);
                        return false;
                    }
                }
            }
        };
        memory.charge(|| self.handled.retain_mut(echo));
    }

    fn turn(&mut self) -> bool {
        let moved = self.ours.turn();
        if let Some(handshake) = &mut self.handshake {
            if let Poll::Ready(result) = handshake.as_mut().poll(&mut context()) {
                let (sender, theirs) = result.unwrap_or_else(|error| panic!("{error}\n{}", self.ours.trace.tail(30)));
                (self.sender, self.theirs, self.handshake) = (Some(sender), Some(theirs), None);
            }
        }
        if let Some(theirs) = &mut self.theirs {
            match Pin::new(theirs).poll(&mut context()) {
                Poll::Pending => {}
                Poll::Ready(Err(error)) if !is_farewell(&error) => {
                    panic!("h2 accuses us of {error}\n{}", self.ours.trace.tail(30));
                }
                Poll::Ready(_) => {
                    self.theirs = None;
                    self.ours.inbound.shut();
                }
            }
        }
        moved
    }

    fn settle(&mut self) {
        let (mut quiet, mut has_window) = (0, false);
        for _ in 0..MAX_TURNS {
            has_window =
                has_window || self.theirs.as_mut().is_none_or(|it| it.set_initial_window_size(LAST_WINDOW).is_ok());
            let moved = self.turn();
            self.echo();
            for call in &mut self.calls {
                call.is_finishing = true;
                call.step();
            }
            quiet = if moved { 0 } else { quiet + 1 };
            if !moved {
                self.ours.wait();
            }
            if quiet > 10 && self.calls.iter().all(|call| call.outcome.is_some()) {
                break;
            }
        }
        for (index, call) in self.calls.iter().enumerate() {
            let trace = self.ours.trace.tail(40);
            let outcome = call.outcome.as_ref().unwrap_or_else(|| panic!("call {index} never ended\n{trace}"));
            assert!(call.sent.starts_with(&call.received), "call {index} got back what it did not send\n{trace}");
            if !call.disturbed && !self.is_leaving {
                assert_eq!(outcome.as_deref(), Some("0"), "call {index}\n{trace}");
                assert_eq!(call.received.len(), call.sent.len(), "call {index} lost octets\n{trace}");
            }
        }
        assert_eq!(self.ours.conn.open_calls(), 0, "calls are left\n{}", self.ours.trace.tail(40));
    }
}

impl Call {
    /// Moves what can be moved.
    fn step(&mut self) {
        if self.outcome.is_some() {
            return;
        }
        // An error here means that the response tells more.
        let is_writable = self.has_ended || write(&mut self.stream, &mut self.pending);
        if is_writable && self.is_finishing && self.pending.is_empty() && !self.has_ended {
            self.has_ended = true;
            let _ = match self.ends_with_trailers {
                true => self.stream.send_trailers(HeaderMap::from_iter([(HeaderName::from_static("x-sum"), 1.into())])),
                false => self.stream.send_data(Bytes::new(), true),
            };
        }
        if let Some(response) = &mut self.response {
            match Pin::new(response).poll(&mut context()) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => {
                    // More streams than there are slots: opened before SETTINGS came, or while handlers were at work.
                    self.disturbed |= error.reason() == Some(h2::Reason::REFUSED_STREAM);
                    return self.outcome = Some(None);
                }
                Poll::Ready(Ok(response)) => {
                    self.response = None;
                    let status = status(response.headers());
                    let body = response.into_body();
                    if status.is_some() && body.is_end_stream() {
                        return self.outcome = Some(status);
                    }
                    self.body = Some(body);
                }
            }
        }
        let Some(body) = &mut self.body else { return };
        match read(body, &mut self.received) {
            None => self.outcome = Some(None),
            Some(false) => {}
            Some(true) => match body.poll_trailers(&mut context()) {
                Poll::Pending => {}
                Poll::Ready(Ok(trailers)) => self.outcome = Some(trailers.as_ref().and_then(status)),
                Poll::Ready(Err(_)) => self.outcome = Some(None),
            },
        }
    }
}

fn status(fields: &HeaderMap) -> Option<String> {
    Some(fields.get("grpc-status")?.to_str().ok()?.to_owned())
}
