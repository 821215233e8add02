use core::time::Duration;

use bytes::{BufMut, Bytes};
use trirpc_core::buf::{CoalesceBuf, FlushPolicy};
use trirpc_core::{CodecError, ErrorCode, Instant, SendError, StreamError};

use crate::input::Input;

/// Runs a script of commands on a buffer that may hold messages back, beside a list of the octets that it accepted:
/// what is taken is what was accepted, in order; what may leave is what the policy says; errors stick.
///
/// The input is an octet with the policy, two with the watermark, two with the high-water mark, and the commands: an
/// octet each, and two of an argument.
pub fn coalesce_model(data: &[u8]) {
    let mut input = Input::new(data);
    let switches = input.octet();
    let watermark = usize::from(input.short());
    let high_water = usize::from(input.short());
    let policy = policy(switches, watermark);
    let mut model = Model::new(policy, high_water);
    let mut buf = CoalesceBuf::new(policy, high_water);
    while !input.is_empty() {
        let (command, argument) = (input.octet(), input.short());
        model.apply(&mut buf, command, argument);
        model.compare(&buf);
    }
    model.drain(&mut buf);
}

fn policy(switches: u8, watermark: usize) -> FlushPolicy {
    match switches % 4 {
        0 => FlushPolicy::Immediate,
        1 => FlushPolicy::Coalesce { watermark, linger: None },
        2 => FlushPolicy::Coalesce { watermark, linger: Some(Duration::ZERO) },
        _ => FlushPolicy::Coalesce { watermark, linger: Some(Duration::from_nanos(u64::from(switches))) },
    }
}

/// What the buffer should be: plain, and with every octet it ever accepted.
struct Model {
    policy: FlushPolicy,
    high_water: usize,
    accepted: Vec<u8>,
    taken: usize,
    /// Octets of `accepted` that may have left.
    released: usize,
    deadline: Option<Instant>,
    sealed: bool,
    failed: Option<StreamError>,
    now: Instant,
    /// The largest message so far, with its prefix.
    largest: usize,
}

impl Model {
    fn new(policy: FlushPolicy, high_water: usize) -> Self {
        Self {
            policy,
            high_water,
            accepted: Vec::new(),
            taken: 0,
            released: 0,
            deadline: None,
            sealed: false,
            failed: None,
            now: Instant::ZERO,
            largest: 0,
        }
    }

    fn apply(&mut self, buf: &mut CoalesceBuf, command: u8, argument: u16) {
        let len = usize::from(argument);
        match command % 10 {
            0..=2 => self.push(buf, len % 300, command & 0x80 != 0, true),
            3 => self.push(buf, len, command & 0x80 != 0, false),
            4 => assert_eq!(buf.flush(), self.flush()),
            5 => {
                assert_eq!(buf.seal(), self.flush());
                self.sealed |= self.failed.is_none();
            }
            6 if argument % 8 == 0 => {
                let errors = [StreamError::Cancelled, StreamError::Deadline, StreamError::Reset(ErrorCode::CANCEL)];
                let error = errors[len / 8 % 3];
                buf.fail(error);
                self.failed.get_or_insert(error);
            }
            6 => self.take(buf, len),
            7 => {
                self.now = self.now + Duration::from_nanos(u64::from(argument));
                buf.handle_timeout(self.now);
                if self.deadline.is_some_and(|at| at <= self.now) {
                    let _ = self.flush();
                }
            }
            8 => self.fail_to_encode(buf, len % 300, command & 0x80 != 0),
            _ => {
                let policy = policy(command / 10, len);
                buf.set_policy(policy);
                self.policy = policy;
                if self.failed.is_none() {
                    let _ = self.flush();
                }
            }
        }
    }

    fn push(&mut self, buf: &mut CoalesceBuf, len: usize, bare: bool, encodes: bool) {
        let start = self.accepted.len();
        let message: Vec<u8> = (0..len + CoalesceBuf::PREFIX).map(|i| ((start + i) % 251) as u8).collect();
        let (prefix, payload) = message.split_first_chunk().expect("longer than a prefix");
        let prefix = (!bare).then_some(*prefix);
        let expected = self.accepts();
        let pushed = if encodes {
            let fill = |dst: &mut bytes::BytesMut| {
                dst.put_slice(payload);
                Ok(())
            };
            buf.push_with(prefix, len, fill, self.now)
        } else {
            buf.push_bytes(prefix, Bytes::copy_from_slice(payload), self.now)
        };
        assert_eq!(pushed, expected);
        if pushed.is_ok() {
            let message = if bare { payload } else { &message };
            self.accepted.extend_from_slice(message);
            self.largest = self.largest.max(message.len());
            self.hold(message.len());
        }
    }

