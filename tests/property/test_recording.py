"""An order recorded scores as its own numpy function, to the last bit; what cannot be recorded is left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.compiled import load_source
from cohabit.core import library, powers, sums
from cohabit.core.columns import ELIGIBLE, columns_of
from cohabit.core.protocols import Order
from cohabit.model.units import SECOND
from cohabit.policy import recording
from cohabit.policy.one_by_one import for_one_job
from cohabit.policy.registry import make_order
from cohabit.sim.fast import Replay, replay
from cohabit.testing.builders import policies
from tests.breadth import examples
from tests.property.test_one_by_one import TOGETHER
from tests.property.test_orders import by_machine_code, random_jobs

pytestmark = [pytest.mark.slow, pytest.mark.wide]  # machine code is made for every order

HEADER = """import builtins
import datetime
import itertools
import time
import numpy as np

CHANGING = True
HOUR, TURN = 3_600_000_000, itertools.count()
WEIGHTS = {"wait": 1.5, "size": 3}
CLASSES = [{"most": 4, "weight": 2.0}, {"most": 64, "weight": 1.0}]


def weight_of(nodes):
    weight = np.zeros_like(nodes, dtype=float)
    for one in CLASSES[::-1]:
        weight[nodes <= one["most"]] = one["weight"]
    return weight


def rank_of(x):
    return np.argsort(np.argsort(x))


