"""The short reasons of lists say what the explanation says, and stay cheap in a long queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.short_reasons import MOST_LOOKED_AT, ShortReasons
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import StartRefused, WindowSet
from cohabit.model.units import SECOND
from tests.core.shared_story import ONE_NODE, Story, must, story
from tests.support.builders import policies, scheduler, submitted
from tests.support.clusters import SHARED


def short(tell: Story, name: str, now_s: float = 0) -> str:
    """Its reason in a list."""
    core = tell.core
    return ShortReasons(core.state, core.policies, round(now_s * SECOND)).of(core.state.rows[name])


def held() -> Story:
    tell = story(placement="share")
    tell(0, submitted("j", held=True))
    return tell


def after() -> Story:
    tell = story(placement="share")
    must(tell.run(0, "first"))
    tell(0, submitted("j", after=("first",)))
    return tell


def array() -> Story:
    tell = story(placement="share", cluster=SHARED)
    tell(0, submitted("j", array_first=1, array_count=3, array_at_most=1))
    return tell


def refused() -> Story:
    tell = story(placement="share")
    must(tell.run(0, "j"))
    tell(0, StartRefused("j", 1, "no"))
    return tell


def no_room() -> Story:
    tell = story(placement="share", cluster=ONE_NODE)
    must(tell.run(0, "first", processes=6))
    tell(0, submitted("j", processes=4))
    return tell


def age_limit() -> Story:
    tell = story(placement="share", cluster=ONE_NODE, age_limit_s=50.0)
    must(tell.run(0, "first", processes=4))
    assert tell.run(1, "old", processes=8) is None
    assert tell.run(60, "j", processes=2) is None
    return tell


def nothing_may_overtake() -> Story:
    tell = story(placement="share", cluster=ONE_NODE, backfill="none")
    must(tell.run(0, "first", processes=4))
    tell(0, submitted("wide", processes=8), submitted("j", processes=2))
    return tell


def strangers() -> Story:
    chosen = replace(policies("fcfs", "easy", None, "share"), share_with="account")
    tell = Story(SchedulerCore(ONE_NODE, chosen))
    must(tell.run(0, "first", processes=2, user=1, account="physics"))
    tell(0, submitted("j", processes=2, user=1, account="chemistry"))
    return tell


def promised() -> Story:
    tell = story(placement="share", backfill="easy")
    for number in range(3):
        must(tell.run(0, f"long{number}", limit_s=100.0 * (number + 1), processes=8, exclusive=True))
    tell(0, submitted("j", processes=24, exclusive=True, limit_s=50.0))
    return tell


def behind_a_promise() -> Story:
    tell = promised()
    tell(0, submitted("late", processes=8, exclusive=True, limit_s=500.0))
    return tell


def whole_nodes() -> Story:
    tell = Story(scheduler(4))
    must(tell.run(0, "first", nodes=2, processes=3))
    tell(0, submitted("j", nodes=3))
    return tell


def whole_behind_the_head() -> Story:
    tell = whole_nodes()
    tell(0, submitted("late", nodes=2, limit_s=500.0))
    return tell


def whole_before_a_window() -> Story:
    tell = Story(scheduler(4))
    tell(0, WindowSet("w", 50 * SECOND, 80 * SECOND, ((0, 4),)))
    tell(0, submitted("j", nodes=3, limit_s=60.0))
    return tell


@pytest.mark.parametrize(
    ("tale", "name", "at_s", "said"),
    [
        (held, "j", 1, "held: it must be released first"),
        (after, "j", 1, "waits for the end of job first"),
        (array, "j_2", 1, "array limit 1; j_1 goes first"),
        (refused, "j", 1, "its start was refused; it is tried again in 59 s"),
        (no_room, "j", 1, "needs 4 cores on one node; none has that free"),
        (age_limit, "j", 60, "job old is ahead of it and it has reached the age limit and may not be overtaken"),
        (nothing_may_overtake, "j", 1, "job wide is ahead of it and nothing may overtake"),
        (
            strangers,
            "j",
            1,
            "needs 2 cores on one node; 1 has that free, but jobs of other accounts are there; "
            "promised a start within 1 min 39 s on 1 node",
        ),
        (promised, "j", 1, "needs 3 empty nodes; 1 is empty; promised a start within 3 min 19 s on 3 nodes"),
        (behind_a_promise, "late", 1, "needs 1 empty node; 1 is empty, but a start now would delay job j"),
        (whole_nodes, "j", 1, "needs 3 nodes, 1 idle; promised a start within 1 min 39 s on 3 nodes"),
        (whole_behind_the_head, "late", 1, "needs 2 nodes, 1 idle; 1 job ahead of it"),
        (
            whole_before_a_window,
            "j",
            1,
            "needs 3 nodes, 4 idle, but not for its whole requested time; "
            "promised a start within 1 min 19 s on 3 nodes; window w closes nodes 0-3 in 49 s for 30 s",
        ),
    ],
)
def test_the_short_reason_is_how_the_explanation_begins(
    tale: Callable[[], Story], name: str, at_s: float, said: str
) -> None:
    tell = tale()
    assert short(tell, name, at_s) == said
    first, *others = said.split("; ")
    assert tell.why(name, at_s).startswith(first)
    assert all(one in tell.why(name, at_s) for one in others)


def test_a_job_that_fits_but_would_delay_the_head() -> None:
    tell = Story(scheduler(4))
    assert tell.starts(0, submitted("first", nodes=3, limit_s=100.0))
    tell(0, submitted("head", nodes=4, limit_s=50.0), submitted("late", nodes=1, limit_s=500.0))
    assert short(tell, "late", 1) == "it fits now but would delay the first job in the queue"
    assert "would delay the first job in the queue" in tell.why("late", 1)


@pytest.mark.parametrize("placement", ["share", "exclusive", "joint"])
def test_twenty_thousand_reasons_take_a_moment(placement: str) -> None:
    """Every job has a description of its own: the worst case."""
    cluster = Cluster((NodeGroup(64, 8),), "shared")
    core = SchedulerCore(cluster, policies("fcfs", "easy", None, placement))
    jobs = [submitted(f"j{at}", processes=1 + at % 500, limit_s=100.0 + at, program=f"p{at}") for at in range(20_000)]
    core.step(0, jobs)
    rows = list(core.state.rows.values())
    begun_s = time.process_time()
    reasons = ShortReasons(core.state, core.policies, SECOND)
    found = [reasons.of(row) for row in rows]
    took_s = time.process_time() - begun_s
    assert took_s < 0.5, "of the second that `queue --limit 20000` may take"
    assert sum(map(bool, found)) > 19_000
    waiting = [row for row in rows if core.view(SECOND).is_queued(row)]
    behind = waiting[MOST_LOOKED_AT + 10]
    said = ShortReasons(core.state, core.policies, SECOND).of(behind)
    name = core.state.spec(behind).job_id
    assert why_waiting(core.state, core.policies, name, SECOND).startswith(said.partition(",")[0])
