#!/usr/bin/env bash
# Installs the foreign peers, pinned, and prints the folder they are in:
#
#   venv/bin/python   grpcio, with the versions of requirements.txt
#   gen/              its stubs of echo.proto, and echo.bin, the descriptors tonic is generated from
#   tonic-peer        the program of ./tonic, with the versions of its Cargo.lock
#
# The folder is $TRIRPC_PEERS_CACHE, by default in ~/.cache/trirpc-peers, and named by the hash of all pins: a second
# run only looks whether the sources have changed. Logs go to stderr. Exit status 75: python3 or its venv is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
proto=$here/../../proto/idl/trirpc/test/v1/echo.proto

say() { printf 'peers: %s\n' "$*" >&2; }

pins() { cat "$here/requirements.txt" "$here/tonic/Cargo.lock"; python3 --version; rustc --version; }

if ! command -v python3 >/dev/null || ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  say 'NOT INSTALLED: python3 with venv is needed (Debian: python3-venv)'
  exit 75
fi
hash=$(pins | sha256sum)
folder=${TRIRPC_PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trirpc-peers}/${hash:0:16}
mkdir -p "$folder"

# One installer at a time; another waits here and then finds everything done.
exec 9>"$folder/lock"
flock 9

if [ ! -e "$folder/venv/installed" ]; then
  say "installing grpcio into $folder"
  rm -rf "$folder/venv"
  python3 -m venv "$folder/venv" >&2
  "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/requirements.txt" >&2
  touch "$folder/venv/installed"
fi

if ! cmp -s "$proto" "$folder/gen/echo.proto"; then
  rm -rf "$folder/gen"
  mkdir "$folder/gen"
  "$folder/venv/bin/python" -m grpc_tools.protoc -I "$(dirname "$proto")" --python_out="$folder/gen" \
    --grpc_python_out="$folder/gen" --include_imports --descriptor_set_out="$folder/gen/echo.bin" echo.proto >&2
  cp "$proto" "$folder/gen/echo.proto"
fi

ECHO_DESCRIPTORS=$folder/gen/echo.bin CARGO_TARGET_DIR=$folder/target \
  cargo build --locked --manifest-path "$here/tonic/Cargo.toml" >&2 9>&-
cp -f "$folder/target/debug/tonic-peer" "$folder/tonic-peer"
echo "$folder"
