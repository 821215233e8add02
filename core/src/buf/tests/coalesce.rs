use alloc::vec::Vec;
use core::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use crate::buf::rope::Rope;
use crate::buf::{CoalesceBuf, FlushPolicy, Piece};
use crate::error::{CodecError, ErrorCode, SendError, StreamError};
use crate::time::Instant;

const NOW: Instant = Instant::ZERO;
/// What 128 bytes of payload are with their prefix.
const MESSAGE: usize = 133;
const HIGH_WATER: usize = 64 * 1024;

fn coalescing(watermark: usize) -> CoalesceBuf {
    CoalesceBuf::new(FlushPolicy::Coalesce { watermark, linger: None }, HIGH_WATER)
}

fn send(buf: &mut CoalesceBuf, len: usize) -> Result<(), SendError> {
    let fill = |dst: &mut BytesMut| {
        dst.put_bytes(b'x', len);
        Ok(())
    };
    buf.push_with(Some([0, 0, 0, 0, len as u8]), len, fill, NOW)
}

fn take(buf: &mut CoalesceBuf) -> Vec<u8> {
    let mut octets = Vec::new();
    buf.take(usize::MAX, |piece| octets.extend_from_slice(piece.as_ref()));
    octets
}

/// bg:W1, bg:W2, arch:C8: messages stay together below the watermark and leave together when one reaches it; less than
/// a watermark is held at any time.
#[test]
fn small_messages_leave_together_at_the_watermark() {
    let mut buf = CoalesceBuf::new(FlushPolicy::coalesce(None), HIGH_WATER);
    let reaching = FlushPolicy::WATERMARK.div_ceil(MESSAGE);
    for _ in 1..reaching {
        send(&mut buf, 128).unwrap();
        assert_eq!(buf.eligible(), 0);
        assert!(buf.len() < FlushPolicy::WATERMARK);
    }
    send(&mut buf, 128).unwrap();
    assert_eq!(buf.eligible(), reaching * MESSAGE);
    let mut pieces = 0;
    buf.take(usize::MAX, |_| pieces += 1);
    assert_eq!((buf.len(), pieces), (0, 3), "as many pieces as DATA frames of 16 KiB");
}

/// bg:W3, bg:W18, arch:C2: a large message is chained as it is, and lets go of the small one in front of it.
#[test]
fn a_large_message_is_not_copied_and_overtakes_nothing() {
    let large = Bytes::from(alloc::vec![7; 40_000]);
    let mut buf = coalescing(32 * 1024);
    send(&mut buf, 3).unwrap();
    buf.push_bytes(Some([0; 5]), large.clone(), NOW).unwrap();
    assert_eq!(buf.eligible(), 8 + 5 + 40_000);
    let mut pieces = Vec::new();
    buf.take(usize::MAX, |piece| match piece {
        Piece::Shared(octets) => pieces.push(octets),
        Piece::Copied(octets) => pieces.push(Bytes::copy_from_slice(octets)),
    });
    assert_eq!(&pieces[0][..], b"\0\0\0\0\x03xxx");
    assert_eq!(pieces.last().map(|piece| piece.as_ptr()), Some(large.as_ptr()), "the same memory");
}

/// bg:W4, bg:W5, bg:W6, bg:W21, arch:C6: the end is said once and for all, a flush of nothing does nothing, before the
/// end and behind it.
#[test]
fn sealing_and_flushing_again_change_nothing() {
    let mut buf = coalescing(1000);
    buf.flush().unwrap();
    assert_eq!((buf.len(), buf.eligible(), buf.is_finished()), (0, 0, false));
    send(&mut buf, 3).unwrap();
    for _ in 0..2 {
        buf.seal().unwrap();
        assert_eq!(send(&mut buf, 3), Err(SendError::Sealed));
        assert_eq!(buf.push_bytes(None, Bytes::from_static(b"x"), NOW), Err(SendError::Sealed));
        assert_eq!((buf.len(), buf.eligible(), buf.is_finished()), (8, 8, false));
    }
    assert_eq!(take(&mut buf).len(), 8);
    assert!(buf.is_finished());
    assert_eq!((buf.flush(), buf.seal()), (Ok(()), Ok(())));
    assert!(buf.is_finished() && buf.is_empty());
}

