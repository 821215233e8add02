//! One direction of a transport, in memory.

use std::collections::VecDeque;
use std::io::Read;
use std::time::Duration;

use trirpc_core::Instant;
use trirpc_core::buf::Transmit;

use crate::random::Random;

/// Into what reads the bytes of a pipe are cut.
#[derive(Clone, Debug)]
pub enum Chunks {
    /// As much as there is and fits.
    Whole,
    /// At most so many bytes at a time.
    AtMost(usize),
    /// One byte, a few, a part, or all, at random.
    Random(Random),
    /// Never beyond one of these offsets from the start of the stream, in rising order.
    CutAt(Vec<u64>),
}

/// Bytes on their way from one end to the other.
pub struct Pipe {
    chunks: Chunks,
    latency: Duration,
    /// Most bytes that one write takes.
    quota: usize,
    /// Most bytes on their way, as in a socket's buffers.
    capacity: usize,
    /// Each write with the instant at which it arrives.
    in_flight: VecDeque<(Instant, VecDeque<u8>)>,
    in_flight_bytes: usize,
    read: u64,
    writes: Vec<usize>,
    is_shut: bool,
}

impl Default for Pipe {
    fn default() -> Self {
        Self::new(Chunks::Whole)
    }
}

impl Pipe {
    /// A pipe without latency and limits.
    pub fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            latency: Duration::ZERO,
            quota: usize::MAX,
            capacity: usize::MAX,
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            read: 0,
            writes: Vec::new(),
            is_shut: false,
        }
    }

    /// Bytes arrive `latency` after they were written.
    #[must_use]
    pub fn with_latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// A write takes at most `quota` bytes: a short write, as sockets do it.
    #[must_use]
    pub fn with_quota(mut self, quota: usize) -> Self {
        self.quota = quota.max(1);
        self
    }

    /// At most `capacity` bytes are on their way: then writes take nothing, as on a full socket.
    #[must_use]
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity.max(1);
        self
    }

    /// Writes once: takes a prefix of `out`, acknowledges it, and returns the bytes.
    pub fn write(&mut self, out: &mut Transmit, now: Instant) -> Vec<u8> {
        let room = self.capacity.saturating_sub(self.in_flight_bytes).min(self.quota).min(out.len());
        let mut bytes = vec![0; room];
        let written = out.copy_to(&mut bytes);
        assert_eq!(written, room);
        out.advance(written);
        if written > 0 {
            self.writes.push(written);
            self.in_flight_bytes += written;
            self.in_flight.push_back((now + self.latency, bytes.iter().copied().collect()));
        }
        bytes
    }

    /// Reads once into `space`; 0 if nothing has arrived.
    pub fn read(&mut self, space: &mut [u8], now: Instant) -> usize {
        let arrived = self.in_flight.iter().take_while(|(at, _)| *at <= now).map(|(_, bytes)| bytes.len()).sum();
        let most = space.len().min(arrived);
        let n = match &mut self.chunks {
            _ if most == 0 => 0,
            Chunks::Whole => most,
            Chunks::AtMost(limit) => most.min(*limit),
            Chunks::Random(random) => match random.below(4) {
                0 => 1,
                1 => most.min(1 + random.below(16)),
                2 => 1 + random.below(most),
                _ => most,
            },
            Chunks::CutAt(offsets) => {
                let next = offsets.iter().find(|&&offset| offset > self.read);
                next.map_or(most, |&offset| most.min(usize::try_from(offset - self.read).unwrap_or(usize::MAX)))
            }
        };
        let mut filled = 0;
        while filled < n {
            let (_, bytes) = self.in_flight.front_mut().expect("counted above");
            filled += bytes.read(&mut space[filled..n]).expect("memory can be read");
            if bytes.is_empty() {
                self.in_flight.pop_front();
            }
        }
        self.read += n as u64;
        self.in_flight_bytes -= n;
        n
    }

    /// When the next bytes arrive that are not there yet.
    pub fn next_arrival(&self, now: Instant) -> Option<Instant> {
        self.in_flight.iter().map(|(at, _)| *at).find(|at| *at > now)
    }

    /// Whether a write would take nothing.
    pub fn is_full(&self) -> bool {
        self.in_flight_bytes >= self.capacity
    }

    /// Whether everything that was written was read.
    pub fn is_empty(&self) -> bool {
        self.in_flight_bytes == 0
    }

    /// The writer says that nothing follows.
    pub fn shut(&mut self) {
        self.is_shut = true;
    }

    /// Whether the reader is at the end.
    pub fn is_at_end(&self) -> bool {
        self.is_shut && self.is_empty()
    }

    /// The size of every write so far.
    pub fn writes(&self) -> &[usize] {
        &self.writes
    }
}
