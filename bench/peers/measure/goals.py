"""The goals: what is measured for each, and what it must be."""

import dataclasses
import json
import os
import subprocess

from . import counts, pair
from .programs import OURS, ROOT, once

US = ("trirpc", "trirpc")
SMALL = {"payload": 128, "conns": 1, "conc": 100}
ALONE = {"payload": 128, "conns": 1, "conc": 1}
SPARSE = {"payload": 128, "conns": 50, "conc": 50}
MEDIUM = {**SMALL, "payload": 1024}
LARGE = {**SMALL, "payload": 16384}
HUGE = {"payload": 1 << 20, "conns": 1, "conc": 10}
STREAM = {"payload": 128, "conns": 1, "conc": 32, "mode": "bidi", "msgs": 128, "feed": "chan"}


@dataclasses.dataclass
class Row:
    """One figure beside its goal: at most `must`, and at best `stretch`. `low` and `high` bound it."""

    goal: str
    what: str
    value: float
    must: float | None = None
    stretch: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""

    @property
    def verdict(self):
        worst = self.value if self.high is None else self.high
        if self.must is None:
            return "told"
        if self.stretch is not None and worst <= self.stretch:
            return "stretch"
        return "must" if worst <= self.must else "missed"

    def __str__(self):
        return " | ".join(cells(self))


def number(value):
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def cells(row):
    interval = "" if row.low is None else f" [{number(row.low)}, {number(row.high)}]"
    unit = f" {row.unit}" if row.unit else ""
    return [row.goal, row.what, f"{number(row.value)}{interval}{unit}", number(row.must), number(row.stretch), row.verdict]


def paired(goal, a, b, cell, figures, pairs=8, secs=0.5):
    """Rows of one run of pairs; a figure is `(name, text, must, stretch)`."""
    found = pair.measure(a, b, cell, pairs, secs)
    for figure, what, must, stretch in figures:
        value, low, high = found.ratio(figure)
        yield Row(goal, what, value, must, stretch, low, high, "×")


def server_against(goal, peer, cell, what, must=None, stretch=None, ours="trirpc", **options):
    return paired(goal, (peer, "floor"), (ours, "floor"), cell,
                  [("server", f"server CPU, {what}, {ours} to {peer}", must, stretch)], **options)


def client_against(goal, peer, cell, what, must=None, stretch=None, ours="trirpc", **options):
    return paired(goal, ("floor", peer), ("floor", ours), cell,
                  [("client", f"client CPU, {what}, {ours} to {peer}", must, stretch)], **options)


def pair_against(goal, peer, cell, what, must=None, stretch=None, ours="trirpc", **options):
    what = f"{what}, a pair of {ours} to one of {peer}"
    return paired(goal, (peer, peer), (ours, ours), cell,
                  [("both", f"CPU of both, {what}", must, stretch),
                   ("server", f"server CPU, {what}", None, None),
                   ("client", f"client CPU, {what}", None, None)], **options)


def calls(goal, cell, operations, limits, what, per=1, ours="trirpc"):
    """System calls or writes of each side, an operation or (`per`) a message."""
    found = counts.system_calls(ours, ours, cell, operations)
    for key, name, must, stretch in limits:
        for side in ("server", "client"):
            yield Row(goal, f"{name} of the {side}, {what}, {ours}", found[side].get(key, 0) / per, must, stretch)
    if cell is ALONE:
        yield Row(goal, f"TCP segments of both, {what}, {ours}", found["segments"] / per, 2.02)


def g1():
    what = "128 B 1×100"
    yield from server_against("G1", "tonic", SMALL, what, 0.2, 0.125, pairs=12)
    yield from server_against("G1", "floor-smol", SMALL, what, 3.5, 2.2)
    yield from server_against("G1", "tonic", SMALL, what, ours="trirpc-loop")
    for peer in ("floor", "h2", "connect", "grpc-go", "cpp"):
        yield from server_against("G1", peer, SMALL, what, pairs=6)


def g2():
    what = "128 B 1×100"
    yield from client_against("G2", "tonic", SMALL, what, 0.2, 0.125, pairs=12)
    yield from client_against("G2", "tonic", SMALL, what, ours="trirpc-loop")
    for peer in ("h2", "connect"):
        yield from client_against("G2", peer, SMALL, what, pairs=6)


def g3():
    for side, must, stretch in (("server", 5000, 2500), ("client", 6000, 3000)):
        yield Row("G3", f"instructions of the {side}, 128 B 1×100, TCP", counts.instructions(side, "trirpc", SMALL), must, stretch)


def g4():
    # As many in flight as where the anchor comes from, which is h2's server and client in G1 and G2.
    yield Row("G4", "instructions of both sides in the core, 100 in flight", counts.core_alone(), 5000, 3000)
    yield Row("G4", "instructions of both sides in the core, 1 in flight", counts.core_alone(together=1))
    fresh = counts.core_alone("fresh")
    yield Row("G4", "instructions of both sides in the core, 100 in flight, no head like another", fresh)


