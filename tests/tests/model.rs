//! Random operations on both sides of a connection against plain lists (see the model for what must hold).

use quickcheck::{Gen, QuickCheck};
use trirpc_tests::generate::Script;
use trirpc_tests::model;

/// arch:§17, h2:P2, h2:P6, h2:P9, h2:P10, h2:P11: scripts of up to 150 operations over networks that split, delay and take
/// short writes, with limits down to a window of nothing.
#[test]
fn connections_agree_with_plain_lists() {
    fn property(script: Script) -> bool {
        model::run(&script);
        true
    }
    QuickCheck::new().rng(Gen::new(150)).quickcheck(property as fn(Script) -> bool);
}
