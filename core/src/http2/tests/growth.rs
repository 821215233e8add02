//! Windows that grow with what the way holds (checklist §3.3).

use super::*;
use crate::http2::bdp;

const RTT: Duration = Duration::from_millis(100);
const MIB: usize = 1024 * 1024;

/// A sender that fills its windows over a way of 100 ms, and an application that reads what comes. What the way holds
/// besides is not limited.
struct Way {
    bench: Bench,
    streams: Vec<Upload>,
    /// The window of the connection, as the sender has it.
    window: usize,
    /// PINGs that were asked to be answered.
    pings: usize,
}

struct Upload {
    id: u32,
    key: StreamKey,
    window: usize,
    is_read: bool,
}

impl Way {
    fn new(config: Config, streams: u32) -> Self {
        let initial = config.initial_stream_window as usize;
        let window = config.initial_connection_window as usize;
        let mut bench = Bench::connected(Side::Server, config, &[]);
        let streams = (0..streams)
            .map(|n| Upload { id: 2 * n + 1, key: bench.request(2 * n + 1, false), window: initial, is_read: true })
            .collect();
        Self { bench, streams, window, pings: 0 }
    }

    /// A round trip in which every sender sends what its windows let through, up to `most` octets each, in turns; returns
    /// what each sent.
    fn round(&mut self, most: usize) -> Vec<usize> {
        let mut sent = vec![0; self.streams.len()];
        let mut answers = Vec::new();
        let mut news = Vec::new();
        loop {
            let mut moved = false;
            for (upload, sent) in self.streams.iter_mut().zip(&mut sent) {
                let n = upload.window.min(self.window).min(16_384).min(most - *sent);
                if n > 0 {
                    assert!(!self.bench.feed(&data_frame(upload.id, &vec![0; n], false)).is_empty());
                    (upload.window, self.window, *sent, moved) = (upload.window - n, self.window - n, *sent + n, true);
                    if upload.is_read {
                        self.bench.engine.consumed(upload.key, n);
                    }
                }
            }
            for frame in self.bench.sent() {
                match frame.kind {
                    Kind::PING => answers.push(frame.payload),
                    _ => news.push(frame),
                }
            }
            if !moved {
                break;
            }
        }
        // Half a round trip there, half back.
        self.bench.wait(RTT);
        for frame in news {
            assert_eq!(frame.kind, Kind::WINDOW_UPDATE);
            self.open(frame.stream, frame.number() as usize);
        }
        assert!(answers.len() <= 1, "h2:B68: one PING a round trip");
        for payload in answers {
            assert_eq!(payload, bdp::PAYLOAD);
            self.pings += 1;
            self.bench.feed(&frame_of(Kind::PING, frame::ACK, 0, &payload));
            for frame in self.bench.sent() {
                self.open(frame.stream, frame.number() as usize);
            }
        }
        sent
    }

    fn open(&mut self, stream: u32, increment: usize) {
        match self.streams.iter_mut().find(|upload| upload.id == stream) {
            Some(upload) => upload.window += increment,
            None => self.window += increment,
        }
    }

    fn raised(&self) -> usize {
        self.bench.engine.reservations.total()
    }
}

/// Checklist §3.3, `arch:8`: a stream that is read grows by doublings until its share of `max_reserved`, and the
/// connection's window with it; when the stream ends everything is free again.
#[test]
fn a_stream_that_is_read_grows() {
    let mut way = Way::new(Config::default(), 1);
    let first = way.round(usize::MAX)[0];
    assert_eq!(first, 65_536);
    let rounds: Vec<usize> = (0..20).map(|_| way.round(usize::MAX)[0]).collect();
    assert!(rounds[19] > 8 * MIB, "{rounds:?}");
    assert!(way.raised() <= 12 * MIB);
    assert!(way.pings <= 24, "eight doublings, samples in vain between them, and then silence: {}", way.pings);
    assert_eq!(way.bench.engine.bdp.window(), Some(16 * MIB as u32));
    way.bench.feed(&data_frame(1, b"", true));
    assert_eq!(way.raised(), 0);
}

/// Its twin: switched off, the window is what it was configured to be, and no PING is sent.
#[test]
fn without_adaptive_windows_nothing_grows() {
    let mut way = Way::new(Config { adaptive_window: false, ..Config::default() }, 1);
    for _ in 0..10 {
        assert_eq!(way.round(usize::MAX), [65_536]);
    }
    assert_eq!((way.pings, way.raised()), (0, 0));
}

/// `max_window`: no window grows beyond it, neither the stream's nor the connection's.
#[test]
fn the_largest_window_is_a_limit() {
    let config = Config { max_window: 300_000, initial_connection_window: 65_536, ..Config::default() };
    let mut way = Way::new(config, 2);
    for _ in 0..20 {
        assert!(way.round(usize::MAX).iter().all(|&sent| sent <= 300_000));
        assert!(way.window <= 300_000);
    }
    let both: usize = way.round(usize::MAX).iter().sum();
    assert!(both > 130_000, "{both} octets, where the connection's window was 65,536");
}

/// A sender that does not fill its window does not make it grow.
#[test]
fn a_slow_sender_gets_no_larger_window() {
    let mut way = Way::new(Config::default(), 1);
    for _ in 0..50 {
        way.round(30_000);
    }
    assert_eq!(way.raised(), 0);
    assert!(way.pings <= 8, "samples that find nothing get rarer: {}", way.pings);
}

