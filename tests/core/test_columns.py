"""Policies see the columns of the job table under the right names."""

from __future__ import annotations

import numpy as np

from cohabit.core import columns
from cohabit.core.columns import columns_of


def test_every_column_has_its_own_number() -> None:
    """Two names for one number would mix up two columns of all jobs."""
    jobs = [
        columns.NODES, columns.LIMIT, columns.SUBMIT, columns.SEQ, columns.STATE, columns.START, columns.EXPECTED,
        columns.RANGES, columns.CORES, columns.USER, columns.PARTITION, columns.MEMORY, columns.QOS, columns.ATTEMPT,
        columns.RESERVED, columns.PROMISED, columns.ELIGIBLE, columns.PROCESSES, columns.FLAGS, columns.PROGRAM,
    ]  # fmt: skip
    assert sorted(jobs) == list(range(columns.JOB_COLUMNS))
    assert sorted((columns.SCORE, columns.BACKFILL_SCORE, columns.ENDS, columns.ARRIVAL)) == list(
        range(columns.KEY_COLUMNS)
    )
    assert columns.RUNS == columns.GAUGES - 1
    assert columns.STATE_NAMES[columns.HOLDING] == "holding"
    assert columns.STATE_NAMES[columns.QUEUED] == "queued"


def test_policies_read_the_columns_by_name() -> None:
    jobs = np.arange(columns.JOB_COLUMNS)[:, np.newaxis].repeat(2, axis=1)
    seen = columns_of(jobs, np.zeros((2, 3)))
    found = {name: int(getattr(seen, name)[0]) for name in seen._fields if not name.startswith("usage")}
    assert found == {
        "nodes": columns.NODES, "limit_us": columns.LIMIT, "submit_us": columns.SUBMIT, "seq": columns.SEQ,
        "cores": columns.CORES, "user": columns.USER, "partition": columns.PARTITION, "qos": columns.QOS,
        "eligible_us": columns.ELIGIBLE,
    }  # fmt: skip


def test_usage_is_by_user_without_the_column_of_the_whole() -> None:
    usage = np.array([[1.0, 2.0, 99.0], [0.5, 1.5, 99.0]])
    seen = columns_of(np.zeros((columns.JOB_COLUMNS, 1), np.int64), usage)
    assert seen.usage.tolist() == [1.0, 2.0]
    assert seen.usage_share.tolist() == [0.5, 1.5]
