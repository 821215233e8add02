//! Generates the code for `proto/hello.proto`.

fn main() -> Result<(), trirpc_build::Error> {
    trirpc_build::compile_protos("proto/hello.proto")
}