/// `arch:8`: who reads little grows little, however long the way is: by twice what was read.
#[test]
fn a_stream_grows_by_no_more_than_it_reads() {
    let mut way = Way::new(Config::default(), 2);
    way.streams[1].is_read = false;
    for _ in 0..20 {
        way.round(usize::MAX);
    }
    let before = way.raised();
    let little = way.streams[1].key;
    way.bench.engine.consumed(little, 20_000);
    way.bench.sent();
    assert_eq!(way.raised() - before, 40_000);
}

/// Equals become equal, whoever came first, and something stays free for the next.
#[test]
fn streams_share_what_there_is() {
    let mut way = Way::new(Config::default(), 3);
    way.streams[1].is_read = false;
    way.streams[2].is_read = false;
    for _ in 0..20 {
        way.round(usize::MAX);
    }
    let alone = way.raised();
    assert!(alone > 8 * MIB && alone < 10 * MIB, "three quarters of twelve: {alone}");
    // The second begins to read what it has.
    way.streams[1].is_read = true;
    let held = 65_536 - way.streams[1].window;
    let key = way.streams[1].key;
    way.bench.engine.consumed(key, held);
    for _ in 0..40 {
        way.round(usize::MAX);
    }
    let [first, second, _] = way.round(usize::MAX)[..] else { panic!() };
    assert!(first.abs_diff(second) < MIB / 2, "{first} and {second}");
    let free = 12 * MIB - way.raised();
    assert!(free > MIB && free < 2 * MIB + MIB / 2, "a seventh of twelve: {free}");
}

/// `arch:8`, `max_reserved`: whatever has grown and is not read, a message of `max_recv_message` is admitted at once.
#[test]
fn growth_never_keeps_a_message_waiting() {
    let mut way = Way::new(Config::default(), 3);
    for _ in 0..40 {
        way.round(usize::MAX);
    }
    // From now on nobody reads.
    for upload in &mut way.streams[..2] {
        upload.is_read = false;
    }
    way.round(usize::MAX);
    let id = 2 * way.streams.len() as u32 + 1;
    let key = way.bench.request(id, false);
    way.bench.engine.need(key, 4 * MIB + 5);
    let frames = way.bench.sent();
    let granted: Vec<u32> = frames.iter().filter(|frame| frame.stream == id).map(Sent::number).collect();
    assert_eq!(granted, [4 * MIB as u32 + 5 + 1 - 65_536]);
}

/// While messages wait, streams that grew return what they read.
#[test]
fn growth_makes_room_for_messages_that_wait() {
    let mut way = Way::new(Config::default(), 1);
    for _ in 0..20 {
        way.round(usize::MAX);
    }
    let grown = way.raised();
    let keys: Vec<StreamKey> = (0..3).map(|n| way.bench.request(2 * n + 101, false)).collect();
    for key in &keys {
        way.bench.engine.need(*key, 4 * MIB);
    }
    let admitted = |way: &Way| {
        keys.iter()
            .filter(|&&key| way.bench.engine.streams.get(key).is_some_and(|stream| !stream.awaits_reservation))
            .count()
    };
    assert_eq!(admitted(&way), (16 * MIB - grown) / (4 * MIB));
    for _ in 0..10 {
        way.round(usize::MAX);
    }
    assert_eq!(admitted(&way), 3, "{} are raised", way.raised());
}

/// `max_recv_message` may be all of `max_reserved`: then streams do not grow, and messages still pass.
#[test]
fn without_room_beside_a_message_streams_stay_as_they_are() {
    let config = Config { max_reserved: 4 * MIB, ..Config::default() };
    let mut way = Way::new(config, 1);
    for _ in 0..10 {
        assert_eq!(way.round(usize::MAX), [65_536]);
    }
    assert_eq!(way.raised(), 0);
}

/// `h2:P3`, `arch:8`: what a stream holds stays paid for after its end, until it is read or released.
#[test]
fn unread_octets_of_an_ended_stream_are_paid_for() {
    for released in [false, true] {
        let mut way = Way::new(Config::default(), 1);
        for _ in 0..20 {
            way.round(usize::MAX);
        }
        way.streams[0].is_read = false;
        let unread = way.round(usize::MAX)[0];
        let key = way.streams[0].key;
        way.bench.feed(&data_frame(1, b"", true));
        assert_eq!(way.raised(), unread - 65_536);
        if released {
            way.bench.engine.release(key);
        } else {
            way.bench.engine.consumed(key, unread - 65_536 - 10);
            assert_eq!(way.raised(), 10);
            way.bench.engine.consumed(key, 10);
        }
        assert_eq!(way.raised(), 0);
    }
}

/// `h2:W7`: estimate, `max_window` and what is configured at their largest: no window passes 2^31 − 1.
#[test]
fn the_largest_windows_do_not_overflow() {
    let config = Config {
        max_window: u32::MAX,
        max_reserved: usize::MAX,
        initial_stream_window: frame::MAX_WINDOW,
        initial_connection_window: frame::MAX_WINDOW,
        ..Config::default()
    };
    let mut way = Way::new(config, 1);
    for _ in 0..5 {
        way.round(3 * MIB);
        assert!(way.window <= frame::MAX_WINDOW as usize && way.streams[0].window <= frame::MAX_WINDOW as usize);
    }
}
