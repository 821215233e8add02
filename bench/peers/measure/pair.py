"""Paired runs: the only base for a claim about CPU time on a machine that others use as well.

Runs A B B A B A A B ...; each pair gives one ratio (or difference) of B to A. The median is given with a bootstrapped
95 % interval. What holds for the whole interval holds.
"""

import random
import statistics

from .programs import once

FIGURES = {
    "server": lambda line: line["srv_cpu_us"],
    "client": lambda line: line["cli_cpu_us"],
    "both": lambda line: line["srv_cpu_us"] + line["cli_cpu_us"],
    "p50": lambda line: line["p50_us"],
}


class Pairs:
    """The lines of pairs of runs: `(a, b)` each."""

    def __init__(self, pairs):
        self.pairs = pairs

    def ratio(self, figure):
        """B/A: median and interval."""
        of = FIGURES[figure]
        return _interval([of(b) / of(a) for a, b in self.pairs])

    def difference(self, figure):
        """B-A: median and interval."""
        of = FIGURES[figure]
        return _interval([of(b) - of(a) for a, b in self.pairs])

    def median(self, figure, which):
        """The figure itself, of `a` (0) or `b` (1)."""
        of = FIGURES.get(figure, lambda line: line[figure])
        return statistics.median(of(pair[which]) for pair in self.pairs)


def _interval(values):
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(values, k=len(values))) for _ in range(4000))
    return statistics.median(values), medians[100], medians[3899]


def measure(a, b, cell, pairs=8, secs=0.5):
    """`a` and `b` are `(server, client)` by name."""
    found = []
    for at in range(pairs):
        order = (1, 0) if at % 4 in (1, 2) else (0, 1)
        lines = {}
        for which in order:
            lines[which] = once(*(a, b)[which], cell, secs)
        found.append((lines[0], lines[1]))
    return Pairs(found)
