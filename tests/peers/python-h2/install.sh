#!/usr/bin/env bash
# python-h2, with the versions of requirements.txt: venv/bin/python. Sourced by ../install.sh.
set -euo pipefail

needs python3 'python3 with venv (Debian: python3-venv)'
enter < <(cat "$here/python-h2/requirements.txt"; python3 --version)

if [ ! -e "$folder/venv/installed" ]; then
  say "installing python-h2 into $folder"
  rm -rf "$folder/venv"
  logged python3 -m venv "$folder/venv"
  logged "$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    -r "$here/python-h2/requirements.txt"
  touch "$folder/venv/installed"
fi
