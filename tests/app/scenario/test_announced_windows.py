"""Maintenance that becomes known while a simulation runs: from then on no start runs into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.reading import scenario_from
from cohabit.app.simulate import simulation
from cohabit.model.errors import InputError
from cohabit.model.records import RunTable
from tests.cli.cli_calls import cohabit

BEGIN_S, END_S, KNOWN_S = 36_000, 50_400, 30_000
WINDOW = {"begin_s": BEGIN_S, "end_s": END_S, "nodes": "0-15,30-40", "announced_s": KNOWN_S, "name": "cooling"}
JOBS = {"generator": "lublin", "jobs": 200, "load": 0.9}


def scenario(policy: str, announced: bool = True) -> dict[str, object]:
    window = WINDOW if announced else {key: WINDOW[key] for key in ("begin_s", "end_s", "nodes")}
    cluster = {"nodes": 64, "cores": 4, "maintenance": [window]}
    return {"seed": 5, "cluster": cluster, "jobs": JOBS, "policy": {"name": policy}}


def clashes(table: RunTable) -> list[float]:
    """When jobs were started that by their limits would run into the window, in seconds."""
    closed = {*range(16), *range(30, 41)}
    found = []
    for row, (first, last) in enumerate(zip(table.node_ranges.offsets, table.node_ranges.offsets[1:], strict=False)):
        starts, counts = table.node_ranges.first[first:last], table.node_ranges.count[first:last]
        own = {node for begin, count in zip(starts, counts, strict=True) for node in range(begin, begin + count)}
        begin_s, limit_s = table.start_us[row] / 1e6, table.workload.limit_us[row] / 1e6
        if own & closed and begin_s + limit_s > BEGIN_S and begin_s < END_S:
            found.append(begin_s)
    return found


@pytest.mark.parametrize("policy", ["ce-easy", "cs"])
def test_only_what_started_before_the_announcement_runs_into_the_window(policy: str) -> None:
    table, _ = simulation.run(simulation.prepare(scenario_from(scenario(policy), "test")))
    assert clashes(table), "it comes as a surprise"
    assert max(clashes(table)) < KNOWN_S
    known, _ = simulation.run(simulation.prepare(scenario_from(scenario(policy, announced=False), "test")))
    assert not clashes(known)


def test_the_fast_engine_refuses_it() -> None:
    with pytest.raises(InputError, match="maintenance windows"):
        simulation.run(simulation.prepare(scenario_from(scenario("ce-easy"), "test")), engine="fast")


def test_the_journal_has_the_announcement_and_why_names_the_window(tmp_path: Path) -> None:
    file, run = tmp_path / "s.toml", tmp_path / "run"
    jobs = "job_id,program,processes,submit_s,run_s,limit_s\nlong,a,4,10,100,500\nnext,a,4,20,100,500\n"
    (tmp_path / "jobs.csv").write_text(jobs)
    file.write_text(
        'jobs = { file = "jobs.csv" }\n[cluster]\nnodes = 1\ncores = 4\n[[cluster.maintenance]]\n'
        'begin_s = 300\nend_s = 400\nnodes = "0"\nannounced_s = 15\nname = "cooling"\n'
    )
    assert cohabit("simulate", file, "--out", run, "--journal", "--no-report").code == 0
    assert "identical" in cohabit("replay", run, "--verify").out
    assert "cooling" in cohabit("why", "next", "--run", run).out
