#!/usr/bin/env bash
# grpc-js, with the versions of package-lock.json: node_modules, and the programs beside them. Sourced by ../install.sh.
set -euo pipefail

needs node 'Node.js 20.11 or newer'
needs npm 'npm'
enter < <(cat "$here/node/package.json" "$here/node/package-lock.json"; node --version)

if [ ! -e "$folder/node_modules/.installed" ]; then
  say "installing grpc-js into $folder"
  cp "$here/node/package.json" "$here/node/package-lock.json" "$folder"
  logged npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund
  touch "$folder/node_modules/.installed"
fi
cp "$here"/node/*.mjs "$proto" "$folder"
