"""Run one trace through any engine, with the result in one comparable form."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.app.simulate.simulation import Prepared, run, traced_jobs
from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.model.records import NEVER, RunTable
from cohabit.sim.world import World

ENGINES = ("fast", "steps", "readable")
Nodes = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schedule:
    """Start and nodes of each job, in file order; None where a job never ran."""

    starts_us: tuple[int | None, ...]
    ends_us: tuple[int | None, ...]
    nodes: tuple[Nodes, ...]
    journal_hash: str = ""  # empty: this engine writes no journal


def schedule(prepared: Prepared, engine: str, *, check: bool = False) -> Schedule:
    """Simulate with the engine of this name; `check` watches the invariants after every step where there are steps."""
    if engine == "readable":
        return _readable(prepared, check)
    table, journal = run(prepared, engine=engine)
    assert journal.hash() == table.journal_hash
    return _from_table(table)


def _from_table(table: RunTable) -> Schedule:
    ranges = table.node_ranges
    assert ranges is not None
    nodes: list[Nodes] = []
    for row in range(len(table)):
        own = slice(int(ranges.offsets[row]), int(ranges.offsets[row + 1]))
        nodes.append(tuple((int(a), int(b)) for a, b in zip(ranges.first[own], ranges.count[own], strict=True)))
    starts, ends = (
        tuple(None if value == NEVER else int(value) for value in column) for column in (table.start_us, table.end_us)
    )
    return Schedule(starts, ends, tuple(nodes), table.journal_hash)


def _readable(prepared: Prepared, check: bool) -> Schedule:
    core = SchedulerCore(prepared.cluster, prepared.policies, readable=True)
    world = World(core, kill=prepared.scenario.world.kill)
    if check:
        world.observe = lambda now_us, events, commands: invariants.check(core.state)
    world.add(traced_jobs(prepared))
    world.run()
    total = len(prepared.workload)
    starts: list[int | None] = [None] * total
    ends: list[int | None] = [None] * total
    nodes: list[Nodes] = [()] * total
    for number, row in enumerate(prepared.rows):
        outcome = world.outcomes[str(number)]
        if outcome.start_us is not None and outcome.end_us is not None:
            starts[row], ends[row], nodes[row] = outcome.start_us, outcome.end_us, outcome.nodes
    return Schedule(tuple(starts), tuple(ends), tuple(nodes))
