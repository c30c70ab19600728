"""Pairs of mates on two sides: how far apart they began, and that nobody began alone."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from tests.backend.coupled.conftest import LEASE_S
from tests.backend.coupled.sides import WITHIN_S, Side, why
from tests.backend.slurm.steering import until

TOGETHER_S = 2.0
PAIRS = 3
RANDOM, AT_RELEASE, AFTER_START, AFTER_MATE = "at random", "at its release", "after its start", "after its mate's start"
AROUND_OPENING = "around the opening"
MOMENTS = (RANDOM, AT_RELEASE, AFTER_START, AFTER_MATE, AROUND_OPENING)


def together(sides: list[Side], mates: str) -> float:
    """How far apart the two that ran to their ends began, in seconds; each ended once."""
    until(lambda: all(side.said(mates, "end") for side in sides), 240, why(sides))
    assert [len(side.said(mates, "end")) for side in sides] == [1, 1]
    begins = [max(at for at in side.said(mates, "begin") if at < side.said(mates, "end")[0]) for side in sides]
    return abs(begins[0] - begins[1])


def several(sides: list[Side], name: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Pairs one after the other, handed in now here, now there first; names of mates are used once."""
    gaps = []
    for number in range(PAIRS):
        order = sides if number % 2 else sides[::-1]
        for side in order:
            side.submit(f"{name}{number}", 2)
        gaps.append(together(sides, f"{name}{number}"))
    with capsys.disabled():
        print(f"\n{title}: {PAIRS} pairs began {', '.join(f'{1000 * gap:.0f}' for gap in gaps)} ms apart")  # noqa: T201
    assert max(gaps) < TOGETHER_S, why(sides)()


def disturbed(
    sides: list[Side], mates: str, which: int, moment: str, random_s: float, disturb: Callable[[Side], None]
) -> float:
    """A pair, and a disturbance at a moment that is watched for; how long after the last submission that was."""
    until(lambda: not any(side.ordered() or side.launched() for side in sides), 90, why(sides))
    for side in sides:
        side.submit(mates, LEASE_S + 2)
    begun_s = time.monotonic()
    here, there = sides[which], sides[1 - which]
    come: dict[str, Callable[[], bool]] = {
        RANDOM: lambda: time.monotonic() >= begun_s + random_s, AT_RELEASE: here.ordered, AFTER_START: here.launched,
        AFTER_MATE: there.launched, AROUND_OPENING: lambda: here.launched() and there.launched(),
    }  # fmt: skip
    while not come[moment]() and time.monotonic() < begun_s + 120.0:
        time.sleep(0.005)
    if moment == AROUND_OPENING:
        time.sleep(random_s / 20)  # runs have come to the threshold 0.1 s later or so
    after_s = time.monotonic() - begun_s
    disturb(here)
    return after_s


def stand_still(side: Side) -> None:
    """Its manager, for longer than a mate may be late."""
    side.send(signal.SIGSTOP)
    try:
        time.sleep(2 * WITHIN_S)
    finally:
        side.send(signal.SIGCONT)


def judge(sides: list[Side], mates: str, title: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the end both ran, and no run that ever began did so alone."""
    gap_s = together(sides, mates)
    begins = [side.said(mates, "begin") for side in sides]
    alone = sum(min((abs(at - other) for other in begins[1 - me]), default=99.0) > TOGETHER_S
                for me in (0, 1) for at in begins[me])  # fmt: skip
    began = " and ".join(str(len(one)) for one in begins)
    with capsys.disabled():
        print(f"\n{title}: began {1000 * gap_s:.0f} ms apart; programs begun: {began}, alone: {alone}")  # noqa: T201
    assert alone == 0, f"{begins}\n{why(sides)()}"
    assert gap_s < TOGETHER_S, why(sides)()
