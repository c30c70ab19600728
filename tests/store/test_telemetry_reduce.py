"""Windows from samples, against a reduction written the plain way; and samples and clocks that are out of order."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.model.telemetry import WINDOW_US, staleness
from cohabit.store.telemetry_reduce import PART_US, Reduced, Reducer
from tests.breadth import examples

NAMES = ("disk.reads", "disk.writes", "load.load_1m")
BEGIN_US = 6_000_000 * WINDOW_US  # on the grid
MINUTE = 60_000_000

Sample = tuple[int, int, tuple[float, ...]]  # node, seconds since the beginning, values


def taken(samples: list[Sample], nodes: int = 4, batches: int = 1, **options: int) -> tuple[Reducer, list[Reduced]]:
    """All samples in the order of time, in some batches, and all windows."""
    reducer, found = Reducer(nodes, NAMES, **options), []
    ordered = sorted(samples, key=lambda one: one[1])
    for part in np.array_split(np.arange(len(ordered)), batches):
        chosen = [ordered[index] for index in part.tolist()]
        if chosen:
            times = np.array([BEGIN_US + one[1] * 1_000_000 for one in chosen])
            values = np.array([one[2] for one in chosen])
            reducer.ingest(np.array([one[0] for one in chosen]), times, values)
            found += reducer.finished(int(times.max()))
    return reducer, found + reducer.unfinished()


def plain(samples: list[Sample]) -> dict[tuple[int, int, int], list[float]]:
    """Known values by window, node and counter."""
    found: dict[tuple[int, int, int], list[float]] = defaultdict(list)
    for node, second, values in samples:
        for counter, value in enumerate(values):
            if not math.isnan(value):
                found[second * 1_000_000 // WINDOW_US, node, counter].append(value)
    return found


VALUES = st.one_of(st.just(math.nan), st.floats(-1e6, 1e6, width=32))
SAMPLES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2000), st.tuples(VALUES, VALUES, VALUES)), max_size=60)


@settings(max_examples=examples(150), deadline=None)
@given(SAMPLES, st.integers(1, 9))
def test_windows_are_those_of_the_plain_reduction(samples: list[Sample], batches: int) -> None:
    reducer, found = taken(samples, batches=batches)
    expected = plain(samples)
    assert not +reducer.defects
    assert [one.window.end_us for one in found] == sorted({one.window.end_us for one in found})
    assert {(one.window.end_us - BEGIN_US - 1) // WINDOW_US for one in found} == {key[0] for key in expected}
    for reduced in found:
        number = (reduced.window.end_us - BEGIN_US - 1) // WINDOW_US
        for node in range(4):
            for counter in range(3):
                values = expected.get((number, node, counter))
                three = [float(table[node, counter]) for table in (
                    reduced.window.lowest, reduced.window.highest, reduced.window.mean)]  # fmt: skip
                if values is None:
                    assert all(map(math.isnan, three))
                else:
                    assert three[:2] == [min(values), max(values)]
                    assert three[2] == pytest.approx(np.mean(values), rel=1e-5, abs=1e-3)
            assert reduced.samples[node] == max(len(expected.get((number, node, one), [])) for one in range(3))


RECENT = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 600), st.tuples(VALUES, VALUES, VALUES), st.integers(0, 90)),
    min_size=1, max_size=40,
)  # fmt: skip


@settings(max_examples=examples(200), deadline=None)
@given(RECENT)
def test_the_sliding_window_is_the_last_five_minutes(arrivals: list[tuple[int, int, tuple[float, ...], int]]) -> None:
    """Up to now and to a part's length, whatever the order in which samples come and whenever it is read."""
    reducer, now_us, come = Reducer(4, NAMES), BEGIN_US, list[Sample]()
    for node, second, values, later_s in arrivals:
        now_us = max(now_us, BEGIN_US + second * 1_000_000) + later_s * 1_000_000 * (len(come) % 3 == 0)
        if reducer.ingest(np.array([node]), np.array([BEGIN_US + second * 1_000_000]), np.array([values])):
            come.append((node, second, values))
        window = reducer.sliding(now_us)
        assert window is reducer.sliding(now_us)
        oldest = (now_us // PART_US - WINDOW_US // PART_US + 1) * PART_US
        inside = [one for one in come if BEGIN_US + one[1] * 1_000_000 >= oldest]
        recent = [one for one in inside if (BEGIN_US + one[1] * 1_000_000) // PART_US >= now_us // PART_US - 2]
        for counter in range(3):
            for each in range(4):
                known = [one[2][counter] for one in inside if one[0] == each and not math.isnan(one[2][counter])]
                if window is None:
                    assert not known
                    continue
                expected = (min(known), max(known), float(np.mean(known))) if known else (math.nan,) * 3
                tables = (window.lowest, window.highest, window.mean)
                shown = tuple(float(table[each, counter]) for table in tables)
                assert shown == pytest.approx(expected, nan_ok=True, rel=1e-4, abs=1e-2)
                last = [one[2][counter] for one in recent if one[0] == each and not math.isnan(one[2][counter])]
                assert window.last is not None
                mean = float(np.mean(last)) if last else math.nan
                assert float(window.last[each, counter]) == pytest.approx(mean, nan_ok=True, rel=1e-4, abs=1e-2)


def row(*values: float) -> np.ndarray:
    return np.array([values])


def test_features_are_over_time_and_nodes_all_of_them_or_the_jobs() -> None:
    """R2 and R3, by hand."""
    samples: list[Sample] = [(0, 0, (1, 10, 0)), (0, 60, (3, 10, 0)), (1, 30, (7, 20, 0)), (2, 30, (100, 30, 0))]
    _, (reduced,) = taken(samples, nodes=3)
    assert reduced.window.features(np.array([0, 1]))[:3].tolist() == [1, 7, 4.5]  # the mean of 2 and 7
    assert reduced.window.of_all_nodes[:6].tolist() == [1, 100, pytest.approx(109 / 3), 10, 30, 20]


def test_a_window_waits_for_late_samples_and_then_no_longer() -> None:
    reducer = Reducer(1, NAMES)
    reducer.ingest(np.array([0]), np.array([BEGIN_US + 290_000_000]), row(1, 1, 1))
    assert reducer.finished(BEGIN_US + WINDOW_US + 59_000_000) == []
    reducer.ingest(np.array([0]), np.array([BEGIN_US + 295_000_000]), row(5, 1, 1))
    (reduced,) = reducer.finished(BEGIN_US + WINDOW_US + 60_000_000)
    assert reduced.window.highest[0, 0] == 5
    assert reducer.ingest(np.array([0]), np.array([BEGIN_US + 299_000_000]), row(9, 9, 9)) == 0
    assert reducer.defects["too late"] == 1
    assert reducer.finished(BEGIN_US + 3 * WINDOW_US) == []


def test_a_node_whose_clock_is_ahead_is_refused() -> None:
    reducer = Reducer(2, NAMES)
    times = np.array([BEGIN_US, BEGIN_US + 86_400_000_000])
    used = reducer.ingest(np.array([0, 1]), times, np.ones((2, 3)), now_us=BEGIN_US)
    assert used == 1
    assert reducer.defects["from the future"] == 1
    assert np.isnan(reducer.unfinished()[0].window.mean[1]).all()


def test_a_clock_that_is_set_back_begins_anew() -> None:
    """Hours of samples must not be refused because the clock was ahead for a moment."""
    reducer = Reducer(1, NAMES)
    ahead = BEGIN_US + 1000 * WINDOW_US
    reducer.ingest(np.array([0]), np.array([ahead]), row(1, 1, 1), now_us=ahead)
    reducer.finished(ahead + 2 * WINDOW_US)
    used = [
        reducer.ingest(np.array([0]), np.array([BEGIN_US + minute * MINUTE]), row(2, 2, 2), BEGIN_US + minute * MINUTE)
        for minute in range(12)
    ]
    assert used == [1] * 12
    assert reducer.defects["the clock was set back"] == 1
    assert len(reducer.finished(BEGIN_US + 2 * WINDOW_US + 60_000_000)) == 2


def test_a_clock_that_jumps_far_ahead_loses_no_window() -> None:
    reducer = Reducer(1, NAMES)
    reducer.ingest(np.array([0]), np.array([BEGIN_US]), row(1, 1, 1), now_us=BEGIN_US)
    ahead = BEGIN_US + 10**6 * WINDOW_US
    reducer.ingest(np.array([0]), np.array([ahead]), row(2, 2, 2), now_us=ahead)
    found = reducer.finished(ahead) + reducer.unfinished()
    assert [float(one.window.mean[0, 0]) for one in found] == [1, 2]


def test_values_that_are_not_finite_are_left_out_and_what_was_handed_in_stays_as_it_was() -> None:
    reducer, values = Reducer(1, NAMES), row(math.inf, 1e300, 4)
    reducer.ingest(np.array([0]), np.array([BEGIN_US]), values)
    (reduced,) = reducer.unfinished()
    assert reducer.defects["not finite"] == 2
    assert np.isnan(reduced.window.mean[0]).tolist() == [True, True, False]
    assert values.tolist() == [[math.inf, 1e300, 4]]


def test_there_is_room_for_nodes_that_come_later() -> None:
    reducer = Reducer(1, NAMES)
    reducer.ingest(np.array([0]), np.array([BEGIN_US]), row(1, 1, 1))
    assert reducer.sliding(BEGIN_US) is not None
    reducer.grow(3)
    reducer.ingest(np.array([2]), np.array([BEGIN_US]), row(3, 3, 3))
    window = reducer.sliding(BEGIN_US)
    assert window is not None
    assert window.mean[:, 0].tolist() == pytest.approx([1, math.nan, 3], nan_ok=True)


def test_a_window_handed_out_does_not_change_later() -> None:
    reducer = Reducer(1, NAMES)
    reducer.ingest(np.array([0]), np.array([BEGIN_US]), row(1, 1, 1))
    window = reducer.sliding(BEGIN_US)
    assert window is not None
    before = window.digest
    reducer.ingest(np.array([0]), np.array([BEGIN_US]), row(9, 9, 9))
    assert replace(window).digest == before


@pytest.mark.parametrize(
    ("newest_us", "now_us", "words"),
    [
        (None, 0, "stale: there is no window yet"),
        (0, 720_000_000, "stale: newest window ended 12 min ago"),
        (0, 6 * 3_600_000_000, "stale: newest window ended 6 h ago"),
        (0, 5 * 86_400_000_000, "stale: newest window ended 5 d ago"),
        (0, 600_000_000, ""),
        (60_000_000, 0, ""),
        (600_000_000, 0, "stale: newest window ends 10 min from now, so a clock was set back"),
    ],
)
def test_staleness_in_words(newest_us: int | None, now_us: int, words: str) -> None:
    assert staleness(newest_us, now_us) == words


@pytest.mark.timing
def test_a_million_values_a_minute_are_no_effort() -> None:
    """The floor is 16,667 values a second on one core."""
    import time

    reducer, nodes = Reducer(512, [f"disk.{number}" for number in range(90)]), np.arange(512)
    values = np.random.default_rng(1).lognormal(3, 1, (512, 90))
    began = time.process_time()
    for minute in range(30):
        reducer.ingest(nodes, np.full(512, BEGIN_US + minute * MINUTE), values, BEGIN_US + minute * MINUTE)
        reducer.finished(BEGIN_US + minute * MINUTE)
    assert 30 * values.size / (time.process_time() - began) > 1_000_000
