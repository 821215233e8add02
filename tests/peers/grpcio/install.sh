#!/usr/bin/env bash
# grpcio, with the versions of requirements.txt: venv/bin/python, and gen/ with its stubs and echo.bin, the descriptors
# that tonic is generated from. Sourced by ../install.sh.
set -euo pipefail

needs python3 'python3 with venv (Debian: python3-venv)'
if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  say 'grpcio NOT INSTALLED: python3 has no venv (Debian: python3-venv)'
  exit "$unavailable"
fi
enter < <(cat "$here/grpcio/requirements.txt"; python3 --version)

if [ ! -e "$folder/venv/installed" ]; then
  say "installing grpcio into $folder"
  rm -rf "$folder/venv"
  logged python3 -m venv "$folder/venv"
  logged "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$here/grpcio/requirements.txt"
  touch "$folder/venv/installed"
fi

if ! current stubs "$proto"; then
  rm -rf "$folder/gen"
  mkdir "$folder/gen"
  logged "$folder/venv/bin/python" -m grpc_tools.protoc -I "$(dirname "$proto")" --python_out="$folder/gen" \
    --grpc_python_out="$folder/gen" --include_imports --descriptor_set_out="$folder/gen/echo.bin" echo.proto
  stamped stubs "$proto"
fi
