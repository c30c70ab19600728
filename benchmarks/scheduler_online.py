"""Shepherd inside the scheduler: `python -m benchmarks.scheduler_online`. What one arriving job costs on 512 nodes.

The whole step is timed, as the simulator and the live controller call it: facts applied, decision, commit, the caches
of touched nodes divided anew. The reference, measured in the same run, is the same step under the placement `share`,
which knows nothing of caches.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.event import JobFinished, JobStarted
from cohabit.model.profile import Profile, ScaleProfile
from tests.support.builders import policies, submitted

NODES, CORES, PROGRAMS, LIMIT_MS = 512, 8, 20, 5.0
GROUP = NodeGroup(NODES, CORES, ways=16, min_ways=1, closids=16, domains=8, bandwidth_gbs=((8, 25.0),))


def programs(rng: np.random.Generator) -> list[Profile]:
    """Programs of one process with some use for cache and some for bandwidth."""
    found = []
    for number in range(PROGRAMS):
        least, gbs = rng.uniform(0.4, 1.0), rng.uniform(0.1, 2.5)
        ipc = Curve((1, 8, 16), (float(least), float(rng.uniform((least + 1) / 2, 1.0)), 1.0))
        drawn = Curve((1, 16), (float(2 * gbs), float(gbs)))
        found.append(Profile(f"p{number}", 1, (ScaleProfile(1, 100.0, ipc, drawn),)))
    return found


def day(placement: str, moves: int, events: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Seconds of processor time per arrival and per departure on a machine that is seven eighths full; jobs waiting."""
    rng = np.random.default_rng(5)
    core = SchedulerCore(
        Cluster((GROUP,), "shared"), policies("age", "first-fit", None, placement, 0.0, moves), profiles=programs(rng)
    )
    drawn, names, now_us = iter(range(10**9)), list[str](), 0

    def arrive() -> float:
        name = f"j{next(drawn)}"
        job = submitted(name, program=f"p{rng.integers(PROGRAMS)}", processes=1, movable=True)
        began = time.process_time()
        core.step(now_us, [job])
        took = time.process_time() - began
        core.step(now_us, [JobStarted(name, 1)])
        names.append(name)
        return took

    for _ in range(NODES * CORES * 7 // 8):
        arrive()
    came, left = [], []
    for _ in range(events):
        now_us += 1
        running = [name for name in names if core.view(now_us).is_running(core.state.rows[name])]
        gone = running[int(rng.integers(len(running)))]
        names.remove(gone)
        began = time.process_time()
        core.step(now_us, [JobFinished(gone, 1)])
        left.append(time.process_time() - began)
        came.append(arrive())
    waiting = len(core.view(now_us).queued())
    return np.array(came), np.array(left), waiting


def shown(seconds: np.ndarray) -> str:
    """Median and 99 of 100, in milliseconds."""
    return f"{1e3 * np.median(seconds):6.2f} / {1e3 * np.quantile(seconds, 0.99):6.2f} ms"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events")
    events = 60 if parser.parse_args().quick else 400
    print(f"one step of the scheduler, {NODES} nodes of {CORES} cores, {PROGRAMS} programs; median / 99 of 100")
    day("shepherd", 1, 2)  # compiled
    plain, gone, _ = day("share", 0, events)
    print(f"  share (the reference):  arrival {shown(plain)}, departure {shown(gone)}")
    for moves in (0, 1, 2):
        came, left, waiting = day("shepherd", moves, events)
        ratio, above = np.median(came) / np.median(plain), "" if np.median(came) <= LIMIT_MS / 1e3 else ", ABOVE IT"
        print(
            f"  shepherd, {moves} moves:      arrival {shown(came)} ({ratio:.1f} x the reference; "
            f"limit {LIMIT_MS:g} ms{above}), departure {shown(left)}; {waiting} jobs waiting"
        )


if __name__ == "__main__":
    main()
