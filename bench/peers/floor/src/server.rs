//! Answers every request with its own body.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use crate::Machine;
use crate::frame::{self, *};

/// Bodies that are kept for reuse.
const SPARE: usize = 256;

/// The header blocks of a response: the first time the fields enter the client's table, then they are there.
#[derive(Default)]
struct Blocks {
    head_sent: bool,
    trailers_sent: bool,
}

impl Blocks {
    fn write_head(&mut self, stream: u32, out: &mut Vec<u8>) {
        const STATUS_200: u8 = indexed(8);
        if self.head_sent {
            // The newest entry, until `grpc-status` came in.
            let content_type = indexed(NEWEST + u8::from(self.trailers_sent));
            frame::write(out, HEADERS, END_HEADERS, stream, &[STATUS_200, content_type]);
        } else {
            let mut block = vec![STATUS_200];
            literal(&mut block, CONTENT_TYPE, "", "application/grpc");
            frame::write(out, HEADERS, END_HEADERS, stream, &block);
            self.head_sent = true;
        }
    }

    fn write_trailers(&mut self, stream: u32, out: &mut Vec<u8>) {
        if self.trailers_sent {
            frame::write(out, HEADERS, END_HEADERS | END_STREAM, stream, &[indexed(NEWEST)]);
        } else {
            let mut block = Vec::new();
            literal(&mut block, NEW_NAME, "grpc-status", "0");
            frame::write(out, HEADERS, END_HEADERS | END_STREAM, stream, &block);
            self.trailers_sent = true;
        }
    }
}

/// A response whose head is sent, and whose body waits for windows.
struct Waiting {
    stream: u32,
    body: Vec<u8>,
    sent: usize,
    window: i64,
}

/// Takes requests that are one HEADERS frame and any number of DATA frames.
pub struct Server {
    is_greeted: bool,
    blocks: Blocks,
    window: i64,
    initial_window: i64,
    /// Requests of which a part came.
    partial: HashMap<u32, Vec<u8>>,
    waiting: VecDeque<Waiting>,
    /// Window updates of streams whose request has not ended.
    early: HashMap<u32, i64>,
    spare: Vec<Vec<u8>>,
    credit: usize,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            is_greeted: false,
            blocks: Blocks::default(),
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            partial: HashMap::new(),
            waiting: VecDeque::new(),
            early: HashMap::new(),
            spare: Vec::new(),
            credit: 0,
        }
    }
}

impl Server {
    fn data(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        self.credit += frame.payload.len();
        let (stream, spare) = (frame.stream, &mut self.spare);
        if !frame.has(END_STREAM) {
            let body = self.partial.entry(stream).or_insert_with(|| spare.pop().unwrap_or_default());
            body.extend_from_slice(frame.payload);
            return;
        }
        self.blocks.write_head(stream, out);
        let length = frame.payload.len() as i64;
        let partial = self.partial.remove(&stream);
        if partial.is_none() && self.waiting.is_empty() && length <= self.window.min(self.initial_window) {
            self.window -= length;
            frame::write(out, DATA, 0, stream, frame.payload);
            self.blocks.write_trailers(stream, out);
            return;
        }
        let mut body = partial.unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        body.extend_from_slice(frame.payload);
        let window = self.initial_window + self.early.remove(&stream).unwrap_or(0);
        self.waiting.push_back(Waiting { stream, body, sent: 0, window });
        self.send_waiting(out);
    }

    fn send_waiting(&mut self, out: &mut Vec<u8>) {
        while let Some(first) = self.waiting.front_mut() {
            while first.sent < first.body.len() {
                let allowed = self.window.min(first.window).min(MAX_FRAME as i64);
                if allowed <= 0 {
                    return;
                }
                let length = (first.body.len() - first.sent).min(allowed as usize);
                frame::write(out, DATA, 0, first.stream, &first.body[first.sent..first.sent + length]);
                first.sent += length;
                first.window -= length as i64;
                self.window -= length as i64;
            }
            self.blocks.write_trailers(first.stream, out);
            if let Some(mut sent) = self.waiting.pop_front().filter(|_| self.spare.len() < SPARE) {
                sent.body.clear();
                self.spare.push(sent.body);
            }
        }
    }

    fn handle(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        match frame.kind {
            DATA => self.data(frame, out),
            SETTINGS if !frame.has(ACK) => {
                if let Some((_, size)) = frame.settings().find(|(id, _)| *id == INITIAL_WINDOW_SIZE) {
                    self.initial_window = i64::from(size);
                }
                frame::write(out, SETTINGS, ACK, 0, &[]);
            }
            WINDOW_UPDATE => {
                let by = i64::from(be32(frame.payload));
                if frame.stream == 0 {
                    self.window += by;
                } else if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.stream == frame.stream) {
                    waiting.window += by;
                } else {
                    *self.early.entry(frame.stream).or_default() += by;
                }
                self.send_waiting(out);
            }
            PING if !frame.has(ACK) => frame::write(out, PING, ACK, 0, frame.payload),
            _ => {}
        }
    }
}

impl Machine for Server {
    fn start(&mut self, out: &mut Vec<u8>) {
        write_settings(out, &[(INITIAL_WINDOW_SIZE, MAX_WINDOW), (MAX_CONCURRENT_STREAMS, 1024)]);
        write_window_update(out, 0, MAX_WINDOW - DEFAULT_WINDOW as u32);
    }

    fn feed(&mut self, input: &[u8], _now: Instant, out: &mut Vec<u8>) -> usize {
        let mut at = 0;
        if !self.is_greeted {
            let Some(preface) = input.get(..PREFACE.len()) else { return 0 };
            assert_eq!(preface, PREFACE);
            self.is_greeted = true;
            at = PREFACE.len();
        }
        while let Some(frame) = first(&input[at..]) {
            at += HEAD + frame.payload.len();
            self.handle(&frame, out);
        }
        if self.credit > CREDIT {
            write_window_update(out, 0, self.credit as u32);
            self.credit = 0;
        }
        at
    }
}
