//! Ctrl-C and its like.

use std::io;

#[cfg(not(unix))]
pub(crate) use none::Signals;
#[cfg(unix)]
pub(crate) use unix::Signals;

#[cfg(unix)]
mod unix {
    use std::process;

    use async_signal::{Signal, Signals as Stream};
    use smol::stream::StreamExt;

    use super::io;

    /// SIGINT and SIGTERM.
    #[derive(Debug)]
    pub(crate) struct Signals(Stream);

    impl Signals {
        pub(crate) fn new() -> io::Result<Self> {
            Stream::new([Signal::Int, Signal::Term]).map(Self)
        }

        /// Waits for one and names it.
        pub(crate) async fn next(&mut self) -> &'static str {
            match self.0.next().await {
                Some(Ok(Signal::Int)) => "interrupted",
                _ => "terminated",
            }
        }

        /// From now on a signal ends the process, by the exit code that shells give it.
        pub(crate) fn end_process_on_next(mut self) {
            let ends = async move {
                let number = match self.0.next().await {
                    Some(Ok(signal)) => signal as i32,
                    _ => Signal::Term as i32,
                };
                process::exit(128 + number);
            };
            smol::spawn(ends).detach();
        }
    }
}

/// Without signals the system ends the process.
#[cfg(not(unix))]
mod none {
    use super::io;

    #[derive(Debug)]
    pub(crate) struct Signals(());

    impl Signals {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self(()))
        }

        pub(crate) async fn next(&mut self) -> &'static str {
            std::future::pending().await
        }

        pub(crate) fn end_process_on_next(self) {}
    }
}
