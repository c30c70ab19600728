"""What `measure pairs` makes of its runs: medians, and whether the machine is busy now rather than a minute ago."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.measure import measuring
from cohabit.app.measure.data import Alone, Together


def test_one_disturbed_run_alone_does_not_make_neighbours_look_harmless() -> None:
    alone = Alone((2.0, 2.1, 5.0), {})
    assert alone.time_s == 2.1
    assert Together((2.3, 2.2, 9.0), 0).degradation(alone.time_s) == pytest.approx(100 * 0.2 / 2.1)
    assert alone.noise_percent is not None
    assert alone.noise_percent > 40, "the spread is still said"


def ticks(path: Path, busy: int) -> None:
    path.write_text(f"cpu  {busy} 0 0 1000 50 0 0 0 0 0\ncpu0 1 2 3\n")


def test_a_machine_that_was_busy_a_minute_ago_is_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.os, "getloadavg", lambda: (9.0, 9.0, 9.0))
    monkeypatch.setattr(measuring, "TICKS", tmp_path / "stat")
    ticks(tmp_path / "stat", 5000)
    assert measuring.busy_load() is None


def test_a_machine_that_works_now_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(measuring, "TICKS", tmp_path / "stat")
    ticks(tmp_path / "stat", 0)
    second = measuring.os.sysconf("SC_CLK_TCK")
    monkeypatch.setattr(measuring.time, "sleep", lambda _: ticks(tmp_path / "stat", 2 * second))
    monkeypatch.setattr(measuring.time, "monotonic", iter((10.0, 11.0)).__next__)
    assert measuring.busy_load() == pytest.approx(2.0)


def test_without_ticks_the_load_average_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring.os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    monkeypatch.setattr(measuring, "TICKS", tmp_path / "nothing")
    assert measuring.busy_load() == 3.0