/// bg:W11, bg:W20, arch:C4: whatever is tried after a failure gets the first error.
#[test]
fn the_first_error_stays_on_every_exit() {
    let first = StreamError::Reset(ErrorCode::REFUSED_STREAM);
    for seals in [false, true] {
        let mut buf = coalescing(1000);
        send(&mut buf, 3).unwrap();
        if seals {
            buf.seal().unwrap();
        }
        buf.fail(first);
        buf.fail(StreamError::Deadline);
        for _ in 0..2 {
            assert_eq!(send(&mut buf, 3), Err(SendError::Failed(first)));
            assert_eq!(buf.push_bytes(None, Bytes::from_static(b"x"), NOW), Err(SendError::Failed(first)));
            assert_eq!(buf.flush(), Err(SendError::Failed(first)));
            assert_eq!(buf.seal(), Err(SendError::Failed(first)));
            assert!(take(&mut buf).is_empty() && !buf.is_finished());
        }
    }
}

/// bg:W17, arch:C8: a buffer takes one message beyond its high-water mark, and no more until something left.
#[test]
fn a_full_buffer_takes_nothing() {
    for policy in [FlushPolicy::Immediate, FlushPolicy::coalesce(None)] {
        let mut buf = CoalesceBuf::new(policy, 1000);
        while buf.len() < 1000 {
            send(&mut buf, 128).unwrap();
        }
        assert!(buf.len() < 1000 + MESSAGE);
        assert_eq!(send(&mut buf, 1), Err(SendError::Blocked));
        assert_eq!(buf.eligible(), buf.len(), "a full buffer holds nothing back");
        assert_eq!(buf.take(MESSAGE, |_| ()), MESSAGE);
        send(&mut buf, 1).unwrap();
    }
}

/// The oldest message decides how long the others linger with it; a flush starts over.
#[test]
fn nothing_lingers_longer_than_it_may() {
    let linger = Duration::from_millis(2);
    let at = |millis| NOW + Duration::from_millis(millis);
    let fill = |dst: &mut BytesMut| {
        dst.put_u8(1);
        Ok(())
    };
    let mut buf = CoalesceBuf::new(FlushPolicy::coalesce(Some(linger)), HIGH_WATER);
    assert_eq!(buf.poll_timeout(), None);
    for now in [at(0), at(1)] {
        buf.push_with(None, 1, fill, now).unwrap();
        assert_eq!(buf.poll_timeout(), Some(at(2)));
    }
    buf.handle_timeout(at(1));
    assert_eq!(buf.eligible(), 0);
    buf.handle_timeout(at(2));
    assert_eq!((buf.eligible(), buf.poll_timeout()), (2, None));
    buf.push_with(None, 1, fill, at(3)).unwrap();
    assert_eq!((buf.eligible(), buf.poll_timeout()), (2, Some(at(5))));
    buf.flush().unwrap();
    assert_eq!((buf.eligible(), buf.poll_timeout()), (3, None));
}

