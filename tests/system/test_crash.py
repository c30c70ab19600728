"""Jobs of several users on shared nodes while controllers, launchers, runners and programs are killed at random
moments, and while disk, journal or resctrl fail: none lost, none run twice, none orphaned, new work refused with a
reason while it cannot be taken. The same for hundreds of seeds: `python -m tests.campaign_crash`."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.breadth import few
from tests.system.crash_round import plan_of, play
from tests.system.crash_troubles import KINDS, NONE, possible
from tests.system.deadly_rounds import End, Nursery, Ran, doubled

CORES = len(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Other users may pass through it, which pytest's own do not allow."""
    folder = Path(tempfile.mkdtemp(prefix="cohabit-crash-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(CORES < 2, reason="needs two cores to share a node")
@pytest.mark.parametrize("seed", few(range(16), 5))
def test_a_crash_round(nursery: Nursery, open_folder: Path, seed: int) -> None:
    plan = plan_of(seed, KINDS)
    if plan.trouble not in possible():
        pytest.skip(f"a {plan.trouble} cannot be made here without root")
    assert play(nursery, open_folder / "round", plan).problems == []


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.skipif(CORES < 2, reason="needs two cores to share a node")
def test_a_crash_round_bites(nursery: Nursery, open_folder: Path) -> None:
    """What would happen if a controller that comes back did not ask what runs."""
    plan = replace(
        plan_of(0, (NONE,)), policy="cs", run_s=(6.0,) * 4, strikes=("controller",) * 3, fates=(("", 10_000),),
        mutant="blind", longest_s=60.0,
    )  # fmt: skip
    assert play(nursery, open_folder / "round", plan).problems  # two runs at once, or a round that never ends


def test_what_the_runs_of_a_job_must_not_be() -> None:
    """The judge, on runs as a job would have written them."""
    done, lost, killed = End("done", 0, None), End("lost", None, None), End("stopped", None, 9)
    first, second = Ran(1, 10, 20), Ran(2, 30, 40, True)
    assert doubled("a", [first, second], {("a", 1): lost, ("a", 2): done}) == ""
    whole = Ran(1, 10, 20, True)
    assert doubled("a", [whole, second], {("a", 1): killed, ("a", 2): done}) == ""  # killed before it could exit
    for runs, ends, problem in (
        ([first, second], {("a", 1): lost}, "0 runs ended well"),
        ([whole, second], {("a", 1): done, ("a", 2): done}, "2 runs ended well"),
        ([whole, second], {("a", 1): done, ("a", 2): lost}, "1 runs ended well"),
        ([whole, second], {("a", 1): End("stopped", 0, None), ("a", 2): done}, "did not count"),
        ([first], {("a", 1): done}, "had work left"),
        ([Ran(1, 10, 35), second], {("a", 2): done}, "two runs at once"),
        ([first, Ran(1, 30, 40, True)], {("a", 1): done}, "started twice"),
    ):
        assert problem in doubled("a", runs, ends), (runs, ends)
