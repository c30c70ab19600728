"""Mates under two real resource managers start together or not at all, whoever is stopped in the middle."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.coupled_managers.conftest import LEASE_S
from tests.coupled_managers.pairs import TOGETHER_S, several, together
from tests.coupled_managers.sides import WITHIN_S, Side, why

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timing, pytest.mark.xdist_group("coupled-managers")]
ROUNDS = int(os.environ.get("COHABIT_ROUNDS", "1"))  # more of them for figures


def test_a_pair_on_slurm_and_grid_engine(mixed: list[Side], capsys: pytest.CaptureFixture[str]) -> None:
    several(mixed, "mixed", "Slurm and Grid Engine", capsys)


@pytest.mark.parametrize("round_", range(ROUNDS))
@pytest.mark.parametrize("which", [0, 1], ids=["slurmctld", "qmaster"])
def test_a_manager_is_stopped_in_the_middle(
    mixed: list[Side], which: int, round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """At a random moment, for longer than a mate may be late. Either nobody began, or who began alone was stopped."""
    mates, moment_s = f"stopped{which}x{round_}", random.Random(time.time_ns()).uniform(0.0, 4.0)
    for side in mixed:
        side.submit(mates, LEASE_S + 2)
    time.sleep(moment_s)
    mixed[which].send(signal.SIGSTOP)
    try:
        time.sleep(2 * WITHIN_S)
    finally:
        mixed[which].send(signal.SIGCONT)
    _judge(mixed, mates, f"{mixed[which].daemon} stopped {moment_s:.1f} s after submission", capsys)


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_a_controller_is_killed_in_the_middle(
    mixed: list[Side], round_: int, capsys: pytest.CaptureFixture[str]
) -> None:
    mates, moment_s = f"killed{round_}", random.Random(time.time_ns()).uniform(0.0, 4.0)
    for side in mixed:
        side.submit(mates, LEASE_S + 2)
    time.sleep(moment_s)
    killed = mixed[random.Random(time.time_ns()).randrange(2)]
    killed.detach(hard=True)
    killed.attach()
    _judge(mixed, mates, f"the controller of {killed.verb} killed {moment_s:.1f} s after submission", capsys)


def _judge(sides: list[Side], mates: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    gap_s = together(sides, mates)
    begins = [side.said(mates, "begin") for side in sides]
    alone = sum(min((abs(at - other) for other in begins[1 - me]), default=99.0) > TOGETHER_S
                for me in (0, 1) for at in begins[me])  # fmt: skip
    with capsys.disabled():
        print(f"\n{title}: began {1000 * gap_s:.0f} ms apart, {alone} runs that began alone were stopped before")  # noqa: T201
    assert gap_s < TOGETHER_S, why(sides)()
