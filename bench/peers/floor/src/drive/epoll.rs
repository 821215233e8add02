//! By epoll, level-triggered, with nothing between: the floor of all.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::Input;
use crate::Machine;

/// Key of the listener; the others are places in the list of connections.
const LISTENER: u64 = u64::MAX;

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;

struct Connection<M> {
    socket: TcpStream,
    machine: M,
    input: Input,
    out: Vec<u8>,
    sent: usize,
    waits_to_write: bool,
}

/// Runs connections by one thread.
pub struct Loop<M> {
    epoll: Epoll,
    connections: Vec<Option<Connection<M>>>,
    listener: Option<TcpListener>,
}

impl<M: Machine> Loop<M> {
    /// A loop without connections, which accepts them from `listener`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(listener: Option<TcpListener>) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        if let Some(listener) = &listener {
            listener.set_nonblocking(true)?;
            epoll.add(listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
        }
        Ok(Self { epoll, connections: Vec::new(), listener })
    }

    /// Adds a connection and sends what it starts with.
    ///
    /// # Errors
    /// The socket's.
    pub fn add(&mut self, socket: TcpStream, mut machine: M) -> io::Result<()> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let at = self.connections.iter().position(Option::is_none).unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, at as u64))?;
        let mut out = Vec::new();
        machine.start(&mut out);
        let mut connection = Connection { socket, machine, input: Input::new(), out, sent: 0, waits_to_write: false };
        connection.write(&self.epoll, at)?;
        self.connections[at] = Some(connection);
        Ok(())
    }

    /// Runs for `time`, or for ever; a loop without a listener also ends when all connections are finished.
    ///
    /// # Errors
    /// The kernel's. A connection that fails is dropped.
    pub fn run(&mut self, time: Option<Duration>, mut accept: impl FnMut() -> M) -> io::Result<()> {
        let end = time.map(|time| Instant::now() + time);
        let mut events = [EpollEvent::empty(); EVENTS];
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(());
            }
            let timeout = left.map_or(EpollTimeout::NONE, |left| {
                EpollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(EpollTimeout::MAX)
            });
            let count = self.epoll.wait(&mut events, timeout)?;
            for event in &events[..count] {
                if event.data() == LISTENER {
                    while let Some(Ok((socket, _))) = self.listener.as_ref().map(TcpListener::accept) {
                        self.add(socket, accept())?;
                    }
                    continue;
                }
                let at = event.data() as usize;
                let Some(connection) = &mut self.connections[at] else { continue };
                if !connection.go_on(&self.epoll, at, event.events()).unwrap_or(false) {
                    self.connections[at] = None;
                    if self.listener.is_none() && self.connections.iter().all(Option::is_none) {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl<M: Machine> Connection<M> {
    /// Reads once and writes; whether the connection lives on.
    fn go_on(&mut self, epoll: &Epoll, at: usize, ready: EpollFlags) -> io::Result<bool> {
        if ready.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLHUP | EpollFlags::EPOLLERR) {
            match self.socket.read(self.input.room()) {
                Ok(0) => return Ok(false),
                Ok(length) => self.input.filled(length, &mut self.machine, &mut self.out),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        self.write(epoll, at)?;
        Ok(!(self.machine.is_finished() && self.out.is_empty()))
    }

    fn write(&mut self, epoll: &Epoll, at: usize) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(length) => self.sent += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return self.wait_to_write(epoll, at, true),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        self.wait_to_write(epoll, at, false)
    }

    fn wait_to_write(&mut self, epoll: &Epoll, at: usize, waits: bool) -> io::Result<()> {
        if self.waits_to_write != waits {
            self.waits_to_write = waits;
            let write = if waits { EpollFlags::EPOLLOUT } else { EpollFlags::empty() };
            epoll.modify(&self.socket, &mut EpollEvent::new(EpollFlags::EPOLLIN | write, at as u64))?;
        }
        Ok(())
    }
}
