"""Each of these is a way to lose count, and each is noticed by the check that runs after every step of a test."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cohabit.core import invariants
from cohabit.core.columns import FREE, NODES, QUEUED, STATE
from cohabit.core.state import DOWN, State
from tests.core.shared_story import story
from tests.support.builders import scheduler, submitted


def whole() -> State:
    """Nodes 0 and 1 are busy with "a"; "head" waits."""
    core = scheduler(4)
    core.step(0, [submitted("a", nodes=2)])
    core.step(1, [submitted("head", nodes=4), submitted("small", limit_s=1000)])
    return core.state


def shared() -> State:
    """Five jobs on four nodes: "a" and "e" share one."""
    tell = story(placement="share")
    for name in ("a", "b", "c", "d", "e"):
        tell.run(0, name, "neutral", 4)
    tell(1, submitted("waits", nodes=4))
    return tell.core.state


def row(state: State) -> int:
    return state.rows["a"]


def cleared(state: State, node: int) -> None:
    state.idle[0] &= ~np.uint64(1 << node)


def marked(state: State, node: int) -> None:
    state.idle[0] |= np.uint64(1 << node)


WHOLE: dict[str, Callable[[State], object]] = {
    "too many counted idle": lambda state: state.gauges.__setitem__(FREE, state.gauges[FREE] + 1),
    "too few counted idle": lambda state: state.gauges.__setitem__(FREE, state.gauges[FREE] - 1),
    "a busy node is idle": lambda state: (marked(state, 0), state.gauges.__setitem__(FREE, 3)),
    "an idle node is forgotten": lambda state: (cleared(state, 2), state.gauges.__setitem__(FREE, 1)),
    "fewer nodes than asked for": lambda state: state.jobs.__setitem__((NODES, row(state)), 3),
    "it runs and is queued": lambda state: state.jobs.__setitem__((STATE, row(state)), QUEUED),
    "a job on a lost node": lambda state: state.node_state.__setitem__(0, DOWN),
    "two jobs on one node": lambda state: state.rows.__setitem__("again", row(state)),
    "no such state": lambda state: state.jobs.__setitem__((STATE, row(state)), 9),
}


def overbooked(state: State) -> None:
    ledger = state.ledger
    assert ledger is not None
    for row, takes in ledger.takes.items():
        ledger.takes[row] = tuple((9 * cores, *others) for cores, *others in takes)


def miscounted(state: State) -> None:
    assert state.ledger is not None
    state.ledger.free[0, state.ledger.classes()[0]] += 1


def misplaced(state: State) -> None:
    assert state.ledger is not None
    state.ledger.class_at[0] = 15


def half_placed(state: State) -> None:
    state.placed[state.rows["waits"]] = state.placed[row(state)]


SHARED: dict[str, Callable[[State], object]] = {
    "overbooked": overbooked,
    "miscounted": miscounted,
    "noted in another class": misplaced,
    "half placed": half_placed,
    "it runs and is queued": lambda state: state.jobs.__setitem__((STATE, row(state)), QUEUED),
    "another condition": lambda state: state.node_state.__setitem__(0, DOWN),
}


@pytest.mark.parametrize("change", WHOLE)
def test_on_whole_nodes_nothing_is_lost_or_counted_twice(change: str) -> None:
    state = whole()
    invariants.check(state)
    WHOLE[change](state)
    with pytest.raises(AssertionError):
        invariants.check(state)


@pytest.mark.parametrize("change", SHARED)
def test_on_shared_nodes_nothing_is_lost_or_counted_twice(change: str) -> None:
    state = shared()
    invariants.check(state)
    SHARED[change](state)
    with pytest.raises(AssertionError):
        invariants.check(state)


def test_an_overbooked_dimension_is_named_as_such() -> None:
    """Even where the free amounts agree with it."""
    state = shared()
    overbooked(state)
    assert state.ledger is not None
    for index in state.ledger.classes():
        booked = sum(state.ledger.takes[own][0][0] for own in state.ledger.residents[index])
        state.ledger.free[0, index] = state.ledger.capacity[0, 0] - booked
    with pytest.raises(AssertionError, match="overbooked"):
        invariants.check(state)
