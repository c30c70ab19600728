"""Common parts of all generators: checked arguments, arrivals scaled to an offered load, requested times, columns.

Real users ask for more time than they need; no request model asks for less than the run, so no generated job is killed.
Generators get their random stream as an argument: the same generator state and arguments give
the same workload. The first job is always submitted at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, MINUTE, SECOND
from cohabit.model.workload import ACCEPTED, Floats, Ints, Workload

LARGEST_OVERESTIMATE = 4.0
POPULAR_REQUESTS_US = np.array(
    [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE]
    + [hours * HOUR for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48, 72, 96, 120, 168)],
    np.int64,
)


def check_counts(jobs: int, nodes: int, load: float | None) -> None:
    """Refuse counts and loads that no workload can have."""
    if jobs < 1:
        raise InputError(f"{jobs} jobs cannot be generated", "jobs", "ask for at least 1")
    if nodes < 1:
        raise InputError(f"a machine of {nodes} nodes cannot run jobs", "nodes", "give at least 1")
    if load is not None and not 0 < load < float("inf"):
        raise InputError(f"an offered load of {load} is impossible", "load", "give a positive number such as 0.85")
    if load is not None and jobs < 2:
        raise InputError("one job alone has no offered load", "load", "leave it out or ask for more jobs")


def offered_load(submit_us: Ints, run_us: Ints, processes: Ints, nodes: int) -> float:
    """Return node-seconds requested over node-seconds available between the first and the last submission."""
    span_us = float(submit_us.max() - submit_us.min())
    work = float((processes * (run_us / SECOND)).sum())
    return work / (nodes * span_us / SECOND) if span_us else float("inf")


def arrivals_us(gaps_s: Floats, run_s: Ints, processes: Ints, nodes: int, load: float | None) -> Ints:
    """Submit times on whole seconds from the gaps between jobs, stretched so that the offered load is `load`."""
    submit_s = np.cumsum(gaps_s)
    submit_s -= submit_s[0]
    if load is not None:
        if submit_s[-1] <= 0:
            raise InputError("jobs that all arrive at once have no offered load", "load", "leave it out")
        wanted_span_s = float((processes * run_s.astype(np.float64)).sum()) / (nodes * load)
        submit_s *= wanted_span_s / submit_s[-1]
    return np.rint(submit_s).astype(np.int64) * SECOND


def request_times(rng: np.random.Generator, run_us: Ints, model: str) -> Ints:
    """The requested times of jobs with these run times.

    exact   the run time itself.
    factor  run x (1 + f), f uniform in [0, 4), up to a full minute (the "f model" of Mu'alem and Feitelson,
            IEEE TPDS 2001).
    modal   as factor, then up to the next popular value (5 min, 10 min, ... 1 h, 2 h, ... 1 week): most real
            requests are one of some twenty round values (Tsafrir, Etsion and Feitelson, JSSPP 2005).
    """
    if model == "exact":
        return run_us.copy()
    if model not in ("factor", "modal"):
        raise InputError(f"unknown request model {model!r}", "requests", "known are exact, factor and modal")
    stretched = run_us * (1.0 + rng.uniform(0.0, LARGEST_OVERESTIMATE, len(run_us)))
    minutes_us = np.maximum(np.ceil(stretched / MINUTE), 1).astype(np.int64) * MINUTE
    if model == "factor":
        return minutes_us
    place = np.searchsorted(POPULAR_REQUESTS_US, minutes_us)
    last = len(POPULAR_REQUESTS_US) - 1
    return np.where(place > last, minutes_us, POPULAR_REQUESTS_US[np.minimum(place, last)])


def synthetic_workload(
    submit_us: Ints,
    run_us: Ints,
    limit_us: Ints,
    processes: Ints,
    *,
    nodes: int,
    source: str,
    program: NDArray[np.int32] | None = None,
    program_names: Sequence[str] = (),
    extra: dict[str, NDArray[Any]] | None = None,
) -> Workload:
    """Jobs 1, 2, 3, ... of unknown users; `source` says which generator made them and how."""
    jobs = len(submit_us)
    unknown = np.full(jobs, -1, np.int32)
    return Workload(
        job_id=np.arange(1, jobs + 1),
        submit_us=submit_us,
        run_us=run_us,
        limit_us=limit_us,
        processes=processes,
        user=unknown,
        program=unknown if program is None else program,
        rejection=np.full(jobs, ACCEPTED, np.int8),
        program_names=program_names,
        extra=extra or {},
        max_nodes=nodes,
        max_procs=nodes,
        header={"Computer": source},
        source=source,
    )
