"""Predicted against actual slowdown in the records of jobs, where the policy and the profiles say something."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.policies import build
from cohabit.app.scenario import PolicyConfig
from cohabit.live.records import Record
from cohabit.model.event import JobFinished, JobStarted, JobSubmitted, NodeDrained, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from cohabit.testing.clusters import SHARED
from cohabit.testing.programs import CACHED, COMPACT, NEUTRAL, STREAM
from tests.live.test_records import Tale


def run(tale: Tale, name: str, program: str, seconds: int, processes: int = 8) -> Record:
    """A job that starts at once and ends well after so long."""
    (start,) = tale.tell(JobSubmitted(Job(name, 1000 * SECOND, processes=processes, program=program)))
    began_us = tale.now_us
    tale.tell(JobStarted(name, start.attempt))
    tale.now_us = began_us + (seconds - 1) * SECOND
    tale.tell(JobFinished(name, start.attempt))
    return tale.rows()[name]


def known(tale: Tale) -> None:
    tale.tell(
        *(
            ProfileLearned(one.program, one.processes, scale)
            for one in (COMPACT, CACHED, STREAM, NEUTRAL)
            for scale in one.scales
        )
    )


def test_a_booked_share_of_the_cache_says_how_much_slower(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="sns")))
    known(tale)
    compact = run(tale, "a", "compact", 120)
    assert (compact.ways, compact.scale) == (8, 1)
    assert compact.predicted_slowdown == pytest.approx(1.0 / 0.9)  # STEEP at eight ways
    assert compact.actual_slowdown == pytest.approx(1.2)  # 120 s where it takes 100 s alone
    spread = run(tale, "b", "stream", 90)
    alone_s = {one.scale: one.time_s for one in STREAM.scales}[spread.scale]
    assert spread.actual_slowdown == pytest.approx(90 / alone_s)


def test_nothing_is_said_of_what_was_not_measured(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="sns")))
    known(tale)
    stranger = run(tale, "a", "stranger", 50)
    assert (stranger.predicted_slowdown, stranger.actual_slowdown) == (None, None)
    assert stranger.purpose != "run"  # it was measured itself


def test_whole_nodes_promise_the_speed_of_a_job_alone(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="ce-easy")))
    known(tale)
    record = run(tale, "a", "compact", 130)
    assert record.predicted_slowdown == 1.0
    assert record.actual_slowdown == pytest.approx(1.3)
    assert run(tale, "b", "", 10).predicted_slowdown is None


def test_neighbours_chosen_by_degradation_are_counted(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="pair-greedy")))
    known(tale)
    tale.tell(*(NodeDrained(node) for node in (1, 2, 3)))
    starts = tale.tell(
        JobSubmitted(Job("a", 100 * SECOND, processes=4, program="stream")),
        JobSubmitted(Job("b", 100 * SECOND, processes=4, program="compact")),
    )
    assert {one.job_id for one in starts} == {"a", "b"}
    rows = tale.rows()
    assert rows["a"].nodes == rows["b"].nodes == ((0, 1),)
    for name in ("a", "b"):
        assert 1.0 < (rows[name].predicted_slowdown or 0.0) < 2.0
