//! Scripts by chance between a connection's application and a peer: one that knows the rules and breaks some, and the
//! `h2` crate. The fuzz targets hold the properties.

use quickcheck::{Gen, QuickCheck};
use trirpc_core::{Config, Side};
use trirpc_fuzz::memory::{Account, ByOwner, uncharged};
use trirpc_fuzz::{client_conn, cross_h2, server_conn};

#[global_allocator]
static ALLOCATOR: ByOwner = ByOwner;

/// What the targets hold of memory is worth something here: what is allocated at somebody's expense is theirs until it is
/// freed, whoever does, and whatever else is allocated is not.
#[test]
fn memory_is_counted_for_who_asked_for_it() {
    let (one, other) = (Account::new(), Account::new());
    assert!(one.is_counted() && one.held() == 0);
    let mut octets = one.charge(|| vec![0u8; 1000]);
    let apart = one.charge(|| uncharged(|| vec![0u8; 1 << 20]));
    assert_eq!((one.held(), one.peak()), (1000, 1000));
    octets.reserve_exact(2000);
    assert_eq!((one.held(), other.held()), (3000, 0), "it has grown, and is still theirs");
    other.charge(|| drop(octets));
    assert_eq!((one.held(), one.peak(), other.held()), (0, 3000, 0));
    drop(apart);
    one.assert_within(Side::Server, &Config::embedded(), 0);
    let _large = one.charge(|| vec![0u8; Config::embedded().memory_bound() + 2000]);
    let exceeded = std::panic::catch_unwind(|| one.assert_within(Side::Server, &Config::embedded(), 0));
    assert!(exceeded.is_err(), "more is held than may be");
}

/// h2:P1, h2:P3, h2:P4, h2:P5, h2:P6, h2:P7, h2:P8, h2:P9, h2:P11: a server between a client that knows HTTP/2 and handlers that
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
