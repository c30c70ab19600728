"""The files of a telemetry store: Parquet segments named after the windows in them, and how they are read and written.

FIRST-LAST-NUMBER.parquet holds the windows that end from FIRST to LAST (microseconds since 1970); where two segments
hold the same window, the higher NUMBER wins. A segment appears whole or not at all: drafts begin with a dot and are
never read. Columns: end_us, node, samples, and COUNTER.min, .max, .mean as 32-bit numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import cohabit.whole_files as whole_files
from cohabit.model.telemetry import STATS, Window, feature_names
from cohabit.store.telemetry_reduce import Reduced

NAME = re.compile(r"(\d{1,19})-(\d{1,19})-(\d{1,19})\.parquet")
FEWEST_ROWS = 256  # of a group: smaller ones cost more in headers than they save
KEYS = ("end_us", "node", "samples")


class Segment(NamedTuple):
    """One file."""

    first_us: int
    last_us: int
    number: int
    path: Path

    def covers(self, other: Segment) -> bool:
        """Return whether the other segment may have been merged into this one."""
        inside = self.first_us <= other.first_us and other.last_us <= self.last_us
        return inside and self.number >= other.number and self.path != other.path


class Recorded(NamedTuple):
    """A window from the store: what its rows stand for, and how many samples each has."""

    window: Window
    nodes: tuple[str, ...]
    samples: np.ndarray[tuple[int], np.dtype[np.int32]]


def listed(folder: Path) -> list[Segment]:
    """Return the segments of a folder by time."""
    found = []
    for path in folder.iterdir():
        if match := NAME.fullmatch(path.name):
            first, last, number = map(int, match.groups())
            found.append(Segment(first, last, number, path))
    return sorted(found)


def path_of(folder: Path, first_us: int, last_us: int, number: int) -> Path:
    """Return the path of such a segment."""
    return folder / f"{first_us}-{last_us}-{number}.parquet"


def frame_of(reduced: Reduced, nodes: Sequence[str]) -> pl.DataFrame:
    """Return a window as rows, one for each node with data."""
    window, samples = reduced
    said = np.flatnonzero(samples > 0)
    columns: dict[str, pl.Series] = {
        "end_us": pl.Series(np.full(len(said), window.end_us, np.int64)),
        "node": pl.Series([nodes[index] for index in said.tolist()], dtype=pl.String),
        "samples": pl.Series(samples[said].astype(np.int32)),
    }
    for column, counter in enumerate(window.counters):
        for stat, table in zip(STATS, (window.lowest, window.highest, window.mean), strict=True):
            columns[f"{counter}.{stat}"] = pl.Series(table[said, column].astype(np.float32))
    return pl.DataFrame(columns)


def write(frame: pl.DataFrame, path: Path) -> None:
    """Write all rows or none. Rows are in the order of time, two windows of a large machine to a group."""
    group = max(2 * len(frame) // max(frame["end_us"].n_unique(), 1), FEWEST_ROWS)
    with whole_files.replacing(path) as stream:
        frame.write_parquet(stream, compression="zstd", compression_level=1, row_group_size=group)


def read(path: Path, begin_us: int, end_us: int, counters: Sequence[str] | None) -> pl.DataFrame:
    """Read windows that end after `begin_us` and not after `end_us`, with all columns or those of some counters.

    Groups of rows outside that time are not unpacked.
    """
    rows = pl.scan_parquet(path)
    if counters is not None:
        wanted = {*KEYS, *feature_names(counters)}
        names = rows.collect_schema().names()
        if not wanted.issuperset(names):
            rows = rows.select(name for name in names if name in wanted)
    return rows.filter((pl.col("end_us") > begin_us) & (pl.col("end_us") <= end_us)).collect()


def together(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Merge rows of several segments, later ones last: for a node and window, the later value of each column counts."""
    rows = pl.concat(frames, how="diagonal")
    if rows.select(KEYS[:2]).is_duplicated().any():
        rows = rows.group_by(KEYS[:2], maintain_order=True).agg(pl.all().drop_nulls().last())
    return rows.sort("end_us", maintain_order=True)


def counters_in(names: Iterable[str]) -> tuple[str, ...]:
    """The counters whose columns these are, in their order."""
    return tuple(dict.fromkeys(name.rpartition(".")[0] for name in names if name not in KEYS))


def recorded(rows: pl.DataFrame, nodes: Sequence[str] | None, counters: Sequence[str] | None) -> Recorded:
    """Return the rows of one window, for these nodes in this order (NaN without data), or for all nodes with data."""
    present = rows["node"].to_list()
    wanted = tuple(nodes) if nodes is not None else tuple(sorted(present))
    names = tuple(counters) if counters is not None else counters_in(rows.columns)
    where = {name: row for row, name in enumerate(present)}
    places = np.array([where.get(name, -1) for name in wanted], np.int64)
    known = np.flatnonzero(places >= 0)
    features = feature_names(names)
    columns = set(rows.columns)
    there = [at for at, name in enumerate(features) if name in columns]
    values = np.full((len(wanted), len(features)), np.nan, np.float32)
    if there:
        content = rows.select(features[at] for at in there).to_numpy()  # null becomes NaN
        values[np.ix_(known, np.array(there))] = content[places[known]]
    by_stat = values.reshape(len(wanted), len(names), len(STATS)).transpose(2, 0, 1)
    lowest, highest, mean = (np.ascontiguousarray(table) for table in by_stat)
    samples = np.zeros(len(wanted), np.int32)
    samples[known] = rows["samples"].to_numpy()[places[known]]
    return Recorded(Window(int(rows["end_us"][0]), names, lowest, highest, mean), wanted, samples)
