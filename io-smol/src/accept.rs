//! What to do when `accept` fails: a pure decision.

use std::io;
use std::time::Duration;

/// Wait after the first failure for lack of a resource, doubling up to [`MAX_WAIT`].
const MIN_WAIT: Duration = Duration::from_millis(5);
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The answer to one failed `accept`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AcceptError {
    /// It concerns one connection, which is gone from the queue: accept the next one at once.
    Connection,
    /// The process or the system has run out of something. The connection is still in the queue and the
    /// listener still readable, so that without a wait the loop would spin.
    Exhausted(Duration),
    /// The listener is of no further use.
    Listener,
}

/// Counts failures for lack of a resource since the last success.
#[derive(Debug, Default)]
pub(crate) struct AcceptBackoff {
    failures: u32,
}

impl AcceptBackoff {
    pub(crate) fn accepted(&mut self) {
        self.failures = 0;
    }

    pub(crate) fn failed(&mut self, error: &io::Error) -> AcceptError {
        if is_exhaustion(error) {
            let wait = MIN_WAIT.saturating_mul(1 << self.failures.min(16)).min(MAX_WAIT);
            self.failures = self.failures.saturating_add(1);
            return AcceptError::Exhausted(wait);
        }
        if is_of_one_connection(error) { AcceptError::Connection } else { AcceptError::Listener }
    }
}

/// Linux hands errors of the new connection's network to `accept` (accept(2), "Error handling").
#[cfg(unix)]
fn is_of_one_connection(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let of_one_connection = [
        Errno::CONNABORTED,
        Errno::CONNRESET,
        Errno::INTR,
        Errno::PERM, // a firewall rule
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::NETDOWN,
        Errno::NETUNREACH,
        Errno::HOSTDOWN,
        Errno::HOSTUNREACH,
        Errno::TIMEDOUT,
    ];
    Errno::from_io_error(error).is_some_and(|errno| of_one_connection.contains(&errno))
}

#[cfg(unix)]
fn is_exhaustion(error: &io::Error) -> bool {
    use rustix::io::Errno;

    let exhaustion = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| exhaustion.contains(&errno))
}

#[cfg(not(unix))]
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind;

    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted | ErrorKind::TimedOut
    )
}

/// Without a list of the system's numbers: whatever is not known to end the listener.
#[cfg(not(unix))]
fn is_exhaustion(error: &io::Error) -> bool {
    !is_of_one_connection(error) && !matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::NotConnected)
}

#[cfg(all(test, unix))]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn a_lack_of_descriptors_waits_longer_each_time_up_to_a_second_and_starts_over_after_a_success() {
        let mut backoff = AcceptBackoff::default();
        let wait = |backoff: &mut AcceptBackoff| match backoff.failed(&Errno::MFILE.into()) {
            AcceptError::Exhausted(wait) => wait.as_millis(),
            other => panic!("{other:?}"),
        };
        let waits: Vec<_> = (0..10).map(|_| wait(&mut backoff)).collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        backoff.failures = u32::MAX;
        assert_eq!(wait(&mut backoff), 1000);
        backoff.accepted();
        assert_eq!(wait(&mut backoff), 5);
    }

    #[test]
    fn an_error_of_one_connection_costs_no_wait_and_one_of_the_listener_ends_it() {
        let mut backoff = AcceptBackoff::default();
        for errno in [Errno::CONNABORTED, Errno::PROTO, Errno::NETUNREACH, Errno::INTR] {
            assert_eq!(backoff.failed(&errno.into()), AcceptError::Connection, "{errno}");
        }
        for errno in [Errno::BADF, Errno::INVAL, Errno::NOTSOCK] {
            assert_eq!(backoff.failed(&errno.into()), AcceptError::Listener, "{errno}");
        }
    }
}
