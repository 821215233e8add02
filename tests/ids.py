#!/usr/bin/env python3
"""Which rows of docs/http2.md does no test name? Lists them, and fails if there is one.

A row is named by `h2:F22` in the doc comment of a test; a range is written as `h2:V1`–`h2:V7`. With --tests, lists the
rows with the files that name them.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
ID = r"[A-Z]{1,2}\d+"


def key(name):
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters):])


def rows():
    """Ids in the first column of the tables, several with commas."""
    text = (ROOT / "docs/http2.md").read_text()
    for cell in re.findall(rf"^\| ({ID}(?:, {ID})*) \|", text, re.M):
        yield from cell.split(", ")


def named():
    """Ids by the files whose doc comments name them."""
    found = {}
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in listed.stdout.split():
        for line in (ROOT / file).read_text().splitlines():
            if "///" not in line and "//!" not in line:
                continue
            for first, last in re.findall(rf"h2:({ID})(?:`?–`?h2:({ID}))?", line):
                letters, begin = key(first)
                end = key(last)[1] if last else begin
                for number in range(begin, end + 1):
                    found.setdefault(f"{letters}{number}", set()).add(file)
    return found


def main():
    expected, found = list(rows()), named()
    if len(expected) != len(set(expected)):
        sys.exit(f"docs/http2.md has rows twice: {sorted({i for i in expected if expected.count(i) > 1}, key=key)}")
    if "--tests" in sys.argv:
        for name in sorted(expected, key=key):
            print(f"{name}: {', '.join(sorted(found.get(name, []))) or 'no test'}")
    missing = sorted(set(expected) - found.keys(), key=key)
    unknown = sorted(found.keys() - set(expected), key=key)
    if unknown:
        print(f"named by tests, and no row of docs/http2.md: {', '.join(unknown)}")
    if missing:
        sys.exit(f"rows of docs/http2.md without a test: {', '.join(missing)}")
    print(f"{len(expected)} rows of docs/http2.md, each with a test")


main()
