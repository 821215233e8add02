//! Scripts by chance between a connection's application and a peer: one that knows the rules and breaks some, and the
//! `h2` crate. The fuzz targets hold the properties.

use quickcheck::{Gen, QuickCheck};
use trirpc_fuzz::{client_conn, cross_h2, server_conn};

/// h2:P1, h2:P4, h2:P5, h2:P6, h2:P7, h2:P8, h2:P9, h2:P11: a server between a client that knows HTTP/2 and handlers that
/// follow a script; each fault gets its verdict, and an honest client never gets one.
#[test]
fn a_server_is_right_about_a_client_that_knows_the_protocol() {
    fn property(script: Vec<u8>) -> bool {
        server_conn(&script);
        true
    }
    QuickCheck::new().rng(Gen::new(800)).quickcheck(property as fn(Vec<u8>) -> bool);
}

/// The same for a client and a server that knows HTTP/2.
#[test]
fn a_client_is_right_about_a_server_that_knows_the_protocol() {
    fn property(script: Vec<u8>) -> bool {
        client_conn(&script);
        true
    }
    QuickCheck::new().rng(Gen::new(800)).quickcheck(property as fn(Vec<u8>) -> bool);
}

/// h2:P6, h2:P10: with the `h2` crate on the other side, as client and as server, neither finds fault with the other, and
/// what nobody disturbed comes back as it was sent.
#[test]
fn we_and_the_h2_crate_finish_every_call_that_nobody_disturbs() {
    fn property(is_server: bool, script: Vec<u8>) -> bool {
        cross_h2(&[&[u8::from(is_server)][..], &script].concat());
        true
    }
    // However many are asked for of others: an oracle of large header lists reads them bit by bit.
    QuickCheck::new().tests(100).rng(Gen::new(300)).quickcheck(property as fn(bool, Vec<u8>) -> bool);
}
