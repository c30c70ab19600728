"""Experiment 7 (Fig. 19): 30 jobs of 28 processes, BW (scaling) and HC (neutral), in eleven proportions.

The scaling ratio is the share of core-hours (S66), so eleven ratios from 0 to 1 need other numbers of jobs than the
same eleven shares of the jobs; those are run as well and reported beside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cohabit.model.profile import NEUTRAL, SCALING, classify
from cohabit.model.program import profile_of
from cohabit.reproduce.rows import Expected, Row, expected, joined, row, row_over_sets
from cohabit.reproduce.sns.lab import Bench, simulate, times_of
from cohabit.reproduce.sns.plan import FULL, Plan
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream
from cohabit.trace.mix import ratio_mix, scaling_ratio

JOBS, PROCESSES = 30, 28
RATIOS = tuple(number / 10 for number in range(11))
MIDDLE = (0.35, 0.85)
Point = dict[str, float]


def pair(bench: Bench) -> tuple[str, str]:
    """A scaling and a neutral program: BW and HC, or the most bandwidth-hungry and the calmest of hidden ones."""
    if "BW" in bench.programs and "HC" in bench.programs:
        return "BW", "HC"
    kinds = {name: classify(profile_of(one, bench.node)).kind for name, one in bench.programs.items()}

    def gbs(name: str) -> float:
        return bench.programs[name].bandwidth_gbs.values[-1]

    flexible = [name for name in kinds if not bench.programs[name].single_node]
    return (
        max((name for name in flexible if kinds[name] == SCALING), key=gbs),
        min((name for name in flexible if kinds[name] == NEUTRAL), key=gbs),
    )


def shares_for(bench: Bench) -> dict[float, float]:
    """For each ratio of core-hours, the share of the jobs that comes nearest to it."""
    scaling, other = pair(bench)
    long, short = (bench.programs[name].exclusive_time_s(PROCESSES, bench.node) for name in (scaling, other))
    counts = np.arange(JOBS + 1)
    ratios = counts * long / (counts * long + (JOBS - counts) * short)
    return {ratio: float(counts[np.abs(ratios - ratio).argmin()]) / JOBS for ratio in RATIOS}


def run(bench: Bench, seed: int, number: int, by_jobs: bool) -> list[Point]:
    """One order of every mix; runs in a worker."""
    scaling, other = pair(bench)
    found = []
    for ratio, share in (shares_for(bench) if not by_jobs else dict(zip(RATIOS, RATIOS, strict=True))).items():
        rng = stream(seed, f"mix {ratio} {number}")
        jobs = ratio_mix(rng, bench.programs, share, scaling=scaling, other=other, jobs=JOBS, processes=PROCESSES)
        tables = {policy: simulate(bench, policy, jobs, seed=seed) for policy in ("ce", "sns")}
        ce, sns = (times_of(tables[policy]) for policy in ("ce", "sns"))
        same = bool(
            (tables["ce"].start_us == tables["sns"].start_us).all()
            and (tables["ce"].end_us == tables["sns"].end_us).all()
        )
        found.append(
            {
                "ratio": ratio,
                "real_ratio": scaling_ratio(jobs, bench.programs, bench.node),
                "same": float(same),
                "run": float(sns.run_s.mean() / ce.run_s.mean()),
                "wait": float(sns.wait_s.mean() / ce.wait_s.mean()),
                "turnaround": float(sns.turnaround_s.mean() / ce.turnaround_s.mean()),
            }
        )
    return found


def tasks(plan: Plan) -> list[Task]:
    """As many orders as there are seeds, by core-hours and by jobs."""
    return [
        Task(
            f"mixes {name} {number}",
            run,
            {"bench": plan.bench, "seed": plan.seed("mixes"), "number": number, "by_jobs": name == "jobs"},
            2.0,
        )
        for name in ("core-hours", "jobs")
        for number in range(plan.sizes.shuffles)
    ]


def points(plan: Plan, results: dict[str, Any], name: str = "core-hours") -> list[list[Point]]:
    """One list of eleven mixes per order."""
    return [results[f"mixes {name} {number}"] for number in range(plan.sizes.shuffles)]


def average(sets: list[list[Point]], key: str) -> dict[float, float]:
    """By ratio, the mean over the orders."""
    return {ratio: float(np.mean([members[place][key] for members in sets])) for place, ratio in enumerate(RATIOS)}


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The shape of Fig. 19."""
    sets = points(plan, results)
    size = plan.shortened(len(sets), FULL.shuffles, "orders of each mix")
    rng = plan.resampling("mixes")
    waits, turnarounds, runs = (average(sets, key) for key in ("wait", "turnaround", "run"))
    by_jobs = average(points(plan, results, "jobs"), "wait")
    mid_by_jobs = _middle_mean(average(points(plan, results, "jobs"), "turnaround"))
    curve = ", ".join(f"{ratio:g}: {value:.2f}" for ratio, value in waits.items())
    wrapped = [[members] for members in sets]  # an order of the eleven mixes is one member
    best = min(waits, key=lambda ratio: waits[ratio])
    better = sum(waits[r] < 1 and turnarounds[r] < 1 and runs[r] < 1 for r in RATIOS if r > 0)
    run_1 = "mean run time ratio to CE where all jobs scale (falls with the ratio)"
    wait_1 = "mean wait ratio to CE where all jobs scale: rising again after the minimum"
    rise = "wait ratio at 1 minus the smallest: fragmentation (S70), reported as it is"
    all_better = "ratios above 0 where run, wait and turnaround all beat CE (of 10)"
    least_by_jobs = f"by shares of jobs: minimum at {min(by_jobs, key=lambda r: by_jobs[r]):g}"
    found = [
        row(expected("S60.equal_at_ratio_0"), min(members[0]["same"] for members in sets), size, n_seeds=len(sets)),
        row_over_sets(
            expected("S60.turnaround_mid"),
            wrapped,
            lambda one: _middle_mean({point["ratio"]: point["turnaround"] for point in one[0]}),
            rng,
            joined(f"by shares of jobs instead of core-hours: {mid_by_jobs:.2f}", size),
        ),
        row(
            expected("S60.wait_minimum_at"),
            best,
            joined(f"wait by ratio {curve}", least_by_jobs, size),
            interval=_argmin_interval(sets, rng),
            n_seeds=len(sets),
        ),
    ]
    ours: list[tuple[Expected, Callable[[Any], float]]] = [
        (Expected("S60.run_at_1", run_1, None, None, 1.0), lambda one: one[0][-1]["run"]),
        (Expected("S60.wait_at_1", wait_1), lambda one: one[0][-1]["wait"]),
        (
            Expected("S60.wait_rise_points", rise, None, 0.0),
            lambda one: 100 * (one[0][-1]["wait"] - min(point["wait"] for point in one[0])),
        ),
    ]
    found += [row_over_sets(about, wrapped, statistic, rng, size) for about, statistic in ours]
    most = Expected("S60.ratios_better_in_all", all_better, None, 6, 10)
    return [*found, row(most, better, joined("the paper: most of the range", size), n_seeds=len(sets))]


def _middle_mean(values: dict[float, float]) -> float:
    return float(np.mean([value for ratio, value in values.items() if MIDDLE[0] <= ratio <= MIDDLE[1]]))


def _argmin_interval(sets: list[list[Point]], rng: np.random.Generator) -> tuple[float | None, float | None]:
    if len(sets) < 2:
        return None, None
    places = []
    for _ in range(1000):
        drawn = [sets[int(i)] for i in rng.integers(0, len(sets), len(sets))]
        curve = average(drawn, "wait")
        places.append(min(curve, key=lambda ratio: curve[ratio]))
    low, high = np.quantile(places, (0.025, 0.975))
    return float(low), float(high)
