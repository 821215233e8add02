//! The `tri` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    trirpc_cli::run(std::env::args_os())
}
