"""What the rounds of a trial say: medians over rounds with intervals, and the paired gain of one policy over others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.trial.work import Ran

RESAMPLES, SEED = 4000, 7
SHOWN = ("mean_turnaround_s", "makespan_s", "mean_wait_s", "longest_wait_s")
LEAST_ROUNDS = 3  # fewer have no interval
Figures = dict[str, float]
Rounds = Mapping[str, Sequence[Figures]]  # by policy, one per round


class Spread(NamedTuple):
    """A median over rounds with its 95 % interval; None: too few rounds."""

    median: float
    low: float | None
    high: float | None

    def text(self, unit: str = "") -> str:
        """Return it for people."""
        if self.low is None:
            return f"{self.median:.1f}{unit}"
        return f"{self.median:.1f}{unit} ({self.low:.1f} to {self.high:.1f})"


def figures(ran: Sequence[Ran]) -> Figures:
    """Return what one round under one policy came to."""
    waits = [one.start_s - one.submit_s for one in ran]
    return {
        "mean_turnaround_s": statistics.fmean(one.end_s - one.submit_s for one in ran),
        "makespan_s": max(one.end_s for one in ran) - min(one.submit_s for one in ran),
        "mean_wait_s": statistics.fmean(waits),
        "longest_wait_s": max(waits),
    }


def spread(values: Sequence[float]) -> Spread:
    """Return the median with a bootstrap interval over rounds."""
    middle = statistics.median(values)
    if len(values) < LEAST_ROUNDS:
        return Spread(middle, None, None)
    rng = np.random.default_rng(SEED)
    drawn = np.median(np.asarray(values)[rng.integers(0, len(values), (RESAMPLES, len(values)))], axis=1)
    return Spread(middle, float(np.quantile(drawn, 0.025)), float(np.quantile(drawn, 0.975)))


def gain_pct(rounds: Rounds, ours: str, other: str, figure: str) -> Spread:
    """Return by how many percent ours is shorter, round by round: the same jobs, one after the other."""
    pairs = zip(rounds[ours], rounds[other], strict=True)
    return spread([100.0 * (1.0 - mine[figure] / theirs[figure]) for mine, theirs in pairs])


def sentence(rounds: Rounds, ours: str, other: str) -> str:
    """Return what is shown about the mean turnaround, or that nothing is."""
    found, count = gain_pct(rounds, ours, other, "mean_turnaround_s"), len(rounds[ours])
    said = f"against {other}, {ours} {'shortens' if found.median >= 0.0 else 'lengthens'} the mean turnaround by "
    said += f"{abs(found.median):.1f} %"
    if found.low is None or found.high is None:
        return f"{said}; {count} rounds are too few for an interval"
    low, high = sorted((found.low, found.high)) if found.median >= 0.0 else sorted((-found.low, -found.high))
    shown = "show it" if low > 0.0 else "show no difference"
    return f"{said} ({low:.1f} to {high:.1f}): {count} rounds {shown}"


def document(rounds: Rounds, ours: str) -> dict[str, Any]:
    """Return everything as plain data."""
    policies = {
        name: {figure: spread([one[figure] for one in each])._asdict() for figure in SHOWN} | {"rounds": list(each)}
        for name, each in rounds.items()
    }
    others = [name for name in rounds if name != ours] if ours in rounds else []
    gains = {
        name: {figure: gain_pct(rounds, ours, name, figure)._asdict() for figure in SHOWN[:2]} for name in others
    }
    return {"policies": policies, "gain_percent": gains}


def lines(rounds: Rounds, ours: str) -> list[str]:
    """Return a table, and a sentence about each other policy."""
    heads = ("mean turnaround s", "all done after s", "mean wait s", "longest wait s")
    found = [f"{'policy':<10}" + "".join(f"{head:>26}" for head in heads)]
    for name, each in rounds.items():
        cells = (spread([one[figure] for one in each]).text() for figure in SHOWN)
        found.append(f"{name:<10}" + "".join(f"{cell:>26}" for cell in cells))
    others = [name for name in rounds if name != ours] if ours in rounds else []
    return [*found, *(sentence(rounds, ours, other) for other in others)]
