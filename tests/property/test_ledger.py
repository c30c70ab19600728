"""The ledger counts classes of nodes; a naive model keeps every node by itself. Both must agree on everything.

The naive search is Spread-n-Share's in its plainest form (S28 to S30): a list of nodes, a filter, groups, a sort.
"""

from __future__ import annotations

import copy
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger, Takes, nodes_in, ranges_of
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.resources import BANDWIDTH, CORES, WAYS
from tests.breadth import examples
from tests.support.tenancy import Salt

quiet = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
DIMENSIONS = (CORES, BANDWIDTH, WAYS)
ALIKE = Cluster((NodeGroup(9, cores=8, ways=10, bandwidth_gbs=((8, 0.02),)),))
MIXED = Cluster((NodeGroup(4, cores=4, ways=6), NodeGroup(5, cores=8, ways=10, bandwidth_gbs=((8, 0.02),))))
machines = st.sampled_from([ALIKE, MIXED])


@dataclass
class Node:
    number: int
    kind: int
    capacity: tuple[int, ...]
    condition: int = 0
    rows: list[int] = field(default_factory=list)


class NaiveNodes:
    """One record per node, nothing remembered that could be wrong."""

    def __init__(self, cluster: Cluster) -> None:
        kinds = Kinds(cluster)
        self.nodes = [
            Node(number, int(kind), tuple(one.capacity(kinds.groups[kind]) for one in DIMENSIONS))
            for number, kind in enumerate(kinds.of_node)
        ]
        self.takes: dict[int, Takes] = {}

    def free(self, node: Node) -> list[int]:
        booked = [self.takes[row][node.kind] for row in node.rows]
        return [whole - sum(one[d] for one in booked) for d, whole in enumerate(node.capacity)]

    def score(self, node: Node) -> float:
        """C_o + B_o + beta W_o."""
        left = zip(DIMENSIONS, node.capacity, self.free(node), strict=True)
        return round(sum(one.weight * (whole - free) / whole for one, whole, free in left), 9)

    def suitable(self, takes: Takes) -> list[Node]:
        return [
            node
            for node in self.nodes
            if node.condition == 0 and takes[node.kind]
            and all(free >= need for free, need in zip(self.free(node), takes[node.kind], strict=True))
        ]  # fmt: skip

    def find(self, takes: Takes, nodes: int) -> list[int] | None:
        fits = sorted(self.suitable(takes), key=lambda node: (self.score(node), node.number))
        if len(fits) < nodes:
            return None
        groups: dict[int, list[Node]] = {}
        for node in fits:
            groups.setdefault(self.free(node)[0], []).append(node)
        enough = {cores: group[:nodes] for cores, group in groups.items() if len(group) >= nodes}
        chosen = fits[:nodes]
        if enough:
            best = min(enough, key=lambda cores: (round(sum(map(self.score, enough[cores])), 9), -cores))
            chosen = enough[best]
        return sorted(node.number for node in chosen)


@dataclass
class Pair:
    """The ledger and the model, told the same."""

    ledger: Ledger
    model: NaiveNodes
    cluster: Cluster

    @staticmethod
    def of(cluster: Cluster) -> Pair:
        return Pair(Ledger(Kinds(cluster), DIMENSIONS), NaiveNodes(cluster), cluster)

    def book(self, row: int, takes: Takes, nodes: int) -> None:
        expected, parts = self.model.find(takes, nodes), self.ledger.find(takes, nodes)
        assert (parts is None) == (expected is None)
        if parts is None or expected is None:
            return
        assert self.ledger.holds(parts, takes)
        assert self.ledger.lowest(parts).tolist() == expected
        assert self.ledger.book(row, parts, takes).tolist() == expected
        self.model.takes[row] = takes
        for number in expected:
            self.model.nodes[number].rows.append(row)

    def release(self, row: int) -> None:
        self.ledger.release(row)
        for node in self.model.nodes:
            node.rows = [one for one in node.rows if one != row]
        del self.model.takes[row]

    def set_condition(self, number: int, condition: int) -> None:
        self.ledger.set_condition(number, condition)
        self.model.nodes[number].condition = condition

    def compare(self) -> None:
        ledger, seen = self.ledger, []
        for index in ledger.classes():
            for number in ledger.nodes_in_class(index).tolist():
                node = self.model.nodes[number]
                assert ledger.residents[index] == tuple(node.rows) == ledger.rows_on(number)
                assert ledger.free[:, index].tolist() == self.model.free(node)
                assert ledger.occupied[index] == self.model.score(node)
                assert (ledger.condition[index], bool(ledger.up[index])) == (node.condition, node.condition == 0)
                seen.append(number)
        assert sorted(seen) == list(range(len(self.model.nodes)))
        for row in self.model.takes:
            assert ledger.nodes_of(row).tolist() == [node.number for node in self.model.nodes if row in node.rows]
        assert ledger.takes == self.model.takes
        assert len(ledger.by_key) == len(ledger.classes())


def takes_of(salt: Salt, kinds: int) -> Takes:
    """A footprint of few different sizes, so that nodes tie; now and then a kind is not wanted."""
    need = (1 + salt.below(4), 1000 * (0, 1, 5)[salt.below(3)] // 1000, (2, 3, 1)[salt.below(3)])
    takes: Takes = tuple(need if salt.below(5) < 4 else () for _ in range(kinds))
    return takes if any(takes) else (need,) * kinds


def act(pair: Pair, row: int, deed: tuple[int, int]) -> None:
    kind, salt = deed[0], Salt(deed[1])
    if kind < 6 or not pair.model.takes:
        pair.book(row, takes_of(salt, len(pair.cluster.groups)), 1 + salt.below(6))
    elif kind < 9:
        pair.release(sorted(pair.model.takes)[salt.below(len(pair.model.takes))])
    else:
        pair.set_condition(salt.below(pair.cluster.nodes), salt.below(3))


lives = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**30)), min_size=1, max_size=30)


