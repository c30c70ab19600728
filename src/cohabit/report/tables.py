"""The tables of a run on disk: jobs.csv for people and scripts, jobs.parquet for further processing, summary.json.

jobs.csv has one row per input job in the order of the input, with times in seconds on the trace's own clock.
jobs.parquet holds the same columns and everything needed to rebuild the workload and the run from that file
alone. No Python object is made per row, so a million jobs take well under a second and little memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.records import NEVER, STATUS_NAMES, NodeRanges, RunTable, Slowdowns
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.whole_files import replacing

SLOWDOWNS = {"predicted_slowdown": "predicted", "actual_slowdown": "measured"}  # column -> field
CSV_EXTRAS = ("domain", "group", "first_ready_s")  # columns of workload.extra that jobs.csv shows under their own name
EXTRA_PREFIX = "extra."
METADATA_KEY = "cohabit"
RUN_FACTS = ("reasons", "cluster_nodes", "cluster_cores", "policy", "seed", "events", "settings", "journal_hash",
             "scenario_hash", "canary_us")  # fmt: skip
WORKLOAD_FACTS = ("user_names", "program_names", "partition_names", "max_nodes", "max_procs", "header", "defects",
                  "source")  # fmt: skip


def seconds_column(name: str, us: NDArray[np.int64]) -> pl.Series:
    """Microseconds as seconds: whole numbers if every time is one, else exact decimals; null for NEVER."""
    ran = us != NEVER
    absent = not bool(ran.all())
    whole, part = np.divmod(np.where(ran, us, 0) if absent else us, SECOND)
    column = pl.Series(name, us / SECOND if part.any() else whole)
    return _blank(column, ran) if absent else column


def _blank(column: pl.Series, keep: NDArray[np.bool_]) -> pl.Series:
    """The column with nulls wherever `keep` is false."""
    return pl.select(pl.when(pl.Series(keep)).then(column).otherwise(None).alias(column.name)).to_series()


def name_column(name: str, index: NDArray[Any], names: Sequence[str | None]) -> pl.Series:
    """The name each row points to; null where the index is -1."""
    rows = pl.Series(index)
    if len(index) and int(index.min()) < 0:
        rows = _blank(rows, index >= 0)
    table = pl.Series(name, list(names), dtype=pl.String)
    if not len(table):
        return pl.Series(name, [None], dtype=pl.String).new_from_index(0, len(index))
    return table.gather(rows)


def _plain_column(name: str, values: NDArray[Any]) -> pl.Series:
    """A column of any kind: numbers as they are (NaN is null), objects as text."""
    if values.dtype.kind == "f":
        return pl.Series(name, values).fill_nan(None)
    if values.dtype.kind in "iub":
        return pl.Series(name, values)
    return pl.Series(name, [None if value is None else str(value) for value in values.tolist()], dtype=pl.String)


def jobs_frame(run: RunTable) -> pl.DataFrame:
    """The columns of jobs.csv, in their order."""
    jobs = run.workload
    columns = [
        _plain_column("job_id", jobs.job_id),
        name_column("program", jobs.program, jobs.program_names),
        name_column("user", jobs.user, jobs.user_names),
        seconds_column("submit_s", jobs.submit_us),
        seconds_column("start_s", run.start_us),
        seconds_column("end_s", run.end_us),
        pl.Series("nodes", run.nodes),
        pl.Series("cores", run.cores),
        pl.Series("scale", run.scale),
        name_column("status", run.status, STATUS_NAMES),
        name_column("reason", run.reason, run.reasons),
    ]
    columns += [_plain_column(name, jobs.extra[name]) for name in CSV_EXTRAS if name in jobs.extra]
    if run.slowdowns is not None:
        columns += [_plain_column(name, getattr(run.slowdowns, field)) for name, field in SLOWDOWNS.items()]
    return pl.DataFrame(columns)


def write_jobs_csv(run: RunTable, path: str | os.PathLike[str]) -> None:
    """One row per input job, in the order of the input; a job that never ran has empty start_s and end_s."""
    # null is written as an empty field and the empty text as ""; readers expect an empty field
    reason = name_column("reason", run.reason, [text or None for text in run.reasons])
    frame = jobs_frame(run).with_columns(reason)
    with replacing(path) as stream:
        frame.write_csv(stream, float_scientific=False, batch_size=16384)


def _exact_us(name: str, us: NDArray[np.int64]) -> pl.Series:
    return _blank(pl.Series(name, us), us != NEVER)


def write_jobs_parquet(run: RunTable, path: str | os.PathLike[str]) -> None:
    """jobs.csv's columns, exact microseconds, node lists, and all that `read_jobs_parquet` needs."""
    jobs = run.workload
    columns = [
        pl.Series("submit_us", jobs.submit_us),
        _exact_us("start_us", run.start_us),
        _exact_us("end_us", run.end_us),
        pl.Series("trace_run_us", jobs.run_us),
        pl.Series("limit_us", jobs.limit_us),
        pl.Series("processes", jobs.processes),
        pl.Series("rejection", jobs.rejection),
        node_list_column(run.node_ranges, len(run)),
        pl.Series("shares", [text or None for text in run.shares or [""] * len(run)], dtype=pl.String),
    ]
    if jobs.memory_bytes is not None:
        columns.append(pl.Series("memory_bytes", jobs.memory_bytes))
    if jobs.partition is not None:
        columns.append(name_column("partition", jobs.partition, jobs.partition_names))
    if jobs.after is not None:
        columns.append(pl.Series("after", [list(ids) for ids in jobs.after], dtype=pl.List(pl.String)))
    others = (name for name in jobs.extra if name not in CSV_EXTRAS)
    columns += [_plain_column(EXTRA_PREFIX + name, jobs.extra[name]) for name in others]
    facts = {name: getattr(run, name) for name in RUN_FACTS}
    facts["workload"] = {name: _plain(getattr(jobs, name)) for name in WORKLOAD_FACTS}
    frame = jobs_frame(run).hstack(columns)
    with replacing(path) as stream:
        frame.write_parquet(stream, compression_level=1, metadata={METADATA_KEY: msgspec.json.encode(facts).decode()})


