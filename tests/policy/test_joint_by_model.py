"""The joint policy where profiles have no curves: a model of degradation says beside whom a program may run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.core.core import SchedulerCore
from cohabit.live.controller.slowdowns import predicted_slowdown
from cohabit.model.event import JobFinished
from cohabit.policy.degradation import KnownPairs
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.joint import Joint
from tests.cli.cli_calls import Answer, cohabit
from tests.core.shared_story import ONE_NODE, Story, must
from tests.support.builders import Choice, policies
from tests.support.programs import PROFILES

NAMES = ("gentle", "meek", "harsh", "half", "cached")
PERCENT = np.array(  # row: the slowed program
    [
        [1.0, 2.0, 60.0, 6.0, 3.0],
        [2.0, 1.0, 70.0, 6.0, 3.0],
        [1.0, 1.0, 1.0, 1.0, 1.0],
        [6.0, 6.0, 50.0, 1.0, 3.0],
        [3.0, 3.0, 40.0, 3.0, 1.0],
    ]
)


def told(alpha: float = 0.9, unknown: str = "alone", model: bool = True) -> Story:
    """One node of eight cores under the joint policy, with measured slowdowns unless told otherwise."""
    pairs = KnownPairs(NAMES, PERCENT) if model else None
    options = PlacementOptions(alpha=alpha, learn=False, degradations=pairs, unknown=unknown)
    chosen = replace(policies(*Choice("fcfs", "easy", None, "joint")), placer=Joint(options))
    return Story(SchedulerCore(ONE_NODE, chosen, profiles=PROFILES))


def test_programs_without_curves_share_where_the_model_keeps_their_bounds() -> None:
    tell = told()
    assert not must(tell.run(0, "a", "gentle", processes=2)).exclusive
    must(tell.run(1, "b", "meek", processes=2))
    assert tell.run(2, "c", "harsh", processes=2) is None
    assert "model keeps every job to 0.9" in tell.why("c", 2)


def test_without_a_model_they_run_alone() -> None:
    tell = told(model=False)
    assert must(tell.run(0, "a", "gentle", processes=2)).exclusive
    assert tell.run(1, "b", "meek", processes=2) is None


def test_slowdowns_of_several_neighbours_add_up() -> None:
    """Each slows `half` by 6 %: one keeps it above 0.9 (11.1 %), two do not."""
    tell = told()
    must(tell.run(0, "a", "half", processes=2))
    must(tell.run(1, "b", "gentle", processes=2))
    assert tell.run(2, "c", "meek", processes=2) is None
    assert "c" in tell.starts(3, JobFinished("b", 1))


def test_a_lower_bound_of_one_job_counts_for_that_job() -> None:
    tell = told()
    must(tell.run(0, "a", "gentle", processes=2, alpha=0.5))
    assert tell.run(1, "b", "harsh", processes=2) is not None


def test_a_program_with_curves_is_judged_beside_one_without() -> None:
    tell = told()
    must(tell.run(0, "a", "cached", processes=2))
    assert tell.run(1, "b", "harsh", processes=2) is None, "it slows `cached` by 40 %"


def test_a_program_the_model_does_not_know_runs_alone_or_by_cores() -> None:
    assert must(told().run(0, "a", "stranger", processes=2)).exclusive
    tell = told(unknown="cores")
    must(tell.run(0, "a", "stranger", processes=2))
    assert tell.run(1, "b", "gentle", processes=2) is not None


def test_the_expected_slowdown_is_the_models() -> None:
    tell = told()
    must(tell.run(0, "a", "half", processes=2))
    must(tell.run(1, "b", "gentle", processes=2))
    core = tell.core
    assert predicted_slowdown(core, core.state.rows["a"], 1) == pytest.approx(1.06)


def test_a_scenario_takes_a_matrix_and_refuses_plans_beside_it(tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.toml"
    jobs = [f"{number},0,100,2,{NAMES[number % 2]}\n" for number in range(1, 5)]
    (tmp_path / "jobs.csv").write_text("job_id,submit_s,run_s,processes,program\n" + "".join(jobs))
    (tmp_path / "pairs.csv").write_text(",gentle,meek\ngentle,1,2\nmeek,2,1\n")

    def simulate(*keys: str) -> Answer:
        policy = "\n".join(['name = "cohabit"', "learn = false", 'partition = "none"', *keys])
        scenario.write_text(f'[cluster]\nnodes = 1\ncores = 8\n[jobs]\nfile = "jobs.csv"\n[policy]\n{policy}\n')
        return cohabit("simulate", scenario, "--json")

    assert simulate().document["metrics"]["makespan_s"] == 400.0
    assert simulate('degradation = "pairs.csv"').document["metrics"]["makespan_s"] == 100.0
    assert "policy.planned" in simulate('degradation = "pairs.csv"', "planned = true").sentence()
