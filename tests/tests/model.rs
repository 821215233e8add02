//! Random operations on both sides of a connection against plain lists (see the model for what must hold).

use quickcheck::{Gen, QuickCheck};
use trirpc_fuzz::e2e_sim;
use trirpc_fuzz::memory::ByOwner;

#[global_allocator]
static ALLOCATOR: ByOwner = ByOwner;

/// arch:§17, h2:P2, h2:P3, h2:P6, h2:P9, h2:P10, h2:P11: scripts of up to 200 operations over networks that split, delay and take
/// short writes, with limits down to a window of nothing.
#[test]
fn connections_agree_with_plain_lists() {
    fn property(script: Vec<u8>) -> bool {
        e2e_sim(&script);
        true
    }
    QuickCheck::new().rng(Gen::new(600)).quickcheck(property as fn(Vec<u8>) -> bool);
}
