//! Debian package `libnghttp2-dev`.

fn main() {
    println!("cargo:rustc-link-lib=nghttp2");
}
