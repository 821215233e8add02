//! The same bytes in any split have the same effect, and bytes that break the rules break nothing else.
//!
//! The fuzz targets hold the properties; here they meet peers that know the protocol well enough to get far.

use quickcheck::quickcheck;
use trirpc_fuzz::{client_bytes, server_bytes};
use trirpc_tests::generate;

quickcheck! {
    /// h2:P1, h2:P4, h2:P6, h2:P8, h2:P9: a server's events, output and error depend on the bytes alone; all it sends is
    /// legal; the end leaves nothing behind.
    fn a_server_takes_any_bytes_in_any_split(seed: u64, switches: u8, cuts: u8) -> bool {
        let input = [&[switches & !1, cuts][..], &generate::client_bytes(seed)].concat();
        server_bytes(&input);
        true
    }

    /// The same for a client and what servers send.
    fn a_client_takes_any_bytes_in_any_split(seed: u64, switches: u8, cuts: u8) -> bool {
        let input = [&[switches & !1, cuts][..], &generate::server_bytes(seed, &[1, 3, 5, 7])].concat();
        client_bytes(&input);
        true
    }
}
