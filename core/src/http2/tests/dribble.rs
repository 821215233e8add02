//! Windows that the peer opens a few octets at a time: the frames that come of it are few (`h2:A24`), and honest peers
//! with small windows get what they ask for.

use super::*;

/// A server of which the peer has asked for `streams` long bodies, with these windows at first.
fn asked(config: Config, window: u32, streams: u32) -> (Bench, Vec<StreamKey>) {
    let mut server = Bench::connected(Side::Server, config, &[(4, window)]);
    let keys: Vec<StreamKey> = (0..streams).map(|n| server.request(2 * n + 1, true)).collect();
    for &key in &keys {
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 100_000]));
    }
    (server, keys)
}

/// Lengths of the DATA frames that leave.
fn data_sent(server: &mut Bench) -> Vec<usize> {
    server.sent().iter().filter(|frame| frame.kind == Kind::DATA).map(|frame| frame.payload.len()).collect()
}

/// `max_dribbles`, `dribbles_per_second`, `h2:A24`: a hundred streams, windows of an octet: the first frames leave at
/// once, and then no more than time allows, whatever the peer sends. What was withheld leaves in larger frames.
#[test]
fn windows_of_an_octet_do_not_make_frames_of_an_octet() {
    let (mut server, _) = asked(Config::default(), 0, 100);
    assert_eq!(data_sent(&mut server), [0; 0]);
    let mut frames = 0;
    for _ in 0..50 {
        for n in 0..100 {
            assert_eq!(server.feed(&window_update(2 * n + 1, 1)), []);
        }
        frames += data_sent(&mut server).len();
    }
    assert_eq!(frames, 32, "5000 updates");
    server.wait(Duration::from_secs(1));
    let later = data_sent(&mut server);
    assert!((1..=50).contains(&later.len()), "{}", later.len());
    for n in 0..100 {
        server.feed(&window_update(2 * n + 1, 300));
    }
    assert!(data_sent(&mut server).iter().filter(|&&len| len > 300).count() >= 50);
}

/// `h2:A24`: the same with the connection's window.
#[test]
fn a_connection_window_of_an_octet_does_not_make_frames_of_an_octet() {
    let (mut server, _) = asked(Config::default(), frame::MAX_WINDOW, 4);
    assert_eq!(data_sent(&mut server).iter().sum::<usize>(), 65_535);
    let mut frames = 0;
    for _ in 0..200 {
        assert_eq!(server.feed(&window_update(0, 1)), []);
        frames += data_sent(&mut server).len();
    }
    assert_eq!(frames, 32);
    assert!(!server.engine.wants_transmit(), "nothing spins");
    // By and by it is tried again, whether or not more comes.
    let due = server.engine.poll_timeout().expect("somebody tries again");
    server.wait(due - server.now);
    assert_eq!(data_sent(&mut server), [168]);
    server.feed(&window_update(0, 1000));
    assert_eq!(data_sent(&mut server).iter().sum::<usize>(), 1000);
}

/// `h2:A24`: an update that dribbles earns nothing: the peer pays for it as for any control frame.
#[test]
fn updates_that_dribble_are_not_earned_back() {
    let (mut server, _) = asked(Config { max_control_frames: 200, ..Config::default() }, 0, 1);
    let mut fed = 0;
    while server.feed(&window_update(1, 1)).is_empty() {
        server.sent();
        fed += 1;
    }
    assert!(fed <= 204, "{fed}");
}

/// `max_dribbles`: the honest twin. A peer whose window ends with a few octets gets them behind larger frames, as often
/// as that happens.
#[test]
fn the_tail_of_a_window_leaves_at_once() {
    let config = Config { max_dribbles: 1, dribbles_per_second: 0, ..Config::default() };
    let mut server = Bench::connected(Side::Server, config, &[(4, 16_384 + 9)]);
    for n in 0..100 {
        let key = server.request(2 * n + 1, true);
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 20_000]));
        assert_eq!(data_sent(&mut server), [16_384, 9], "{n}");
        server.feed(&window_update(0, 16_393));
        server.engine.release(key);
    }
}

/// `max_dribbles`: an end that the window lets through is no dribble, nor is a message that is small by itself.
#[test]
fn what_is_small_by_itself_does_not_wait() {
    let mut server = Bench::connected(Side::Server, Config { max_dribbles: 0, ..Config::default() }, &[(4, 100)]);
    for n in 0..100 {
        let key = server.request(2 * n + 1, true);
        server.engine.send_head(key, response_head(), false);
        server.engine.send_data(key, None, Bytes::from(vec![0; 100]));
        server.engine.finish(key, None);
        assert_eq!(data_sent(&mut server), [100]);
        server.engine.release(key);
    }
}

/// `dribbles_per_second`: the honest twin, a device with a window of 128 octets, gets its megabyte, if slowly: no stall
/// is seen as long as something moves.
#[test]
fn a_device_with_a_tiny_window_is_served() {
    let mut server = Bench::connected(Side::Server, Config::default(), &[(4, 128)]);
    let key = server.request(1, true);
    server.engine.send_head(key, response_head(), false);
    server.engine.send_data(key, None, Bytes::from(vec![0; 60_000]));
    server.engine.finish(key, None);
    let mut got = 0;
    for _ in 0..10_000 {
        let len = data_sent(&mut server).iter().sum::<usize>();
        got += len;
        if len > 0 {
            server.feed(&window_update(1, len as u32));
            server.feed(&window_update(0, len as u32));
        }
        assert_eq!(server.events(), []);
        if got == 60_000 {
            return;
        }
        server.wait(Duration::from_millis(20));
    }
    panic!("{got} octets");
}

/// `send_stall_timeout`, `h2:A26`, `h2:A10`: an octet now and then keeps no stream, and no handler.
#[test]
fn an_octet_now_and_then_keeps_no_stream() {
    let (mut server, keys) = asked(Config::default(), 0, 3);
    let mut reset = 0;
    for _ in 0..8 {
        for n in 0..3 {
            server.feed(&window_update(2 * n + 1, 1));
        }
        data_sent(&mut server);
        server.wait(Duration::from_secs(10));
        reset += server.events().iter().filter(|event| matches!(event, Incoming::Reset { by_peer: false, .. })).count();
    }
    assert_eq!(reset, keys.len());
}

/// `useful_data`: a value of zero, or a huge one, stops no stream.
#[test]
fn any_value_of_useful_data_lets_streams_go_on() {
    for useful_data in [0, u32::MAX] {
        let (mut server, _) = asked(Config { useful_data, max_dribbles: 1, ..Config::default() }, 1024, 1);
        let mut sent = 0;
        for _ in 0..20 {
            sent += data_sent(&mut server).iter().sum::<usize>();
            server.feed(&window_update(1, 1024));
        }
        assert_eq!(sent, 20 * 1024);
    }
}
