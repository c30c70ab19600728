"""Why of a job that is over: scale, share, neighbours and profile of its run, also after the core has forgotten it."""

from __future__ import annotations

from pathlib import Path

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.serving import Parts
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.ended import how_it_ran
from cohabit.live.controller.records import BESIDE_MOST
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobFinished, JobStarted, JobSubmitted, NodeDrained, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, job, play, shell
from tests.live.controller.test_records import Tale
from tests.live.controller.test_slowdowns import known, run
from tests.support.clusters import SHARED
from tests.support.programs import STREAM

PLAIN = Cluster((NodeGroup(1, 8),))  # neither ways, bandwidth nor memory


def tale(tmp_path: Path, policy: str, cluster: Cluster = SHARED) -> Tale:
    return Tale(tmp_path / "journal.db", cluster, build(PolicyConfig(name=policy)))


def finish(told: Tale, *names: str) -> None:
    told.tell(*(JobFinished(name, 1) for name in names))


def test_share_and_profile_of_a_run_that_booked_ways(tmp_path: Path) -> None:
    told = tale(tmp_path, "sns")
    known(told)
    said = how_it_ran(run(told, "a", "compact", 120), told.core)
    assert said.startswith("ran at scale 1 on node 0 with 8 cores, 8 cache ways and ")
    assert "GB/s of memory bandwidth; no other job was there; its profile: compact with 8 processes" in said
    spread = how_it_ran(run(told, "b", "stream", 90), told.core)
    assert spread.startswith("ran at scale 4 on nodes 0 to 3 with 2 cores, "), spread
    assert " on each; " in spread


def test_a_trial_and_whole_nodes(tmp_path: Path) -> None:
    told = tale(tmp_path, "sns")
    assert how_it_ran(run(told, "a", "stranger", 50), told.core) == (
        "ran at scale 1 on node 0, which it had to itself; to measure its time at this scale; "
        "there is no profile of stranger"
    )
    whole = tale(tmp_path / "whole", "ce-easy")
    assert how_it_ran(run(whole, "a", "", 5), whole.core) == "ran on node 0, which it had to itself"


def test_neighbours_by_name_only_of_the_same_user(tmp_path: Path) -> None:
    told = tale(tmp_path, "cs", PLAIN)
    told.tell(*(ProfileLearned("stream", 2, one) for one in STREAM.scales))
    jobs = [Job(name, 100 * SECOND, 2, user=user, program="stream") for name, user in (("a", 1), ("b", 1), ("c", 2))]
    starts = told.tell(*(JobSubmitted(one) for one in jobs))
    assert len(starts) == 3
    told.tell(*(JobStarted(one.job_id, one.attempt) for one in starts))
    finish(told, "a")
    told.tell(JobSubmitted(Job("d", 100 * SECOND, 2, user=2)))
    finish(told, "b", "c", "d")
    rows = told.rows()
    assert "; beside job b and a job of another user; " in how_it_ran(rows["a"], told.core)
    assert "; beside job a and 2 jobs of other users; " in how_it_ran(rows["b"], told.core)
    assert "; beside job d and 2 jobs of other users; " in how_it_ran(rows["c"], told.core)
    assert "; beside job c and a job of another user; it has no program name" in how_it_ran(rows["d"], told.core)
    for name in "abcd":  # such nodes state neither cache nor bandwidth
        said = how_it_ran(rows[name], told.core)
        assert said.startswith("ran at scale 1 on node 0 with 2 cores; ")
        assert "10995" not in said


def test_very_many_neighbours_are_not_all_kept(tmp_path: Path) -> None:
    told = tale(tmp_path, "cs", PLAIN)
    told.tell(JobSubmitted(Job("long", 10_000 * SECOND, 1, user=1)))
    for number in range(BESIDE_MOST + 4):
        told.tell(JobSubmitted(Job(f"j{number}", 100 * SECOND, 1, user=1)))
        finish(told, f"j{number}")
    finish(told, "long")
    record = told.rows()["long"]
    assert len(record.beside) == BESIDE_MOST
    said = how_it_ran(record, told.core)
    assert f"beside {BESIDE_MOST} other jobs or more, such as job j0, job j1 and job j2" in said


def test_a_job_that_never_started_ran_nowhere(tmp_path: Path) -> None:
    told = tale(tmp_path, "cs", PLAIN)
    told.tell(NodeDrained(0))
    told.tell(JobSubmitted(Job("a", 100 * SECOND, 2)))
    told.tell(JobFinished("a", 1, "cancelled"))
    assert how_it_ran(told.rows()["a"], told.core) == ""


def test_the_controller_says_it_of_a_real_job_and_after_a_restart(tmp_path: Path) -> None:
    said = "ran on node 0, which it had to itself"

    async def first(controller: Controller, parts: Parts) -> None:
        await controller.submit(job("a"), shell("exit 0"))
        assert await ended(controller, "a") == ["done"]
        assert (await controller.why("a")).why == said

    async def later(controller: Controller, parts: Parts) -> None:
        assert (await controller.why("a")).why == said

    play(tmp_path, first)
    play(tmp_path, later)
