//! Failures of a stream that holds messages back: who is told, of what, and what the peer sees.

use bytes::Bytes;
use quickcheck::QuickCheck;
use trirpc_core::buf::FlushPolicy;
use trirpc_core::call::{CallKind, Code, Recv};
use trirpc_core::{CallId, ErrorCode, SendError, StreamError, TransportError};
use trirpc_proto::Raw;
use trirpc_tests::pair::Pair;
use trirpc_tests::random::Random;
use trirpc_tests::trace::Side;

use super::{MESSAGE, accept, chat, octets_sent, send, sent};

/// What every way to use the send side of a call says.
fn exits(pair: &mut Pair, id: CallId) -> [Result<(), SendError>; 4] {
    let now = pair.now();
    let message = Bytes::from(vec![0; 128]);
    let mut call = pair.client_call(id);
    [
        call.send(&Raw::PROTO, &message, now),
        call.send_encoded(trirpc_core::buf::Encoded { bytes: message, compressed: false }, now),
        call.flush(now),
        call.finish(now),
    ]
}

/// arch:C4, arch:C5, bg:W11, bg:W12, bg:W14, bg:W15, bg:W20: when the stream fails under messages that were accepted and
/// held back, every exit says so from then on, in the same words; the first error stays; and the send side is over.
#[test]
fn a_failure_is_told_on_every_exit_and_the_first_one_stays() {
    for failure in ["transport", "reset", "cancel"] {
        let (mut pair, id) = chat(FlushPolicy::coalesce(None));
        for _ in 0..3 {
            // Accepted, and not known to fail: the failure is told by what comes next.
            send(&mut pair, id, 128);
        }
        let now = pair.now();
        let expected = match failure {
            "transport" => {
                pair.client.handle_transport_error(TransportError::Reset, now);
                SendError::Failed(StreamError::Connection)
            }
            "reset" => {
                let peer = pair.server.accept().expect("the call arrived");
                pair.server.call(peer).expect("the call").release();
                pair.drive();
                SendError::Failed(StreamError::Reset(ErrorCode::CANCEL))
            }
            _ => {
                pair.client_call(id).cancel(Code::Cancelled, now);
                SendError::Failed(StreamError::Cancelled)
            }
        };
        for _ in 0..2 {
            for exit in exits(&mut pair, id) {
                assert_eq!(exit, Err(expected.clone()), "{failure}");
            }
            // A later failure does not take the place of the first.
            pair.client.handle_transport_error(TransportError::Eof, now);
        }
        pair.drive();
        assert_eq!(octets_sent(&pair, Side::Client), 0, "{failure}: nothing leaves that was held back");
        assert!(pair.client.call(id).expect("the call").release().is_some_and(|status| !status.is_ok()));
    }
}

/// bg:W13: what is wrong with one message is told as it is, and harms neither those that are held back nor the stream.
#[test]
fn a_message_that_cannot_be_sent_fails_alone() {
    for policy in [FlushPolicy::coalesce(None), FlushPolicy::Immediate] {
        let mut setup = trirpc_tests::pair::Setup::default();
        setup.client.max_send_message = 50_000;
        let mut pair = setup.start();
        let now = pair.now();
        let id = pair.client.open(&super::CHAT, &super::options(policy), "proto", now).expect("a call");
        send(&mut pair, id, 128);
        let large = Bytes::from(vec![0; 60_000]);
        let refused = Err(SendError::TooLarge { size: 60_000, limit: 50_000 });
        assert_eq!(pair.client_call(id).send(&Raw::PROTO, &large, now), refused);
        let encoded = trirpc_core::buf::Encoded { bytes: large, compressed: false };
        assert_eq!(pair.client_call(id).send_encoded(encoded, now), refused);
        let compressed = trirpc_core::buf::Encoded { bytes: Bytes::from_static(b"x"), compressed: true };
        assert!(matches!(pair.client_call(id).send_encoded(compressed, now), Err(SendError::Codec(_))));
        send(&mut pair, id, 128);
        pair.client_call(id).finish(now).expect("an open call");
        pair.drive();
        assert_eq!((octets_sent(&pair, Side::Client), sent(&pair, Side::Client, 1).ends), (2 * MESSAGE, 1));
    }
}

/// arch:C5, bg:W15: whatever happens to a stream before and after its end was said, the peer is shown it once: by
/// END_STREAM, by a reset, or by the end of the connection.
#[test]
fn the_peer_sees_exactly_one_end() {
    fn property(seed: u64) {
        let random = &mut Random::new(seed);
        let policy = *random.pick(&super::POLICIES);
        let (mut pair, id) = chat(policy);
        let peer = accept(&mut pair, CallKind::Bidi);
        let mut is_lost = false;
        for _ in 0..random.below(12) {
            let now = pair.now();
            let mut call = pair.client_call(id);
            match random.below(10) {
                0 => drop(call.flush(now)),
                1 => drop(call.finish(now)),
                2 if random.one_in(3) => call.cancel(Code::Cancelled, now),
                3 if random.one_in(3) => {
                    if let Some(call) = pair.server.call(peer) {
                        call.release();
                    }
                }
                4 if random.one_in(4) => {
                    pair.client.handle_transport_error(TransportError::Reset, now);
                    is_lost = true;
                }
                5 => pair.steps(2),
                6 => drop(matches!(call.recv(), Recv::Blocked)),
                _ => drop(call.send(&Raw::PROTO, &Bytes::from(vec![0; random.length(3000)]), now)),
            }
        }
        let now = pair.now();
        let finished = pair.client_call(id).finish(now);
        assert_eq!(pair.client_call(id).finish(now), finished, "said twice, it is the same");
        for _ in 0..50 {
            pair.drive();
            if let Some(mut call) = pair.server.call(peer) {
                while matches!(call.recv(), Recv::Message(_)) {}
            }
        }
        let (ours, theirs) = (sent(&pair, Side::Client, 1), sent(&pair, Side::Server, 1));
        assert!(ours.ends <= 1 && ours.resets <= 1 && theirs.resets <= 1, "{policy:?}");
        if is_lost {
            assert!(pair.client_call(id).status().is_some_and(|status| !status.is_ok()), "{policy:?}");
        } else {
            let is_shown = ours.ends + ours.resets > 0 || theirs.resets > 0;
            assert!(is_shown, "{policy:?}: the end was not shown");
        }
    }
    QuickCheck::new().tests(300).quickcheck(property as fn(u64));
}
