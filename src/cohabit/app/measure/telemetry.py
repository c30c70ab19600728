"""Collect telemetry (this node's samplers, Prometheus, files of LDMS) into a store, and show what is in it.

Collecting may be stopped at any time: the current step is finished first (Ctrl-C waits for it), then all data goes into
the store, including the window in progress. A source that fails is reported and skipped; it never ends the collection.
"""

from __future__ import annotations

import difflib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.agent.samplers.catalogue import all_samplers
from cohabit.agent.samplers.meter import Meter
from cohabit.model.errors import InputError
from cohabit.model.telemetry import STATS, WINDOW_US, staleness
from cohabit.model.telemetry_counters import BY_NAME, SOURCES
from cohabit.model.units import SECOND, parse_duration
from cohabit.store.telemetry import KEEP_US, TelemetryStore, TelemetryWriter
from cohabit.store.telemetry_ldms import LdmsFile
from cohabit.store.telemetry_prometheus import COUNTERS, Prometheus
from cohabit.store.telemetry_reduce import GRACE_US, PART_US, Reducer
from cohabit.trace.files import open_trace

Advance = Callable[[int, int], None]
Say = Callable[[str], None]
SETTLED_US = 15 * SECOND  # the time a Prometheus server may need to have all samples of an instant


class Intake:
    """Turns samples of named nodes into windows in a store."""

    def __init__(
        self, store: TelemetryWriter, counters: Sequence[str], window_us: int = WINDOW_US, grace_us: int = GRACE_US
    ) -> None:
        self.store = store
        self.reducer = Reducer(0, counters, window_us, grace_us=grace_us)
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self.samples = self.windows = 0
        self.first_us: int | None = None
        self.last_us: int | None = None

    def take(
        self,
        names: Sequence[str],
        nodes: NDArray[np.int64],
        times_us: NDArray[np.int64],
        values: NDArray[np.float64],
        now_us: int | None = None,
    ) -> None:
        """Add samples of `names[nodes]`; windows that have ended by then go into the store."""
        for name in names:
            if name not in self._numbers:
                self._numbers[name] = len(self.names)
                self.names.append(name)
        self.reducer.grow(len(self.names))
        places = np.array([self._numbers[name] for name in names], np.int64)
        self.samples += self.reducer.ingest(places[nodes], times_us, values, now_us)
        if now_us is not None:
            self.keep(now_us)
        elif len(times_us):
            self.keep(int(times_us.max()))

    def keep(self, now_us: int) -> None:
        """Put finished windows into the store."""
        self._put(self.reducer.finished(now_us))

    def close(self) -> None:
        """Store the remaining windows too."""
        self._put(self.reducer.unfinished())

    def _put(self, finished: list[Any]) -> None:
        for reduced in finished:
            self.store.add(reduced, self.names)
            self.windows += 1
            end_us = reduced.window.end_us
            self.first_us = end_us if self.first_us is None else min(self.first_us, end_us)
            self.last_us = end_us if self.last_us is None else max(self.last_us, end_us)

    def account(self, defects: Counter[str]) -> dict[str, Any]:
        """Return the result as plain data."""
        together = Counter(self.reducer.defects) + defects
        return {
            "store": str(self.store.folder),
            "windows": self.windows,
            "samples": self.samples,
            "nodes": self.names,
            "counters": list(self.reducer.counters),
            "first_end_s": None if self.first_us is None else self.first_us / SECOND,
            "last_end_s": None if self.last_us is None else self.last_us / SECOND,
            "defects": {what: count for what, count in sorted(together.items()) if count},
            "notes": self.store.notes,
        }


@dataclass
class Plan:
    """The settings of a collection."""

    out: Path
    interval_us: int = 10 * SECOND
    duration_us: int | None = None
    window_us: int = WINDOW_US
    keep_us: int = KEEP_US
    node: str = field(default_factory=lambda: os.uname().nodename)

    def check(self) -> None:
        """Refuse invalid settings before anything is written."""
        if self.interval_us < SECOND // 10:
            raise InputError("--interval is shorter than 0.1 s", "", "10s is usual")
        if self.window_us < PART_US or self.window_us % PART_US:
            raise InputError("--window is not a multiple of 30 s", "", "5m is what RUSH uses")
        if self.interval_us > self.window_us:
            raise InputError("--interval is longer than --window", "", "take several samples in a window")
        if self.duration_us is not None and self.duration_us < self.interval_us:
            raise InputError("--duration is shorter than --interval", "", "collect for at least two samples")
        if self.keep_us < self.window_us:
            raise InputError("--keep is shorter than --window", "", "7d is the default")


