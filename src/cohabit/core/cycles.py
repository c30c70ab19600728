"""Backfilling in cycles, as Slurm does it: between two cycles jobs start strictly in order.

A cycle looks at so many jobs, promises nothing that would begin beyond its window, and rounds promised starts up to its
resolution. Between cycles a job that finds no nodes keeps back all later jobs of its partition, as Slurm's main
scheduler does. A cycle is due at the end of an interval in which something has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cohabit.model.plan import Plan, Start
from cohabit.model.units import FOREVER

if TYPE_CHECKING:
    from cohabit.core.view import View

DUE = "backfill cycle"  # memory of policies: when the next cycle is due; not there: when something has changed


@dataclass(frozen=True)
class Cycle:
    """The terms of the cycles; 0: not bounded by this."""

    interval_us: int = 0  # from one cycle to the next; 0: every pass is one
    window_us: int = 0
    resolution_us: int = 0
    tests: int = 0  # jobs looked at


class Turn:
    """Whether a pass is a cycle, and how far it has gone."""

    def __init__(self, view: View, cycle: Cycle | None) -> None:
        self._view, self._cycle, self._tested = view, cycle or Cycle(), 0
        self._shut: set[str] = set()  # partitions in which nothing starts any more before the next cycle
        in_cycles = bool(self._cycle.interval_us)
        self.between = in_cycles and view.now_us < _due_us(view)
        self.anew = in_cycles and not self.between  # a cycle makes all promises anew, in order

    def may_try(self, row: int) -> bool:
        """Return whether no job of its partition waits before it, where that matters."""
        return not self._shut or self._view.job(row).partition not in self._shut

    def tried(self, row: int, starts: bool) -> bool:
        """Note that a job was looked at; return whether the pass goes on."""
        if self.between and not starts:
            self._shut.add(self._view.job(row).partition)
        self._tested += 1
        return not 0 < self._cycle.tests <= self._tested

    def rounded(self, start_us: int) -> int:
        """Return the instant that is promised in place of this one."""
        step = self._cycle.resolution_us
        return start_us if not step or start_us <= self._view.now_us else -(-start_us // step) * step

    def promises(self, start_us: int) -> bool:
        """Return whether a start then may be promised."""
        return not self._cycle.window_us or start_us <= self._view.now_us + self._cycle.window_us

    def close(self, plan: Plan) -> None:
        """Put into the plan when the next cycle is due: at the end of the interval in which something has changed."""
        every = self._cycle.interval_us
        if not every:
            return
        due_us = _due_us(self._view) if self.between else FOREVER
        started = sum(isinstance(action, Start) for action in plan.actions)
        if self.between and due_us >= FOREVER and len(self._view.queued()) > started:
            due_us = (self._view.now_us // every + 1) * every
        plan.memory[DUE] = {"at_us": due_us}
        plan.wake_us = min(FOREVER if plan.wake_us is None else plan.wake_us, due_us)


def next_cycle_us(view: View, cycle: Cycle | None) -> int:
    """Return when jobs may pass others again; 0: at any time, or not before something changes."""
    due_us = 0 if cycle is None or not cycle.interval_us else _due_us(view)
    return due_us if view.now_us < due_us < FOREVER else 0


def _due_us(view: View) -> int:
    found: int = view.memory.get(DUE, {}).get("at_us", FOREVER)
    return found
