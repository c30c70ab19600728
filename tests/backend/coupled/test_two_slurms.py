"""Mates under two real Slurm clusters."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.backend.coupled.pairs import MOMENTS, disturbed, judge, several, stand_still
from tests.backend.coupled.sides import Side

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timing, pytest.mark.xdist_group("coupled-managers")]
ROUNDS = int(os.environ.get("COHABIT_ROUNDS", "1"))


def test_a_pair_on_two_slurms(alike: list[Side], capsys: pytest.CaptureFixture[str]) -> None:
    several(alike, "alike", "two Slurms", capsys)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("moment", MOMENTS)
def test_one_slurmctld_is_stopped_in_the_middle(
    alike: list[Side], moment: str, round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Now that of the side that decides, now the other one."""
    chance = random.Random(time.time_ns())
    which, mates = chance.randrange(2), f"still{MOMENTS.index(moment)}x{round_}"
    after_s = disturbed(alike, mates, which, moment, chance.uniform(0.0, 4.0), stand_still)
    judge(alike, mates, f"two Slurms, {alike[which].name} stopped {moment} ({after_s:.1f} s)", capsys)
