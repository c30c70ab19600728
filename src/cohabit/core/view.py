"""The state as policies and explanations see it: the same arrays, read-only, never copied."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import EXPECTED, LIMIT, NODES, QUEUED, RUNNING, STARTING, STATE, Columns, columns_of
from cohabit.core.kinds import Kinds
from cohabit.core.ladder import all_rows
from cohabit.core.protocols import Order
from cohabit.core.state import State
from cohabit.core.timeline import Timeline


class View:
    """Reading only; `generation` says which state this is."""

    def __init__(self, state: State, now_us: int) -> None:
        self._state = state
        self.now_us = now_us
        self.generation = state.generation
        self.jobs = _locked(state.jobs)
        self.gauges = _locked(state.gauges)
        self.node_state = _locked(state.node_state)

    @property
    def kinds(self) -> Kinds:
        """The kinds of nodes there are."""
        return self._state.kinds

    @property
    def memory(self) -> dict[str, Any]:
        """What policies remember."""
        return self._state.memory

    @property
    def refused_until(self) -> dict[int, int]:
        """Rows a back end refused to start, and until when they are left alone."""
        return self._state.refused_until

    def columns(self) -> Columns:
        """The job table by name."""
        return columns_of(self.jobs, _locked(self._state.usage[:-1]))

    def queued(self) -> NDArray[np.int64]:
        """Rows of all queued jobs."""
        return all_rows(self._state.queue)

    def running(self) -> NDArray[np.int64]:
        """Rows of all running jobs, by expected end."""
        return all_rows(self._state.running)

    def ranked(self, rows: NDArray[np.int64], order: Order) -> list[int]:
        """These rows, first to go first; jobs a back end refused lately are left out."""
        if len(rows) == 0:
            return []
        scores = order.scores(self.columns(), rows, self.now_us)
        seq = self.columns().seq[rows]
        refused = self._state.refused_until
        return [int(rows[i]) for i in np.lexsort((seq, scores)) if refused.get(int(rows[i]), 0) <= self.now_us]

    def usable(self, row: int) -> NDArray[np.bool_]:
        """Which kinds the job may run on."""
        cache = self._state.usable_kinds
        if row not in cache:
            cache[row] = self.kinds.eligible(self._state.spec(row))[0]
        return cache[row]

    def kind_counts(self, row: int) -> NDArray[np.int64]:
        """How many nodes of each kind a running job has, as far as they come back when it ends."""
        cache = self._state.nodes_by_kind
        if row not in cache:
            counts = np.zeros(self.kinds.count, np.int64)
            for first, count in self._state.ranges_of(row):
                nodes = slice(first, first + count)
                up = self.node_state[nodes] == 0
                counts += np.bincount(self.kinds.of_node[nodes][up], minlength=self.kinds.count)
            cache[row] = counts
        return cache[row]

    def idle_nodes(self) -> NDArray[np.bool_]:
        """One flag per node."""
        return self._state.idle_nodes()

    def idle_by_kind(self) -> NDArray[np.int64]:
        """Idle nodes of each kind."""
        return np.bincount(self.kinds.of_node[self.idle_nodes()], minlength=self.kinds.count).astype(np.int64)

    def timeline(self) -> Timeline:
        """What the running jobs leave free, by requested times."""
        rows = self.running()
        released = np.array([self.kind_counts(int(row)) for row in rows], np.int64).reshape(-1, self.kinds.count)
        return Timeline(self.now_us, self.idle_by_kind(), self.kinds, self.jobs[EXPECTED, rows], released)

    def is_queued(self, row: int) -> bool:
        """Whether the job waits and may be started."""
        return bool(self.jobs[STATE, row] == QUEUED)

    def is_running(self, row: int) -> bool:
        """Whether it has been started."""
        return bool(self.jobs[STATE, row] in (STARTING, RUNNING))

    def need(self, row: int) -> int:
        """Nodes it asks for."""
        return int(self.jobs[NODES, row])

    def limit_us(self, row: int) -> int:
        """Time it asks for."""
        return int(self.jobs[LIMIT, row])

    def job_id(self, row: int) -> str:
        """Its name."""
        return self._state.spec(row).job_id


def _locked(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
