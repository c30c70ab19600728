"""Telemetry that LDMS recorded: files of its store_csv plugin, read in blocks, whatever is wrong with single lines.

The header (`#Time,Time_usec,ProducerName,...`) says what the columns are; a metric is NAME or PREFIX.NAME, with #DEVICE
after it where there are several. Columns we have no counter for are left out and named; lines of another length, values
that are not numbers and rows without a time or a node are left out and counted. Totals become amounts per second here.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.telemetry import WINDOW_US, growth
from cohabit.model.telemetry_counters import BY_NAME, SOURCES

BLOCK_BYTES = 8 * 1024 * 1024
LATEST_S = 4e9  # a later time is invalid
Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
IDENTITIES = frozenset({"component_id", "job_id", "app_id"})


class Rows(NamedTuple):
    """Samples ready to be reduced; `nodes` are numbers into `names`, which only grows."""

    names: list[str]
    nodes: Indices
    times_us: Indices
    values: Floats


class Header(NamedTuple):
    """The meaning of the columns of a file."""

    width: int
    time: int
    microseconds: int | None
    node: int
    columns: tuple[int, ...]
    counters: tuple[str, ...]  # of each of these columns; one counter has several where there are several devices
    left_out: tuple[str, ...]

    @property
    def distinct(self) -> tuple[str, ...]:
        """The counters, each once."""
        return tuple(dict.fromkeys(self.counters))


class Totals:
    """Turns rows of totals into rows of amounts per second; keeps the last row of every node for the next batch.

    A node whose clock does not advance, and a gap longer than a window, give no rates; both are counted.
    """

    def __init__(self, counters: Sequence[str], defects: Counter[str]) -> None:
        kinds = [BY_NAME[name] for name in counters]
        self.bits = np.array([one.bits for one in kinds])
        self.stays = np.array([one.stays for one in kinds], np.bool_)
        self.level = np.array([one.kind == "level" for one in kinds], np.bool_)
        self.defects = defects
        self.last_us: dict[int, int] = {}
        self.last: dict[int, Floats] = {}

    def rates(self, nodes: Indices, times_us: Indices, totals: Floats) -> tuple[Indices, Indices, Floats]:
        """Return nodes, times and values of the remaining rows, in the order of time; NaN where a rate is unknown."""
        order = np.lexsort((times_us, nodes))
        nodes, times_us, totals = nodes[order], times_us[order], totals[order]
        first = np.r_[True, nodes[1:] != nodes[:-1]]
        before_us, before = np.roll(times_us, 1), np.roll(totals, 1, axis=0)
        for index in np.flatnonzero(first).tolist():
            node = int(nodes[index])
            before_us[index] = self.last_us.get(node, times_us[index] - 2 * WINDOW_US)
            before[index] = self.last.get(node, np.nan)
        passed_us = times_us - before_us
        kept = passed_us > 0
        known = (passed_us > 0) & (passed_us <= WINDOW_US)
        seconds = np.where(known, passed_us * 1e-6, np.nan)[:, None]
        grown = growth(before, totals, seconds, self.bits, self.stays)
        values = np.where(self.level, totals, grown.per_second)
        amounts = ~self.level & known[:, None]
        self.defects["counters that wrapped round"] += int((grown.wrapped & amounts).sum())
        self.defects["counters that were reset"] += int((grown.reset & amounts).sum())
        self.defects["counters at their highest value"] += int((grown.stuck & amounts).sum())
        self.defects["rows whose time does not advance"] += int((~kept).sum())
        seen_before = ~first | np.isin(nodes, list(self.last_us))
        self.defects["gaps longer than a window"] += int((seen_before & (passed_us > WINDOW_US)).sum())
        self._remember(nodes, times_us, totals)
        back = np.argsort(times_us[kept], kind="stable")
        return nodes[kept][back], times_us[kept][back], values[kept][back]

    def _remember(self, nodes: Indices, times_us: Indices, totals: Floats) -> None:
        last = np.flatnonzero(np.r_[nodes[1:] != nodes[:-1], True])
        for index in last.tolist():
            node = int(nodes[index])
            if times_us[index] > self.last_us.get(node, -(2**62)):
                self.last_us[node], self.last[node] = int(times_us[index]), totals[index].copy()


class LdmsFile:
    """One file, given as a stream of bytes; `where` and `source` name it and the counters to look for."""

    def __init__(self, stream: IO[bytes], where: str, source: str | None = None) -> None:
        self.stream, self.where = stream, where
        self.defects: Counter[str] = Counter()
        self.head = stream.readline()
        self.header = read_header(self.head.decode("utf-8", "replace"), where, source)
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._totals = Totals(self.header.counters, self.defects)

    @property
    def counters(self) -> tuple[str, ...]:
        """The counters of the columns of `Rows.values`."""
        return self.header.distinct

    def rows(self) -> Iterator[Rows]:
        """Yield rows block by block, each in the order of time."""
        for lines in self._blocks():
            table = self._table(lines)
            if table is not None:
                yield self._rates(*table)

    def _blocks(self) -> Iterator[list[str]]:
        rest = b""
        while block := self.stream.read(BLOCK_BYTES):
            whole, newline, rest = (rest + block).rpartition(b"\n")
            if newline:
                yield whole.decode("utf-8", "replace").split("\n")
        if rest.strip():  # cut off in the middle: it may look complete and still lack digits
            self.defects["lines cut short"] += 1

    def _table(self, lines: list[str]) -> tuple[list[str], Indices, Floats] | None:
        text = pl.Series("line", lines, dtype=pl.String).str.strip_chars()
        text = text.filter((text.str.len_bytes() > 0) & ~text.str.starts_with("#"))
        fits = text.str.count_matches(",") == self.header.width - 1
        self.defects["lines of another length"] += int((~fits).sum())
        text = text.filter(fits)
        if not len(text):
            return None
        frame = pl.read_csv(
            io.StringIO("\n".join(text.to_list())), has_header=False, infer_schema=False, quote_char=None
        )
        names = frame.columns
        wanted = [pl.col(names[at]).str.strip_chars().cast(pl.Float64, strict=False) for at in self.header.columns]
        times = pl.col(names[self.header.time]).str.strip_chars()
        more = pl.lit(0.0)
        if self.header.microseconds is not None:  # where the time itself is in whole seconds
            micros = pl.col(names[self.header.microseconds]).str.strip_chars().cast(pl.Float64, strict=False)
            more = pl.when(times.str.contains(".", literal=True)).then(0.0).otherwise(micros.fill_null(0.0) * 1e-6)
        seconds = frame.select((times.cast(pl.Float64, strict=False) + more).fill_null(np.nan)).to_series().to_numpy()
        producers = frame.select(pl.col(names[self.header.node]).str.strip_chars().fill_null("")).to_series()
        named = (producers != "").to_numpy()
        good = named & (seconds > 0) & (seconds < LATEST_S)
        self.defects["rows without a time or a node"] += int((~good).sum())
        values = frame.select(wanted).to_numpy()[good]
        values = np.where(np.isfinite(values), values, np.nan)
        self.defects["values that are not numbers"] += int(np.isnan(values).sum())
        if not good.any():
            return None
        return producers.filter(pl.Series(good)).to_list(), np.rint(seconds[good] * 1e6).astype(np.int64), values

    def _rates(self, producers: list[str], times_us: Indices, totals: Floats) -> Rows:
        for name in dict.fromkeys(producers):
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        nodes = np.array([self._numbers[name] for name in producers], np.int64)
        nodes, times_us, values = self._totals.rates(nodes, times_us, totals)
        counters = np.array([self.counters.index(name) for name in self.header.counters])
        summed = np.zeros((len(values), len(self.counters)))
        for column, counter in enumerate(counters.tolist()):
            summed[:, counter] += values[:, column]
        return Rows(self.names, nodes, times_us, summed)


def read_header(line: str, where: str, source: str | None) -> Header:
    """Find time, node and counters among the columns; refuse a file that has none of them."""
    fields = [field.strip() for field in line.strip().lstrip("#").split(",")]
    if not line.startswith("#") or "Time" not in fields or "ProducerName" not in fields:
        what = "does not begin with the header of LDMS' store_csv (#Time,Time_usec,ProducerName,...)"
        raise InputError(what, f"{where}, line 1", "put the header (or the .HEADER file beside it) at its beginning")
    if source is not None and source not in SOURCES:
        raise InputError(f"there is no source {source!r}", where, f"choose from {', '.join(SOURCES)}")
    metrics = {at: _metric(name) for at, name in enumerate(fields) if at > fields.index("ProducerName")}
    chosen = source or _likely(where, set(metrics.values()))
    known = {one.name: one.full_name for one in SOURCES.get(chosen, ())}
    columns = tuple(at for at, name in metrics.items() if name in known)
    if not columns:
        what = f"no column is a counter of {chosen}" if chosen else "no column is a known counter"
        raise InputError(what, where, f"name its source: --source {'|'.join(SOURCES)}")
    return Header(
        len(fields),
        fields.index("Time"),
        fields.index("Time_usec") if "Time_usec" in fields else None,
        fields.index("ProducerName"),
        columns,
        tuple(known[metrics[at]] for at in columns),
        tuple(fields[at] for at in metrics if at not in columns and fields[at] not in IDENTITIES),
    )


def _metric(field: str) -> str:
    """Return its name without prefix, device and kind of sum. Names that end with .rate or .Flag are not used."""
    return field.partition("#")[0].removesuffix(".sum").rpartition(".")[2]


def _likely(where: str, metrics: set[str]) -> str:
    """Return the source of a file: the one its name contains, else the one most of its columns belong to."""
    for source in SOURCES:
        if source in where:
            return source
    shares = {source: sum(one.name in metrics for one in counters) for source, counters in SOURCES.items()}
    best = max(shares, key=lambda source: shares[source])
    return best if shares[best] else ""
