//! Sockets for a [`Machine`](crate::Machine): a read, what it calls for, a write.

pub mod epoll;
pub mod smol;

use std::time::Instant;

use crate::Machine;

/// Room for a read: a socket's worth.
const READ: usize = 64 << 10;

/// What was read and not yet taken.
struct Input {
    buffer: Vec<u8>,
    filled: usize,
}

impl Input {
    fn new() -> Self {
        Self { buffer: vec![0; READ], filled: 0 }
    }

    /// Where the next read goes.
    fn room(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// Hands on what is there after `length` more octets were read.
    fn filled(&mut self, length: usize, machine: &mut impl Machine, out: &mut Vec<u8>) {
        self.filled += length;
        let taken = machine.feed(&self.buffer[..self.filled], Instant::now(), out);
        self.buffer.copy_within(taken..self.filled, 0);
        self.filled -= taken;
    }
}
