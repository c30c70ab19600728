"""When a job could start, as its domain tells its mates, by hand; and in which order reservations are looked at."""

from __future__ import annotations

from cohabit.core.core import SchedulerCore
from cohabit.core.mates.agreeing import earliest_start
from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.mates.state import MatesState
from cohabit.model.scheme import Scheme
from cohabit.model.units import FOREVER, SECOND
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
    return earliest_start(core.state, core.policies.order, now_us, row, not_before_s * SECOND)


def test_a_job_could_start_after_the_head_of_the_queue() -> None:
    assert start_of(busy(), "mate") == (150 * SECOND, (2,))


def test_a_job_does_not_wait_for_itself() -> None:
    assert start_of(busy(mate=False), "head") == (100 * SECOND, (4,))


def test_a_start_is_not_before_the_mates_could() -> None:
    assert start_of(busy(), "mate", 300) == (300 * SECOND, (2,))
    assert start_of(busy(), "mate", 120) == (150 * SECOND, (2,))


def test_shared_nodes_have_no_reservations() -> None:
    core = sharing_scheduler()
    core.step(0, [submitted("a", processes=2, held=True)])
    assert start_of(core, "a") == (FOREVER, ())


def test_reservations_are_looked_at_in_the_same_order_everywhere() -> None:
    jobs = {name: MateJob(group, agreed_us=5) for name, group in (("1", "z"), ("2", "a"), ("3", "m"))}
    about = CoupledState(Scheme(), 0, MatesState("here"), jobs | {"4": MateJob("b")}, dict.fromkeys("1234", True))
    assert [name for name, _ in about.agreed] == ["2", "3", "1"]