    /// A codec that fails, or lies about the length, leaves nothing behind.
    fn fail_to_encode(&mut self, buf: &mut CoalesceBuf, len: usize, lies: bool) {
        let expected = self.accepts();
        let fill = |dst: &mut bytes::BytesMut| {
            dst.put_bytes(0xee, len + usize::from(lies));
            if lies { Ok(()) } else { Err(CodecError::new("no")) }
        };
        let pushed = buf.push_with(Some([0xee; CoalesceBuf::PREFIX]), len, fill, self.now);
        match expected {
            Ok(()) => assert!(matches!(pushed, Err(SendError::Codec(_)))),
            refused => assert_eq!(pushed, refused),
        }
    }

    fn accepts(&self) -> Result<(), SendError> {
        match self.failed {
            Some(error) => Err(SendError::Failed(error)),
            None if self.sealed => Err(SendError::Sealed),
            None if self.len() >= self.high_water => Err(SendError::Blocked),
            None => Ok(()),
        }
    }

    /// `n` octets were accepted: may they leave?
    fn hold(&mut self, n: usize) {
        let (watermark, linger) = match self.policy {
            FlushPolicy::Coalesce { watermark, linger } => (watermark.min(self.high_water), linger),
            FlushPolicy::Immediate => (0, None),
        };
        let held = self.accepted.len() - self.released;
        if held >= watermark || self.len() >= self.high_water {
            let _ = self.flush();
        } else if held == n && n > 0 {
            self.deadline = linger.map(|linger| self.now + linger);
        }
    }

    fn flush(&mut self) -> Result<(), SendError> {
        if let Some(error) = self.failed {
            return Err(SendError::Failed(error));
        }
        self.released = self.accepted.len();
        self.deadline = None;
        Ok(())
    }

    fn take(&mut self, buf: &mut CoalesceBuf, max: usize) {
        let mut octets = Vec::new();
        let n = buf.take(max, |piece| octets.extend_from_slice(piece.as_ref()));
        let eligible = if self.failed.is_some() { 0 } else { self.released - self.taken };
        assert_eq!((n, octets.len()), (max.min(eligible), n));
        assert!(octets == self.accepted[self.taken..self.taken + n], "octets were lost, changed or reordered");
        self.taken += n;
    }

    fn len(&self) -> usize {
        self.accepted.len() - self.taken
    }

    fn compare(&self, buf: &CoalesceBuf) {
        if self.failed.is_some() {
            assert_eq!((buf.len(), buf.eligible(), buf.poll_timeout()), (0, 0, None));
            assert!(!buf.is_finished());
            return;
        }
        assert_eq!((buf.len(), buf.eligible()), (self.len(), self.released - self.taken));
        assert_eq!(buf.is_empty(), self.len() == 0);
        assert_eq!(buf.is_finished(), self.sealed && self.len() == 0);
        assert_eq!(buf.poll_timeout(), self.deadline);
        assert!(buf.len() < self.high_water + self.largest.max(1), "more than the bound is held");
        if let FlushPolicy::Coalesce { watermark, .. } = self.policy {
            assert!(
                buf.len() - buf.eligible() < watermark.min(self.high_water).max(1),
                "more than a watermark is held"
            );
        }
    }

    /// The end: everything that was accepted is taken, and nothing else.
    fn drain(&mut self, buf: &mut CoalesceBuf) {
        let sealed = buf.seal();
        assert_eq!(sealed, self.flush());
        self.sealed |= sealed.is_ok();
        while buf.eligible() > 0 {
            self.take(buf, 16 * 1024);
        }
        self.compare(buf);
        match self.failed {
            Some(_) => assert!(!buf.is_finished()),
            None => {
                assert!(buf.is_finished());
                assert_eq!(self.taken, self.accepted.len());
            }
        }
    }
}
