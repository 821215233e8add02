//! Generates from the descriptor set that the installer made, so that no `protoc` is needed here.

use prost::Message;

fn main() {
    println!("cargo:rerun-if-env-changed=ECHO_DESCRIPTORS");
    let path = std::env::var("ECHO_DESCRIPTORS").expect("ECHO_DESCRIPTORS names the descriptor set: use install.sh");
    println!("cargo:rerun-if-changed={path}");
    let bytes = std::fs::read(&path).expect("the descriptor set can be read");
    let files = prost_types::FileDescriptorSet::decode(bytes.as_slice()).expect("a descriptor set");
    tonic_prost_build::configure().compile_fds(files).expect("code can be generated");
}
