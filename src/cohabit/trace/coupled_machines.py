"""Jobs as on Intrepid and Eureka, the coupled machines of the coscheduling paper (ICPP 2011), made from public facts.

Neither month the paper used is public. Known of it: Intrepid has 40,960 nodes, jobs of 512 to 32,768 nodes, 9,219 of
them in a month; Eureka has 100 nodes, jobs of 1 to 100, and its arrival intervals were multiplied by one constant to
reach a utilisation. Everything else is assumed, after logs of later machines of the same site: sizes of Mira, requests
at popular values, runs of 30 to 100 % of the request, and a share of jobs that end long before (11 % of Mira's, 22 % of
Theta's and 46 % of ThetaGPU's use less than a tenth). Shape and load were fitted to machines by themselves, before any
coscheduling was simulated (docs/coscheduling-evidence.md says how). Not modelled: partitions of a Blue Gene (any free
nodes will do), users, weekends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.units import DAY, SECOND
from cohabit.model.workload import Floats, Ints, Workload
from cohabit.trace.lublin import BATCH, BUCKET_S, BUCKETS, half_hour_weights
from cohabit.trace.synthetic import POPULAR_REQUESTS_US, arrivals_us, check_counts, offered_load, synthetic_workload

INTREPID_NODES, INTREPID_JOBS, INTREPID_LOAD = 40_960, 9_219, 0.755
EUREKA_NODES, EUREKA_LOAD = 100, 0.5
MONTH_DAYS = 30.0
POPULAR_S = POPULAR_REQUESTS_US // SECOND

LARGE_SIZES = {512: 0.50, 1024: 0.22, 2048: 0.16, 4096: 0.045, 8192: 0.05, 16384: 0.018, 32768: 0.007}
SMALL_SIZES = {1: 0.22, 2: 0.14, 4: 0.16, 8: 0.17, 16: 0.14, 25: 0.06, 32: 0.06, 50: 0.03, 64: 0.01, 100: 0.01}
SMALLEST_JOB = 512
SHORTEST_S, LONGEST_S = 60, 43_200  # both machines cut jobs at 12 hours
LEAST_USED = 0.3  # of the request, by jobs that end as they should


@dataclass(frozen=True)
class Habits:
    """The lengths of the jobs of a machine."""

    median_request_s: float
    sigma: float
    early_share: float  # end at an instant log-uniform between a minute and their request


LARGE = Habits(median_request_s=4_600.0, sigma=1.0, early_share=0.3)
SMALL = Habits(median_request_s=7_200.0, sigma=1.0, early_share=0.5)


def generate_intrepid(
    rng: np.random.Generator, jobs: int = INTREPID_JOBS, nodes: int = INTREPID_NODES, *, load: float = INTREPID_LOAD
) -> Workload:
    """Jobs of powers of two from 512 nodes up, over about a month at the usual load."""
    check_counts(jobs, nodes, load)
    sizes = {size: share for size, share in LARGE_SIZES.items() if size <= nodes}
    if not sizes:
        raise InputError(f"{nodes} nodes are fewer than the smallest job asks for", "nodes", f"give {SMALLEST_JOB} up")
    processes, run_s, limit_s = _jobs(rng, jobs, sizes, LARGE)
    submit_us = arrivals_us(np.diff(_daily_arrivals(rng, jobs), prepend=0.0), run_s, processes, nodes, load)
    source = f"jobs as on Intrepid, offered load {load:g}, {nodes} nodes; partitions not modelled"
    return synthetic_workload(submit_us, run_s * SECOND, limit_s * SECOND, processes, nodes=nodes, source=source)


def generate_eureka(
    rng: np.random.Generator,
    jobs: int | None = None,
    nodes: int = EUREKA_NODES,
    *,
    load: float = EUREKA_LOAD,
    span_days: float = MONTH_DAYS,
) -> Workload:
    """Jobs of 1 to 100 nodes over exactly `span_days` at exactly this load (to the rounding of seconds).

    Without `jobs` as many are drawn as fill the span: more months packed into one for a higher load. With `jobs`, as
    for the paper's special trace, their run and requested times are multiplied by one constant.
    """
    check_counts(2 if jobs is None else jobs, nodes, load)
    if not 0 < span_days < math.inf:
        raise InputError(f"a span of {span_days} days is impossible", "span_days", "give a positive number such as 30")
    sizes = {size: share for size, share in SMALL_SIZES.items() if size <= nodes}
    span_s = span_days * DAY / SECOND
    work_s = load * nodes * span_s
    if jobs is None:
        processes, run_s, limit_s = _until(rng, work_s, sizes)
    else:
        processes, run_s, limit_s = _jobs(rng, jobs, sizes, SMALL)
        factor = work_s / float((processes * run_s).sum())
        run_s, limit_s = (np.maximum(np.rint(column * factor), 1).astype(np.int64) for column in (run_s, limit_s))
    arrival_s = _daily_arrivals(rng, len(run_s))
    arrival_s = (arrival_s - arrival_s[0]) * (span_s / max(float(arrival_s[-1] - arrival_s[0]), 1e-9))
    submit_us = np.rint(arrival_s).astype(np.int64) * SECOND
    source = f"jobs as on Eureka, offered load {load:g} over {span_days:g} days, {nodes} nodes"
    return synthetic_workload(submit_us, run_s * SECOND, limit_s * SECOND, processes, nodes=nodes, source=source)


def scaled_to_load(workload: Workload, nodes: int, load: float) -> Workload:
    """The same jobs with every arrival interval multiplied by one constant, so that they offer this load (C21)."""
    check_counts(len(workload), nodes, load)
    accepted = (workload.rejection == 0) & (workload.run_us >= 0)
    if not accepted.any():
        raise InputError("has no jobs whose load is known", workload.source, "leave load out")
    now = offered_load(workload.submit_us[accepted], workload.run_us[accepted], workload.processes[accepted], nodes)
    if not 0 < now < math.inf:
        raise InputError("jobs that all arrive at once have no offered load", workload.source, "leave load out")
    first = int(workload.submit_us.min())
    submit_us = first + np.rint((workload.submit_us - first) * (now / load)).astype(np.int64)
    return replace(workload, submit_us=submit_us)


def shifted(workload: Workload, by_us: int) -> Workload:
    """The same jobs, all submitted so much later: to let logs of different years overlap."""
    return replace(workload, submit_us=workload.submit_us + by_us)


def within(workload: Workload, begin_us: int, end_us: int) -> Workload:
    """The jobs submitted from `begin_us` on and before `end_us`."""
    return workload.take(np.flatnonzero((workload.submit_us >= begin_us) & (workload.submit_us < end_us)))


def _jobs(rng: np.random.Generator, jobs: int, sizes: dict[int, float], habits: Habits) -> tuple[Ints, Ints, Ints]:
    """Sizes, run times and requested times."""
    shares = np.array(list(sizes.values()))
    processes = rng.choice(np.array(list(sizes), np.int64), jobs, p=shares / shares.sum())
    wanted_s = np.exp(rng.normal(math.log(habits.median_request_s), habits.sigma, jobs))
    limit_s = POPULAR_S[np.searchsorted(POPULAR_S, np.minimum(wanted_s, LONGEST_S))]
    used = limit_s * rng.uniform(LEAST_USED, 1.0, jobs)
    cut = SHORTEST_S * (limit_s / SHORTEST_S) ** rng.random(jobs)
    run_s = np.rint(np.where(rng.random(jobs) < habits.early_share, cut, used)).astype(np.int64)
    return processes, np.clip(run_s, SHORTEST_S, limit_s), limit_s


def _until(rng: np.random.Generator, work_s: float, sizes: dict[int, float]) -> tuple[Ints, Ints, Ints]:
    """Generate jobs up to this amount of work; the last run is shortened to fit."""
    parts: list[tuple[Ints, Ints, Ints]] = []
    drawn = 0.0
    while drawn < work_s:
        parts.append(_jobs(rng, 256, sizes, SMALL))
        drawn += float((parts[-1][0] * parts[-1][1]).sum())
    processes, run_s, limit_s = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    done = np.cumsum(processes * run_s)
    last = int(np.searchsorted(done, work_s))
    left = work_s - (float(done[last - 1]) if last else 0.0)
    run_s[last] = max(round(left / int(processes[last])), 1)
    return processes[: last + 1], run_s[: last + 1], limit_s[: last + 1]


def _daily_arrivals(rng: np.random.Generator, jobs: int) -> Floats:
    """Instants of a Poisson process whose rate follows the day of Lublin and Feitelson; only ratios of gaps matter."""
    used_by = np.concatenate(([0.0], np.cumsum(half_hour_weights(BATCH))))
    activity = np.cumsum(rng.exponential(1.0, jobs)) * (BUCKETS * MONTH_DAYS / jobs)
    days = np.floor(activity / used_by[-1])
    within_day = np.interp(activity - days * used_by[-1], used_by, np.arange(BUCKETS + 1))
    seconds: Floats = (days * BUCKETS + within_day) * BUCKET_S
    return seconds
