"""Hypothesis strategies for workloads as each file format can carry them, and how two workloads are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Workload
from cohabit.trace.records import NO_RUN_US, RUN_FROM_CATALOGUE_US

numbers = st.integers(0, 10**6).map(str)
words = st.text("abcXYZ_-.,\"' é", min_size=1, max_size=8).map(lambda name: " ".join(name.split())).filter(bool)
times_us = st.one_of(st.integers(0, 10**10).map(lambda s: s * SECOND), st.integers(0, 10**16))


def decoded(codes: np.ndarray, names: Sequence[str]) -> list[str]:
    table = [*names, ""]  # code -1 is nobody
    return [table[code] for code in codes.tolist()]


def same_jobs(left: Workload, right: Workload) -> None:
    assert left.job_id.tolist() == right.job_id.tolist()
    for column in ("submit_us", "run_us", "limit_us", "processes", "rejection"):
        assert getattr(left, column).tolist() == getattr(right, column).tolist(), column
    assert decoded(left.user, left.user_names) == decoded(right.user, right.user_names)
    assert decoded(left.program, left.program_names) == decoded(right.program, right.program_names)


@st.composite
def workloads(draw: st.DrawFn, *, for_csv: bool) -> Workload:
    jobs = draw(st.integers(1, 12))

    def column(elements: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(elements, min_size=jobs, max_size=jobs)), np.int64)

    def coded() -> tuple[np.ndarray, list[str]]:
        names = draw(st.lists(draw(st.sampled_from([numbers, words])), max_size=4, unique=True))
        return column(st.integers(-1, len(names) - 1)).astype(np.int32), names

    run_us = np.where(column(st.integers(0, 9)) == 0, NO_RUN_US, column(times_us))
    processes = column(st.integers(-1, 5000))
    stated_us = column(st.one_of(st.just(0), times_us))
    user, user_names = coded()
    program, program_names = coded()
    partition, partition_names = coded()
    rejection = np.where(run_us < 0, BAD_RUN, np.where(processes <= 0, BAD_SIZE, ACCEPTED))
    if for_csv:
        untimed = (column(st.integers(0, 3)) == 0) & (program >= 0)
        run_us = np.where(untimed, RUN_FROM_CATALOGUE_US, run_us)
        rejection = np.where((run_us < 0) & ~untimed, BAD_RUN, np.where(processes <= 0, BAD_SIZE, ACCEPTED))
    limit_us = np.where(stated_us > 0, stated_us, run_us)
    memory = column(st.integers(0, 2**20)) * (1 if for_csv else 1024)
    return Workload(
        job_id=np.array(draw(st.permutations(range(1, jobs + 1))), np.int64) * 7, submit_us=column(times_us),
        run_us=run_us, limit_us=limit_us, processes=processes, user=user, program=program,
        rejection=rejection.astype(np.int8), user_names=user_names, program_names=program_names,
        memory_bytes=memory, partition=partition, partition_names=partition_names,
        max_nodes=draw(st.integers(0, 9999)), max_procs=draw(st.integers(0, 9999)),
    )  # fmt: skip
