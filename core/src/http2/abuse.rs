//! Budgets against peers that make us work for nothing (RFC 9113 §10.5).
//!
//! Most are buckets: a burst that an honest peer never empties, refilled by time and by useful work, so that a busy
//! connection may do more than an idle one. Two are judged by what else happens on the connection: resets that come
//! early count against the streams that ended otherwise, and refused streams against those that were accepted. Whatever
//! is exceeded ends the connection with ENHANCE_YOUR_CALM and a debug text of its own. The figures are fields of
//! [`Config`].
#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

use crate::config::Config;
use crate::error::{ErrorCode, PeerMisbehaved};
use crate::time::Instant;

const NANOS: u64 = 1_000_000_000;

/// A fault on a stream that a handler works on costs this many: more than the octets, it wastes the work.
pub(crate) const DISPATCHED: u64 = 5;

/// `burst` tokens, of which `per_second` come back in a second.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Billionths of a token.
    level: u64,
    at: Instant,
    burst: u32,
    per_second: u32,
}

impl Bucket {
    pub(crate) fn new(burst: u32, per_second: u32, now: Instant) -> Self {
        Self { level: u64::from(burst) * NANOS, at: now, burst, per_second }
    }

    /// Takes `n` tokens; false if there are not that many.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "between instants of which the later comes first there is no time"
    )]
    pub(crate) fn take(&mut self, n: u64, now: Instant) -> bool {
        let elapsed = u64::try_from((now - self.at).as_nanos()).unwrap_or(u64::MAX);
        self.at = self.at.max(now);
        self.give_nanos(elapsed.saturating_mul(self.per_second.into()));
        match self.level.checked_sub(n.saturating_mul(NANOS)) {
            Some(level) => {
                self.level = level;
                true
            }
            None => false,
        }
    }

    fn full(&self) -> u64 {
        u64::from(self.burst) * NANOS
    }

    pub(crate) fn is_full(&self) -> bool {
        self.level == self.full()
    }

    /// Was the last token taken, time apart?
    pub(crate) fn is_empty(&self) -> bool {
        self.level < NANOS
    }

    /// Gives `n` tokens back; never more than the burst are held.
    pub(crate) fn give(&mut self, n: u64) {
        self.give_nanos(n.saturating_mul(NANOS));
    }

    fn give_nanos(&mut self, nanotokens: u64) {
        self.level = self.level.saturating_add(nanotokens).min(self.full());
    }
}

/// The budgets of one connection.
#[derive(Debug)]
pub(crate) struct Abuse {
    stream_faults: Bucket,
    control: Bucket,
    peer_resets: Bucket,
    empty_data: Bucket,
    /// Early resets that are borne whatever else happens.
    early_resets: Bucket,
    /// Something was taken from the buckets that useful work fills, and they are not full again.
    is_drawn: bool,
    useful_data: u32,
    /// Control frames that a useful frame earns.
    earned: u32,
    /// Server: streams that were accepted. There are fewer ids than that has room for.
    accepted: u32,
    early: Early,
    refused: Refused,
}

/// Resets that come before there is an answer, and soon.
#[derive(Debug)]
struct Early {
    /// So many came.
    count: u32,
    /// Resets of any kind.
    resets: u32,
    /// Streams that had ended otherwise when the last reset came.
    ended: u32,
}

/// Streams that were refused since the last one was accepted.
#[derive(Debug)]
struct Refused {
    max: u32,
    streak: u32,
    /// How many streams had been accepted when the streak began.
    accepted: u32,
}

