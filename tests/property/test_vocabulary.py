"""What numpy does with a whole queue, and what is settled of it, is the same recorded and compiled, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cohabit.compiled import load_source
from cohabit.core import ranks, sums
from cohabit.core.columns import ELIGIBLE, columns_of
from cohabit.policy import recording
from cohabit.policy.registry import make_order
from cohabit.policy.settled import SETTLED, contraction
from tests.breadth import examples
from tests.property.test_orders import by_machine_code, random_jobs
from tests.property.test_recording import check_a_queue_remembered, long_queue, order_file

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order

# w: hours waited, l: hours asked for (some are zero), n: nodes, u: user, x: fractions some of which are no numbers
GIVEN = (
    "w = (now_us - jobs.submit_us[rows]) / HOUR\n    l = jobs.limit_us[rows] / HOUR\n"
    "    n, u, q = jobs.nodes[rows], jobs.user[rows], jobs.qos[rows]\n    x = np.sqrt(q - 20.0) / (l * n)\n    "
)
RECORDED = {
    "interp": "return np.interp(w, [0, 1, 24], [0, 1, 5]) * -n + np.interp(n, [2, 9.5], [7, -3])"
    " + np.interp(x, [0, 1], [0, 1])",
    "quantile": "return np.where(l < np.quantile(l, 0.9), 0, 1) * 1e6 - w / np.quantile(n, 1.0) + np.quantile(x, 0.3)",
    "percentile": "a, b = np.percentile(w, [25, 75])\n    return (w - a) / (b - a + 1) - n / np.percentile(n, 33)",
    "kth": "k = len(rows) // 2\n    return (l <= np.partition(l, k)[k]) * 9.0 - np.sort(w)[-1] + np.sort(n)[k]",
    "kth_by_share": "k = int(0.9 * len(rows))\n    return n / np.sort(n)[k] - np.sort(l)[math.ceil(len(rows) / 2) - 1]",
    "rank_by_search": "return np.searchsorted(np.sort(l), l) - np.searchsorted(np.sort(x), x, side='right') - w",
    "search_others": "s = np.sort(w)\n    return np.searchsorted(s, l) + 2 * s.searchsorted(x, side='right')",
    "lexsort": "r = np.empty(len(rows))\n    r[np.lexsort((l, n))] = np.arange(len(rows))\n    return r",
    "lexsort_three": "return np.argsort(np.lexsort([l, u, n > 3])) + 0.5 * np.lexsort((-w, x, n))",
    "lexsort_that_changes": "return np.argsort(np.lexsort((n, np.floor(w / (1 + q)), x)))",
    "bincount": "return np.bincount(u + 1)[u + 1] * 100.0 - w + np.bincount(q, minlength=5)[q]",
    "work_of_user": "v = u + 1\n    return np.bincount(v, weights=l * n)[v] - np.bincount(n * 10**6, x)[n * 10**6]",
    "average": "return l / np.average(l + 1, weights=n) - w / np.average(n, weights=l + 0.5) + np.average(q)",
    "cumsum": "return np.cumsum(n) + l.cumsum() - np.add.accumulate(x) + (n > 3).cumsum()",
    "spread": "return np.ptp(n) * l - w / (np.ptp(w) + 1) + l.std(ddof=1) + np.var(w, ddof=1)",
    "counts": "return n * np.count_nonzero(l > 1) / len(rows) + (n > 2).sum() + np.count_nonzero(n - 1)"
    " + np.any(n - 1)",
    "chosen": "m = (n > 2) | (w >= w.max())\n    return w[m].mean() * l - n[m].sum() / len(w[m])"
    " + w[m].sum() / n[m].mean() + np.max(w[m]) - np.min(l[m])",
    "chosen_nobody": "return n + x[n > 10**6].mean() + np.sum(n[w < -1]) + np.mean(n[l > 1])",
    "reduce": "return n / np.maximum.reduce(n) + np.minimum.reduce(w) + np.add.reduce(l)",
    "power_per_job": "return -(l + 1) ** (1 + 1 / n) + np.power(w + 1, n % 3)",
    "rounded": "return np.round(w, 2) + np.rint(l) + n.round() + np.around(x) + np.trunc(w * 3)",
    "logical": "return np.logical_and(n > 2, w > 1) * 2.0 + np.logical_or(n, l > 1) + np.logical_not(l)",
    "no_numbers": "return np.nan_to_num(x) + np.nan_to_num(x, nan=7, posinf=1e9) + np.nan_to_num(n)",
    "types": "y = np.asarray(n, float)\n    y += 1\n    z = np.asarray(y)\n    z *= 2\n"
    "    return y + np.float64(n) + np.array(l) + np.float64(n.sum()) + float(len(rows)) + (n > 2).astype(int)",
    "whole_hours": "return w.astype(int) * 5 + x.astype(np.int64) % 1000 + (l.astype(int, copy=False) & 3)"
    " + n.astype(bool)",
    "hypotenuse": "return np.hypot(n, q) - w",
    "matmul": "return np.column_stack([w, l, n]) @ np.array([-1.0, 0.5, 10.0])",
    "matmul_whole": "return np.column_stack((n, u)) @ np.array([3, 5]) + np.stack([n, q], axis=1) @ [0.1, 0.7]",
    "dot": "return np.stack([w, x, n], axis=1).dot(np.array([-1, 2, 10])) + np.dot(np.vstack([l, n]).T, [0.1, 0.3])",
    "weights_first": "return np.array([0.2, 0.7]) @ np.array([l / 3, -w / 7]) + np.dot(WEIGHT_LIST, np.array([n, q]))",
    "einsum": "return np.einsum('ij,j->i', np.column_stack((w, n)), np.array([-1.1, 3.3])) + np.einsum("
    "'j,ji -> i', WEIGHT_LIST, np.vstack((l, q)))",
    "network": "h = np.column_stack((w, l, n)) @ np.array([[0.1, 0.2], [0.3, -0.4], [0.5, 0.6]]) + WEIGHT_LIST\n"
    "    h = np.maximum(h, 0)\n    h *= 0.7\n    return np.tanh(h @ np.array([1.0, -1.0])) - w",
    "network_lying": "h = np.exp(-np.array([[0.1, 0.2], [0.3, 0.4], [0.0, 0.7]]) @ np.vstack((l, n)) / 9)\n"
    "    return (h * w).sum(axis=0) - h[1] + np.mean(h, axis=0) * h.max(axis=0)",
    "table": "t = np.column_stack((w, l, n)) / np.array([3.0, 7.0, 11.0])\n"
    "    return t.sum(axis=1) - (t ** 2).mean(axis=1) + np.sum(t * t, axis=-1) * t[:, -1] + np.min(1 - t, axis=1)",
    "table_of_whole_numbers": "t = np.stack([n, q, u], axis=1)\n    t -= 1\n"
    "    return t.mean(axis=1) - w + (t > 2).sum(axis=1)",
    "polynomial": "return np.polyval([0.1, -2.0, 3.0], w) + np.polyval(np.array([2, 1]), n)",
    "filled_from": "r = np.empty(n.size)\n    r[np.argsort(n)] = np.arange(1, len(rows) + 1)\n"
    "    return r + np.full(w.shape, 2.5) + np.full_like(l, 3) + np.arange(len(n), dtype=float)",
    "pieces": "return np.choose(np.clip(n, 0, 2), [w, 2.0, l]) + np.choose(n > 3, [0, 1]) - np.piecewise(w, [w < 1, "
    "w >= 24], [lambda y: -y, 7, lambda y: y * 2]) + np.heaviside(l - 1, 0.5) + np.heaviside(x, n)",
    "chosen_changed": "s, m = w.copy(), n > 3\n    s[m] -= 5\n    s[l > 1] = l[l > 1] * 2 + s[l > 1] ** 2\n"
    "    s[m] *= n[m]\n    s[~m] = q[~m]\n    return s + l[m].sum()",
    "some_of_a_sort": "o, s = np.argsort(-w), l.copy()\n    s[o[:10]] -= 1e6\n    s[o[-(len(rows) // 4) :]] += 7\n"
    "    s[o[2:-2]] = w[o[2:-2]] * n[o[2:-2]]\n    return s - w[o[:3]].max()",
    "backwards": "o, r = np.argsort(l)[::-1], np.empty(len(rows))\n    r[o] = np.arange(len(rows))\n"
    "    return r - w[np.argsort(o)] + l[o]",
    "lists": "t = np.column_stack((l, n))\n    return np.maximum.reduce([l, w, n]) + np.sum([l, n], axis=0) - np.mean("
    "[w, l, x], axis=0) + np.logical_or.reduce([n > 3, l > 1]) + np.max((n, q), axis=0) + np.average([l, w], axis=0,"
    " weights=[0.3, 0.7]) - np.average(t, axis=1, weights=WEIGHT_LIST) + np.einsum('i,i->i', l, n)",
    "lengths": "return l / np.linalg.norm(l) - w / np.linalg.norm(n) + np.linalg.norm(np.column_stack((l, n)), axis=1)"
    " + w * math.log(len(rows) + 1) - np.sqrt(len(rows)) * math.log10(len(rows))",
    "digitised": "return np.digitize(x, [0.5, 2]) + np.searchsorted([1, 2.5], x, side='right') "
    "+ np.digitize(n, [2, 4], right=True)",
}  # fmt: skip
# Replayed in two steps as well (tests/property/test_given.py), where possible: one of each kind
IN_TWO_STEPS = ("quantile", "kth", "average", "chosen", "counts", "spread", "lists", "lengths", "pieces")
BEYOND = {
    "interp_long_table": "return np.interp(w, np.arange(40.0), np.arange(40.0) ** 2)",
    "interp_falling_table": "return np.interp(w, [3, 2, 1], [1, 2, 3])",
    "interp_left": "return np.interp(w, [1, 2], [1, 2], left=9)",
    "interp_by_rows": "return np.interp(w, np.sort(l), n)",
    "quantile_nearest": "return w - np.quantile(w, 0.3, method='nearest')",
    "other_place": "return w - np.partition(w, 0)[-1]",
    "parted": "return np.partition(w, 0)",
    "smallest": "return w - np.sort(w)[:3].mean()",
    "place_by_rows": "return w - np.sort(w)[n]",
    "place_by_sum": "return w - np.sort(w)[int(n.sum())]",
    "bins_of_others": "return np.bincount(q)[n]",
    "weighted_bool": "return np.average(w, weights=n > 2)",
    "two_tables": "return np.column_stack([w, l]) @ np.vstack([w, l])",
    "columns_as_rows": "return np.vstack([w, l]) @ np.array([1.0, 2.0])",
    "too_few_weights": "return np.column_stack([w, l]) @ np.array([1.0])",
    "vectors": "return n * (w @ l)",
    "other_numpy": "return COLUMNS([w, l]) @ np.array([1.0, 2.0])",
    "other_einsum": "return np.einsum('ij,ij->i', np.column_stack([w, l]), np.column_stack([l, w]))",
    "table_over_jobs": "return w * np.column_stack([w, l]).sum(axis=0)[0]",
    "part_of_a_table": "return np.column_stack([w, l])[:, :1].sum(axis=1)",
    "row_of_a_table": "return np.column_stack([w, l])[0][0] * w",
    "power_per_column": "return (np.column_stack([w, l]) ** np.array([2.0, 3.0])).sum(axis=1)",
    "sorted_values": "return np.sort(w) - n",
    "chosen_themselves": "return w - w[n > 3][0]",
    "chosen_median": "return w - np.median(w[n > 3])",
    "chosen_whole_extreme": "return w - n[n > 0].max()",
    "chosen_by_others": "s = w.copy()\n    s[n > 3] = l[n > 2]\n    return s",
    "chosen_beside_all": "return n * (w[n > 3] - l).sum()",
    "sum_of_first": "return w - w[np.argsort(w)[:3]].sum()",
    "first_in_another_order": "s, o = w.copy(), np.argsort(w)\n    s[o[:3]] = w[w < 9]\n    return s",
    "every_other": "s = w.copy()\n    s[np.argsort(w)[::2]] = 0\n    return s",
    "list_along_jobs": "return w - np.sum([w, l], axis=1)[0]",
    "argpartition": "return np.argpartition(w, 0)",
    "rounded_to_tens": "return np.round(w, -1)",
    "searched_unsorted": "return np.searchsorted(w, l)",
    "long_range": "return np.arange(0, len(rows), 1)",
}
MORE = "import math\nWEIGHT_LIST = [0.25, 1.7]\nCOLUMNS = np.column_stack\n\n\n"


def file_of(folder: Path, name: str, body: str) -> str:
    path = Path(order_file(folder, name, GIVEN + body))
    path.write_text(path.read_text().replace("def scores(", MORE + "def scores("))
    return str(path)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # roots of what is below zero, means of nobody
@pytest.mark.parametrize("name", RECORDED)
def test_scores_and_schedules_are_those_of_the_function(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = file_of(tmp_path_factory.mktemp("orders"), name, RECORDED[name])
    order = make_order(path, {}, compile_it=True)
    assert recording.for_queue(order.function, ()) is not None
    assert order.entry is not None

    @settings(max_examples=examples(40), deadline=None)
    @given(st.integers(0, 2**32), st.one_of(st.integers(2, 12), st.integers(2, 600)), st.booleans())
    def check(seed: int, count: int, alike: bool) -> None:
        jobs, usage, rows = random_jobs(seed, count, 4)
        rows = rows if len(rows) else np.array([1])
        now_us = int(jobs[ELIGIBLE].max()) + seed % 1000
        if alike:
            jobs[:] = jobs[:, :1]
        with np.errstate(all="ignore"):
            readable = np.asarray(order.scores(columns_of(jobs, usage), rows, now_us), float)
        assert np.array_equal(by_machine_code(order, jobs, usage, rows, now_us), readable, equal_nan=True)

    check()
    check_a_queue_remembered(order)
    two_steps = name in IN_TWO_STEPS
    recorded, plain = (long_queue(path, len(name), compiled, "easy", two_steps) for compiled in (True, False))
    assert recorded.journal.hash() == plain.journal.hash()


@pytest.mark.parametrize("name", BEYOND)
def test_what_cannot_be_recorded_is_left_alone(name: str, tmp_path: Path) -> None:
    function = load_source(file_of(tmp_path, name, BEYOND[name])).scores
    assert recording.for_queue(function, ()) is None


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_piece_made_of_all_it_is_given_stays_in_python(tmp_path: Path) -> None:
    """The function is called with some, the recording would take all."""
    path = file_of(tmp_path, "pieces", "return np.piecewise(w, [n > 2], [lambda y: y - y.mean()])")
    assert make_order(path, {}, compile_it=True).entry is None


def test_weights_may_be_parameters(tmp_path: Path) -> None:
    path = Path(file_of(tmp_path, "weights", "return np.column_stack([w, n]) @ np.array([size, wait])"))
    path.write_text(path.read_text().replace("now_us):", "now_us, size=2.5, wait=1.25):"))
    order = make_order(str(path), {"wait": 0.3}, compile_it=True)
    assert recording.for_queue(order.function, order.parameters) is not None
    jobs, usage, rows = random_jobs(1, 50, 3)
    expected = order.scores(columns_of(jobs, usage), rows, 10**12)
    assert np.array_equal(by_machine_code(order, jobs, usage, rows, 10**12), expected)


NUMBERS = st.one_of(st.floats(-9, 9), st.sampled_from([0.0, 1.0, 2.0, np.inf, -np.inf, np.nan]))
VALUES = st.one_of(
    arrays(np.float64, st.integers(1, 60), elements=NUMBERS),
    arrays(np.int64, st.integers(1, 60), elements=st.integers(-5, 5)),
    arrays(np.int64, st.integers(1, 60), elements=st.integers(-(2**62), 2**62)),
)


def places_of(values: np.ndarray) -> np.ndarray:
    return np.argsort(np.argsort(values, kind="stable"), kind="stable")


@settings(max_examples=examples(200), deadline=None)
@given(VALUES, st.floats(0, 1))
def test_sorts_are_those_of_numpy(values: np.ndarray, share: float) -> None:
    in_order, places = np.sort(values), places_of(values)
    assert np.array_equal(ranks.sorted_of(values, places), in_order, equal_nan=True)
    for side, or_equal in (("left", False), ("right", True)):
        expected = np.searchsorted(in_order, values, side=side)
        assert np.array_equal(ranks.below_of(values, places, or_equal), expected)
        assert [ranks.passed(in_order, value, or_equal) for value in values] == expected.tolist()
    memory, rows, place = np.zeros(4), np.arange(len(values)) + 7, int(share * (len(values) - 1))
    with np.errstate(all="ignore"):
        for hint in (0, *rows):
            memory[1:] = hint + 1
            found = ranks.quantile_of(values, rows, share, memory, 1)
            assert np.array_equal(found, np.quantile(values, share), equal_nan=True)
            assert np.array_equal(ranks.middle_of(values, rows, memory, 2), np.median(values), equal_nan=True)
            assert np.array_equal(ranks.at(values, rows, place, memory, 3), in_order[place], equal_nan=True)
    fractions = values.astype(float)
    assert np.array_equal(sums.most_of(fractions, 1.0), fractions.max(), equal_nan=True)
    assert np.array_equal(sums.most_of(fractions, -1.0), fractions.min(), equal_nan=True)
    numbers = np.empty(len(values), np.int64)
    ranks.number(values, np.arange(0), True, numbers)
    assert np.array_equal(numbers, np.unique(values, return_inverse=True)[1])


@settings(max_examples=examples(200), deadline=None)
@given(VALUES.filter(lambda values: values.dtype == np.int64), st.integers(0, 2**32))
def test_counts_are_those_of_numpy(values: np.ndarray, seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal(len(values))
    different, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    memory = np.zeros(16 + 2 * len(values))
    sizes, how_many = ranks.sizes_of(values, np.arange(len(values)), False, memory, 1, 16, len(values))
    assert np.array_equal(sizes, counts[inverse])
    assert how_many == len(different)
    assert np.array_equal(ranks.totals_of(values, weights), np.bincount(inverse, weights)[inverse])
    assert np.array_equal(sums.running(weights), np.cumsum(weights))
    assert np.array_equal(sums.running(values), np.cumsum(values))


@settings(max_examples=examples(200), deadline=None)
@given(arrays(np.float64, 20, elements=NUMBERS), st.sets(st.integers(-99, 99), min_size=2, max_size=9))
def test_settled_interpolation_is_that_of_numpy(values: np.ndarray, places: set[int]) -> None:
    """But for the last bit, which numpy leaves to the processor."""
    at = np.sort(list(places)) / 9
    heights = np.sin(at) * 5
    found, expected = SETTLED.interp(values, at, heights), np.interp(values, at, heights)
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-12, equal_nan=True)
    assert np.array_equal(SETTLED.interp(at, at, heights), np.interp(at, at, heights))
    assert SETTLED.interp(2.5, [1, 2, 3], [0, 10, 30]) == 20.0
    assert SETTLED.interp(-100.0, at, heights, left=-9.0) == -9.0


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 9), st.integers(1, 30))
def test_settled_products_are_sums_from_left_to_right(seed: int, columns: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    made, weights = rng.standard_normal((columns, rows)), rng.standard_normal(columns)
    expected = np.zeros(rows)
    for column, weight in zip(made, weights, strict=True):
        expected = expected + column * weight
    upright, lying = SETTLED.column_stack(list(made)), SETTLED.array(list(made))
    both = SETTLED.stack([weights, weights * 2])
    for found in (
        upright @ weights, upright.dot(weights), SETTLED.dot(upright, weights), SETTLED.matmul(weights, lying),
        weights @ lying, lying.T @ weights, SETTLED.einsum("ij,j->i", upright, weights), (both @ lying)[0],
        SETTLED.einsum("j,ji->i", weights, lying), SETTLED.vstack(list(made)).T @ list(weights),
    ):  # fmt: skip
        assert np.array_equal(found, expected)
    assert type(upright @ weights) is np.ndarray
    assert type(lying.T @ both.T) is type(upright)
    total = made[0].copy()
    for column in made[1:]:
        total = total + column
    for found in (upright.sum(axis=1), np.sum(lying, axis=0), (upright * 1.0).sum(-1), lying.mean(axis=0) * columns):
        assert np.allclose(found, total, rtol=1e-14)
    assert np.array_equal(upright.sum(axis=1), total)
    assert np.array_equal(np.mean(lying, axis=0), total / columns)
    assert np.allclose(upright.sum(), made.sum())
    assert upright.sum(axis=1, keepdims=True).shape == (rows, 1)
    assert np.allclose(upright @ lying, np.asarray(upright) @ np.asarray(lying))
    assert np.array_equal(upright + 1, np.asarray(upright) + 1)
    norm = np.linalg.norm
    assert np.array_equal(SETTLED.linalg.norm(upright, axis=1), np.sqrt((upright * upright).sum(axis=1)))
    for options in ({}, {"ord": 1}, {"axis": 0}, {"axis": 0, "keepdims": True}):
        assert np.allclose(SETTLED.linalg.norm(upright, **options), norm(np.asarray(upright), **options), rtol=1e-14)
    assert np.isclose(SETTLED.linalg.norm(weights), norm(weights), rtol=1e-14)


def test_only_plain_contractions_are_settled() -> None:
    assert contraction("ij,j->i") == (0, True)
    assert contraction("a, ab -> b") == (1, False)
    for other in ("ij,j", "ij,k->i", "ii,i->i", "ij,j->ij", "ij,ij->i", "...j,j->...", 7):
        assert contraction(other) is None
