"""One case: two machines with their jobs, the mates, a scheme on each side, and the results in numbers.

The jobs of a seed are the same under all schemes. Nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cohabit.app.scenario.tables import ClusterConfig, CouplingConfig, DomainConfig, JobsConfig, PolicyConfig, Scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.coupling import CoupledRun, PreparedDomains, prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import metrics_of
from cohabit.app.simulate.coupling_scenario import domain_scenario
from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import DAY, HOUR, SECOND
from cohabit.model.workload import Workload
from cohabit.report.mates import groups_together, has_mates
from cohabit.reproduce.coscheduling.filled import counted, from_filled_machines, stretch_of
from cohabit.sim.streams import stream
from cohabit.trace.coupled_machines import (
    EUREKA_LOAD,
    EUREKA_NODES,
    INTREPID_JOBS,
    INTREPID_LOAD,
    INTREPID_NODES,
    SMALLEST_JOB,
    generate_eureka,
    generate_intrepid,
    scaled_to_load,
    within,
)
from cohabit.trace.pairing import Tie, by_proportion, by_vicinity

LARGE, SMALL = "intrepid", "eureka"
MACHINES = (LARGE, SMALL)
SCHEME_OF = {"H": "hold", "Y": "yield", "A": "agree"}
VICINITY_S = 120.0  # C21
UNCOUPLED = "base"
OWN, LUBLIN = "own", "lublin"  # arrivals and run times
KEPT = (
    "mean_wait_s", "mean_slowdown", "mean_bounded_slowdown", "utilisation", "jobs_ran", "jobs_total", "mates_total",
    "mates_started", "mean_sync_s", "max_sync_s", "held_node_hours", "held_share", "yields", "mean_wait_mates_s",
    "mean_wait_others_s", "mean_slowdown_others",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """A case; either a load of the small machine (pairs by vicinity) or a proportion (pairs by number)."""

    seed: int
    jobs: int
    schemes: str  # the large machine's letter, then the small one's; anything else: uncoupled
    load: float = 0.0
    proportion: float = 0.0
    release: bool = True
    bounded_hold_s: float = 0.0
    small_backfill: str = "easy"  # "first-fit": as in the paper's simulator (K13)
    source: str = OWN
    filled: bool = False  # a stretch of a month, from filled machines on; else from empty ones

    @property
    def coupled(self) -> bool:
        """Return whether the machines are coupled."""
        return set(self.schemes) <= set(SCHEME_OF)


Outcome = dict[str, Any]  # "intrepid" and "eureka" -> metrics; "coupling" -> groups and deadlock


def workloads(cell: Cell) -> dict[str, Workload]:
    """Return the jobs of both machines, over the same span."""
    if cell.filled:
        months = months_of(cell)
        jobs = {name: table.workload for name, table in months.items()}
        pairs: list[Tie] = []
        if cell.coupled:
            near_us = round(VICINITY_S * SECOND)
            pairs = by_proportion(jobs, cell.proportion) if cell.proportion else by_vicinity(jobs, near_us)
        return from_filled_machines(months, stretch_of(jobs[LARGE], cell.jobs), pairs)
    if cell.source == LUBLIN:
        return _lublin(cell)
    large = generate_intrepid(stream(cell.seed, LARGE), cell.jobs)
    span_days = int(large.submit_us[-1] - large.submit_us[0]) / DAY
    rng = stream(cell.seed, SMALL)
    if cell.proportion:
        return {LARGE: large, SMALL: generate_eureka(rng, cell.jobs, load=EUREKA_LOAD, span_days=span_days)}
    return {LARGE: large, SMALL: generate_eureka(rng, load=cell.load, span_days=span_days)}


def months_of(cell: Cell) -> dict[str, RunTable]:
    """Return the month from which a cell takes its stretch, every machine by itself."""
    month = replace(cell, jobs=INTREPID_JOBS, schemes=UNCOUPLED, filled=False)
    return alone(replace(month, release=True, bounded_hold_s=0.0))  # one month for all schemes


@lru_cache(maxsize=16)
def alone(cell: Cell) -> dict[str, RunTable]:
    """Simulate every machine of a case by itself, without the others."""
    return _tables_apart(scenario_of(cell), workloads(cell))


def _lublin(cell: Cell) -> dict[str, Workload]:
    """Other arrivals, sizes and run times: Lublin and Feitelson's for 80 and 100 nodes, scaled to the same loads."""
    from cohabit.trace.lublin import generate_lublin

    racks = INTREPID_NODES // SMALLEST_JOB
    large = generate_lublin(stream(cell.seed, LARGE), cell.jobs, racks, load=INTREPID_LOAD)
    large = replace(large, processes=large.processes * SMALLEST_JOB, max_nodes=INTREPID_NODES, max_procs=INTREPID_NODES)
    span_us = int(large.submit_us[-1])
    small = generate_lublin(stream(cell.seed, SMALL), cell.jobs, EUREKA_NODES)
    small = scaled_to_load(small, EUREKA_NODES, cell.load)
    return {LARGE: large, SMALL: within(small, 0, span_us)}


