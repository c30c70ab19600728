"""One controller, jobs that share a node in control groups; everything may be killed at random moments."""

from __future__ import annotations

import os
import random
from itertools import combinations
from pathlib import Path

from cohabit.agent import control_groups
from cohabit.app.serving import verify_journal
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.system.deadly_controller import Orders, config_of
from tests.system.deadly_rounds import (
    Controller,
    Nursery,
    cores_of,
    doubled,
    kill_launcher,
    kill_runner,
    runs_of,
    sleeper,
    wait_for,
)

JOBS, STRIKES = 6, 4
MIB = 1 << 20


def strays(log: Path) -> list[int]:
    """Living children of jobs, which carry no mark of their run: found by the log they were given."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(log) in words and b"import time; time.sleep(600)" in words:
            found.append(int(name))
    return found


def play(nursery: Nursery, place: Path, rng: random.Random) -> None:
    """A round: jobs two at a time on one node, strikes among them; an AssertionError says what was not kept."""
    log, here = place / "log", place / "controller"
    names = [f"job-{number}" for number in range(JOBS)]
    jobs = [
        (Job(name, limit_us=60 * SECOND, processes=1, memory_bytes=64 * MIB),
         sleeper(log, rng.uniform(0.1, 0.6), "breed", processes=1, memory_bytes=64 * MIB))
        for name in names
    ]  # fmt: skip
    orders = Orders(str(here), 1, jobs, ("", rng.randrange(1, 60)), policy="cs")
    controller = Controller(nursery, orders, rng.uniform(0.0, 0.5))
    coming = rng.choices(("launcher", "runner", "controller"), k=STRIKES)

    def strike(whom: str) -> bool:
        if whom == "controller":
            controller.kill()
            return True
        return kill_launcher(controller.pid) if whom == "launcher" else kill_runner(here / "runs", log)

    def all_done() -> bool:
        controller.keep_alive()
        if coming and rng.random() < 0.1:
            del coming[: int(strike(coming[0]))]
        whole = sum(run.whole for runs in runs_of(log).values() for run in runs)
        return whole >= JOBS and not os.listdir(here / "runs")

    try:
        assert wait_for(all_done, 90), (here / "controller.log").read_text()[-3000:]
    finally:
        controller.kill()
    found = runs_of(log)
    assert sorted(found) == names
    for of_one in found.values():
        assert not (problem := doubled(of_one)), problem
    check_cores(log)
    check_leftovers(log, here)
    verify_journal(config_of(orders))


def check_cores(log: Path) -> None:
    """Whoever ran at the same time had cores of its own."""
    cores = cores_of(log)
    everybody = [(name, run) for name, runs in runs_of(log).items() for run in runs if (name, run.attempt) in cores]
    for (name, run), (other, beside) in combinations(everybody, 2):
        if run.begin_us < beside.last_us and beside.begin_us < run.last_us:
            shared = cores[name, run.attempt] & cores[other, beside.attempt]
            assert not shared, f"{name} and {other} both had cores {shared}: {run} {beside}"


def check_leftovers(log: Path, place: Path) -> None:
    """Nobody is left, and no group. Without control groups nobody knows processes that hide their mark."""
    offer = control_groups.prepare(control_groups.folder_of(place), control_groups.find_trees())
    if not offer.trees:
        return
    assert not strays(log)
    left = [
        name for base in offer.trees.values() for name in os.listdir(base) if os.path.isdir(os.path.join(base, name))
    ]
    control_groups.tidy_up(offer)
    assert not left
