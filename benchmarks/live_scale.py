"""The live controller with much to do: `python -m benchmarks.live_scale`. Submissions, passes, recovery and memory.

The real service (core, journal on this disk, local back end) in processes of its own. Its two nodes are taken by long
jobs, so that all others wait. The million finished jobs are written into the journal's tables in bulk, in the form the
controller writes them in one by one; everything else goes through the controller. The first process ends with kill -9:
the second recovers from the last checkpoint and all batches since. At last the passes of every bundled policy, of the
core alone (benchmarks/live_passes.py).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import sqlalchemy as sa

from benchmarks import live_passes
from benchmarks.processes import memory_mb
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.protocol import Launch
from cohabit.live.controller import records
from cohabit.live.controller.journal import open_journal
from cohabit.live.controller.journal_schema import jobs as jobs_table
from cohabit.live.controller.records import OVER, Record
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.units import HOUR, SECOND
from cohabit.policy.registry import BUNDLES

TASKS = 8
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/somebody", "LANG": "C.UTF-8", "USER": "somebody"}
BOUNDS = {"submissions_s": 60.0, "submit_p99_ms": 250.0, "pass_p99_ms": 200.0, "recovery_s": 10.0}


def load_finished(place: Path, count: int) -> None:
    """Rows of jobs that are over, as the controller leaves them."""
    journal, begun_us = open_journal(place / "journal.db"), int(time.time() * SECOND) - 365 * 24 * HOUR
    small = msgspec.msgpack.encode(Launch(("/bin/sh", "-c", "make everything"), folder="/home/somebody/work"))
    for first in range(0, count, 20_000):
        numbers = range(first, min(first + 20_000, count))
        rows = [
            Record(
                f"old{n}", n, OVER, 1000 + n % 50, f"program{n % 30}", 1 + n % 64, limit_us=HOUR,
                submit_us=begun_us + n * SECOND, start_us=begun_us + (n + 60) * SECOND,
                end_us=begun_us + (n + 600) * SECOND, attempt=1, status="done", nodes=((n % 2, 1),), cores=1,
                exit_status=0,
            )
            for n in numbers
        ]  # fmt: skip
        with journal._connection.begin():
            records.write(journal._connection, rows)
            launches = [{"job_id": one.job_id, "launch": small} for one in rows]
            journal._connection.execute(sa.insert(jobs_table), launches)
    journal.close()


class Watched:
    """A service whose passes are timed."""

    def __init__(self, place: Path, policy: str) -> None:
        self.service = Service(ServeConfig(place, 2, PolicyConfig(name=policy)))
        self.passes_s: list[float] = []
        core = self.service.parts.restored.core
        step = core.step

        def timed(now_us: int, events: list[Event]) -> Any:
            began = time.perf_counter()
            commands = step(now_us, events)
            self.passes_s.append(time.perf_counter() - began)
            return commands

        core.step = timed  # type: ignore[method-assign,assignment]

    async def submit_all(self, names: list[str]) -> tuple[float, list[float]]:
        """By eight tasks, each waiting for its answer before it goes on; seconds in all, and of each."""
        left, took, launch = iter(names), list[float](), Launch(("/bin/true",), ENVIRONMENT)

        async def one() -> None:
            for name in left:
                began = time.perf_counter()
                job = Job(name, limit_us=HOUR, user=1000 + len(took) % 50, program=f"program{len(took) % 30}")
                await self.service.controller.submit(job, launch)
                took.append(time.perf_counter() - began)

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(TASKS)))
        return time.perf_counter() - began, took


def in_ms(seconds: list[float]) -> dict[str, float]:
    """Median, 99 of 100, worst."""
    values = 1e3 * np.array(seconds or [np.nan])
    p50, p99 = np.quantile(values, (0.5, 0.99))
    return {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": float(values.max())}


async def fill(place: Path, policy: str, submissions: int, queued: int) -> dict[str, Any]:
    """Take jobs until so many wait, then look what one more costs."""
    watched = Watched(place, policy)
    service = watched.service
    await service.open()
    for name in ("long1", "long2"):
        await service.controller.submit(Job(name, limit_us=100 * HOUR), Launch(("/bin/sleep", "3600"), ENVIRONMENT))
    whole_s, took = await watched.submit_all([f"first{n}" for n in range(submissions)])
    facts: dict[str, Any] = {"submissions": submissions, "submissions_s": whole_s, "submit": in_ms(took)}
    await watched.submit_all([f"queued{n}" for n in range(max(queued - submissions, 0))])
    watched.passes_s.clear()
    _, took = await watched.submit_all([f"last{n}" for n in range(1000)])
    facts["submit_while_queued"] = in_ms(took)
    facts["pass_arrivals"] = in_ms(watched.passes_s)
    watched.passes_s.clear()
    for n in range(20):
        await service.controller.hold(f"last{n}")
        await service.controller.release(f"last{n}")
        await service.controller.cancel(f"last{n}")
    facts["pass_leaving"] = in_ms(watched.passes_s)
    began = time.perf_counter()
    for n in range(200):
        await service.controller.view(f"last{100 + n}")
    facts["view_ms"] = 1e3 * (time.perf_counter() - began) / 200
    began = time.perf_counter()
    await service.controller.page("all", limit=1000)
    facts["page_of_1000_ms"] = 1e3 * (time.perf_counter() - began)
    began = time.perf_counter()
    await service.controller.why(f"last{999}")
    facts["why_ms"] = 1e3 * (time.perf_counter() - began)
    facts["queued"] = await service.controller.ask(lambda core: len(core.state.rows))
    facts["resident_mb"] = memory_mb(os.getpid())
    return facts


async def recover(place: Path, policy: str) -> dict[str, Any]:
    """From nothing to a controller that decides again."""
    began = time.perf_counter()
    watched = Watched(place, policy)
    opened_s = time.perf_counter() - began
    await watched.service.open()
    facts: dict[str, Any] = {
        "recovery_s": time.perf_counter() - began, "open_and_restore_s": opened_s,
        "batches_replayed": watched.service.parts.restored.batches, "recovered_mb": memory_mb(os.getpid()),
    }  # fmt: skip
    watched.passes_s.clear()
    await watched.service.controller.cancel("long1")
    while not watched.passes_s or (await watched.service.controller.view("long1")).state != "cancelled":
        await asyncio.sleep(0.01)
    facts["pass_after_end"] = in_ms(watched.passes_s)
    began = time.perf_counter()
    await watched.service.controller.cancel("long2")
    await watched.service.close()
    facts["stop_with_checkpoint_s"] = time.perf_counter() - began
    return facts


def stage(name: str, place: Path, policy: str, *numbers: int) -> dict[str, Any]:
    """In a process of its own, which ends with kill -9 where it fills."""
    arguments = [name, str(place), policy, *map(str, numbers)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.live_scale", "--stage", *arguments], stdout=subprocess.PIPE, check=False
    )
    if done.returncode not in (0, -signal.SIGKILL):
        raise SystemExit(f"{name} failed")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_stage(name: str, place: Path, policy: str, numbers: list[int]) -> None:
    """Inside that process."""
    found = asyncio.run(recover(place, policy)) if name == "recover" else None
    if found is None:

        async def killed() -> None:
            facts = await fill(place, policy, *numbers)
            sys.stdout.write(json.dumps(facts))
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

        asyncio.run(killed())
    sys.stdout.write(json.dumps(found))


def main() -> None:
    """Print the figures; exit 1 if a bound is not met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--queued", type=int, default=50_000)
    parser.add_argument("--submissions", type=int, default=10_000)
    parser.add_argument("--policy", default="ce-easy")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    parser.add_argument("--stage", nargs="+", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.stage:
        name, place, policy, *numbers = asked.stage
        run_stage(name, Path(place), policy, list(map(int, numbers)))
        return
    with tempfile.TemporaryDirectory(prefix="cohabit-scale-") as folder:
        place = Path(folder)
        load_finished(place, asked.finished)
        facts = {"finished": asked.finished} | stage("fill", place, asked.policy, asked.submissions, asked.queued)
        facts["journal_mb"] = sum(one.stat().st_size for one in place.glob("journal.db*")) / 2**20
        facts |= stage("recover", place, asked.policy)
    judged = {
        "submissions_s": facts["submissions_s"], "submit_p99_ms": facts["submit"]["p99_ms"],
        "pass_p99_ms": max(facts[one]["p99_ms"] for one in ("pass_arrivals", "pass_leaving", "pass_after_end")),
        "recovery_s": facts["recovery_s"],
    }  # fmt: skip
    facts["met"] = {name: judged[name] <= bound for name, bound in BOUNDS.items()}
    facts["passes"] = live_passes.every(list(BUNDLES), asked.queued, 20, lambda line: print(line, file=sys.stderr))
    facts["met"] |= {f"pass of {name}": one["holds"] for name, one in facts["passes"].items()}
    text = json.dumps(facts, indent=1)
    print(text)
    if asked.out:
        asked.out.write_text(text + "\n")
    if not all(facts["met"].values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
