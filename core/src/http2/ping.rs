//! PING (RFC 9113 §6.7): keepalive, and the round trip in the middle of a graceful shutdown.

use core::time::Duration;

use crate::config::Config;
use crate::http2::bdp;
use crate::time::Instant;

/// Payload of keepalive PINGs.
const KEEPALIVE: [u8; 8] = *b"trialive";
/// Payload of the PING between the two GOAWAYs of a server's graceful shutdown.
pub(crate) const DRAIN: [u8; 8] = *b"tridrain";
/// How long that PING may take.
pub(crate) const DRAIN_ROUND_TRIP: Duration = Duration::from_secs(5);

/// May this be the payload of a PING that we sent?
pub(crate) fn is_ours(payload: [u8; 8]) -> bool {
    payload == KEEPALIVE || payload == DRAIN || payload == bdp::PAYLOAD
}

/// Probes a silent peer while streams are open.
///
/// Anything the peer sends counts as a sign of life, so a busy connection never pings: gRPC servers close
/// connections that do. At most one PING is outstanding.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    interval: Option<Duration>,
    last_read: Instant,
    probed_at: Option<Instant>,
}

/// What to do when the keepalive timer fires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probe {
    /// The peer was heard of: look again at this instant.
    Wait(Instant),
    /// Send a PING with this payload and look again at this instant, if ever.
    Ping([u8; 8], Option<Instant>),
    /// The peer is gone.
    Dead,
}

impl KeepAlive {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self { interval: config.keepalive_interval, last_read: now, probed_at: None }
    }

    /// The silence after which it probes; `None` if it does not.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.interval
    }

    /// Probes after a silence of `interval` from now on, if that is longer.
    pub(crate) fn slow_down(&mut self, interval: Duration) {
        self.interval = self.interval.map(|before| before.max(interval));
    }

    /// Octets arrived.
    pub(crate) fn on_read(&mut self, now: Instant) {
        self.last_read = now;
        self.probed_at = None;
    }

    /// When the timer is to fire from `now` on, if keepalive is on.
    pub(crate) fn start(&mut self, now: Instant) -> Option<Instant> {
        self.probed_at = None;
        self.interval.map(|interval| now + interval)
    }

    /// The timer fired; an answer has `timeout` to come.
    pub(crate) fn on_timer(&mut self, now: Instant, timeout: Option<Duration>) -> Option<Probe> {
        let interval = self.interval?;
        if self.probed_at.is_some() {
            return Some(Probe::Dead);
        }
        let due = self.last_read + interval;
        if due > now {
            return Some(Probe::Wait(due));
        }
        self.probed_at = Some(now);
        Some(Probe::Ping(KEEPALIVE, timeout.map(|timeout| now + timeout)))
    }
}
