"""How long the runs of each program took here: number, mean and deviation, for gates that weigh what a start may lose.

Noted only where there is a gate, of runs that ended well on as many nodes as they asked for: shared nodes at another
scale would say more of the scale than of the machine. Runs of a program whose profile belongs to one user say nothing
of another's. Once a program has had many runs, old ones count less with every new one. Nothing here decides.
"""

from __future__ import annotations

from typing import NamedTuple

from cohabit.core.columns import START
from cohabit.core.protocols import PolicySet
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.job import Job
from cohabit.model.units import SECOND

MEMORY = "own_runs"
REMEMBERED = 100  # runs
MOST_PROGRAMS = 5000


class OwnRuns(NamedTuple):
    """What the runs of a program here have shown; no runs: nothing."""

    runs: int = 0
    mean_s: float = 0.0
    variance: float = 0.0  # of the run times, in square seconds


def note_end(state: State, policies: PolicySet, now_us: int, row: int) -> None:
    """Note how long a run took that has just ended well."""
    job, how = state.spec(row), state.placed.get(row)
    if not policies.gates or not job.program or (how is not None and (how.scale != 1 or how.purpose != "run")):
        return
    known, name = state.memory.get(MEMORY, {}), _key(job)
    if name not in known and len(known) >= MOST_PROGRAMS:
        return
    count, mean_s, variance = known.get(name, OwnRuns())
    run_s, count = int(now_us - state.jobs[START, row]) / SECOND, min(count + 1, REMEMBERED)
    off_s = run_s - mean_s
    mean_s += off_s / count
    variance += (off_s * (run_s - mean_s) - variance) / count
    state.memory[MEMORY] = known | {name: [count, mean_s, variance]}


def own_runs(view: View, job: Job) -> OwnRuns:
    """Return what is known of runs like this job's."""
    return OwnRuns(*view.memory.get(MEMORY, {}).get(_key(job), ()))


def _key(job: Job) -> str:
    """Return the name under which runs are kept: a program's, on so many processes and nodes."""
    return f"{job.program}@{job.profile_owner} {job.processes}x{job.nodes}"
