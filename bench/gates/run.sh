#!/usr/bin/env bash
# Counts what a call costs and compares it with baseline.json: instructions, writes, allocations. No clock is read.
# Arguments go to `trirpc-bench gates`:
#
#   bench/gates/run.sh                    compare; fails, and says which function grew, beyond +3 % of instructions
#                                         or any growth of writes and allocations
#   bench/gates/run.sh --refresh          record anew, after a change that is meant; commit the file with the change
#   bench/gates/run.sh --profile 25       where the instructions go
#
# Needs valgrind (Debian package `valgrind`); without it, only writes and allocations are compared.
set -euo pipefail
cd "$(dirname "$0")/../.."

cargo build --locked --release --package trirpc-bench
exec "${CARGO_TARGET_DIR:-target}/release/trirpc-bench" gates --baseline bench/gates/baseline.json "$@"
