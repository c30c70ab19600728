"""Jobs that arrive and leave: the best node, bounded moves, gains that are true, and what may not move stays."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.optimise.incremental import Nodes
from cohabit.optimise.node import divided
from cohabit.optimise.tables import Problem, prepare
from tests.optimise.laws_by_hand import Machine, mix_of, random_apps


@pytest.fixture(scope="module")
def problem() -> Problem:
    return prepare(mix_of(random_apps(np.random.default_rng(2), 12, 16), machine=Machine(15.0)))


def filled(problem: Problem, nodes: int, room: int, jobs: int, seed: int) -> tuple[Nodes, dict[int, int]]:
    rng = np.random.default_rng(seed)
    known = Nodes(problem.tables, nodes, room)
    kinds = {}
    for job in range(jobs):
        kinds[job] = int(rng.integers(len(problem.tables.cpi0)))
        known.arrive(job, kinds[job])
    return known, kinds


def value_by_hand(problem: Problem, known: Nodes, kinds: dict[int, int]) -> float:
    total = 0.0
    for node in range(len(known.jobs)):
        jobs = [kinds[job] for job in known.on(node)]  # every program of the mix is a kind of its own
        total += divided(problem, jobs).weighted_speedup if jobs else 0.0
    return total


def test_a_newcomer_goes_where_it_gains_most(problem: Problem) -> None:
    for seed in range(5):
        known, kinds = filled(problem, 6, 4, 20, seed)
        kind = seed % 12
        best = max(
            divided(problem, [kinds[job] for job in known.on(node)] + [kind]).weighted_speedup - known.state.value[node]
            for node in range(6)
            if len(known.on(node)) < 4
        )
        before = known.value
        decision = known.arrive(99, kind)
        kinds[99] = kind
        assert decision.moves == ()
        assert decision.gain == pytest.approx(best, abs=1e-9)
        assert known.value == pytest.approx(before + decision.gain, abs=1e-9)
        assert known.value == pytest.approx(value_by_hand(problem, known, kinds), abs=1e-9)
        assert known.node_of(99) == decision.node


def test_an_empty_node_is_best(problem: Problem) -> None:
    known, _ = filled(problem, 3, 4, 2, 0)
    assert known.arrive(7, 3).gain == pytest.approx(1.0)
    assert known.arrive(8, 3).gain < 1.0


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_a_long_day(problem: Problem, moves: int) -> None:
    rng = np.random.default_rng(moves)
    known, kinds = filled(problem, 5, 4, 17, 1)
    nodes = {job: known.node_of(job) for job in kinds}
    moved = 0
    for job in range(100, 160):
        gone = int(rng.choice(list(kinds)))
        before = known.value
        left = known.leave(gone, moves)
        del kinds[gone], nodes[gone]
        assert known.value == pytest.approx(before + left.gain, abs=1e-9)
        kinds[job] = int(rng.integers(12))
        before = known.value
        came = known.arrive(job, kinds[job], moves)
        nodes[job] = came.node
        assert known.value == pytest.approx(before + came.gain, abs=1e-9)
        for decision in (left, came):
            assert len(decision.moves) <= moves
            moved += len(decision.moves)
            for move in decision.moves:
                assert nodes[move.job] == move.origin
                nodes[move.job] = move.target
        assert {one: known.node_of(one) for one in kinds} == nodes
        assert known.value == pytest.approx(value_by_hand(problem, known, kinds), abs=1e-9)
    assert (moved > 0) == (moves > 0)


def test_what_may_not_move_stays(problem: Problem) -> None:
    known = Nodes(problem.tables, 4, 4)
    for job in range(12):
        known.put(job, job, job // 4, movable=job % 2 == 0)
    for job in range(50, 54):
        decision = known.arrive(job, job % 12, moves=2, movable=False)
        assert all(move.job % 2 == 0 and move.job < 50 for move in decision.moves)
    for job in range(1, 12, 2):
        assert known.node_of(job) == job // 4


def test_moves_are_worth_it(problem: Problem) -> None:
    totals = []
    for moves in (0, 2):
        rng = np.random.default_rng(5)
        known, kinds = filled(problem, 8, 4, 28, 2)
        for job in range(100, 200):
            gone = int(rng.choice(list(kinds)))
            known.leave(gone, moves)
            del kinds[gone]
            kinds[job] = int(rng.integers(12))
            known.arrive(job, kinds[job], moves)
        totals.append(known.value)
    assert totals[1] > totals[0]


def test_closed_and_full_nodes(problem: Problem) -> None:
    known, _ = filled(problem, 2, 2, 2, 0)
    known.open[:] = [False, True]
    assert known.arrive(10, 1).node == 1
    assert known.arrive(11, 1).node == -1
    assert known.on(1) == [known.on(1)[0], 10]
    known.open[:] = True
    assert known.arrive(11, 1).node == 0
    before = known.value
    refused = known.arrive(12, 1, moves=3)
    assert (refused.node, refused.moves, known.value) == (-1, (), before)
