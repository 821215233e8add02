//! What a peer can make a connection hold, counted at the allocator while it does its worst.
//!
//! The bound is that of the configuration: the windows of the streams that may be open, the reservations, and what a
//! connection holds in any case.

use std::sync::Arc;
use std::time::Duration;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::CallKind;
use trirpc_core::{Config, Connection, Event, HttpVersion, Instant, Server};
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::frames::{PREFACE, data, frame, grpc_request, headers, ping, settings, settings_ack, window_update};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STREAMS: u32 = 16;
const WINDOW: u32 = 64 * 1024;
/// Receive window, output chunks, tables and slots of one connection.
const FIXED: usize = 512 * 1024;

/// A server whose handlers never read, and whose transport takes nothing when `writes` is false.
struct Victim {
    conn: Connection<Server>,
    input: RecvBuf,
    output: Transmit,
    writes: bool,
    closed: Option<String>,
}

impl Victim {
    fn new(config: Config, writes: bool) -> Self {
        let conn = Connection::<Server>::new(Arc::new(config), Some(HttpVersion::Http2), now());
        let mut victim = Self { conn, input: RecvBuf::new(16 * 1024), output: Transmit::new(), writes, closed: None };
        victim.take(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        victim
    }

    /// One read with everything in it, and a turn.
    fn take(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.closed.is_none() {
            let space = self.input.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            self.input.commit(n);
            rest = &rest[n..];
            self.conn.handle_input(&mut self.input, now());
            while let Some(event) = self.conn.poll_event() {
                match event {
                    Event::Incoming => {
                        while let Some(id) = self.conn.accept() {
                            self.conn.call(id).expect("a call").expect(CallKind::ClientStreaming, now());
                        }
                    }
                    Event::Closed(error) => self.closed = Some(error.to_string()),
                    _ => {}
                }
            }
            self.conn.poll_transmit(&mut self.output, now());
            if self.writes {
                self.output.advance(self.output.len());
            }
        }
    }

    fn is_fine(&self) {
        assert_eq!(self.closed, None);
    }
}

fn now() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}

fn config() -> Config {
    let mut config = Config::default();
    config.max_concurrent_streams = STREAMS;
    config.initial_stream_window = WINDOW;
    config.max_reserved = 0;
    config
}

fn ids() -> impl Iterator<Item = u32> {
    (0..STREAMS).map(|i| 2 * i + 1)
}

/// Opens every stream and announces a message that just fits the window.
fn open_all(victim: &mut Victim) {
    for id in ids() {
        victim.take(&grpc_request(id, "/t.Echo/Collect"));
        victim.take(&data(id, &[0, 0, 0, 0xff, 0], false));
    }
}

#[track_caller]
fn assert_held(held: i64, bound: usize) {
    let held = usize::try_from(held).expect("more is held than was");
    assert!(held <= bound, "{held} bytes are held, the bound is {bound}");
}

/// checklist A21: a window full of one-byte frames costs no more than the bytes.
#[test]
fn frames_of_one_byte_cost_little_more_than_their_bytes() {
    let mut config = config();
    config.max_control_frames = u32::MAX;
    let (victim, cost) = measure(|| {
        let mut victim = Victim::new(config, true);
        open_all(&mut victim);
        for id in ids() {
            let one = data(id, b"x", false);
            let many = one.repeat(1000);
            for _ in 0..65 {
                victim.take(&many);
            }
        }
        victim
    });
    victim.is_fine();
    assert_held(cost.held, 2 * (STREAMS * WINDOW) as usize + FIXED);
}

/// checklist A21: a peer that spreads what is kept, a little in each read, does not pin the reads.
#[test]
fn small_pieces_do_not_pin_the_windows_that_they_came_in() {
    // From 8 KiB up pieces are not copied, and a window has eight times that.
    for (piece, factor) in [(100, 2), (1000, 2), (1024, 2), (3000, 2), (8191, 2), (8192, 8)] {
        let (victim, cost) = measure(|| {
            let mut victim = Victim::new(config(), true);
            open_all(&mut victim);
            let junk = frame(0xf0, 0, 0, &[0; 16_000]).repeat(4);
            for _ in 0..(60_000 / piece).min(60) {
                for id in ids() {
                    victim.take(&data(id, &vec![7; piece], false));
                    victim.take(&junk);
                }
            }
            victim
        });
        victim.is_fine();
        assert_held(cost.held, factor * (STREAMS * WINDOW) as usize + FIXED);
    }
}

/// Whole messages that nobody reads, a few bytes each, one in every read.
#[test]
fn small_messages_do_not_pin_the_windows_that_they_came_in() {
    let (victim, cost) = measure(|| {
        let mut victim = Victim::new(config(), true);
        let junk = frame(0xf0, 0, 0, &[0; 16_000]).repeat(4);
        for id in ids() {
            victim.take(&grpc_request(id, "/t.Echo/Collect"));
            for _ in 0..60 {
                victim.take(&data(id, &[0, 0, 0, 0, 1, 7], false));
                victim.take(&junk);
            }
        }
        victim
    });
    victim.is_fine();
    assert_held(cost.held, 2 * (STREAMS * WINDOW) as usize + FIXED);
}

/// Request heads are kept where they were read: one window for each stream, and no more.
#[test]
fn a_request_head_pins_one_window_at_most() {
    let (victim, cost) = measure(|| {
        let mut victim = Victim::new(config(), true);
        let junk = frame(0xf0, 0, 0, &[0; 16_000]).repeat(4);
        for id in ids() {
            victim.take(&grpc_request(id, "/t.Echo/Collect"));
            victim.take(&junk);
        }
        victim
    });
    victim.is_fine();
    assert_held(cost.held, (STREAMS * WINDOW) as usize + FIXED);
}

/// checklist A25, A42: a peer that asks and never reads gets no more than the output limits.
#[test]
fn a_peer_that_never_reads_gets_bounded_output() {
    let (victim, cost) = measure(|| {
        let mut victim = Victim::new(config(), false);
        for round in 0..1000u32 {
            let id = 2 * round + 1;
            // Refused by its head, and answered.
            victim.take(&headers(
                id,
                &[(":method", "PUT"), (":scheme", "http"), (":path", "/"), (":authority", "a")],
                true,
            ));
            victim.take(&ping([1; 8], false));
            victim.take(&settings(&[(4, round)]));
            victim.take(&window_update(0, 1));
        }
        victim
    });
    assert_held(cost.held, config().transmit_target + FIXED);
    assert!(victim.output.len() <= 2 * config().transmit_target, "{} bytes of output", victim.output.len());
}
