"""What is remembered of why jobs waited: what is new, not what is said again, and never more than there is room for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from cohabit.app.client.report import run_table
from cohabit.app.view.jobs import listed
from cohabit.app.view.run import FinishedRun
from cohabit.core.core import SchedulerCore
from cohabit.live.api.page import waits as page_waits
from cohabit.live.api.page.charts import series
from cohabit.live.api.page.waits import AGAIN_US, NOTES_MOST, Waits, first_waits
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.records import Note
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.event import JobStarted, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.records import NEVER
from cohabit.model.units import SECOND
from cohabit.report.tables import write_jobs_parquet


def waits() -> Waits:
    return Waits(cast(Controller, None), lambda: 0)  # nobody is asked here


def test_the_same_reason_is_noted_once_and_with_other_numbers_once_a_minute() -> None:
    one = waits()
    for at_us, why in ((0, "needs 2 nodes, 1 idle"), (5, "needs 2 nodes, 1 idle"), (9, "needs 2 nodes, 0 idle"),
                       (AGAIN_US, "needs 2 nodes, 0 idle"), (AGAIN_US + 1, "held"), (AGAIN_US + 2, "")):  # fmt: skip
        one.note("a", at_us, why)
    assert [note.at_us for note in one.with_those_of("a", ())] == [0, AGAIN_US, AGAIN_US + 1]


def test_what_the_record_keeps_and_what_was_seen_are_one_story() -> None:
    one = waits()
    one.note("a", 10, "needs 2 nodes")
    one.note("a", 30, "held")
    story = one.with_those_of("a", (Note(20, "released"), Note(30, "held"), Note(31, "held")))
    assert [note.why for note in story] == ["needs 2 nodes", "released", "held"]
    assert one.with_those_of("b", ()) == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_waits, "JOBS_MOST", 3)
    one = waits()
    for number in range(5):
        one.note(f"job {number}", number, "waits")
    assert [bool(one.with_those_of(f"job {number}", ())) for number in range(5)] == [False, False, True, True, True]
    for number in range(2 * NOTES_MOST):
        one.note("job 4", 100 + number, "a" * (number + 1))
    kept = one.with_those_of("job 4", ())
    assert len(kept) == NOTES_MOST
    assert (kept[0].why, kept[-1].why) == ("waits", "a" * 2 * NOTES_MOST)  # the first and the latest


def test_the_first_of_the_queue_are_asked_about() -> None:
    from cohabit.app.scenario.policies import build
    from cohabit.app.scenario.tables import PolicyConfig

    core = SchedulerCore(Cluster((NodeGroup(1, 1),)), build(PolicyConfig()))
    jobs = [JobSubmitted(Job(str(number), 60 * SECOND, nodes=1)) for number in range(3)]
    for order in core.step(0, jobs):
        if isinstance(order, StartJob):
            core.step(1, [JobStarted(order.job_id, order.attempt)])
    found = dict(first_waits(core, 2))
    assert set(found) == {"1", "2"}
    assert "needs 1 node, 0 idle" in found["1"]


def test_a_job_cancelled_before_its_start_waits_until_then() -> None:
    submit, start, end = np.array([0, 0, 0]), np.array([NEVER, 50, NEVER]), np.array([20, 90, NEVER])
    found = series(submit, start, end, np.ones(3, np.int64), 0, 100, bins=10)
    assert found["waiting"] == [3, 3, 2, 2, 2, 1, 1, 1, 1, 1]  # the third waits still
    assert (sum(found["ended"]), found["waiting_at_end"]) == (2, 1)


def test_a_finished_run_counts_no_cancelled_job_as_waiting(tmp_path: Path) -> None:
    usual: dict[str, Any] = {
        "user": "ann", "program": "p", "processes": 1, "cores": 1, "scale": 1, "nodes": [0], "limit_s": 100.0,
        "submitted_at": 0.0, "started_at": 10.0, "ended_at": 100.0, "state": "done",
    }  # fmt: skip
    never = {"state": "cancelled", "started_at": None, "nodes": [], "ended_at": 5.0}
    jobs = [usual | {"job": "ran"}, *(usual | never | {"job": f"cancelled-{number}"} for number in range(7))]
    write_jobs_parquet(run_table(jobs, [{"cores": 1}], "cs"), tmp_path / "jobs.parquet")
    run = FinishedRun(tmp_path)
    assert run.overview(50.0)["counts"]["queued"] == run.whole_series["waiting_at_end"] == 0
    assert run.whole_series["waiting"][0] == 1  # the one that ran
    assert sum(run.whole_series["ended"]) == 1  # though the run ends with it


def test_jobs_of_a_finished_run_are_sorted_by_wait_and_by_run_time(tmp_path: Path) -> None:
    usual: dict[str, Any] = {
        "user": "ann", "program": "p", "processes": 1, "cores": 1, "scale": 1, "limit_s": 100.0, "submitted_at": 0.0,
        "state": "done",
    }  # fmt: skip
    spans = {"long": (5.0, 40.0), "runs": (30.0, 90.0), "short": (40.0, 45.0)}
    jobs = [
        usual | {"job": name, "started_at": start, "ended_at": end, "nodes": [node]}
        for node, (name, (start, end)) in enumerate(spans.items())
    ]
    write_jobs_parquet(run_table(jobs, [{"cores": 1}] * 3, "cs"), tmp_path / "jobs.parquet")
    run = FinishedRun(tmp_path)

    def order(view: str, sort: str, at: float) -> list[str]:
        return [one["job"] for one in listed(run, view, "", sort, True, 0, 9, at)["jobs"]]

    assert order("finished", "ran", 100.0) == ["runs", "long", "short"]
    assert order("finished", "waited", 100.0) == ["short", "runs", "long"]
    assert order("running", "ran", 42.0) == ["runs", "short"]  # until now, not until their ends
