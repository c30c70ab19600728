"""Mixes of named programs: which program each job runs, on how many processes, submitted at once or over time.

The run time is normally left to the program catalogue (`run_us` = -1), because a mix exists to study how
programs share machines; a lognormal run time can be asked for instead. Such a mix is written as jobs.csv.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.trace.poisson import lognormal_run_times
from cohabit.trace.records import RUN_FROM_CATALOGUE_US
from cohabit.trace.requests import request_times
from cohabit.trace.synthetic import check_counts, synthetic_workload


def generate_mix(
    rng: np.random.Generator,
    jobs: int,
    programs: Mapping[str, float],
    processes: Sequence[int],
    *,
    nodes: int = 0,
    mean_gap_s: float = 0.0,
    median_run_s: float | None = None,
    sigma: float = 0.5,
    longest_run_s: int = 172_800,
    requests: str = "exact",
    alpha: float | None = None,
) -> Workload:
    """`jobs` jobs whose programs are drawn by weight and whose processes are drawn evenly from the choices.

    A `mean_gap_s` of 0 submits everything at 0, else arrivals are Poisson on whole seconds; `nodes` only
    states the machine in the result.
    """
    check_counts(jobs, max(nodes, 1), None)
    weights = np.array(list(programs.values()), np.float64)
    if not programs or not bool((weights >= 0).all()) or not 0 < weights.sum() < np.inf:
        raise InputError("a mix needs programs with weights that are not negative nor all 0", "programs")
    if not processes or min(processes) < 1:
        raise InputError("a mix needs numbers of processes of at least 1", "processes", "give for example 16,28")
    if mean_gap_s < 0:
        raise InputError("the mean gap between jobs cannot be negative", "mean_gap_s", "0 submits all at once")
    if alpha is not None and not 0 < alpha <= 1:
        raise InputError(f"alpha {alpha} is not above 0 and at most 1", "alpha", "0.9 tolerates a slowdown of 10 %")
    program = rng.choice(len(weights), jobs, p=weights / weights.sum()).astype(np.int32)
    chosen = rng.choice(np.array(processes, np.int64), jobs)
    submit_s = np.zeros(jobs)
    if mean_gap_s:
        submit_s[1:] = np.cumsum(rng.exponential(mean_gap_s, jobs - 1))
    run_us = np.full(jobs, RUN_FROM_CATALOGUE_US, np.int64)
    limit_us = run_us.copy()
    if median_run_s is not None:
        run_us = lognormal_run_times(rng, jobs, median_run_s, sigma, longest_run_s) * SECOND
        limit_us = request_times(rng, run_us, requests)
    return synthetic_workload(
        np.rint(submit_s).astype(np.int64) * SECOND, run_us, limit_us, chosen, nodes=nodes,
        source=f"mix of {', '.join(programs)}", program=program, program_names=tuple(programs),
        extra={} if alpha is None else {"alpha": np.full(jobs, alpha)},
    )  # fmt: skip
