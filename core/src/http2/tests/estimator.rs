//! Peers that measure the way to us, and peers that count our PINGs: grpc-go's rules (checklist §3.3).

use super::*;
use crate::http2::bdp;

const RTT: Duration = Duration::from_millis(2);
const PING: [u8; 8] = [2, 4, 16, 16, 9, 14, 7, 7];
const LIMIT: f64 = 16.0 * 1024.0 * 1024.0;

/// A receiver with grpc-go's estimator and its updates: the connection's on receipt, the stream's when it is read, both
/// at a quarter.
struct Estimator {
    bdp: f64,
    sample: f64,
    in_flight: bool,
    rounds: f64,
    rtt: f64,
    best: f64,
    /// Limit and unannounced octets, of the connection and of the stream.
    windows: [(u32, u32); 2],
    /// What it has to say.
    out: Vec<u8>,
    pings: u32,
    settings: u32,
}

impl Estimator {
    fn new() -> Self {
        let windows = [(65_535, 0); 2];
        let (bdp, out) = (65_535.0, Vec::new());
        Self {
            bdp,
            sample: 0.0,
            in_flight: false,
            rounds: 0.0,
            rtt: 0.0,
            best: 0.0,
            windows,
            out,
            pings: 0,
            settings: 0,
        }
    }

    fn received(&mut self, n: u32) {
        for (stream, (limit, unannounced)) in self.windows.iter_mut().enumerate() {
            *unannounced += n;
            if *unannounced >= *limit / 4 {
                self.out.extend(window_update(stream as u32, core::mem::take(unannounced)));
            }
        }
        if self.bdp == LIMIT {
            return;
        }
        if self.in_flight {
            self.sample += f64::from(n);
            return;
        }
        (self.in_flight, self.sample) = (true, f64::from(n));
        self.rounds += 1.0;
        self.pings += 1;
        // What the connection is owed goes before, whatever it is.
        match core::mem::take(&mut self.windows[0].1) {
            0 => {}
            owed => self.out.extend(window_update(0, owed)),
        }
        self.out.extend(frame_of(Kind::PING, 0, 0, &PING));
    }

    fn answered(&mut self, took: Duration) {
        let took = took.as_secs_f64();
        self.in_flight = false;
        self.rtt += (took - self.rtt) * if self.rounds < 10.0 { 1.0 / self.rounds } else { 0.9 };
        let rate = self.sample / (self.rtt * 1.5);
        self.best = self.best.max(rate);
        if self.sample >= 0.66 * self.bdp && rate == self.best && self.bdp != LIMIT {
            self.bdp = (2.0 * self.sample).min(LIMIT);
            let limit = self.bdp as u32;
            self.out.extend(window_update(0, limit - self.windows[0].0));
            self.out.extend(settings_frame(&[(4, limit)]));
            self.settings += 1;
            for window in &mut self.windows {
                window.0 = limit;
            }
        }
    }
}

/// Sends to a peer that measures for `rounds` round trips, at most `each` octets in one; returns the peer and the most that
/// it got in one.
fn serve(side: Side, rounds: usize, each: usize) -> (Estimator, usize) {
    let mut bench = Bench::connected(side, Config::default(), &[]);
    let key = match side {
        Side::Server => {
            let key = bench.request(1, true);
            bench.engine.send_head(key, response_head(), false);
            key
        }
        Side::Client => bench.opened(1),
    };
    let mut peer = Estimator::new();
    let mut most = 0;
    for _ in 0..rounds {
        let mut left = each;
        let mut came = 0;
        loop {
            while left > 0 && bench.engine.send_buffered(key) < 1 << 20 {
                let n = left.min(65_536);
                left -= n;
                bench.engine.send_data(key, None, Bytes::from_static(&[7; 65_536]).slice(..n));
            }
            let frames = bench.sent();
            if frames.is_empty() {
                break;
            }
            for frame in frames {
                match frame.kind {
                    Kind::DATA => {
                        came += frame.payload.len();
                        peer.received(frame.payload.len() as u32);
                    }
                    Kind::PING => {
                        assert_eq!((frame.flags, &frame.payload[..]), (frame::ACK, &PING[..]));
                        peer.answered(RTT);
                    }
                    Kind::SETTINGS => assert_eq!(frame.flags, frame::ACK),
                    kind => assert_eq!(kind, Kind::HEADERS),
                }
            }
        }
        most = most.max(came);
        bench.wait(RTT);
        let said = core::mem::take(&mut peer.out);
        let events = bench.feed(&said);
        assert!(events.iter().all(|event| matches!(event, Incoming::Writable { .. })), "{events:?}");
        assert!(bench.engine.is_live(key), "{:?}", bench.engine.terminal);
    }
    (peer, most)
}

