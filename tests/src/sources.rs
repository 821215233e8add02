//! The project's own files, for tests about them.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the workspace").to_path_buf()
}

/// Every file below `dir` for which `wanted` holds, without build output, installed packages and hidden folders but
/// `.ci`; sorted, so that messages are stable.
pub fn files(dir: &Path, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(dir, &wanted, &mut found);
    found.sort();
    found
}

fn walk(dir: &Path, wanted: &dyn Fn(&Path) -> bool, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display())) {
        let path = entry.expect("readable entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let foreign = matches!(name.as_str(), "target" | "node_modules" | "__pycache__");
        let hidden = name.starts_with('.') && name != ".ci";
        if path.is_dir() && !foreign && !hidden {
            walk(&path, wanted, found);
        } else if path.is_file() && wanted(&path) {
            found.push(path);
        }
    }
}

/// Every Rust file below `dir`.
pub fn rust_files(dir: &Path) -> Vec<PathBuf> {
    files(dir, |path| path.extension().is_some_and(|extension| extension == "rs"))
}

/// The text of a file.
///
/// # Panics
/// If it cannot be read.
pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with all violations in one message, so that one run is enough to see them.
///
/// # Panics
/// If there is a violation.
#[track_caller]
pub fn assert_none(violations: &[String]) {
    assert!(violations.is_empty(), "\n  {}\n", violations.join("\n  "));
}

/// Whether `source` is cargo's own registry, as lock files and `cargo metadata` name it: no git, no path, no other.
pub fn is_crates_io(source: &str) -> bool {
    source.starts_with("registry+https://") && source.ends_with("/crates.io-index")
}
