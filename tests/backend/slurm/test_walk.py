"""The walk of benchmarks/slurm_walk.py under one policy: every odd job ends as it should, and all is obeyed."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks.slurm_walk import Seen, broken, late, walk
from benchmarks.slurm_walk_jobs import NODES, Submission, sixty

from tests.support.slurm_cluster import missing


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("slurm-walk")
def test_sixty_odd_jobs_under_attach() -> None:
    if reason := missing():
        pytest.skip(reason)
    jobs = sixty(1)
    seen = walk("cs", jobs)
    assert broken(jobs, seen) == []
    wanted = Counter(one.ends for one in jobs for _ in range(max(one.tasks, 1)))
    assert sum(wanted.values()) == 60
    assert Counter(seen.states.values()) == wanted
    assert any("promise" in text or "free" in text for text in seen.why["all2"])


def test_the_walk_notices_what_was_not_obeyed() -> None:
    jobs = [
        Submission("first", 0, 1, ()), Submission("next", 0, 1, (), ("afterok", "first")),
        Submission("never", 0, 1, (), ends="PENDING"),
    ]  # fmt: skip
    seen = Seen({"later": 0.0, "all1": 0.0}, {"first": 1, "next": 2, "all1": 60, "single2": 1, "later": 9})
    seen.ended = {"first": 3.0, "next": 4.0, "bounded_1": 9.0, "bounded_2": 9.0, "bounded_3": 9.0}
    seen.began |= {"bounded_1": 1.0, "bounded_2": 2.0, "bounded_3": 3.0}
    seen.nodes, seen.window = {"all1": ("n6",)}, (50.0, 70.0)
    seen.states, seen.twice, seen.stuck = {"never": "PENDING held"}, ["first"], ["next"]
    found = "\n".join(broken(jobs, seen))
    for words in (
        "first ran twice", "next did not end", "next began before afterok:first", "never was left PENDING held",
        "two jobs of one name", "before its begin time", "more tasks of an array", "all1 ran on reserved",
        "all1 ran on ('n6',)",
    ):  # fmt: skip
        assert words in found
    assert NODES == 8


def test_a_late_job_is_one_beyond_twice_the_wait_and_ten_seconds() -> None:
    plain, seen = (Seen(submitted={"a": 0.0, "b": 0.0}, began={"a": 5.0, "b": at}) for at in (5.0, 20.5))
    assert late(plain, seen) == {"b": (20.5, 5.0)}
