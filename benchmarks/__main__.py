"""`make bench`: jobs per second, microseconds per event, memory, growth, and the ratio to plain Python.

Every figure comes from a fresh process running the real command on a generated trace, jobs.csv written.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.plain_easy import simulate as plain_simulate

COHABIT = [sys.executable, "-m", "cohabit.cli"]
# Orders as users would write them, each a body of scores(jobs, rows, now_us): jobs by themselves, with numbers out of
# a dictionary, a list of users, powers, a logarithm; against numbers of the whole queue; by ranks, by jobs per
# width; as small networks (all recorded); and with Python's own sets, which nothing but Python can run.
ORDER_FILE = '''"""A user's own order."""
import numpy as np

CHANGING = True
FALLING = {falling}


def scores(jobs, rows, now_us):
    """Longest wait per square root of the requested area."""
    waited = now_us - jobs.submit_us[rows]
    area = jobs.limit_us[rows] * 1.0 * jobs.nodes[rows]
    {body}
'''
ORDERS = {
    "a user's own order with FALLING, compiled": "return -(waited / np.sqrt(area))",
    "a user's own order, compiled": "return -(waited / np.sqrt(area))",
    "a user's own order in numpy, over the queue's mean": "return -(waited / np.sqrt(area / area.mean()))",
    "a user's own order in numpy, by rank": "return -waited / np.sqrt(area) + np.argsort(np.argsort(area)) / len(rows)",
}


def generate(folder: Path, jobs: int, nodes: int, load: float, kind: str = "lublin") -> Path:
    path = folder / f"{kind}-{jobs}-{nodes}-{load}.swf"
    if not path.exists():
        command = [*COHABIT, "generate", kind, "--jobs", str(jobs), "--nodes", str(nodes), "--load", str(load)]
        subprocess.run([*command, "-o", str(path)], check=True, capture_output=True)
    return path


def measure(trace: Path, folder: Path, *options: str, times: int = 3) -> dict[str, float]:
    """The best of a few runs, each in its own process."""
    best: dict[str, float] = {}
    for _ in range(times):
        began = time.perf_counter()
        command = [*COHABIT, "simulate", str(trace), "--out", str(folder / "out"), "--no-report", "--json", *options]
        result = subprocess.run(command, check=True, capture_output=True, text=True)
        process_s = time.perf_counter() - began
        document = json.loads(result.stdout)
        if not best or document["wall_s"] < best["wall_s"]:
            best = {key: document[key] for key in ("jobs", "events", "wall_s", "jobs_per_s", "rss_mb")}
            best["process_s"], best["queue"] = process_s, document["metrics"]["mean_queue_length"]
    return best


def line(label: str, found: dict[str, float], base: dict[str, float] | None = None) -> None:
    ratio = "" if base is None else f"  {found['wall_s'] / base['wall_s']:5.2f} x the time"
    print(
        f"{label:<46} {found['jobs_per_s']:>10,.0f} jobs/s {1e6 * found['wall_s'] / found['events']:>6.2f} us/event "
        f"{found['wall_s']:>6.2f} s (+{found['process_s'] - found['wall_s']:.2f} s start) {found['rss_mb']:>5.0f} MB "
        f"queue {found['queue']:>7,.0f}{ratio}",
        flush=True,
    )


def against_plain_python(trace: Path, folder: Path) -> None:
    from cohabit.trace.swf import read_swf

    work = read_swf(trace)
    columns = (work.submit_us, np.minimum(work.run_us, work.limit_us), work.limit_us, work.processes)
    submit, duration, limit, size = (column.tolist() for column in columns)
    began = time.perf_counter()
    starts = plain_simulate(submit, duration, limit, size, work.max_nodes)
    plain_s = time.perf_counter() - began
    ours = measure(trace, folder, "--backfill", "easy")
    written = (folder / "out" / "jobs.csv").read_text().splitlines()[1:]
    same = [int(row.split(",")[4]) for row in written] == [start // 1_000_000 for start in starts]
    print(
        f"\nplain Python, the same {len(work):,} jobs on {work.max_nodes:,} nodes: {len(work) / plain_s:,.0f} jobs/s; "
        f"cohabit is {plain_s / ours['wall_s']:.0f} times as fast; start times {'identical' if same else 'DIFFERENT'}"
    )


def machine_sizes(folder: Path, jobs: int, times: int) -> None:
    """EASY by load, and what a machine 32 times as large costs."""
    for load in (0.85, 1.0, 1.2):
        found = measure(generate(folder, jobs, 1024, load), folder, "--backfill", "easy", times=times)
        line(f"{jobs:,} x 1,024 nodes, load {load}, EASY", found)
        larger = measure(generate(folder, jobs, 32768, load), folder, "--backfill", "easy", times=times)
        line(f"{jobs:,} x 32,768 nodes, load {load}, EASY", larger, found)


def policies(folder: Path, jobs: int, times: int) -> None:
    """Every kind of order and backfilling, and users' own orders, as a ratio to FCFS with EASY."""
    files = {label: folder / f"order_{index}.py" for index, label in enumerate(ORDERS)}
    for label, path in files.items():
        path.write_text(ORDER_FILE.format(falling="FALLING" in label, body=ORDERS[label]))
    for load in (0.85, 1.0):
        trace = generate(folder, jobs, 1024, load)
        own = measure(trace, folder, times=times)
        for order in ("sjf", "f1", "wfp", "unicef", "multifactor"):
            line(f"order {order}, load {load}", measure(trace, folder, "--order", order, times=times), own)
        for label, path in files.items():
            measure(trace, folder, "--order", str(path), times=1)  # compiles it, once
            line(f"{label}, load {load}", measure(trace, folder, "--order", str(path), times=times), own)
        for backfill in ("none", "8", "conservative"):
            line(f"backfill {backfill}, load {load}", measure(trace, folder, "--backfill", backfill, times=times), own)
        for order in ("wfp", "unicef", "multifactor"):
            found = measure(trace, folder, "--order", order, "--backfill", "conservative", times=times)
            line(f"order {order}, backfill conservative, load {load}", found, own)


def growth(folder: Path, most: int) -> None:
    """From 10^4 to 10^6 jobs; at load 1.2 the queue grows with the trace, so time per job tells its cost."""
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= most]
    runs = [("easy", load, sizes) for load in (0.85, 1.2)] + [("conservative", 1.2, [10_000, 20_000])]
    for backfill, load, counts in runs:
        grown = [
            measure(generate(folder, count, 1024, load), folder, "--backfill", backfill, times=1) for count in counts
        ]
        for count, found in zip(counts, grown, strict=True):
            line(f"growth: {count:,} jobs, load {load}, {backfill}", found)
        per_job = (grown[-1]["wall_s"] / counts[-1]) / (grown[-2]["wall_s"] / counts[-2])
        print(f"  time per job grows {per_job:.2f} x from {counts[-2]:,} to {counts[-1]:,} jobs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller traces, one run each")
    quick = parser.parse_args().quick
    times, most, base_jobs = (1, 100_000, 20_000) if quick else (3, 1_000_000, 100_000)
    subprocess.run([*COHABIT, "warm-up"], check=True, capture_output=True)
    print(f"{os.cpu_count()} cores, Python {sys.version.split()[0]}; best of {times}, one core, warm caches\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machine_sizes(folder, base_jobs, times)
        print()
        policies(folder, base_jobs, times)
        print()
        growth(folder, most)
        against_plain_python(generate(folder, base_jobs, 1024, 1.0), folder)


if __name__ == "__main__":
    main()