def g5():
    yield from server_against("G5", "tonic", MEDIUM, "1 KiB 1×100", 1 / 7, 0.1)
    yield from calls("G5", MEDIUM, 100_000, [("writes", "writes", 0.06, None)], "1 KiB 1×100")


def g6():
    yield from server_against("G6", "tonic", LARGE, "16 KiB 1×100", 0.4, 1 / 3.5)
    yield from client_against("G6", "tonic", LARGE, "16 KiB 1×100", 0.4, 1 / 3.5)
    yield from server_against("G6", "floor-smol", LARGE, "16 KiB 1×100", 1.8)
    yield from client_against("G6", "floor-smol", LARGE, "16 KiB 1×100", 1.8)
    yield from calls("G6", LARGE, 30_000, [("all", "system calls", 0.8, None)], "16 KiB 1×100")


def g7():
    """With a codec that lends what was received, as the goal has it, and with vectors beside it."""
    for ours, limits in (("trirpc-lent", (1.35, 1.15)), ("trirpc", (None, None))):
        yield from server_against("G7", "floor-smol", HUGE, "1 MiB 1×10", *limits, ours=ours)
        yield from client_against("G7", "floor-smol", HUGE, "1 MiB 1×10", *limits, ours=ours)
    yield from calls("G7", HUGE, 1000, [("all", "system calls", 60, None)], "1 MiB 1×10", ours="trirpc-lent")


def g7b():
    yield from pair_against("G7b", "tonic", {**HUGE, "conc": 1}, "1 MiB 1×1", 0.6, 0.5, secs=1)
    yield from pair_against("G7b", "tonic", HUGE, "1 MiB 1×10", 0.6, 0.5, secs=1)
    yield from pair_against("G7b", "tonic", {**HUGE, "conc": 100}, "1 MiB 1×100", 0.6, 0.5, secs=1)
    yield from pair_against("G7b", "tonic-8mib", HUGE, "1 MiB 1×10", secs=1, pairs=6)
    line = once(*US, {**HUGE, "conc": 1}, secs=3)
    yield Row("G7b", "p99 to p50, 1 MiB 1×1", line["p99_us"] / line["p50_us"], 2)


def g8():
    for ours in ("trirpc", "trirpc-loop"):
        yield from pair_against("G8", "tonic", SPARSE, "128 B 50×50", 0.5, ours=ours)
        yield from pair_against("G8", "floor-smol", SPARSE, "128 B 50×50", 1.3, 1.15, ours=ours)
        yield from calls("G8", SPARSE, 50_000, [("all", "system calls", None, 2.5)], "128 B 50×50", ours=ours)


def g9():
    for ours, most in (("trirpc", 9), ("trirpc-loop", 4)):
        found = pair.measure(("floor-smol", "floor-smol"), (ours, ours), ALONE)
        value, low, high = found.difference("p50")
        yield Row("G9", f"p50 above that of a pair of floor-smol, 128 B 1×1, {ours}", value, 5, None, low, high, "µs")
        value, low, high = found.ratio("both")
        yield Row("G9", f"CPU of both to a pair of floor-smol, 128 B 1×1, {ours}", value, None, None, low, high, "×")
        limits = [("all", "system calls", most, 4), ("writes", "writes", 1.01, None)]
        yield from calls("G9", ALONE, 10_000, limits, "128 B 1×1", ours=ours)
    # What the sleep and the waking come to.
    found = pair.measure(("floor-smol", "floor-smol"), ("trirpc-loop-asleep", "trirpc-loop-asleep"), ALONE)
    what = "128 B 1×1, trirpc-loop that does not poll"
    value, low, high = found.difference("p50")
    yield Row("G9", f"p50 above that of a pair of floor-smol, {what}", value, None, None, low, high, "µs")
    value, low, high = found.ratio("both")
    yield Row("G9", f"CPU of both to a pair of floor-smol, {what}", value, None, None, low, high, "×")
    yield from calls("G9", ALONE, 10_000, [("all", "system calls", None, None)], "128 B 1×1", ours="trirpc-loop-asleep")


def g10():
    for ours, most in (("trirpc", 0.12), ("trirpc-loop", 0.04)):
        yield from calls("G10", SMALL, 200_000, [("all", "system calls", most, 0.04)], "128 B 1×100", ours=ours)


def g11():
    line = once(*US, SMALL)
    for side, name in (("srv", "server"), ("cli", "client")):
        yield Row("G11", f"allocations of the {name}, 128 B 1×100", line[f"{side}_allocs"], 3, 1)
        yield Row("G11", f"bytes allocated by the {name}, 128 B 1×100", line[f"{side}_bytes"], 128 + 256)


def streams(goal, cell, must, stretch, writes, ready):
    what = f"{cell['payload']} B × 128, 32 streams"
    yield from pair_against(goal, "tonic", cell, f"{what}, through a channel", must, stretch, secs=1)
    # What is left if HTTP/2, streams and the library cost nothing.
    yield from pair_against(goal, "tonic", cell, f"{what}, through a channel", ours="floor-stream-channel", pairs=4)
    if ready is not None:
        yield from pair_against(goal, "tonic", {**cell, "feed": "iter"}, f"{what}, ready at once", None, ready)
    yield from pair_against(goal, "grpc-go", cell, what, pairs=4, secs=2)
    yield from calls(goal, cell, 800, [("writes", "writes a message", *writes)], what, per=128)