def duration_of(option: str, text: str) -> int:
    """Parse a duration from the command line."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}", "", "") from None


class _Stop(Exception):
    """A signal asks the collection to end."""


@contextmanager
def _stoppable() -> Iterator[Callable[[float], None]]:
    """Yield a pause that Ctrl-C or SIGTERM ends with `_Stop`; outside the pause both signals wait."""
    signals = {signal.SIGINT, signal.SIGTERM}
    if threading.current_thread() is not threading.main_thread():
        yield time.sleep
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _Stop

    handlers = {number: signal.signal(number, stop) for number in signals}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    def pause(seconds: float) -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        try:
            time.sleep(max(seconds, 0.0))
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, signals)

    try:
        yield pause
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _repeat(plan: Plan, step: Callable[[int, float], None], advance: Advance | None) -> bool:
    """Call `step` at every interval until the time is over; return False if stopped before."""
    rounds = None if plan.duration_us is None else plan.duration_us // plan.interval_us
    begin, done = time.monotonic(), 0
    with _stoppable() as pause:
        try:
            while True:
                step(time.time_ns() // 1000, time.monotonic())
                if advance is not None:
                    advance(done, rounds or done + 1)
                if rounds is not None and done >= rounds:
                    return True
                done += 1
                due = begin + done * plan.interval_us / SECOND
                if time.monotonic() - due > plan.interval_us / SECOND:  # after sleep or a slow source: no catching up
                    begin, due = time.monotonic() - done * plan.interval_us / SECOND, time.monotonic()
                pause(due - time.monotonic())
        except _Stop:
            return False


def collect_here(plan: Plan, say: Say, advance: Advance | None = None) -> dict[str, Any]:
    """Sample this node."""
    plan.check()
    samplers = all_samplers()
    if not any(one.offer().available for one in samplers):
        raise InputError("no sampler works on this host", "/", "it takes Linux, with /proc mounted")
    with TelemetryWriter(plan.out, plan.keep_us) as store:
        _say_notes(store, say)
        meter = Meter(samplers, say)
        intake = Intake(store, meter.counters, plan.window_us, grace_us=0)  # samples of this node are never late

        def step(now_us: int, steady_s: float) -> None:
            row = meter.sample(now_us, steady_s)
            values = np.array([[row.get(name, np.nan) for name in meter.counters]])
            intake.take([plan.node], np.zeros(1, np.int64), np.array([now_us], np.int64), values, now_us)

        complete = _repeat(plan, step, advance)
        intake.close()
        absent = [{"source": one.source, "reason": one.reason} for one in meter.offers if not one.available]
        return intake.account(meter.defects) | {"absent": absent, "complete": complete}


def collect_from_prometheus(plan: Plan, url: str, say: Say, advance: Advance | None = None) -> dict[str, Any]:
    """Query a Prometheus server at every interval for new samples; report once if it does not answer."""
    plan.check()
    defects: Counter[str] = Counter()
    with Prometheus(url) as server, TelemetryWriter(plan.out, plan.keep_us) as store:
        _say_notes(store, say)
        intake = Intake(store, COUNTERS, plan.window_us)
        known_us = time.time_ns() // 1000 - SETTLED_US
        problem = ""

        def step(now_us: int, steady_s: float) -> None:
            nonlocal known_us, problem
            until_us = now_us - SETTLED_US
            if abs(until_us - known_us) > plan.window_us:  # a clock that jumped, or a long gap: start again
                known_us = until_us - plan.interval_us
            found = server.fetch(known_us, until_us, plan.interval_us / SECOND)
            if found.problem:
                defects["questions without an answer"] += 1
                if not problem:
                    say(f"{found.problem}; no job is delayed by it until it answers")
                problem = found.problem
            elif len(found.times_us):
                if problem:
                    say(f"{server.url} answers again")
                problem = ""
                known_us = int(found.times_us.max())
                intake.take(found.names, found.nodes, found.times_us, found.values, now_us)
            intake.keep(now_us)

        complete = _repeat(plan, step, advance)
        intake.close()
        stale = staleness(store.newest_end_us(), time.time_ns() // 1000)
        return intake.account(defects) | {"absent": [], "complete": complete, "stale": stale or None}


def import_ldms(file: Path, out: Path, source: str | None, keep_us: int = KEEP_US) -> dict[str, Any]:
    """Read one file of LDMS' store_csv, plain or compressed, into a store."""
    with open_trace(file) as stream:
        recorded = LdmsFile(stream, str(file), source)
        batches = recorded.rows()
        first = next(batches, None)
        if first is None:
            raise InputError("has no row that can be used", str(file), "check that it is a store_csv file with data")
        with TelemetryWriter(out, keep_us) as store:
            intake = Intake(store, recorded.counters)
            for rows in chain([first], batches):
                intake.take(rows.names, rows.nodes, rows.times_us, rows.values)
            intake.close()
            return intake.account(recorded.defects) | {"columns_left_out": list(recorded.header.left_out)}


