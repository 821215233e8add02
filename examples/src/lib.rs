//! The code that `build.rs` generates for the examples.

/// Package `hello.v1`.
#[allow(missing_docs, unused_qualifications)]
pub mod hello {
    trirpc::include_proto!("hello.v1");
}
