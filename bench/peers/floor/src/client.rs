//! A closed loop of unary gRPC calls on one connection.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use trirpc_meter::Window;

use crate::Machine;
use crate::frame::{self, *};

/// What the connections of a load have in common.
pub struct Shared {
    /// Counts calls.
    pub window: Window,
    /// Calls that may still be started.
    pub left: u64,
}

/// A call in flight.
struct Call {
    stream: u32,
    /// Octets of the request that are not sent yet.
    left: usize,
    window: i64,
    since: Instant,
    /// Octets of the response so far.
    received: usize,
}

/// Keeps a number of calls in flight. Each sends the same request, and its response must be as long.
pub struct Client {
    shared: Rc<RefCell<Shared>>,
    request: Vec<u8>,
    /// Header block of the first call, which fills the server's table, and of all later ones.
    blocks: [Vec<u8>; 2],
    in_flight: usize,
    next_stream: u32,
    /// In the order in which they were started, which is as a rule that in which they are answered.
    calls: VecDeque<Call>,
    window: i64,
    initial_window: i64,
    is_open: bool,
    is_drained: bool,
    credit: usize,
}

impl Client {
    /// A client that has `in_flight` calls of `path` with a payload of `payload` octets.
    pub fn new(shared: Rc<RefCell<Shared>>, path: &str, payload: usize, in_flight: usize) -> Self {
        const METHOD_POST: u8 = indexed(3);
        const SCHEME_HTTP: u8 = indexed(6);
        let mut first = vec![METHOD_POST, SCHEME_HTTP];
        literal(&mut first, 0x40 | 4, "", path);
        literal(&mut first, 0x40 | 1, "", "127.0.0.1"); // :authority
        literal(&mut first, CONTENT_TYPE, "", "application/grpc");
        literal(&mut first, NEW_NAME, "te", "trailers");
        let [path, authority, content_type, te] = [NEWEST + 3, NEWEST + 2, NEWEST + 1, NEWEST].map(indexed);
        let later = vec![METHOD_POST, SCHEME_HTTP, path, authority, content_type, te];
        Self {
            shared,
            request: envelope(payload),
            blocks: [first, later],
            in_flight,
            next_stream: 1,
            calls: VecDeque::new(),
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            is_open: false,
            is_drained: false,
            credit: 0,
        }
    }

    fn call(&mut self, now: Instant, out: &mut Vec<u8>) {
        let mut shared = self.shared.borrow_mut();
        if shared.left == 0 {
            self.is_drained = true;
            return;
        }
        shared.left -= 1;
        drop(shared);
        let stream = self.next_stream;
        self.next_stream += 2;
        frame::write(out, HEADERS, END_HEADERS, stream, &self.blocks[usize::from(stream > 1)]);
        let mut call = Call { stream, left: self.request.len(), window: self.initial_window, since: now, received: 0 };
        send(&self.request, &mut call, &mut self.window, out);
        self.calls.push_back(call);
    }

    fn send_all(&mut self, out: &mut Vec<u8>) {
        for call in self.calls.iter_mut().filter(|call| call.left > 0) {
            send(&self.request, call, &mut self.window, out);
        }
    }

    fn place(&self, stream: u32) -> Option<usize> {
        self.calls.iter().position(|call| call.stream == stream)
    }

    fn handle(&mut self, frame: &Frame<'_>, now: Instant, out: &mut Vec<u8>) {
        match frame.kind {
            DATA | HEADERS => {
                let at = self.place(frame.stream).expect("an open stream");
                if frame.kind == DATA {
                    self.calls[at].received += frame.payload.len();
                    self.credit += frame.payload.len();
                }
                if frame.has(END_STREAM) {
                    let call = self.calls.remove(at).expect("found above");
                    assert_eq!(call.received, self.request.len(), "a short answer");
                    self.shared.borrow_mut().window.add(now - call.since, 1);
                    self.call(now, out);
                }
            }
            SETTINGS if !frame.has(ACK) => {
                if let Some((_, size)) = frame.settings().find(|(id, _)| *id == INITIAL_WINDOW_SIZE) {
                    let change = i64::from(size) - self.initial_window;
                    self.initial_window = i64::from(size);
                    self.calls.iter_mut().for_each(|call| call.window += change);
                }
                frame::write(out, SETTINGS, ACK, 0, &[]);
                if !self.is_open {
                    self.is_open = true;
                    (0..self.in_flight).for_each(|_| self.call(now, out));
                }
            }
            WINDOW_UPDATE => {
                let by = i64::from(be32(frame.payload));
                if frame.stream == 0 {
                    self.window += by;
                    self.send_all(out);
                } else if let Some(at) = self.place(frame.stream) {
                    let call = &mut self.calls[at];
                    call.window += by;
                    send(&self.request, call, &mut self.window, out);
                }
            }
            PING if !frame.has(ACK) => frame::write(out, PING, ACK, 0, frame.payload),
            GOAWAY => panic!("GOAWAY {}", String::from_utf8_lossy(&frame.payload[4..])),
            RST_STREAM => panic!("RST_STREAM {}", be32(frame.payload)),
            _ => {}
        }
    }
}

/// An envelope of gRPC around a protobuf message whose field 1 is `payload` octets.
fn envelope(payload: usize) -> Vec<u8> {
    let mut message = vec![0x0a];
    let mut length = payload;
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.resize(message.len() + payload, 0x5a);
    let mut envelope = vec![0];
    envelope.extend_from_slice(&(message.len() as u32).to_be_bytes());
    envelope.append(&mut message);
    envelope
}

/// Sends of a call's request what the windows allow.
fn send(request: &[u8], call: &mut Call, window: &mut i64, out: &mut Vec<u8>) {
    while call.left > 0 {
        let allowed = call.window.min(*window).min(MAX_FRAME as i64);
        if allowed <= 0 {
            return;
        }
        let length = call.left.min(allowed as usize);
        let at = request.len() - call.left;
        call.left -= length;
        call.window -= length as i64;
        *window -= length as i64;
        let flags = if call.left == 0 { END_STREAM } else { 0 };
        frame::write(out, DATA, flags, call.stream, &request[at..at + length]);
    }
}

impl Machine for Client {
    fn start(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        write_settings(out, &[(INITIAL_WINDOW_SIZE, MAX_WINDOW)]);
        write_window_update(out, 0, MAX_WINDOW - DEFAULT_WINDOW as u32);
    }

    fn feed(&mut self, input: &[u8], now: Instant, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        while let Some(frame) = first(&input[at..]) {
            at += HEAD + frame.payload.len();
            self.handle(&frame, now, out);
        }
        if self.credit > CREDIT {
            write_window_update(out, 0, self.credit as u32);
            self.credit = 0;
        }
        at
    }

    fn is_finished(&self) -> bool {
        self.is_drained && self.calls.is_empty()
    }
}
