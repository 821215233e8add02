#!/usr/bin/env bash
# grpc-go, connect-go and dubbo-go, with the versions of go.sum: bin/grpc, bin/connect, bin/dubbo. The plug-ins that
# make their stubs are tools of the same module. Sourced by ../install.sh.
set -euo pipefail

needs go 'Go, of the version in tests/peers/go/go.mod'
export GOTOOLCHAIN=local GOFLAGS='-buildvcs=false -mod=readonly' CGO_ENABLED=0
if ! (cd "$here/go" && go list -m) >/dev/null 2>&1; then
  say "go NOT INSTALLED: $(go version) is older than go.mod asks for"
  exit "$unavailable"
fi
enter < <(cat "$here/go/go.mod" "$here/go/go.sum"; go version)

sources=("$proto" "$here"/go/*/*.go)
if ! current built "${sources[@]}"; then
  say "building grpc-go, connect-go and dubbo-go in $folder"
  rm -rf "$folder/src"
  mkdir -p "$folder/src/gen" "$folder/bin" "$folder/plugins"
  cp -r "$here"/go/go.mod "$here"/go/go.sum "$here"/go/*/ "$folder/src"
  cd "$folder/src"
  for plugin in google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc \
    connectrpc.com/connect/cmd/protoc-gen-connect-go; do
    [ -e "$folder/plugins/${plugin##*/}" ] || logged go build -o "$folder/plugins/" "$plugin"
  done
  module=trirpc.test/peers/gen
  logged env PATH="$folder/plugins:$PATH" "$base/venv/bin/python" -m grpc_tools.protoc -I "$(dirname "$proto")" \
    --go_out=gen --go_opt=module=$module --go-grpc_out=gen --go-grpc_opt=module=$module \
    --connect-go_out=gen --connect-go_opt=module=$module echo.proto
  # Without debug information: linking is most of the time.
  logged go build -trimpath -ldflags='-s -w' -o "$folder/bin/" ./grpc ./connect ./dubbo
  stamped built "${sources[@]}"
fi
