"""When a job could start, as its domain tells its mates, by hand; and in which order reservations are looked at."""

from __future__ import annotations

from math import inf

import pytest

from cohabit.core.core import SchedulerCore
from cohabit.core.mates.agreeing import earliest
from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.mates.state import MatesState
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.scheme import Scheme
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, sharing_scheduler, submitted


def busy(mate: bool = True) -> SchedulerCore:
    """Four nodes, three of them busy until 100 s; "head" asks for all, "mate" for two, for 50 s each."""
    core = scheduler(4)
    core.step(0, [submitted("runs", 3, 100)])
    core.step(1, [submitted("head", 4, 50)])
    if mate:
        core.step(2, [submitted("mate", 2, 50)])
    return core


def start_of(core: SchedulerCore, name: str, not_before_s: int = 0) -> tuple[int, tuple[int, ...]]:
    row, now_us = core.state.rows[name], 10 * SECOND
    found = earliest(core.state, core.policies, now_us, row, max(now_us, not_before_s * SECOND))
    assert found is not None
    return found.start_us, found.kinds


def test_a_job_could_start_after_the_head_of_the_queue() -> None:
    assert start_of(busy(), "mate") == (150 * SECOND, (2,))


def test_a_job_does_not_wait_for_itself() -> None:
    assert start_of(busy(mate=False), "head") == (100 * SECOND, (4,))


def test_a_start_is_not_before_the_mates_could() -> None:
    assert start_of(busy(), "mate", 300) == (300 * SECOND, (2,))
    assert start_of(busy(), "mate", 120) == (150 * SECOND, (2,))


def shared_start_of(core: SchedulerCore, name: str, not_before_s: int = 0) -> float:
    row, now_us = core.state.rows[name], 10 * SECOND
    found = earliest(core.state, core.policies, now_us, row, max(now_us, not_before_s * SECOND))
    return inf if found is None else found.start_us / SECOND


@pytest.mark.parametrize("placement", ["share", "spread"])
def test_on_shared_nodes_a_start_is_found_beside_what_runs_and_is_promised(placement: str) -> None:
    core = sharing_scheduler(Cluster((NodeGroup(2, 4),), sharing="shared"), placement, profiles=(), backfill="easy")
    core.step(0, [submitted("runs", processes=6, limit_s=100)])
    core.step(SECOND, [submitted("head", processes=8, limit_s=50), submitted("mate", processes=4, limit_s=50)])
    assert shared_start_of(core, "mate") == 150.0, "the head is promised all cores from 100 s on"
    assert shared_start_of(core, "mate", 300) == 300.0
    before = core.state.promises.copy()
    shared_start_of(core, "head")
    assert core.state.promises == before, "to ask changes nothing"


def test_reservations_are_looked_at_in_the_same_order_everywhere() -> None:
    jobs = {name: MateJob(group, agreed_us=5) for name, group in (("1", "z"), ("2", "a"), ("3", "m"))}
    about = CoupledState(Scheme(), 0, MatesState("here"), jobs | {"4": MateJob("b")}, dict.fromkeys("1234", True))
    assert [name for name, _ in about.agreed] == ["2", "3", "1"]
