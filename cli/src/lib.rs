//! The `tri` command, as a library: its services are what tests and peers call.
#![forbid(unsafe_code)]

mod args;
pub mod demo;
pub mod echo;
mod serve;
mod signal;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

use args::{Command, Refusal};

/// Exit code for a command line or an address that cannot be used.
const EXIT_USAGE: u8 = 2;

/// Runs one command line, program name first.
///
/// 0 is success, 1 a failure (for `tri demo` also one wrong line), 2 a command line that cannot be carried
/// out: a wrong argument, an address in use.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    match args::parse(args) {
        Ok(Command::Demo { json, dialects }) => {
            demo(if json { demo::Format::Json } else { demo::Format::Text }, &dialects)
        }
        Ok(Command::Serve { addr, config, fallback }) => {
            match smol::block_on(smol::spawn(serve::serve(addr, *config, fallback))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => failure(&error),
            }
        }
        Err(Refusal::Asked(text)) => match write!(io::stdout(), "{text}") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failure(&error),
        },
        Err(Refusal::Nothing(help)) => {
            let _ = write!(io::stderr(), "{help}");
            ExitCode::from(EXIT_USAGE)
        }
        Err(Refusal::Usage(text)) => usage(&text),
    }
}

fn demo(format: demo::Format, dialects: &[demo::Dialect]) -> ExitCode {
    let report = demo::Report::new(io::stdout(), format);
    match smol::block_on(demo::run(|echo| echo, dialects, report)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => failure(&error),
    }
}

/// What can be set right on the command line is a usage error.
fn failure(error: &io::Error) -> ExitCode {
    use io::ErrorKind;

    match error.kind() {
        ErrorKind::AddrInUse => usage(format_args!("{error} (choose another with --addr)")),
        ErrorKind::AddrNotAvailable | ErrorKind::InvalidInput => usage(error),
        _ => {
            complain(error);
            ExitCode::FAILURE
        }
    }
}

fn usage(message: impl fmt::Display) -> ExitCode {
    complain(message);
    ExitCode::from(EXIT_USAGE)
}

/// One line on standard error, if anybody reads it.
fn complain(message: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "tri: {message}");
}
