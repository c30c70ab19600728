"""What every run on shared nodes taught of its program: how much it was slowed, and what its counters had promised.

When a job leaves, its neighbours note for how long they had it beside them. A job that ended well was slowed by those
that were there for at least half of its run, if the others hardly were; its time alone is its profile's. Short runs say
nothing, nor do programs whose profile belongs to another user: a run changes nothing for others. The figures are in
the state's memory, and only where the placement learns from them (policy/degradation.py); a pair keeps the mean of its
runs, of the latest more than of old ones.
"""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

import numpy as np

from cohabit.core.columns import START
from cohabit.core.protocols import CoRunLearner, PolicySet
from cohabit.core.state import State
from cohabit.core.view import CO_RUNS, View
from cohabit.model.profile import Profile, run_key
from cohabit.model.units import SECOND

LEAST_ALONE_US = 5 * SECOND  # a shorter run says more of its start and end than of its neighbours
LONG, BRIEF = 0.5, 0.1  # shares of a run for which a neighbour was there: it counts, it does not
LEAST_SPEED = 0.02
MOST_PAIRS = 5000
REMEMBERED = 20  # runs of a pair: from then on an old run counts less with every new one


def note_end(state: State, policies: PolicySet, now_us: int, row: int, well: bool) -> None:
    """Note what the end of this run teaches, before it leaves its nodes."""
    placer = policies.placer
    if state.ledger is None or row not in state.placed or not isinstance(placer, CoRunLearner) or not placer.learns:
        return
    view, memory = View(state, now_us), _copied(state.memory.get(CO_RUNS, {}))
    own, ended = _met(view, placer, row, now_us), state.spec(row).job_id
    beside = memory["met"].pop(ended, {})
    for other, (mine, theirs) in own.items():
        for table, program, seen in (
            (beside, _key(view, other), mine),
            (memory["met"].setdefault(view.job_id(other), {}), _key(view, row), theirs),
        ):
            before = table.get(program, [0, seen[1]])
            table[program] = [before[0] + seen[0], seen[1]]
    living = {view.job_id(one) for one in state.placed}
    memory["met"] = {name: met for name, met in memory["met"].items() if name in living and name != ended}
    if well:
        _learn(memory, view, row, now_us, beside)
    state.memory[CO_RUNS] = memory


def _copied(memory: dict[str, Any]) -> dict[str, Any]:
    return deepcopy(memory) if memory else {"version": 0, "met": {}, "runs": {}}


def _met(view: View, placer: CoRunLearner, row: int, now_us: int) -> dict[int, tuple[list[float], list[float]]]:
    """Return the neighbours there are now: how long they overlapped, and by how much counters say that each slows."""
    ledger, found = view.ledger, dict[int, tuple[list[float], list[float]]]()
    start_us = view.jobs[START]
    for node in ledger.nodes_of(row):
        kind = int(view.kinds.of_node[int(node)])
        for other in ledger.rows_on(int(node)):
            if other == row or other in found:
                continue
            overlap_us = int(now_us - max(start_us[row], start_us[other]))
            percent = placer.by_counters([view.tenant(one, kind) for one in (row, other)], view.kinds.groups[kind])
            found[other] = [overlap_us, float(percent[0, 1])], [overlap_us, float(percent[1, 0])]
    return found


def _key(view: View, row: int) -> str:
    """Return the name under which co-runs of a job's program are kept; empty: they teach nothing."""
    job = view.job(row)
    profile: Profile | None = view.profile(job.program, job.processes, job.profile_owner)
    return run_key(profile) if profile is not None and profile.owner == job.profile_owner else ""


def _learn(memory: dict[str, Any], view: View, row: int, now_us: int, beside: dict[str, list[float]]) -> None:
    job, how, program = view.job(row), view.placed[row], _key(view, row)
    profile = view.profile(job.program, job.processes, job.profile_owner)
    known = None if profile is None else profile.at_scale(how.scale)
    if not program or known is None or profile is None or profile.processes != job.processes or how.purpose != "run":
        return
    alone_us, run_us = known.time_s * SECOND, int(now_us - view.jobs[START, row])
    group = {name: seen for name, seen in beside.items() if seen[0] >= LONG * run_us}
    others = sum(seen[0] for name, seen in beside.items() if name not in group)
    if alone_us < LEAST_ALONE_US or not group or "" in group or others > BRIEF * run_us:
        return
    together = min(1.0, float(np.mean([seen[0] for seen in group.values()])) / run_us)
    speed = (alone_us / run_us - (1.0 - together)) / together
    promised = math.fsum(seen[1] for seen in group.values())
    if speed < LEAST_SPEED or not math.isfinite(promised):
        return
    percent = 100.0 * (1.0 / speed - 1.0)
    runs = memory["runs"].setdefault(program, {})
    name = "+".join(sorted(group))
    if name not in runs and sum(map(len, memory["runs"].values())) >= MOST_PAIRS:
        return
    mean, _, count = runs.get(name, [0.0, 0.0, 0])
    count = min(count + 1, REMEMBERED)
    runs[name] = [mean + (percent - mean) / count, promised, count]
    memory["version"] += 1
