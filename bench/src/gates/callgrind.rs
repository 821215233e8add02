//! Instructions by function, as callgrind counts them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use super::cell::{Cell, Side};

/// Whether valgrind can be started.
pub(super) fn is_installed() -> bool {
    Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Instructions of one run.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Profile {
    pub(super) total: u64,
    /// By the function of the machine code, whatever was inlined into it.
    pub(super) functions: BTreeMap<String, u64>,
    /// The same, with what they call. Of a function that calls itself, more than all.
    pub(super) inclusive: BTreeMap<String, u64>,
    /// By the file of the source, wherever it was inlined to.
    pub(super) files: BTreeMap<String, u64>,
}

/// Counts the instructions of both sides, the client's first, at the same time.
pub(super) fn count_both(cell: &Cell) -> io::Result<[Profile; 2]> {
    let [client, server] = Side::BOTH;
    thread::scope(|scope| {
        let other = scope.spawn(|| count(cell, client));
        let server = count(cell, server)?;
        let client = other.join().map_err(|_| io::Error::other("the counting of the client's side panicked"))??;
        Ok([client, server])
    })
}

/// Runs a cell in another process and counts one side's instructions.
fn count(cell: &Cell, side: Side) -> io::Result<Profile> {
    let out = env::temp_dir().join(format!("trirpc-gates-{}-{}", std::process::id(), side.name()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--compress-strings=no", "--compress-pos=no", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={}", side.counted_function()))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(env::current_exe()?)
        .args(["cell", cell.name])
        // `rep movsb` would count an instruction a byte, on some processors and not on others.
        .env(
            "GLIBC_TUNABLES",
            "glibc.cpu.x86_rep_movsb_threshold=2000000000:glibc.cpu.x86_rep_stosb_threshold=2000000000",
        )
        .output()?;
    let profile = fs::read_to_string(&out).map(|text| Profile::parse(&text));
    let _ = fs::remove_file(&out);
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    match profile? {
        profile if profile.total == 0 => {
            Err(io::Error::other("nothing was counted: the counted function was not found"))
        }
        profile => Ok(profile),
    }
}

impl Profile {
    /// Reads an output file whose names are written out.
    fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut file, mut function) = ("", String::new());
        let mut is_callee = false;
        for line in text.lines() {
            if let Some(("fl" | "fi" | "fe", name)) = line.split_once('=') {
                file = name;
            } else if let Some(name) = line.strip_prefix("fn=") {
                function = plain(name);
            } else if line.starts_with("calls=") {
                // The next line is what the callee cost, which is counted where the callee is.
                is_callee = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit()) {
                let cost = line.split_whitespace().nth(1).and_then(|cost| cost.parse().ok()).unwrap_or(0);
                *profile.inclusive.entry(function.clone()).or_default() += cost;
                if !is_callee && cost > 0 {
                    profile.total += cost;
                    *profile.functions.entry(function.clone()).or_default() += cost;
                    *profile.files.entry(file.to_owned()).or_default() += cost;
                }
                is_callee = false;
            }
        }
        profile
    }

    /// Instructions by crate, by the files they come from; modules of the core and of `rpc` apart.
    pub(super) fn crates(&self) -> BTreeMap<String, u64> {
        let mut crates = BTreeMap::new();
        for (file, cost) in &self.files {
            *crates.entry(crate_of(file)).or_default() += cost;
        }
        crates
    }
}

/// A name without the hash of its compilation and without the mark of a recursion.
fn plain(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((front, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => front.to_owned(),
        _ => name.to_owned(),
    }
}

fn crate_of(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_string_lossy).unwrap_or_default();
    let ours = file.strip_prefix(&*root).unwrap_or(file).trim_start_matches('/');
    if let Some((_, rest)) = file.split_once("/registry/src/") {
        let folder = rest.split('/').nth(1).unwrap_or_default();
        return folder.rsplit_once('-').map_or(folder, |(name, _)| name).to_owned();
    }
    if file.contains("/library/") {
        return "std".to_owned();
    }
    match ours.split_once("/src/") {
        Some((name @ ("core" | "rpc"), rest)) => {
            let module = rest.split('/').next().unwrap_or_default().trim_end_matches(".rs");
            format!("trirpc-{name} {module}")
        }
        Some((name @ ("proto" | "bench" | "io-smol" | "trirpc"), _)) => format!("trirpc {name}"),
        _ if file.contains("/out/") => "generated code".to_owned(),
        _ => "libc".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
version: 1
events: Ir
fl=/rustc/0123/library/core/src/ptr.rs
fn=a::outer::h0123456789abcdef
10 5
fi=/home/me/registry/src/index/bytes-1.2.3/src/lib.rs
12 7
cfi=./malloc.c
cfn=malloc
calls=3 20
12 900
fe=/rustc/0123/library/core/src/ptr.rs
13 1

fl=./malloc.c
fn=malloc'2
20 900
totals: 913
";

    #[test]
    fn costs_are_those_of_the_function_itself_and_of_the_file_it_was_inlined_from() {
        let profile = Profile::parse(OUTPUT);
        assert_eq!(profile.total, 913);
        assert_eq!(profile.functions, BTreeMap::from([("a::outer".to_owned(), 13), ("malloc".to_owned(), 900)]));
        assert_eq!(profile.inclusive["a::outer"], 913);
        let crates = [("bytes", 7), ("libc", 900), ("std", 6)].map(|(name, cost)| (name.to_owned(), cost));
        assert_eq!(profile.crates(), BTreeMap::from(crates));
    }

    #[test]
    fn files_of_ours_are_named_by_crate_and_module() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
        for (file, name) in [
            ("core/src/http2/send.rs", "trirpc-core http2"),
            ("rpc/src/driver.rs", "trirpc-rpc driver"),
            ("proto/src/prost_codec.rs", "trirpc proto"),
        ] {
            assert_eq!(crate_of(file), name);
            assert_eq!(crate_of(&root.join(file).to_string_lossy()), name);
        }
    }
}
