//! Which handlers need no task.

use std::time::Duration;

/// Which handlers a connection polls itself, where it has read their request, before they become tasks.
///
/// A handler that is done after one poll costs no task, and what all handlers of a turn have answered leaves with one
/// write. Those that wait become tasks after it. But that poll holds up all calls of the connection, up to the handler's
/// first `await` that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InlineHandlers {
    /// None; each becomes a task unpolled. For handlers that block their thread, or wait for another call of the same
    /// client while they do so.
    Never,
    /// All, as long as [`QUANTUM`](Self::QUANTUM) of them in a row take no more than this by the server's clock.
    ///
    /// A connection that finds its handlers slower makes tasks of all for a while, and tries again one by one, more and
    /// more seldom. So handlers that compute for long run side by side on an executor of several threads, but for the
    /// first of them. Where a clock and a program do not go at the same speed, as under an emulator, so does the choice.
    Within(Duration),
    /// All, however long they take: for handlers that never compute for long.
    Always,
}

impl InlineHandlers {
    /// The time of [`Within`](Self::Within) that is the default: ten times what a task costs.
    pub const QUICK: Duration = Duration::from_micros(100);

    /// Handlers that are polled between two looks at the clock: so many may wait behind a slow one.
    pub const QUANTUM: u32 = 16;
}

impl Default for InlineHandlers {
    fn default() -> Self {
        Self::Within(Self::QUICK)
    }
}
