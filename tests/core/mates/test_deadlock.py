"""The wait-for graph: the instance of the paper's second figure, and cycles in general."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cohabit.core.mates.deadlock import HOLDING, QUEUED, MateReport, describe, find_deadlock, wait_for_graph

FIGURE_2 = [
    MateReport("A", "a1", "pair-1", HOLDING, 6),
    MateReport("B", "b1", "pair-1", QUEUED, 6),
    MateReport("B", "b2", "pair-2", HOLDING, 6),
    MateReport("A", "a2", "pair-2", QUEUED, 6),
]


def test_figure_2_is_a_deadlock_and_is_named() -> None:
    cycle = find_deadlock(FIGURE_2, {"A": 4, "B": 4})
    assert sorted(cycle) == ["pair-1", "pair-2"]
    words = describe(cycle, FIGURE_2)
    assert "pair-1 waits for 6 nodes on B, where pair-2 holds 6" in words
    assert "pair-2 waits for 6 nodes on A, where pair-1 holds 6" in words


def test_enough_free_nodes_or_a_release_end_it() -> None:
    assert not find_deadlock(FIGURE_2, {"A": 6, "B": 4})
    released = [*FIGURE_2[:2], MateReport("B", "b2", "pair-2", QUEUED, 6), FIGURE_2[3]]
    assert not find_deadlock(released, {"A": 4, "B": 10})


def test_waiting_for_running_jobs_is_no_deadlock() -> None:
    wide = [*FIGURE_2[:3], MateReport("A", "a2", "pair-2", QUEUED, 20)]
    assert not find_deadlock(wide, {"A": 4, "B": 4})


def test_a_ring_of_three_domains() -> None:
    ring = []
    for number, (here, there) in enumerate([("A", "B"), ("B", "C"), ("C", "A")]):
        ring += [
            MateReport(here, f"h{number}", f"g{number}", HOLDING, 8),
            MateReport(there, f"w{number}", f"g{number}", QUEUED, 8),
        ]
    assert sorted(find_deadlock(ring, {})) == ["g0", "g1", "g2"]


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.integers(0, 5), st.booleans(), st.integers(1, 8)), max_size=12))
def test_what_is_found_is_a_cycle_of_the_graph(drawn: list[tuple[str, int, bool, int]]) -> None:
    reports = [
        MateReport(domain, f"j{number}", f"g{group}", HOLDING if holds else QUEUED, nodes)
        for number, (domain, group, holds, nodes) in enumerate(drawn)
    ]
    graph, cycle = wait_for_graph(reports, {}), find_deadlock(reports, {})
    for position, group in enumerate(cycle):
        assert cycle[(position + 1) % len(cycle)] in graph[group]
    if not cycle:  # then the groups can be put in an order in which nobody waits for a later one
        left = dict(graph)
        while left:
            free = [group for group, others in left.items() if not set(others) & set(left)]
            assert free
            for group in free:
                del left[group]
