"""Node lists as text, such as "0-511,600", and back again, for a whole run at once."""

from __future__ import annotations

import numpy as np
import polars as pl

from cohabit.model.records import NodeRanges


def node_list_column(ranges: NodeRanges | None, jobs: int) -> pl.Series:
    """One text per job; null where a job had no node, or nowhere were nodes recorded."""
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
    """The inverse; None if no job has a node list."""
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
        first=first.astype(np.int32), count=(last - first + 1).astype(np.int32),
    )  # fmt: skip