ELSEWHERE = type(rank_of)(rank_of.__code__, {"np": np})  # a function of another module
"""
WAIT = "w = (now_us - jobs.submit_us[rows]) / HOUR\n    "
RECORDED = {
    "share": "n = jobs.nodes[rows]\n    return n / n.sum()",
    "dictionary": WAIT + "return -w * WEIGHTS['wait'] - jobs.nodes[rows] * WEIGHTS['size']",
    "classes": WAIT + "return -w * weight_of(jobs.nodes[rows])",
    "mean_wait": WAIT + "return -w / (w.mean() + 1.0) + jobs.nodes[rows] / np.mean(jobs.nodes[rows])",
    "sums_of_fractions": WAIT + "s = np.sqrt(w + 1.0)\n    return s / np.sum(s) - w / (s * s).sum()",
    "length": "return jobs.limit_us[rows] / len(rows) + (now_us - jobs.submit_us[rows]) * (1.0 / rows.size)",
    "extremes": "n = jobs.nodes[rows]\n    return (n - n.min()) / (np.max(n) + 1) - (n > 3).sum() - (n > 4).mean()",
    "filled": "s = np.zeros(len(rows))\n    s += jobs.qos[rows]\n    return s + np.full(len(rows), 2.5) - 1",
    "mask": "x = jobs.limit_us[rows] * 1.0\n    x[x > 9e6] = 9\n    return x + len(rows)",
    "in_place": "x = jobs.limit_us[rows] * 1.0\n    y, z = x, x.copy()\n    x *= 2\n    return y + z / len(rows)",
    "power_in_place": WAIT + "y = w\n    w **= 1.5\n    w **= 2\n    return y * jobs.nodes[rows] + len(rows)",
    "clipped": WAIT + "return np.clip(w, 0.5, WEIGHTS['size']) + np.clip(jobs.qos[rows], None, 7) ** 2",
    "select": WAIT + "return np.select([w > 4, w > 1], [-w, jobs.nodes[rows]], jobs.qos[rows] * 2)",
    "select_else_zero": WAIT + "return np.select([w > 4], [jobs.nodes[rows]]) - len(rows)",
    "edges": WAIT + "return np.digitize(w, [0.1, 1.0, 4.5]) * -9.0 + np.searchsorted([2, 8, 64], jobs.nodes[rows])",
    "bounded_power": WAIT + "return w.clip(0.5) + jobs.qos[rows].clip(3, 7) ** 2 - w.clip(max=3.0)",
    "time_of_day": "h = now_us % (24 * HOUR) / HOUR\n    return np.where(h > 12, 1.0, 2.0 * h) * jobs.nodes[rows]",
    "users": "u = jobs.user[rows]\n    return jobs.usage_share[u] * (u >= 0) / len(rows)",
    "many_types": "l = jobs.limit_us[rows]\n    return ((l > 5) + (l > 7)) * WEIGHTS['size'] + ~(l > 9) * 0.5 - l % 5",
    "infinite": "return np.where(jobs.qos[rows] > 50, WEIGHTS['size'] * np.inf, jobs.seq[rows])",
    "looks": "s = jobs.nodes[rows].sum()\n    return jobs.seq[rows] * (1.0 if s > 70 else -1.0)",
    "asks_twice": "n, a = len(rows), WEIGHTS['size']\n    if n > 20:\n        a = jobs.nodes[rows].mean()\n"
    "    return jobs.limit_us[rows] * (a if now_us % 7 < 4 and a > 2 else -jobs.qos[rows]) * max(n, 9)",
    "rank": "r = np.argsort(np.argsort(jobs.limit_us[rows]))\n    return r / len(rows) + jobs.nodes[rows]",
    "rank_by_order": WAIT + "o = np.argsort(jobs.nodes[rows] * 1.5)\n    r = np.empty(len(rows))\n"
    "    r[o] = np.arange(len(o))\n    return r - w",
    "rank_that_changes": WAIT + "x = -w / jobs.nodes[rows]\n    r = np.empty_like(jobs.nodes[rows])\n"
    "    r[np.argsort(x, kind='stable')] = np.arange(len(rows))\n    return r * 2.5 + x / 10",
    "ranks": "a = np.argsort(np.argsort(jobs.nodes[rows]))\n    b = np.argsort(np.argsort(-jobs.submit_us[rows]))\n"
    "    return a + 0.5 * b",
    "rank_of_fractions": "x = np.sqrt(jobs.qos[rows] - 50.0)\n"
    "    return np.argsort(np.argsort(x, stable=True), stable=True)",
    "order_itself": "return np.argsort(jobs.limit_us[rows] % 5)",
    "in_order": WAIT
    + "o = np.argsort(jobs.qos[rows])\n    x = jobs.limit_us[rows][o] * 1.0\n    y = np.zeros(len(rows))\n"
    "    y[o] = x / len(rows)\n    return y - w[o]",
    "cubes": WAIT
    + "x = (w + 0.001) / jobs.limit_us[rows] * 1e9\n    return -(x**3) * jobs.nodes[rows] + np.power(w - 5, 3.0)",
    "hours": WAIT + "return (w % 3600.0) * jobs.nodes[rows] + (-w) % 7.5 + 0.1 * (w % (jobs.qos[rows] - 50.0))",
    "day": WAIT + "h = (now_us // 3_600_000_000) % 24\n"
    "    return np.where((h > 8) & (h < 18), w, -w * jobs.nodes[rows]) - w",
    "median": WAIT + "return np.where(w > np.median(w), -w, jobs.nodes[rows] - np.median(jobs.nodes[rows]))",
    "spread": "n = jobs.nodes[rows]\n    return (n - n.mean()) / (n.std() + 1.0) + np.var(jobs.qos[rows] * 0.1)",
    "any_all": "n = jobs.nodes[rows]\n    return n * (2.0 if (n > 40).any() else 1.0) - len(rows) * np.all(n > 1)",
    "one_of": WAIT + "return np.isin(jobs.user[rows], [0, 3, 5]) * 10.0 - w + 0 * jobs.nodes[rows].sum()",
    "of_its_user": "_, i, c = np.unique(jobs.user[rows], return_inverse=True, return_counts=True)\n"
    "    return c[i] * 1.5 + jobs.limit_us[rows] / len(np.unique(jobs.qos[rows]))",
    "in_its_file": "return rank_of(jobs.limit_us[rows]) - rank_of(jobs.nodes[rows])",
    "inner": "def wait(x):\n        return now_us - x\n    return -wait(jobs.submit_us[rows]) / len(rows)",
}
BEYOND = {
    "looks_at_rows": "n = jobs.nodes[rows]\n    return n * 2.0 if n[0] > 5 else n * 3.0",
    "asks_on_and_on": "s = jobs.nodes[rows].mean()\n    while s > 1:\n        s = s / 2\n    return jobs.seq[rows] * s",
    "rows_one_by_one": "return np.array([float(jobs.nodes[row]) for row in rows])",
    "sorted_in_any_way": "return np.argsort(jobs.limit_us[rows], kind='quicksort')",
    "sorted_by_itself": "return jobs.limit_us[rows].argsort()",
    "sorted_elsewhere": "return ELSEWHERE(jobs.limit_us[rows])",
    "sorted_in_place": "x = jobs.limit_us[rows] * 1.0\n    x.sort()\n    return x",
    "of_other_users": "_, i = np.unique(jobs.user[rows], return_inverse=True)\n"
    "    _, c = np.unique(jobs.qos[rows], return_counts=True)\n    return c[i]",
    "a_set": "return jobs.limit_us[rows] * np.isin(jobs.user[rows], {1, 2})",
    "users_in_python": "return jobs.limit_us[rows] * len(set(jobs.user[rows].tolist()))",
    "cumulated": "return np.multiply.accumulate(jobs.nodes[rows])",
    "whole_table": "return jobs.limit_us[rows] - jobs.limit_us.max()",
    "whole_column": "return jobs.limit_us[rows] - np.max(jobs.limit_us)",
    "the_rows": "return jobs.limit_us[rows] + rows",
    "other_rows": "return jobs.limit_us[rows[::-1]]",
    "neighbours": "return jobs.limit_us[rows][::-1]",
    "chance": "return jobs.limit_us[rows] + np.random.random()",
    "clock": "return jobs.limit_us[rows] + time.perf_counter()",
    "counts_its_calls": "return jobs.limit_us[rows] * next(TURN)",
    "catches": "try:\n        return jobs.limit_us[rows] * float(jobs.nodes[rows].argmax())\n    except Exception:\n"
    "        return jobs.limit_us[rows]",
    "names": "return jobs.limit_us[rows] * len(f'{now_us}')",
    "large": "return jobs.limit_us[rows] / (now_us * 10**9)",
    "dates": "return jobs.limit_us[rows] * datetime.datetime.fromtimestamp(now_us / 1e6).hour",
    "length_of_text": "return jobs.limit_us[rows] * builtins.len(rows)",
    "one_number": "return now_us * 1.0",
    "several": "return np.stack([jobs.nodes[rows], jobs.qos[rows]])",
    "table": "return np.arange(100.0)[jobs.qos[rows]]",
}


def order_file(folder: Path, name: str, body: str) -> str:
    path = folder / f"{name}.py"
    path.write_text(f"{HEADER}def scores(jobs, rows, now_us):\n    {body}\n")
    return str(path)


def long_queue(order: str, seed: int, compiled: bool, backfill: str, in_two_steps: bool = True) -> Replay:
    """More work than the machine can do: dozens wait."""
    rng = np.random.default_rng(seed)
    jobs, nodes = 400, 64
    submit = np.sort(rng.integers(0, 15_000, jobs)) * SECOND
    limit = rng.choice([10, 60, 600, 3600], jobs) * SECOND
    run = np.maximum((limit * rng.random(jobs)).astype(np.int64), 1)
    size, user = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs), rng.integers(-1, 6, jobs)
    made = make_order(order, {}, compile_it=compiled)
    assert (made.entry is not None) == compiled
    if not in_two_steps:
        made = replace(made, two_steps=None)
    return replay(submit, run, limit, size, size, user, nodes, replace(policies("fcfs", backfill), order=made))


def check_a_queue_remembered(order: Order) -> None:
    """Jobs come and go, few or many at a time, also in another order; what was remembered never shows in a score."""
    rng = np.random.default_rng(len(order.name))
    jobs, usage, rows = random_jobs(len(order.name), 300, 4)
    assert order.entry is not None
    numbers, everybody = order.entry.numbers(order.parameters, jobs.shape[1]), np.arange(jobs.shape[1])
    for step in range(60):
        share = (0.02, 0.02, 0.4)[step % 3]
        left = rows[rng.random(len(rows)) >= share]
        come = rng.choice(np.setdiff1d(everybody, left), rng.integers(1, 5 if step % 7 else 50))
        rows = np.concatenate([left, np.unique(come)])
        rows = rng.permutation(rows) if step % 11 == 10 else rows
        now_us = int(jobs[ELIGIBLE].max()) + step * 10**9
        usage[:, :-1] *= 1 + rng.random() / 10
        with np.errstate(all="ignore"):
            expected = np.asarray(order.function(columns_of(jobs, usage), rows, now_us, *order.parameters), float)
        found = order.entry.scores(jobs, usage, rows, now_us, numbers)
        assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("name", RECORDED)
def test_scores_and_schedules_are_those_of_the_function(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = order_file(tmp_path_factory.mktemp("orders"), name, RECORDED[name])
    function = load_source(path).scores
    assert recording.for_queue(function, ()) is not None
    order = make_order(path, {}, compile_it=True)
    assert order.entry is not None

    @settings(max_examples=examples(30), deadline=None)
    @given(st.integers(0, 2**32), st.integers(2, 600), st.integers(1, 9))
    def check(seed: int, count: int, users: int) -> None:
        jobs, usage, rows = random_jobs(seed, count, users)
        rows = rows if len(rows) else np.array([1])
        now_us = int(jobs[ELIGIBLE].max()) + seed % 1000
        with np.errstate(all="ignore"):
            readable = np.asarray(order.scores(columns_of(jobs, usage), rows, now_us), float)
        assert np.array_equal(by_machine_code(order, jobs, usage, rows, now_us), readable)

    check()
    check_a_queue_remembered(order)
    for backfill in ("easy", "first-fit"):
        recorded, plain = (long_queue(path, len(name), compiled, backfill, False) for compiled in (True, False))
        assert np.array_equal(recorded.start_us, plain.start_us)
        assert recorded.journal.hash() == plain.journal.hash()


@pytest.mark.parametrize("name", BEYOND)
def test_what_cannot_be_recorded_is_left_alone(name: str, tmp_path: Path) -> None:
    assert recording.for_queue(load_source(order_file(tmp_path, name, BEYOND[name])).scores, ()) is None


def test_parameters_stay_parameters(tmp_path: Path) -> None:
    path = tmp_path / "parameters.py"
    path.write_text(
        f"{HEADER}def scores(jobs, rows, now_us, size=2.0, wait=1.0):\n"
        "    return jobs.nodes[rows] * size / len(rows) - wait * (now_us - jobs.submit_us[rows])\n"
    )
    order = make_order(str(path), {"wait": 0.25}, compile_it=True)
    assert recording.for_queue(order.function, order.parameters) is not None
    jobs, usage, rows = random_jobs(1, 50, 3)
    for changed in (order, replace(order, parameters=(7.0, 3.5))):
        expected = changed.scores(columns_of(jobs, usage), rows, 10**12)
        assert np.array_equal(by_machine_code(changed, jobs, usage, rows, 10**12), expected)


def test_a_recording_that_scores_otherwise_is_not_used(tmp_path: Path) -> None:
    """`agrees` is the last word: here the function is not the one that was recorded."""
    one, other = (load_source(order_file(tmp_path, name, RECORDED[name])).scores for name in ("share", "length"))
    entry = make_order(str(tmp_path / "share.py"), {}, compile_it=True).entry
    assert entry is not None
    assert recording.agrees(entry, one, ())
    assert not recording.agrees(entry, other, ())


@pytest.mark.parametrize("name", [name for name in RECORDED if name in TOGETHER])
def test_they_are_no_matter_of_one_job(name: str, tmp_path: Path) -> None:
    assert for_one_job(load_source(order_file(tmp_path, name, RECORDED[name])).scores, "score_one") is None


def test_a_sort_compiled_otherwise_stays_in_python(tmp_path: Path) -> None:
    """numba puts equal numbers in an order of its own: then the function itself is called."""
    for name in ("sorted_by_itself", "sorted_in_any_way"):
        assert make_order(order_file(tmp_path, name, BEYOND[name]), {}, compile_it=True).entry is None


def test_equal_ones_keep_their_order_in_a_sort(tmp_path: Path) -> None:
    order = make_order(order_file(tmp_path, "sorts", "return np.argsort(jobs.nodes[rows])"), {}, compile_it=False)
    jobs, usage, rows = random_jobs(7, 2000, 4)
    columns = columns_of(jobs, usage)
    assert np.array_equal(order.scores(columns, rows, 0), np.argsort(columns.nodes[rows], kind="stable"))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 20), st.integers(0, 17))
def test_third_powers_are_those_of_the_library(seed: int, width: float, digits: int) -> None:
    rng = np.random.default_rng(seed)
    numbers = np.exp(rng.uniform(-width, width, 5000)) * rng.choice([-1, 1], 5000)
    numbers = np.concatenate([np.round(numbers, digits), [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-300, 1e300]])
    expected = library.power(numbers, np.full(len(numbers), 3.0))
    found = powers.cubes(numbers)
    assert np.array_equal(found, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(0, 2**32), st.floats(-4, 40), st.floats(-20, 20), st.integers(0, 17))
def test_remainders_are_those_of_numpy(seed: int, large: float, divisor: float, digits: int) -> None:
    rng = np.random.default_rng(seed)
    by = (round(float(np.exp(divisor)), digits) or 1.0) * (1.0 if seed % 3 else -1.0)
    multiples = by * rng.integers(0, 10**6, 300) * (1.0 + rng.integers(-2, 3, 300) * 2.0**-52)
    numbers = np.concatenate([np.exp(rng.uniform(-5, large, 300)), multiples, [0.0, -0.0, 1e300, np.inf, np.nan, by]])
    numbers *= rng.choice([1.0, 1.0, -1.0], len(numbers))
    with np.errstate(all="ignore"):
        expected = np.remainder(numbers, by)
    found = np.array([powers.remainder(number, by) for number in numbers])
    assert np.array_equal(found, expected, equal_nan=True)
    zero = expected == 0  # below a negative divisor the compiled one has another sign than numpy's, as it always had
    assert by < 0 or np.array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 2**32), st.one_of(st.integers(1, 300), st.integers(1, 40_000)))
def test_sums_are_those_of_numpy(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    fractions, whole = rng.standard_normal(count) * 10.0 ** rng.integers(-9, 9, count), rng.integers(0, 2**60, count)
    assert sums.sum_of(fractions, False) == fractions.sum()
    assert sums.sum_of(fractions, False) / count == fractions.mean()
    assert sums.sum_of(whole.astype(float), True) / count == whole.mean()
