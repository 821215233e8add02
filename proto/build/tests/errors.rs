//! A schema that does not compile: the error says where and what, and nothing panics.

use std::fs;
use std::path::Path;

use trirpc_build::Error;

/// Writes the files into a fresh directory, compiles the first one and expects it to fail.
fn failure(files: &[(&str, &str)]) -> (tempfile::TempDir, Error) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        fs::write(directory.path().join(name), text).expect("written");
    }
    let out = directory.path().join("out");
    let first = directory.path().join(files[0].0);
    let error = trirpc_build::configure().out_dir(&out).compile(&[first], &[directory.path()]).unwrap_err();
    assert!(!out.exists(), "nothing is written for a broken schema");
    (directory, error)
}

#[track_caller]
fn assert_at(directory: &Path, error: &Error, file: &str, line: usize, column: usize, says: &str) {
    let path = directory.join(file).display().to_string();
    assert_eq!(error.file(), Some(path.as_str()), "{error}");
    assert_eq!((error.line(), error.column()), (Some(line), Some(column)), "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("{path}:{line}:{column}: ")), "{text}");
    assert!(text.contains(says), "{text}");
    assert_eq!(text, format!("{error:?}"), "a build script's `main` prints the Debug form");
}

#[test]
fn a_syntax_error_names_file_line_and_column_and_shows_the_line() {
    let (dir, error) = failure(&[("a.proto", "syntax = \"proto3\";\n\nmessage Hello {\n  string text 1;\n}\n")]);
    assert_at(dir.path(), &error, "a.proto", 4, 15, "expected");
    assert!(error.to_string().ends_with(" 4 |   string text 1;\n   |               ^"), "{error}");
}

#[test]
fn an_unknown_type_is_named_where_it_is_used() {
    let (dir, error) = failure(&[(
        "a.proto",
        "syntax = \"proto3\";\nmessage Hello {}\nservice Greeter {\n\trpc Say(Helo) returns (Hello);\n}\n",
    )]);
    assert_at(dir.path(), &error, "a.proto", 4, 10, "'Helo'");
    assert!(error.to_string().ends_with(" 4 | \trpc Say(Helo) returns (Hello);\n   | \t        ^"), "{error}");
}

#[test]
fn a_missing_import_is_named_where_it_is_imported() {
    let (dir, error) = failure(&[
        ("a.proto", "syntax = \"proto3\";\nimport \"b.proto\";\n"),
        ("b.proto", "syntax = \"proto3\";\n\nimport \"nowhere/c.proto\";\n"),
    ]);
    assert_at(dir.path(), &error, "b.proto", 3, 1, "'nowhere/c.proto' not found");
}

#[test]
fn an_error_in_an_import_names_the_imported_file() {
    let (dir, error) = failure(&[
        ("a.proto", "syntax = \"proto3\";\nimport \"b.proto\";\n"),
        ("b.proto", "syntax = \"proto3\";\nmessage Twice {\n  int32 one = 1;\n  int32 two = 1;\n}\n"),
    ]);
    assert_at(dir.path(), &error, "b.proto", 4, 15, "1");
    assert!(error.to_string().contains("line 3"), "the first use is named too: {error}");
}

#[test]
fn an_import_cycle_is_named_where_it_closes() {
    let (dir, error) = failure(&[
        ("a.proto", "syntax = \"proto3\";\nimport \"b.proto\";\n"),
        ("b.proto", "syntax = \"proto3\";\npackage b;\n  import \"a.proto\";\n"),
    ]);
    assert_at(dir.path(), &error, "b.proto", 3, 3, "a.proto -> b.proto -> a.proto");
}

#[test]
fn a_service_whose_module_is_taken_is_named_with_what_took_it() {
    let (dir, error) = failure(&[(
        "a.proto",
        "syntax = \"proto3\";\npackage p;\n\
         message EchoClient { message Inner {} }\n\
         service Echo { rpc Say(EchoClient) returns (EchoClient); }\n",
    )]);
    assert_at(dir.path(), &error, "a.proto", 4, 9, "`echo_client`");
    assert!(error.to_string().contains("message `EchoClient`"), "{error}");
}

#[test]
fn all_faults_that_the_parser_found_are_listed() {
    let (_dir, error) = failure(&[(
        "a.proto",
        "syntax = \"proto3\";\nmessage A {\n  required int32 a = 1;\n}\nmessage B {\n  required int32 b = 1;\n}\n",
    )]);
    let text = error.to_string();
    assert!(text.contains("a.proto:3:3") && text.contains("a.proto:6:3"), "{text}");
}

#[test]
fn a_proto_that_does_not_exist_is_named_with_the_places_that_were_searched() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let error = trirpc_build::configure()
        .out_dir(directory.path())
        .compile(&["no/such.proto"], &[directory.path()])
        .unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("no/such.proto: no such file"), "{text}");
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    assert_eq!(error.line(), None);
}

#[test]
fn an_option_that_is_no_rust_is_an_error_and_no_panic() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let proto = directory.path().join("a.proto");
    fs::write(&proto, "syntax = \"proto3\";\nmessage A {}\n").expect("written");
    for config in [
        trirpc_build::configure().root("::tri rpc"),
        trirpc_build::configure().root(""),
        trirpc_build::configure().root("relative::path"),
        trirpc_build::configure().stub_attribute("cfg(test)"),
        trirpc_build::configure().stub_attribute("#[cfg(test]"),
        trirpc_build::configure().extern_path("google.rpc", "::x"),
        trirpc_build::configure().extern_path(".google.rpc", "relative::x"),
    ] {
        let error = config.out_dir(directory.path()).compile(&[&proto], &[directory.path()]).unwrap_err();
        assert!(error.file().is_none(), "{error}");
    }
}
