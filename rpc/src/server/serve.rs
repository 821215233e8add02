//! One connection, served.

use std::sync::Arc;

use trirpc_core::{Config, Connection, Server};

use super::router::Router;
use super::task::ServerTask;
use crate::driver::Driver;
use crate::marker::MaybeSend;
use crate::session::{Dispatch, Served, ServerSession, Shared};
use crate::time::Time;
use crate::transport::Transport;

/// Serves the calls that come over `io`.
///
/// The driver does all the I/O: spawn it. The session shuts the connection down from outside.
///
/// A handler whose request is there is polled once by the driver. One that is done by then costs no task, and what all
/// of a turn have answered leaves with one write. One that waits becomes a task, given to `spawn`, which is called from
/// the driver with no lock held; so do all others while handlers of this connection take long, or always
/// ([`Router::inline_handlers`]).
pub fn serve_connection<T: Transport, Z: Time>(
    io: T,
    router: Arc<Router>,
    config: Arc<Config>,
    time: Z,
    spawn: impl FnMut(ServerTask) + MaybeSend + 'static,
) -> (ServerSession, Driver<T, Server, Z>) {
    let config = router.compressions().announce(config);
    let mut conn = Connection::<Server>::new(config, None, time.now());
    if let Some(is_plain) = router.is_plain() {
        conn.serve_plain(is_plain);
    }
    let served = Served::new(router, io.peer());
    let shared = Shared::new(conn, served.clone(), served.into(), time.clone());
    let driver = Driver::new(io, Arc::clone(&shared), Dispatch::new(spawn), time);
    (ServerSession::new(shared), driver)
}
