"""The cost of a living batch system: one system per process, `python -m benchmarks.peers.live NAME`; JSON on stdout.

- *submit*: wall and processor time of the typed command, system idle, one at a time; the median.
- *start*: from before the command is typed to the time that the job itself writes down; the median.
- *drain*: all slots are held by jobs that wait for us; many `/bin/true` are queued; the slots are let go. Jobs per
  second until the last one, and processor time of everything under the service, per 1,000 jobs, jobs included.
- *queued*: memory of the service and all its processes with 10,000 jobs queued, as PSS.
- *durable*: jobs are queued, the service is killed with SIGKILL right after the last `submit` has returned (and once
  more with ten seconds between), it is started again, the slots are let go. How many jobs run, and whether one
  ran twice.

Processes below this one that lose their parent are handed to it, so that no processor time is lost.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.live_systems import SYSTEMS, System
from benchmarks.processes import become_reaper, below, end_all, pss_mb, reap, tree_cpu_s, typed

WAIT_S = 180.0
KILLED = {"killed_at_once": 0.0, "killed_after_10_s": 10.0}  # seconds after the last submission; each a fresh service
FILL_S = 0.09  # for each job of a long queue, at most


def until(found: Any, what: str, limit_s: float = WAIT_S) -> None:
    """Wait for something to become true."""
    deadline_s = time.monotonic() + limit_s
    while not found():
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{what} did not happen within {limit_s:.0f} s")
        time.sleep(0.002)


class Held:
    """All slots taken by jobs that end when we say so: each opens a named pipe and waits for the other end."""

    def __init__(self, system: System, folder: Path) -> None:
        folder.mkdir()
        self._slots, self._pipe, self._gone = system.slots, folder / "pipe", folder / "gone"
        marks = [folder / f"held{number}" for number in range(system.slots)]
        os.mkfifo(self._pipe)
        for mark in marks:  # one that is started again after the end ends at once
            system.type("/bin/sh", "-c", f": > {mark}; test -e {self._gone} || read line < {self._pipe}; true")
        until(lambda: all(mark.exists() for mark in marks), "the start of the first jobs")

    def let_go(self) -> float:
        """End them; the time of it."""
        now = time.time()
        self._gone.touch()
        for _ in range(self._slots):  # an open for writing lets every reader pass that is there
            with contextlib.suppress(OSError):
                os.close(os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK))
            time.sleep(0.001)
        return now


def latency(system: System, folder: Path, count: int) -> dict[str, float]:
    """Medians of single submissions to an idle system."""
    walls, cpus, starts, bare = [], [], [], []
    for number in range(count):
        bare.append(typed([sys.executable, "-I", "-S", "-c", "pass"])[0])
        stamp = folder / f"stamp{number}"
        began = time.time()
        wall_s, cpu_s = system.type("/bin/sh", "-c", f"date +%s.%N > {stamp}.part; mv {stamp}.part {stamp}")
        until(stamp.exists, "the start of a job")
        walls.append(wall_s)
        cpus.append(cpu_s)
        starts.append(float(stamp.read_text()) - began)
        time.sleep(0.02)
    return {
        "submit_ms": 1e3 * statistics.median(walls), "submit_cpu_ms": 1e3 * statistics.median(cpus),
        "start_ms": 1e3 * statistics.median(starts), "bare_python_ms": 1e3 * statistics.median(bare),
        "submissions": count,
    }  # fmt: skip


def drain(system: System, folder: Path, count: int) -> dict[str, float]:
    """Measure the rate at which a queue of /bin/true empties, and its cost."""
    held = Held(system, folder / "drain")
    taken = system.fill(count, ("/bin/true",))
    marks = [folder / f"last{number}" for number in range(system.slots)]
    for mark in marks:
        system.fill(1, ("/bin/sh", "-c", f"date +%s.%N > {mark}.part; mv {mark}.part {mark}"))
    time.sleep(1.0)
    before_s, began = tree_cpu_s(), held.let_go()
    until(lambda: all(mark.exists() for mark in marks), "the end of the queue", 600.0)
    ended = max(float(mark.read_text()) for mark in marks)
    time.sleep(1.0)
    reap(system.owned())
    return {
        "drained": taken, "jobs_per_s": taken / (ended - began),
        "cpu_s_per_1000": 1e3 * (tree_cpu_s() - before_s) / taken,
    }  # fmt: skip


def queued(system: System, folder: Path, count: int, limit_s: float) -> dict[str, Any]:
    """Memory with a long queue. The queue is left as it is."""
    idle_mb = pss_mb(*(one.pid for one in below()))
    Held(system, folder / "queue")
    began = time.monotonic()
    taken = system.fill(count, ("/bin/true",), limit_s)
    took_s = time.monotonic() - began
    time.sleep(2.0)
    found = [one.pid for one in below() if one.state != "Z"]
    return {
        "idle_mb": idle_mb, "queued": taken, "queued_mb": pss_mb(*found), "queued_processes": len(found),
        "queueing_s": took_s,
    }  # fmt: skip


def durable(system: System, folder: Path, count: int, pause_s: float) -> dict[str, int]:
    """Kill the service with a queue that it has accepted, start it again, count what runs."""
    ran = folder / f"ran{pause_s:.0f}"
    ran.touch()
    held = Held(system, folder / f"durable{pause_s:.0f}")
    for number in range(count):
        system.type("/bin/sh", "-c", f"echo {number} >> {ran}")
    time.sleep(pause_s)
    system.kill()
    time.sleep(0.5)
    reap(system.owned())
    system.start()
    held.let_go()
    deadline_s = time.monotonic() + 45.0
    while len(set(ran.read_text().split())) < count and time.monotonic() < deadline_s:
        held.let_go()
        time.sleep(0.1)
    time.sleep(1.0)
    times = collections.Counter(ran.read_text().split())
    return {"accepted": count, "ran": len(times), "ran_twice": sum(number > 1 for number in times.values())}


def measure(kind: type[System], quick: bool, most: int) -> dict[str, Any]:
    """Everything about one system."""
    singles, many, kept = (10, 100, 10) if quick else (50, 600, 50)
    found: dict[str, Any] = {"version": kind.version()}
    with tempfile.TemporaryDirectory(prefix="cohabit-peers-", ignore_cleanup_errors=True) as name:
        for part in ("drain",) if kind.only_drain else ("rates", *KILLED):
            folder = Path(name) / part
            folder.mkdir(mode=0o755)
            Path(name).chmod(0o755)
            system = kind(folder)
            try:
                system.start()
                if part == "drain":
                    found |= drain(system, folder, many)
                elif part == "rates":
                    system.fill(5, ("/bin/true",))  # warm
                    time.sleep(2.0)
                    found |= latency(system, folder, singles)
                    found |= drain(system, folder, many)
                    found |= queued(system, folder, most, FILL_S * most)
                else:
                    found[part] = durable(system, folder, kept, KILLED[part])
            finally:
                with contextlib.suppress(Exception):
                    system.stop()
                end_all()
    return found


def main() -> None:
    """One system, by name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[one.name for one in SYSTEMS])
    parser.add_argument("--quick", action="store_true", help="fewer jobs of everything")
    parser.add_argument("--queued", metavar="N", type=int, default=10_000, help="jobs in the long queue")
    asked = parser.parse_args()
    (kind,) = (one for one in SYSTEMS if one.name == asked.name)
    if problem := kind.missing():
        raise SystemExit(f"{kind.name}: {problem}")
    become_reaper()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what was started is ended
    json.dump(measure(kind, asked.quick, asked.queued), sys.stdout)


if __name__ == "__main__":
    main()