def _plain(value: Any) -> Any:
    """Names may come as any sequence of text; JSON wants a list."""
    return value if isinstance(value, str | int | dict) else [str(item) for item in value]


def read_jobs_parquet(path: str | os.PathLike[str]) -> tuple[Workload, dict[str, Any]]:
    """The workload and the result columns of a stored run; RunTable(workload, **columns) is the run again."""
    try:
        frame = pl.read_parquet(Path(path))
        facts = msgspec.json.decode(pl.read_parquet_metadata(Path(path))[METADATA_KEY])
    except (OSError, KeyError, msgspec.DecodeError, pl.exceptions.PolarsError) as error:
        raise InputError(
            "is not a jobs.parquet written by cohabit", where=str(path), fix="give the folder of a finished run"
        ) from error
    stored = facts.pop("workload")
    workload = Workload(
        job_id=_array(frame["job_id"]),
        submit_us=_array(frame["submit_us"]),
        run_us=_array(frame["trace_run_us"]),
        limit_us=_array(frame["limit_us"]),
        processes=_array(frame["processes"]),
        user=_index(frame["user"], stored["user_names"], np.int32),
        program=_index(frame["program"], stored["program_names"], np.int32),
        rejection=_array(frame["rejection"]),
        memory_bytes=_array(frame["memory_bytes"]) if "memory_bytes" in frame.columns else None,
        partition=_index(frame["partition"], stored["partition_names"], np.int32)
        if "partition" in frame.columns
        else None,
        after=[tuple(ids) for ids in frame["after"].to_list()] if "after" in frame.columns else None,
        extra={
            name.removeprefix(EXTRA_PREFIX): _array(frame[name])
            for name in frame.columns
            if name in CSV_EXTRAS or name.startswith(EXTRA_PREFIX)
        },
        **stored,
    )
    facts["reasons"] = tuple(facts["reasons"])
    columns = {
        "start_us": frame["start_us"].fill_null(NEVER).to_numpy(),
        "end_us": frame["end_us"].fill_null(NEVER).to_numpy(),
        "nodes": _array(frame["nodes"]),
        "cores": _array(frame["cores"]),
        "scale": _array(frame["scale"]),
        "status": _index(frame["status"], STATUS_NAMES, np.int8),
        "reason": _index(frame["reason"], facts["reasons"], np.int32),
        "node_ranges": node_ranges_of(frame["node_list"]),
        "shares": _texts(frame["shares"]),
        "slowdowns": _slowdowns(frame),
    }
    return workload, columns | facts


