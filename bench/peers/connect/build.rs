//! Needs protoc: Debian package `protobuf-compiler`.

fn main() {
    connectrpc_build::Config::new()
        .files(&["../../proto/echo.proto"])
        .includes(&["../../proto/"])
        .generate_json(false)
        .include_file("_connectrpc.rs")
        .compile()
        .expect("stubs for echo.proto");
}
