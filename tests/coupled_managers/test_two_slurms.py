"""Mates under two real Slurm clusters."""

from __future__ import annotations

import pytest

from tests.coupled_managers.pairs import several
from tests.coupled_managers.sides import Side

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timing, pytest.mark.xdist_group("coupled-managers")]


def test_a_pair_on_two_slurms(alike: list[Side], capsys: pytest.CaptureFixture[str]) -> None:
    several(alike, "alike", "two Slurms", capsys)
