//! The structure of the workspace, read from what is really built: which crate depends on which, what comes from
//! outside and under which licence, and which module of the core knows which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use trirpc_tests::sources::{assert_none, is_crates_io, read, root, rust_files};

/// Our crates, each with those of ours it may be built on. What is not listed fails: a new crate needs a line here.
const EDGES: &[(&str, &[&str])] = &[
    ("trirpc-core", &[]),
    ("trirpc-build", &[]),
    ("trirpc-rpc", &["trirpc-core"]),
    ("trirpc-proto", &["trirpc-core", "trirpc-rpc"]),
    ("trirpc-smol", &["trirpc-core", "trirpc-rpc"]),
    ("trirpc", &["trirpc-core", "trirpc-rpc", "trirpc-proto", "trirpc-smol"]),
    ("trirpc-cli", &["trirpc"]),
    ("trirpc-examples", &["trirpc"]),
    ("trirpc-meter", &[]),
    ("trirpc-bench", &["trirpc", "trirpc-meter"]),
    (
        "trirpc-tests",
        &[
            "trirpc",
            "trirpc-core",
            "trirpc-rpc",
            "trirpc-proto",
            "trirpc-smol",
            "trirpc-build",
            "trirpc-cli",
            "trirpc-fuzz",
        ],
    ),
    // Outside of the workspace; its plain functions are replayed by the tests.
    ("trirpc-fuzz", &["trirpc-core"]),
];

/// The generator is a build-dependency of any crate, or a dev-dependency where generated code is checked in.
const BUILD_TOOL: &str = "trirpc-build";

/// What the crates below the I/O layer may take from outside. The others are free to choose.
const FOREIGN: &[(&str, &[&str])] = &[
    ("trirpc-core", &["bytes", "httparse"]),
    ("trirpc-rpc", &["bytes", "futures-core", "futures-io"]),
    ("trirpc-proto", &["bytes", "prost", "prost-types", "miniz_oxide", "crc32fast"]),
];

/// Licences under which a dependency may come; one of an `OR` is enough.
const LICENCES: &[&str] = &[
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

struct Metadata(Value);

impl Metadata {
    fn read() -> Self {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked", "--manifest-path"])
            .arg(root().join("Cargo.toml"))
            .output()
            .expect("cargo can be started");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        Self(serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON"))
    }

    fn packages(&self) -> &[Value] {
        self.0["packages"].as_array().expect("packages")
    }

    fn members(&self) -> impl Iterator<Item = &Value> {
        // A package without a source is a path dependency: ours.
        self.packages().iter().filter(|package| package["source"].is_null())
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// Name and kind (`normal`, `build`, `dev`) of each declared dependency, optional ones included.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, &str)> {
    let list = package["dependencies"].as_array().expect("dependencies");
    list.iter().map(|d| (text(d, "name"), d["kind"].as_str().unwrap_or("normal")))
}

fn row<'a>(table: &'a [(&str, &'a [&'a str])], name: &str) -> Option<&'a [&'a str]> {
    table.iter().find(|(key, _)| *key == name).map(|(_, row)| *row)
}

