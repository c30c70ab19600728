#!/usr/bin/env python3
"""Print the slowdown of the small machine by itself when its jobs had one more property (docs/papers/coscheduling.md).

The paper's base values are 1.7, 12.5 and 37.1 at a load of 0.25, 0.5 and 0.75. Nothing here changes the generator: its
numbers were fixed before anything coupled was run. With the log of ThetaGPU as an argument, print how its days vary.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from cohabit.app.scenario.tables import ClusterConfig, PolicyConfig, Scenario
from cohabit.app.simulate import simulation
from cohabit.model.units import DAY
from cohabit.model.workload import Workload
from cohabit.report.metrics import summarise
from cohabit.sim.streams import stream
from cohabit.trace import coupled_machines as machines

LOADS, SEEDS = (0.25, 0.5, 0.75), range(1, 9)
NARROW = {1: 0.3, 2: 0.2, 4: 0.2, 8: 0.15, 16: 0.1, 25: 0.03, 32: 0.02}
WIDE = {1: 0.1, 2: 0.1, 4: 0.12, 8: 0.16, 16: 0.18, 25: 0.1, 32: 0.12, 50: 0.06, 64: 0.03, 100: 0.03}
Change = Callable[[Workload], Workload]


def jobs(seed: int, load: float, sizes: dict[int, float] | None, early: float) -> Workload:
    """Jobs of the small machine, with other sizes or another share that ends early."""
    kept = machines.SMALL_SIZES, machines.SMALL
    try:
        machines.SMALL_SIZES, machines.SMALL = sizes or kept[0], replace(kept[1], early_share=early)
        return machines.generate_eureka(stream(seed, "eureka"), load=load)
    finally:
        machines.SMALL_SIZES, machines.SMALL = kept


def busy_spells(days: int, part: float) -> Change:
    """Submit all jobs in the first part of every so many days."""

    def change(workload: Workload) -> Workload:
        since, period = workload.submit_us - workload.submit_us.min(), days * DAY
        inside = np.rint((since % period) * part).astype(np.int64)
        return replace(workload, submit_us=workload.submit_us.min() + since // period * period + inside)

    return change


def slowdown(workload: Workload) -> float:
    """The mean slowdown under WFP with EASY."""
    scenario = Scenario(cluster=ClusterConfig(nodes=100), policy=PolicyConfig(order="wfp", backfill="easy"))
    table, _ = simulation.run(simulation.prepare(scenario, workload), record_nodes=False)
    return float(summarise(table)["mean_slowdown"] or 0.0)


def same(workload: Workload) -> Workload:
    """No change."""
    return workload


def line(name: str, sizes: dict[int, float] | None = None, early: float = 0.5, change: Change = same) -> None:
    """Print the mean over seeds at every load."""
    found = [np.mean([slowdown(change(jobs(seed, load, sizes, early))) for seed in SEEDS]) for load in LOADS]
    print(f"{name:48}" + "".join(f"{one:8.1f}" for one in found), flush=True)


def days_of(name: str, workload: Workload) -> None:
    """Print how the work submitted varies from day to day, and how alike neighbouring days are."""
    day = (workload.submit_us - workload.submit_us.min()) // DAY
    work = np.bincount(day, weights=workload.run_us.clip(0) * workload.processes / 1e6)
    alike = [float(np.corrcoef(work[:-apart], work[apart:])[0, 1]) for apart in (1, 2, 3)]
    print(f"{name}: deviation of a day's work over its mean {work.std() / work.mean():.2f}", end="")
    print("; correlation of days 1, 2 and 3 apart " + ", ".join(f"{one:.2f}" for one in alike))


def main(arguments: list[str]) -> None:
    """Every property by itself, then together."""
    print(f"{'load':48}" + "".join(f"{load:8.2f}" for load in LOADS))
    line("as generated")
    line("70 % of jobs end early instead of 50 %", early=0.7)
    line("85 % of jobs end early", early=0.85)
    line("twice as many wide jobs", WIDE)
    line("narrow jobs only", NARROW)
    line("all submitted in 8 hours of a day", change=busy_spells(1, 1 / 3))
    line("all submitted in half of every week", change=busy_spells(7, 1 / 2))
    line("narrow, half of every week", NARROW, change=busy_spells(7, 1 / 2))
    days_of("as generated", jobs(1, 0.5, None, 0.5))
    if arguments:
        from cohabit.trace.catalogue import READERS

        days_of("log", READERS["lumos"](Path(arguments[0])))


if __name__ == "__main__":
    main(sys.argv[1:])
