"""Slowdowns as the policy predicted them and as they came out, of the jobs of one simulated cluster.

As a live controller records them (live/controller/slowdowns.py), but the time alone is the true one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.core.core import SchedulerCore
from cohabit.live.controller.slowdowns import predicted_slowdown
from cohabit.model.command import StartJob
from cohabit.model.records import DONE, RunTable, Slowdowns
from cohabit.sim.machine.truth import shape_of
from cohabit.sim.world import World


class Expectations:
    """What was predicted of every job at its start, and which jobs had neighbours."""

    def __init__(self, core: SchedulerCore) -> None:
        self._core = core
        self._predicted: dict[str, float] = {}
        self._met: set[str] = set()

    def started(self, order: StartJob, now_us: int) -> None:
        """Record what the policy expects of a job that has just got its nodes; exclusive jobs have no slowdown."""
        state, row = self._core.state, self._core.state.rows.get(order.job_id)
        self._predicted.pop(order.job_id, None)
        self._met.discard(order.job_id)
        if row is None or order.exclusive or state.ledger is None:
            return
        there = {other for index in state.ledger.classes_of.get(row, ()) for other in state.ledger.residents[index]}
        if len(there) > 1 or order.ways:
            self._met |= {state.spec(other).job_id for other in there}
        knows = getattr(self._core.policies.placer, "degradations", None) is not None
        found = predicted_slowdown(self._core, row, now_us) if order.ways or knows else None
        if found is not None:
            self._predicted[order.job_id] = found

    def slowdowns(self, world: World, rows: NDArray[np.int64], table: RunTable) -> Slowdowns | None:
        """Return the columns of a finished run; None: nothing was predicted. `rows`: of its jobs, by name."""
        if not self._predicted or world.machine is None:
            return None
        predicted, measured = np.full(len(table), np.nan), np.full(len(table), np.nan)
        for name, expected in self._predicted.items():
            row = int(rows[int(name)])
            if name in self._met and table.status[row] == DONE:
                predicted[row], measured[row] = expected, self._measured(world, name)
        return Slowdowns(predicted, measured)

    @staticmethod
    def _measured(world: World, name: str) -> float:
        """Return its run time against the true one alone at the same scale."""
        outcome, traced = world.outcomes[name], world.traced(name)
        if outcome.start_us is None or outcome.end_us is None or world.machine is None:
            return float("nan")
        nodes = sum(count for _, count in outcome.nodes)
        shape = shape_of(traced.job.program, traced.job.processes, nodes, outcome.scale, outcome.cores)
        speed = world.machine.truth.speed(shape, world.machine.group_of(outcome.nodes[0][0]))
        alone_us = traced.work_us / speed + (0 if world.weather is None else world.weather.canary_us)
        return (outcome.end_us - outcome.start_us) / alone_us if alone_us > 0 else float("nan")
