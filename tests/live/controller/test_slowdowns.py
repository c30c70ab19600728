"""Predicted against actual slowdown in the records of jobs, where the policy and the profiles say something."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.live.api.views import slowdown_points
from cohabit.live.controller.neighbours import expected_slowdown
from cohabit.live.controller.records import Record
from cohabit.live.controller.slowdowns import TOO_FAST, TOO_SHORT, TOO_VARIED
from cohabit.model.event import JobFinished, JobStarted, JobSubmitted, NodeDrained, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile, Tenant
from cohabit.model.units import SECOND
from tests.live.controller.test_records import Tale
from tests.support.clusters import SHARED
from tests.support.programs import CACHED, COMPACT, NEUTRAL, STREAM


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
    assert record.actual_slowdown is None  # whatever it took longer for, no neighbour slowed it
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


@pytest.mark.parametrize("policy", ["cs", "fifo-shared", "shepherd"])
def test_policies_that_book_nothing_are_judged_by_the_profiles_of_all_on_the_node(tmp_path: Path, policy: str) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name=policy)))
    known(tale)
    tale.tell(*(NodeDrained(node) for node in (1, 2, 3)))
    jobs = [Job("a", 1000 * SECOND, processes=4, program="compact"), Job("b", 1000 * SECOND, 4, program="neutral")]
    starts = [one for job in jobs for one in tale.tell(JobSubmitted(job))]
    assert [one.job_id for one in starts] == ["a", "b"]
    assert tale.rows()["a"].predicted_slowdown == 1.0  # nobody was there when it started
    assert 1.0 <= (tale.rows()["b"].predicted_slowdown or 0.0) < 1.5
    tale.tell(*(JobStarted(one.job_id, one.attempt) for one in starts))
    tale.now_us += 120 * SECOND
    tale.tell(JobFinished("a", 1), JobFinished("b", 1))
    rows = tale.rows()
    assert (rows["a"].met, rows["b"].met) == (True, True)
    assert 1.0 < (rows["a"].actual_slowdown or 0.0) < 2.0
    points = slowdown_points(rows.values())["points"]
    assert {point["job"] for point in points} == {"a", "b"}


def test_a_run_that_nobody_joined_is_not_compared(tmp_path: Path) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="cs")))
    known(tale)
    alone = run(tale, "a", "compact", 400, processes=4)
    assert (alone.met, alone.predicted_slowdown, alone.actual_slowdown) == (False, 1.0, None)


def test_neighbours_by_their_curves() -> None:
    node = SHARED.groups[0]

    def beside(*others: Profile, cores: int = 4) -> float | None:
        tenants = [Tenant(one.program, cores, 1, 0, 0.0, 0.5, one) for one in (COMPACT, *others)]
        return expected_slowdown(tenants, node, None)

    assert beside() == pytest.approx(1.0)
    gentle, harsh = beside(NEUTRAL), beside(STREAM)
    assert gentle is not None
    assert harsh is not None
    assert 1.0 < gentle < harsh  # a stream takes more of the cache, and of the memory
    crowd = beside(NEUTRAL, cores=8)
    assert crowd is not None
    assert crowd > 2 * gentle * 0.9  # sixteen processes on eight cores
    assert beside(Profile("stranger", 8)) is None


@pytest.mark.parametrize(
    ("alone", "took_s", "told", "why"),
    [
        (ScaleProfile(1, 0.01), 1, None, TOO_SHORT),  # /bin/true: starting it takes longer than it does
        (ScaleProfile(1, 4.9), 10, None, TOO_SHORT),
        (ScaleProfile(1, 10.0), 15, 1.5, ""),
        (ScaleProfile(1, 100.0, samples=4, time_variance=3.0), 150, 1.5, ""),
        (ScaleProfile(1, 100.0), 85, 0.85, ""),
        (ScaleProfile(1, 100.0), 75, None, TOO_FAST),
        (ScaleProfile(1, 100.0, samples=4, time_variance=100.0), 150, None, TOO_VARIED),
    ],
)
def test_noise_is_no_slowdown(tmp_path: Path, alone: ScaleProfile, took_s: int, told: float | None, why: str) -> None:
    tale = Tale(tmp_path / "journal.db", SHARED, build(PolicyConfig(name="cs")))
    tale.tell(*(ProfileLearned(name, 4, alone) for name in ("a", "b")))
    tale.tell(*(NodeDrained(node) for node in (1, 2, 3)))
    starts = tale.tell(*(JobSubmitted(Job(name, 1000 * SECOND, 4, program=name)) for name in ("a", "b")))
    began_us = tale.now_us
    tale.tell(*(JobStarted(one.job_id, one.attempt) for one in starts))
    tale.now_us = began_us + (took_s - 1) * SECOND  # telling takes a second, too
    tale.tell(JobFinished("a", 1), JobFinished("b", 1))
    record = tale.rows()["a"]
    assert (record.met, record.slowdown_why) == (True, why)
    assert record.actual_slowdown == (None if told is None else pytest.approx(told))
