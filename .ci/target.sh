#!/usr/bin/env bash
# cargo for a foreign target, on a fresh machine: target.sh TARGET CARGO-ARGS…
#
# 1. rustup adds the prebuilt standard library: seconds, asked once.
# 2. Where rustup is absent or refuses, Debian's newer compiler (rustc-web, cargo-web, rust-web-src) builds the
#    library from source. Not for WASI, which needs a C library as well.
#
# Exit status 75 says that the target cannot be had here; anything else is cargo's.
# TARGET_VIA=rustup or =debian forces a branch.
set -euo pipefail

target=${1:?usage: target.sh TARGET CARGO-ARGS…}
shift
via=${TARGET_VIA:-any}
unavailable=75
say() { printf 'target: %s\n' "$*" >&2; }

by_rustup() {
  command -v rustup >/dev/null || return 1
  if rustup target list --installed | grep -qx "$target"; then return 0; fi
  say "rustup target add $target"
  # Bounded, because a hang must not eat the whole run.
  timeout 180 rustup target add "$target" >&2
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi; }

apt_install() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2 && return 0
  as_root apt-get update >&2 || return 1
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

wasm_linker() {
  local rust_lld
  rust_lld=$(rustup which rustc 2>/dev/null || true)
  rust_lld=${rust_lld%/bin/rustc}/lib/rustlib/$(uname -m)-unknown-linux-gnu/bin/rust-lld
  if [ -x "$rust_lld" ]; then echo "$rust_lld"; else command -v wasm-ld-19; fi
}

by_debian() {
  case $target in *-wasi*) return 1 ;; esac
  command -v apt-get >/dev/null || return 1
  if ! dpkg -s rustc-web cargo-web rust-web-src >/dev/null 2>&1; then
    say 'installing rustc-web cargo-web rust-web-src'
    apt_install rustc-web cargo-web rust-web-src || return 1
  fi
  wasm_linker >/dev/null || apt_install lld-19
}

if [ "$via" != debian ] && by_rustup; then
  exec cargo "$@" --target "$target"
fi
if [ "$via" != rustup ] && by_debian; then
  std=std,panic_abort
  case $target in *-none-*) std=core,alloc ;; esac
  # A folder of its own: two compilers in one target folder would rebuild everything at each turn.
  exec env RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc RUSTC_BOOTSTRAP=1 \
    CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/debian" \
    CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER="$(wasm_linker)" \
    /usr/bin/cargo "$@" -Zbuild-std="$std" --target "$target"
fi
exit $unavailable
