//! Header blocks that are recognised: the same answers as without, and the same objects.

use alloc::string::ToString;

use quickcheck::{Arbitrary, Gen, QuickCheck};

use super::*;

/// One message head of a peer that repeats itself.
#[derive(Clone, Debug)]
struct Step {
    /// Which of a few lists.
    list: u8,
    /// A field that differs from call to call, and how it is encoded.
    own: Option<(Own, u8)>,
    /// The peer's table gets this size first.
    table: Option<u32>,
    /// The acknowledgement of our SETTINGS comes first, and with it our limit of the table.
    acknowledges: bool,
    end: bool,
    trailers: bool,
    /// The block comes in two frames, or with padding.
    cut: bool,
    padding: bool,
}

#[derive(Clone, Copy, Debug)]
enum Own {
    Literal,
    Inserted,
    Malformed,
}

impl Arbitrary for Step {
    fn arbitrary(g: &mut Gen) -> Self {
        let rarely = |g: &mut Gen, part| u8::arbitrary(g) % part == 0;
        let kind = *g.choose(&[Own::Literal, Own::Inserted, Own::Malformed]).unwrap();
        Self {
            list: u8::arbitrary(g) % 5,
            own: rarely(g, 4).then(|| (kind, u8::arbitrary(g) % 3)),
            table: rarely(g, 16).then(|| *g.choose(&[0, 100, 200, 1000, 4096]).unwrap()),
            acknowledges: rarely(g, 64),
            end: bool::arbitrary(g),
            trailers: bool::arbitrary(g),
            cut: rarely(g, 16),
            padding: rarely(g, 16),
        }
    }
}

/// HEADERS of `step` on `stream`, with CONTINUATION if it is cut.
fn frames(bench: &mut Bench, step: &Step, stream: u32, base: &[(&str, &str)], end: bool) -> Vec<u8> {
    let number = step.list.to_string();
    let mut fields = base.to_vec();
    fields.push(("x-list", &number));
    let value = step.own.map(|(_, value)| value.to_string()).unwrap_or_default();
    match step.own {
        None => {}
        Some((Own::Literal, _)) => fields.push(("grpc-timeout", &value)),
        Some((Own::Inserted, _)) => fields.push(("user-agent", &value)),
        Some((Own::Malformed, _)) => fields.push(("connection", &value)),
    }
    let block = bench.block(&fields);
    let padding = if step.padding { 7 } else { 0 };
    let mut payload = if step.padding { vec![padding] } else { Vec::new() };
    let (front, back) = block.split_at(if step.cut { block.len() / 2 } else { block.len() });
    payload.extend_from_slice(front);
    payload.resize(payload.len() + usize::from(padding), 0);
    let flags =
        u8::from(end) | if step.padding { frame::PADDED } else { 0 } | if step.cut { 0 } else { frame::END_HEADERS };
    let mut octets = frame_of(Kind::HEADERS, flags, stream, &payload);
    if step.cut {
        octets.extend(frame_of(Kind::CONTINUATION, frame::END_HEADERS, stream, back));
    }
    octets
}

/// What an engine with room for `known` heads says to the steps, and what it answers.
fn outcome(side: Side, known: usize, steps: &[Step]) -> (Vec<Incoming>, Vec<Sent>) {
    let config = Config { max_known_heads: known, header_table: 200, ..Config::default() };
    let mut bench = Bench::fresh(side, config);
    let mut octets = if side == Side::Server { frame::PREFACE.to_vec() } else { Vec::new() };
    octets.extend(settings_frame(&[]));
    let mut events = bench.feed(&octets);
    let mut acknowledged = false;
    for (n, step) in steps.iter().enumerate() {
        let stream = 2 * n as u32 + 1;
        if side == Side::Client && bench.engine.open(request_head(), n as u32).is_err() {
            break;
        }
        bench.engine.poll_transmit(&mut bench.out, bench.now);
        if step.acknowledges && !acknowledged {
            acknowledged = true;
            bench.encoder.set_peer_max_table_size(200);
            events.extend(bench.feed(&SETTINGS_ACK));
        }
        if let Some(size) = step.table {
            bench.encoder.set_peer_max_table_size(size);
        }
        let base = if side == Side::Server { REQUEST } else { RESPONSE };
        let mut octets = frames(&mut bench, step, stream, base, step.end && !step.trailers);
        if step.trailers {
            octets.extend(frames(&mut bench, step, stream, TRAILERS, true));
        }
        events.extend(bench.feed(&octets));
    }
    let sent = bench.sent();
    (events, sent)
}

