//! What a peer can make a connection hold, counted at the allocator while it does its worst.
//!
//! The bound is that of the configuration: the windows of the streams that may be open, the reservations, and what a
//! connection holds in any case.

mod bound;
mod embedded;
mod victim;

use bytes::Buf;
use trirpc_core::Config;
use trirpc_core::call::Recv;
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::frames::{block, data, frame, grpc_request, headers, ping, settings, window_update};
use victim::Victim;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STREAMS: u32 = 16;
const WINDOW: u32 = 64 * 1024;
/// Receive window, output chunks, tables and slots of one connection.
const FIXED: usize = 512 * 1024;

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

/// `h2:E5`, `h2:P3`, h2:A21: a window full of one-byte frames costs no more than the bytes.
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

/// h2:A21: a peer that spreads what is kept, a little in each read, does not pin the reads.
#[test]
fn small_pieces_do_not_pin_the_windows_that_they_came_in() {
    for piece in [100, 1000, 1024, 3000, 8191, 8192, 16_000] {
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
        assert_held(cost.held, (STREAMS * WINDOW) as usize + FIXED);
    }
}

/// Messages that are announced large: what is held follows the windows that were granted, not the announcements, and
/// the pool of their memory has its own limit.
#[test]
fn large_messages_that_never_end_hold_their_windows_at_most() {
    let mut config = config();
    config.max_recv_message = 64 << 20;
    config.max_reserved = 1 << 20;
    config.pool_bytes = 256 * 1024;
    let bound = (STREAMS * WINDOW) as usize + config.max_reserved + config.pool_bytes + FIXED;
    for (announced, sent) in [(1 << 20, 1), (64 << 20, 1), (1 << 20, WINDOW - 5), (64 << 20, WINDOW - 5)] {
        let (victim, cost) = measure(|| {
            let mut victim = Victim::new(config.clone(), true);
            for id in ids() {
                let [a, b, c, d] = u32::to_be_bytes(announced);
                victim.take(&grpc_request(id, "/t.Echo/Collect"));
                victim.take(&data(id, &[0, a, b, c, d], false));
            }
            for id in ids() {
                for piece in vec![7; sent as usize].chunks(16_000) {
                    victim.take(&data(id, piece, false));
                }
            }
            victim
        });
        // A message that no reservation could ever cover ends its call.
        assert_held(cost.held, bound);
        if sent == 1 {
            assert_held(cost.held, FIXED);
        }
        drop(victim);
    }
}

/// arch:U3: the memory of a large message serves the next one, and goes when the connection falls idle.
#[test]
fn the_memory_of_large_messages_is_used_again_and_given_back_when_idle() {
    const LARGE: usize = 1 << 20;
    let mut config = Config::default();
    config.initial_stream_window = 4 << 20;
    config.initial_connection_window = 64 << 20;
    let mut victim = Victim::new(config, true);
    let request = |id| {
        let [a, b, c, d] = u32::to_be_bytes(LARGE as u32);
        let body = [&[0, a, b, c, d], &[7; LARGE][..]].concat();
        let frames: Vec<_> = body.chunks(16_000).map(|piece| data(id, piece, false)).collect();
        [grpc_request(id, "/t.Echo/Collect"), frames.concat()].concat()
    };
    let receive = |victim: &mut Victim, request: &[u8]| {
        victim.take(request);
        let call = victim.accepted.pop().expect("a call");
        let Recv::Message(message) = victim.conn.call(call).expect("a call").recv() else { panic!("no message") };
        assert_eq!((message.len(), message.chunk().len()), (LARGE, LARGE), "one piece of memory");
    };
    receive(&mut victim, &request(1));
    let requests = [request(3), request(5), request(7)];
    let ((), cost) = measure(|| requests.iter().for_each(|request| receive(&mut victim, request)));
    assert!(cost.allocated < LARGE as u64 / 2, "windows that heads lie in, and nothing more: {cost:?}");
    let ((), cost) = measure(|| victim.conn.release_idle());
    assert!(cost.held <= -(LARGE as i64), "{cost:?}");
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

/// h2:A25, h2:A42: a peer that asks and never reads gets no more than the output limits.
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

/// h2:A47: names that come once and never again, all of them for the table, leave nothing behind but the table.
#[test]
fn names_do_not_pile_up() {
    let (victim, cost) = measure(|| {
        let mut victim = Victim::new(config(), true);
        for round in 0..20_000u32 {
            let mut block = block(&[(":method", "PUT"), (":scheme", "http"), (":path", "/"), (":authority", "a")]);
            let name = format!("x-{round:08}");
            block.extend([0x40, name.len() as u8]);
            block.extend(name.as_bytes());
            block.push(0);
            victim.take(&frame(1, 5, 2 * round + 1, &block));
        }
        victim
    });
    victim.is_fine();
    assert_held(cost.held, FIXED);
}
