"""Hold and yield with the paper's constants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.mates.schemes import (
    next_release_us,
    released,
    when_not_together,
)
from cohabit.core.mates.state import MatesState
from cohabit.model.errors import InputError
from cohabit.model.peer import NEVER
from cohabit.model.scheme import HOLD, YIELD, Scheme
from cohabit.model.units import FOREVER, SECOND

ROOM = {"job_nodes": 10, "held_nodes": 0, "all_nodes": 100, "yields": 0}


def test_hold_or_yield() -> None:
    assert when_not_together(Scheme(), **ROOM) == HOLD
    assert when_not_together(Scheme(scheme=YIELD), **ROOM) == YIELD


def test_the_whole_machine_may_be_held_but_not_more_than_allowed() -> None:
    whole = ROOM | {"job_nodes": 40, "held_nodes": 60}
    assert when_not_together(Scheme(), **whole) == HOLD
    assert when_not_together(Scheme(most_held=0.6), **whole) == YIELD


def test_who_has_yielded_often_enough_holds() -> None:
    often = Scheme(scheme=YIELD, most_yields=3)
    assert [when_not_together(often, **ROOM | {"yields": n}) for n in (0, 2, 3)] == [YIELD, YIELD, HOLD]


def test_only_holds_older_than_ten_minutes_are_released() -> None:
    since = {"young": 1_000 * SECOND, "old": 100 * SECOND, "older": 50 * SECOND, "just": 600 * SECOND}
    assert released(Scheme(), since, 1200 * SECOND) == ["older", "old"]


def test_a_yield_moves_a_job_up_if_asked_for() -> None:
    jobs = {"a": MateJob("g", yields=1), "b": MateJob("h")}
    scores = np.array([-8.0, 8.0, 3.0])
    plain = CoupledState(Scheme(), 0, MatesState("x"), jobs)
    assert plain.raised(["a", "b", "c"], scores).tolist() == scores.tolist()
    raising = CoupledState(Scheme(raise_per_yield=0.5), 0, MatesState("x"), jobs | {"b": MateJob("h", yields=2)})
    assert raising.raised(["a", "b", "c"], scores).tolist() == [-12.0, 0.0, 3.0]


def test_a_bounded_hold_needs_a_mate_that_expects_to_be_ready_soon() -> None:
    bounded = Scheme(bounded_hold_us=600 * SECOND)
    soon, late, unknown = 600 * SECOND, 601 * SECOND, NEVER
    assert [when_not_together(bounded, **ROOM, mates_in_us=wait) for wait in (soon, late, unknown)] == [
        HOLD,
        YIELD,
        YIELD,
    ]


@given(st.integers(0, 10**12), st.integers(0, 60))
def test_releases_come_every_twenty_minutes_and_never_on_two_domains_at_once(now: int, rank: int) -> None:
    due = next_release_us(Scheme(), rank, now)
    assert now < due <= max(now, rank * SECOND) + 1200 * SECOND
    assert due >= 1200 * SECOND
    assert (due - rank * SECOND) % (1200 * SECOND) == 0
    assert due != next_release_us(Scheme(), rank + 1, now)


def test_no_release_if_it_is_off() -> None:
    assert next_release_us(Scheme(release_us=0), 0, 5) == FOREVER


@pytest.mark.parametrize("wrong", [Scheme(scheme="maybe"), Scheme(most_held=1.5), Scheme(release_us=-1)])
def test_settings_that_cannot_be_meant_are_refused(wrong: Scheme) -> None:
    with pytest.raises(InputError):
        wrong.check()
