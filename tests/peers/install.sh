#!/usr/bin/env bash
# Installs the foreign peers, pinned, and prints `NAME FOLDER` for each that is there. NAME… installs only those.
#
# Each is installed by NAME/install.sh into a folder of its own, named by the hash of its pins and its toolchain, in
# $TRIRPC_PEERS_CACHE (by default ~/.cache/trirpc-peers). A second run only looks whether the sources have changed.
# grpcio comes first, because its protoc makes the stubs of those that speak gRPC; then all at once. What they print goes
# to install.log in their folders, and to stderr when they fail.
#
# Exit status 75: a toolchain is missing, and stderr says which; the other peers are installed all the same.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${TRIRPC_PEERS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/trirpc-peers}
proto=$here/../../proto/idl/trirpc/test/v1/echo.proto
unavailable=75

say() { printf 'peers: %s\n' "$*" >&2; }

# needs TOOL WHAT: the tool is on PATH, or this peer cannot be had here.
needs() {
  if ! command -v "$1" >/dev/null; then
    say "$name NOT INSTALLED: $2 is needed"
    exit $unavailable
  fi
}

# enter PINS: reads the pins from stdin, sets `folder`, and lets one installer at a time into it.
enter() {
  local hash
  hash=$(cat - "$here/$name/install.sh" | sha256sum)
  folder=$cache/$name-${hash:0:16}
  mkdir -p "$folder"
  exec 9>"$folder/lock"
  flock 9
}

# current STAMP FILES…: whether the files are as they were when `stamped STAMP FILES…` was run.
current() { [ -e "$folder/$1" ] && [ "$(cat "$folder/$1")" = "$(cat "${@:2}" | sha256sum)" ]; }
stamped() { cat "${@:2}" | sha256sum >"$folder/$1"; }

# logged COMMAND…: what it prints is kept, and shown if it fails. Nothing it leaves running holds the lock.
logged() {
  if ! "$@" >>"$folder/install.log" 2>&1 9>&-; then
    say "$name: \`$*\` failed:"
    tail -n 40 "$folder/install.log" >&2
    return 1
  fi
}

# The folder of a peer; install.sh of grpcio sets what others use of it.
install() (
  name=$1
  # shellcheck source=/dev/null
  source "$here/$name/install.sh"
  echo "$name $folder"
)

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(grpcio tonic go node java h2spec python-h2 nghttp2)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
status=0
if [[ " ${wanted[*]} " =~ \ (grpcio|tonic|go|node|java)\  ]]; then
  install grpcio >"$results/grpcio" || status=$?
  [ $status -eq 0 ] || exit $status
  base=$(cut -d' ' -f2 "$results/grpcio")
fi

declare -A running
for peer in "${wanted[@]}"; do
  [ "$peer" = grpcio ] && continue
  install "$peer" >"$results/$peer" &
  running[$peer]=$!
done
for peer in "${wanted[@]}"; do
  if [ "$peer" != grpcio ]; then
    result=0
    wait "${running[$peer]}" || result=$?
    # A failure outweighs a missing toolchain.
    case $result in
      0) ;;
      $unavailable) [ $status -ne 0 ] || status=$unavailable ;;
      *) status=1 ;;
    esac
  fi
  cat "$results/$peer"
done
exit $status
