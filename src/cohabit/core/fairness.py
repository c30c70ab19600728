"""Bound how much worse one user fares than all: jobs of users that wait too long for what they run go first.

A user's mean slowdown is that of its jobs that ended, the latest counting most, and of its first waiting job so far. If
it exceeds `factor` times the mean of all users, that job goes to the front of the queue, the worst user first. A user
that has more than an equal part of the cores in use is left out: it waits for its own jobs. How long a waiting job will
run is taken to be as much of its request as jobs have used so far. It does badly where a user's requests are far worse
than those of the others. What it remembers is in the state's memory, and only where the site says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import CORES, LIMIT, START, SUBMIT, USER
from cohabit.core.kernels.ladder import all_rows
from cohabit.core.state import State
from cohabit.model.units import SECOND

MEMORY = "fairness"
LEAST_RUN_US = 10 * SECOND  # shorter runs count as so long, as in bounded slowdown
KEPT = 0.98  # of what is remembered of a user, with every job that ends


def note_end(state: State, row: int, now_us: int) -> None:
    """Note the slowdown of a job that ends now."""
    if not state.fairness or state.jobs[USER, row] < 0:
        return
    user, known = int(state.jobs[USER, row]), _known(state)
    run_us = int(now_us - state.jobs[START, row])
    slowdown = max(int(now_us - state.jobs[SUBMIT, row]) / max(run_us, LEAST_RUN_US), 1.0)
    for name, value in (("slowdown", slowdown), ("jobs", 1.0)):
        known[name][user] = KEPT * known[name][user] + value
    known["run_us"] = KEPT * known["run_us"] + run_us
    known["limit_us"] = KEPT * known["limit_us"] + max(int(state.jobs[LIMIT, row]), run_us)
    state.memory[MEMORY] = known


def fair(state: State, rows: NDArray[np.int64], now_us: int) -> NDArray[np.int64]:
    """Return the queue with the first jobs of users that fare too badly in front."""
    owned = np.flatnonzero(state.jobs[USER, rows] >= 0)
    if not state.fairness or not len(owned):
        return rows
    users, first = np.unique(state.jobs[USER, rows[owned]], return_index=True)
    places, known = owned[first], _known(state)
    slowdown, jobs = np.array(known["slowdown"]), np.array(known["jobs"])
    own = slowdown[users] + _so_far(state, rows[places], now_us, known)
    mean = (slowdown.sum() - slowdown[users].sum() + own.sum()) / (jobs.sum() + len(users))
    means = own / (jobs[users] + 1.0)
    ahead = (means > state.fairness * mean) & ~_has_its_part(state, users)
    chosen = places[ahead][np.lexsort((places[ahead], -means[ahead]))]
    return np.concatenate([rows[chosen], np.delete(rows, chosen)])


def _so_far(state: State, rows: NDArray[np.int64], now_us: int, known: dict[str, Any]) -> NDArray[np.float64]:
    """Return the slowdown of waiting jobs if they started now."""
    used = known["run_us"] / known["limit_us"] if known["limit_us"] else 1.0
    run_us = np.maximum(state.jobs[LIMIT, rows] * used, LEAST_RUN_US)
    return np.asarray((now_us - state.jobs[SUBMIT, rows] + run_us) / run_us)


def _has_its_part(state: State, users: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of these users have more than an equal part of the cores in use."""
    running = all_rows(state.running)
    running = running[state.jobs[USER, running] >= 0]
    cores = np.bincount(state.jobs[USER, running], state.jobs[CORES, running], len(state.users))
    active = len(np.union1d(np.flatnonzero(cores), users))
    return np.asarray(cores[users] * active > cores.sum())


def _known(state: State) -> dict[str, Any]:
    """Return a copy of what is remembered, with room for every user."""
    known = state.memory.get(MEMORY, {})
    found: dict[str, Any] = {name: known.get(name, 0.0) for name in ("run_us", "limit_us")}
    for name in ("slowdown", "jobs"):
        values = list(known.get(name, ()))
        found[name] = values + [0.0] * (len(state.users) - len(values))
    return found
