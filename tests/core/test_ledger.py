"""Shared nodes in classes, by hand: which nodes are found, what is left on them, and that all comes back."""

from __future__ import annotations

import numpy as np

from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger, nodes_in, ranges_of
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.resources import CORES, WAYS

DOWN = 2


def ledger() -> Ledger:
    """Four nodes of 8 cores and 10 ways."""
    return Ledger(Kinds(Cluster((NodeGroup(4, cores=8, ways=10),))), (CORES, WAYS))


def run(one: Ledger, row: int, nodes: int, cores: int, ways: int = 0) -> list[int]:
    """Book nodes for a job as a search finds them."""
    takes = ((cores, ways),)
    parts = one.find(takes, nodes)
    assert parts is not None
    booked: list[int] = one.book(row, parts, takes).tolist()
    return booked


def found(one: Ledger, nodes: int, cores: int, ways: int = 0) -> list[int] | None:
    parts = one.find(((cores, ways),), nodes)
    return None if parts is None else one.lowest(parts).tolist()


def test_the_idlest_nodes_are_found_and_of_equally_idle_ones_the_lowest() -> None:
    one = ledger()
    assert run(one, 0, 2, 2) == [0, 1]
    assert run(one, 1, 1, 1) == [2]
    assert found(one, 1, 1) == [3]
    assert run(one, 2, 1, 4) == [3]
    assert found(one, 1, 1) == [2], "one core of it is busy"


def test_a_node_must_have_room_in_every_dimension() -> None:
    one = ledger()
    run(one, 0, 4, 1, 8)
    assert one.room(((7, 2),)) == 4
    assert one.room(((7, 3),)) == 0
    assert one.room(((8, 2),)) == 0
    assert found(one, 1, 1, 3) is None


def test_nodes_of_equally_many_idle_cores_are_preferred() -> None:
    """Nodes 0 and 1 have six idle cores, 2 has four, 3 all eight: two nodes come from one group."""
    one = ledger()
    run(one, 0, 2, 2)
    run(one, 1, 1, 4)
    assert found(one, 2, 1) == [0, 1], "not the idlest pair 3 and 0"
    assert found(one, 3, 1) == [0, 1, 3], "no group has three: the idlest"


def test_of_equally_idle_groups_the_one_with_more_idle_cores_is_taken() -> None:
    """Six of eight cores are as much as two cores and two of eight ways, which count twice."""
    one = Ledger(Kinds(Cluster((NodeGroup(2, cores=8, ways=8),))), (CORES, WAYS))
    one.book(0, ((one.class_of(0), 1),), ((6, 0),))
    one.book(1, ((one.class_of(1), 1),), ((2, 2),))
    assert one.occupied[one.class_of(0)] == one.occupied[one.class_of(1)] == 0.75
    assert found(one, 1, 1) == [1]


def test_nodes_with_the_same_residents_are_one_class() -> None:
    one = ledger()
    run(one, 0, 3, 2)
    assert len(one.classes()) == 2
    assert [len(one.nodes_in_class(index)) for index in sorted(one.classes(), key=one.first.__getitem__)] == [3, 1]
    assert one.rows_on(1) == (0,)
    assert one.rows_on(3) == ()


def test_a_release_gives_everything_back() -> None:
    one = ledger()
    run(one, 0, 3, 2)
    run(one, 1, 2, 3)
    one.release(0)
    assert one.nodes_of(0).tolist() == []
    one.release(1)
    assert len(one.classes()) == 1
    assert one.room(((8, 10),)) == 4


def test_a_node_that_is_not_up_takes_no_job_and_keeps_those_it_has() -> None:
    one = ledger()
    run(one, 0, 2, 2)
    one.set_condition(1, DOWN)
    assert one.room(((1, 0),)) == 3
    assert one.nodes_of(0).tolist() == [0, 1]
    one.set_condition(1, 0)
    assert one.room(((1, 0),)) == 4
    assert len(one.classes()) == 2, "it is like node 0 again"


def test_a_job_of_one_node_moves_if_there_is_room() -> None:
    one = ledger()
    run(one, 0, 1, 5)
    run(one, 1, 1, 4)
    assert not one.move(0, 1), "four cores are left there"
    assert one.move(0, 3)
    assert one.nodes_of(0).tolist() == [3]
    run(one, 2, 2, 1)
    assert not one.move(2, 1), "it has two nodes"


def test_parts_hold_as_long_as_they_have_room() -> None:
    one = ledger()
    index = one.class_of(0)
    assert one.holds(((index, 4),), ((8, 0),))
    assert not one.holds(((index, 5),), ((8, 0),))
    assert not one.holds(((index, 2), (index, 2)), ((8, 0),))
    assert not one.holds((), ((8, 0),))
    assert not one.holds(((index, 4),), ((9, 0),))


def test_rooms_for_many_at_once() -> None:
    one = ledger()
    run(one, 0, 2, 2)
    run(one, 1, 1, 8)
    wanted = [((1, 0),), ((7, 0),), ((6, 0),), ((8, 11),), ((),)]
    assert one.rooms(wanted).tolist() == [3, 1, 3, 0, 0]


def test_a_draft_changes_nothing() -> None:
    one = ledger()
    draft = one.draft()
    run(draft, 0, 4, 8)
    assert (one.room(((8, 0),)), draft.room(((8, 0),))) == (4, 0)


def test_ranges_of_nodes_and_back() -> None:
    assert ranges_of(np.array([0, 1, 2, 5, 7, 8], np.int32)) == ((0, 3), (5, 1), (7, 2))
    assert nodes_in(((0, 3), (5, 1))).tolist() == [0, 1, 2, 5]
    assert ranges_of(np.empty(0, np.int32)) == ()