impl Abuse {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            stream_faults: Bucket::new(config.max_stream_faults, config.stream_faults_per_second, now),
            control: Bucket::new(config.max_control_frames, config.control_frames_per_second, now),
            peer_resets: Bucket::new(config.max_peer_resets, config.peer_resets_per_second, now),
            empty_data: Bucket::new(config.max_empty_data, config.empty_data_per_second, now),
            early_resets: Bucket::new(config.max_early_resets, config.early_resets_per_second, now),
            is_drawn: false,
            useful_data: config.useful_data,
            earned: config.control_frames_earned,
            accepted: 0,
            early: Early { count: 0, resets: 0, ended: 0 },
            refused: Refused { max: config.max_refused_streams, streak: 0, accepted: 0 },
        }
    }

    /// A fault that is answered, if at all, by resetting one stream. `weight` is 1, or [`DISPATCHED`].
    pub(crate) fn stream_fault(&mut self, weight: u64, now: Instant) -> Result<(), PeerMisbehaved> {
        calm(self.stream_faults.take(weight, now), "too many stream faults")
    }

    /// A frame that moves no message: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, GOAWAY, unknown types, late frames.
    /// `weight` is 1, or more when handling it takes time in proportion to something.
    pub(crate) fn control_frame(&mut self, weight: u64, now: Instant) -> Result<(), PeerMisbehaved> {
        self.is_drawn = true;
        calm(self.control.take(weight, now), "too many control frames")
    }

    /// A PING that we answer: a control frame. Too many are told in the words that make gRPC's clients probe less often.
    pub(crate) fn ping(&mut self, now: Instant) -> Result<(), PeerMisbehaved> {
        self.is_drawn = true;
        calm(self.control.take(1, now), "too_many_pings")
    }

    /// Server: a stream was accepted.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "once a stream, of which there are 2^30")]
    pub(crate) fn accepted(&mut self) {
        self.accepted += 1;
    }

    /// Server: how many streams were accepted so far.
    pub(crate) fn streams_accepted(&self) -> u32 {
        self.accepted
    }

    /// RST_STREAM of a live stream, which makes `closed` streams that were opened and are closed. `early` if there was
    /// no answer yet, and hardly time for one.
    ///
    /// Each stream that ends otherwise earns one reset: a busy client cancels more than an idle one.
    #[expect(clippy::arithmetic_side_effects, reason = "once a stream, of which there are 2^30")]
    pub(crate) fn peer_reset(&mut self, early: bool, closed: u32, now: Instant) -> Result<(), PeerMisbehaved> {
        self.early.resets += 1;
        let ended = closed.saturating_sub(self.early.resets);
        self.peer_resets.give(ended.saturating_sub(self.early.ended).into());
        self.early.ended = self.early.ended.max(ended);
        calm(self.peer_resets.take(1, now), "too many resets")?;
        if !early {
            return Ok(());
        }
        self.early.count += 1;
        let is_most = self.early.count > closed / 2;
        calm(self.early_resets.take(1, now) || !is_most, "too many streams reset early")
    }

    /// Server: a stream was refused, although the peer knows how many it may have open.
    pub(crate) fn refused(&mut self) -> Result<(), PeerMisbehaved> {
        let Refused { max, streak, accepted } = &mut self.refused;
        if *accepted != self.accepted {
            (*accepted, *streak) = (self.accepted, 0);
        }
        *streak = streak.saturating_add(1);
        calm(*streak <= *max, "too many streams refused in a row")
    }

    /// DATA without data and without END_STREAM.
    pub(crate) fn empty_data(&mut self, now: Instant) -> Result<(), PeerMisbehaved> {
        self.is_drawn = true;
        calm(self.empty_data.take(1, now), "too many empty DATA frames")
    }

    /// Does a DATA frame of `len` octets count as useful work?
    #[inline]
    pub(crate) fn is_useful(&self, len: usize, end: bool) -> bool {
        end || len >= self.useful_data as usize
    }

    /// A frame that moved a message, in either direction.
    #[inline]
    pub(crate) fn useful_frame(&mut self) {
        if self.is_drawn {
            self.give_back();
        }
    }

    #[inline(never)]
    fn give_back(&mut self) {
        self.control.give(self.earned.into());
        self.empty_data.give(1);
        self.is_drawn = !(self.control.is_full() && self.empty_data.is_full());
    }
}

fn calm(within: bool, detail: &'static str) -> Result<(), PeerMisbehaved> {
    if within { Ok(()) } else { Err(PeerMisbehaved { code: ErrorCode::ENHANCE_YOUR_CALM, detail }) }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    /// `arch:9`: a burst, then only what time gives back.
    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let start = Instant::from_nanos(5);
        let mut bucket = Bucket::new(20, 2, start);
        assert!((0..20).all(|_| bucket.take(1, start)));
        assert!(!bucket.take(1, start));
        assert!(!bucket.take(1, start + Duration::from_millis(499)));
        assert!(bucket.take(1, start + Duration::from_millis(500)));
        assert!(!bucket.take(1, start + Duration::from_millis(500)));
        let much_later = start + Duration::from_secs(1 << 40);
        assert!((0..20).all(|_| bucket.take(1, much_later)));
        assert!(!bucket.take(1, much_later), "never more than the burst");
    }

    /// `h2:P16`: time that stands still or goes back is harmless.
    #[test]
    fn time_going_back_refills_nothing() {
        let start = Instant::from_nanos(NANOS);
        let mut bucket = Bucket::new(1, 1, start);
        assert!(bucket.take(1, start));
        assert!(!bucket.take(1, Instant::ZERO));
        assert!(!bucket.take(1, start));
    }
}
