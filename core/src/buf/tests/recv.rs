use alloc::vec::Vec;

use quickcheck::quickcheck;

use super::{Held, Pattern};
use crate::buf::RecvBuf;
use crate::config::Config;

/// Reads `bytes` as a transport would: as much as fits, as often as needed.
fn read(buf: &mut RecvBuf, bytes: &[u8]) {
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = buf.space();
        let n = space.len().min(rest.len());
        space[..n].copy_from_slice(&rest[..n]);
        buf.commit(n);
        rest = &rest[n..];
    }
}

quickcheck! {
    /// Any order of reads, copies, splits and skips shows the bytes of the model; a slice that was split
    /// off never changes, however often the window is used again (arch:U3).
    fn any_script_matches_a_queue_of_bytes(script: Vec<(u8, u16)>, window: u16) -> bool {
        let mut buf = RecvBuf::new(usize::from(window));
        let mut model = Vec::new();
        let mut held = Held::default();
        let mut pattern = Pattern(1);
        for (operation, size) in script {
            let size = usize::from(size) % 6000;
            match operation % 6 {
                0 => {
                    let bytes = pattern.next(size);
                    read(&mut buf, &bytes);
                    model.extend(bytes);
                }
                1 => {
                    let bytes = pattern.next(size % 3000);
                    buf.extend(&bytes);
                    model.extend(bytes);
                }
                2 => {
                    let n = size.min(model.len());
                    let slice = buf.split_to(n);
                    if !model.drain(..n).eq(slice.iter().copied()) {
                        return false;
                    }
                    held.hold(slice);
                }
                3 => {
                    let n = size.min(model.len());
                    buf.skip(n);
                    model.drain(..n);
                }
                4 => held.drop_oldest(size % 8),
                _ => buf.release_idle(),
            }
            let as_model = buf.data() == model && buf.len() == model.len() && buf.is_empty() == model.is_empty();
            if !as_model || buf.space().len() < 1024 {
                return false;
            }
        }
        held.are_intact()
    }
}

/// A bulk transfer gets windows of 16, 32, 64, 128 and 256 KiB, and never a larger one.
#[test]
fn windows_double_to_256_kib_while_reads_fill_them() {
    let mut buf = RecvBuf::new(16 * 1024);
    for expected in [16, 32, 64, 128, 256, 256, 256] {
        let size = buf.space().len();
        assert_eq!(size, expected * 1024);
        buf.commit(size);
        let _held = buf.split_to(size);
    }
}

#[test]
fn reads_that_leave_room_keep_the_window_small() {
    let mut buf = RecvBuf::new(16 * 1024);
    for _ in 0..1000 {
        assert!(buf.space().len() <= 16 * 1024);
        buf.commit(700);
        buf.skip(700);
    }
}

/// Without a holder the same memory serves for ever; with one, the next window is another.
#[test]
fn a_window_is_used_again_exactly_when_nobody_holds_a_slice_of_it() {
    let mut buf = RecvBuf::new(4 * 1024);
    let first = buf.space().as_ptr();
    for _ in 0..3 {
        buf.commit(3500);
        drop(buf.split_to(3500));
        assert_eq!(buf.space().as_ptr(), first);
    }
    buf.commit(3500);
    let held = buf.split_to(3500);
    assert_ne!(buf.space().as_ptr(), first);
    drop(held);
}

/// What is copied out leaves its room to the next read: after the window has grown, every read has nearly all of it.
#[test]
fn a_bulk_transfer_that_is_copied_out_stays_in_one_window() {
    let mut buf = RecvBuf::new(16 * 1024);
    for _ in 0..4 {
        let n = buf.space().len();
        buf.commit(n);
        buf.skip(n);
    }
    let (memory, len) = (buf.space().as_ptr(), buf.space().len());
    assert_eq!(len, 256 * 1024);
    buf.commit(len);
    for round in 0..100u8 {
        // The beginning of a frame is left over each time.
        buf.skip(buf.len() - 5);
        assert_eq!(buf.space().len(), len - 5);
        assert_eq!(buf.data().as_ptr(), memory, "the window is the same in round {round}");
        let n = buf.space().len();
        buf.space().fill(round);
        buf.commit(n);
        assert!(round == 0 || buf.data().starts_with(&[round - 1; 5]), "the rest moved with it");
    }
}

/// Splitting leaves little of a window; a transfer that fills it gets a whole one, and does not crawl on.
#[test]
fn reads_that_fill_the_rest_of_a_window_are_offered_a_whole_one() {
    let mut buf = RecvBuf::new(64 * 1024);
    buf.space();
    buf.commit(40 * 1024);
    drop(buf.split_to(40 * 1024));
    for expected in [24 * 1024, 64 * 1024, 128 * 1024] {
        let n = buf.space().len();
        assert_eq!(n, expected);
        buf.commit(n);
        buf.skip(n);
    }
}

/// Less than a quarter is not worth a read, unless a long rest would have to move with it.
#[test]
fn the_last_quarter_of_a_window_is_offered_only_behind_a_long_rest() {
    for (unread, expected) in [(0, 64 * 1024), (9, 64 * 1024 - 9), (5000, 4 * 1024)] {
        let mut buf = RecvBuf::new(64 * 1024);
        buf.space();
        buf.commit(60 * 1024);
        drop(buf.split_to(60 * 1024 - unread));
        assert_eq!(buf.space().len(), expected);
    }
}

/// A partial frame survives the change of windows and stays directly before the next read.
#[test]
fn the_unread_rest_moves_with_the_window() {
    for hold in [false, true] {
        let mut buf = RecvBuf::new(4 * 1024);
        buf.space()[..3500].fill(7);
        buf.commit(3500);
        let held = hold.then(|| buf.split_to(3491));
        if !hold {
            buf.skip(3491);
        }
        buf.space()[0] = 8;
        buf.commit(1);
        assert_eq!(buf.data(), [7, 7, 7, 7, 7, 7, 7, 7, 7, 8]);
        drop(held);
    }
}

/// Space is zeroed once a window, not once a read.
#[test]
fn a_short_read_leaves_the_rest_of_the_space_untouched() {
    let mut buf = RecvBuf::new(16 * 1024);
    buf.space().fill(9);
    buf.commit(1);
    assert!(buf.space().iter().all(|&byte| byte == 9));
}

#[test]
fn an_idle_buffer_holds_no_memory_but_keeps_what_is_unread() {
    let mut buf = RecvBuf::new(16 * 1024);
    buf.extend(b"partial");
    buf.release_idle();
    assert_eq!(buf.data(), b"partial");
    buf.skip(7);
    buf.release_idle();
    assert_eq!(buf.window.capacity(), 0);
    assert_eq!(buf.space().len(), 16 * 1024);
}

#[test]
#[should_panic(expected = "committed 16385 bytes of 16384")]
fn a_transport_that_claims_more_than_the_space_is_caught() {
    let mut buf = RecvBuf::new(16 * 1024);
    buf.space();
    buf.commit(16 * 1024 + 1);
}

/// `max_read`: windows grow while reads fill them, and no further than they may.
#[test]
fn windows_grow_up_to_the_limit() {
    for (config, sizes) in [
        (Config { max_read: 40 * 1024, ..Config::default() }, [16, 32, 40, 40]),
        (Config { max_read: 0, ..Config::default() }, [2, 2, 2, 2]),
        (Config::default(), [16, 32, 64, 128]),
    ] {
        let mut buf = RecvBuf::from(&config);
        for size in sizes {
            let space = buf.space().len();
            assert_eq!(space, size * 1024);
            buf.commit(space);
            buf.skip(space);
        }
    }
}
