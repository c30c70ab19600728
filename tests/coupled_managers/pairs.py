"""Pairs of mates on two sides: how far apart they began."""

from __future__ import annotations

import pytest

from tests.coupled_managers.sides import Side, why
from tests.slurm.steering import until

TOGETHER_S = 2.0
PAIRS = 3


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