def g12():
    yield from streams("G12", STREAM, 0.25, None, (0.008, None), 0.4)


def g13():
    yield from streams("G13", {**STREAM, "payload": 4096}, None, None, (0.13, 0.07), None)


def g15():
    archive = os.environ.get("TRIRPC_HPACK_VECTORS")
    for lists in ("plain", "request", "response", *(["corpus"] if archive else [])):
        for task in ("decode", "encode"):
            theirs, _ = counts.header_block("nghttp2", task, lists, archive)
            ours, line = counts.header_block("trirpc", task, lists, archive)
            yield Row("G15", f"{task} {lists}: instructions to libnghttp2's {number(theirs)}", ours / theirs, 1, 0.6, unit="×")
            if task == "decode":
                yield Row("G15", f"{task} {lists}: instructions", ours, None, 1200 if lists == "plain" else None)
                again = f"{task} {lists}: allocations a block of lists that go once more over the same connection"
                yield Row("G15", again, line["allocations_again"], 0)
                yield Row("G15", f"{task} {lists}: allocations a block, with those that fill the table", line["allocations"])
            elif lists == "corpus":
                yield Row("G15", "bytes a block of the corpus", line["wire_bytes"], 108)


def g16():
    for peer in ("trirpc", "tonic", "h2", "grpc-go"):
        (resident, heap), (called, _) = counts.connections(peer)
        must, stretch = (6, 3) if peer == "trirpc" else (None, None)
        if heap is not None:
            yield Row("G16", f"heap of an idle connection of {peer}'s server", heap / 1024, must, stretch, unit="KiB")
        yield Row("G16", f"resident memory of an idle connection of {peer}'s server", resident / 1024, unit="KiB")
        yield Row("G16", f"resident memory after a call of a connection of {peer}'s server", called / 1024, unit="KiB")
    for peer in ("trirpc", "tonic"):
        must, stretch = (1, 0.5) if peer == "trirpc" else (None, None)
        what = f"heap of a stream in flight of {peer}'s server, with its handler"
        yield Row("G16", what, counts.streams(peer) / 1024, must, stretch, unit="KiB")


def g18():
    run = subprocess.run([ROOT / "bench/wasm/run.sh"], capture_output=True, text=True, check=True)
    line = json.loads(run.stdout.splitlines()[-1])
    yield Row("G18", "µs a call in Node, both sides in wasm, 128 B", line["call_us"], 5, 2)


def g19():
    """Calls a CPU second beside the old grpc-go: 6 times as many are 1/6 of the CPU time a call."""
    for ours in ("trirpc", "trirpc-loop"):
        yield from pair_against("G19", "grpc-go-1.33", SMALL, "128 B 1×100", 1 / 6, 1 / 10, ours=ours)


def g21():
    for peer, must, stretch in (("grpc-go", 1 / 10, 1 / 15), ("dubbo-go", 1 / 80, 1 / 120)):
        yield from pair_against("G21", peer, SMALL, "128 B 1×100, one core each", must, stretch)
        yield from pair_against("G21", f"{peer}-free", SMALL, "128 B 1×100, two cores", must, stretch)
        yield from pair_against("G21", peer, SMALL, "128 B 1×100, one core each", must, stretch, ours="trirpc-loop")


def growth():
    """A call's instructions beside open streams, over memory, and beside other connections, over TCP."""
    run = subprocess.run([OURS / "trirpc-bench", "growth"], capture_output=True, text=True, check=True)
    for line in map(json.loads, run.stdout.splitlines()):
        yield Row("growth", line["what"], line["value"], line.get("must"))
    for side in ("server", "client"):
        first = None
        for connections in (1, 100, 1000):
            cell = {"payload": 128, "conns": connections, "conc": connections}
            each = counts.instructions(side, "trirpc", cell, (4000, 12000))
            first = first or each
            yield Row("growth", f"instructions of the {side}, TCP, {connections} connections, a call in flight on each", each)
            yield Row("growth", f"… beside those of one connection, {side}, {connections}", each / first, 1.1)


GOALS = {
    "G1": g1, "G2": g2, "G3": g3, "G4": g4, "G5": g5, "G6": g6, "G7": g7, "G7b": g7b, "G8": g8, "G9": g9, "G10": g10,
    "G11": g11, "G12": g12, "G13": g13, "G15": g15, "G16": g16, "G18": g18, "G19": g19, "G21": g21, "growth": growth,
}

# Those that no figure of this machine answers.
ELSEWHERE = {
    "G14": "cargo test -p trirpc-tests: tests whose documentation names G14",
    "G17": "not measured: the client for the web is not there yet",
    "G20": "cargo test -p trirpc-tests --test malformed",
}
