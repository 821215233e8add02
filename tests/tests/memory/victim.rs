//! Connections whose application does as little as it can.

use std::sync::Arc;
use std::time::Duration;

use trirpc_core::buf::{RecvBuf, Transmit};
use trirpc_core::call::CallKind;
use trirpc_core::{CallId, Client, Config, Connection, Endpoint, Event, HttpVersion, Instant, Role, Server};
use trirpc_tests::frames::{PREFACE, settings, settings_ack};

/// One end whose application never reads, and whose transport takes nothing when `writes` is false.
pub(crate) struct Victim<R: Role = Server> {
    pub(crate) conn: Box<Connection<R>>,
    pub(crate) input: RecvBuf,
    pub(crate) output: Transmit,
    pub(crate) writes: bool,
    pub(crate) closed: Option<String>,
    /// Of a server: calls that came.
    pub(crate) accepted: Vec<CallId>,
}

impl Victim {
    /// A server after the greetings.
    pub(crate) fn new(config: Config, writes: bool) -> Self {
        let mut victim = Self::fresh(config, writes);
        victim.take(&[PREFACE, &settings(&[]), &settings_ack()].concat());
        victim
    }

    /// A server that has heard nothing yet.
    pub(crate) fn fresh(config: Config, writes: bool) -> Self {
        let input = RecvBuf::from(&config);
        let conn = Box::new(Connection::<Server>::new(Arc::new(config), Some(HttpVersion::Http2), now()));
        Self { conn, input, output: Transmit::new(), writes, closed: None, accepted: Vec::new() }
    }

    /// Everything in full reads, a turn after each.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.read(bytes, |victim, event| {
            if event == Event::Incoming {
                while let Some(id) = victim.conn.accept() {
                    victim.conn.call(id).expect("a call").expect(CallKind::ClientStreaming, now());
                    victim.accepted.push(id);
                }
            }
        });
    }
}

impl Victim<Client> {
    /// A client that has heard nothing yet.
    pub(crate) fn client(config: Config) -> Self {
        let input = RecvBuf::from(&config);
        let endpoint = Endpoint::http("localhost");
        let conn = Connection::<Client>::new(Arc::new(config), endpoint, HttpVersion::Http2, now());
        let conn = Box::new(conn);
        Self { conn, input, output: Transmit::new(), writes: true, closed: None, accepted: Vec::new() }
    }

    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.read(bytes, |_, _| {});
    }
}

impl<R: Role> Victim<R> {
    fn read(&mut self, bytes: &[u8], mut on_event: impl FnMut(&mut Self, Event)) {
        let mut rest = bytes;
        while !rest.is_empty() && self.closed.is_none() && self.conn.wants_read() {
            let space = self.input.space();
            let n = space.len().min(rest.len());
            space[..n].copy_from_slice(&rest[..n]);
            self.input.commit(n);
            rest = &rest[n..];
            self.conn.handle_input(&mut self.input, now());
            while let Some(event) = self.conn.poll_event() {
                match event {
                    Event::Closed(error) => self.closed = Some(error.to_string()),
                    event => on_event(self, event),
                }
            }
            self.write();
        }
    }

    /// One turn of output.
    pub(crate) fn write(&mut self) {
        self.conn.poll_transmit(&mut self.output, now());
        if self.writes {
            self.output.advance(self.output.len());
        }
    }

    /// Everything that there is to be written, and that may be.
    pub(crate) fn write_to(&mut self, mut put: impl FnMut(&[u8])) {
        loop {
            let more = self.conn.poll_transmit(&mut self.output, now());
            self.output.chunks().for_each(&mut put);
            self.output.advance(self.output.len());
            if !more {
                break;
            }
        }
    }

    pub(crate) fn write_all(&mut self) {
        self.write_to(|_| {});
    }

    #[track_caller]
    pub(crate) fn is_fine(&self) {
        assert_eq!(self.closed, None);
    }
}

pub(crate) fn now() -> Instant {
    Instant::ZERO + Duration::from_secs(1000)
}
