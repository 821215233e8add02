//! The generated text, compared with what is checked in: the messages and services of trirpc-proto, and a
//! schema of difficult names under `golden/`. That both compile is tested there, where the names are.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use trirpc_build::Config;

/// Set to anything, it makes the tests write the files instead of comparing them.
const REGENERATE: &str = "TRIRPC_REGENERATE";

/// A directory of this package, or of the one that it lies in.
fn directory(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The schema of difficult names, in fresh files.
fn generated(config: Config) -> BTreeMap<String, String> {
    let out = tempfile::tempdir().expect("a temporary directory");
    let protos = ["hygiene/v1/thing.proto", "no_package.proto"];
    generate(config, &protos, "tests/idl", out.path());
    files(out.path())
}

fn generate(config: Config, protos: &[&str], idl: &str, out: &Path) {
    config.out_dir(out).compile(protos, &[directory(idl)]).unwrap_or_else(|error| panic!("{error}"));
}

fn files(directory: &Path) -> BTreeMap<String, String> {
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    fs::read_dir(directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (name(&path), fs::read_to_string(&path).expect("text")))
        .collect()
}

/// Compares `checked_in` with what the generator makes now, or refreshes it.
#[track_caller]
fn assert_fresh(config: Config, protos: &[&str], idl: &str, checked_in: &str) {
    let checked_in = directory(checked_in);
    if std::env::var_os(REGENERATE).is_some() {
        return generate(config, protos, idl, &checked_in);
    }
    let out = tempfile::tempdir().expect("a temporary directory");
    generate(config, protos, idl, out.path());
    let (fresh, old) = (files(out.path()), files(&checked_in));
    let refresh = format!("refresh with `{REGENERATE}=1 cargo test -p trirpc-build --test golden` and read the diff");
    assert!(fresh.keys().eq(old.keys()), "{:?} should be {:?}; {refresh}", old.keys(), fresh.keys());
    for (name, text) in &fresh {
        let line = text.lines().zip(old[name].lines()).take_while(|(new, old)| new == old).count() + 1;
        assert!(*text == old[name], "{}:{line} is out of date; {refresh}", checked_in.join(name).display());
    }
}

#[test]
fn messages_and_services_of_trirpc_proto_are_what_the_generator_makes_of_the_idl() {
    let protos = [
        "google/rpc/error_details.proto",
        "google/rpc/status.proto",
        "grpc/health/v1/health.proto",
        "trirpc/test/v1/echo.proto",
    ];
    let config = trirpc_build::configure().root("crate::codegen").stub_attribute("#[cfg(feature = \"stubs\")]");
    assert_fresh(config, &protos, "../idl", "../src/generated");
}

#[test]
fn difficult_names_give_the_text_that_was_reviewed() {
    let config = trirpc_build::configure().root("::trirpc_proto::codegen").include_file("mod.rs");
    assert_fresh(config, &["hygiene/v1/thing.proto", "no_package.proto"], "tests/idl", "tests/golden");
}

/// The same schema for messages that own their bytes: fields of text and bytes are named to the codec, unless their name or
/// their place is a difficult one.
#[test]
fn fields_that_are_read_without_prost_give_the_text_that_was_reviewed() {
    let config = trirpc_build::configure().root("::trirpc_proto::codegen").include_file("mod.rs");
    let config = config.build_client(false).build_server(false).bytes([""; 0]);
    assert_fresh(config, &["hygiene/v1/thing.proto", "no_package.proto"], "tests/idl", "tests/golden_owned");
}

#[test]
fn the_same_input_gives_the_same_text() {
    let first = generated(trirpc_build::configure());
    for _ in 0..3 {
        assert_eq!(generated(trirpc_build::configure()), first);
    }
}

#[test]
fn what_is_left_out_by_option_is_not_there() {
    let thing = |config: Config| generated(config).remove("hygiene.v1.rs").expect("the file of the package");
    let parts = ["struct Thing ", "mod thing_method ", "mod thing_client ", "mod thing_server "];
    for (config, expected) in [
        (trirpc_build::configure(), [true, true, true, true]),
        (trirpc_build::configure().build_client(false), [true, true, false, true]),
        (trirpc_build::configure().build_server(false), [true, true, true, false]),
        (trirpc_build::configure().build_client(false).build_server(false), [true, true, false, false]),
        (trirpc_build::configure().messages_only(), [true, false, false, false]),
    ] {
        let text = thing(config);
        assert_eq!(parts.map(|part| text.contains(part)), expected);
    }
    assert!(thing(trirpc_build::configure().root("::other")).contains("::other::prost::Message"));
    let own = trirpc_build::configure().bytes([""; 0]).btree_map([""; 0]);
    let text = thing(own);
    assert!(text.contains("Vec<u8>") && text.contains("::std::collections::HashMap"), "{text}");
    // Who keeps no `Bytes` need not have fields copied for it; but a type from elsewhere might.
    let owns = |config: Config| thing(config).contains("::ProstOwned::");
    assert!(text.contains("::ProstOwned::") && !text.contains("::Prost::codecs()"), "{text}");
    assert!(!owns(trirpc_build::configure()));
    assert!(!owns(trirpc_build::configure().bytes([".hygiene.v1.thing"])));
    assert!(!owns(trirpc_build::configure().bytes([""; 0]).extern_path(".hygiene.v1.nested", "::elsewhere::nested")));
}

#[test]
fn generated_code_names_everything_by_its_full_path() {
    for text in generated(trirpc_build::configure()).values() {
        assert!(!text.lines().any(|line| line.trim_start().starts_with("use ")), "a `use`");
    }
}

#[test]
fn attributes_and_foreign_types_get_where_they_should() {
    let text = generated(
        trirpc_build::configure()
            .extern_path(".hygiene.v1.nested", "::elsewhere::nested")
            .type_attribute(".hygiene.v1.C", "#[non_exhaustive]")
            .field_attribute(".hygiene.v1.thing.self", "#[doc(hidden)]")
            .stub_attribute("#[cfg(feature = \"rpc\")]"),
    );
    assert!(!text.contains_key("hygiene.v1.nested.rs"));
    let thing = &text["hygiene.v1.rs"];
    assert!(thing.contains("::elsewhere::nested::other::Inner"));
    assert!(!thing.contains("super::::"));
    assert_eq!(thing.matches("#[non_exhaustive]").count(), 1);
    assert_eq!(thing.matches("#[doc(hidden)]").count(), 1);
    assert_eq!(thing.matches("#[cfg(feature = \"rpc\")]").count(), 2 * 6, "client and server of six services");
}