@settings(quiet, max_examples=examples(150))
@given(machines, lives)
def test_classes_of_nodes_choose_the_nodes_a_naive_search_would(cluster: Cluster, deeds: list[tuple[int, int]]) -> None:
    pair = Pair.of(cluster)
    for row, deed in enumerate(deeds):
        act(pair, row, deed)
        pair.compare()


@settings(quiet, max_examples=examples(60))
@given(machines, lives, st.integers(0, 2**30))
def test_room_is_the_number_of_nodes_that_fit(cluster: Cluster, deeds: list[tuple[int, int]], asked: int) -> None:
    pair = Pair.of(cluster)
    for row, deed in enumerate(deeds):
        act(pair, row, deed)
    takes = takes_of(Salt(asked), len(cluster.groups))
    room = pair.ledger.room(takes)
    assert room == len(pair.model.suitable(takes))
    for nodes in (1, room, room + 1):
        if nodes:
            assert (pair.ledger.find(takes, nodes) is not None) == (nodes <= room)


def contents(ledger: Ledger) -> dict[str, Any]:
    return {name: copy.deepcopy(value) for name, value in vars(ledger).items() if name not in ("dimensions",)}


def the_same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return all(str(left[name]) == str(right[name]) for name in left) and left.keys() == right.keys()


@settings(quiet, max_examples=examples(60))
@given(machines, lives, lives)
def test_a_draft_lives_its_own_life(
    cluster: Cluster, deeds: list[tuple[int, int]], planned: list[tuple[int, int]]
) -> None:
    """Whatever is planned on a draft, the ledger stays as it was; and the draft is as good a ledger as the first."""
    pair = Pair.of(cluster)
    for row, deed in enumerate(deeds):
        act(pair, row, deed)
    before = contents(pair.ledger)
    draft = Pair(pair.ledger.draft(), copy.deepcopy(pair.model), cluster)
    draft.compare()
    for row, deed in enumerate(planned, len(deeds)):
        act(draft, row, deed)
        draft.compare()
    assert the_same(before, contents(pair.ledger))
    pair.compare()


@settings(quiet, max_examples=examples(60))
@given(machines, lives)
def test_a_saved_ledger_is_the_same_ledger(cluster: Cluster, deeds: list[tuple[int, int]]) -> None:
    pair = Pair.of(cluster)
    for row, deed in enumerate(deeds):
        act(pair, row, deed)
    copied = Pair(Ledger(Kinds(cluster), DIMENSIONS), pair.model, cluster)
    copied.ledger.load(pair.ledger.save())
    assert copied.ledger.save() == pair.ledger.save()
    copied.compare()
    act(copied, len(deeds), (0, 12345))
    copied.compare()


@settings(quiet, max_examples=examples(60))
@given(machines, lives)
def test_only_nodes_whose_residents_changed_are_touched(cluster: Cluster, deeds: list[tuple[int, int]]) -> None:
    pair = Pair.of(cluster)
    for row, deed in enumerate(deeds):
        pair.ledger.touched = {}
        before = [(list(node.rows), node.condition) for node in pair.model.nodes]
        act(pair, row, deed)
        changed = [n.number for n, was in zip(pair.model.nodes, before, strict=True) if (n.rows, n.condition) != was]
        touched = {int(node) for came in pair.ledger.touched.values() for nodes in came for node in nodes}
        assert touched >= set(changed)
        assert len(touched) <= max(len(changed), 1), "a node whose condition was told again may be among them"


def test_a_locked_ledger_cannot_be_changed() -> None:
    pair = Pair.of(MIXED)
    takes: Takes = ((2, 0, 2), (2, 0, 2))
    pair.book(0, takes, 3)
    locked, before = pair.ledger.locked(), contents(pair.ledger)
    parts = locked.find(takes, 2)
    assert parts is not None
    changes = [
        lambda: locked.book(1, parts, takes), lambda: locked.release(0), lambda: locked.set_condition(3, 1),
        lambda: locked.free.fill(0), lambda: locked.nodes_in_class(locked.classes()[0]).fill(0),
        lambda: locked.touched.clear(), lambda: locked.load(pair.ledger.save()),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises((TypeError, ValueError, AttributeError)):
            change()
    assert the_same(before, contents(pair.ledger))
    assert locked.draft().book(1, parts, takes).tolist() == pair.ledger.lowest(parts).tolist()


@pytest.mark.parametrize("parts", [(), ((0, 0),), ((0, -1),), ((0, 99),), ((99, 1),), ((-1, 1),), ((0, 1), (0, 1))])
def test_parts_that_make_no_sense_do_not_hold(parts: tuple[tuple[int, int], ...]) -> None:
    assert not Pair.of(ALIKE).ledger.holds(parts, ((1, 0, 1),))


@given(st.sets(st.integers(0, 40)))
def test_ranges_and_back(numbers: set[int]) -> None:
    nodes = np.array(sorted(numbers), np.int32)
    assert nodes_in(ranges_of(nodes)).tolist() == nodes.tolist()
    assert all(later > first + count for (first, count), (later, _) in itertools.pairwise(ranges_of(nodes)))
