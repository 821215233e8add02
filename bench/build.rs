//! Generates the code for `proto/echo.proto`. Payloads are `Vec<u8>`, as the peers of the benchmark have them.

fn main() -> Result<(), trirpc_build::Error> {
    trirpc_build::configure().bytes([""; 0]).compile(&["proto/echo.proto"], &["proto"])
}
