"""Telemetry at full size: 512 nodes x 90 counters for 7 days at one sample a minute; `python -m benchmarks.telemetry`.

    python -m benchmarks.telemetry [--quick] [--folder DIR]

Every value goes the whole way: reduced on arrival, written as windows, put together by the hour. Printed: values
taken in per second beside a plain Python reference measured in the same run, size on disk beside the samples as they
came, milliseconds per window query, the cost of the sliding window, and memory.
Rates are by processor time of one core; queries by both clocks, as reading uses all cores there are.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cohabit.model.telemetry import WINDOW_US
from cohabit.model.telemetry_counters import PAPER_SOURCES, SOURCES
from cohabit.store.telemetry import TelemetryWriter
from cohabit.store.telemetry_reduce import Reducer

NODES, DAYS, INTERVAL_US = 512, 7, 60_000_000
COUNTERS = tuple(one.full_name for source in PAPER_SOURCES for one in SOURCES[source])
NAMES = tuple(f"node{number:04d}" for number in range(NODES))
BEGIN_US = 1_700_000_100_000_000
Clock = Callable[[], float]


class Made:
    """Samples like those of a machine: every node and counter has its own size, which wanders; some are mostly zero."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(6)
        self.size = self.rng.lognormal(6, 3, (NODES, len(COUNTERS)))
        self.level = np.zeros((NODES, len(COUNTERS)))
        self.rare = self.rng.uniform(size=len(COUNTERS)) < 0.3  # error counters

    def next(self) -> np.ndarray:
        """The samples of the next minute."""
        self.level = 0.9 * self.level + self.rng.normal(0, 0.3, self.level.shape)
        values = self.size * np.exp(self.level)
        values[:, self.rare] = self.rng.uniform(size=(NODES, int(self.rare.sum()))) < 0.01
        return values


def plain(samples: list[list[float]], windows: list[dict[str, list[float]]]) -> None:
    """The same reduction as anybody would write it first."""
    for node, row in enumerate(samples):
        for name, value in zip(COUNTERS, row, strict=True):
            known = windows[node].get(name)
            if known is None:
                windows[node][name] = [value, value, value, 1]
            else:
                known[0], known[1] = min(known[0], value), max(known[1], value)
                known[2] += value
                known[3] += 1


def plain_rate(clock: Clock) -> float:
    """Values per second of the plain form."""
    made, windows = Made(), [dict[str, list[float]]() for _ in range(NODES)]
    batches = [made.next().tolist() for _ in range(5)]
    began = clock()
    for batch in batches:
        plain(batch, windows)
    return len(batches) * NODES * len(COUNTERS) / (clock() - began)


def fill(folder: Path, minutes: int, clock: Clock) -> tuple[float, float]:
    """Write everything; seconds spent taking samples in, and writing."""
    made, nodes = Made(), np.arange(NODES)
    taking = writing = 0.0
    with TelemetryWriter(folder) as store:
        reducer = Reducer(NODES, COUNTERS)
        for minute in range(minutes):
            values, now_us = made.next(), BEGIN_US + minute * INTERVAL_US
            times = np.full(NODES, now_us)
            began = clock()
            reducer.ingest(nodes, times, values, now_us)
            finished = reducer.finished(now_us)
            taken = clock()
            for reduced in finished:
                store.add(reduced, NAMES)
            taking, writing = taking + taken - began, writing + clock() - taken
            if sys.stderr.isatty() and minute % 60 == 0:
                print(f"\r{minute / minutes:4.0%} of {minutes / 1440:.0f} days", end="", file=sys.stderr)
        for reduced in reducer.unfinished():
            store.add(reduced, NAMES)
    return taking, writing


def queries(folder: Path) -> None:
    """One window of the whole machine, of a job's nodes, and a day of one counter."""
    from cohabit.store.telemetry import TelemetryStore

    store, rng = TelemetryStore(folder), np.random.default_rng(1)
    newest = store.newest_end_us() or 0
    span = newest - BEGIN_US
    for what, chosen in (("all nodes", None), ("16 nodes", NAMES[100:116])):
        took, worked = [], []
        for _ in range(40):
            at = BEGIN_US + WINDOW_US + int(rng.uniform() * (span - WINDOW_US))
            began, begun = time.perf_counter(), time.process_time()
            window = store.before(at, chosen, COUNTERS)
            took.append(1000 * (time.perf_counter() - began))
            worked.append(1000 * (time.process_time() - begun))
            assert window is not None
            assert window.complete
        print(
            f"  a window of {what:9s} median {np.median(took):5.1f} ms, slowest {max(took):5.1f} ms; "
            f"processor time {np.median(worked):.1f} ms (limit 50 ms)"
        )
    began = time.perf_counter()
    count = len(list(store.windows(newest - min(86_400_000_000, span), newest, counters=COUNTERS[:1])))
    print(f"  one counter, {count} windows of all nodes {1000 * (time.perf_counter() - began):6.1f} ms")


def sliding(clock: Clock) -> None:
    """Print the price of the last five minutes for the gate."""
    made, reducer, nodes = Made(), Reducer(NODES, COUNTERS), np.arange(NODES)
    after, ready = [], []
    for minute in range(40):
        now_us = BEGIN_US + minute * 15_000_000
        reducer.ingest(nodes, np.full(NODES, now_us), made.next(), now_us)
        began = clock()
        reducer.sliding(now_us)
        after.append(1e6 * (clock() - began))
        began = clock()
        for _ in range(100):
            reducer.sliding(now_us)
        ready.append(1e4 * (clock() - began))
    print(
        f"  the last five minutes: {np.median(ready):.1f} us when nothing came in since, "
        f"{np.median(after):,.0f} us after new samples, {max(after):,.0f} us at worst"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="6 hours instead of 7 days")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder otherwise")
    chosen = parser.parse_args()
    clock: Clock = time.process_time
    minutes = 360 if chosen.quick else DAYS * 1440
    values = minutes * NODES * len(COUNTERS)
    print(f"{NODES} nodes x {len(COUNTERS)} counters x {minutes:,} samples = {values:,} values")
    print(f"  the machine's load is {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    reference = plain_rate(clock)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        taking, writing = fill(folder, minutes, clock)
        files = [path for path in folder.iterdir() if path.suffix == ".parquet"]
        size = sum(path.stat().st_size for path in files)
        print(f"  taken in    {values / taking:14,.0f} values/s on one core (needed 16,667), windows ready")
        print(f"  plain Python{reference:14,.0f} values/s: {values / taking / reference:.0f} times slower")
        print(f"  with writing{values / (taking + writing):14,.0f} values/s")
        print(
            f"  on disk     {size / 1e9:14.3f} GB in {len(files)} files (limit 2 GB for 7 days), "
            f"{4 * values / size:.1f} times less than the samples as 32-bit numbers"
        )
        queries(folder)
    sliding(clock)
    print(f"  memory      {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:14.0f} MB at most")


if __name__ == "__main__":
    main()
