"""The columns of the hot job table, and the read-only names under which policies see them.

One int64 array of shape [columns, capacity] holds every live job: kernels index it by the constants here,
policies read it through `Columns`, by name. Finished jobs leave the table and their rows are used again.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.signedinteger[Any]]
Floats: TypeAlias = NDArray[np.float64]

# jobs[...] (int64). core/kernels/ladder.py summarises rungs by NODES and LIMIT.
NODES, LIMIT, SUBMIT, SEQ, STATE, START, EXPECTED, RANGES = 0, 1, 2, 3, 4, 5, 6, 7
CORES, USER, PARTITION, MEMORY, QOS, ATTEMPT, RESERVED, PROMISED, ELIGIBLE, PROCESSES, FLAGS, PROGRAM = range(8, 20)
JOB_COLUMNS = 20

# keys[...] (float64): what the ladders sort by
SCORE, BACKFILL_SCORE, ENDS, ARRIVAL = 0, 1, 2, 3  # ARRIVAL: all zero, or a bound or the size of a job
KEY_COLUMNS = 4

# jobs[STATE]
ABSENT, BLOCKED, QUEUED, STARTING, RUNNING, HOLDING = 0, 1, 2, 3, 4, 5  # HOLDING: has nodes, waits for its mates
CANCELLED = 1  # jobs[FLAGS]: it was cancelled while it ran; it must not come back into the queue
STATE_NAMES = ("absent", "blocked", "queued", "starting", "running", "holding")

# gauges (int64): the few scalars of a machine of interchangeable nodes
FREE, SPARE_RANGE, FIRST_WORD, RELEASED, HEAD, SHADOW, EXTRA, STARTED = range(8)
PROFILE_BLOCKS, PROFILE_SPARE, PROMISES, VOID, WAKE = range(8, 13)  # VOID: 1 where promises cannot be kept
AGE_LIMIT, AGE_RUNS, RUN_US, RUNS = range(13, 17)  # age limit, or thousandths of the mean run; sum and count of runs
GAUGES = 17

# pool[...] (int64): the runs of consecutive nodes each running job owns, as linked lists
RANGE_FIRST, RANGE_COUNT, RANGE_NEXT = 0, 1, 2


class Columns(NamedTuple):
    """The columns of jobs that an order may read: flat arrays indexed by row. Never write to them."""

    nodes: NDArray[np.int64]  # nodes asked for
    limit_us: NDArray[np.int64]  # requested time
    submit_us: NDArray[np.int64]
    seq: NDArray[np.int64]  # order of submission
    cores: NDArray[np.int64]  # cores asked for in all
    user: NDArray[np.int64]  # user number, -1 unknown
    partition: NDArray[np.int64]
    qos: NDArray[np.int64]  # quality of service, larger is more urgent
    eligible_us: NDArray[np.int64]  # when it could first have run (after holds and dependencies)
    usage: NDArray[np.float64]  # decayed core-seconds by user number, for fair share
    usage_share: NDArray[np.float64]  # the same as a share: 1 is an equal part among users with any usage


def columns_of(jobs: NDArray[np.int64], usage: NDArray[np.float64]) -> Columns:
    """Return the named view of a job table and of what core/kernels/fair_share.py stores."""
    return Columns(
        nodes=jobs[NODES],
        limit_us=jobs[LIMIT],
        submit_us=jobs[SUBMIT],
        seq=jobs[SEQ],
        cores=jobs[CORES],
        user=jobs[USER],
        partition=jobs[PARTITION],
        qos=jobs[QOS],
        eligible_us=jobs[ELIGIBLE],
        usage=usage[0, :-1],
        usage_share=usage[1, :-1],
    )
