"""What every run on shared nodes taught of its program: how much it was slowed, and what its counters had promised.

When a job leaves, its neighbours note for how long they had it beside them. A job that ended well was slowed by those
that were there for at least half of its run, if the others hardly were; its time alone is its profile's. Short runs say
nothing, nor do programs whose profile belongs to another user: a run changes nothing for others. The figures are in
the state's memory, where the placement learns from them (policy/degradation.py) or a profile store keeps them: then
each is also a numbered piece of *news*, which the controller writes there (live/controller/store_link.py). A pair keeps
the mean of its runs, of the latest more than of old ones. What other controllers saw comes as CoRunsStored; what the
counters promise of those is asked as soon as the programs' profiles are known.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cohabit.core.columns import START
from cohabit.core.memory import draft_of
from cohabit.core.protocols import CoRunLearner, PolicySet
from cohabit.core.state import State
from cohabit.core.view import CO_RUNS, View
from cohabit.model.cluster import hardware_key
from cohabit.model.event import CoRunsStored
from cohabit.model.profile import JOINT, KnownCoRun, Profile, Tenant, key_parts, run_key
from cohabit.model.units import SECOND

LEAST_ALONE_US = 5 * SECOND  # a shorter run says more of its start and end than of its neighbours
LONG, BRIEF = 0.5, 0.1  # shares of a run for which a neighbour was there: it counts, it does not
LEAST_SPEED = 0.02
MOST_PAIRS = 5000
REMEMBERED = 20  # runs of a pair: from then on an old run counts less with every new one
NEWS, MOST_NEWS = "co_run_news", 500  # kept for the store; of a store that is away for longer, the latest


class News(NamedTuple):
    """A co-run as it came: its number, who was slowed beside whom, by how many percent, on which hardware."""

    number: int
    program: str
    beside: tuple[str, ...]
    percent: float
    hardware: str


class Noted(NamedTuple):
    """All that is known of co-runs: the number of the next one, the latest, and the means of all pairs."""

    upto: int
    news: tuple[News, ...]
    runs: tuple[KnownCoRun, ...]


def noted(state: State) -> Noted:
    """Return what the state knows of co-runs."""
    kept, known = state.memory.get(NEWS, {"next": 0, "last": []}), state.memory.get(CO_RUNS, {}).get("runs", {})
    news = tuple(News(number, one, tuple(group), percent, node) for number, one, group, percent, node in kept["last"])
    runs = (
        KnownCoRun(program, tuple(name.split(JOINT)), float(percent), int(count))
        for program, groups in sorted(known.items())
        for name, (percent, _, count) in sorted(groups.items())
    )
    return Noted(int(kept["next"]), news, tuple(runs))


def take_stored(state: State, policies: PolicySet, now_us: int, fact: CoRunsStored) -> bool:
    """Replace what is known by what the store says, and add the own ones that it does not have yet."""
    memory, before = _copied(state.memory.get(CO_RUNS, {})), state.memory.get(CO_RUNS, {}).get("runs", {})
    memory["runs"] = {}
    for one in fact.runs[:MOST_PAIRS]:
        name = JOINT.join(one.beside)
        promised = before.get(one.program, {}).get(name, (0.0, None, 0))[1]
        memory["runs"].setdefault(one.program, {})[name] = [one.percent, promised, one.count]
    for number, program, group, percent, _ in state.memory.get(NEWS, {"last": []})["last"]:
        if number >= fact.upto:
            name = JOINT.join(group)
            _add(memory, program, name, percent, before.get(program, {}).get(name, (0.0, None, 0))[1])
    memory["version"] += 1
    _ask_counters(memory, policies, View(state, now_us))
    state.memory[CO_RUNS] = memory
    return state.ledger is not None


def note_end(state: State, policies: PolicySet, now_us: int, row: int, well: bool) -> None:
    """Note what the end of this run teaches, before it leaves its nodes."""
    placer = _learner(policies)
    if state.ledger is None or row not in state.placed or not (placer is not None or policies.notes_co_runs):
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
    lesson = _lesson(view, row, now_us, beside) if well else None
    if lesson is not None:
        program, group, percent, promised = lesson
        if _add(memory, program, JOINT.join(group), percent, promised):
            memory["version"] += 1
        if policies.notes_co_runs:
            _tell(state, view, row, program, group, percent)
    _ask_counters(memory, policies, view)
    if memory["version"] or memory["met"] or CO_RUNS in state.memory:
        state.memory[CO_RUNS] = memory


def _learner(policies: PolicySet) -> CoRunLearner | None:
    placer = policies.placer
    return placer if isinstance(placer, CoRunLearner) and placer.learns else None


def _copied(memory: dict[str, Any]) -> dict[str, Any]:
    return draft_of(memory) if memory else {"version": 0, "met": {}, "runs": {}}


def _met(
    view: View, placer: CoRunLearner | None, row: int, now_us: int
) -> dict[int, tuple[list[float | None], list[float | None]]]:
    """Return the neighbours there are now: how long they overlapped, and by how much counters say that each slows."""
    ledger, found = view.ledger, dict[int, tuple[list[float | None], list[float | None]]]()
    start_us = view.jobs[START]
    for node in ledger.nodes_of(row):
        kind = int(view.kinds.of_node[int(node)])
        for other in ledger.rows_on(int(node)):
            if other == row or other in found:
                continue
            overlap_us = int(now_us - max(start_us[row], start_us[other]))
            mine = theirs = None
            if placer is not None:
                percent = placer.by_counters([view.tenant(one, kind) for one in (row, other)], view.kinds.groups[kind])
                mine, theirs = _finite(percent[0, 1]), _finite(percent[1, 0])
            found[other] = [overlap_us, mine], [overlap_us, theirs]
    return found


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _key(view: View, row: int) -> str:
    """Return the name under which co-runs of a job's program are kept; empty: they teach nothing."""
    job = view.job(row)
    profile: Profile | None = view.profile(job.program, job.processes, job.profile_owner)
    return run_key(profile) if profile is not None and profile.owner == job.profile_owner else ""


