#!/usr/bin/env bash
# Builds core and prost for wasm32 and prints what a unary call costs in Node, both sides in one module: CPU time in µs,
# the median of fifteen rounds. Needs Node.
set -euo pipefail
cd "$(dirname "$0")"
target=wasm32-unknown-unknown
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}
../../.ci/target.sh "$target" build --locked --release >&2
node run.mjs "$CARGO_TARGET_DIR/$target/release/trirpc_bench_wasm.wasm" "$@"
