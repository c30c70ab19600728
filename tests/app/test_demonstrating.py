"""What the demonstration concludes from its turns: a gain is claimed only where no turn says otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cohabit.app.simulate.demonstrating import BLIND, EXCLUSIVE, OURS, Interference, Measured
from cohabit.model.records import RunTable

ALONE = [6.0, 6.2, 6.1]


def measured(
    blind: list[float], ours: list[float], blind_waits: tuple[float, ...] = (2.0, 2.1, 2.2),
    waits: tuple[float, ...] = (1.0, 1.1, 1.2), slower: float = 4.0,
) -> Measured:  # fmt: skip
    """Two jobs per turn: the one on both cores waits so long, the last ends after so many seconds."""

    def run(seconds: float, wait: float) -> RunTable:
        submit, end = np.zeros(2, np.int64), np.array([1, seconds * 1e6]).astype(np.int64)
        workload = SimpleNamespace(submit_us=submit, program=[1, 0], program_names=["wide", "dense"])
        start = np.array([0, wait * 1e6]).astype(np.int64)
        return cast(RunTable, SimpleNamespace(start_us=start, end_us=end, workload=workload))

    chosen = {EXCLUSIVE: (ALONE, (0.0, 0.0, 0.0)), BLIND: (blind, blind_waits), OURS: (ours, waits)}
    runs: dict[str, Any] = {policy: tuple(map(run, *each)) for policy, each in chosen.items()}
    return Measured(Interference({"dense": 1.0}, {"dense": {"dense": slower}}), runs)


def test_a_gain_in_every_turn_is_claimed() -> None:
    found = measured([4.0, 4.2, 4.1], [3.0, 3.9, 3.1])
    assert found.gained() == {EXCLUSIVE: pytest.approx(49.2), BLIND: pytest.approx(24.4)}
    said = found.conclusion()
    assert said.startswith("Gained: ")
    assert "24 % sooner than shared blindly, 4.1 s (4.0 to 4.2)" in said
    assert "49 % sooner than one at a time" in said
    assert "no profiles yet" not in said


def test_turns_that_overlap_show_nothing_and_the_reason_is_said() -> None:
    found = measured([3.0, 3.2, 3.1], [3.0, 3.3, 3.1], waits=(1.0, 1.1, 2.1))
    assert found.gained()[BLIND] is None
    said = found.conclusion()
    assert said.startswith("No gain shown: ")
    assert "not clearly different from shared blindly" in said
    assert "they slow each other by 4 to 4 %" in said
    assert "The job on both cores" not in said


def test_a_promise_that_is_kept_is_a_gain() -> None:
    said = measured([3.0, 3.2, 3.1], [3.0, 3.3, 3.1]).conclusion()
    assert said.startswith("Gained: ")
    assert "The job on both cores waited 1.1 s (1.0 to 1.2) instead of 2.1 s (2.0 to 2.2)" in said


def test_a_loss_is_called_one() -> None:
    said = measured([4.0, 4.2, 4.1], [6.5, 6.6, 6.7]).conclusion()
    assert said.startswith("No gain shown: ")
    assert "61 % later than shared blindly" in said
    assert "8 % later than one at a time" in said


def test_runs_are_told_in_turns() -> None:
    found = measured([4.0, 4.5, 4.6], [3.0, 3.5, 3.6])
    ends = [int(run.end_us[1]) / 1e6 for run in found.in_turns()]
    assert ends == [6.0, 4.0, 3.0, 6.2, 4.5, 3.5, 6.1, 4.6, 3.6]
