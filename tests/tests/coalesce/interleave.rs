//! Every order in which a sender, the end of its stream and the connection's output may have their turns (arch:C3).

use bytes::BufMut;
use trirpc_core::buf::{CoalesceBuf, FlushPolicy};
use trirpc_core::{Instant, SendError};

/// Who may be next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    /// Sends its next message.
    Sender,
    /// Takes its next step to end the stream.
    Finisher,
    /// Takes what may leave, and shows the end when it is due.
    Output,
}

/// How the stream is ended.
#[derive(Clone, Copy, Debug)]
enum Finish {
    /// By [`CoalesceBuf::seal`].
    Seal,
    /// By a flush, with the end shown behind what was flushed: nothing closes the buffer.
    FlushOnly,
    /// By a flush in one step and a seal in the next.
    FlushThenSeal,
}

struct Stream {
    buf: CoalesceBuf,
    finish: Finish,
    steps: usize,
    accepted: usize,
    refused: usize,
    taken: usize,
    /// The peer was shown the end: nothing can follow.
    has_ended: bool,
}

impl Stream {
    fn new(policy: FlushPolicy, finish: Finish) -> Self {
        let buf = CoalesceBuf::new(policy, 1000);
        Self { buf, finish, steps: 0, accepted: 0, refused: 0, taken: 0, has_ended: false }
    }

    fn step(&mut self, actor: Actor) {
        match actor {
            Actor::Sender => {
                let fill = |dst: &mut bytes::BytesMut| {
                    dst.put_bytes(1, 10);
                    Ok(())
                };
                match self.buf.push_with(None, 10, fill, Instant::ZERO) {
                    Ok(()) => self.accepted += 10,
                    Err(SendError::Sealed) => self.refused += 10,
                    Err(error) => panic!("{error}"),
                }
            }
            Actor::Finisher => {
                self.steps += 1;
                match (self.finish, self.steps) {
                    (Finish::Seal, 1) | (Finish::FlushThenSeal, 2) => self.buf.seal().expect("no failure"),
                    (_, 1) => self.buf.flush().expect("no failure"),
                    _ => {}
                }
            }
            Actor::Output => {
                if !self.has_ended {
                    self.taken += self.buf.take(15, |_| ());
                    self.has_ended = match self.finish {
                        Finish::Seal => self.buf.is_finished(),
                        // The end goes behind what was flushed.
                        Finish::FlushOnly | Finish::FlushThenSeal => self.steps > 0 && self.buf.eligible() == 0,
                    };
                }
            }
        }
    }
}

/// Runs every order of these turns and counts those in which a message was accepted and never left.
fn swallowed(policy: FlushPolicy, finish: Finish) -> (usize, usize) {
    fn search(turns: &mut [(Actor, usize)], order: &mut Vec<Actor>, run: &mut impl FnMut(&[Actor])) {
        if turns.iter().all(|(_, left)| *left == 0) {
            return run(order);
        }
        for at in 0..turns.len() {
            if turns[at].1 > 0 {
                turns[at].1 -= 1;
                order.push(turns[at].0);
                search(turns, order, run);
                order.pop();
                turns[at].1 += 1;
            }
        }
    }
    let (mut runs, mut losses) = (0, 0);
    let turns = &mut [(Actor::Sender, 4), (Actor::Finisher, 2), (Actor::Output, 4)];
    search(turns, &mut Vec::new(), &mut |order| {
        let mut stream = Stream::new(policy, finish);
        order.iter().for_each(|actor| stream.step(*actor));
        for _ in 0..10 {
            stream.step(Actor::Output);
        }
        assert_eq!(stream.accepted + stream.refused, 40);
        assert!(stream.has_ended, "{order:?}");
        runs += 1;
        losses += usize::from(stream.accepted != stream.taken);
    });
    (runs, losses)
}

/// arch:C3, arch:C1, bg:W7: whatever the order, a message is delivered or refused; and the search can tell, for it finds
/// the orders in which an end that is not one step swallows one.
#[test]
fn no_order_of_turns_swallows_a_message() {
    for policy in [FlushPolicy::Immediate, FlushPolicy::Coalesce { watermark: 25, linger: None }] {
        let (runs, losses) = swallowed(policy, Finish::Seal);
        assert_eq!((runs, losses), (3150, 0), "{policy:?}");
        for mutation in [Finish::FlushOnly, Finish::FlushThenSeal] {
            assert!(swallowed(policy, mutation).1 > 0, "{policy:?}, {mutation:?}");
        }
    }
}