/// A codec that fails, lies or unwinds leaves what was there before it as it was.
#[test]
fn a_message_that_is_not_encoded_leaves_no_trace() {
    for policy in [FlushPolicy::Immediate, FlushPolicy::coalesce(None)] {
        let mut buf = CoalesceBuf::new(policy, HIGH_WATER);
        send(&mut buf, 3).unwrap();
        let fails = |dst: &mut BytesMut| {
            dst.put_u8(0);
            Err(CodecError::new("no"))
        };
        assert!(matches!(buf.push_with(Some([1; 5]), 2, fails, NOW), Err(SendError::Codec(_))));
        let lies = |dst: &mut BytesMut| {
            dst.put_u8(0);
            Ok(())
        };
        assert!(matches!(buf.push_with(Some([1; 5]), 2, lies, NOW), Err(SendError::Codec(_))));
        assert_eq!(buf.len(), 8);
        #[cfg(panic = "unwind")]
        {
            let unwinds = core::panic::AssertUnwindSafe(|| {
                let _ = buf.push_with(Some([1; 5]), 2, |_| panic!("a codec of the application"), NOW);
            });
            assert!(std::panic::catch_unwind(unwinds).is_err());
        }
        send(&mut buf, 1).unwrap();
        buf.seal().unwrap();
        assert_eq!(take(&mut buf), b"\0\0\0\0\x03xxx\0\0\0\0\x01x");
    }
}

/// A stream that is at rest costs no memory, unless it asked to hold messages back.
#[test]
fn an_empty_buffer_holds_no_memory() {
    let mut buf = CoalesceBuf::new(FlushPolicy::Immediate, HIGH_WATER);
    assert_eq!(buf.capacity(), 0);
    send(&mut buf, 128).unwrap();
    assert!((MESSAGE..=4096).contains(&buf.capacity()));
    take(&mut buf);
    assert_eq!(buf.capacity(), 0);
}

/// `h2:Q7`: cutting at any place keeps every octet in order, across prefixes and messages.
#[test]
fn a_rope_can_be_cut_anywhere() {
    let whole: Vec<u8> = (0..30).collect();
    for first in 0..=30 {
        for second in 0..=(30 - first) {
            let mut rope = Rope::default();
            rope.push(Some([0, 1, 2, 3, 4]), Bytes::from_iter(5..12));
            rope.push(None, Bytes::new());
            rope.push(Some([12, 13, 14, 15, 16]), Bytes::new());
            rope.push(None, Bytes::from_iter(17..30));
            assert_eq!(rope.len(), 30);
            let mut taken = Vec::new();
            for cut in [first, second, 30 - first - second] {
                rope.take(cut, &mut |piece| taken.extend_from_slice(piece.as_ref()));
                assert_eq!(rope.len(), 30 - taken.len());
            }
            assert_eq!(taken, whole, "cut {first} and {second}");
        }
    }
}

/// arch:C10: a frame ends where a piece of output ends, unless that makes it half of what it may be or less; it never ends
/// before it begins.
#[test]
fn a_frame_ends_where_a_piece_does() {
    let mut buf = CoalesceBuf::new(FlushPolicy::Immediate, HIGH_WATER);
    for len in [12_000, 12_000, 5_000] {
        buf.push_bytes(None, Bytes::from(alloc::vec![7; len]), NOW).unwrap();
    }
    for (max, expected) in [(16_384, 12_000), (23_999, 12_000), (24_001, 24_000), (29_000, 29_000)] {
        assert_eq!(buf.frame_len(max), expected);
    }
    for max in [0, 1, 2, 11_999, 24_000 * 2] {
        assert_eq!(buf.frame_len(max), max, "nothing ends there, or all of it fits");
    }
}

/// `h2:E5`: however small the messages are that were encoded elsewhere, those that wait take little more memory than
/// their octets, and not a handle each.
#[test]
fn small_messages_that_wait_lie_together() {
    let mut buf = CoalesceBuf::new(FlushPolicy::Immediate, HIGH_WATER);
    let mut messages = 0;
    while buf.push_bytes(Some([0; 5]), Bytes::from_static(b"x"), NOW).is_ok() {
        messages += 1;
    }
    assert_eq!(messages, HIGH_WATER.div_ceil(6));
    let mut pieces = 0;
    buf.take(usize::MAX, |_| pieces += 1);
    assert!(pieces < 10, "{pieces} pieces");
}
