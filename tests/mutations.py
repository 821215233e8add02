#!/usr/bin/env python3
"""Takes rules out of the code, one at a time, and looks whether the tests that claim them fail.

    tests/mutations.py              every entry of tests/mutations.toml, about half a minute each
    tests/mutations.py K5 T4        those of these rules
    tests/mutations.py --draw 40    ids of docs/http2.md for new entries, by a seeded shuffle

An entry is a rule of docs/http2.md and what to replace by what to remove it: a text, or a list of them. The tests that name the rule are run with it;
one of them must fail, and all must have passed before. Changes files in the working tree while it runs, and puts them
back; so it refuses to run where one of them has changes that are not committed. Not a part of CI.
"""

import pathlib
import random
import re
import subprocess
import sys
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
ID = r"[A-Z]{1,2}\d+"
SEED = 2026


def rows():
    text = (ROOT / "docs/http2.md").read_text()
    return [row for cell in re.findall(rf"^\| ({ID}(?:, {ID})*) \|", text, re.M) for row in cell.split(", ")]


def ids_in(doc):
    for first, last in re.findall(rf"h2:({ID})(?:`?–`?h2:({ID}))?", doc):
        letters, begin = first.rstrip("0123456789"), int(first.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        end = int(last.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")) if last else begin
        yield from (f"{letters}{number}" for number in range(begin, end + 1))


def tests_by_id():
    """The tests whose doc comments name a rule: file and function."""
    found = {}
    listed = subprocess.run(["git", "ls-files", "*.rs"], cwd=ROOT, capture_output=True, text=True, check=True)
    for file in listed.stdout.split():
        doc = ""
        for line in map(str.strip, (ROOT / file).read_text().splitlines()):
            if line.startswith("///"):
                doc += line + " "
            elif function := re.match(r"(?:async )?fn (\w+)", line):
                for name in ids_in(doc):
                    found.setdefault(name, []).append((file, function[1]))
                doc = ""
            elif not line.startswith("#["):
                doc = ""
    return found


def target(file):
    """What cargo calls the test binary that a file belongs to."""
    crate, kind, *rest = file.split("/")
    package = {"core": "trirpc-core", "rpc": "trirpc-rpc", "tests": "trirpc-tests"}.get(crate, crate)
    if kind == "src":
        return (package, "--lib")
    return (package, "--test", rest[0].removesuffix(".rs"))


def run(tests):
    """The names of those that fail, or None if they do not compile."""
    binaries = {}
    for file, function in tests:
        binaries.setdefault(target(file), []).append(function)
    failed = []
    # The core's own tests first: they are built in no time.
    for binary, functions in sorted(binaries.items()):
        command = ["cargo", "test", "-q", "-p", *binary, "--no-fail-fast", "--", *functions]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if "error: could not compile" in result.stderr:
            print(result.stderr[-2000:], file=sys.stderr)
            return None
        failed += re.findall(r"^(?:test )?(\S+)(?: \.\.\.| ---) FAILED", result.stdout, re.M)
        if not failed and "test result:" not in result.stdout:
            failed.append(f"({' '.join(binary)} ended without a result)")  # say, by an overflow of the stack
        if failed:
            break
    return failed


def is_clean(file):
    return subprocess.run(["git", "diff", "--quiet", "HEAD", "--", file], cwd=ROOT).returncode == 0


def judge(entry, tests):
    if not tests:
        return "no test names it"
    path = ROOT / entry["file"]
    original = path.read_text()
    changed = original
    for old, new in zip(*(part if isinstance(part, list) else [part] for part in (entry["old"], entry["new"]))):
        if original.count(old) != 1:
            return f"what it replaces occurs {original.count(old)} times in {entry['file']}"
        changed = changed.replace(old, new)
    if not is_clean(entry["file"]):
        return f"{entry['file']} has changes that are not committed"
    path.write_text(changed)
    try:
        failed = run(tests)
    finally:
        path.write_text(original)
    if failed is None:
        return "does not compile"
    return None if failed else "NOTHING FAILED", failed


def main():
    if "--draw" in sys.argv:
        drawn = sorted(rows())
        random.Random(SEED).shuffle(drawn)
        print(" ".join(drawn[: int(sys.argv[sys.argv.index("--draw") + 1])]))
        return
    entries = tomllib.loads((ROOT / "tests/mutations.toml").read_text())["mutation"]
    wanted, tests, bad = sys.argv[1:], tests_by_id(), 0
    entries = [entry for entry in entries if not wanted or entry["id"] in wanted]
    for entry in entries:
        verdict = judge(entry, tests.get(entry["id"], []))
        verdict, failed = verdict if isinstance(verdict, tuple) else (verdict, [])
        bad += verdict is not None
        print(f"{entry['id']:5} {entry['what']}: {verdict or 'failed: ' + ', '.join(failed)}", flush=True)
    print(f"{len(entries) - bad} of {len(entries)} rules were missed when they were gone")
    sys.exit(bad > 0)


main()
