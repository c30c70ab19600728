"""The manager's own latency in a scenario: submissions are heard late, starts come late, ends are reported late."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import simulation
from cohabit.model.units import SECOND


def times(folder: Path, **latency: float) -> list[tuple[float, float]]:
    """Start and end of two jobs of 100 s, one after the other on one node."""
    header = "job_id,program,processes,submit_s,run_s,limit_s"
    (folder / "jobs.csv").write_text(f"{header}\n0,x,1,0,100,300\n1,x,1,0,100,300\n")
    data = {"cluster": {"nodes": 1}, "jobs": {"file": str(folder / "jobs.csv")}, "world": latency}
    table, _ = simulation.run(simulation.prepare(scenario_for(data)))
    return [(one / SECOND, two / SECOND) for one, two in zip(table.start_us, table.end_us, strict=True)]


@pytest.mark.parametrize(
    ("latency", "expected"),
    [
        ({}, [(0, 100), (100, 200)]),
        ({"submit_latency_s": 2.5}, [(2.5, 102.5), (102.5, 202.5)]),
        ({"start_latency_s": 1.0}, [(1, 101), (102, 202)]),
        ({"end_latency_s": 3.0}, [(0, 100), (103, 203)]),
        ({"submit_latency_s": 2.5, "start_latency_s": 1.0, "end_latency_s": 3.0}, [(3.5, 103.5), (107.5, 207.5)]),
    ],
)
def test_every_part_is_paid(tmp_path: Path, latency: dict[str, float], expected: list[tuple[float, float]]) -> None:
    assert times(tmp_path, **latency) == expected


def test_late_reports_add_to_it(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("job_id,program,processes,submit_s,run_s\n" + "".join(
        f"{number},x,1,0,100\n" for number in range(20)))  # fmt: skip
    data = {"cluster": {"nodes": 1}, "jobs": {"file": str(tmp_path / "jobs.csv")}, "faults": {"late_reports_s": 5.0}}
    table, _ = simulation.run(simulation.prepare(scenario_for(data)))
    later, _ = simulation.run(simulation.prepare(scenario_for(data | {"world": {"end_latency_s": 3.0}})))
    assert ((later.start_us - table.start_us) // SECOND).tolist() == [3 * number for number in range(20)]
