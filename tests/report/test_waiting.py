"""What jobs waited for over time, counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from cohabit.model.records import RunTable
from cohabit.report.waiting import INSTANTS, cause_figures, causes

RunOf = Callable[..., RunTable]
FEW = "needs more nodes than are free"
OTHERS = "enough nodes are free, but others go first or a rule keeps it back"
AFTER = "waits for another job to end, or for its begin time"


def test_jobs_wait_for_nodes_or_behind_others(run_of: RunOf) -> None:
    """Ten nodes: 6 are taken until 120 s, then all, until 240 s. The second job needs 8, the third 2, the fourth 1."""
    run = run_of([(0, 0, 120, 6), (0, 120, 240, 8), (60, 120, 240, 2), (0, 240, 240, 1)])
    at, found = causes(run)
    assert len(at) == INSTANTS
    assert (at[0], at[1]) == (500_000, 1_500_000)
    assert found[FEW].tolist() == [1] * 120 + [1] * 120  # the second until 120 s; then the fourth: all ten are taken
    assert found[OTHERS].tolist() == [1] * 60 + [2] * 60 + [0] * 120
    late = replace(run, workload=replace(run.workload, after=[(), (), (), ("1",)]))
    _, found = causes(late)
    assert found[AFTER].tolist() == [1] * 120 + [0] * 120
    assert found[OTHERS].tolist() == [0] * 60 + [1] * 60 + [0] * 120
    later = replace(run.workload, extra={"begin_after_us": np.array([0, 90_000_000, 0, -1])})
    _, found = causes(replace(run, workload=later))
    assert found[AFTER].tolist() == [1] * 90 + [0] * 150


def test_shared_nodes_are_counted_in_cores(run_of: RunOf) -> None:
    run = replace(run_of([(0, 0, 100, 6), (0, 100, 240, 8)]), shares=["{}", "{}"])
    _, found = causes(run)
    assert set(found) == {"needs more cores than are free"}


def test_a_run_without_waits_has_no_picture(run_of: RunOf) -> None:
    assert cause_figures({"a": run_of([(0, 0, 10, 1)]), "b": run_of([(0, None, None, 99)])}) == {}


def test_the_causes_add_up_to_the_queue(crowded_run: RunTable) -> None:
    at, found = causes(crowded_run)
    submit, start = crowded_run.workload.submit_us, crowded_run.start_us
    origin = submit.min()
    for place in range(0, len(at), 40):
        waiting = ((submit <= origin + at[place]) & (origin + at[place] < start)).sum()
        assert sum(int(values[place]) for values in found.values()) == waiting
    figure = cause_figures({"x": crowded_run})["x"]
    assert {trace["stackgroup"] for trace in figure["data"]} == {"jobs"}
