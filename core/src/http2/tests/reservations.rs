//! Messages larger than the stream's window (architecture §8).

use super::*;

const WINDOW: usize = 65_536;

/// The peer sends what its view of the windows allows, up to `total` octets, and the engine's owner asks
/// for the rest; returns how many octets arrived before it all stopped.
struct Upload {
    stream: u32,
    key: StreamKey,
    total: usize,
    sent: usize,
    window: usize,
}

impl Upload {
    fn new(stream: u32, key: StreamKey, total: usize) -> Self {
        Self { stream, key, total, sent: 0, window: WINDOW }
    }

    /// Sends one frame if the window allows it; true if it did.
    fn step(&mut self, bench: &mut Bench) -> bool {
        let n = (self.total - self.sent).min(self.window).min(16_384);
        if n == 0 {
            return false;
        }
        assert!(!bench.feed(&data_frame(self.stream, &vec![0; n], false)).is_empty());
        self.sent += n;
        self.window -= n;
        if self.sent < self.total {
            bench.engine.need(self.key, self.total - self.sent);
        }
        true
    }

    fn is_complete(&self) -> bool {
        self.sent == self.total
    }
}

/// Lets all uploads go on until nothing moves; updates of the connection's window are not watched here.
fn drive(bench: &mut Bench, uploads: &mut [Upload]) {
    loop {
        let mut moved = false;
        for upload in &mut *uploads {
            moved |= upload.step(bench);
        }
        for frame in bench.sent() {
            if frame.kind == Kind::WINDOW_UPDATE && frame.stream != 0 {
                let upload = uploads.iter_mut().find(|upload| upload.stream == frame.stream).unwrap();
                upload.window += frame.number() as usize;
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

fn complete(uploads: &[Upload]) -> Vec<bool> {
    uploads.iter().map(Upload::is_complete).collect()
}

/// `h2:B58`, `h2:DL2`, `arch:8`: a message of 3.9 MB passes a window of 64 KiB, nothing consumed on the way; when it
/// is consumed the window is what it was.
#[test]
fn a_large_message_passes_a_small_window() {
    let config = Config { adaptive_window: false, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    let mut upload = [Upload::new(1, key, 3_900_000)];
    drive(&mut server, &mut upload);
    assert!(upload[0].is_complete(), "stopped at {}", upload[0].sent);
    assert_eq!(server.engine.reservations.total(), 3_900_000 - WINDOW + 1);
    server.engine.consumed(key, 3_900_000);
    assert_eq!(server.engine.reservations.total(), 0);
    let window = server.engine.streams.get(key).unwrap();
    assert_eq!(window.recv_window.window(), 1, "the rest is credit");
    let frames = server.sent();
    assert_eq!(frames.iter().map(Sent::number).collect::<Vec<_>>(), [65_535], "no more than the window");
}

/// Without the wish the same message stops at the window: it is the reservation that lets it pass.
#[test]
fn without_a_reservation_a_large_message_stops() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    for _ in 0..4 {
        server.feed(&data_frame(1, &[0; 16_384], false));
    }
    assert!(server.sent().iter().all(|frame| frame.stream == 0));
    assert_eq!(server.engine.streams.get(key).unwrap().recv_window.window(), 0);
}

/// A message that fits the window reserves nothing; one that fits with pending credit gets that credit.
#[test]
fn pending_credit_is_used_before_a_reservation() {
    let config = Config { adaptive_window: false, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    server.engine.need(key, WINDOW - 1);
    server.feed(&data_frame(1, &[0; 10_000], false));
    server.engine.consumed(key, 10_000);
    assert_eq!(server.sent(), [], "below a quarter: no update yet");
    server.engine.need(key, WINDOW - 1);
    assert_eq!(server.engine.reservations.total(), 0);
    let frames = server.sent();
    assert_eq!((frames.len(), frames[0].stream, frames[0].number()), (1, 1, 10_000));
}

/// `arch:8`, `arch:9` `max_reserved`: a server admits no more than its limit, oldest first; the next is
/// admitted when the first is consumed.
#[test]
fn a_server_admits_reservations_within_its_limit_oldest_first() {
    let config = Config { max_reserved: 500_000, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let mut uploads: Vec<Upload> = (0..3)
        .map(|n| {
            let key = server.request(2 * n + 1, false);
            Upload::new(2 * n + 1, key, 400_000)
        })
        .collect();
    drive(&mut server, &mut uploads);
    assert_eq!(complete(&uploads), [true, false, false]);
    assert!(server.engine.reservations.total() <= 500_000);
    server.engine.consumed(uploads[0].key, 400_000);
    drive(&mut server, &mut uploads);
    assert_eq!(complete(&uploads), [true, true, false]);
    server.engine.release(uploads[1].key);
    drive(&mut server, &mut uploads[2..]);
    assert!(uploads[2].is_complete(), "h2:DL1: the last one as well");
    server.engine.release(uploads[2].key);
    assert_eq!(server.engine.reservations.total(), 0);
}

/// `arch:8`: a client always admits one incomplete message, whatever unread answers hold.
#[test]
fn a_client_always_admits_one_incomplete_message() {
    let config = Config { max_reserved: 100_000, ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[]);
    let mut uploads = Vec::new();
    for n in 0..4 {
        let key = client.opened(n);
        let response = client.headers(2 * n + 1, RESPONSE, false);
        client.feed(&response);
        uploads.push(Upload::new(2 * n + 1, key, 300_000));
    }
    drive(&mut client, &mut uploads);
    assert_eq!(complete(&uploads), [true; 4], "one after the other, nothing consumed");
}

/// `arch:8`: what a message has left of its reservation does not keep the next one of the same stream waiting.
#[test]
fn a_stream_does_not_wait_for_itself() {
    let config = Config { max_reserved: 100_000, ..Config::default() };
    let mut client = Bench::connected(Side::Client, config, &[]);
    let key = client.opened(0);
    let response = client.headers(1, RESPONSE, false);
    client.feed(&response);
    let mut uploads = [Upload::new(1, key, 300_000)];
    drive(&mut client, &mut uploads);
    client.engine.consumed(key, 1000);
    assert!(client.engine.reservations.total() > 0);
    client.engine.need(key, 400_000);
    uploads[0].total = 700_000;
    drive(&mut client, &mut uploads);
    assert!(uploads[0].is_complete(), "stopped at {}", uploads[0].sent);
}

/// The octets of a frame that has begun are paid for: only what lies behind it is asked for.
#[test]
fn a_message_in_pieces_of_a_frame_reserves_what_it_lacks_and_no_more() {
    let mut server = Bench::server();
    let key = server.request(1, false);
    let frame = data_frame(1, &[0; 16_384], false);
    let total = WINDOW + 20_000;
    let mut missing = total;
    for _ in 0..4 {
        let mut rest = &frame[..];
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(1000));
            rest = later;
            for event in server.feed(piece) {
                if let Incoming::Data { len, .. } = event {
                    missing -= len;
                    server.engine.need(key, missing);
                }
            }
        }
    }
    assert_eq!(server.engine.reservations.total(), 20_000 + 1);
}

/// Behind a message of several frames the window stays open, whether or not the message fits it: a sender that looks
/// for the end of its data only while it may send could otherwise never end the stream.
#[test]
fn the_window_stays_open_behind_a_message() {
    for total in [WINDOW - 1, WINDOW, WINDOW + 1, WINDOW + 20_000] {
        let mut client = Bench::client();
        let key = client.opened(0);
        let response = client.headers(1, RESPONSE, false);
        client.feed(&response);
        let mut upload = [Upload::new(1, key, total)];
        drive(&mut client, &mut upload);
        assert!(upload[0].is_complete(), "stopped at {}", upload[0].sent);
        assert!(upload[0].window > 0, "a message of {total} octets leaves no window");
        client.engine.consumed(key, total);
        assert_eq!(client.engine.reservations.total(), 0);
    }
}

/// A server that could never admit a message ends the call instead of blocking those behind it.
#[test]
fn an_impossible_reservation_ends_its_call_alone() {
    let config = Config { max_reserved: 100_000, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let key = server.request(1, false);
    server.engine.need(key, 1_000_000);
    assert!(matches!(
        server.events()[..],
        [Incoming::Reset { call: 1, by_peer: false, code: ErrorCode::ENHANCE_YOUR_CALM, .. }]
    ));
    assert_eq!(kinds(&server.sent()), [(Kind::RST_STREAM, 1)]);
    let key = server.request(3, false);
    let mut upload = [Upload::new(3, key, 160_000)];
    drive(&mut server, &mut upload);
    assert!(upload[0].is_complete());
}

/// `h2:DL5`: whoever waits for a reservation and goes away makes room, in any order.
#[test]
fn a_waiting_reservation_leaves_with_its_stream() {
    let config = Config { max_reserved: 300_000, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[]);
    let keys: Vec<StreamKey> = (0..3).map(|n| server.request(2 * n + 1, false)).collect();
    for key in &keys {
        server.engine.need(*key, 300_000);
    }
    assert_eq!(kinds(&server.sent()), [(Kind::WINDOW_UPDATE, 1)]);
    server.feed(&rst_frame(3, ErrorCode::CANCEL));
    server.feed(&rst_frame(1, ErrorCode::CANCEL));
    assert_eq!(kinds(&server.sent()), [(Kind::WINDOW_UPDATE, 5)]);
    server.feed(&data_frame(5, b"end", true));
    assert_eq!(server.engine.reservations.total(), 0, "nothing more will come");
}

/// `arch:8`: many interleaved large uploads, each consumed when whole, all end; windows are whole again.
#[test]
fn interleaved_large_uploads_all_end() {
    let mut server = Bench::server();
    let mut uploads: Vec<Upload> = (0..20)
        .map(|n| {
            let key = server.request(2 * n + 1, false);
            Upload::new(2 * n + 1, key, 1_000_000 + n as usize)
        })
        .collect();
    let mut consumed = vec![false; uploads.len()];
    for _ in 0..uploads.len() {
        drive(&mut server, &mut uploads);
        for (upload, consumed) in uploads.iter().zip(&mut consumed) {
            if upload.is_complete() && !*consumed {
                *consumed = true;
                server.engine.consumed(upload.key, upload.total);
            }
        }
    }
    assert_eq!(consumed, [true; 20]);
    server.sent();
    assert_eq!(server.engine.reservations.total(), 0);
    for upload in &uploads {
        assert_eq!(server.engine.streams.get(upload.key).unwrap().recv_window.reachable(), WINDOW as i64);
    }
}

/// `arch:8`, `h2:DL1`, `h2:DL2`: three uploads of 4 MiB in turns, over a window of the connection that the sender obeys.
/// At its fullest 12 MiB of incomplete messages lie here, of which nobody can take any. Where the connection's credit
/// waits for messages to be taken, or stops above some sum of what is buffered, such as 8 MiB, all three stand still for
/// ever: here it returns on arrival, and what bounds memory are the reservations.
#[test]
fn three_interleaved_uploads_of_four_mebibytes_end() {
    const LEN: usize = 4 * 1024 * 1024;
    let mut server = Bench::server();
    let mut uploads: Vec<Upload> = (0..3)
        .map(|n| {
            let key = server.request(2 * n + 1, false);
            Upload::new(2 * n + 1, key, LEN)
        })
        .collect();
    let initial = Config::default().initial_connection_window as usize;
    let (mut window, mut granted, mut turn) = (initial, initial, 0);
    while uploads.iter().any(|upload| !upload.is_complete()) {
        let upload = &mut uploads[turn % 3];
        turn += 1;
        let before = upload.sent;
        if window >= 16_384 {
            upload.step(&mut server);
            window -= upload.sent - before;
        }
        for frame in server.sent().into_iter().filter(|frame| frame.kind == Kind::WINDOW_UPDATE) {
            match uploads.iter_mut().find(|upload| upload.stream == frame.stream) {
                Some(upload) => upload.window += frame.number() as usize,
                None => (window, granted) = (window + frame.number() as usize, granted + frame.number() as usize),
            }
        }
        let sum: usize = uploads.iter().map(|upload| upload.sent).sum();
        assert!(turn < 10_000, "they stand still at {sum}, of which the connection paid for {granted}");
        assert!(sum <= 3 * WINDOW + server.engine.reservations.total(), "the bound");
    }
    assert!(granted >= 3 * LEN, "all of it was paid for, and nothing was taken");
}

/// `h2:P3`: a client's stream that has ended keeps what its unread octets need until it is released, and no longer.
#[test]
fn a_closed_stream_gives_back_at_its_release() {
    let mut client = Bench::client();
    let key = client.opened(0);
    client.engine.finish(key, None);
    let response = client.headers(1, RESPONSE, false);
    client.feed(&response);
    let mut upload = [Upload::new(1, key, 300_000)];
    drive(&mut client, &mut upload);
    client.feed(&data_frame(1, b"", true));
    assert_eq!(client.engine.reservations.total(), 300_000 - WINDOW);
    client.engine.release(key);
    assert_eq!(client.engine.reservations.total(), 0);
}
