//! Gates: what a call costs, counted, beside what was recorded.
//!
//! Each [`Cell`] is run by itself for writes and allocations, and once for each side under callgrind for
//! instructions. No clock is read and there is one thread, so that the same program counts the same again, to the
//! last allocation and to less than an instruction a call.

mod baseline;
mod callgrind;
mod cell;
mod counted;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

pub use cell::{CELLS, Cell, GROWTH, Side, Work};

use baseline::Cost;
use callgrind::Profile;

/// What to do with what is counted.
#[derive(Clone, Debug)]
pub struct Gates {
    /// The recorded costs.
    pub baseline: PathBuf,
    /// Records anew instead of comparing.
    pub refresh: bool,
    /// Only cells whose name holds this.
    pub only: Option<String>,
    /// Prints so many functions of each cell and side, and all crates.
    pub profile: Option<usize>,
    /// Fails where there is no valgrind, in place of leaving instructions out.
    pub require_valgrind: bool,
}

impl Gates {
    /// Counts, prints, and compares or records. Whether all is within the limits.
    ///
    /// # Errors
    /// A cell cannot be run, or the baseline cannot be read or written.
    pub fn run(&self) -> io::Result<bool> {
        let has_valgrind = callgrind::is_installed();
        if !has_valgrind {
            let missing = "valgrind is not installed (Debian package `valgrind`)";
            if self.require_valgrind || self.refresh {
                return Err(io::Error::other(missing));
            }
            println!("{missing}: instructions are not counted");
        }
        let mut recorded = self.read()?;
        let toolchain = toolchain();
        let then = recorded["toolchain"].as_str().unwrap_or_default().to_owned();
        if !self.refresh && then != toolchain {
            println!("recorded with {then}, this is {toolchain}: instructions may differ for that reason alone");
        }
        let (mut failures, mut gains, mut counted) = (Vec::new(), Vec::new(), BTreeMap::new());
        println!(
            "{:37} {:6} {:>12} {:>8} {:>11} {:>9}  of",
            "cell", "side", "instructions", "writes", "allocations", "bytes"
        );
        for cell in CELLS.iter().filter(|cell| self.only.as_ref().is_none_or(|only| cell.name.contains(only))) {
            let work = cell.run_by(&std::env::current_exe()?)?;
            let profiles = if has_valgrind { callgrind::count_both(cell)?.map(Some) } else { [None, None] };
            for ((side, work), profile) in Side::BOTH.into_iter().zip(&work).zip(profiles) {
                let (units, unit) = cell.units();
                let cost = Cost::new(work, profile.as_ref(), units);
                println!("{}", row(cell.name, side, &cost, unit));
                if let (Some(lines), Some(profile)) = (self.profile, &profile) {
                    print!("{}", breakdown(profile, units, lines));
                }
                let name = format!("{}, {}", cell.name, side.name());
                if let Some(fast) = cell.fast_twin().and_then(|twin| counted.get(&(twin, side))) {
                    let excess = Cost::excess_over_general(fast, &cost);
                    failures.extend(excess.iter().map(|excess| format!("the fast path of {name}: {excess}")));
                }
                counted.insert((cell.name, side), cost.clone());
                let place = &mut recorded["cells"][cell.name][side.name()];
                if self.refresh {
                    *place = cost.to_json();
                    continue;
                }
                match Cost::from_json(place) {
                    None => failures.push(format!("{name}: nothing is recorded")),
                    Some(then) => {
                        failures.extend(cost.excess(&then).iter().map(|excess| format!("{name}: {excess}")));
                        gains.extend(cost.has_gained(&then).then_some(name));
                    }
                }
            }
        }
        if self.refresh {
            recorded["toolchain"] = json!(toolchain);
            fs::write(&self.baseline, format!("{recorded:#}\n"))?;
        }
        for name in &gains {
            println!("{name}: less than recorded; record it, so that it is kept");
        }
        for failure in &failures {
            println!("FAILED {failure}");
        }
        Ok(failures.is_empty())
    }

    fn read(&self) -> io::Result<Value> {
        match fs::read_to_string(&self.baseline) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if self.refresh && error.kind() == io::ErrorKind::NotFound => Ok(json!({})),
            Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", self.baseline.display()))),
        }
    }
}

/// Prints what a call costs each side with more and more streams open on its connection, a line of JSON a figure, and
/// the most growth beside the smallest number.
///
/// # Errors
/// A cell cannot be run, or there is no valgrind.
pub fn growth() -> io::Result<()> {
    let mut first: Option<[f64; 2]> = None;
    for cell in GROWTH {
        let (units, _) = cell.units();
        let instructions = callgrind::count_both(cell)?.map(|profile| profile.total as f64 / units as f64);
        let first = first.get_or_insert(instructions);
        for (at, side) in Side::BOTH.into_iter().enumerate() {
            let growth = instructions[at] / first[at];
            let name = format!("{}, {}", cell.name, side.name());
            println!("{}", json!({ "what": format!("instructions, {name}"), "value": instructions[at].round() }));
            println!("{}", json!({ "what": format!("growth, {name}"), "value": growth, "must": 1.1 }));
        }
    }
    // All but the last: what ten thousand take, a thousand show.
    if let Some(cell) = GROWTH.iter().rev().nth(1) {
        let heap = cell.heap_of_a_stream().map_err(|status| io::Error::other(status.to_string()))?;
        println!("{}", json!({ "what": "heap of an idle stream, both sides, call layer and handler", "value": heap }));
    }
    Ok(())
}

/// The compiler of the day, as it calls itself.
fn toolchain() -> String {
    let output = Command::new("rustc").arg("--version").output();
    output
        .map_or_else(|_| "an unknown compiler".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn row(cell: &str, side: Side, cost: &Cost, unit: &str) -> String {
    let instructions = cost.instructions.map_or_else(|| "-".to_owned(), |count| format!("{count:.0}"));
    let Cost { writes, allocations, allocated, .. } = cost;
    format!(
        "{cell:37} {:6} {instructions:>12} {writes:>8.3} {allocations:>11.2} {allocated:>9.0}  a {unit}",
        side.name()
    )
}

/// Instructions of one unit by crate and by function.
fn breakdown(profile: &Profile, units: u64, functions: usize) -> String {
    let mut text = String::new();
    let mut list = |title: &str, costs: &BTreeMap<String, u64>, most: usize| {
        let mut costs: Vec<_> = costs.iter().collect();
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(**cost));
        let _ = writeln!(text, "  by {title}");
        for (name, cost) in costs.into_iter().take(most) {
            let share = *cost as f64 / profile.total as f64 * 100.0;
            let _ = writeln!(text, "    {:>9.1} {share:>5.1} %  {name}", *cost as f64 / units as f64);
        }
    };
    list("crate and module of the source", &profile.crates(), usize::MAX);
    list("function, without its callees", &profile.functions, functions);
    list("function, with its callees", &profile.inclusive, functions);
    text
}
