"""Matching: equal to brute force where that is possible, to an independent library beyond, and the rules around it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest

from cohabit.optimise import matching
from cohabit.optimise.matching import Floats, Group

KINDS = ("uniform", "low rank", "ties", "few programs")


def instance(kind: str, count: int, rng: np.random.Generator) -> Floats:
    """Matrices of different character; ties and repeated rows are where a matching goes wrong."""
    if kind == "uniform":
        return rng.uniform(0, 300, (count, count))
    if kind == "ties":
        return rng.integers(0, 4, (count, count)).astype(float)
    product = rng.gamma(1, 7, (count, 1)) * rng.gamma(1, 7, (1, count))
    if kind == "low rank":
        return product
    program = rng.integers(0, min(count, 2 + count // 4), count)
    return product[np.ix_(program, program)]


def all_pairings(jobs: tuple[int, ...]) -> Iterator[list[Group]]:
    """Every way to pair an even number of jobs."""
    if not jobs:
        yield []
        return
    for place in range(1, len(jobs)):
        rest = jobs[1:place] + jobs[place + 1 :]
        for pairing in all_pairings(rest):
            yield [(jobs[0], jobs[place]), *pairing]


def cheapest(cost: Floats) -> float:
    """By trying everything; an odd count gets a dummy that costs nothing."""
    count = len(cost) + len(cost) % 2
    padded = np.zeros((count, count))
    padded[: len(cost), : len(cost)] = cost
    return min(sum(padded[pair] for pair in pairing) for pairing in all_pairings(tuple(range(count))))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", range(1, 11))
def test_optimal_equals_brute_force(kind: str, count: int) -> None:
    rng = np.random.default_rng([count, len(kind)])
    for _ in range(6 if count > 8 else 20):
        degradation = instance(kind, count, rng)
        found = matching.optimal(degradation, np.inf)
        assert found.total == pytest.approx(cheapest(matching.pair_weights(degradation)), abs=1e-9)
        assert sorted([*found.alone, *(job for pair in found.groups for job in pair)]) == list(range(count))
        assert len(found.alone) == count % 2


@pytest.mark.parametrize("kind", KINDS)
def test_optimal_equals_an_independent_library(kind: str) -> None:
    rustworkx = pytest.importorskip("rustworkx")
    rng = np.random.default_rng(len(kind))
    for count in (20, 37, 64, 101):
        weights = np.rint(matching.pair_weights(instance(kind, count, rng)) * 100)
        graph = rustworkx.PyGraph()
        graph.add_nodes_from(range(count))
        top = int(weights.max()) + 1
        graph.add_edges_from([(i, j, top - int(weights[i, j])) for i in range(count) for j in range(i)])
        pairs = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
        if count % 2 == 0:
            expected = sum(weights[pair] for pair in pairs)
        else:  # the library may leave any one out, at no cost of its own: give it a dummy instead
            dummy = graph.add_node(count)
            graph.add_edges_from([(i, dummy, top) for i in range(count)])
            pairs = rustworkx.max_weight_matching(graph, max_cardinality=True, weight_fn=int)
            expected = sum(weights[pair] for pair in pairs if count not in pair)
        assert matching.optimal(weights, np.inf).total == pytest.approx(expected, abs=1e-6)


def test_equal_input_equal_pairs_and_the_weight_is_the_larger_one() -> None:
    degradation = instance("ties", 40, np.random.default_rng(1))
    assert matching.optimal(degradation) == matching.optimal(degradation.copy())
    two = matching.optimal(np.array([[0.0, 7.0], [30.0, 0.0]]))
    assert (two.groups, two.weights, two.alone) == (((0, 1),), (30.0,), ())


def test_pairs_above_the_threshold_run_alone_after_matching() -> None:
    degradation = np.array([[0, 10, 500, 500], [10, 0, 500, 500], [500, 500, 0, 101], [500, 500, 101, 0]], float)
    found = matching.optimal(degradation)
    assert (found.groups, found.alone, found.total, found.total_matched) == (((0, 1),), (2, 3), 10.0, 111.0)
    assert matching.optimal(degradation, 101.0).alone == ()
    nothing = matching.optimal(degradation, 0.0)
    assert (nothing.groups, nothing.alone) == ((), (0, 1, 2, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_takes_the_lightest_free_pair_each_time(kind: str) -> None:
    rng = np.random.default_rng(7)
    for count in (2, 5, 12, 31):
        weights = matching.pair_weights(instance(kind, count, rng))
        free, expected = set(range(count)), []
        while len(free) > 1:
            lightest = min((weights[i, j], i, j) for i in free for j in free if i < j)
            expected.append(lightest[1:])
            free -= set(lightest[1:])
        found = matching.greedy(weights, np.inf)
        assert found.groups == tuple(sorted(expected))
        assert found.alone == tuple(free)
        assert found.total >= matching.optimal(weights, np.inf).total - 1e-9


def makespan_by_hand(i: int, j: int, degradation: Floats, seconds: Floats) -> float:
    """Work left, in small steps of progress to the next end."""
    left, now = {i: seconds[i], j: seconds[j]}, 0.0
    while left:
        slow = {a: 1 + sum(degradation[a, b] for b in left if b != a) / 100 for a in left}
        step = min(left[a] * slow[a] for a in left)
        now += step
        left = {a: left[a] - step / slow[a] for a in left if left[a] * slow[a] > step * (1 + 1e-12)}
    return now


def test_pair_makespans_follow_the_longer_job_to_its_end() -> None:
    rng = np.random.default_rng(3)
    degradation, seconds = rng.uniform(0, 250, (6, 6)), rng.uniform(10, 500, 6)
    found = matching.pair_makespans(degradation, seconds)
    for i in range(6):
        for j in range(6):
            if i != j:
                assert found[i, j] == pytest.approx(makespan_by_hand(i, j, degradation, seconds))
    equal = matching.pair_savings(np.full((2, 2), 100.0), np.array([60.0, 60.0]))
    assert equal[0, 1] == pytest.approx(0.0), "two equal jobs that halve each other's speed gain nothing"


@pytest.mark.parametrize("count", range(2, 10))
def test_saving_gains_most_and_leaves_bad_pairs_apart(count: int) -> None:
    rng = np.random.default_rng(count)
    for _ in range(10):
        degradation, seconds = rng.gamma(1, 120, (count, count)), rng.uniform(10, 500, count)
        gained = matching.pair_savings(degradation, seconds)
        found = matching.saving(degradation, seconds)
        assert all(gained[pair] > 0 for pair in found.groups)
        best = -cheapest(-np.maximum(gained, 0.0))
        assert sum(gained[pair] for pair in found.groups) == pytest.approx(best)
        assert matching.makespan_s(found, degradation, seconds) == pytest.approx(seconds.sum() - best)
        careful = matching.saving(degradation, seconds, 100.0)
        assert all(weight <= 100.0 for weight in careful.weights)


def best_grouping(jobs: tuple[int, ...], size: int, degradation: Floats) -> float:
    """The least total of the worst slow-downs over all groups of full size (one may be smaller)."""
    from itertools import combinations

    if len(jobs) <= size:
        return worst(jobs, degradation)
    return min(
        worst((jobs[0], *others), degradation)
        + best_grouping(tuple(job for job in jobs[1:] if job not in others), size, degradation)
        for others in combinations(jobs[1:], size - 1)
    )


def worst(jobs: tuple[int, ...], degradation: Floats) -> float:
    return max(sum(degradation[i, j] for j in jobs if j != i) for i in jobs)


@pytest.mark.parametrize("size", [3, 4])
def test_larger_groups_add_up_and_come_near_the_best(size: int) -> None:
    rng, gaps = np.random.default_rng(size), []
    for _ in range(12):
        degradation = instance("low rank", 2 * size, rng)
        found = matching.grouped(degradation, size, np.inf)
        assert found.weights == pytest.approx([worst(group, degradation) for group in found.groups])
        assert all(len(group) == size for group in found.groups)
        gaps.append(found.total / best_grouping(tuple(range(2 * size)), size, degradation))
    assert min(gaps) >= 1 - 1e-9
    assert np.mean(gaps) < 1.05, gaps


def test_a_group_above_the_threshold_falls_back_to_pairs() -> None:
    degradation = np.full((3, 3), 60.0)
    found = matching.grouped(degradation, 3)
    assert (len(found.groups), found.weights, len(found.alone)) == (1, (60.0,), 1)
    assert found.total_matched == pytest.approx(120.0)


@pytest.mark.parametrize("size", [3, 4])
def test_groups_by_saving_are_never_worse_than_pairs(size: int) -> None:
    rng = np.random.default_rng(size)
    for count in (3, 10, 33):
        degradation, seconds = rng.gamma(1, 25, (count, count)), rng.uniform(10, 500, count)
        np.fill_diagonal(degradation, 0.0)
        pairs, groups = matching.saving(degradation, seconds), matching.grouped_saving(degradation, seconds, size)
        assert max(map(len, groups.groups)) <= size
        assert matching.makespan_s(groups, degradation, seconds) <= matching.makespan_s(pairs, degradation, seconds)
        bounded = matching.grouped_saving(degradation, seconds, size, 40.0)
        assert all(weight <= 40.0 for weight in bounded.weights)


@pytest.mark.timing
def test_the_promised_times() -> None:
    """150 jobs: optimal under 0.1 s, greedy under 2 ms after sorting; 1,000 jobs under 40 s. The best of many."""
    rng = np.random.default_rng(4)
    matching.greedy(matching.pair_weights(instance("uniform", 8, rng)))
    matching.optimal(instance("uniform", 8, rng))
    for kind in KINDS:
        weights = matching.pair_weights(instance(kind, 150, rng))
        ordered = matching.all_pairs_sorted(weights)
        assert quickest(lambda weights=weights: matching.perfect_pairs(weights)) < 0.1
        assert quickest(lambda ordered=ordered: matching.lowest_pairs(*ordered, 150)) < 0.002
    large = matching.pair_weights(instance("low rank", 1000, rng))
    begun = time.perf_counter()
    matching.perfect_pairs(large)
    assert time.perf_counter() - begun < 40.0


def quickest(work: object) -> float:
    took = []
    for _ in range(20):
        begun = time.perf_counter()
        work()  # type: ignore[operator]
        took.append(time.perf_counter() - begun)
    return min(took)
