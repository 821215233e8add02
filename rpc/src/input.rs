//! The receive window that the drivers of a thread take turns to use.

use std::cell::Cell;
use std::fmt;
use std::mem;

use trirpc_core::buf::RecvBuf;

/// First size of a window, in bytes: the most that one read takes, until reads fill it.
const WINDOW: usize = 64 * 1024;

thread_local! {
    /// While no driver has it.
    static SHARED: Cell<Option<Box<RecvBuf>>> = const { Cell::new(None) };
}

/// What a driver has read and its connection has not consumed.
///
/// While the driver is polled, that is a window of its thread. Between polls it is the unread bytes alone, the
/// beginning of a frame at most: a connection that waits holds no window, and reads of many connections lie side by
/// side in the cache.
#[derive(Default)]
pub(crate) struct Input {
    /// From the first use in a poll until [`give_back`](Self::give_back).
    window: Option<Box<RecvBuf>>,
    /// What was unread when the window was given back.
    rest: Vec<u8>,
}

impl Input {
    /// The window, with what is unread at its front.
    pub(crate) fn window(&mut self) -> &mut RecvBuf {
        self.window.get_or_insert_with(|| {
            // A thread that is being torn down has none any more.
            let shared = SHARED.try_with(Cell::take).ok().flatten();
            let mut window = shared.unwrap_or_else(|| Box::new(RecvBuf::new(WINDOW)));
            window.extend(&mem::take(&mut self.rest));
            window
        })
    }

    /// Whether the connection has consumed everything, and lent nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.window.as_ref().map_or(self.rest.is_empty(), |window| window.is_empty() && !window.is_scattered())
    }

    /// Lets other drivers of the thread have the window.
    pub(crate) fn give_back(&mut self) {
        let Some(mut window) = self.window.take() else { return };
        self.rest = window.take_unread();
        let _ = SHARED.try_with(|shared| shared.set(Some(window)));
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("window", &self.window).field("rest", &self.rest.len()).finish()
    }
}
