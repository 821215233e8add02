#!/usr/bin/env bash
# nghttp and h2load (Debian: nghttp2-client) and curl, as the system has them. A run that requires all peers, as CI does,
# installs them if it may. Sourced by ../install.sh.
set -euo pipefail

are_here() { command -v nghttp && command -v h2load && command -v curl; } >/dev/null
if [ "${TRIRPC_PEERS:-}" = required ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! are_here; then
  mkdir -p "$cache"
  exec 8>"$cache/apt.lock"
  flock 8
  if ! are_here; then
    say 'installing nghttp2-client and curl'
    { apt-get update && apt-get install -y --no-install-recommends nghttp2-client curl; } >&2 8>&-
  fi
  exec 8>&-
fi
needs nghttp 'nghttp (Debian: nghttp2-client)'
needs h2load 'h2load (Debian: nghttp2-client)'
needs curl curl
enter < <(nghttp --version; curl --version)