def import_prometheus(
    url: str, out: Path, begin_us: int, end_us: int, step_us: int, keep_us: int = KEEP_US
) -> dict[str, Any]:
    """Read a period from a Prometheus server into a store; `problem` says why there is no data."""
    with Prometheus(url) as server:
        found = server.fetch(begin_us, end_us, step_us / SECOND)
    if found.problem:
        return {"store": str(out), "windows": 0, "problem": found.problem}
    with TelemetryWriter(out, keep_us) as store:
        intake = Intake(store, COUNTERS)
        whole = max(1, 100_000 // max(len(found.names), 1)) * max(len(found.names), 1)
        for begin in range(0, len(found.times_us), whole):
            part = slice(begin, begin + whole)
            intake.take(found.names, found.nodes[part], found.times_us[part], found.values[part])
        intake.close()
        return intake.account(Counter())


def _say_notes(store: TelemetryStore, say: Say) -> None:
    for text in store.notes:
        say(text)


def chosen_counters(wanted: Sequence[str]) -> list[str]:
    """Return counters by full name or by source; refuse unknown names."""
    found: list[str] = []
    for name in wanted:
        if name in SOURCES:
            found += [one.full_name for one in SOURCES[name]]
        elif name in BY_NAME:
            found.append(name)
        else:
            near = difflib.get_close_matches(name, [*SOURCES, *BY_NAME], n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"sources: {', '.join(SOURCES)}"
            raise InputError(f"there is no counter or source called {name!r}", "", hint)
    return list(dict.fromkeys(found))


def shown(
    folder: Path,
    since_us: int | None,
    last_us: int,
    until_us: int | None,
    nodes: Sequence[str],
    counters: Sequence[str],
    now_us: int,
) -> dict[str, Any]:
    """Return a store's windows over these nodes for a period (from `since_us`, or the `last_us` up to its end)."""
    store = TelemetryStore(folder)
    newest = store.newest_end_us()
    until = until_us if until_us is not None else newest or 0
    since = since_us if since_us is not None else until - last_us
    if since >= until and newest is not None:
        raise InputError("the time asked for ends before it begins", str(folder), "see --last, --since and --until")
    wanted = chosen_counters(counters) or None
    rows: list[dict[str, Any]] = []
    ranges: dict[str, list[NDArray[np.float64]]] = {}
    spoken: set[str] = set()
    for recorded in store.windows(since, until, list(nodes) or None, wanted):
        said = np.flatnonzero(recorded.samples > 0)
        if not len(said):
            continue
        values = recorded.window.features(said).reshape(-1, 3)
        known = {name: values[at] for at, name in enumerate(recorded.window.counters) if not np.isnan(values[at]).any()}
        if not known:
            continue
        spoken |= {recorded.nodes[index] for index in said.tolist()}
        for name, three in known.items():
            ranges.setdefault(name, []).append(three)
        rows.append(
            {
                "end_s": recorded.window.end_us / SECOND,
                "nodes": len(said),
                "features": {name: dict(zip(STATS, three.tolist(), strict=True)) for name, three in known.items()},
            }
        )
    return {
        "store": str(folder),
        "windows": rows,
        "nodes": sorted(spoken),
        "newest_end_s": None if newest is None else newest / SECOND,
        "stale": staleness(newest, now_us) or None,
        "size_mb": round(store.size_bytes() / 1e6, 3),
        "counters": {name: _over_time(name, np.array(found)) for name, found in ranges.items()},
        "notes": store.notes,
    }


def _over_time(name: str, found: NDArray[np.float64]) -> dict[str, Any]:
    kind = BY_NAME.get(name)
    unit = "" if kind is None else f"{kind.unit}/s" if kind.kind == "amount" else kind.unit
    return {
        "unit": unit,
        "min": float(found[:, 0].min()),
        "max": float(found[:, 1].max()),
        "mean": float(found[:, 2].mean()),
        "newest_mean": float(found[-1, 2]),
    }
