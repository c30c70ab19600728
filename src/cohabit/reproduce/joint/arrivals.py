"""Jobs that arrive over time at load 0.7, 0.9 and 1.1, with the estimates of real users, against CE with EASY.

Eight nodes, programs drawn evenly, six jobs of ten on one node and four of ten on two to five. Phases and 5 % profile
error. Requests follow one log per workload (estimates.py). Load is work under CE over what the nodes can do between the
first and the last submission.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohabit.model.program import Program
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.report.paper_metrics import alpha_violations
from cohabit.reproduce.joint.estimates import requests_s, table
from cohabit.reproduce.joint.plan import FULL, MEASURED, OTHERS, OURS, Plan
from cohabit.reproduce.rows import Claim, Row, joined, own, stated
from cohabit.reproduce.sns.lab import NODES, Bench, Strategy, simulate, times_of
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream
from cohabit.trace.synthetic import arrivals_us, synthetic_workload

LOADS = (0.7, 0.9, 1.1)
NARROW, WIDE = (16, 28), (32, 64, 128)  # processes: on one node, and on two, three and five
WIDE_SHARE = 0.4
EASY = "ce-easy"
STRATEGIES = (*OTHERS, OURS)
RUN_S = 0.6  # roughly, for 100 jobs


@dataclass(frozen=True)
class Figures:
    """One workload under one strategy."""

    wait_s: float
    longest_wait_s: float
    turnaround_s: float
    violations_pct: float


Member = dict[float, dict[str, Figures]]  # load -> strategy -> figures
Members = Sequence[Member]
Measure = Callable[[Members, str, float], float]


def generate(rng: np.random.Generator, bench: Bench, jobs: int, load: float, log: str) -> Workload:
    """Jobs of random programs and widths with Poisson arrivals, and requests as the users of a log make them."""
    programs, node = bench.programs, bench.node
    names = list(programs)
    chosen = rng.integers(0, len(names), jobs)
    wide = rng.random(jobs) < WIDE_SHARE
    places = rng.random(jobs)
    processes = np.array(
        [_processes(programs[names[c]], bool(w), float(p)) for c, w, p in zip(chosen, wide, places, strict=True)]
    )
    pairs = zip(chosen, processes, strict=True)
    run_s = np.array([programs[names[c]].exclusive_time_s(int(count), node) for c, count in pairs])
    nodes = -(-processes // node.cores)
    whole_s = np.ceil(run_s).astype(np.int64)
    submit_us = arrivals_us(rng.exponential(1.0, jobs), whole_s, nodes, NODES, load)
    return synthetic_workload(
        submit_us,
        np.rint(run_s * SECOND).astype(np.int64),
        np.rint(requests_s(rng, run_s, log) * SECOND).astype(np.int64),
        processes,
        nodes=NODES,
        program=chosen.astype(np.int32),
        program_names=tuple(names),
        source=f"Poisson arrivals of {jobs} jobs at load {load:g}, requests as in {log}",
    )


def _processes(program: Program, wide: bool, place: float) -> int:
    able: tuple[int, ...] = WIDE if wide and not program.single_node else NARROW
    if program.power_of_two_only:
        able = tuple(count for count in able if count & (count - 1) == 0)
    return able[int(place * len(able))]


def run(
    bench: Bench,
    seed: int,
    number: int,
    jobs: int,
    loads: Sequence[float] = LOADS,
    strategies: Sequence[str | Strategy] = STRATEGIES,
) -> Member:
    """One workload at every load under every strategy; runs in a worker."""
    logs = sorted(table())
    found: Member = {}
    for load in loads:
        workload = generate(stream(seed, f"arrivals {number}"), bench, jobs, load, logs[number % len(logs)])
        world_seed = int(stream(seed, f"arrivals world {number}").integers(0, 2**40))
        found[load] = {}
        for one in strategies:
            times = times_of(simulate(bench, one, workload, MEASURED, seed=world_seed))
            assert times.finished, "a job did not finish"
            found[load][one if isinstance(one, str) else one.name] = Figures(
                float(times.wait_s.mean()),
                float(times.wait_s.max()),
                float(times.turnaround_s.mean()),
                100 * float(alpha_violations(times.run_s, workload.run_us / SECOND).mean()),
            )
    return found


def tasks(plan: Plan) -> list[Task]:
    """One task per workload."""
    sizes, seed = plan.sizes, plan.seed("arrivals")
    cost = RUN_S * len(LOADS) * len(STRATEGIES) * sizes.arrival_jobs / 100
    return [
        Task(
            f"arrivals {number}",
            run,
            {"bench": plan.bench, "seed": seed, "number": number, "jobs": sizes.arrival_jobs},
            cost,
        )
        for number in range(sizes.arrival_sets * sizes.arrivals)
    ]


def gathered(plan: Plan, results: dict[str, Any]) -> list[list[Member]]:
    """The workloads by set."""
    each, sets = plan.sizes.arrivals, plan.sizes.arrival_sets
    return [[results[f"arrivals {each * one + number}"] for number in range(each)] for one in range(sets)]


def excess_s(members: Members, strategy: str, load: float) -> float:
    """Return by how much longer the mean wait is than under CE-EASY."""
    return float(np.mean([one[load][strategy].wait_s - one[load][EASY].wait_s for one in members]))


def worst_excess_s(members: Members) -> float:
    """Return the largest of the loads' excesses."""
    return max(excess_s(members, OURS.name, load) for load in LOADS)


