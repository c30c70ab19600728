"""The search: near the proven optimum, never worse than its start, the same for a seed and for renumbered nodes."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.optimise import starts
from cohabit.optimise.exhaustive import best_placement
from cohabit.optimise.memo import Memo, grown, make_memo, put, slot_of
from cohabit.optimise.schemes import outcome
from cohabit.optimise.search import Budget, Found, default_swaps, search
from cohabit.optimise.tables import Problem, mixed_word, prepare
from tests.optimise.laws_by_hand import Machine, mix_of, random_apps

INSTANCES = [(2, 4, 8, 8), (3, 3, 9, 8), (2, 6, 12, 16), (4, 3, 12, 12), (3, 4, 10, 8), (2, 5, 7, 10)]


def problem_of(seed: int, nodes: int, room: int, jobs: int, buckets: int, kinds: int = 0, cap: float = 25.0) -> Problem:
    rng = np.random.default_rng(seed)
    apps = random_apps(rng, kinds or jobs, buckets)
    chosen = [apps[int(rng.integers(len(apps)))] for _ in range(jobs)] if kinds else apps
    return prepare(mix_of(chosen, nodes, room, Machine(cap)))


def found_from(problem: Problem, seed: int, swaps: int | None = None, **more: object) -> Found:
    start = starts.random_start(problem, np.random.default_rng(seed))
    budget = Budget(default_swaps(len(problem.mix)) if swaps is None else swaps)
    return search(problem, start, seed, budget, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("nodes", "room", "jobs", "buckets"), INSTANCES)
def test_close_to_the_proven_optimum(nodes: int, room: int, jobs: int, buckets: int) -> None:
    for seed in range(3):
        problem = problem_of(seed, nodes, room, jobs, buckets, cap=(25.0, 12.8, 5.0)[seed])
        best, place = best_placement(problem)
        assert outcome(problem, place, True).weighted_speedup == pytest.approx(best)
        found = found_from(problem, seed)
        assert 0.995 * best <= found.value <= best + 1e-9


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("start", ["random", "utility"])
def test_never_worse_than_its_start_and_true_to_the_law(shared: bool, start: str) -> None:
    for seed in range(4):
        problem = problem_of(seed, 4, 4, 16, 16, kinds=6)
        first = starts.random_start(problem, np.random.default_rng(seed))
        if start == "utility":
            first = starts.utility_start(problem)
        for swaps in (0, 50, 2000):
            found = search(problem, first, seed, Budget(swaps), shared=shared)
            assert found.value >= found.start_value
            again = outcome(problem, found.place, not shared)
            assert again.weighted_speedup == pytest.approx(found.value, abs=1e-9)
            assert outcome(problem, first, not shared).weighted_speedup == pytest.approx(found.start_value, abs=1e-9)
            assert np.bincount(found.place, minlength=4).max() <= 4


def test_the_same_seed_gives_the_same_placement() -> None:
    problem = problem_of(1, 4, 6, 24, 16)
    one, two, other = (found_from(problem, seed, 3000) for seed in (5, 5, 6))
    assert one.place.tolist() == two.place.tolist()
    assert (one.swaps, one.hits) == (two.swaps, two.hits)
    assert one.place.tolist() != other.place.tolist()


def test_renumbering_nodes_renumbers_the_result() -> None:
    for jobs in (20, 13):  # full nodes, and some with room
        problem = problem_of(2, 5, 4, jobs, 16, kinds=9)
        start = starts.random_start(problem, np.random.default_rng(0))
        renumbered = np.array([3, 0, 4, 2, 1])
        one = search(problem, start, 7, Budget(2000))
        two = search(problem, renumbered[start], 7, Budget(2000))
        assert two.value == one.value
        assert two.place.tolist() == renumbered[one.place].tolist()


def test_moves_into_room() -> None:
    """Six jobs on three nodes of four: piling them up must be undone."""
    problem = problem_of(4, 3, 4, 6, 8)
    found = search(problem, np.array([0, 0, 0, 0, 1, 1]), 1, Budget(2000))
    assert np.bincount(found.place, minlength=3).min() >= 1
    assert found.value == pytest.approx(best_placement(problem)[0], rel=5e-3)


def test_estimates_change_what_is_looked_at_and_not_what_is_true() -> None:
    problem = problem_of(8, 8, 8, 64, 32, cap=15.0)
    exact, quick = found_from(problem, 3, 4000, margin=-1.0), found_from(problem, 3, 4000)
    assert quick.value > 0.998 * exact.value
    for one in (exact, quick):
        assert outcome(problem, one.place, True).weighted_speedup == pytest.approx(one.value, abs=1e-9)


def test_nothing_to_exchange() -> None:
    apps = random_apps(np.random.default_rng(0), 1, 8)
    assert found_from(prepare(mix_of(apps * 6, 3, 2)), 1, 500).swaps == 0
    assert found_from(prepare(mix_of(apps * 3, 1, 4)), 1, 500).swaps == 0


@pytest.mark.parametrize("objective", ["weighted", "harmonic", "min"])
def test_objectives_improve_their_own_measure(objective: str) -> None:
    problem = problem_of(6, 4, 4, 16, 16)
    found = found_from(problem, 2, 4000, objective=objective)
    assert found.value > found.start_value


def test_a_clock_ends_the_search() -> None:
    problem = problem_of(6, 4, 4, 16, 16)
    ticks = iter([0.0, 0.3, 0.6, 0.9, 1.0])
    found = search(problem, starts.utility_start(problem), 1, Budget(used=lambda: next(ticks)))
    assert found.swaps == 4 * 256


def test_progress_is_told() -> None:
    problem = problem_of(6, 4, 4, 16, 16)
    told: list[tuple[int, int]] = []
    search(problem, starts.utility_start(problem), 1, Budget(9000), progress=lambda *done: told.append(done))
    assert told[-1] == (9000, 9000)
    assert len(told) == 3


def test_the_needy_are_spread() -> None:
    problem = problem_of(9, 4, 4, 16, 16)
    need = starts.utility(problem)
    totals = [need[starts.utility_start(problem) == node].sum() for node in range(4)]
    random = [need[starts.random_start(problem, np.random.default_rng(1)) == node].sum() for node in range(4)]
    assert np.ptp(totals) < np.ptp(random)


def test_memory_of_sets_survives_growth() -> None:
    memo: Memo = make_memo()
    words = [(np.uint64(mixed_word(2 * i + 1)), np.uint64(mixed_word(2 * i + 2))) for i in range(2100)]
    for number, (key, second) in enumerate(words):
        put(memo, slot_of(memo, key, second), key, second, float(number), 0.5, 0.25)
    larger = grown(memo)
    assert len(larger.keys) > len(memo.keys)
    kept = 0
    for number, (key, second) in enumerate(words):
        place = slot_of(larger, key, second)
        if larger.keys[place] == key and larger.seconds[place] == second:
            kept += 1
            assert (larger.values[place], larger.loads[place], larger.prices[place]) == (number, 0.5, 0.25)
    assert kept > 0.99 * len(words)  # a crowded place forgets
