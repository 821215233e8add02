//! Connections that have reached their greatest age.

use super::*;
use crate::error::Timeout;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

/// How old the connection becomes that began at `began`.
fn spread(age: Duration, began: Instant) -> Duration {
    let config = Config { max_connection_age: Some(age), ..Config::default() };
    Http2::new(Side::Server, Arc::new(config), began).max_age().expect("it was asked for")
}

/// Limits of a server whose connections live for about an hour, and how long this one does.
fn aging(change: impl FnOnce(&mut Config)) -> (Bench, Duration) {
    let server = server_with(|config| {
        config.max_connection_age = Some(HOUR);
        change(config);
    });
    let age = spread(HOUR, server.now);
    (server, age)
}

/// Answers the PING in the middle of a graceful end.
fn answer_ping(bench: &mut Bench, frames: &[Sent]) -> Vec<Incoming> {
    assert_eq!(kinds(frames), [(Kind::GOAWAY, 0), (Kind::PING, 0)]);
    assert_eq!(frames[0].number(), frame::MAX_WINDOW);
    bench.feed(&frame_of(Kind::PING, frame::ACK, 0, &frames[1].payload))
}

/// `max_connection_age`: a connection ends gracefully, and says why as grpc-go's servers do, whether it is used or not.
#[test]
fn a_connection_shuts_down_at_its_greatest_age() {
    let (mut server, age) = aging(|_| {});
    server.wait(age - Duration::from_nanos(1));
    assert_eq!(server.sent(), [], "not yet");
    server.wait(Duration::from_nanos(1));
    let frames = server.sent();
    assert_eq!(frames[0].payload[8..], *b"max_age");
    let under_way = server.request(1, true);
    assert_eq!(answer_ping(&mut server, &frames), []);
    let frames = server.sent();
    assert_eq!((kinds(&frames), frames[0].number()), (vec![(Kind::GOAWAY, 0)], 1));
    assert_eq!(frames[0].payload[8..], *b"max_age");
    server.engine.send_head(under_way, response_head(), true);
    server.engine.release(under_way);
    assert_eq!(kinds(&server.sent()), [(Kind::HEADERS, 1)]);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Age))]);
}

/// `max_connection_age`: it is off unless it is set, and clients do not have it.
#[test]
fn only_a_server_that_is_told_to_ends_old_connections() {
    let with_age = || Config { max_connection_age: Some(HOUR), ..Config::default() };
    for mut bench in [Bench::server(), Bench::connected(Side::Client, with_age(), &[])] {
        assert_eq!((bench.engine.max_age(), bench.engine.poll_timeout()), (None, None));
        bench.wait(100 * HOUR);
        assert_eq!(bench.sent(), []);
        assert_eq!(bench.events(), []);
    }
}

/// `max_connection_age_grace`: calls that take longer are aborted; without it they take as long as they like.
#[test]
fn calls_of_an_old_connection_have_their_grace() {
    let (mut server, age) = aging(|config| config.max_connection_age_grace = Some(2 * MINUTE));
    server.request(1, true);
    server.wait(age);
    let frames = server.sent();
    answer_ping(&mut server, &frames);
    server.wait(2 * MINUTE - Duration::from_nanos(1));
    assert_eq!(server.events(), [], "`drain_timeout` is for a shutdown");
    server.wait(Duration::from_nanos(1));
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);

    let (mut server, age) = aging(|_| {});
    let long = server.request(1, true);
    server.wait(age);
    let frames = server.sent();
    answer_ping(&mut server, &frames);
    server.wait(100 * HOUR);
    assert_eq!(server.events(), []);
    server.engine.send_head(long, response_head(), true);
    server.engine.release(long);
    server.sent();
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Age))]);
}

/// `max_connection_age_grace`: a call that takes less is served, and the connection ends with it.
#[test]
fn a_call_within_the_grace_is_served() {
    let (mut server, age) = aging(|config| config.max_connection_age_grace = Some(MINUTE));
    let key = server.request(1, true);
    server.wait(age);
    let frames = server.sent();
    answer_ping(&mut server, &frames);
    server.wait(MINUTE - Duration::from_nanos(1));
    server.engine.send_head(key, response_head(), true);
    server.engine.release(key);
    assert_eq!(kinds(&server.sent()), [(Kind::GOAWAY, 0), (Kind::HEADERS, 1)]);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Age))]);
}

/// `max_connection_age_grace`: it holds for a client that does not answer the PING, too.
#[test]
fn the_grace_holds_in_the_first_step() {
    let (mut server, age) = aging(|config| config.max_connection_age_grace = Some(Duration::from_secs(2)));
    server.request(1, true);
    server.wait(age);
    server.sent();
    server.wait(Duration::from_secs(2));
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);
}

/// `max_connection_age_grace`, `drain_timeout`: a shutdown while an old connection ends leaves it the lesser of both.
#[test]
fn a_shutdown_of_an_old_connection_is_limited_in_time() {
    for (grace, left) in [(None, 30), (Some(HOUR), 30), (Some(Duration::from_secs(15)), 14)] {
        let (mut server, age) = aging(|config| config.max_connection_age_grace = grace);
        server.request(1, true);
        server.wait(age);
        server.sent();
        server.wait(Duration::from_secs(1));
        server.engine.shutdown(server.now);
        assert_eq!(server.sent(), [], "it has been said");
        server.wait(Duration::from_secs(4));
        assert_eq!(kinds(&server.sent()), [(Kind::GOAWAY, 0)], "five seconds after the PING in any case");
        server.wait(Duration::from_secs(left - 5));
        assert_eq!(server.events(), []);
        server.wait(Duration::from_secs(1));
        assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);
    }
}

/// `max_connection_age`, `max_connection_age_grace`: a client that has said GOAWAY does not keep a connection for it.
#[test]
fn a_client_that_leaves_slowly_is_left_at_the_greatest_age() {
    let (mut server, age) = aging(|config| config.max_connection_age_grace = Some(MINUTE));
    server.request(1, true);
    server.feed(&goaway_frame(0, ErrorCode::NO_ERROR));
    server.wait(age);
    assert_eq!(server.sent(), []);
    server.wait(MINUTE);
    assert_eq!(server.events(), [Incoming::Closed(ConnectionError::Timeout(Timeout::Drain))]);
}

/// `max_connection_age`: a tenth more or less, whatever the clock counts in; connections that began together end apart.
#[test]
fn connections_do_not_grow_old_together() {
    for step in [1, 1_000, 1_000_000, 1_000_000_000] {
        let ages: Vec<Duration> = (0..1000).map(|i| spread(HOUR, Instant::from_nanos(i * step))).collect();
        assert!(ages.iter().all(|age| (54 * MINUTE..=66 * MINUTE).contains(age)));
        for minute in 54..66 {
            let within = minute * MINUTE..(minute + 1) * MINUTE;
            let count = ages.iter().filter(|age| within.contains(age)).count();
            assert!((50..120).contains(&count), "{count} of 1000 in minute {minute}");
        }
    }
    for began in [Instant::ZERO, Instant::from_nanos(u64::MAX)] {
        assert_eq!(spread(Duration::ZERO, began), Duration::ZERO);
        assert!(spread(Duration::MAX, began) >= Duration::MAX / 10 * 9);
    }
}
