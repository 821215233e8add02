//! Received messages that lie behind each other.

use core::fmt;

use bytes::Bytes;

use super::Contiguous;

/// Whole messages of a stream, as they arrived: behind each other in one piece of memory, none of them compressed.
///
/// What [`recv_ahead`](crate::CallMut::recv_ahead) takes at once, so that one look at the connection, and one handle of
/// the memory, serve for many messages.
#[derive(Clone, Default)]
pub struct Run {
    /// The messages with their prefixes.
    memory: Bytes,
    /// Where in `memory` the next one begins.
    at: usize,
    /// Messages from there on.
    messages: usize,
}

impl Run {
    /// Octets in front of a message: its flags and its length.
    const PREFIX: usize = 5;

    /// The messages at the beginning of `octets` that are whole and not compressed, as many as fit into `max` bytes with
    /// their prefixes: how many bytes, and how many messages.
    pub(crate) fn measure(octets: &[u8], max: usize) -> (usize, usize) {
        let within = octets.get(..max).unwrap_or(octets);
        let (mut rest, mut messages) = (within, 0);
        while let Some((_, behind)) = split_first(rest) {
            rest = behind;
            messages += 1;
        }
        (within.len() - rest.len(), messages)
    }

    /// So many messages, which [`measure`](Self::measure) has found to be all of `memory`.
    pub(crate) fn new(memory: Bytes, messages: usize) -> Self {
        Self { memory, at: 0, messages }
    }

    /// Messages that were not lent yet.
    #[inline]
    pub const fn messages(&self) -> usize {
        self.messages
    }

    /// Their bytes, without prefixes.
    #[inline]
    pub const fn bytes(&self) -> usize {
        self.memory.len() - self.at - self.messages * Self::PREFIX
    }

    /// Lends the next message; what was not read of the one before is passed over.
    #[inline]
    pub fn next_message(&mut self) -> Option<Contiguous<'_>> {
        let (payload, _) = split_first(self.memory.get(self.at..)?)?;
        self.at += Self::PREFIX + payload.len();
        self.messages -= 1;
        Some(Contiguous::new(payload, &self.memory))
    }

    /// Lets go of the memory once every message was lent.
    #[inline]
    pub fn release_spent(&mut self) {
        if self.messages == 0 && !self.memory.is_empty() {
            *self = Self::default();
        }
    }
}

/// The payload that `octets` begins with behind its prefix, if it is there and not compressed, and what follows.
#[inline]
fn split_first(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[0, a, b, c, d], payload) = octets.split_first_chunk::<{ Run::PREFIX }>()? else { return None };
    payload.split_at_checked(u32::from_be_bytes([a, b, c, d]) as usize)
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("messages", &self.messages).field("bytes", &self.bytes()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use bytes::Buf;

    use super::super::MessageBuf;
    use super::*;

    fn octets(messages: &[Vec<u8>]) -> Vec<u8> {
        let mut octets = Vec::new();
        for message in messages {
            octets.push(0);
            octets.extend_from_slice(&(message.len() as u32).to_be_bytes());
            octets.extend_from_slice(message);
        }
        octets
    }

    fn run(octets: Vec<u8>) -> Run {
        let (len, messages) = Run::measure(&octets, usize::MAX);
        Run::new(Bytes::from(octets).slice(..len), messages)
    }

    /// Whatever a reader does with a message, the next one is the next one.
    #[test]
    fn messages_come_one_by_one_however_they_are_read() {
        fn all(messages: Vec<Vec<u8>>, readers: Vec<u8>) -> bool {
            let mut run = run(octets(&messages));
            let mut readers = readers.into_iter().cycle();
            messages.iter().all(|wanted| {
                let Some(mut message) = run.next_message() else { return false };
                if (message.len(), message.chunk()) != (wanted.len(), &wanted[..]) {
                    return false;
                }
                match readers.next().unwrap_or_default() % 6 {
                    0 => message.advance(wanted.len()),
                    1 => message.advance(wanted.len() / 2),
                    2 => return MessageBuf::from(message).chunk() == wanted,
                    3 => {
                        message.share_small();
                        return message.copy_to_bytes(wanted.len()) == wanted && !message.has_remaining();
                    }
                    4 => {
                        message.advance(wanted.len() / 2);
                        let mut rest = MessageBuf::from(message);
                        return rest.copy_to_bytes(rest.len()) == wanted[wanted.len() / 2..];
                    }
                    _ => {}
                }
                true
            }) && run.next_message().is_none()
                && run.messages() == 0
        }
        quickcheck::quickcheck(all as fn(Vec<Vec<u8>>, Vec<u8>) -> bool);
    }

    #[test]
    fn a_run_ends_at_the_limit_and_before_what_is_compressed_or_not_whole() {
        let three = octets(&[vec(10), vec(0), vec(20)]);
        assert_eq!(Run::measure(&three, usize::MAX), (45, 3));
        assert_eq!(Run::measure(&three, 44), (20, 2));
        assert_eq!(Run::measure(&three, 20), (20, 2));
        assert_eq!(Run::measure(&three, 14), (0, 0));
        assert_eq!(Run::measure(&three[..44], usize::MAX), (20, 2));
        assert_eq!(Run::measure(&three[..18], usize::MAX), (15, 1));
        let mut compressed = three;
        compressed[15] = 1;
        assert_eq!(Run::measure(&compressed, usize::MAX), (15, 1));
    }

    #[test]
    fn memory_is_let_go_with_the_last_message() {
        let memory = Bytes::from(octets(&[vec(3), vec(4)]));
        let mut run = Run::new(memory.clone(), 2);
        assert_eq!((run.messages(), run.bytes()), (2, 7));
        for left in [1, 0] {
            assert!(run.next_message().is_some());
            assert!(!memory.is_unique());
            assert_eq!(run.messages(), left);
            run.release_spent();
        }
        assert!(memory.is_unique());
    }

    fn vec(len: usize) -> Vec<u8> {
        alloc::vec![7; len]
    }
}
