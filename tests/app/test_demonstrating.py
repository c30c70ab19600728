"""What the demonstration concludes from its turns: a gain is claimed only where no turn says otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from cohabit.app.simulate.demonstrating import BLIND, EXCLUSIVE, LEARNED, Interference, Measured
from cohabit.model.records import RunTable


def measured(exclusive: list[float], blind: list[float], learned: list[float]) -> Measured:
    """Two jobs per turn, the second of which ends after so many seconds."""

    def run(seconds: float) -> RunTable:
        submit, end = np.zeros(2, np.int64), np.array([1, seconds * 1e6]).astype(np.int64)
        workload = SimpleNamespace(submit_us=submit, program=[0, 0], program_names=["dense"])
        return cast(RunTable, SimpleNamespace(start_us=submit, end_us=end, workload=workload))

    times = {EXCLUSIVE: exclusive, BLIND: blind, LEARNED: learned}
    runs: dict[str, Any] = {policy: tuple(map(run, each)) for policy, each in times.items()}
    return Measured(Interference({"dense": 1.0}, {"dense": {"dense": 100.0}}), runs)


def test_a_gain_in_every_turn_is_claimed() -> None:
    found = measured([6.0, 6.2, 6.1], [4.0, 4.2, 4.1], [3.0, 3.9, 3.1])
    assert found.gained() == {EXCLUSIVE: pytest.approx(49.2), BLIND: pytest.approx(24.4)}
    said = found.conclusion()
    assert said.startswith("Gained: ")
    assert "24 % sooner than shared blindly, 4.1 s (4.0 to 4.2)" in said
    assert "49 % sooner than one per node" in said


def test_turns_that_overlap_show_nothing() -> None:
    found = measured([6.0, 6.2, 6.1], [4.0, 4.2, 4.1], [3.0, 4.1, 3.1])
    assert found.gained()[BLIND] is None
    said = found.conclusion()
    assert said.startswith("No gain shown: ")
    assert "not clearly different from shared blindly" in said
    assert "too small or too busy" in said


def test_a_loss_is_called_one() -> None:
    found = measured([6.0, 6.2, 6.1], [4.0, 4.2, 4.1], [5.0, 5.1, 5.2])
    said = found.conclusion()
    assert said.startswith("No gain shown: ")
    assert "24 % later than shared blindly" in said
    assert "16 % sooner than one per node" in said


def test_runs_are_told_in_turns() -> None:
    found = measured([6.0, 6.5], [4.0, 4.5], [3.0, 3.5])
    ends = [int(run.end_us[1]) / 1e6 for run in found.in_turns()]
    assert ends == [6.0, 4.0, 3.0, 6.5, 4.5, 3.5]
