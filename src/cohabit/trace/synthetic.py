"""Common parts of all generators: checked arguments, arrivals scaled to an offered load, columns of whole seconds.

Generators get their random stream as an argument: the same generator state and arguments give
the same workload. The first job is always submitted at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, Floats, Ints, Workload


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
    nobody = np.full(jobs, -1, np.int32)
    return Workload(
        job_id=np.arange(1, jobs + 1), submit_us=submit_us, run_us=run_us, limit_us=limit_us,
        processes=processes, user=nobody, program=nobody if program is None else program,
        rejection=np.full(jobs, ACCEPTED, np.int8), program_names=program_names, extra=extra or {},
        max_nodes=nodes, max_procs=nodes, header={"Computer": source}, source=source,
    )  # fmt: skip
