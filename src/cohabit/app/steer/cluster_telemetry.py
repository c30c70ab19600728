"""Telemetry of a steered cluster: samples of every node become windows with one row per node.

They come from the daemons of the nodes, from Prometheus or from files of LDMS. A node without a report is unknown in
the window, never like another node.
"""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cohabit.agent.canary.running import MOST_MB, SIZE_MB
from cohabit.app.serve.machine import TelemetryConfig
from cohabit.model.errors import InputError
from cohabit.model.event import Event, TelemetryReduced
from cohabit.model.node_report import Sample
from cohabit.model.telemetry import CANARY_TIMES, STATS, Table, Window, encode
from cohabit.model.telemetry_counters import BY_NAME
from cohabit.model.units import microseconds
from cohabit.store.telemetry_ldms import LdmsFile
from cohabit.store.telemetry_prometheus import COUNTERS as PROMETHEUS_COUNTERS
from cohabit.store.telemetry_prometheus import Prometheus
from cohabit.store.telemetry_reduce import Reducer

NODES, PROMETHEUS, LDMS = "nodes", "prometheus", "ldms"
SOURCES = (NODES, PROMETHEUS, LDMS)
COUNTERS = tuple(BY_NAME)
_COLUMN = {name: at for at, name in enumerate(COUNTERS)}
BOUNDS = (("canary_mb", 0.001, MOST_MB), ("canary_limit_s", 5, 3600), ("canary_lasts_s", 1, 600))
PARTS = 10  # of a window: how finely it slides
Tell = Callable[[Event], Awaitable[None]]
log = logging.getLogger(__name__)


class ClusterTelemetryTable(TelemetryConfig, frozen=True, forbid_unknown_fields=True):
    """[telemetry] of a site file for a steered cluster."""

    source: str = NODES
    url: str = ""  # of the Prometheus server
    files: tuple[str, ...] = ()  # of LDMS' store_csv
    canary: bool = False  # the network of the chosen nodes is measured before every start (canaries.py); Slurm only
    canary_python: str = "python3"  # on the nodes, with mpi4py and numpy
    canary_mb: float = SIZE_MB  # the token that goes round
    canary_limit_s: float = 60.0  # without a result by then the job starts without
    canary_lasts_s: float = 60.0  # a result counts so long for the same nodes

    def check(self, where: str) -> None:
        """Refuse invalid settings."""
        super().check(where)
        if self.source not in SOURCES:
            raise InputError(f"source is {self.source!r}", f"{where}.source", f"use {', '.join(SOURCES)}")
        for key, least, most in (
            ("canary_mb", 0.001, MOST_MB),
            ("canary_limit_s", 5, 3600),
            ("canary_lasts_s", 1, 600),
        ):
            if not least <= getattr(self, key) <= most:
                what = f"{key} is {getattr(self, key):g}"
                raise InputError(what, f"{where}.{key}", f"give {least:g} to {most:,}")
        for key, value, source in (("url", self.url, PROMETHEUS), ("files", self.files, LDMS)):
            if bool(value) != (self.source == source):
                state = "is given" if value else "is missing"
                raise InputError(f"{key} {state} and source is {self.source!r}", where, f"{key} is for {source}")


class Samples(NamedTuple):
    """Samples of `names[nodes]`: one row of `values` each, columns as `counters`."""

    names: Sequence[str]
    nodes: NDArray[np.int64]
    times_us: NDArray[np.int64]
    counters: Sequence[str]
    values: NDArray[np.float64]


class Source(Protocol):
    """A source that is asked, in a thread."""

    def fetch(self, until_us: int) -> list[Samples]:
        """Return the samples since the last time."""
        ...


