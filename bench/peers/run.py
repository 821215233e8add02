#!/usr/bin/env python3
"""The goals of performance, measured: see README.md.

  run.py goal G1 [G2 ...]|all [--out FILE]      a row a figure; --out keeps them as lines of JSON, for `table`
  run.py table FILE ...                         the rows of files as a table in Markdown
  run.py pair --server A:B --client C:D         CPU time of B/A and D/C a call, ABBA pairs, 95 % interval
  run.py instructions server|client PEER        user instructions a call over TCP
  run.py counts SERVER CLIENT --calls N         system calls a call, from trace points
  run.py once SERVER CLIENT                     one run, its line of JSON
  run.py memory SERVER ...                      memory of a connection

Cells: --payload --conns --conc --mode --msgs --feed, as `trirpc-bench load` has them.
"""

import argparse
import dataclasses
import json
import sys

from measure import counts, goals, pair, programs


def arguments():
    cell = argparse.ArgumentParser(add_help=False)
    for name, default in (("payload", 128), ("conns", 1), ("conc", 100)):
        cell.add_argument(f"--{name}", type=int, default=default)
    for name in ("mode", "msgs", "feed"):
        cell.add_argument(f"--{name}")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command = parser.add_subparsers(dest="command", required=True)
    goal = command.add_parser("goal")
    goal.add_argument("names", nargs="+", choices=[*goals.GOALS, *goals.ELSEWHERE, "all"])
    goal.add_argument("--out")
    command.add_parser("table").add_argument("files", nargs="+")
    pairs = command.add_parser("pair", parents=[cell])
    pairs.add_argument("--server", default="tonic:tonic")
    pairs.add_argument("--client", default="floor:floor")
    pairs.add_argument("--pairs", type=int, default=12)
    pairs.add_argument("--secs", type=float, default=0.5)
    instructions = command.add_parser("instructions", parents=[cell])
    instructions.add_argument("side", choices=["server", "client"])
    instructions.add_argument("peer")
    for name in ("counts", "once"):
        two = command.add_parser(name, parents=[cell])
        two.add_argument("server", choices=programs.SERVERS)
        two.add_argument("client", choices=programs.CLIENTS)
        two.add_argument("--calls", type=int, default=100_000)
        two.add_argument("--secs", type=float, default=2)
    command.add_parser("memory").add_argument("servers", nargs="+", choices=programs.SERVERS)
    return parser.parse_args()


def measured_goals(names, out):
    names = list(goals.GOALS) + list(goals.ELSEWHERE) if "all" in names else names
    for name in names:
        if name in goals.ELSEWHERE:
            print(f"{name} | {goals.ELSEWHERE[name]}", flush=True)
            continue
        try:
            for row in goals.GOALS[name]():
                print(row, flush=True)
                if out:
                    with open(out, "a") as file:
                        file.write(json.dumps(dataclasses.asdict(row)) + "\n")
        except (programs.Failed, OSError, ValueError, KeyError, goals.subprocess.SubprocessError) as failure:
            print(f"{name} | not measured: {failure}", flush=True)


def table(files):
    """The newest row of each figure, in the order of the goals."""
    rows = {}
    for file in files:
        for line in open(file):
            row = goals.Row(**json.loads(line))
            rows[row.goal, row.what] = row
    print("| goal | figure | trirpc | must | stretch | reached |\n|---|---|---|---|---|---|")
    order = list(goals.GOALS)
    for row in sorted(rows.values(), key=lambda row: order.index(row.goal)):
        print("| " + " | ".join(goals.cells(row)) + " |")


def main():
    given = arguments()
    if given.command == "goal":
        return measured_goals(given.names, given.out)
    if given.command == "table":
        return table(given.files)
    if given.command == "memory":
        for server in given.servers:
            idle, called = counts.connections(server)
            text = lambda pair: ", ".join("-" if value is None else f"{value / 1024:.1f} KiB" for value in pair)
            print(f"{server}: resident and heap of an idle connection {text(idle)}; after a call {text(called)}")
        return None
    names = ("payload", "conns", "conc", "mode", "msgs", "feed")
    cell = {name: getattr(given, name) for name in names if getattr(given, name) is not None}
    if given.command == "instructions":
        print(f"{counts.instructions(given.side, given.peer, cell):.0f}")
    elif given.command == "counts":
        print(json.dumps(counts.system_calls(given.server, given.client, cell, given.calls)))
    elif given.command == "once":
        print(json.dumps(programs.once(given.server, given.client, cell, given.secs)))
    else:
        (a, b), (c, d) = given.server.split(":"), given.client.split(":")
        found = pair.measure((a, c), (b, d), cell, given.pairs, given.secs)
        for figure in ("server", "client", "both"):
            value, low, high = found.ratio(figure)
            print(f"{figure:6} CPU B/A {value:.3f} [{low:.3f}, {high:.3f}]; A {found.median(figure, 0):.2f} µs")
    return None


if __name__ == "__main__":
    sys.exit(main())
