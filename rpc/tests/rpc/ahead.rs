//! How many messages a receiver takes at once.

use bytes::{Buf, BufMut};
use trirpc_core::buf::Run;
use trirpc_core::call::{CallOptions, EncodeBuf};
use trirpc_core::{CodecError, Config};
use trirpc_rpc::{Encode, Invoke, Received, ServerStreamingCall};

use crate::support::link::With;
use crate::support::{LOTS, link};

/// A request, as the codec of the test writes it.
struct Ask(&'static str);

impl Encode for Ask {
    fn encoded_len(&self) -> Option<usize> {
        Some(self.0.len())
    }

    fn encode(&self, dst: &mut EncodeBuf<'_>) -> Result<(), CodecError> {
        dst.buf().put_slice(self.0.as_bytes());
        Ok(())
    }
}

fn check(at: usize, message: &impl Buf) {
    assert_eq!(message.chunk(), format!("{at}{}", "-".repeat(99)).as_bytes());
}

/// arch:8: beside the message that is asked for, a receiver takes as many as fit into `recv_ahead`, none that does not, and
/// with 0 none. All of them are there in the end.
#[test]
fn what_is_taken_ahead_is_bounded_by_the_configuration() {
    // The first ten, with their prefix.
    const MESSAGE: usize = 5 + 100;
    for (limit, expected) in [(0, 0), (MESSAGE - 1, 0), (MESSAGE, 1), (10 * MESSAGE + 50, 10), (usize::MAX, 49)] {
        let client = Config::default().with(|config| config.recv_ahead = limit);
        let link = link(client, Config::default(), 64 * 1024);
        let call = link.client.start_unary(&LOTS.spec, &CallOptions::default(), "text", &Ask("50x99"), None);
        let mut receiver = call.into_receiver();
        link.executor.run();
        let (all, first) = link.executor.block_on(async move {
            let (mut all, mut first) = (0, None);
            let mut run = Run::default();
            loop {
                match std::future::poll_fn(|cx| receiver.poll_recv(cx, Some(&mut run))).await.unwrap() {
                    Received::Message(message) => check(all, &message),
                    Received::End(_) => break,
                }
                all += 1;
                first.get_or_insert_with(|| run.messages());
                assert!(run.bytes() + 5 * run.messages() <= limit);
                while let Some(message) = run.next_message() {
                    check(all, &message);
                    all += 1;
                }
            }
            (all, first)
        });
        assert_eq!((all, first), (50, Some(expected)), "recv_ahead {limit}");
        link.assert_empty();
    }
}

/// The bound changes nothing of what arrives.
#[test]
fn a_stream_is_the_same_however_much_is_taken_ahead() {
    for limit in [0, 1, 300, 16 * 1024, usize::MAX] {
        for lots in ["300x7", "100x0", "40x4000", "3x70000"] {
            let client = Config::default().with(|config| config.recv_ahead = limit);
            let link = link(client, Config::default(), 1000);
            let mut rx = ServerStreamingCall::new(link.client.clone(), &LOTS, lots.to_owned()).open();
            let received = link.executor.block_on(async move {
                let mut received = Vec::new();
                while let Some(message) = rx.next().await.unwrap() {
                    received.push(message.len());
                }
                received
            });
            let (count, len) = lots.split_once('x').unwrap();
            let (count, len): (usize, usize) = (count.parse().unwrap(), len.parse().unwrap());
            let expected = (0..count).map(|at| at.to_string().len() + len);
            assert!(expected.eq(received), "{lots}, recv_ahead {limit}");
            link.assert_empty();
        }
    }
}
