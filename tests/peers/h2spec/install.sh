#!/usr/bin/env bash
# h2spec, with the versions of go.sum: bin/h2spec. Sourced by ../install.sh.
set -euo pipefail

needs go 'Go, of the version in tests/peers/h2spec/go.mod'
export GOTOOLCHAIN=local GOFLAGS='-buildvcs=false -mod=readonly' CGO_ENABLED=0
if ! (cd "$here/h2spec" && go list -m) >/dev/null 2>&1; then
  say "h2spec NOT INSTALLED: $(go version) is older than go.mod asks for"
  exit "$unavailable"
fi
enter < <(cat "$here/h2spec/go.mod" "$here/h2spec/go.sum"; go version)

if ! current built "$here/h2spec/main.go"; then
  say "building h2spec in $folder"
  cd "$here/h2spec"
  logged go build -trimpath -ldflags='-s -w' -o "$folder/bin/" .
  stamped built "$here/h2spec/main.go"
fi
