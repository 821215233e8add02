use alloc::vec;
use alloc::vec::Vec;

use bytes::{Buf, Bytes};
use quickcheck::quickcheck;

use super::Pattern;
use crate::buf::MessageBuf;

fn message(chunk_sizes: &[u16]) -> (MessageBuf, Vec<u8>) {
    let mut message = MessageBuf::new(None);
    let mut model = Vec::new();
    let mut pattern = Pattern(1);
    for &size in chunk_sizes {
        let bytes = pattern.next(usize::from(size) % 2500);
        model.extend_from_slice(&bytes);
        message.push(Bytes::from(bytes));
    }
    (message, model)
}

quickcheck! {
    /// Every way of reading gives the bytes in order, wherever the chunks end, and an empty chunk is
    /// shown only at the end of the message (what `Buf` demands).
    fn any_way_of_reading_matches_a_vector(chunk_sizes: Vec<u16>, script: Vec<(u8, u16)>) -> bool {
        let (mut message, model) = message(&chunk_sizes);
        let mut model = &model[..];
        for (operation, size) in script {
            let n = (usize::from(size) % 4000).min(model.len());
            let expected;
            (expected, model) = model.split_at(n);
            let read = match operation % 3 {
                0 => message.copy_to_bytes(n).to_vec(),
                1 => {
                    let mut copy = vec![0; n];
                    message.copy_to_slice(&mut copy);
                    copy
                }
                _ => {
                    message.advance(n);
                    expected.to_vec()
                }
            };
            let as_model = read == expected
                && message.len() == model.len()
                && message.is_empty() == model.is_empty()
                && message.chunk().is_empty() == model.is_empty()
                && model.starts_with(message.chunk());
            if !as_model {
                return false;
            }
        }
        message.copy_to_bytes(model.len()) == model
    }
}

#[cfg(feature = "std")]
quickcheck! {
    /// A vectored view shows the message from its present start, as far as the slots go.
    fn a_vectored_view_shows_the_chunks_in_order(chunk_sizes: Vec<u16>, read: u16, slots: u8) -> bool {
        let (mut message, model) = message(&chunk_sizes);
        let read = usize::from(read).min(model.len());
        message.advance(read);
        let mut view = vec![std::io::IoSlice::new(&[]); usize::from(slots % 16)];
        let filled = message.chunks_vectored(&mut view);
        let shown: Vec<u8> = view[..filled].iter().flat_map(|slice| slice.iter().copied()).collect();
        let all = filled < view.len();
        view[..filled].iter().all(|slice| !slice.is_empty())
            && if all { model[read..] == shown } else { model[read..].starts_with(&shown) }
    }
}

/// A small field must not pin the receive window it came in; a large one must not be copied (bg:V3).
#[test]
fn fields_are_shared_from_1_kib_up_and_copied_below() {
    let window = Bytes::from(vec![5; 4096]);
    let inside = |field: &Bytes| window.as_ptr_range().contains(&field.as_ptr());
    let mut message = MessageBuf::from_bytes(window.clone());
    assert!(!inside(&message.copy_to_bytes(1023)));
    assert!(inside(&message.copy_to_bytes(1024)));
    let rest = message.copy_to_bytes(2049);
    assert!(inside(&rest));
    drop((message, rest));
    assert!(window.is_unique());
}

/// Who copies what it keeps is spared the other copy, and no chunk is put together for it (bg:V3).
#[test]
fn small_fields_are_shared_with_who_asks_for_it() {
    let window = Bytes::from(vec![5; 100]);
    let inside = |field: &Bytes| window.as_ptr_range().contains(&field.as_ptr());
    let mut message = MessageBuf::from_bytes(window.clone());
    message.push(window.slice(..10));
    assert!(!inside(&message.copy_to_bytes(1)));
    message.share_small();
    assert!(inside(&message.copy_to_bytes(1)));
    assert!(inside(&message.copy_to_bytes(98)));
    assert!(inside(&message.copy_to_bytes(10)), "the next chunk");
    assert!(message.is_empty());
}

/// A reader of a message in one piece takes a handle of its memory for what it shares, and for nothing else (bg:V3).
#[test]
fn what_lies_in_one_piece_is_lent_and_shared_as_the_message_itself_would_be() {
    let window = Bytes::from(vec![5; 4096]);
    let inside = |field: &Bytes| window.as_ptr_range().contains(&field.as_ptr());
    let mut message = MessageBuf::from_bytes(window.clone());
    message.advance(10);
    let mut octets = message.read_contiguous().expect("one chunk");
    assert_eq!((octets.remaining(), octets.chunk()), (4086, &[5; 4086][..]));
    assert!(!inside(&octets.copy_to_bytes(1023)));
    assert!(inside(&octets.copy_to_bytes(1024)));
    octets.share_small();
    assert!(inside(&octets.copy_to_bytes(1)));
    octets.advance(2000);
    assert_eq!((octets.len(), octets.octets()), (38, &[5; 38][..]));
    let rest = MessageBuf::from(octets);
    assert_eq!((rest.len(), rest.chunk()), (38, &[5; 38][..]));
    assert_eq!((message.len(), message.chunk()), (0, &[][..]));
    drop((message, rest));
    assert!(window.is_unique());

    let mut message: MessageBuf = [Bytes::from_static(b"one"), Bytes::from_static(b"two")].into_iter().collect();
    assert!(message.read_contiguous().is_none(), "two chunks");
    assert_eq!((message.len(), message.chunk()), (6, &b"one"[..]));
    message.advance(4);
    assert_eq!(message.read_contiguous().expect("the last").chunk(), b"wo");
}

/// Sharing a chunk to its last byte goes on with the next chunk.
#[test]
fn a_field_that_ends_with_its_chunk_is_followed_by_the_next_chunk() {
    let mut message = MessageBuf::new(None);
    message.push(Bytes::from(vec![1; 2048]));
    message.push(Bytes::from_static(b"next"));
    assert_eq!(message.copy_to_bytes(2048), vec![1; 2048]);
    assert_eq!(message.chunk(), b"next");
}

/// The end of a message shows its end, never bytes that were read before (bg:S5).
#[test]
fn a_message_that_was_read_is_empty_and_holds_no_memory() {
    let window = Bytes::from(vec![5; 4096]);
    let mut message = MessageBuf::from(window.clone());
    message.advance(4096);
    assert!(message.chunk().is_empty() && message.copy_to_bytes(0).is_empty());
    drop(message);
    let mut message = MessageBuf::new(Some("gzip"));
    message.push(window.slice(..2048));
    message.push(window.slice(2048..));
    message.advance(4096);
    assert!(message.is_compressed() && message.is_empty());
    assert!(window.is_unique(), "a chunk that was read is let go at once");
}

#[test]
#[should_panic(expected = "took 3 bytes of 2")]
fn reading_past_the_end_is_caught() {
    MessageBuf::from_bytes(Bytes::from_static(b"ab")).copy_to_bytes(3);
}