class ClusterTelemetry:
    """The windows of one cluster. `names`: its nodes as the manager calls them, in the core's order."""

    def __init__(
        self,
        table: ClusterTelemetryTable,
        names: Sequence[str],
        source: Source | None,
        tell: Tell,
        now_us: Callable[[], int],
    ) -> None:
        self._table, self._source, self._tell, self._now_us = table, source, tell, now_us
        self._numbers = {name: number for number, name in enumerate(names)}
        span_us = microseconds(table.window_s)
        part_us = max(span_us // PARTS, 1)
        self.reducer = Reducer(len(names), COUNTERS, part_us * PARTS, part_us, span_us=part_us * PARTS)
        self._since_s: float | None = None  # when the first sample came
        self._strangers: set[str] = set()
        self._canaries: dict[frozenset[int], tuple[float, dict[str, float]]] = {}  # of these nodes: when, and what

    def sampled(self, node: str, samples: Sequence[Sample]) -> None:
        """Take samples of a node daemon whose origin is checked."""
        if not samples:
            return
        values = np.full((len(samples), len(COUNTERS)), np.nan)
        for row, sample in enumerate(samples):
            for name, value in sample.values.items():
                values[row, _COLUMN[name]] = value
        times_us = np.array([one.at_us for one in samples], np.int64)
        self.take(Samples([node], np.zeros(len(samples), np.int64), times_us, COUNTERS, values))

    def take(self, found: Samples) -> None:
        """Take samples; nodes that are not steered are left out, and said once."""
        places = np.array([self._numbers.get(name, -1) for name in found.names], np.int64)
        for name in {name for name in found.names if name not in self._numbers} - self._strangers:
            self._strangers.add(name)
            log.warning("telemetry of %s is left out: no steered node has that name", name)
        nodes = places[found.nodes]
        known = nodes >= 0
        table = np.full((int(known.sum()), len(COUNTERS)), np.nan)
        table[:, [_COLUMN[name] for name in found.counters]] = found.values[known]
        if self.reducer.ingest(nodes[known], found.times_us[known], table, time.time_ns() // 1000):
            self._since_s = time.monotonic() if self._since_s is None else self._since_s

    def window(self) -> Window | None:
        """Return the newest window, with the controller's clock; None until samples have come for a whole window."""
        wall_us = time.time_ns() // 1000
        self.reducer.finished(wall_us)  # only the sliding window is used
        if self._since_s is None or time.monotonic() - self._since_s < self._table.window_s:
            return None
        found = self.reducer.sliding(wall_us)
        if found is None:
            return None
        seen = np.flatnonzero(~np.isnan(found.mean).all(axis=0))
        names = tuple(found.counters[at] for at in seen.tolist())
        return self._with_canaries(found.changed(self._now_us(), names, lambda table: table[:, seen]))

    def has_canary(self, nodes: Sequence[int]) -> bool:
        """Return whether exactly these nodes were measured lately."""
        found = self._canaries.get(frozenset(nodes))
        return found is not None and time.monotonic() - found[0] < self._table.canary_lasts_s

    async def canary(self, nodes: Sequence[int], features: dict[str, float]) -> None:
        """Take what a canary has measured on these nodes, and tell the core at once."""
        self._canaries[frozenset(nodes)] = time.monotonic(), features
        if (window := self.window()) is not None:
            await self._tell(TelemetryReduced(encode(window)))

    def _with_canaries(self, window: Window) -> Window:
        """Add what canaries have measured lately; all nodes of one have the same three numbers of each wait."""
        self._canaries = {nodes: one for nodes, one in self._canaries.items() if self.has_canary(tuple(nodes))}
        if not self._canaries:
            return window
        stats = iter((*STATS, STATS[-1]))  # a canary has just been run: its mean is that of the last minute, too

        def with_waits(table: Table) -> Table:
            stat, more = next(stats), np.full((len(table), len(CANARY_TIMES)), np.nan, table.dtype)
            for nodes, (_, features) in sorted(self._canaries.items(), key=lambda one: one[1][0]):
                more[sorted(nodes)] = [features[f"{name}.{stat}"] for name in CANARY_TIMES]
            return np.hstack([table, more])

        return window.changed(window.end_us, (*window.counters, *CANARY_TIMES), with_waits)

    async def live(self) -> None:
        """Tell the core of a window again and again, until cancelled. Without data nothing is told: gates say so."""
        while True:
            await asyncio.sleep(self._table.every_s)
            if self._source is not None:
                for found in await asyncio.to_thread(self._source.fetch, time.time_ns() // 1000):
                    self.take(found)
            if (window := self.window()) is not None:
                await self._tell(TelemetryReduced(encode(window)))


def source_of(table: ClusterTelemetryTable, folder: Path) -> Source | None:
    """Return the source that is asked; None: the daemons of the nodes tell by themselves."""
    if table.source == PROMETHEUS:
        return PrometheusSource(table.url, table.every_s)
    return LdmsSource([folder / name for name in table.files]) if table.source == LDMS else None


class PrometheusSource:
    """A Prometheus server."""

    def __init__(self, url: str, every_s: float) -> None:
        self._server, self._step_s, self._last_us, self._problem = Prometheus(url), every_s, 0, ""

    def fetch(self, until_us: int) -> list[Samples]:
        """Return one sample of every node for each step since the last time; at most ten."""
        begin_us = max(self._last_us, until_us - 10 * microseconds(self._step_s))
        found = self._server.fetch(begin_us, until_us, self._step_s)
        if found.problem and found.problem != self._problem:
            log.warning("no telemetry: %s", found.problem)
        self._problem = found.problem
        if not len(found.times_us):
            return []
        self._last_us = int(found.times_us.max())
        return [Samples(found.names, found.nodes, found.times_us, PROMETHEUS_COUNTERS, found.values)]


class LdmsSource:
    """Files of LDMS that grow: whole lines are read as they come; the reducer leaves out what is too old."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self._open, self._problems = list(paths), dict[Path, LdmsFile](), dict[Path, str]()

    def fetch(self, until_us: int) -> list[Samples]:
        """Return the new lines of every file."""
        samples = []
        for path in self._paths:
            problem = ""
            try:
                if path not in self._open:
                    self._open[path] = LdmsFile(_Growing(path), str(path))
                one = self._open[path]
                samples += [Samples(tuple(rows.names), *rows[1:3], one.counters, rows.values) for rows in one.rows()]
            except OSError as error:
                problem = f"{path}: {(error.strerror or str(error)).lower()}"
            except InputError as error:
                problem = str(error)
            if problem and self._problems.get(path) != problem:
                log.warning("no telemetry: %s", problem)
            self._problems[path] = problem
        return samples


class _Growing(io.BytesIO):
    """A file that another process appends to; a line without its end is read when it is whole."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._stream = path.open("rb")
        self._rest = b""

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._stream.readline()

    def read(self, size: int | None = -1, /) -> bytes:
        block = self._rest + self._stream.read(-1 if size is None else size)
        whole, newline, self._rest = block.rpartition(b"\n")
        return whole + newline


def table_of(given: ClusterTelemetryTable | None, gated: bool, nodes: bool, where: str) -> ClusterTelemetryTable | None:
    """Return the table, the usual one for a gate on a cluster with node daemons, or None. `nodes`: [nodes] exists."""
    if given is None:
        return ClusterTelemetryTable() if gated and nodes else None
    given.check(where)
    if given.source == NODES and not nodes:
        raise InputError("the source is the daemons of the nodes, and there is no [nodes]", where, "add [nodes]")
    return given
