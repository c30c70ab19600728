"""Many random worlds of coupled domains: `python -m tests.campaign_mates --runs 10000 --seed 1`.

Run K of seed S is always the same; a failure prints the `--seed S --run K` that repeats it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable

from cohabit.core.mates.state import Record
from tests.core.mates.random_worlds import random_world, settle_us
from tests.core.mates.site import Broken
from tests.core.mates.world import Tally, World

SPREAD = 1_000_003  # between seeds, so that run K of one is not run K - 1 of the next


def play(seed: int, run: int, forgets: Callable[[Record], bool] = lambda record: False) -> World:
    """One world to its end; raises Broken where a promise does not hold."""
    world = random_world(seed * SPREAD + run, forgets)
    world.run(settle_us(world))
    if left := world.finished():
        raise Broken(f"{', '.join(left)} never ended although all is calm")
    return world


def add(total: Tally, one: Tally) -> None:
    """Sums, and the largest of what is a largest."""
    for name in ("events", "messages", "lost", "crashes", "jumps", "sleeps", "reboots", "starts", "stopped", "refused"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    for name in ("widest_us", "longest_alone_us"):
        setattr(total, name, max(getattr(total, name), getattr(one, name)))


def main() -> int:
    """Play the runs asked for, or for so many seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, default=None, help="only this run")
    parser.add_argument("--out", default="", help="write the figures to this file")
    options = parser.parse_args()
    total, begun, played = Tally(), time.perf_counter(), 0
    for run in range(options.runs) if options.run is None else [options.run]:
        try:
            add(total, play(options.seed, run).tally)
        except Exception as error:
            sys.stdout.write(f"seed {options.seed} run {run}: {type(error).__name__}: {error}\n")
            sys.stdout.write(f"again: python -m tests.campaign_mates --seed {options.seed} --run {run}\n")
            return 1
        played += 1
        if time.perf_counter() - begun > options.seconds:
            break
    took = time.perf_counter() - begun
    figures = {"seed": options.seed, "runs": played, "broken": 0, **vars(total)}
    sys.stdout.write(json.dumps(figures | {"seconds": round(took, 1)}) + "\n")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
