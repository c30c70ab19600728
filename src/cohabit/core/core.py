"""The decision core: facts in, orders out. `step` is a pure function of the state, the time and the facts.

The live controller and the simulator both call it; who waits and who executes is none of its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.core import kernels, ladder, scoring
from cohabit.core.apply import Applier
from cohabit.core.columns import FREE, HEAD, RELEASED, STARTED, WAKE
from cohabit.core.commit import commit, start_command
from cohabit.core.decide import PROMISES, decide
from cohabit.core.ladder import ROWS
from cohabit.core.protocols import Order, PolicySet
from cohabit.core.sharing import shares_that_changed
from cohabit.core.state import FOREVER, State
from cohabit.core.view import View
from cohabit.model.cluster import Cluster
from cohabit.model.command import Command, WakeAt
from cohabit.model.event import Event
from cohabit.model.profile import Profile

if TYPE_CHECKING:
    from cohabit.compiled import ScoreEntry


class SchedulerCore:
    """One cluster under one set of policies."""

    def __init__(
        self, cluster: Cluster, policies: PolicySet, readable: bool = False, profiles: Iterable[Profile] = ()
    ) -> None:
        self.policies = policies
        self.state = State(cluster, policies)
        for one in profiles:
            self.state.profiles.setdefault(one.program, {})[one.processes] = one
        self.readable = readable  # never use the compiled pass; for tests that hold the two together
        self.state.profiled = not readable
        self._applier = Applier(self.state, policies)

    def step(self, now_us: int, events: Sequence[Event]) -> list[Command]:
        """Apply the facts, decide once if any of them calls for it, and return the orders."""
        applier = self._applier
        due = False
        for event in events:
            due = applier.apply(now_us, event) or due
        due = due or bool(applier.arrivals)  # whoever came into the queue, in whatever way, is looked at
        commands, applier.commands = applier.commands, []
        if due:
            commands += self._decide_and_commit(now_us)
        if self.state.ledger is not None and self.state.ledger.touched:
            commands += shares_that_changed(self.state, self.policies, self.view(now_us))
        return commands

    @property
    def arrivals(self) -> list[int]:
        """Rows that came into the queue since the last decision."""
        return self._applier.arrivals

    @arrivals.setter
    def arrivals(self, rows: list[int]) -> None:
        self._applier.arrivals = rows

    def view(self, now_us: int) -> View:
        """The state, read-only."""
        return View(self.state, now_us)

    @property
    def compiled(self) -> bool:
        """Whether the compiled pass may decide just now: interchangeable whole nodes, nothing refused lately."""
        exclusive = self.policies.placer.exclusive and not self.policies.gates
        limited = self.policies.age_limit_us or self.policies.age_limit_runs
        if limited and (self.policies.order.name != "age" or self.policies.backfill_order is not None):
            return False  # the compiled pass knows the oldest only as the first in the order of age
        return exclusive and not self.readable and self.state.interchangeable and not self.state.refused_until

    def _decide_and_commit(self, now_us: int) -> list[Command]:
        state = self.state
        arrivals, self._applier.arrivals = np.array(self._applier.arrivals, np.int64), []
        state.refused_until = {row: until for row, until in state.refused_until.items() if until > now_us}
        compiled = self.compiled
        if compiled != state.profiled:  # the two forms keep promises in different places
            state.profiled = compiled
            state.gauges[HEAD], state.gauges[RELEASED] = -1, 1  # what the other form left out is looked at again
            state.void_promises()
            state.memory.pop(PROMISES, None)
        if compiled:
            commands = self._compiled_pass(now_us, arrivals)
            wake_us = int(state.gauges[WAKE])
        else:
            kernels.extend_overrunning(now_us, state.jobs, state.keys, *state.running, state.gauges)
            plan = decide(self.view(now_us), self.policies)
            commands, _ = commit(state, plan, now_us)
            wake_us = plan.wake_us if plan.wake_us is not None else FOREVER
        if wake_us != state.wake_us:
            state.wake_us = wake_us
            commands.append(WakeAt(wake_us))
        return commands

    def _compiled_pass(self, now_us: int, arrivals: NDArray[np.int64]) -> list[Command]:
        """Decide and commit in one compiled step: every start is checked and carried out as it is found."""
        state, policies = self.state, self.policies
        room = int(state.queue.meta[ROWS]) + 1
        waiting, fresh, rows = np.empty(room, np.int64), np.zeros((2, room)), np.empty((2, room), np.int64)
        waiting[: len(arrivals)] = arrivals
        entry, second_entry = (
            self._entry(order, now_us, waiting, fresh[index])
            for index, order in enumerate((policies.order, policies.backfill_order))
        )
        started = np.empty(room, np.int64)
        kernels.schedule_pass(
            now_us, state.depth, state.changing, policies.order.falling, state.two_orders, len(arrivals), *entry,
            *second_entry, state.usage, waiting, fresh, rows, state.jobs, state.keys, *state.queue, *state.second,
            *state.running, state.idle, state.pool, state.gauges, state.slots, started,
        )  # fmt: skip
        assert state.gauges[FREE] >= 0
        state.touch()
        return [start_command(state, int(row)) for row in started[: state.gauges[STARTED]]]

    def _entry(
        self, order: Order | None, now_us: int, waiting: NDArray[np.int64], fresh: NDArray[np.float64]
    ) -> tuple[ScoreEntry, NDArray[np.float64]]:
        """The order as the pass calls it; in Python it is asked before, so that its errors leave the state alone."""
        columns = self.view(now_us).columns()
        if order is not None and order.entry is None and self.state.changing:
            queued, known = ladder.all_rows(self.state.queue), np.zeros(self.state.jobs.shape[1])
            known[queued] = order.scores(columns, queued, now_us)
            order = replace(order, function=lambda _jobs, rows, _now_us, *_: known[rows])
        return scoring.entry_of(order, self.state.changing, columns, waiting, fresh, [])
