"""The workload model of Lublin and Feitelson (J. Parallel and Distributed Computing 63, 2003), complete.

Job sizes are log-uniform in two stages with many serial and power-of-two jobs; run times are hyper-gamma in
the logarithm, longer for larger jobs; arrivals are gamma in the logarithm of the gap, through a daily cycle
of 48 half hours. Parameters are those of the authors' program (m_lublin99.c) for 128 nodes; another machine
size only moves the size distribution, as the authors advise. The run-time law is not rescaled: on machines
of many hundred nodes most large jobs are long, as in the original. Does not model users or programs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import Floats, Ints, Workload
from cohabit.trace.synthetic import arrivals_us, check_counts, request_times, synthetic_workload

LONGEST_LOG_RUN = 12.0  # e^12 s, about two days
LONGEST_LOG_GAP = 13.0  # e^13 s, about five days
BUCKETS = 48
BUCKET_S = 1800
FIRST_BUCKET = 11  # the authors' day begins at half past five, where fewest jobs arrive


@dataclass(frozen=True)
class LublinParameters:
    """One kind of job, in the authors' notation spelled out; sizes are logarithms to base 2."""

    serial_share: float
    power_of_two_share: float
    smallest: float  # ULow
    middle_below_largest: float  # UHi - UMed
    low_stage_share: float  # UProb
    largest_at_most: float  # UHi, where the kind never fills the machine
    short_shape: float  # a1, b1: the first gamma of the run time
    short_scale: float
    long_shape: float  # a2, b2: the second
    long_scale: float
    short_share_per_node: float  # pa
    short_share_at_zero: float  # pb
    gap_shape: float  # aarr x ARAR
    gap_scale: float  # barr
    cycle_shape: float  # anum
    cycle_scale: float  # bnum
    queue: int


BATCH = LublinParameters(
    serial_share=0.2927, power_of_two_share=0.6686, smallest=1.2, middle_below_largest=2.0, low_stage_share=0.875,
    largest_at_most=math.inf, short_shape=6.57, short_scale=0.823, long_shape=639.1, long_scale=0.0156,
    short_share_per_node=-0.003, short_share_at_zero=0.6986, gap_shape=6.0415 * 1.0519, gap_scale=0.8531,
    cycle_shape=6.1271, cycle_scale=5.2740, queue=1,
)  # fmt: skip
INTERACTIVE = LublinParameters(
    serial_share=0.1541, power_of_two_share=0.625, smallest=1.0, middle_below_largest=2.5, low_stage_share=0.705,
    largest_at_most=5.5, short_shape=3.8351, short_scale=0.6605, long_shape=7.073, long_scale=0.6856,
    short_share_per_node=-0.0118, short_share_at_zero=0.9156, gap_shape=6.5510 * 0.9797, gap_scale=0.6621,
    cycle_shape=8.9186, cycle_scale=3.6680, queue=0,
)  # fmt: skip
UNDIVIDED = LublinParameters(
    serial_share=0.244, power_of_two_share=0.576, smallest=0.8, middle_below_largest=2.5, low_stage_share=0.86,
    largest_at_most=math.inf, short_shape=4.2, short_scale=0.94, long_shape=312.0, long_scale=0.03,
    short_share_per_node=-0.0054, short_share_at_zero=0.78, gap_shape=10.2303 * 1.0225, gap_scale=0.4871,
    cycle_shape=8.1737, cycle_scale=3.9631, queue=1,
)  # fmt: skip
KINDS = {"batch": (BATCH,), "interactive": (INTERACTIVE,), "both": (BATCH, INTERACTIVE), "undivided": (UNDIVIDED,)}


def generate_lublin(
    rng: np.random.Generator,
    jobs: int,
    nodes: int = 128,
    *,
    load: float | None = None,
    kind: str = "batch",
    requests: str = "factor",
) -> Workload:
    """`jobs` jobs for a machine of `nodes`; `load` stretches the arrivals (and the daily cycle with them)."""
    check_counts(jobs, nodes, load)
    if kind not in KINDS:
        raise InputError(f"unknown kind {kind!r}", "kind", f"known are {', '.join(KINDS)}")
    streams = [_stream(rng, jobs, nodes, parameters) for parameters in KINDS[kind]]
    arrival_s, processes, run_s, queue = (np.concatenate(columns) for columns in zip(*streams, strict=True))
    earliest = np.argsort(arrival_s, kind="stable")[:jobs]
    arrival_s, processes, run_s, queue = (column[earliest] for column in (arrival_s, processes, run_s, queue))
    submit_us = arrivals_us(np.diff(arrival_s, prepend=arrival_s[0]), run_s, processes, nodes, load)
    run_us = run_s * SECOND
    limit_us = request_times(rng, run_us, requests)
    source = f"Lublin-Feitelson 2003, {kind}, {nodes} nodes, requests {requests}"
    return synthetic_workload(
        submit_us, run_us, limit_us, processes, nodes=nodes, source=source, extra={"queue": queue}
    )


