"""Stock Slurm's ways in the core: backfilling in cycles, its window and tests, and what may run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import simulation
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

HEADER = "job_id,program,processes,submit_s,run_s,limit_s,user,partition,qos"


def starts(tmp_path: Path, jobs: list[str], policy: dict[str, Any], **tables: Any) -> list[float]:
    """When the jobs start, in seconds, on two nodes of four cores."""
    (tmp_path / "jobs.csv").write_text("\n".join([HEADER, *jobs]) + "\n")
    cluster = {"group": [{"nodes": 2, "cores": 4, "partitions": ["a", "b"]}]}
    data = {"cluster": cluster, "jobs": {"file": str(tmp_path / "jobs.csv")}, "policy": policy, **tables}
    table, _ = simulation.run(simulation.prepare(scenario_for(data)))
    return [at / SECOND for at in table.start_us.tolist()]


SHARED = {"name": "slurm", "order": "fcfs"}
WHOLE = SHARED | {"placement": "exclusive"}
STORY = [
    "0,x,4,0,100,101,u,a,",  # half of the machine
    "1,x,8,10,100,101,u,a,",  # waits for all of it
    "2,x,4,20,50,51,u,a,",  # fits behind it, but only a cycle lets it pass
]


@pytest.mark.parametrize("policy", [SHARED, WHOLE])
def test_a_job_passes_another_in_the_next_cycle_only(tmp_path: Path, policy: dict[str, Any]) -> None:
    assert starts(tmp_path, STORY, policy) == [0, 100, 30]
    assert starts(tmp_path, STORY, policy | {"bf_interval_s": 0.0}) == [0, 100, 20]


@pytest.mark.parametrize("policy", [SHARED, WHOLE])
def test_between_cycles_a_partition_is_shut_and_others_go_on(tmp_path: Path, policy: dict[str, Any]) -> None:
    assert starts(tmp_path, [*STORY, "3,x,4,21,50,51,u,b,"], policy) == [0, 100, 200, 21]


@pytest.mark.parametrize("policy", [SHARED, WHOLE])
def test_nothing_is_promised_beyond_the_window(tmp_path: Path, policy: dict[str, Any]) -> None:
    jobs = ["0,x,4,0,200,201,u,a,", "1,x,8,10,100,101,u,a,", "2,x,4,20,300,301,u,a,"]
    free = starts(tmp_path, jobs, policy | {"bf_window_s": 60.0})
    assert free[2] == 30, "the wide job has no promise, and is passed"
    kept = starts(tmp_path, jobs, policy)
    assert kept[1:] == [200, 300], "the wide job keeps its promise"


@pytest.mark.parametrize("policy", [SHARED, WHOLE])
def test_a_cycle_looks_at_so_many_jobs(tmp_path: Path, policy: dict[str, Any]) -> None:
    one = policy | {"bf_max_job_test": 1}
    assert starts(tmp_path, STORY, one) == [0, 100, 200]


@pytest.mark.parametrize("policy", [SHARED, WHOLE])
def test_a_promised_start_is_rounded_up(tmp_path: Path, policy: dict[str, Any]) -> None:
    jobs = ["0,x,4,0,100,101,u,a,", "1,x,8,10,100,101,u,a,", "2,x,4,20,85,86,u,a,"]
    exact = starts(tmp_path, jobs, policy | {"bf_resolution_s": 0.0})
    assert exact == [0, 100, 200], "from 30 on it may end at 116, after the promise at 101"
    assert starts(tmp_path, jobs, policy | {"bf_resolution_s": 120.0})[2] == 30, "promised is 120"


@pytest.mark.parametrize("policy", [SHARED, WHOLE, {"name": "cs"}, {"name": "cohabit", "unknown": "cores"}])
def test_limits_of_a_site_keep_their_jobs_back_and_no_others(tmp_path: Path, policy: dict[str, Any]) -> None:
    jobs = [f"{n},x,4,0,100,101,ann,a,normal" for n in (0, 1)] + ["2,x,4,0,100,101,ben,a,normal"]
    limit = {"per": "user", "qos": "normal", "partition": "a", "jobs": 1}
    assert starts(tmp_path, jobs, policy, limit=[limit]) == [0, 100, 0]
    assert starts(tmp_path, jobs, policy, limit=[limit | {"jobs": 0, "cores": 7}]) == [0, 100, 0]
    assert starts(tmp_path, jobs, policy, limit=[limit | {"qos": "other"}]) == [0, 0, 100]
    assert starts(tmp_path, jobs, policy, limit=[limit | {"per": "all"}]) == [0, 100, 200]


def test_what_goes_not_together_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bf_interval_s has no effect with backfill = 'conservative'"):
        starts(tmp_path, STORY, SHARED | {"backfill": "conservative"})
    with pytest.raises(InputError, match="it bounds nothing"):
        starts(tmp_path, STORY, SHARED, limit=[{"per": "user"}])
    with pytest.raises(InputError, match=r"\[\[limit\]\] does not go with conservative"):
        starts(tmp_path, STORY, {"placement": "exclusive", "backfill": "conservative"}, limit=[{"jobs": 1}])
    with pytest.raises(InputError, match=r"\[\[limit\]\] does not go with placement 'pair'"):
        starts(tmp_path, STORY, {"name": "pair-greedy"}, limit=[{"jobs": 1}])