def _lesson(
    view: View, row: int, now_us: int, beside: dict[str, list[Any]]
) -> tuple[str, tuple[str, ...], float, float | None] | None:
    """Return what this run showed: its program, beside whom, percent, and what counters had promised; None: nothing."""
    job, how, program = view.job(row), view.placed[row], _key(view, row)
    profile = view.profile(job.program, job.processes, job.profile_owner)
    known = None if profile is None else profile.at_scale(how.scale)
    if not program or known is None or profile is None or profile.processes != job.processes or how.purpose != "run":
        return None
    alone_us, run_us = known.time_s * SECOND, int(now_us - view.jobs[START, row])
    group = {name: seen for name, seen in beside.items() if seen[0] >= LONG * run_us}
    others = sum(seen[0] for name, seen in beside.items() if name not in group)
    if alone_us < LEAST_ALONE_US or not group or "" in group or others > BRIEF * run_us:
        return None
    together = min(1.0, float(np.mean([seen[0] for seen in group.values()])) / run_us)
    speed = (alone_us / run_us - (1.0 - together)) / together
    if speed < LEAST_SPEED:
        return None
    said = [seen[1] for seen in group.values()]
    promised = None if None in said else math.fsum(said)
    return program, tuple(sorted(group)), 100.0 * (1.0 / speed - 1.0), promised


def _add(memory: dict[str, Any], program: str, name: str, percent: float, promised: float | None) -> bool:
    """Move the mean of a pair by one more run; False: there are too many pairs."""
    runs = memory["runs"].setdefault(program, {})
    if name not in runs and sum(map(len, memory["runs"].values())) >= MOST_PAIRS:
        return False
    mean, before, count = runs.get(name, [0.0, None, 0])
    count = min(count + 1, REMEMBERED)
    runs[name] = [mean + (percent - mean) / count, before if promised is None else promised, count]
    return True


def _tell(state: State, view: View, row: int, program: str, group: tuple[str, ...], percent: float) -> None:
    """Add a piece of news for the store."""
    kept = state.memory.setdefault(NEWS, {"next": 0, "last": []})
    kind = int(view.kinds.of_node[int(view.ledger.nodes_of(row)[0])])
    node = hardware_key(view.kinds.groups[kind])
    last = [*kept["last"], [kept["next"], program, list(group), percent, node]]
    state.memory[NEWS] = {"next": kept["next"] + 1, "last": last[-MOST_NEWS:]}


def _ask_counters(memory: dict[str, Any], policies: PolicySet, view: View) -> None:
    """Note what counters promise of the pairs of which that is not known yet, as far as their profiles are."""
    placer = _learner(policies)
    if placer is None:
        return
    node = view.kinds.groups[0]
    for program, groups in memory["runs"].items():
        for name, seen in groups.items():
            if seen[1] is not None:
                continue
            profiles = [view.profile(key_parts(one)[0], 0, key_parts(one)[1]) for one in (program, *name.split(JOINT))]
            if None in profiles:
                continue
            tenants = [Tenant("" if one is None else one.program, 0, 1, 0, 0.0, 1.0, one) for one in profiles]
            promised = _finite(math.fsum(placer.by_counters(tenants, node)[0, 1:]))
            seen[1] = promised
