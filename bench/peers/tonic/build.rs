//! The service of `bench/proto/echo.proto`, described in Rust: no protoc is needed.

use tonic_build::manual::{Builder, Method, Service};

fn main() {
    let method = |name: &str, route: &str| {
        Method::builder()
            .name(name)
            .route_name(route)
            .input_type("crate::EchoMsg")
            .output_type("crate::EchoMsg")
            .codec_path("tonic_prost::ProstCodec")
    };
    let echo = Service::builder()
        .name("Echo")
        .package("bench")
        .method(method("unary", "Unary").build())
        .method(method("bidi", "Bidi").client_streaming().server_streaming().build())
        .method(method("cstream", "Cstream").client_streaming().build())
        .method(method("sstream", "Sstream").server_streaming().build());
    Builder::new().compile(&[echo.build()]);
}
