#!/usr/bin/env bash
# Builds the peers into ${TRIRPC_BENCH_PEERS:-~/.cache/trirpc-bench-peers}, and trirpc-bench in the workspace.
#
# Needs, by the names of Debian 12: protobuf-compiler libnghttp2-dev valgrind linux-perf strace; for the Go peers the Go of go.mod,
# and golang-1.19-go golang-google-grpc-dev for the old grpc-go; for C++ libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc.
# What cannot be built is said in one line and left out.
set -euo pipefail
cd "$(dirname "$0")"
here=$PWD
folder=${TRIRPC_BENCH_PEERS:-$HOME/.cache/trirpc-bench-peers}
mkdir -p "$folder/go" "$folder/cpp"

part() {
  local name=$1
  shift
  if "$@" >"$folder/$name.log" 2>&1; then echo "$name: built"; else echo "$name: NOT BUILT, see $folder/$name.log"; fi
}

ours() {
  cargo build --locked --release --manifest-path "$here/../Cargo.toml"
}

rust() {
  CARGO_TARGET_DIR=$folder cargo build --locked --release --manifest-path "$here/Cargo.toml"
}

go_modules() {
  cd "$here/go"
  GOTOOLCHAIN=local GOFLAGS='-buildvcs=false -mod=readonly' CGO_ENABLED=0 \
    go build -trimpath -o "$folder/go/" ./grpc ./dubbo
}

go_debian() {
  mkdir -p "$folder/gopath/src/trirpc.test"
  ln -sfn "$here/go" "$folder/gopath/src/trirpc.test/bench"
  cd "$folder/gopath/src/trirpc.test/bench"
  GO111MODULE=off GOFLAGS='' GOPATH="$folder/gopath:/usr/share/gocode" \
    /usr/lib/go-1.19/bin/go build -tags debian -o "$folder/go/grpc-debian" ./grpc
}

cpp() {
  cd "$folder/cpp"
  protoc -I "$here/../proto" --cpp_out=. --grpc_out=. --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" echo.proto
  # shellcheck disable=SC2046
  g++ -O2 -std=c++17 -I. "$here/cpp/server.cc" echo.pb.cc echo.grpc.pb.cc -o cpp-server $(pkg-config --libs grpc++ protobuf)
}

part trirpc ours
part rust rust
part go go_modules
part go-debian go_debian
part cpp cpp
