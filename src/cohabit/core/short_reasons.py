"""Why jobs wait, each in a few words: the first thing that `explain.py` would say, from the same functions.

For lists of thousands of jobs: what jobs of one description have in common is computed once. A list asks about at most
MOST_LOOKED_AT different descriptions; the jobs behind them are told what they ask for and how many are ahead of them.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cohabit.core.bounds import InUse
from cohabit.core.columns import BLOCKED, NODES, PROCESSES, STATE
from cohabit.core.explain_promises import promised_on_whole, promised_start, starts_promised
from cohabit.core.explain_sharing import MOST_NAMES, joined, missing, named, nothing_may_overtake, tried_asks
from cohabit.core.explain_windows import open_nodes, why_closed
from cohabit.core.gating import why_kept_back
from cohabit.core.kernels.bundles import CONSERVATIVE, STRICT
from cohabit.core.mates.explain import why_not_together
from cohabit.core.protocols import Explaining, GroupPlacer, PolicySet, SharedPlacer
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.units import counted, span

HELD = "held: it must be released first"
MOST_LOOKED_AT = 300  # descriptions in one list


class ShortReasons:
    """The reasons of many jobs at one instant. Jobs of other users are not named unless `names_all`."""

    def __init__(self, state: State, policies: PolicySet, now_us: int, names_all: bool = False) -> None:
        self._state, self._policies = state, policies
        self._view = View(state, now_us, names_all)
        placer = policies.placer
        self._placer = placer if isinstance(placer, SharedPlacer) else None  # asked once: such questions are slow
        self._explaining = placer if self._placer is not None and isinstance(placer, Explaining) else None
        self._in_groups = isinstance(placer, GroupPlacer)
        self._lacks: dict[int, str] = {}  # by description
        self._idle: dict[int, int] = {}  # idle nodes that a job may use, by description
        self._windows: dict[tuple[int, int], str] = {}  # the first window in the way, by description and limit
        self._arrays: dict[str, str] = {}  # what keeps members of an array back, which is the same for all of them
        self._looked_at = 0

    def of(self, row: int) -> str:
        """Return why the job in this row waits; empty if it does not."""
        state, view = self._state, self._view
        if text := before_the_queue(state, row, view.now_us):
            return text
        if state.coupled is not None and (text := why_not_together(state, row, view.now_us)):
            return text.partition(": ")[0]
        if not view.is_queued(row):
            array = state.spec(row).job_id.rpartition("_")[0]
            if array not in self._arrays:
                self._arrays[array] = array_is_full(state, row)
            return self._arrays[array]
        if self._policies.gates and (text := why_kept_back(view, self._policies.gates, row)):
            return text.partition(";")[0]
        if text := self._in_use.why_not(row):
            return text
        place = self._places.get(row, 0)
        return self._whole(row, place) if self._placer is None else self._shared(row, place, self._placer)

    # ---- the queue ----------------------------------------------------------------------------------------------

    @cached_property
    def _in_use(self) -> InUse:
        return InUse(self._view, self._policies.bounds)

    @cached_property
    def _queue(self) -> NDArray[np.int64]:
        return self._view.queue(self._policies.order)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {row: place for place, row in enumerate(self._queue.tolist())}

    @cached_property
    def _first_aged(self) -> int:
        """The place of the first job that may not be overtaken; behind the queue: there is none."""
        aged = np.flatnonzero(self._view.aged(self._queue))
        return int(aged[0]) if len(aged) else len(self._queue)

    def _number(self, row: int) -> int:
        return int(self._view.descriptions(np.array([row]))[0])

    @cached_property
    def _starts(self) -> dict[int, int]:
        """The starts promised on whole nodes."""
        return starts_promised(self._view, self._policies, self._queue.tolist())

    # ---- whole nodes --------------------------------------------------------------------------------------------

    def _whole(self, row: int, place: int) -> str:
        view, need, number = self._view, self._view.need(row), self._number(row)
        if number not in self._idle:
            self._idle[number] = int(view.idle_by_kind()[view.usable(row)].sum())
        idle, promised = self._idle[number], promised_on_whole(view, row, self._starts)
        if need > idle:
            ahead = f"{counted(place, 'job')} ahead of it" if place else ""
            return "; ".join(filter(None, (f"needs {counted(need, 'node')}, {idle} idle", ahead, promised)))
        if place == 0 or (view.kinds.windows and open_nodes(view, row) < need):
            text = f"needs {counted(need, 'node')}, {idle} idle, but not for its whole requested time"
            return "; ".join(filter(None, (text, promised, self._closed(row, number))))
        if self._policies.backfill.depth == STRICT:
            return f"it fits, but {counted(place, 'job')} ahead of it and nothing may overtake"
        whose = "promises to jobs" if self._policies.backfill.depth == CONSERVATIVE else "the first job in the queue"
        return f"it fits now but would delay {whose if place > 1 else 'the first job in the queue'}"

    def _closed(self, row: int, number: int) -> str:
        """Return the first window that the job would run into; empty if there is none."""
        key = number, self._view.limit_us(row)
        if self._view.kinds.windows and key not in self._windows:
            self._windows[key] = why_closed(self._view, row).partition("; ")[0]
        return self._windows.get(key, "")

    # ---- shared nodes -------------------------------------------------------------------------------------------

    def _shared(self, row: int, place: int, placer: SharedPlacer) -> str:
        view = self._view
        if not (self._in_groups and self._explaining is not None):
            strict = self._policies.backfill.depth == STRICT
            first = 0 if strict else self._first_aged
            if first < place:
                return nothing_may_overtake(view, row, int(self._queue[first]), strict)
        lacks = self._lacking(row, placer)
        if lacks.endswith(BUT) and (others := [one for one in view.promises if one != row]):
            lacks = f"{lacks}, but a start now would delay {named(view, row, others)}"
        elif lacks.endswith(BUT):
            lacks += ", but jobs ahead of it take them"
        lacks = lacks.replace(BUT, "")
        promised = promised_start(view, row)
        return f"{lacks}; {promised}" if promised else lacks or f"{counted(place, 'job')} ahead of it"

    def _lacking(self, row: int, placer: SharedPlacer) -> str:
        """Return what the job lacks; it ends in BUT if nodes have room for it."""
        number = self._number(row)
        if number not in self._lacks:
            if self._looked_at >= MOST_LOOKED_AT:
                return self._asked_for(row)
            self._looked_at += 1
            text = self._looked(row, placer)
            if self._in_groups:
                return text
            self._lacks[number] = text
        return self._lacks[number]

    def _looked(self, row: int, placer: SharedPlacer) -> str:
        view = self._view
        if self._explaining is not None and (own := self._explaining.why_not(row, view)):
            return own
        found = [missing(ask, row, view) for ask in tried_asks(view, row, placer)]
        if not found:
            return "it fits on no number of nodes that is allowed for it"
        roomy = [one for one in found if one.has_room]
        if not roomy:
            return "; ".join(filter(None, (found[0].text, self._closed(row, self._number(row)))))
        if all(one.among_strangers for one in roomy):
            return f"{roomy[0].text}, but {view.strangers_there}"
        return roomy[0].text + BUT

    def _asked_for(self, row: int) -> str:
        jobs, place = self._state.jobs, self._places.get(row, 0)
        what = counted(int(jobs[PROCESSES, row]), "core")
        need = int(jobs[NODES, row])
        on = f" on {counted(need, 'node')}" if need > 1 else ""
        return f"needs {what}{on}; {counted(place, 'job')} ahead of it"


BUT = "\0"  # at the end of a text: something else than room keeps the job back


def before_the_queue(state: State, row: int, now_us: int) -> str:
    """Return what keeps a job from being considered at all; empty if nothing does."""
    if row in state.held:
        return HELD
    if pending := state.waiting_for.get(row):
        more = f" and {len(pending) - 3} more" if len(pending) > 3 else ""
        return f"waits for the end of job {', '.join(sorted(pending)[:3])}{more}"
    if (until := state.refused_until.get(row, 0)) > now_us:
        return f"its start was refused; it is tried again in {span(until - now_us)}"
    return ""


def array_is_full(state: State, row: int) -> str:
    """Return the bound of its array and the members that go first; empty if it has no bound."""
    array = state.spec(row).job_id.rpartition("_")[0]
    _, at_most = state.arrays.get(array, (0, 0))
    if not at_most:
        return ""
    members = np.fromiter(state.members.get(array, ()), np.int64)
    names = [state.spec(int(one)).job_id for one in members[state.jobs[STATE, members] != BLOCKED]]
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    goes = "goes" if len(names) == 1 else "go"
    return f"array limit {at_most}" + (f"; {joined([*names[:MOST_NAMES], *more])} {goes} first" if names else "")
