"""The campaign and the explorer in their short forms, and that both can fail."""

from __future__ import annotations

import os

import pytest

from tests.campaign_mates import add, play
from tests.core.mates.explorer import explore
from tests.core.mates.mutants import MUTANTS, Mutant
from tests.core.mates.site import Broken
from tests.core.mates.world import Tally

SEED = int(os.environ.get("COHABIT_CAMPAIGN_SEED", "1"))
IN_EXPLORER = ("the vote is not durable", "a start has no fuse", "reservations outlive their lease")


def test_short_campaign() -> None:
    """A fresh seed in `make test`; the long form is `python -m tests.campaign_mates`."""
    total = Tally()
    for run in range(80):
        try:
            add(total, play(SEED, run).tally)
        except Broken as error:
            pytest.fail(f"{error}; again: python -m tests.campaign_mates --seed {SEED} --run {run}")
    assert total.starts > 80
    assert total.crashes
    assert total.lost
    assert total.jumps
    assert total.sleeps
    assert total.reboots


def test_a_run_repeats_itself() -> None:
    assert play(7, 3).tally == play(7, 3).tally


def test_small_cases_exhaustively() -> None:
    found = explore(horizon_us=3, crashes=0, link=2)
    assert found.whole
    assert not found.broken
    assert found.together, "nobody ever started together: nothing was explored"
    assert found.alone, "nobody was ever alone: the case is too kind"


def test_small_cases_with_a_clock_that_jumps() -> None:
    found = explore(horizon_us=2, crashes=0, link=1, jumps=1)
    assert found.whole
    assert not found.broken, found.path
    assert found.together
    assert found.alone


def test_small_cases_with_a_crash_as_far_as_time_allows() -> None:
    found = explore(horizon_us=3, crashes=1, link=2, most=8000)
    assert not found.broken, found.path
    assert found.dead


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_campaign_bites(mutant: Mutant) -> None:
    with mutant.at_work() as forgets:
        for run in range(200):
            try:
                play(7, run, forgets)
            except Broken:
                return
    pytest.fail(f"{mutant.name}: not caught")


@pytest.mark.parametrize("mutant", [one for one in MUTANTS if one.name in IN_EXPLORER], ids=lambda one: one.name)
def test_the_explorer_bites(mutant: Mutant) -> None:
    with mutant.at_work() as forgets:
        found = explore(horizon_us=5, crashes=1, link=2, forgets=forgets, most=20_000)
    assert found.broken
    assert found.path