/// The memo is its oracle's equal: whatever is repeated, inserted, evicted, resized or cut, the same events and the
/// same answers as when every block is decoded.
#[test]
fn recognised_blocks_mean_what_decoding_says() {
    fn property(steps: Vec<Step>, is_server: bool) -> bool {
        let side = if is_server { Side::Server } else { Side::Client };
        let decoded = outcome(side, 0, &steps);
        [1, 3, 8].into_iter().all(|known| outcome(side, known, &steps) == decoded)
    }
    QuickCheck::new().tests(300).quickcheck(property as fn(Vec<Step>, bool) -> bool);
}

/// The head of a request with one literal field more.
fn head_with(server: &mut Bench, stream: u32, more: &[(&str, &str)]) -> Arc<RequestHead> {
    let octets = server.headers(stream, &[REQUEST, more].concat(), true);
    match server.feed(&octets).pop() {
        Some(Incoming::Request { head, .. }) => head,
        other => panic!("{other:?}"),
    }
}

/// `max_known_heads`: a head that comes again is the same object, from its second time in unchanged tables on, and so
/// are trailers; one that was decoded in other tables is not.
#[test]
fn max_known_heads() {
    let mut server = Bench::server();
    let mut id = (1..).step_by(2);
    let mut next = |server: &mut Bench, more: &[(&str, &str)]| head_with(server, id.next().unwrap(), more);
    next(&mut server, &[]);
    next(&mut server, &[]);
    let kept = next(&mut server, &[]);
    assert!(Arc::ptr_eq(&kept, &next(&mut server, &[])));
    next(&mut server, &[("grpc-timeout", "1S")]);
    assert!(Arc::ptr_eq(&kept, &next(&mut server, &[])), "a literal does not touch the tables");
    next(&mut server, &[("user-agent", "other")]);
    let after = next(&mut server, &[]);
    assert!(!Arc::ptr_eq(&kept, &after) && kept == after, "the tables have changed");

    let mut without = Bench::connected(Side::Server, Config { max_known_heads: 0, ..Config::default() }, &[]);
    let heads: Vec<_> = (0..5).map(|n| head_with(&mut without, 2 * n + 1, &[])).collect();
    assert!(heads.windows(2).all(|pair| !Arc::ptr_eq(&pair[0], &pair[1])));
}

/// Neither long blocks nor large lists are kept.
#[test]
fn only_small_heads_are_kept() {
    let long = "x".repeat(300);
    let mut server = Bench::server();
    let mut id = (1..).step_by(2);
    for more in [&[("grpc-timeout", long.as_str())][..], &[("x-large", "y".repeat(3900).as_str())]] {
        let heads: Vec<_> = (0..5).map(|_| head_with(&mut server, id.next().unwrap(), more)).collect();
        assert!(heads.windows(2).all(|pair| !Arc::ptr_eq(&pair[0], &pair[1])));
    }
}

/// `h2:E5`: a head holds no receive window, whether it is kept or not: the octets of a literal are copied.
#[test]
fn a_head_holds_no_receive_window() {
    let mut server = Bench::server();
    let start = server.input.space().as_ptr();
    let window = start..start.wrapping_add(8 * 1024);
    let mut value_of = |n: u32| {
        let head = head_with(&mut server, 2 * n + 1, &[("x-request-id", "~~~~")]);
        head.headers.get(&HeaderName::X_REQUEST_ID).unwrap().clone()
    };
    let values: Vec<Bytes> = (0..4).map(&mut value_of).collect();
    assert!(values.iter().all(|value| value == "~~~~"));
    assert!(!values.iter().any(|value| window.contains(&value.as_ptr())));
    // The first one fills the table, the next is the first of its octets, and then they are known.
    assert_ne!(values[1].as_ptr(), values[2].as_ptr());
    assert_eq!(values[2].as_ptr(), values[3].as_ptr());
}

/// A block that was known is refused as ever once the tables no longer hold what it names, and once they must first be
/// made smaller.
#[test]
fn a_known_block_is_decoded_again_when_the_tables_shrink() {
    let known = |bench: &mut Bench| {
        (0..4).for_each(|n| drop(head_with(bench, 2 * n + 1, &[])));
        bench.headers(11, REQUEST, true)
    };
    let mut server = Bench::server();
    let again = known(&mut server);
    let update = [&[0x20][..], &server.block(&[(":status", "200")])].concat(); // a list that costs its stream only
    assert_eq!(server.feed(&frame_of(Kind::HEADERS, frame::END_HEADERS | 1, 9, &update)), []);
    server.sent();
    let events = server.feed(&again);
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);

    let config = Config { header_table: 100, ..Config::default() };
    let mut server = Bench::fresh(Side::Server, config);
    server.feed(&[frame::PREFACE, &settings_frame(&[])[..]].concat());
    let again = known(&mut server);
    assert_eq!(server.feed(&SETTINGS_ACK), []);
    server.sent();
    let events = server.feed(&again);
    server.assert_ended(&events, ErrorCode::COMPRESSION_ERROR);
}