def gain_pct(members: Members, strategy: str, load: float) -> float:
    """Mean turnaround of CE-EASY over a strategy's, in percent."""
    return float(
        np.mean([100 * (one[load][EASY].turnaround_s / one[load][strategy].turnaround_s - 1) for one in members])
    )


def violations_pct(members: Members, strategy: str, load: float) -> float:
    """Return the share of runs beyond 1.1 times the exclusive run."""
    return float(np.mean([one[load][strategy].violations_pct for one in members]))


def longest_x(members: Members, strategy: str, load: float) -> float:
    """Return the longest wait against CE-EASY's, summed over workloads."""
    ours, theirs = (sum(one[load][name].longest_wait_s for one in members) for name in (strategy, EASY))
    return ours / max(theirs, 1.0)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, then every strategy at every load."""
    sets, sizes = gathered(plan, results), plan.sizes
    size = joined(
        plan.shortened(len(sets), FULL.arrival_sets, "seeds"),
        plan.shortened(sizes.arrival_jobs, FULL.arrival_jobs, "jobs"),
    )
    whole = [member for members in sets for member in members]
    said = ", ".join(f"{excess_s(whole, OURS.name, load):+.0f} s at load {load:g}" for load in LOADS)
    claims = [stated("J.arrivals_wait_excess_worst_s", worst_excess_s, f"mean wait less CE-EASY's: {said}")]
    for load in LOADS:
        for name in ("ce", "cs", "sns", OURS.name):
            claims += _beside(name, load)
    return [plan.measured(one, sets, size) for one in claims]


MEASURES: dict[str, tuple[str, Measure]] = {
    "wait_excess_s": ("mean wait less CE-EASY's", excess_s),
    "gain_pct": ("mean turnaround of CE-EASY over its own", gain_pct),
    "longest_wait_x": ("longest wait against CE-EASY's", longest_x),
    "violations_pct": ("runs beyond 1.1x alone", violations_pct),
}


def _beside(name: str, load: float) -> list[Claim]:
    """Return what is reported of every strategy."""

    def at_load(measure: Measure) -> Callable[[Members], float]:
        return lambda members: measure(members, name, load)

    tag, where = f"J-arrivals.{name}_{round(10 * load):02d}", f"arrivals at load {load:g}, {name}"
    return [own(f"{tag}_{key}", f"{where}: {words}", at_load(of)) for key, (words, of) in MEASURES.items()]
