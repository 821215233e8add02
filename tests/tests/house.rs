//! Rules of the house that a machine can check.

use std::path::Path;
use std::process::{Command, Stdio};

use trirpc_tests::sources::{assert_none, files, is_crates_io, read, root, rust_files};

/// A file past this must be split.
const MAX_LINES: usize = 700;

/// Extensions of files that are written by hand.
const WRITTEN: &[&str] = &["rs", "py", "go", "java", "sh", "mjs", "js", "proto", "toml", "md"];

#[test]
fn no_file_of_ours_is_longer_than_its_limit() {
    let written = |path: &Path| WRITTEN.contains(&path.extension().unwrap_or_default().to_string_lossy().as_ref());
    let mut violations = Vec::new();
    for path in files(&root(), written) {
        let text = read(&path);
        let generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
        let lines = text.lines().count();
        if lines > MAX_LINES && !generated {
            violations.push(format!("{}: {lines} lines, at most {MAX_LINES}", path.display()));
        }
    }
    assert_none(&violations);
}

#[test]
fn unsafe_code_is_forbidden_where_peer_bytes_are_read() {
    let mut violations = Vec::new();
    for lib in ["core/src/lib.rs", "rpc/src/lib.rs", "proto/src/lib.rs"] {
        if !read(&root().join(lib)).contains("#![forbid(unsafe_code)]") {
            violations.push(format!("{lib} does not forbid unsafe code"));
        }
    }
    assert_none(&violations);
}

#[test]
fn every_published_crate_names_the_workspace_licence_and_rust_version() {
    let mut violations = Vec::new();
    for manifest in files(&root(), |path| path.ends_with("Cargo.toml")) {
        let text = read(&manifest);
        if !text.contains("[package]") || text.contains("publish = false") {
            continue;
        }
        for key in ["license.workspace = true", "rust-version.workspace = true", "[lints]\nworkspace = true"] {
            if !text.contains(key) {
                violations.push(format!("{} lacks `{key}`", manifest.display()));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn scripts_are_valid_shell() {
    let scripts =
        files(&root(), |path| path.extension().is_some_and(|extension| extension == "sh") || path.ends_with(".ci/run"));
    let runs = |program: &str| Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let mut checks: Vec<&[&str]> = Vec::new();
    if runs("bash") {
        checks.push(&["bash", "-n"]);
    }
    if runs("shellcheck") {
        checks.push(&["shellcheck", "--severity=warning"]);
    }
    let mut violations = Vec::new();
    for script in &scripts {
        let text = read(script);
        if !text.starts_with("#!") || !text.contains("\nset -eu") {
            violations.push(format!("{}: no interpreter line, or no `set -eu…`", script.display()));
        }
        for check in &checks {
            let output = Command::new(check[0]).args(&check[1..]).arg(script).output().expect("the checker starts");
            if !output.status.success() {
                let said = [output.stdout, output.stderr].concat();
                violations.push(format!("{}: {}", script.display(), String::from_utf8_lossy(&said)));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn every_lock_file_pins_registry_crates_only() {
    let mut violations = Vec::new();
    for lock in files(&root(), |path| path.ends_with("Cargo.lock")) {
        for source in read(&lock).lines().filter_map(|line| line.strip_prefix("source = ")) {
            if !is_crates_io(source.trim_matches('"')) {
                violations.push(format!("{}: {source}", lock.display()));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn every_library_opens_with_its_contract() {
    let mut violations = Vec::new();
    for file in rust_files(&root()).iter().filter(|file| file.ends_with("src/lib.rs")) {
        if !read(file).starts_with("//!") {
            violations.push(format!("{}: no crate documentation", file.display()));
        }
    }
    assert_none(&violations);
}
