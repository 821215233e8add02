#!/usr/bin/env bash
# Builds for targets without an operating system, and the oldest compiler that is promised.
#
#   wasm32-unknown-unknown   core, rpc and proto build
#   thumbv7em-none-eabihf    core and proto build without std, generated messages and method statics included
#   wasm32-wasip1            the tests of core and proto run, calls between two connections among them, under Node
#   rust-version             what is published passes `cargo check` with the compiler Cargo.toml names
#
# What cannot be installed on this machine is one line, and no failure; what builds wrongly is one.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
# step NAME COMMAND…: status 75 of the command means that its tools cannot be had here.
step() {
  local name=$1 status=0 start=$SECONDS
  shift
  "$@" || status=$?
  case $status in
    0) echo "cross: $name: ok ($((SECONDS - start)) s)" ;;
    75) echo "cross: $name: NOT RUN, it cannot be installed here" ;;
    *) echo "cross: $name: FAILED"; failed+=("$name") ;;
  esac
}

wasi() {
  command -v node >/dev/null || return 75
  # Node's fast path for WASI calls breaks V8's heap (nodejs/node#46777, #53087): the tests pass, then Node dies.
  local node='node --no-warnings --no-turbo-fast-api-calls'
  CARGO_TARGET_WASM32_WASIP1_RUNNER="$node $PWD/.ci/wasi-run.mjs" .ci/target.sh wasm32-wasip1 test "$@"
}

oldest() {
  local version
  version=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  command -v rustup >/dev/null || return 75
  if ! cargo "+$version" --version >/dev/null 2>&1; then
    timeout 300 rustup toolchain install "$version" --profile minimal >&2 || return 75
  fi
  cargo "+$version" check --locked --workspace --exclude trirpc-tests
}

step 'wasm32-unknown-unknown' \
  .ci/target.sh wasm32-unknown-unknown build --locked -p trirpc-core -p trirpc-rpc -p trirpc-proto
step 'thumbv7em-none-eabihf' \
  .ci/target.sh thumbv7em-none-eabihf build --locked --no-default-features --features trirpc-proto/test-service \
  -p trirpc-core -p trirpc-proto
step 'wasm32-wasip1, run under Node' wasi --locked -p trirpc-core -p trirpc-proto
step 'oldest compiler' oldest

if [ ${#failed[@]} -gt 0 ]; then
  printf 'cross: failed: %s\n' "${failed[*]}"
  exit 1
fi
