"""The CSV of the Lumos data set (DIR-LAB/lumos): Theta, ThetaGPU and the others it has in the same columns.

A job's size is its nodes, as Argonne gives whole nodes; where a system states none, GPUs or processors.
Times may be fractions, counts may be written 8.0, and the first column is a row number that is ignored.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping

from cohabit.model.errors import InputError
from cohabit.model.units import microseconds
from cohabit.model.workload import Workload
from cohabit.trace.records import NO_RUN_US, JobRecord, workload_of

REQUIRED = ("job", "user", "submit_time", "run_time", "wall_time", "node_num")


def parse(text: str, source: str = "lumos") -> Workload:
    """All jobs of a Lumos table; a missing column or a bad number raises InputError naming line and column."""
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"has no column {missing[0]}", f"{source}, line 1", "this is not a Lumos table")
    records: list[JobRecord] = []
    defects: Counter[str] = Counter()
    for row in reader:
        where = f"{source}, line {reader.line_num}"
        submit_s = _number(row, "submit_time", where)
        if submit_s is None:
            raise InputError("is empty", f"{where}, submit_time", "the file may be cut short")
        run_s = _number(row, "run_time", where)
        if run_s is None or run_s < 0:
            defects["jobs whose run time cannot be known"] += 1
        limit_s = _number(row, "wall_time", where) or 0.0
        if limit_s <= 0:
            defects["jobs without a time limit"] += 1
        nodes, gpus, cpus = (int(_number(row, name, where) or 0) for name in ("node_num", "gpu_num", "cpu_num"))
        if nodes <= 0 < max(gpus, cpus):
            defects["jobs without a node count, counted in GPUs or processors"] += 1
        user = _number(row, "user", where)
        records.append(
            JobRecord(
                job_id=row["job"],
                submit_us=microseconds(submit_s),
                run_us=NO_RUN_US if run_s is None or run_s < 0 else microseconds(run_s),
                limit_us=microseconds(max(limit_s, 0.0)),
                processes=nodes if nodes > 0 else gpus or cpus,
                user="" if user is None else f"{user:.0f}",
                nodes=nodes,
                gpus=gpus,
            )
        )
    return workload_of(records, defects, source, header={"UnixStartTime": "0"})


def _number(row: Mapping[str, str | None], column: str, where: str) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number", f"{where}, {column}", "repair the line") from None
    return value if math.isfinite(value) else None
