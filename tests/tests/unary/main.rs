//! The unary fast path against the general way: the same octets, the same outcomes, and no memory.
//!
//! Each property runs one script several times, with the switch in different positions, and compares what the network
//! saw and what the callers got.

mod errors;
mod run;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use quickcheck::QuickCheck;
use run::{COLLECT, Fault, Faulty, Op, ROWS, Run, SAY, Switch, carry, connect, some_metadata};
use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::{CallKind, CallOptions, Code, Codec, Metadata, MethodSpec, Protocol, Recv, Status};
use trirpc_core::{Config, ErrorCode, Event, Instant, OpenError, SendError, TransportError};
use trirpc_proto::{Prost, Raw};
use trirpc_tests::alloc::{Counting, measure};
use trirpc_tests::trace::{Entry, Frame, Side};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static EXPAND: MethodSpec = MethodSpec::new("/t.Echo/Expand", CallKind::ServerStreaming, false);
static CHAT: MethodSpec = MethodSpec::new("/t.Echo/Chat", CallKind::Bidi, false);

/// arch:U1, arch:U7, bg:S1, bg:S2, bg:S13, bg:S16, bg:S20, bg:R1: for every row and every codec the octets of both
/// sides and every outcome are the same with the switch on, off, and in any position between two calls, and whether or
/// not heads that come again are recognised.
#[test]
fn both_ways_write_the_same_octets() {
    fn same(script: Vec<Op>) {
        let oracle = Run::new(Switch::Plain).play(&script, true);
        for switch in [Switch::Off, Switch::On, Switch::Toggled, Switch::Chosen] {
            let run = Run::new(switch).play(&script, true);
            assert!(run.wire[0] == oracle.wire[0], "{switch:?}: the client's octets differ");
            assert!(run.wire[1] == oracle.wire[1], "{switch:?}: the server's octets differ");
            assert_eq!(run.outcomes, oracle.outcomes, "{switch:?}");
            assert_eq!(run.refused, oracle.refused, "{switch:?}");
        }
    }
    QuickCheck::new().tests(150).quickcheck(same as fn(Vec<Op>));
}

/// arch:U1: polled late, the frames of each stream are still the same.
#[test]
fn both_ways_write_the_same_frames_when_output_waits() {
    fn same(script: Vec<Op>) {
        // What is given up before it left differs by design.
        let script: Vec<Op> = script.into_iter().filter(|op| !matches!(op, Op::Cancel(_) | Op::Pass(_))).collect();
        let oracle = Run::new(Switch::Plain).play(&script, false);
        for switch in [Switch::Off, Switch::On, Switch::Toggled, Switch::Chosen] {
            let run = Run::new(switch).play(&script, false);
            for side in [Side::Client, Side::Server] {
                assert_eq!(run.frames(side), oracle.frames(side), "{switch:?}");
            }
            assert_eq!(run.outcomes, oracle.outcomes, "{switch:?}");
        }
    }
    QuickCheck::new().tests(100).quickcheck(same as fn(Vec<Op>));
}

/// arch:U1: call after call of one kind, until all that may be copied or recognised is, and each kind once more when the
/// others have been: the octets and outcomes stay those of the plain way. A deadline and metadata differ each time.
#[test]
fn a_steady_load_looks_like_the_first_call() {
    let calls = |row, codec, metadata, timeout| {
        let call = Op::Call { row, codec, size: 128, metadata, timeout };
        [call, Op::Answer { size: 100, metadata }, Op::Pass(3)]
    };
    let mut script = Vec::new();
    for round in [8, 1, 3] {
        for row in 0..ROWS.len() {
            for (codec, metadata, timeout) in
                [(0, false, None), (2, true, None), (0, false, Some(900)), (3, true, None)]
            {
                script.extend((0..round).flat_map(|_| calls(row, codec, metadata, timeout)));
            }
        }
        script.push(Op::Refuse);
    }
    let oracle = Run::new(Switch::Plain).play(&script, true);
    for switch in [Switch::Off, Switch::On, Switch::Toggled, Switch::Chosen] {
        let run = Run::new(switch).play(&script, true);
        assert!(run.wire == oracle.wire, "{switch:?}: the octets differ");
        assert_eq!(run.outcomes, oracle.outcomes, "{switch:?}");
    }
    assert!(oracle.outcomes.iter().filter(|(_, status)| status.is_ok()).count() > 100);
}

