"""A real Slurm with many held jobs and nodes: how long a pass takes, part by part, and what it costs in memory.

A pass: look at all nodes and jobs, make the facts durable and decide, place and release what was decided, and see it
run. Everything is real (munge, slurmctld, a slurmd per node) and on this machine; root is needed.

    python -m benchmarks.slurm_scale [--jobs 1000] [--nodes 64] [--rest] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cohabit.app.steer.service import Steering
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.app.steer.steering import open_service
from cohabit.backend.steered.watcher import RUNS
from tests.support.slurm_cluster import SlurmCluster, missing, rest_missing, running_slurm

TARGET_S, CORES, PASSES = 2.0, 28, 8
SITE = """place = "state"
[policy]
name = "ce"
[slurm]
conf = "{conf}"
held = "all"
{rest}
"""


def submit(cluster: SlurmCluster, jobs: int) -> None:
    """Held jobs of a quarter node, four sbatch at a time."""
    script = cluster.folder / "job.sh"
    script.write_text("#!/bin/sh\nsleep 3600\n", encoding="utf-8")
    words = ["sbatch", "--hold", "--output=/dev/null", f"--ntasks={CORES // 4}", str(script)]
    going: list[subprocess.Popen[bytes]] = []
    for _ in range(jobs):
        going.append(subprocess.Popen(words, env=cluster.environment, stdout=subprocess.DEVNULL))
        if len(going) >= 4:
            going.pop(0).wait()
    for one in going:
        one.wait()


def write_site(folder: Path, cluster: SlurmCluster, rest: str = "") -> Path:
    """For a controller that takes every held job."""
    path = folder / "site.toml"
    path.write_text(SITE.format(conf=cluster.conf, rest=rest), encoding="utf-8")
    return path


class Stopwatch:
    """Begin and end of each part of a pass: (part, begin, end), in seconds."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, float, float]] = []

    def wrap(self, owner: Any, name: str, part: str) -> None:
        """Note every call of a method of this object."""
        inner = getattr(owner, name)

        async def later(*words: Any, **more: Any) -> Any:
            begun_s = time.monotonic()
            try:
                return await inner(*words, **more)
            finally:
                self.spans.append((part, begun_s, time.monotonic()))

        def now(*words: Any, **more: Any) -> Any:
            begun_s = time.monotonic()
            try:
                return inner(*words, **more)
            finally:
                self.spans.append((part, begun_s, time.monotonic()))

        setattr(owner, name, later if asyncio.iscoroutinefunction(inner) else now)

    def since(self, at_s: float, part: str) -> list[tuple[float, float]]:
        """The spans of a part that began after that."""
        return [(begun_s, ended_s) for name, begun_s, ended_s in self.spans if name == part and begun_s >= at_s]


async def measure(service: Steering, cluster: SlurmCluster, nodes: int, count: int) -> dict[str, Any]:
    """The first pass, with a start on every node; then so many in which one job ends and another starts."""
    backend, watch = service.backend, Stopwatch()
    for owner, name, part in (
        (backend, "picture", "look"), (backend.manager, "place", "place"), (backend.manager, "release", "release"),
    ):  # fmt: skip
        watch.wrap(owner, name, part)
    await service.controller.ask(lambda core: watch.wrap(core, "step", "decide"))
    await service.open()
    known = backend.watcher.known
    await until(lambda: sum(one.phase == RUNS for one in known.values()) >= nodes)
    starts = watch.since(0, "release")[:nodes]
    look = max(span for span in watch.since(0, "look") if span[1] <= starts[0][0])
    decided = [ended_s - begun_s for begun_s, ended_s in watch.since(look[0], "decide") if ended_s <= starts[-1][1]]
    placing_s = min(begun_s for begun_s, _ in watch.since(0, "place"))
    found: dict[str, Any] = {
        "first_pass_s": max(ended_s for _, ended_s in starts) - look[0], "first_look_s": look[1] - look[0],
        "first_decisions_s": sum(decided),
        "first_starts_s": max(ended_s for _, ended_s in starts) - placing_s,
    }  # fmt: skip
    passes, looks, decisions = [], [], []
    for _ in range(count):
        await asyncio.sleep(1.0)
        victim = next(one.name for one in known.values() if one.phase == RUNS)
        at_s = time.monotonic()
        cluster.run("scancel", victim)
        await until(lambda at_s=at_s: watch.since(at_s, "release"))
        release = watch.since(at_s, "release")[0]
        look = max(span for span in watch.since(at_s - 5, "look") if span[1] <= release[0])
        passes.append(release[1] - look[0])
        looks.append(look[1] - look[0])
        decisions += [ended_s - begun_s for begun_s, ended_s in watch.since(look[0], "decide")]
    quiet = [ended_s - begun_s for begun_s, ended_s in watch.since(0, "look")][-3:]
    return found | {
        "pass_s": statistics.median(passes), "longest_pass_s": max(passes), "look_s": statistics.median(looks + quiet),
        "decision_s": statistics.median(decisions), "jobs": len(known),
    }  # fmt: skip


async def until(condition: Any, patience_s: float = 120.0) -> None:
    """Wait for it."""
    until_s = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > until_s:
            raise SystemExit("Slurm did not do it")
        await asyncio.sleep(0.02)


async def steer(site: Path, cluster: SlurmCluster, nodes: int, count: int = PASSES) -> dict[str, Any]:
    """A controller in this process."""
    service = await open_service(read_slurm_site(site))
    try:
        return await measure(service, cluster, nodes, count)
    finally:
        await service.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--rest", action="store_true", help="through slurmrestd")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    if reason := missing() or (rest_missing() if chosen.rest else ""):
        raise SystemExit(reason)
    with (
        tempfile.TemporaryDirectory(prefix="cohabit-scale-") as folder,
        running_slurm(Path(folder) / "slurm", chosen.nodes, CORES, 2) as cluster,
    ):
        if chosen.rest:
            cluster.start_rest()
        submit(cluster, chosen.jobs)
        site = write_site(Path(folder), cluster, f'rest = "unix:{cluster.rest}"' if chosen.rest else "")
        found = asyncio.run(steer(site, cluster, chosen.nodes))
        subprocess.run([sys.executable, "-m", "cohabit.cli", "slurm", "detach", str(site)], check=False)
    found |= {"memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "load": os.getloadavg()[0]}
    for key, value in found.items():
        sys.stdout.write(f"{key:24} {value:.3f}\n")
    sys.stdout.write(f"{'within' if found['longest_pass_s'] < TARGET_S else 'NOT within'} {TARGET_S:g} s\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
