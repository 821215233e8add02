#!/usr/bin/env bash
# tonic, with the versions of Cargo.lock: tonic-peer. Sourced by ../install.sh.
set -euo pipefail

needs cargo 'cargo'
enter < <(cat "$here/tonic/Cargo.lock"; rustc --version)

logged env ECHO_DESCRIPTORS="$base/gen/echo.bin" CARGO_TARGET_DIR="$folder/target" \
  cargo build --locked --manifest-path "$here/tonic/Cargo.toml"
cp -f "$folder/target/debug/tonic-peer" "$folder/tonic-peer"