def _stream(rng: np.random.Generator, jobs: int, nodes: int, kind: LublinParameters) -> tuple[Floats, Ints, Ints, Ints]:
    arrival_s = _arrivals(rng, jobs, kind)
    processes = _sizes(rng, jobs, nodes, kind)
    return arrival_s, processes, _run_times(rng, processes, kind), np.full(jobs, kind.queue, np.int64)


def _sizes(rng: np.random.Generator, jobs: int, nodes: int, kind: LublinParameters) -> Ints:
    largest = min(math.log2(nodes), kind.largest_at_most)
    smallest = min(kind.smallest, largest)
    middle = max(largest - kind.middle_below_largest, smallest)
    in_low_stage = rng.random(jobs) <= kind.low_stage_share
    low, high = np.where(in_low_stage, smallest, middle), np.where(in_low_stage, middle, largest)
    exponent = low + (high - low) * rng.random(jobs)
    sort = rng.random(jobs)
    whole = np.minimum(np.floor(exponent + 0.5), math.floor(largest))
    is_power = sort <= kind.serial_share + kind.power_of_two_share
    parallel = np.rint(np.exp2(np.where(is_power, whole, exponent)))
    sizes: Ints = np.where(sort <= kind.serial_share, 1, np.clip(parallel, 1, nodes)).astype(np.int64)
    return sizes


def _run_times(rng: np.random.Generator, processes: Ints, kind: LublinParameters) -> Ints:
    short_share = np.clip(kind.short_share_per_node * processes + kind.short_share_at_zero, 0.0, 1.0)
    log_run = np.full(len(processes), np.inf)
    while len(again := np.flatnonzero(log_run > LONGEST_LOG_RUN)):
        is_short = rng.random(len(again)) <= short_share[again]
        shape = np.where(is_short, kind.short_shape, kind.long_shape)
        log_run[again] = rng.gamma(shape, np.where(is_short, kind.short_scale, kind.long_scale))
    run_s: Ints = np.floor(np.exp(log_run)).astype(np.int64)
    return run_s


def _arrivals(rng: np.random.Generator, jobs: int, kind: LublinParameters) -> Floats:
    """Seconds since midnight of the first day.

    A gap drawn from the gamma law is an amount of activity; the clock runs until the half hours it passes
    have used it up, each worth its share of the day. So arrivals are the inverse of cumulated activity.
    """
    log_gap = np.full(jobs, np.inf)
    while len(again := np.flatnonzero(log_gap > LONGEST_LOG_GAP)):
        log_gap[again] = rng.gamma(kind.gap_shape, kind.gap_scale, len(again))
    activity = np.cumsum(np.exp(log_gap) / BUCKET_S)
    used_by = np.concatenate(([0.0], np.cumsum(half_hour_weights(kind))))
    days = np.floor(activity / used_by[-1])
    within_day = np.interp(activity - days * used_by[-1], used_by, np.arange(BUCKETS + 1))
    seconds: Floats = (days * BUCKETS + within_day) * BUCKET_S
    return seconds


def half_hour_weights(kind: LublinParameters) -> Floats:
    """Activity of each half hour from midnight, 1 on average: the gamma density over the authors' cyclic day."""
    points = 65
    bucket = np.arange(FIRST_BUCKET, FIRST_BUCKET + BUCKETS)
    x = bucket[:, None] - 0.5 + np.linspace(0.0, 1.0, points)[None, :]
    log_norm = math.lgamma(kind.cycle_shape) + kind.cycle_shape * math.log(kind.cycle_scale)
    density = np.exp((kind.cycle_shape - 1) * np.log(x) - x / kind.cycle_scale - log_norm)
    weights: Floats = np.empty(BUCKETS)
    weights[(bucket - 1) % BUCKETS] = np.trapezoid(density, x, axis=1)
    weights /= weights.mean()
    return weights
