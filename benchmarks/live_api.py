"""Load on the API: so many submissions over a few connections, each acknowledged when it is durable.

A real `cohabit serve` in a process of its own, real HTTP over its UNIX socket from another process, one thread per
connection with the next request sent when the answer is there. Jobs are submitted held, so that the figure is about
taking them, not about running them; `--run` submits `true` instead, which is started at once as nodes allow.

    python -m benchmarks.live_api [--jobs 10000] [--connections 8] [--run] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import UnixConnection, cpu_s, memory_mb

TARGET_S, TARGET_P99_MS = 60.0, 250.0


def _worker(path: str, count: int, held: bool, took: list[float], failed: list[str], ready: threading.Barrier) -> None:
    link = UnixConnection(path)
    link.connect()
    body = json.dumps({"command": ["true"], "limit_s": 60, "hold": held, "environment": {"PATH": os.defpath}})
    ready.wait()
    for _ in range(count):
        begun = time.perf_counter()
        link.request("POST", "/v1/jobs", body, {"Content-Type": "application/json"})
        answer = link.getresponse()
        text = answer.read()
        took.append(time.perf_counter() - begun)
        if answer.status != 201:
            failed.append(text.decode())
    link.close()


def measure(jobs: int, connections: int, held: bool) -> dict[str, Any]:
    """One run in a fresh place."""
    with tempfile.TemporaryDirectory(prefix="cohabit-load-") as folder:
        site = Path(folder) / "site.toml"
        site.write_text('nodes = 2\nplace = "state"\n[limits]\nmax_queued = -1\n')
        server = subprocess.Popen([sys.executable, "-m", "cohabit.cli", "serve", str(site)], stderr=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL)  # fmt: skip
        path = Path(folder) / "state" / "cohabit.sock"
        try:
            while not path.is_socket():
                if server.poll() is not None:
                    raise SystemExit("the server ended; run `cohabit serve` by hand to see why")
                time.sleep(0.05)
            return _load(str(path), server.pid, jobs, connections, held)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _load(path: str, pid: int, jobs: int, connections: int, held: bool) -> dict[str, Any]:
    before_mb, before_s = memory_mb(pid), cpu_s(pid)
    took: list[float] = []
    failed: list[str] = []
    ready = threading.Barrier(connections + 1)
    counts = [jobs // connections + (number < jobs % connections) for number in range(connections)]
    threads = [threading.Thread(target=_worker, args=(path, count, held, took, failed, ready)) for count in counts]
    for thread in threads:
        thread.start()
    ready.wait()
    begun = time.perf_counter()
    for thread in threads:
        thread.join()
    wall_s = time.perf_counter() - begun
    now_mb, most_mb = memory_mb(pid), memory_mb(pid, "VmHWM")
    ranked = sorted(1000 * one for one in took)
    return {
        "jobs": jobs, "connections": connections, "kind": "held" if held else "true, started as nodes allow",
        "refused": len(failed), "wall_s": round(wall_s, 2), "per_s": round(jobs / wall_s),
        "p50_ms": round(statistics.median(ranked), 1), "p99_ms": round(ranked[int(len(ranked) * 0.99)], 1),
        "max_ms": round(ranked[-1], 1), "server_mb_before": round(before_mb), "server_mb_after": round(now_mb),
        "server_mb_most": round(most_mb), "server_cpu_s": round(cpu_s(pid) - before_s, 1),
        "load_average": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    """Measure, print, and say whether the target holds."""
    parser = argparse.ArgumentParser(description="Load on the API of a real server.")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--run", action="store_true", help="submit jobs that start, not held ones")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    given = parser.parse_args()
    found = measure(given.jobs, given.connections, not given.run)
    for key, value in found.items():
        print(f"{key:>17}: {value}")
    holds = not found["refused"] and found["wall_s"] < TARGET_S and found["p99_ms"] < TARGET_P99_MS
    print(f"{'target':>17}: under {TARGET_S:g} s, p99 under {TARGET_P99_MS:g} ms: {'holds' if holds else 'MISSED'}")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    raise SystemExit(0 if holds else 1)


if __name__ == "__main__":
    main()
