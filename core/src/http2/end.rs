//! How a connection ends: gracefully, by a fault, by its timers, with its transport (RFC 9113 §5.4.1, §6.8).

use core::mem;
use core::time::Duration;

use crate::buf::Arena;
use crate::error::{ConnectionError, ErrorCode, GoAway, PeerMisbehaved, Timeout, TransportError};
use crate::http::hash;
use crate::http2::Side;
use crate::http2::connection::{Drain, Http2};
use crate::http2::frame::MAX_WINDOW;
use crate::http2::ping::{self, Probe};
use crate::time::Instant;

impl Http2 {
    /// The age at which this connection shuts down, if there is one: a tenth more or less than was asked for. Where there
    /// is no chance, the moment at which it began stands for it.
    pub(super) fn max_age(&self) -> Option<Duration> {
        let age = self.config.max_connection_age.filter(|_| self.side == Side::Server)?;
        let parts = hash(0, &self.now.as_nanos().to_le_bytes()) % 1024;
        Some((age - age / 10).saturating_add(age / 5 / 1024 * parts))
    }

    /// Begins a graceful end: no new streams, those that are open go on.
    ///
    /// A server first says GOAWAY with the highest possible id and probes with a PING, so that requests
    /// under way are still served; after the answer it names the last stream it accepted (§6.8).
    pub(crate) fn shutdown(&mut self, now: Instant) {
        self.tick(now);
        self.drain_within(self.config.drain_timeout);
    }

    /// Begins a graceful end that takes no longer than `limit`. One that has begun goes on, and ends sooner if that is less.
    fn drain_within(&mut self, limit: Option<Duration>) {
        if self.terminal.is_some() {
            return;
        }
        self.timers.clear(Timeout::Idle);
        self.timers.clear(Timeout::Age);
        self.drain_deadline = self.drain_deadline.into_iter().chain(limit.map(|limit| self.now + limit)).min();
        if self.drain == Drain::No {
            match self.side {
                Side::Client => self.drain_streams(),
                Side::Server => {
                    self.drain = Drain::RoundTrip;
                    self.write_goaway(MAX_WINDOW, ErrorCode::NO_ERROR, self.drain_text());
                    self.write_ping(ping::DRAIN, false);
                    self.arm(Timeout::Drain, Some(ping::DRAIN_ROUND_TRIP));
                }
            }
        }
        // The round trip has a limit of its own.
        let next = self.timers.get(Timeout::Drain).into_iter().chain(self.drain_deadline).min();
        if let Some(at) = next {
            self.timers.set(Timeout::Drain, at);
        }
    }