def _slowdowns(frame: pl.DataFrame) -> Slowdowns | None:
    """Return the slowdowns of a stored run; None: it has none."""
    if any(name not in frame.columns for name in SLOWDOWNS):
        return None
    columns = {field: frame[name].cast(pl.Float64).fill_null(np.nan) for name, field in SLOWDOWNS.items()}
    return Slowdowns(**{field: column.to_numpy() for field, column in columns.items()})


def _array(column: pl.Series) -> NDArray[Any]:
    if column.dtype == pl.String:
        return np.array(column.to_list(), dtype=object)
    return column.to_numpy()


def _texts(column: pl.Series) -> list[str] | None:
    """Texts with "" where there is none; None where there are none at all."""
    return None if column.null_count() == len(column) else [text or "" for text in column.to_list()]


def _index(column: pl.Series, names: Sequence[str], kind: Any) -> NDArray[Any]:
    """The inverse of `name_column`."""
    if not names:
        return np.full(len(column), -1, dtype=kind)
    places = {name: number for number, name in enumerate(names)}
    found = column.replace_strict(list(places), list(places.values()), default=-1, return_dtype=pl.Int64)
    return found.to_numpy().astype(kind)


def node_list_column(ranges: NodeRanges | None, jobs: int) -> pl.Series:
    """Node lists as text such as "0-511,600", by job; null where a job had no node, or none were recorded."""
    nothing = pl.Series("node_list", [], dtype=pl.String).extend_constant(None, jobs)
    if ranges is None or not len(ranges.first):
        return nothing
    lengths = np.diff(ranges.offsets)
    job = np.repeat(np.arange(jobs, dtype=np.int64), lengths)
    frame = pl.DataFrame({"job": job, "first": ranges.first, "count": ranges.count})
    last = pl.col("first") + pl.col("count") - 1
    text = pl.col("first").cast(pl.String)
    text = pl.when(pl.col("count") == 1).then(text).otherwise(text + "-" + last.cast(pl.String))
    frame = frame.select("job", text.alias("node_list"))
    if int(lengths.max()) > 1:
        frame = frame.group_by("job", maintain_order=True).agg(pl.col("node_list").str.join(","))
    if len(frame) == jobs:
        return frame["node_list"]
    place = np.full(jobs, -1, dtype=np.int64)
    place[frame["job"].to_numpy()] = np.arange(len(frame))
    rows = pl.DataFrame({"place": place}).select(pl.when(pl.col("place") >= 0).then(pl.col("place")).otherwise(None))
    return frame["node_list"].gather(rows["place"])


def node_ranges_of(column: pl.Series) -> NodeRanges | None:
    """The inverse of `node_list_column`; None if no job has a node list."""
    if column.null_count() == len(column):
        return None
    jobs = len(column)
    frame = (
        pl.DataFrame({"job": np.arange(jobs, dtype=np.int64), "text": column.str.split(",")})
        .explode("text")
        .drop_nulls("text")
        .with_columns(pl.col("text").str.split_exact("-", 1).struct.rename_fields(["first", "last"]))
        .unnest("text")
        .with_columns(pl.col("first").cast(pl.Int32), pl.col("last").cast(pl.Int32))
    )
    first = frame["first"].to_numpy()
    last = frame.select(pl.coalesce("last", "first")).to_series().to_numpy()
    lengths = np.bincount(frame["job"].to_numpy(), minlength=jobs)
    return NodeRanges(
        offsets=np.concatenate(([0], np.cumsum(lengths))).astype(np.int64),
        first=first.astype(np.int32),
        count=(last - first + 1).astype(np.int32),
    )


def write_table(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Plain rows with the same keys as CSV; a key that a row lacks is left empty."""
    frame = pl.DataFrame([dict(row) for row in rows], infer_schema_length=None)
    with replacing(path) as file:
        frame.write_csv(file)
