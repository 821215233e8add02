#!/usr/bin/env bash
# Runs the fuzz targets without cargo-fuzz and without nightly: fuzz/run.sh [SECONDS] [TARGET…]
#
# Each target (all of them by default) runs for SECONDS (60 by default) on its corpus. New inputs go to
# target/corpus, findings to artifacts; to keep a finding, copy it to corpus/TARGET under a name that says
# what it shows, and the replay in tests/tests/fuzz_corpus.rs holds on to it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

seconds=${1:-60}
shift || true
case $seconds in
'' | *[!0-9]*)
    echo "usage: fuzz/run.sh [SECONDS] [TARGET…]" >&2
    exit 2
    ;;
esac

targets=("$@")
if [ ${#targets[@]} -eq 0 ]; then
    for file in fuzz_targets/*.rs; do
        targets+=("$(basename "$file" .rs)")
    done
fi
for target in "${targets[@]}"; do
    if [ ! -f "fuzz_targets/$target.rs" ]; then
        echo "no target called $target; there are: $(ls fuzz_targets | sed 's/\.rs$//' | paste -sd' ')" >&2
        exit 2
    fi
done

# What cargo-fuzz passes: coverage for the fuzzer, and the address sanitizer.
export RUSTC_BOOTSTRAP=1
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Ccodegen-units=1"
triple=$(rustc -vV | sed -n 's/^host: //p')
cargo build --release --target "$triple" $(printf -- '--bin %s ' "${targets[@]}")

failed=()
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    found=$CARGO_TARGET_DIR/corpus/$target
    mkdir -p "$found" "artifacts/$target" "corpus/$target"
    # The resident-set limit turns unbounded memory into a finding; the timeout does so for endless work.
    "$CARGO_TARGET_DIR/$triple/release/$target" "$found" "corpus/$target" -artifact_prefix="artifacts/$target/" \
        -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 ||
        failed+=("$target")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "findings in: ${failed[*]} (see artifacts)" >&2
    exit 1
fi
echo "clean: ${targets[*]}"
