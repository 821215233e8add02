//! Field lists by chance against a second reading of the rules; the fuzz target holds the reading.

use quickcheck::{Gen, QuickCheck};

/// h2:V1, h2:V2, h2:V3, h2:V4, h2:V5, h2:V6, h2:V7, h2:V8: what is malformed is refused, what is not is served, and the
/// connection lives.
#[test]
fn field_lists_are_judged_as_the_rules_are_written() {
    fn property(bytes: Vec<u8>) -> bool {
        // Mostly names and values that mean something.
        let small = |(at, byte): (usize, u8)| if at % 7 == 3 || byte > 250 { byte } else { byte % 40 };
        trirpc_fuzz::validate(&bytes.into_iter().enumerate().map(small).collect::<Vec<u8>>());
        true
    }
    QuickCheck::new().rng(Gen::new(60)).quickcheck(property as fn(Vec<u8>) -> bool);
}