def scenario_of(cell: Cell) -> Scenario:
    """Return the case as a scenario; its jobs are generated separately."""
    letters = cell.schemes if cell.coupled else "YY"
    backfills = {LARGE: "easy", SMALL: cell.small_backfill}
    nodes = {LARGE: INTREPID_NODES, SMALL: EUREKA_NODES}
    domains = [
        DomainConfig(
            name,
            ClusterConfig(nodes=nodes[name]),
            JobsConfig(generator=name),
            PolicyConfig(order="wfp", backfill=backfills[name]),
            scheme=SCHEME_OF[letter],
            release_s=1200.0 if cell.release else 0.0,
            bounded_hold_s=cell.bounded_hold_s,
            on_deadlock="ignore",  # the paper's machines know nothing of each other's nodes
        )
        for name, letter in zip(MACHINES, letters, strict=True)
    ]
    pairing = CouplingConfig(pairing="vicinity", vicinity_s=VICINITY_S)
    if cell.filled:
        pairing = CouplingConfig(pairing="column")  # the pairs of the month
    elif cell.proportion:
        pairing = CouplingConfig(pairing="proportion", proportion=cell.proportion)
    return Scenario(seed=cell.seed, domain=domains, coupling=pairing)


def run_cell(cell: Cell) -> Outcome:
    """Simulate a case."""
    scenario, jobs = scenario_of(cell), workloads(cell)
    if not cell.coupled:
        found = _apart(scenario, jobs)
        for name, table in months_of(cell).items() if cell.filled else ():
            found[name]["utilisation"] = metrics_of(table)["utilisation"]  # over some days it has no meaning
        return found
    prepared = prepare_domains(scenario, jobs)
    return outcome_of(prepared, run_domains(prepared, record_nodes=False))


def outcome_of(prepared: PreparedDomains, run: CoupledRun) -> Outcome:
    """Return the result as plain numbers."""
    tables = {name: counted(table) for name, table in run.tables.items()}
    found: Outcome = {name: _kept(metrics_of(table)) for name, table in tables.items()}
    last_us = max(int(table.start_us.max()) for table in run.tables.values())
    first_us = min(int(table.workload.submit_us.min()) for table in run.tables.values())
    first = next(iter(tables.values()))
    found["coupling"] = groups_together(run.tables) | {
        "deadlock": len(run.deadlock),
        "last_start_h": (last_us - first_us) / HOUR,
        "paired_share": float(has_mates(first).sum()) / max(len(first), 1),
    }
    return found


def _kept(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in KEPT}


def _apart(scenario: Scenario, jobs: dict[str, Workload]) -> Outcome:
    return {name: _kept(metrics_of(counted(table))) for name, table in _tables_apart(scenario, jobs).items()}


def _tables_apart(scenario: Scenario, jobs: dict[str, Workload]) -> dict[str, RunTable]:
    found = {}
    for domain in scenario.domain:
        prepared = simulation.prepare(domain_scenario(scenario, domain), jobs[domain.name])
        found[domain.name], _ = simulation.run(prepared, record_nodes=False)
    return found


def moved_by_coupling(cell: Cell) -> float:
    """Return the largest difference of a start in seconds: machines uncoupled and coupled without pairs (C52)."""
    scenario, jobs = scenario_of(cell), workloads(cell)
    unpaired = msgspec.structs.replace(scenario, coupling=CouplingConfig(pairing="none"))
    run = run_domains(prepare_domains(unpaired, jobs), record_nodes=False)
    apart = 0
    for name, table in _tables_apart(scenario, jobs).items():
        ours = run.tables[name].start_us
        if not np.array_equal(table.start_us == NEVER, ours == NEVER):
            return float("inf")
        apart = max(apart, int(np.abs(table.start_us - ours).max()))
    return apart / 1e6


def run_logs(paths: tuple[str, str], begin_s: float, days: float, schemes: str, proportion: float) -> Outcome:
    """Simulate real logs of two machines of one site, from an instant on, with so many pairs by vicinity."""
    from cohabit.trace.catalogue import READERS

    sizes = {"theta": 4392, "thetagpu": 24}
    domains, jobs = [], {}
    for (name, nodes), path, letter in zip(sizes.items(), paths, schemes if len(schemes) == 2 else "YY", strict=True):
        whole = READERS["lumos"](Path(path))
        begin_us = round(begin_s * 1e6)
        jobs[name] = within(whole, begin_us, begin_us + round(days * DAY))
        domains.append(
            DomainConfig(
                name,
                ClusterConfig(nodes=nodes),
                JobsConfig(trace=path),
                PolicyConfig(order="wfp", backfill="easy"),
                scheme=SCHEME_OF[letter],
                on_deadlock="ignore",
            )
        )
    coupling = CouplingConfig(pairing="vicinity", vicinity_s=3600.0, proportion=proportion)
    scenario = Scenario(domain=domains, coupling=coupling)
    if len(schemes) != 2:
        return _apart(scenario, jobs)
    prepared = prepare_domains(scenario, jobs)
    return outcome_of(prepared, run_domains(prepared, record_nodes=False))