    /// What grpc-go's servers say of such ends, for whoever reads the logs of a client.
    fn drain_text(&self) -> &'static [u8] {
        match self.drain_reason {
            ConnectionError::Timeout(Timeout::Age) => b"max_age",
            ConnectionError::Timeout(Timeout::Idle) => b"max_idle",
            _ => b"",
        }
    }

    /// The second step of a graceful end.
    pub(super) fn drain_streams(&mut self) {
        self.drain = Drain::Streams;
        if self.side == Side::Server {
            self.write_goaway(self.max_peer_id, ErrorCode::NO_ERROR, self.drain_text());
        }
        match self.drain_deadline {
            Some(deadline) => self.timers.set(Timeout::Drain, deadline),
            None => self.timers.clear(Timeout::Drain),
        }
    }

    /// The peer goes away: the connection ends with its last stream.
    pub(super) fn drain_by_peer(&mut self, go_away: GoAway) {
        self.drain_reason = ConnectionError::PeerClosed(go_away);
        if self.drain == Drain::No {
            self.drain = Drain::Streams;
        }
    }

    /// What the peer's last GOAWAY said, if one came before the end.
    pub(crate) fn peer_go_away(&self) -> Option<&GoAway> {
        [Some(&self.drain_reason), self.terminal.as_ref()].into_iter().flatten().find_map(|reason| match reason {
            ConnectionError::PeerClosed(go_away) => Some(go_away),
            _ => None,
        })
    }

    /// Client: no new streams, without a word to the peer and without a limit for those that are open.
    pub(crate) fn retire(&mut self) {
        if self.terminal.is_none() && self.drain == Drain::No {
            self.timers.clear(Timeout::Idle);
            self.drain = Drain::Streams;
        }
    }

    /// Ends the connection at once, telling the peer `code`.
    pub(crate) fn abort(&mut self, code: ErrorCode, now: Instant) {
        self.tick(now);
        self.fail(ConnectionError::Aborted(code), code, "");
    }

    pub(crate) fn handle_eof(&mut self, now: Instant) {
        self.tick(now);
        let error = match (&self.drain_reason, self.drain) {
            (ConnectionError::PeerClosed(_), _) => self.drain_reason.clone(),
            (reason, Drain::RoundTrip | Drain::Streams) if !self.busy => reason.clone(),
            _ => ConnectionError::Transport(TransportError::Eof),
        };
        self.end(error);
    }

    pub(crate) fn handle_transport_error(&mut self, error: TransportError, now: Instant) {
        self.tick(now);
        self.end(ConnectionError::Transport(error));
        self.lose_output();
    }

    /// Ends the connection without a word.
    pub(crate) fn leave(&mut self, error: ConnectionError) {
        self.end(error);
        self.lose_output();
    }

    /// What is in the arena will not be handed out.
    pub(crate) fn lose_output(&mut self) {
        self.arena = Arena::new(0, 0);
        self.is_output_lost = true;
    }

    /// Fires what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        while let Some(timer) = self.timers.pop_expired(self.now) {
            match timer {
                Timeout::WriteStall => self.handed.suspect_stall(),
                Timeout::KeepAlive => self.probe(),
                Timeout::Drain if self.drain == Drain::RoundTrip => self.drain_streams(),
                Timeout::Drain => self.time_out(timer, ErrorCode::NO_ERROR),
                Timeout::Idle | Timeout::Age => self.retire_after(timer),
                Timeout::HeaderBlock => self.time_out(timer, ErrorCode::ENHANCE_YOUR_CALM),
                Timeout::Handshake | Timeout::Settings => self.time_out(timer, ErrorCode::SETTINGS_TIMEOUT),
            }
        }
        self.end_stalled_streams();
        self.end_lingers();
    }

    /// Nothing was wrong, but it is time to go.
    fn retire_after(&mut self, timer: Timeout) {
        if self.drain == Drain::No {
            self.drain_reason = ConnectionError::Timeout(timer);
        }
        let is_old = timer == Timeout::Age;
        self.drain_within(if is_old { self.config.max_connection_age_grace } else { self.config.drain_timeout });
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called; may be early, never late.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timer = self.timers.next().map(|(at, _)| at);
        timer.into_iter().chain(self.stalls.next()).chain(self.lingers.next()).min()
    }

    fn time_out(&mut self, timer: Timeout, code: ErrorCode) {
        let text = match timer {
            Timeout::Handshake => "no SETTINGS in time",
            Timeout::Settings => "SETTINGS not acknowledged in time",
            Timeout::HeaderBlock => "header block not completed in time",
            Timeout::KeepAlive => "PING not answered in time",
            _ => "",
        };
        self.fail(ConnectionError::Timeout(timer), code, text);
    }

    fn probe(&mut self) {
        match self.keepalive.on_timer(self.now, self.config.keepalive_timeout) {
            None => {}
            Some(Probe::Wait(at)) => self.timers.set(Timeout::KeepAlive, at),
            Some(Probe::Ping(payload, at)) => {
                self.write_ping(payload, false);
                if let Some(at) = at {
                    self.timers.set(Timeout::KeepAlive, at);
                }
            }
            Some(Probe::Dead) => self.time_out(Timeout::KeepAlive, ErrorCode::NO_ERROR),
        }
    }

    fn end_stalled_streams(&mut self) {
        let Some(timeout) = self.config.send_stall_timeout else { return };
        while let Some(key) = self.stalls.pop_expired(self.now) {
            let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.stall_watched) else { continue };
            stream.stall_watched = false;
            match stream.stalled_since.map(|since| since + timeout) {
                None => {}
                Some(due) if due > self.now => {
                    stream.stall_watched = true;
                    self.stalls.insert(due, key);
                }
                Some(_) => self.give_up(key, ErrorCode::CANCEL),
            }
        }
    }

    /// The peer broke a rule of the connection.
    pub(super) fn misbehaved(&mut self, fault: PeerMisbehaved) {
        self.fail(ConnectionError::Misbehaved(fault), fault.code, fault.detail);
    }

    /// GOAWAY, and the end. Only what is in the arena goes out any more.
    pub(super) fn fail(&mut self, error: ConnectionError, code: ErrorCode, debug: &str) {
        if self.terminal.is_none() {
            self.write_goaway(self.max_peer_id, code, debug.as_bytes());
            self.end(error);
        }
    }

    /// Nothing is read, queued or timed any more.
    pub(super) fn end(&mut self, error: ConnectionError) {
        if self.terminal.is_none() {
            self.terminal = Some(error);
            self.timers.clear_all();
            self.stalls.clear();
            self.lingers.clear();
        }
    }

    /// Ends a drain whose last stream is gone.
    pub(super) fn end_drain(&mut self) {
        if self.drain == Drain::Streams && !self.busy && self.terminal.is_none() {
            self.write_goaway(self.max_peer_id, ErrorCode::NO_ERROR, b"");
            let reason = mem::replace(&mut self.drain_reason, ConnectionError::Shutdown);
            self.end(reason);
        }
    }
}
