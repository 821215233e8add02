//! `trirpc-bench`: server, load and cost gates.

mod args;

use std::process::ExitCode;

use trirpc_bench::gates::{self, Cell, Side};
use trirpc_bench::{load, serve};
use trirpc_meter::allocations::Counting;

use crate::args::Command;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let outcome = match args::parse() {
        Command::Serve { addr, io, cores, busy_poll, inlines, lends } => {
            serve::run(&addr, io, cores, busy_poll, inlines, lends).map(|()| true).map_err(|error| error.to_string())
        }
        Command::Load(load) => match load::run(&load) {
            Ok(report) => {
                println!("{report}");
                Ok(true)
            }
            Err(status) => Err(status.to_string()),
        },
        Command::Gates(gates) => gates.run().map_err(|error| error.to_string()),
        Command::Growth => gates::growth().map(|()| true).map_err(|error| error.to_string()),
        Command::Cell(cell) => run(&cell),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One cell, as it is run under a profiler, with what can be counted without one.
fn run(cell: &Cell) -> Result<bool, String> {
    let works = cell.run().map_err(|status| status.to_string())?;
    for (side, work) in Side::BOTH.into_iter().zip(works) {
        println!("{}: {work}", side.name());
    }
    Ok(true)
}
