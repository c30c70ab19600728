"""Plain synthetic jobs: Poisson arrivals, lognormal run times, sizes uniform in the logarithm.

For speed tests and textbook queues, where the shape of real workloads is not wanted; for realistic
ones use `lublin`. A million jobs take well under two seconds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import Ints, Workload
from cohabit.trace.synthetic import arrivals_us, check_counts, request_times, synthetic_workload


def generate_poisson(
    rng: np.random.Generator,
    jobs: int,
    nodes: int,
    *,
    load: float | None = None,
    mean_gap_s: float = 60.0,
    median_run_s: float = 600.0,
    sigma: float = 1.5,
    longest_run_s: int = 172_800,
    sizes: Sequence[int] = (),
    requests: str = "factor",
) -> Workload:
    """`jobs` jobs for `nodes` nodes; `load` overrides the mean gap, `sizes` lists the sizes to choose from."""
    check_counts(jobs, nodes, load)
    if not (mean_gap_s > 0 and median_run_s > 0 and sigma >= 0 and longest_run_s >= 1):
        raise InputError("gap, run time and longest run must be positive, sigma not negative", "poisson")
    if any(not 1 <= size <= nodes for size in sizes):
        raise InputError("every size must be between 1 and the number of nodes", "sizes", f"nodes is {nodes}")
    run_s = lognormal_run_times(rng, jobs, median_run_s, sigma, longest_run_s)
    processes = rng.choice(np.array(sizes, np.int64), jobs) if sizes else _log_uniform_sizes(rng, jobs, nodes)
    submit_us = arrivals_us(rng.exponential(mean_gap_s, jobs), run_s, processes, nodes, load)
    run_us = run_s * SECOND
    limit_us = request_times(rng, run_us, requests)
    source = f"Poisson arrivals, lognormal runs (median {median_run_s:g} s, sigma {sigma:g}), {nodes} nodes"
    return synthetic_workload(submit_us, run_us, limit_us, processes, nodes=nodes, source=source)


def lognormal_run_times(rng: np.random.Generator, jobs: int, median_s: float, sigma: float, longest_s: int) -> Ints:
    """Whole seconds, at least 1 and at most `longest_s`."""
    run_s = np.exp(rng.normal(math.log(median_s), sigma, jobs))
    return np.clip(np.rint(run_s), 1, longest_s).astype(np.int64)


def _log_uniform_sizes(rng: np.random.Generator, jobs: int, nodes: int) -> Ints:
    return np.clip(np.rint(np.exp2(rng.uniform(0.0, math.log2(nodes), jobs))), 1, nodes).astype(np.int64)