/// Checklist §3.3: a peer that measures as grpc-go does gets its answers, and its windows are used up as they grow.
#[test]
fn an_estimator_of_the_peers_is_served() {
    for side in [Side::Server, Side::Client] {
        let (peer, most) = serve(side, 24, usize::MAX);
        assert!(peer.settings >= 6, "{} times SETTINGS", peer.settings);
        assert!(most > 2 << 20, "{most} octets in a round trip");
    }
}

/// `h2:A17`–`h2:A19`, `h2:A23` and their honest twin: a PING each round trip, for as long as DATA flows, costs no budget.
#[test]
fn measuring_for_long_costs_no_budget() {
    let (peer, _) = serve(Side::Server, 12_000, 1000);
    assert!(peer.pings > 11_000 && peer.bdp < LIMIT, "{} PINGs", peer.pings);
}

/// A gRPC server that counts PINGs closer than five minutes apart as strikes, unless it has sent DATA in between, and
/// ends the connection at the third.
#[derive(Default)]
struct Enforcer {
    has_sent: bool,
    last_ping: Option<Instant>,
    strikes: u32,
}

impl Enforcer {
    fn ping(&mut self, now: Instant) {
        if core::mem::take(&mut self.has_sent) {
            self.strikes = 0;
        } else if self.last_ping.is_some_and(|last| now - last < Duration::from_secs(300)) {
            self.strikes += 1;
        }
        self.last_ping = Some(now);
    }
}

/// `h2:B68`, checklist §3.3 "ping courtesy": a server that counts PINGs counts none of ours, however bursts come, however
/// slowly they are read, and although an answer takes a while.
#[test]
fn a_server_that_counts_pings_counts_none_of_ours() {
    let property = |steps: Vec<(u8, u8, u8)>| {
        let mut client = Bench::client();
        let key = client.opened(1);
        let response = client.headers(1, RESPONSE, false);
        client.feed(&response);
        let (mut server, mut window, mut unread) = (Enforcer::default(), 65_536, 0);
        // What has been sent and not arrived: DATA and answers, in order.
        let mut on_the_way: Vec<Vec<u8>> = Vec::new();
        let mut pings = 0;
        for (burst, read, wait) in steps {
            for _ in 0..burst % 8 {
                let n = window.min(16_384);
                if n > 0 {
                    server.has_sent = true;
                    on_the_way.push(data_frame(1, &vec![0; n], false));
                    window -= n;
                }
            }
            // Some of it arrives now, some later.
            let arriving = on_the_way.len().min(usize::from(wait) % 6);
            for octets in on_the_way.drain(..arriving).collect::<Vec<_>>() {
                for event in client.feed(&octets) {
                    unread += event.body_len();
                }
            }
            let n = unread * usize::from(read) / 255;
            client.engine.consumed(key, n);
            unread -= n;
            for frame in client.sent() {
                match (frame.kind, frame.stream) {
                    (Kind::WINDOW_UPDATE, 1) => window += frame.number() as usize,
                    (Kind::PING, _) => {
                        assert_eq!(frame.payload, bdp::PAYLOAD);
                        server.ping(client.now);
                        pings += 1;
                        on_the_way.push(frame_of(Kind::PING, frame::ACK, 0, &frame.payload));
                    }
                    _ => {}
                }
            }
            client.wait(Duration::from_millis(u64::from(wait)));
            assert_eq!(server.strikes, 0, "after {pings} PINGs");
        }
        pings
    };
    let mut random = quickcheck::Gen::new(200);
    let pings: u32 = (0..300).map(|_| property(quickcheck::Arbitrary::arbitrary(&mut random))).sum();
    assert!(pings > 100, "there is something to count: {pings}");
}
