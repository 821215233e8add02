use alloc::vec::Vec;
use core::time::Duration;

use quickcheck::quickcheck;

use super::{DeadlineQueue, Instant, TimerTable};
use crate::error::Timeout;

fn at(nanos: u8) -> Instant {
    Instant::from_nanos(u64::from(nanos))
}

quickcheck! {
    /// Against a sorted list: the first deadline is never late, deadlines pop in order of time and then
    /// of insertion, and the dead never outnumber the most that ever lived at once.
    fn deadlines_pop_in_order_and_the_dead_are_bounded(script: Vec<(u8, u8)>) -> bool {
        let mut queue = DeadlineQueue::new();
        let mut live: Vec<(Instant, usize)> = Vec::new();
        let mut peak = 0;
        for (key, (operation, time)) in script.into_iter().enumerate() {
            match operation % 4 {
                0 | 1 => {
                    queue.insert(at(time), key);
                    live.push((at(time), key));
                    peak = peak.max(live.len());
                }
                2 if !live.is_empty() => {
                    live.remove(usize::from(time) % live.len());
                    queue.note_dead(|key| live.iter().any(|&(_, live)| live == key));
                }
                _ => {
                    while let Some(key) = queue.pop_expired(at(time)) {
                        let first = live.iter().copied().min();
                        if live.iter().any(|&(_, live)| live == key) {
                            if first.map(|(_, first)| first) != Some(key) {
                                return false;
                            }
                            live.retain(|&(_, live)| live != key);
                        }
                    }
                    if live.iter().any(|&(due, _)| due <= at(time)) {
                        return false;
                    }
                }
            }
            let never_late = live.iter().all(|&(due, _)| queue.next().is_some_and(|next| next <= due));
            if !never_late || queue.len() > live.len() + peak {
                return false;
            }
        }
        true
    }
}

/// 10,000 calls with a deadline of an hour that end at once leave next to nothing behind.
#[test]
fn ended_calls_do_not_pile_up_deadlines() {
    let mut queue = DeadlineQueue::new();
    let hour = Instant::ZERO + Duration::from_secs(3600);
    for key in 0..10_000u32 {
        queue.insert(hour, key);
        queue.note_dead(|_| false);
    }
    assert!(queue.len() <= 1);
    queue.insert(hour, 0);
    queue.clear();
    assert_eq!(queue.next(), None);
}

#[test]
fn timers_fire_in_order_once_and_never_early() {
    let mut timers = TimerTable::default();
    assert_eq!(timers.next(), None);
    timers.set(Timeout::WriteStall, at(5));
    timers.set(Timeout::Handshake, at(9));
    timers.set(Timeout::Idle, at(7));
    timers.set(Timeout::Idle, at(6));
    assert_eq!(timers.get(Timeout::Idle), Some(at(6)));
    assert_eq!(timers.next(), Some((at(5), Timeout::WriteStall)));
    assert_eq!(timers.pop_expired(at(4)), None);
    assert_eq!(timers.pop_expired(at(5)), Some(Timeout::WriteStall));
    assert_eq!(timers.pop_expired(at(9)), Some(Timeout::Idle));
    timers.clear(Timeout::Handshake);
    assert_eq!(timers.pop_expired(at(9)), None);
    timers.set(Timeout::Drain, at(1));
    timers.clear_all();
    assert_eq!(timers.next(), None);
}

#[test]
fn instants_saturate_at_both_ends() {
    let end = Instant::from_nanos(u64::MAX);
    assert_eq!(end + Duration::from_secs(1), end);
    assert_eq!(Instant::ZERO + Duration::MAX, end);
    assert_eq!(Instant::ZERO - end, Duration::ZERO);
}

/// Ticks tell short spans, to a tick, also where they come round.
#[test]
fn ticks_tell_short_spans() {
    let round = Instant::from_nanos((1 << 52) - 1);
    for start in [Instant::ZERO, Instant::from_nanos(12_345_678_901), round] {
        for span in [Duration::ZERO, Duration::from_millis(2), Duration::from_secs(1), Duration::from_secs(86_400)] {
            let told = (start + span).since_ticks(start.ticks());
            assert!(told.abs_diff(span) <= Duration::from_nanos(1 << 20), "{start:?} {span:?} {told:?}");
        }
    }
}
