use alloc::vec;
use alloc::vec::Vec;

use bytes::Bytes;
use quickcheck::quickcheck;

use super::Pattern;
use crate::buf::Transmit;

quickcheck! {
    /// Any prefix may be acknowledged at any time, at and inside chunks; the rest is what the model has.
    fn any_script_matches_a_queue_of_bytes(script: Vec<(bool, u16)>) -> bool {
        let mut out = Transmit::new();
        let mut model = Vec::new();
        let mut pattern = Pattern(1);
        for (push, size) in script {
            let size = usize::from(size) % 1000;
            if push {
                let bytes = pattern.next(size);
                model.extend_from_slice(&bytes);
                out.push(Bytes::from(bytes));
            } else {
                let written = size.min(model.len());
                out.advance(written);
                model.drain(..written);
            }
            let mut copy = vec![0; size];
            let copied = out.copy_to(&mut copy);
            let as_model = out.len() == model.len()
                && out.is_empty() == model.is_empty()
                && out.chunks().collect::<Vec<_>>().concat() == model
                && out.chunks().all(|chunk| !chunk.is_empty())
                && copied == size.min(model.len())
                && copy[..copied] == model[..copied];
            if !as_model {
                return false;
            }
        }
        true
    }
}

/// A buffer goes back to its owner when its last byte was acknowledged, not earlier (bg:S4, arch:U3).
#[test]
fn a_chunk_is_given_back_with_its_last_byte() {
    let mut out = Transmit::new();
    let kept = Bytes::from(vec![1; 100]);
    out.push(kept.clone());
    out.advance(99);
    assert!(!kept.is_unique());
    out.advance(1);
    assert!(kept.is_unique());
}

#[test]
#[should_panic(expected = "4 bytes written of 3")]
fn a_transport_that_claims_bytes_it_never_got_is_caught() {
    let mut out = Transmit::new();
    out.push(Bytes::from_static(b"abc"));
    out.advance(4);
}
