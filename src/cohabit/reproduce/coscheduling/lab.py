"""One case: two machines with their jobs, the mates, a scheme on each side, and the results in numbers.

The jobs of a seed are the same under all schemes. Nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cohabit.app.scenario.reading import ClusterConfig, CouplingConfig, DomainConfig, JobsConfig, PolicyConfig, Scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.coupling import CoupledRun, PreparedDomains, prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import metrics_of
from cohabit.app.simulate.coupling_scenario import domain_scenario
from cohabit.model.records import NEVER
from cohabit.model.units import DAY, HOUR
from cohabit.model.workload import Workload
from cohabit.report.mates import groups_together
from cohabit.sim.streams import stream
from cohabit.trace.coupled_machines import (
    EUREKA_LOAD,
    EUREKA_NODES,
    INTREPID_LOAD,
    INTREPID_NODES,
    SMALLEST_JOB,
    generate_eureka,
    generate_intrepid,
    scaled_to_load,
    within,
)

LARGE, SMALL = "intrepid", "eureka"
MACHINES = (LARGE, SMALL)
SCHEME_OF = {"H": "hold", "Y": "yield", "A": "agree"}
VICINITY_S = 120.0  # C21
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

    @property
    def coupled(self) -> bool:
        """Return whether the machines are coupled."""
        return set(self.schemes) <= set(SCHEME_OF)


Outcome = dict[str, Any]  # "intrepid" and "eureka" -> metrics; "coupling" -> groups and deadlock


def workloads(cell: Cell) -> dict[str, Workload]:
    """Return the jobs of both machines, over the same span."""
    if cell.source == LUBLIN:
        return _lublin(cell)
    large = generate_intrepid(stream(cell.seed, LARGE), cell.jobs)
    span_days = int(large.submit_us[-1] - large.submit_us[0]) / DAY
    rng = stream(cell.seed, SMALL)
    if cell.proportion:
        return {LARGE: large, SMALL: generate_eureka(rng, cell.jobs, load=EUREKA_LOAD, span_days=span_days)}
    return {LARGE: large, SMALL: generate_eureka(rng, load=cell.load, span_days=span_days)}


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
            name, ClusterConfig(nodes=nodes[name]), JobsConfig(generator=name),
            PolicyConfig(order="wfp", backfill=backfills[name]), SCHEME_OF[letter],
            release_s=1200.0 if cell.release else 0.0, bounded_hold_s=cell.bounded_hold_s,
        )
        for name, letter in zip(MACHINES, letters, strict=True)
    ]  # fmt: skip
    pairing = CouplingConfig(pairing="vicinity", vicinity_s=VICINITY_S)
    if cell.proportion:
        pairing = CouplingConfig(pairing="proportion", proportion=cell.proportion)
    return Scenario(seed=cell.seed, domain=domains, coupling=pairing)


def run_cell(cell: Cell) -> Outcome:
    """Simulate a case."""
    scenario, jobs = scenario_of(cell), workloads(cell)
    if not cell.coupled:
        return _apart(scenario, jobs)
    prepared = prepare_domains(scenario, jobs)
    return outcome_of(prepared, run_domains(prepared, record_nodes=False))


def outcome_of(prepared: PreparedDomains, run: CoupledRun) -> Outcome:
    """Return the result as plain numbers."""
    found: Outcome = {name: _kept(metrics_of(table)) for name, table in run.tables.items()}
    last_us = max(int(table.start_us.max()) for table in run.tables.values())
    first_us = min(int(table.workload.submit_us.min()) for table in run.tables.values())
    sizes = {name: len(one.rows) for name, one in prepared.domains.items()}
    found["coupling"] = groups_together(run.tables) | {
        "deadlock": len(run.deadlock), "last_start_h": (last_us - first_us) / HOUR,
        "paired_share": len(prepared.ties) / max(next(iter(sizes.values())), 1),
    }  # fmt: skip
    return found


def _kept(metrics: dict[str, Any]) -> dict[str, Any]:
    return {name: metrics[name] for name in KEPT}


def _apart(scenario: Scenario, jobs: dict[str, Workload]) -> Outcome:
    """Simulate every machine alone, without the others."""
    found: Outcome = {}
    for domain in scenario.domain:
        prepared = simulation.prepare(domain_scenario(scenario, domain), jobs[domain.name])
        table, _ = simulation.run(prepared, record_nodes=False)
        found[domain.name] = _kept(metrics_of(table))
    return found


def moved_by_coupling(cell: Cell) -> float:
    """Return the largest difference of a start in seconds: machines uncoupled and coupled without pairs (C52)."""
    scenario, jobs = scenario_of(cell), workloads(cell)
    nobody = msgspec.structs.replace(scenario, coupling=CouplingConfig(pairing="none"))
    run = run_domains(prepare_domains(nobody, jobs), record_nodes=False)
    apart = 0
    for domain in scenario.domain:
        prepared = simulation.prepare(domain_scenario(scenario, domain), jobs[domain.name])
        table, _ = simulation.run(prepared, record_nodes=False)
        ours = run.tables[domain.name].start_us
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
        domains.append(DomainConfig(
            name, ClusterConfig(nodes=nodes), JobsConfig(trace=path), PolicyConfig(order="wfp", backfill="easy"),
            SCHEME_OF[letter],
        ))  # fmt: skip
    coupling = CouplingConfig(pairing="vicinity", vicinity_s=3600.0, proportion=proportion)
    scenario = Scenario(domain=domains, coupling=coupling)
    if len(schemes) != 2:
        return _apart(scenario, jobs)
    prepared = prepare_domains(scenario, jobs)
    return outcome_of(prepared, run_domains(prepared, record_nodes=False))