/// arch:U2, arch:U6, bg:S9, bg:S11, bg:S12, bg:R6, bg:R9: one HEADERS and one END_STREAM a request; content-length exact
/// where the body is bare, absent where it has envelopes; an empty message is a prefix, or nothing.
#[test]
fn a_request_is_sent_once_with_the_length_that_it_has() {
    fn once(sizes: Vec<(usize, usize)>) {
        let mut run = Run::new(Switch::On);
        for &(row, n) in &sizes {
            let (protocol, triple_headers) = ROWS[row % 4];
            let size = n % 5000 / (1 + n % 3 * 5000);
            let mut options = CallOptions::default();
            (options.protocol, options.triple_headers) = (Some(protocol), triple_headers);
            let first = run.trace.sent_by(Side::Client).count();
            run.echo(&options, &Raw::PROTO, &Bytes::from(vec![7; size]));
            let sent: Vec<_> = run.trace.sent_by(Side::Client).skip(first).filter(|entry| entry.stream > 0).collect();
            let fields = match &sent[0].frame {
                Frame::Headers { fields, .. } => fields,
                other => panic!("{other:?}"),
            };
            let length = fields.iter().find(|(name, _)| name == "content-length").map(|(_, value)| value.clone());
            let rest: Vec<_> = sent[1..].iter().filter(|e| !matches!(e.frame, Frame::WindowUpdate(_))).collect();
            if protocol == Protocol::Grpc {
                assert_eq!(length, None);
                assert!(
                    matches!(&rest[..], [Entry { frame: Frame::Data { data, end: true, .. }, .. }] if data.len() == 5 + size)
                );
            } else {
                assert_eq!(length, Some(size.to_string()));
                match (&sent[0].frame, &rest[..]) {
                    (Frame::Headers { end: true, .. }, []) => assert_eq!(size, 0),
                    (Frame::Headers { end: false, .. }, [Entry { frame: Frame::Data { data, end: true, .. }, .. }]) => {
                        assert_eq!(data.len(), size);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(run.outcomes.pop(), Some((Some(vec![7; size]), Status::OK)));
        }
        run.assert_quiet();
    }
    once((0..4).flat_map(|row| (0..200).map(move |n| (row, n))).collect());
    QuickCheck::new().tests(30).quickcheck(once as fn(Vec<(usize, usize)>));
}

/// arch:U3, bg:S3, bg:S4, bg:S5, bg:S8: nothing leaves before output is polled; what the transport holds never changes
/// under later calls; and once it is written its memory serves the next calls.
#[test]
fn what_the_transport_holds_never_changes() {
    fn held(sizes: Vec<u16>) {
        let mut run = Run::new(Switch::On);
        run.drive();
        let mut held = Transmit::new();
        let mut copy = Vec::new();
        for (i, size) in sizes.into_iter().enumerate() {
            let message = Bytes::from(vec![i as u8; usize::from(size) % 3000]);
            let opened = run.client.open_unary(&SAY, &CallOptions::default(), &Raw::PROTO, &message, run.now);
            assert_eq!(held.chunks().flatten().copied().collect::<Vec<_>>(), copy, "nothing but a poll moves output");
            run.client.poll_transmit(&mut held, run.now);
            let now: Vec<u8> = held.chunks().flatten().copied().collect();
            assert!(now.starts_with(&copy), "octets changed under the transport");
            copy = now;
            if size % 7 == 0 {
                let half = held.len() / 2;
                held.advance(half);
                copy.drain(..half);
            }
            if let (Ok(id), 0) = (opened, size % 5) {
                run.client.call(id).expect("open").release();
            }
        }
    }
    QuickCheck::new().tests(100).quickcheck(held as fn(Vec<u16>));
}

/// arch:U4, bg:S6, bg:S10, bg:S17, bg:S18, bg:R4: what ends a call before its request left is told at once, once, and
/// frees everything; what never left is unprocessed.
#[test]
fn a_call_may_end_before_its_request_leaves() {
    for switch in [Switch::On, Switch::Off] {
        for way in 0..4 {
            let mut run = Run::new(switch);
            run.echo(&CallOptions::default(), &Raw::PROTO, &Bytes::from_static(b"before"));
            run.outcomes.clear();
            let mut options = CallOptions::default();
            options.timeout = Some(Duration::from_millis(5));
            let message = Bytes::from_static(b"in the arena");
            let id = run.client.open_unary(&SAY, &options, &Raw::PROTO, &message, run.now).expect("a call");
            assert_eq!(run.client.call(id).expect("open").is_written(), switch == Switch::On);
            run.open.push(id);
            let expected = match way {
                0 => {
                    run.client.call(id).expect("open").cancel(Code::Cancelled, run.now);
                    run.client.call(id).expect("open").cancel(Code::Aborted, run.now);
                    Code::Cancelled
                }
                1 => {
                    run.now = run.now + Duration::from_millis(5);
                    run.client.handle_timeout(run.now);
                    Code::DeadlineExceeded
                }
                2 => {
                    run.client.handle_transport_error(TransportError::Reset, run.now);
                    Code::Unavailable
                }
                _ => {
                    run.client.abort(ErrorCode::NO_ERROR, run.now);
                    Code::Unavailable
                }
            };
            run.events();
            let [(None, status)] = &run.outcomes[..] else { panic!("{way}: {:?}", run.outcomes) };
            assert_eq!(status.code(), expected, "{way}");
            if way == 2 {
                assert!(status.is_unprocessed(), "{switch:?}: what was lost with the arena was never seen");
            }
            if way < 2 {
                run.echo(&CallOptions::default(), &Raw::PROTO, &Bytes::from_static(b"after"));
                run.assert_quiet();
            }
            assert_eq!(run.client.open_calls(), 0);
        }
    }
}

/// arch:U4, bg:S6, bg:S14, bg:S17, bg:R5: an error instead of a response frees the call on both sides, whatever the dialect.
#[test]
fn an_error_in_place_of_a_response_frees_everything() {
    for (protocol, triple_headers) in ROWS.into_iter().take(4) {
        let mut run = Run::new(Switch::On);
        let mut options = CallOptions::default();
        (options.protocol, options.triple_headers) = (Some(protocol), triple_headers);
        for _ in 0..3 {
            let id = run.client.open_unary(&SAY, &options, &Prost, &Bytes::from_static(b"?"), run.now).expect("a call");
            run.open.push(id);
            run.drive();
            run.op(&Op::Refuse);
            run.drive();
            let (message, status) = run.outcomes.pop().expect("an outcome");
            assert_eq!((message, status.code(), status.message()), (None, Code::NotFound, "nowhere"));
            run.assert_quiet();
        }
    }
}

/// arch:U5, bg:S10, bg:R7: a request that cannot be encoded costs its own stream; the peer's tables stay in step.
#[test]
fn a_request_that_cannot_be_encoded_costs_its_own_stream() {
    for fault in [Fault::Error, Fault::Short, Fault::Overrun, Fault::Panic] {
        let mut run = Run::new(Switch::On);
        run.echo(&CallOptions::default(), &Raw::PROTO, &Bytes::from_static(b"before"));
        let mut options = CallOptions::default();
        options.metadata = some_metadata(true);
        let message = Bytes::new();
        let opened =
            catch_unwind(AssertUnwindSafe(|| run.client.open_unary(&SAY, &options, &Faulty(fault), &message, run.now)));
        match fault {
            Fault::Error | Fault::Short => assert!(matches!(opened, Ok(Err(OpenError::Codec(_)))), "{fault:?}"),
            Fault::Overrun | Fault::Panic => assert!(opened.is_err(), "{fault:?} unwinds"),
        }
        assert_eq!(run.client.open_calls(), 0);
        run.drive();
        let stream = run.frames(Side::Client).into_iter().filter(|entry| entry.stream == 3);
        let frames: Vec<Frame> = stream.map(|entry| entry.frame).collect();
        let reset = |frame: &Frame| matches!(frame, Frame::Reset(_));
        assert!(matches!(&frames[..], [Frame::Headers { end: false, .. }, last] if reset(last)), "{frames:?}");
        options.timeout = None;
        run.echo(&options, &Raw::PROTO, &Bytes::from_static(b"after"));
        assert_eq!(run.outcomes.pop(), Some((Some(b"after".to_vec()), Status::OK)));
        run.assert_quiet();
    }
}

/// arch:U5, bg:R7: a response that cannot be encoded is an error for its client alone, in every dialect.
#[test]
fn a_response_that_cannot_be_encoded_is_an_internal_error() {
    for (protocol, triple_headers) in ROWS.into_iter().take(4) {
        for fault in [Fault::Error, Fault::Short, Fault::Overrun, Fault::Panic] {
            for switch in [Switch::On, Switch::Off] {
                let mut run = Run::new(switch);
                let mut options = CallOptions::default();
                (options.protocol, options.triple_headers) = (Some(protocol), triple_headers);
                let message = Bytes::from_static(b"?");
                let id = run.client.open_unary(&SAY, &options, &Raw::PROTO, &message, run.now).expect("a call");
                run.open.push(id);
                run.drive();
                let (asked, _) = run.asked.pop_front().expect("a request");
                let (head, none) = (some_metadata(true), Metadata::new());
                let answered = catch_unwind(AssertUnwindSafe(|| {
                    run.server.call(asked).expect("a call").respond(&Faulty(fault), &message, &head, &none, run.now)
                }));
                match answered {
                    Ok(answered) => assert!(matches!(answered, Err(SendError::Codec(_))), "{answered:?}"),
                    // Whoever catches it lets the call go.
                    Err(_) => run.server.call(asked).expect("a call").release(),
                }
                run.drive();
                let (message, status) = run.outcomes.pop().expect("an outcome");
                assert_eq!(message, None);
                let cut_off = matches!(fault, Fault::Overrun | Fault::Panic) && switch == Switch::Off;
                let expected = if cut_off { Code::Cancelled } else { Code::Internal };
                assert_eq!(status.code(), expected, "{protocol:?} {fault:?} {switch:?}: {status:?}");
                run.echo(&options, &Raw::PROTO, &Bytes::from_static(b"after"));
                run.assert_quiet();
            }
        }
    }
}

/// arch:U8, bg:S18: a transport that takes nothing gets bounded output, however many calls are opened and given up.
#[test]
fn output_does_not_pile_up_under_calls_that_are_given_up() {
    fn bounded(sizes: Vec<u16>) {
        let mut run = Run::new(Switch::On);
        run.drive();
        let mut stuck = Transmit::new();
        for round in 0..200 {
            let size = sizes.get(round % sizes.len().max(1)).map_or(10_000, |size| usize::from(*size) % 16_000);
            let message = Bytes::from(vec![1; size]);
            if let Ok(id) = run.client.open_unary(&SAY, &CallOptions::default(), &Raw::PROTO, &message, run.now) {
                run.client.poll_transmit(&mut stuck, run.now);
                run.client.call(id).expect("open").release();
            }
        }
        let resets = 200 * 13;
        let bound = Config::default().transmit_target + 16 * 1024 + 1024 + resets;
        assert!(stuck.len() <= bound, "{} bytes", stuck.len());
    }
    QuickCheck::new().tests(20).quickcheck(bounded as fn(Vec<u16>));
}

/// arch:U8: more calls than streams wait, or are refused, as they are without the fast path.
#[test]
fn calls_beyond_the_limits_wait_or_are_refused() {
    let mut configs = (Config::default(), Config::default());
    configs.0.max_pending = 3;
    configs.1.max_concurrent_streams = 2;
    let results = [Switch::On, Switch::Off].map(|switch| {
        let mut run = Run::with(switch, configs.0.clone(), configs.1.clone());
        run.drive();
        let script = vec![Op::Call { row: 0, codec: 0, size: 9, metadata: false, timeout: None }; 8];
        let run = run.play(&script, false);
        (run.refused, run.outcomes)
    });
    assert_eq!(results[0], results[1]);
    assert_eq!((results[0].0.len(), results[0].1.len()), (3, 5));
}

/// bg:R2, bg:R9: streams never take the fast path, whatever the switch says, and have no content-length.
#[test]
fn streams_take_the_general_way() {
    assert_eq!(CallKind::default(), CallKind::Unary);
    let mut options = CallOptions::default();
    options.unary_fast_path = Some(true);
    for method in [&EXPAND, &COLLECT, &CHAT] {
        for protocol in [Protocol::Grpc, Protocol::Triple] {
            options.protocol = Some(protocol);
            let mut run = Run::new(Switch::On);
            let message = Bytes::from_static(b"one");
            let id = run.client.open_unary(method, &options, &Raw::PROTO, &message, run.now).expect("a call");
            assert!(!run.client.call(id).expect("open").is_written());
            run.drive();
            let head = run.trace.sent_by(Side::Client).find(|entry| entry.stream == 1).expect("a head");
            let Frame::Headers { fields, .. } = &head.frame else { panic!("{head:?}") };
            assert!(fields.iter().all(|(name, _)| name != "content-length"), "{fields:?}");
        }
    }
}

/// bg:R3: a health check is a unary call as any other: its octets and its outcome do not depend on the switch, nor do
/// those of the calls beside it.
#[test]
fn health_checks_do_not_depend_on_the_switch() {
    static CHECK: MethodSpec = MethodSpec::new("/grpc.health.v1.Health/Check", CallKind::Unary, true);
    let runs = [Switch::Off, Switch::On].map(|switch| {
        let mut run = Run::new(switch);
        for _ in 0..3 {
            run.echo_by(&CHECK, &CallOptions::default(), &Prost, &Bytes::from_static(b"service"));
            run.echo(&CallOptions::default(), &Prost, &Bytes::from_static(b"call"));
        }
        run.assert_quiet();
        (run.wire, run.outcomes)
    });
    assert!(runs[0] == runs[1]);
    assert!(runs[0].1.len() == 6 && runs[0].1.iter().all(|(_, status)| status.is_ok()));
}

/// bg:S7: threads open calls and give some up while another moves bytes and answers; each takes the connections for one
/// step, as the layers above do. Every call ends once: with an answer, or cancelled.
#[test]
fn calls_of_several_threads_do_not_disturb_each_other() {
    const THREADS: usize = 4;
    const CALLS: usize = 100;
    let mut server = Config::default();
    // A call that was given up counts until the server's side has let it go: none shall be refused for that.
    server.max_concurrent_streams = (THREADS * CALLS) as u32;
    let connections = connect(Config::default(), server, Instant::ZERO);
    let shared = Mutex::new((connections, 0, 0));
    let busy = AtomicUsize::new(THREADS);
    let (now, message, none) = (Instant::ZERO, Bytes::from_static(b"message"), Metadata::new());
    let open_and_cancel = || {
        for i in 0..CALLS {
            let id = loop {
                let client = &mut shared.lock().expect("no panic").0.0;
                if let Ok(id) = client.open_unary(&SAY, &CallOptions::default(), &Raw::PROTO, &message, now) {
                    break id;
                }
                thread::yield_now();
            };
            if i % 5 == 0 {
                let client = &mut shared.lock().expect("no panic").0.0;
                if let Some(mut call) = client.call(id) {
                    call.cancel(Code::Cancelled, now);
                }
            }
        }
        busy.fetch_sub(1, Ordering::SeqCst);
    };
    let move_and_answer = || {
        let (mut up, mut down) = Default::default();
        let (mut at_server, mut at_client) = (RecvBuf::new(16 * 1024), RecvBuf::new(16 * 1024));
        loop {
            let is_last = busy.load(Ordering::SeqCst) == 0;
            let mut guard = shared.lock().expect("no panic");
            let ((client, server), answered, cancelled) = &mut *guard;
            client.poll_transmit(&mut up, now);
            let mut moved = carry(&mut up, &mut at_server, &mut Vec::new());
            server.handle_input(&mut at_server, now);
            while let Some(event) = server.poll_event() {
                match event {
                    Event::Incoming => {
                        while let Some(id) = server.accept() {
                            server.call(id).expect("accepted").expect(CallKind::Unary, now);
                        }
                    }
                    Event::Readable(id) => {
                        let call = server.call(id).expect("not answered");
                        let _ = call.respond(&Raw::PROTO, &message, &none, &none, now);
                    }
                    Event::Finished(id) => {
                        if let Some(call) = server.call(id) {
                            call.release();
                        }
                    }
                    _ => {}
                }
            }
            server.poll_transmit(&mut down, now);
            moved += carry(&mut down, &mut at_client, &mut Vec::new());
            client.handle_input(&mut at_client, now);
            while let Some(event) = client.poll_event() {
                let Event::Finished(id) = event else { continue };
                let mut call = client.call(id).expect("not released");
                let has_message = matches!(call.recv(), Recv::Message(received) if received.len() == message.len());
                match call.release().expect("an outcome").code() {
                    Code::Ok if has_message => *answered += 1,
                    Code::Cancelled if !has_message => *cancelled += 1,
                    code => panic!("{code:?}"),
                }
            }
            if is_last && moved == 0 {
                return;
            }
            drop(guard);
            thread::yield_now();
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(open_and_cancel);
        }
        scope.spawn(move_and_answer);
    });
    let ((client, server), answered, cancelled) = shared.into_inner().expect("no panic");
    assert_eq!((client.open_calls(), server.open_calls()), (0, 0));
    assert_eq!(answered + cancelled, THREADS * CALLS);
    assert!(cancelled <= THREADS * CALLS / 5, "{cancelled}");
}

/// bg:R1: the switch survives the text form and a copy; what is no switch is an error.
#[test]
fn the_switch_is_part_of_the_configuration() {
    let mut config = Config::default();
    assert!(config.unary_fast_path);
    config.set("unary-fast-path", "off").expect("a switch");
    let mut copy = Config::default();
    for (name, value) in config.pairs() {
        copy.set(name, &value).expect("own pairs");
    }
    assert!(!copy.unary_fast_path && !config.clone().unary_fast_path);
    let error = config.set("unary-fast-path", "7").expect_err("no switch").to_string();
    assert!(error.contains("`on` or `off`"), "{error}");
}

/// Allocations of one steady call with messages of `len` octets: sending the request, receiving it, sending the response,
/// receiving it.
fn costs(switch: Switch, row: usize, codec: &'static dyn Codec<Bytes>, len: usize) -> [u64; 4] {
    let mut run = Run::new(switch);
    let mut options = CallOptions::default();
    (options.protocol, options.triple_headers) = (Some(ROWS[row].0), ROWS[row].1);
    let (message, none) = (Bytes::from(vec![7; len]), Metadata::new());
    for _ in 0..150 {
        run.echo(&options, codec, &message);
    }
    let mut worst = [0; 4];
    for _ in 0..100 {
        let Run { client, server, to_server, to_client, now, wire, .. } = &mut run;
        let now = *now;
        let ((), sent) = measure(|| {
            client.open_unary(&SAY, &options, codec, &message, now).expect("a call");
            client.poll_transmit(&mut to_server.0, now);
        });
        carry(&mut to_server.0, &mut to_server.1, &mut wire[0]);
        let (asked, received) = measure(|| {
            server.handle_input(&mut to_server.1, now);
            while server.poll_event().is_some() {}
            let id = server.accept().expect("a call");
            assert!(server.accept().is_none());
            let mut call = server.call(id).expect("a call");
            call.expect(CallKind::Unary, now);
            assert!(matches!(call.recv(), Recv::Message(_)));
            id
        });
        let ((), answered) = measure(|| {
            let call = server.call(asked).expect("a call");
            call.respond(codec, &message, &none, &none, now).expect("a response");
            server.poll_transmit(&mut to_client.0, now);
        });
        carry(&mut to_client.0, &mut to_client.1, &mut wire[1]);
        let ((), ended) = measure(|| {
            client.handle_input(&mut to_client.1, now);
            while let Some(event) = client.poll_event() {
                let Event::Finished(id) = event else { continue };
                let mut call = client.call(id).expect("a call");
                assert!(matches!(call.recv(), Recv::Message(_)));
                assert!(call.release().expect("an outcome").is_ok());
            }
        });
        for (worst, cost) in worst.iter_mut().zip([sent, received, answered, ended]) {
            *worst = (*worst).max(cost.allocations);
        }
    }
    run.assert_quiet();
    worst
}

/// bg:B6, arch:§6: what is sent of a steady unary call allocates nothing, on either side, in any dialect.
#[test]
fn a_steady_unary_call_allocates_nothing_to_be_sent() {
    for (row, codec) in [
        (0, &Raw::PROTO as &'static dyn Codec<Bytes>),
        (0, &Prost),
        (0, &const { Raw::new("json") }),
        (1, &Prost),
        (2, &Prost),
        (3, &Prost),
    ] {
        // One frame, and two of which the second holds little more than what the envelope adds.
        for len in [128, 16_388] {
            let (on, off) = (costs(Switch::On, row, codec, len), costs(Switch::Off, row, codec, len));
            println!("{:?} {} {len}: on {on:?}, off {off:?}", ROWS[row], codec.name());
            assert_eq!([on[0], on[2]], [0, 0], "{:?} {} {len}", ROWS[row], codec.name());
            assert!(on.iter().sum::<u64>() < off.iter().sum::<u64>());
        }
    }
}
