"""A restored core goes on as the saved one would have."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from cohabit.core import checkpoint, invariants
from cohabit.core.core import SchedulerCore
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, JobReleased, StartRefused, Woken
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, sharing_scheduler, submitted


def restored(core: SchedulerCore) -> SchedulerCore:
    found = checkpoint.load(checkpoint.save(core), core.state.cluster, core.policies)
    invariants.check(found.state)
    return found


def starts(core: SchedulerCore, now_s: int, *events: Event) -> list[tuple[str, int]]:
    told = core.step(now_s * SECOND, list(events))
    return [(one.job_id, one.attempt) for one in told if isinstance(one, StartJob)]


def full(**options: Any) -> SchedulerCore:
    """Two nodes, both busy until 100 s."""
    core = scheduler(2, **options)
    core.step(0, [submitted("all", nodes=2)])
    return core


def test_the_bytes_of_a_restored_core_are_those_of_the_saved_one() -> None:
    core = full()
    core.step(SECOND, [submitted("a"), submitted("b", held=True), submitted("c", after=("all",))])
    saved = checkpoint.save(core)
    assert checkpoint.save(restored(core)) == saved


def test_held_jobs_stay_held() -> None:
    core = full()
    core.step(SECOND, [submitted("a", held=True)])
    again = restored(core)
    assert starts(again, 2, JobFinished("all", 1)) == []
    assert starts(again, 3, JobReleased("a")) == [("a", 1)]


def test_dependencies_are_kept() -> None:
    core = full()
    core.step(SECOND, [submitted("a", after=("all",)), submitted("b", after=("a",))])
    again = restored(core)
    assert starts(again, 2, JobFinished("all", 1)) == [("a", 1)]


def test_jobs_that_entered_the_queue_since_the_last_pass_are_looked_at() -> None:
    core = full()
    core.step(SECOND, [submitted("a")])
    core.arrivals = [core.state.rows["a"]]
    assert restored(core).arrivals == [core.state.rows["a"]]


def test_attempts_and_refusals_are_kept() -> None:
    core = scheduler(2)
    core.step(0, [submitted("a")])
    core.step(SECOND, [StartRefused("a", 1, "no", 5 * SECOND)])
    again = restored(core)
    assert starts(again, 5, Woken()) == []
    assert starts(again, 6, Woken()) == [("a", 2)]


def test_a_bounded_array_goes_on_with_its_bound() -> None:
    core = scheduler(8)
    core.step(0, [submitted("a", array_count=3, array_at_most=1)])
    again = restored(core)
    assert starts(again, 1, JobFinished("a_0", 1)) == [("a_1", 1)]


@pytest.mark.parametrize("backfill", ["easy", "conservative", "3"])
def test_queue_and_promises_are_kept(backfill: str) -> None:
    core = scheduler(4, backfill=backfill)
    core.step(0, [submitted("a", 2, 50), submitted("head", 4, 50), submitted("long", 2, 99), submitted("b", 1, 20)])
    again = restored(core)
    for now_s, name in ((30, "b"), (50, "a"), (60, "head")):
        assert starts(again, now_s, JobFinished(name, 1)) == starts(core, now_s, JobFinished(name, 1))


def test_what_is_booked_on_shared_nodes_is_kept() -> None:
    core = sharing_scheduler()
    for name in "abcd":
        core.step(0, [submitted(name, program="cached", processes=8)])
    again = restored(core)
    assert [again.state.ranges_of(row) for row in again.state.rows.values()] == [
        core.state.ranges_of(row) for row in core.state.rows.values()
    ]
    assert again.state.placed == core.state.placed


@pytest.mark.parametrize("row", [[0, 0, 0, 7], [7, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 4], [-0.0, 0.0, 0.0, 0.0]])
def test_arrays_lose_nothing_but_trailing_zeros(row: list[float]) -> None:
    array = np.array([row, [5, 6, 0, 0]])
    again = checkpoint._unpacked(checkpoint._packed(array))
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()


def test_empty_arrays_come_back_with_their_shape() -> None:
    assert checkpoint._unpacked(checkpoint._packed(np.zeros((3, 0)))).shape == (3, 0)


@pytest.mark.parametrize("content", [b"no", msgspec.msgpack.encode({"version": 99}), msgspec.msgpack.encode([1])])
def test_what_is_no_checkpoint_of_this_version_is_refused(content: bytes) -> None:
    with pytest.raises(InputError, match="checkpoint"):
        checkpoint.load(content, full().state.cluster, full().policies)
