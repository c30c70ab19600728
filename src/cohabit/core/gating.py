"""Ask the gates before a start: a job that has found nodes may be told to wait for a better moment.

The gate of a waiting job is asked again when nodes are released or newer telemetry has come, and at the latest at the
instant it named; an arrival in between changes nothing. The job keeps its place in the queue, and the first waiting
job keeps a reservation for its next chance, so that no other job takes its nodes for good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import RELEASED
from cohabit.core.memory import draft_of
from cohabit.core.protocols import Gate, Wait
from cohabit.core.view import View
from cohabit.model.plan import Plan, Ranges
from cohabit.model.units import span

JOBS, UNTIL, REASON, ASKED, LENT = "jobs", "until_us", "reason", "asked_of", "lent_us"


class Gatekeeper:
    """The gates during one decision, with a draft of their memory."""

    def __init__(self, view: View, gates: tuple[Gate, ...]) -> None:
        self._view, self._gates = view, gates
        self._waits: dict[int, Wait] = {}
        self._memory: dict[str, dict[str, Any]] = {gate.name: _recalled(gate, view) for gate in gates}

    def lets(self, row: int, ranges: Ranges) -> bool:
        """Return whether no gate objects to a start on these nodes now."""
        if not self._gates:
            return True
        name, nodes = self._view.job_id(row), _expanded(ranges)
        for gate in self._gates:
            memory = self._memory[gate.name]
            known = memory[JOBS].get(name, {})
            wait = self._still_waits(known) or gate.check(row, nodes, self._view, memory)
            if wait is not None:
                known = memory[JOBS].setdefault(name, known)
                known |= {UNTIL: wait.until_us, REASON: wait.reason, ASKED: _occasion(self._view)}
                known.pop(LENT, None)
                known |= {LENT: wait.lent_us} if wait.lent_us else {}
                self._waits[row] = wait
                return False
        for gate in self._gates:
            self._memory[gate.name][JOBS].get(name, {}).pop(UNTIL, None)
        return True

    def waits(self, row: int) -> bool:
        """Return whether a gate has kept the job back in this decision."""
        return row in self._waits

    def calmer(self, row: int, idle: NDArray[np.bool_]) -> NDArray[np.bool_] | None:
        """Return the idle nodes that the gates prefer for the job; None if they have no preference."""
        found = idle
        for gate in self._gates:
            calm = gate.calmer(row, found, self._view)
            found = found if calm is None else calm
        return None if found is idle else found

    def next_chance(self, row: int) -> int:
        """If a gate keeps the job back: when the next run ends by its request, or the gate is asked again; else 0.

        A job that lends its nodes has its next chance when they are due back.
        """
        wait = self._waits.get(row)
        if wait is None:
            return 0
        if wait.lent_us > self._view.now_us:
            return wait.lent_us
        ends_us = self._view.expected_ends()
        later = ends_us[ends_us > self._view.now_us]
        return min([wait.until_us, *map(int, later[:1])])

    def close(self, plan: Plan) -> None:
        """Put the gates' memory, and when to ask again, into the plan."""
        if self._gates:
            plan.memory |= self._memory
            waits = [wait.until_us for wait in self._waits.values()]
            plan.wake_us = min([*waits, *([] if plan.wake_us is None else [plan.wake_us])], default=None)

    def _still_waits(self, known: dict[str, Any]) -> Wait | None:
        """Return the earlier answer, as long as nothing has happened that could change it."""
        if not known or UNTIL not in known or known[UNTIL] <= self._view.now_us:
            return None
        if self._view.gauges[RELEASED] or known[ASKED] != _occasion(self._view):
            return None
        return Wait(known[REASON], known[UNTIL], known.get(LENT, 0))


def why_kept_back(view: View, gates: tuple[Gate, ...], row: int) -> str:
    """Return the reason of the gate that keeps a job back; empty if none does."""
    for gate in gates:
        known = view.memory.get(gate.name, {}).get(JOBS, {}).get(view.job_id(row), {})
        if known.get(UNTIL, 0) > view.now_us:
            why = "; ".join(filter(None, (known[REASON], gate.because(row, view))))
            again = span(known[UNTIL] - view.now_us)
            return f"there are nodes for it, but {why}; asked again in {again}, or when nodes are free"
    return ""


def _recalled(gate: Gate, view: View) -> dict[str, Any]:
    """Return the gate's memory, without jobs that have left."""
    memory: dict[str, Any] = view.memory.get(gate.name, {})
    here = {name: about for name, about in memory.get(JOBS, {}).items() if view.waits(name)}
    draft: dict[str, Any] = draft_of(memory | {JOBS: here})
    return draft


def _occasion(view: View) -> int:
    """Return which telemetry a question is about."""
    return -1 if view.window is None else view.window.end_us


def _expanded(ranges: Ranges) -> NDArray[np.int64]:
    return np.concatenate([np.arange(first, first + count) for first, count in ranges])
