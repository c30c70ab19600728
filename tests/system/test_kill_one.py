"""One controller killed (kill -9) anywhere with jobs in flight: no job lost, none run twice, nothing left behind."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.breadth import few
from tests.system.deadly_controller import Orders
from tests.system.deadly_rounds import (
    Controller,
    Nursery,
    doubled,
    ends_of,
    kill_launcher,
    kill_runner,
    runs_of,
    sleeper,
    wait_for,
    well_ended,
)

JOBS = 5


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


def one_round(
    nursery: Nursery, place: Path, die: tuple[str, int] | None, rng: random.Random, strikes: Sequence[str] = ()
) -> Controller:
    """Jobs through a controller that dies once, or whose helpers are struck at random moments."""
    log, runs = place / "log", place / "controller" / "runs"
    names = [f"job-{number}" if number % 2 else f"../job {number}" for number in range(JOBS)]
    jobs = [(Job(name, limit_us=60 * SECOND, nodes=1), sleeper(log, rng.uniform(0.05, 0.5))) for name in names]
    controller = Controller(nursery, Orders(str(place / "controller"), 2, jobs, die), rng.uniform(0.0, 0.5))
    coming = list(strikes)

    def all_done() -> bool:
        controller.keep_alive()
        if coming and rng.random() < 0.1:
            struck = kill_launcher(controller.pid) if coming[0] == "launcher" else kill_runner(runs, log)
            del coming[: int(struck)]
        return well_ended(place / "controller") >= JOBS and not os.listdir(runs)

    try:
        assert wait_for(all_done, 180), (place / "controller" / "controller.log").read_text()[-3000:]
    finally:
        controller.kill()
    found, ends = runs_of(log), ends_of(place / "controller")
    assert sorted(found) == sorted(name.replace(" ", "_") for name in names)
    for name, of_one in found.items():
        assert not (problem := doubled(name, of_one, ends)), problem
    return controller


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(10), 4))
def test_no_job_is_lost_or_doubled(nursery: Nursery, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    boundary = rng.randrange(1, 45)
    controller = one_round(nursery, tmp_path, ("", boundary), rng)
    passed = len((tmp_path / "controller" / "boundaries").read_text().splitlines())
    if passed != boundary:  # else it died there: after all was done, or its second life has come to no boundary
        assert controller.starts == (2 if passed > boundary else 1), "it dies where it is told to, and nowhere else"


@pytest.mark.slow
@pytest.mark.parametrize("boundary", few(range(1, 6), 3))
def test_it_dies_at_the_first_boundaries(nursery: Nursery, boundary: int, tmp_path: Path) -> None:
    """Which every life has: five jobs are at least a batch, an order and a fact each."""
    assert one_round(nursery, tmp_path, ("", boundary), random.Random(boundary)).starts == 2


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(4), 2))
def test_launchers_and_runners_may_die_too(nursery: Nursery, seed: int, tmp_path: Path) -> None:
    """A job whose runner is killed is started again; it never runs twice at once, and ends once."""
    rng = random.Random(seed)
    strikes = rng.choices(("launcher", "runner"), k=3)
    one_round(nursery, tmp_path, ("", rng.randrange(1, 45)) if seed % 2 else None, rng, strikes)
