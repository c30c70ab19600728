"""Mates under two real resource managers begin together or not at all, whoever is stopped in the middle."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.backend.coupled.pairs import MOMENTS, disturbed, judge, several, stand_still
from tests.backend.coupled.sides import Side

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timing, pytest.mark.xdist_group("coupled-managers")]
ROUNDS = int(os.environ.get("COHABIT_ROUNDS", "1"))  # more of them for figures


def test_a_pair_on_slurm_and_grid_engine(mixed: list[Side], capsys: pytest.CaptureFixture[str]) -> None:
    several(mixed, "mixed", "Slurm and Grid Engine", capsys)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("which", [0, 1], ids=["slurmctld", "qmaster"])
def test_a_manager_is_stopped_in_the_middle(
    mixed: list[Side], which: int, moment: str, round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """For longer than a mate may be late. No program begins alone."""
    mates, random_s = f"stopped{which}{MOMENTS.index(moment)}x{round_}", random.Random(time.time_ns()).uniform(0.0, 4.0)
    after_s = disturbed(mixed, mates, which, moment, random_s, stand_still)
    judge(mixed, mates, f"{mixed[which].daemon} stopped {moment} ({after_s:.1f} s)", capsys)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("which", [0, 1], ids=["the one that decides", "the other"])
def test_a_controller_is_killed_in_the_middle(
    mixed: list[Side], which: int, moment: str, round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs wait until it is back, or are stopped by their fuses; what was opened stays open."""
    mates, random_s = f"killed{which}{MOMENTS.index(moment)}x{round_}", random.Random(time.time_ns()).uniform(0.0, 4.0)
    killed = mixed[which]
    after_s = disturbed(mixed, mates, which, moment, random_s, lambda side: side.detach(hard=True))
    killed.attach()
    judge(mixed, mates, f"the controller of {killed.verb} killed {moment} ({after_s:.1f} s)", capsys)
