#!/usr/bin/env bash
# Every test of the project, live peers included. Arguments go to `cargo test`.
#
# A peer whose toolchain is missing is left out, and the run says so; TRIRPC_PEERS=required makes that a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

# The peers are installed beside the build; the test that needs them waits for the installer, and says what it said.
tests/peers/install.sh >/dev/null 2>&1 &
trap 'wait' EXIT

cargo test --locked --workspace "$@"