#[test]
fn our_crates_depend_on_each_other_only_downwards() {
    let metadata = Metadata::read();
    let ours: BTreeSet<&str> = metadata.members().map(|package| text(package, "name")).collect();
    let mut violations = Vec::new();
    for package in metadata.members() {
        let name = text(package, "name");
        let Some(allowed) = row(EDGES, name) else {
            violations.push(format!("{name} is not in the table of crates"));
            continue;
        };
        for (dependency, kind) in dependencies(package).filter(|(dependency, _)| ours.contains(dependency)) {
            let tool = dependency == BUILD_TOOL && kind != "normal" && name != BUILD_TOOL;
            // A crate that is its own dev-dependency switches on features for its tests.
            let itself = dependency == name && kind == "dev";
            if !tool && !itself && !allowed.contains(&dependency) {
                violations.push(format!("{name} → {dependency} ({kind})"));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn crates_below_the_io_layer_take_nothing_else_from_outside() {
    let metadata = Metadata::read();
    let mut violations = Vec::new();
    for (name, allowed) in FOREIGN {
        let package = metadata.members().find(|package| text(package, "name") == *name).expect("a member");
        for (dependency, kind) in dependencies(package) {
            let ours = row(EDGES, dependency).is_some();
            if kind == "normal" && !ours && !allowed.contains(&dependency) {
                violations.push(format!("{name} → {dependency}"));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn every_dependency_comes_from_the_registry_under_a_listed_licence() {
    let mut violations = Vec::new();
    for package in Metadata::read().packages() {
        let (name, source) = (text(package, "name"), package["source"].as_str());
        if source.is_some_and(|source| !is_crates_io(source)) {
            violations.push(format!("{name} comes from {}", source.unwrap_or_default()));
        }
        let licence = text(package, "license");
        if !allowed_licence(licence) {
            violations.push(format!("{name} is under {licence:?}"));
        }
    }
    assert_none(&violations);
}

/// Understands SPDX as far as it occurs: `AND` binds tighter than `OR`, one level of parentheses, `/` for `OR`.
fn allowed_licence(expression: &str) -> bool {
    let listed = |term: &str| LICENCES.contains(&term.trim().trim_matches(['(', ')']));
    let any = |terms: &str| terms.replace('/', " OR ").split(" OR ").any(listed);
    if expression.contains('(') {
        // `(A OR B) AND C`: every factor must be satisfied.
        return expression.split(" AND ").all(any);
    }
    expression.replace('/', " OR ").split(" OR ").any(|term| term.split(" AND ").all(listed))
}

#[test]
fn licence_expressions_are_read_with_their_precedence() {
    for good in
        ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(MIT OR Apache-2.0) AND Unicode-3.0", "MIT AND BSD-3-Clause"]
    {
        assert!(allowed_licence(good), "{good}");
    }
    for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND GPL-3.0", "LGPL-2.1/GPL-3.0"] {
        assert!(!allowed_licence(bad), "{bad}");
    }
}

/// Modules of the core, each with those it may name. The base row lists what needs no permission.
const CORE_BASE: &[&str] = &["error", "sniff", "time", "encodings", "config", "event"];
const CORE_MODULES: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("sniff", &[]),
    ("time", &[]),
    ("encodings", &[]),
    ("config", &[]),
    ("event", &[]),
    ("stats", &[]),
    ("http", &[]),
    ("buf", &[]),
    ("hpack", &["http", "buf"]),
    ("call", &["http", "buf"]),
    ("http2", &["http", "hpack", "buf", "stats"]),
    ("connection", &["call", "http2", "http", "buf", "stats"]),
];

/// Words of a host or of one executor, which a pure machine cannot mean.
const NOT_IN_CORE: &[&str] =
    &["Waker", "Mutex", "RwLock", "Rc<", "SystemTime", "Instant::now", "thread::", "futures", "tracing::"];

#[test]
fn modules_of_the_core_know_only_what_lies_below_them() {
    let src = root().join("core/src");
    let exported = root_exports(&read(&src.join("lib.rs")));
    let mut violations = Vec::new();
    for file in rust_files(&src) {
        let relative = file.strip_prefix(&src).expect("below src");
        let module = module_of(relative);
        if module == "lib" {
            continue;
        }
        let Some(allowed) = row(CORE_MODULES, &module) else {
            violations.push(format!("{module} is not in the table of modules"));
            continue;
        };
        let code = without_comments(&read(&file));
        // `super::super::http2` leads out of a module as `crate::http2` does, unless the module has a child of that name.
        let children = child_modules(&src.join(&module));
        let is_outside = |name: &String| row(CORE_MODULES, name).is_some() && !children.contains(name);
        let named = paths_after("crate::", &code).into_iter();
        for name in named.chain(paths_after("super::", &code).into_iter().filter(is_outside)) {
            let target = exported.get(&name).unwrap_or(&name).as_str();
            if target != module && !allowed.contains(&target) && !CORE_BASE.contains(&target) {
                violations.push(format!("{} names {name}", relative.display()));
            }
        }
    }
    assert_none(&violations);
}

#[test]
fn the_core_names_no_clock_lock_waker_or_host() {
    let src = root().join("core/src");
    let mut violations = Vec::new();
    for file in rust_files(&src).into_iter().filter(|file| !is_test_file(file)) {
        let source = read(&file);
        let code = without_comments(source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default());
        for word in NOT_IN_CORE.iter().filter(|word| code.contains(**word)) {
            violations.push(format!("{} names {word}", file.display()));
        }
    }
    assert_none(&violations);
}

fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs")))
}

/// `call/status.rs` and `call.rs` are both of module `call`.
fn module_of(relative: &Path) -> String {
    let first = relative.components().next().expect("a file name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

fn without_comments(source: &str) -> String {
    source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Names of the files and folders of a module.
fn child_modules(folder: &Path) -> BTreeSet<String> {
    let files = if folder.is_dir() { rust_files(folder) } else { Vec::new() };
    files.into_iter().filter_map(|file| Some(module_of(file.strip_prefix(folder).ok()?))).collect()
}

/// The segment behind every `start` (`crate::`, `super::`), groups (`crate::{a, b::c}`) opened.
fn paths_after(start: &str, code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split(start).skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_heads(group)),
            None => names.extend(identifier(rest)),
        }
    }
    names
}

/// First segments of the members of a `{a, b::{c, d}, e as f}` group; `group` starts behind its brace.
fn group_heads(group: &str) -> Vec<String> {
    let (mut heads, mut depth, mut at_head) = (Vec::new(), 0usize, true);
    for (at, character) in group.char_indices() {
        match character {
            '}' if depth == 0 => break,
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => at_head = true,
            c if at_head && !c.is_whitespace() => {
                heads.extend(identifier(&group[at..]));
                at_head = false;
            }
            _ => {}
        }
    }
    heads
}

fn identifier(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text[..end].to_owned())
}

/// Items re-exported at the root, each with the module it is from: `crate::Config` means `crate::config`.
fn root_exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    let code = without_comments(lib);
    for rest in code.split("pub use ").skip(1) {
        let statement = rest.split(';').next().unwrap_or_default();
        let Some((module, items)) = statement.split_once("::") else { continue };
        let items = items.trim();
        let names = items.strip_prefix('{').map_or_else(|| identifier(items).into_iter().collect(), group_heads);
        exports.extend(names.into_iter().map(|name| (name, module.trim().to_owned())));
    }
    exports
}

#[test]
fn paths_are_found_in_groups_and_through_re_exports() {
    let code = without_comments("use crate::{a, b::{c, d}, Config};\nlet x = crate::e::f(); // crate::g\n");
    assert_eq!(paths_after("crate::", &code).into_iter().collect::<Vec<_>>(), ["Config", "a", "b", "e"]);
    let exports = root_exports("pub use config::{Config,\n ConfigError};\npub use time::Instant;");
    assert_eq!(exports["ConfigError"], "config");
    assert_eq!(exports["Instant"], "time");
}
