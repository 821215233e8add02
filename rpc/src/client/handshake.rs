//! One client connection over any transport.

use std::sync::Arc;

use trirpc_core::{Client, Config, Connection, Endpoint, HttpVersion};

use crate::compress::Compressions;
use crate::driver::Driver;
use crate::session::{ClientSession, Shared, Unwritten};
use crate::time::Time;
use crate::transport::Transport;

/// Starts a client connection over `io`.
///
/// Nothing is awaited: calls may be started at once and leave together with the connection preface. The
/// driver does all the I/O: spawn it. It ends when the last clone of the session is gone and its calls
/// have ended, or when the connection fails.
pub fn handshake<T: Transport, Z: Time>(
    io: T,
    config: Arc<Config>,
    endpoint: Endpoint,
    version: HttpVersion,
    time: Z,
) -> (ClientSession, Driver<T, Client, Z>) {
    // What a call offers comes with the call, and with what can inflate it.
    let config = Compressions::default().announce(config);
    let conn = Connection::<Client>::new(config, endpoint, version, time.now());
    let shared = Shared::new(conn, (), Unwritten::default(), time.clone());
    let driver = Driver::new(io, Arc::clone(&shared), (), time);
    (ClientSession::new(shared), driver)
}
