//! How a request of plain HTTP ends.

use trirpc_core::Server;

use super::{CallSeat, SessionRole};
use crate::server::HttpResponse;

impl CallSeat {
    /// Largest body that is received whole, in bytes.
    pub(crate) fn max_recv_message(&self) -> usize {
        self.shared().look(|state| state.conn.config().max_recv_message)
    }

    /// Answers a request of plain HTTP, unless it is over.
    pub(crate) fn respond_plain(&self, response: HttpResponse) {
        let slot = self.shared().with(|state, now| {
            let mut slot = state.slots.remove(self.key)?;
            Server::finished(&mut slot, &mut state.wakes);
            if let Some(call) = state.conn.call(slot.id) {
                // The client was told what is wrong with the response; one that is gone needs none.
                let _ = call.respond_plain(response.into_inner(), now);
            }
            Some(slot)
        });
        // With the lock released: wakers of others may be in it.
        drop(slot);
    }
}
