"""The Trinity trace, as in Spread-n-Share's Fig. 20, against CE with EASY backfilling: the baseline a site would have.

Machines, filter and programs are those of `reproduce sns`. Draws differ in the programs of the jobs; the whole nodes of
CE-EASY are the same in all of them, so it is run once per machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cohabit.report.intervals import bootstrap_interval
from cohabit.reproduce.joint.plan import FULL, LARGE_MACHINES, OURS, Plan
from cohabit.reproduce.plans import SHARED
from cohabit.reproduce.rows import Expected, Row, contract, expected, joined, missing, row
from cohabit.reproduce.sns.lab import PLAIN, Strategy
from cohabit.reproduce.sns.trinity import FILE, RATIOS, Point, run, trace_file
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

MACHINE = 4096
EASY = "ce-easy"
BESIDE = ("cs", "sns")  # beside ours at every ratio, on fewer draws
Measure = Callable[[Point, Point], float | None]  # of CE-EASY and another


def machines(plan: Plan) -> dict[int, int]:
    """Return the draws of every machine; the larger ones are left out in quick runs."""
    sizes = plan.sizes
    return {MACHINE: sizes.trinity_draws} | {nodes: sizes.large_draws for nodes in LARGE_MACHINES if sizes.large_draws}


def runs(plan: Plan) -> list[tuple[int, str | Strategy, float | None, int]]:
    """Return every run: nodes, strategy, ratio and number of the draw."""
    found: list[tuple[int, str | Strategy, float | None, int]] = []
    for nodes, draws in machines(plan).items():
        found += [(nodes, name, None, 0) for name in (EASY, "ce")]
        for ratio in RATIOS:
            found += [(nodes, OURS, ratio, number) for number in range(draws)]
            beside = min(draws, plan.sizes.beside_draws)
            found += [(nodes, name, ratio, number) for name in BESIDE for number in range(beside)]
    return found


def tasks(plan: Plan) -> list[Task]:
    """Every machine, ratio and draw; nothing where the trace is not there."""
    path, jobs, found = trace_file(plan.options.shared), plan.sizes.trinity_jobs, []
    for nodes, strategy, ratio, number in runs(plan) if path is not None else ():
        arguments = {
            "bench": replace(plan.bench, processes=28),
            "path": str(path),
            "by": "cores",
            "jobs": jobs,
            "nodes": nodes,
            "strategy": strategy,
            "ratio": ratio,
            "seed": int(stream(plan.seed("trinity"), f"draw {number}").integers(0, 2**40)),
            "conditions": PLAIN,
        }
        cost = (jobs or 9500) / (100 if ratio else 5000)
        found.append(Task(_key(nodes, strategy, ratio, number), run, arguments, cost))
    return found


def _key(nodes: int, strategy: str | Strategy, ratio: float | None, number: int) -> str:
    name = strategy if isinstance(strategy, str) else strategy.name
    return f"trinity {nodes} {name} {ratio} {number}"


def points(results: dict[str, Any], nodes: int, strategy: str, ratio: float | None) -> list[Point]:
    """Return one point per draw."""
    found, number = list[Point](), 0
    while (key := _key(nodes, strategy, ratio, number)) in results:
        found.append(results[key])
        number += 1
    return found


def gain_pct(easy: Point, one: Point) -> float | None:
    """Mean turnaround of CE-EASY over another's, in percent."""
    return 100 * (easy["turnaround"] / one["turnaround"] - 1)


def longest_x(easy: Point, one: Point) -> float | None:
    """Return the longest wait against CE-EASY's; None where no job waits under it."""
    return one["longest"] / easy["longest"] if easy["longest"] > 1 else None


def beyond_pct(easy: Point, one: Point) -> float | None:
    """Return the share of runs beyond 1.1 times the run of the trace, in percent."""
    return 100 * one["beyond"]


def compared(
    results: dict[str, Any], measure: Measure, nodes: int, strategy: str, ratio: float | None
) -> list[float | None]:
    """Return a measure against CE-EASY, draw by draw."""
    (easy,) = points(results, nodes, EASY, None)
    return [measure(easy, one) for one in points(results, nodes, strategy, ratio)]


MEAN_GAINS = {"J.trinity_4k_09_turnaround_gain_pct": 0.9, "J.trinity_4k_05_turnaround_gain_pct": 0.5}
LONGEST = "J.trinity_4k_longest_wait_ratio"


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, then every strategy on every machine; without the trace, rows that say where to put it."""
    names = [name for name in contract() if name.startswith("J.trinity")]
    if trace_file(plan.options.shared) is None:
        why = f"the Trinity trace is not here: put {FILE} into a folder and name the folder in {SHARED}"
        return [missing(expected(name), why) for name in names]
    sizes = plan.sizes
    size = joined(
        f"quick: {sizes.trinity_jobs} jobs in a row from the middle of the trace" if sizes.trinity_jobs else "",
        plan.shortened(sizes.trinity_draws, FULL.trinity_draws, "draws"),
    )
    ours = OURS.name
    found = [
        _row(plan, expected(name), compared(results, gain_pct, MACHINE, ours, ratio), size)
        for name, ratio in MEAN_GAINS.items()
    ]
    ratios = [value for value in compared(results, longest_x, MACHINE, ours, 0.9) if value is not None]
    found.append(_median_row(plan, expected(LONGEST), ratios, size))
    for nodes in machines(plan):
        for name in (ours, *BESIDE):
            for ratio in RATIOS:
                found += _beside(plan, results, nodes, name, ratio, size)
        found += _beside(plan, results, nodes, "ce", None, size)
    return found


MEASURES: dict[str, tuple[str, Measure]] = {
    "gain_pct": ("turnaround of CE-EASY over that of", gain_pct),
    "longest_wait_x": ("longest wait against CE-EASY's of", longest_x),
    "violations_pct": ("runs beyond 1.1 times the trace's of", beyond_pct),
}


def _beside(
    plan: Plan, results: dict[str, Any], nodes: int, strategy: str, ratio: float | None, size: str
) -> list[Row]:
    where = f"Trinity, {nodes:,} nodes" + ("" if ratio is None else f", ratio {ratio:g}")
    tag = f"{nodes // 1024}k" + ("" if ratio is None else f"_{round(10 * ratio):02d}")
    found = []
    for key, (words, measure) in MEASURES.items():
        about = Expected(f"J-trinity.{strategy}_{tag}_{key}", f"{words} {strategy}, {where}")
        values = compared(results, measure, nodes, strategy, ratio)
        single = ", ".join("-" if value is None else f"{value:.2f}" for value in values) if len(values) > 1 else ""
        found.append(_row(plan, about, values, joined(f"by draw: {single}" if single else "", size)))
    return found


def _row(plan: Plan, about: Expected, values: list[float | None], note: str) -> Row:
    known = bootstrap_interval(values, plan.resampling(about.id))
    return row(about, known.mean, note, interval=(known.low, known.high), n_seeds=known.repeats)


def _median_row(plan: Plan, about: Expected, values: list[float], note: str) -> Row:
    """A median over draws, with a bootstrap interval."""
    if not values:
        return missing(about, joined("no job waits under CE-EASY", note))
    rng, known = plan.resampling(about.id), np.array(values)
    drawn = np.median(known[rng.integers(0, len(known), (500, len(known)))], axis=1)
    low, high = (float(value) for value in np.quantile(drawn, (0.025, 0.975)))
    interval = (low, high) if len(values) > 1 else (None, None)
    return row(about, float(np.median(known)), note, interval=interval, n_seeds=len(values))
