"""An order compiled and the same order as a numpy function rank any jobs alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.core.columns import CORES, ELIGIBLE, JOB_COLUMNS, LIMIT, NODES, QOS, SEQ, SUBMIT, USER, columns_of
from cohabit.core.kernels import fair_share, scoring
from cohabit.model.units import DAY, SECOND
from cohabit.policy.registry import ORDERS, make_order
from tests.breadth import examples
from tests.campaign import ROUNDED
from tests.reference import textbook


def random_jobs(seed: int, count: int, users: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A job table, usage per user, and some of its rows."""
    rng = np.random.default_rng(seed)
    jobs = np.zeros((JOB_COLUMNS, count), np.int64)
    jobs[NODES] = jobs[CORES] = rng.integers(1, rng.choice([3, 2000]), count)
    jobs[LIMIT] = rng.integers(0, rng.choice([4, 10**7, 10**11]), count)
    jobs[SUBMIT] = rng.integers(0, rng.choice([2, 10**9, 30 * DAY]), count)
    jobs[ELIGIBLE] = jobs[SUBMIT] + rng.integers(0, 100, count)
    jobs[SEQ], jobs[USER], jobs[QOS] = np.arange(count), rng.integers(-1, users, count), rng.integers(0, 100, count)
    usage = fair_share.make(users)
    usage[0, :-1] = rng.exponential(1e6, users) * (rng.random(users) < 0.7)
    fair_share.share_out(usage)
    return jobs, usage, np.flatnonzero(rng.random(count) < 0.8)


def by_machine_code(order, jobs: np.ndarray, usage: np.ndarray, rows: np.ndarray, now_us: int) -> np.ndarray:
    out = np.empty(len(rows))
    parameters = np.array([*order.parameters, 0.0])
    scoring.score(order.entry, parameters, jobs, usage, rows, now_us, out)
    return out


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 60), st.integers(1, 9))
def test_compiled_scores_rank_as_those_of_numpy(name: str, seed: int, count: int, users: int) -> None:
    order = make_order(name, {}, in_passes=True)
    if order.entry is None:
        assert not order.changing, "computed in every pass, and numba cannot compile it"
        return
    jobs, usage, rows = random_jobs(seed, count, users)
    now_us = int(jobs[ELIGIBLE].max()) + seed % 1000
    readable = np.asarray(replace(order, entry=None).scores(columns_of(jobs, usage), rows, now_us), float)
    machine = by_machine_code(order, jobs, usage, rows, now_us)
    assert np.array_equal(order.scores(columns_of(jobs, usage), rows, now_us), machine), "the compiled form defines it"
    np.testing.assert_allclose(machine, readable, rtol=1e-12, atol=0)
    assert np.lexsort((jobs[SEQ, rows], machine)).tolist() == np.lexsort((jobs[SEQ, rows], readable)).tolist()


@pytest.mark.parametrize("name", ORDERS)
@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_scores_are_finite_and_blind_to_other_rows(name: str, seed: int, count: int) -> None:
    """One score per row, never NaN, the same whichever rows are asked about together."""
    order = make_order(name, {}, in_passes=False)
    jobs, usage, rows = random_jobs(seed, count, 4)
    columns, now_us = columns_of(jobs, usage), int(jobs[ELIGIBLE].max())
    together = np.asarray(order.scores(columns, rows, now_us), float)
    assert together.shape == rows.shape
    assert np.isfinite(together).all()
    alone = [float(order.scores(columns, rows[i : i + 1], now_us)[0]) for i in range(len(rows))]
    np.testing.assert_allclose(together, alone, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in ORDERS if not ORDERS[name].changing])
@settings(max_examples=examples(10), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 10**12))
def test_orders_registered_as_static_do_not_look_at_the_clock(name: str, seed: int, later_us: int) -> None:
    order = make_order(name, {}, in_passes=False)
    jobs, usage, rows = random_jobs(seed, 20, 3)
    columns = columns_of(jobs, usage)
    assert np.array_equal(order.scores(columns, rows, 0), order.scores(columns, rows, later_us))


@pytest.mark.parametrize("name", [name for name in ORDERS if ORDERS[name].falling])
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 10**12), st.floats(0.5, 1.0), st.floats(0.0, 4.0))
def test_falling_scores_fall_while_jobs_wait(name: str, seed: int, later_us: int, part: float, number: float) -> None:
    """What core/kernels/shortlist.py builds on, to the last bit: no score rises later, or with less of the usage."""
    for options in ({}, dict.fromkeys(("exponent", "size_exponent"), number) if name == "wfp" else {}):
        order = make_order(name, options, in_passes=True)
        assert order.falling
        jobs, usage, rows = random_jobs(seed, 40, 5)
        now_us = int(jobs[ELIGIBLE].max())
        before = by_machine_code(order, jobs, usage, rows, now_us)
        usage[1] *= part
        assert (by_machine_code(order, jobs, usage, rows, now_us + later_us) <= before).all()


def test_an_order_with_a_negative_weight_is_not_taken_for_falling() -> None:
    assert not make_order("multifactor", {"age_weight": -1.0}, in_passes=False).falling


@pytest.mark.parametrize("name", [name for name in ORDERS if name in textbook.ORDERS])
@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40))
def test_scores_are_those_of_the_textbook(name: str, seed: int, count: int) -> None:
    """To rounding; and so are those the campaign uses, which round as the product does."""
    jobs, usage, rows = random_jobs(seed, count, 1)
    now_us = int(jobs[ELIGIBLE].max())
    order = make_order(name, {}, in_passes=False)
    scores = np.asarray(order.scores(columns_of(jobs, usage), rows, now_us), float)
    listed = [textbook.Job(0, *map(int, (jobs[SUBMIT, r], 0, jobs[LIMIT, r], jobs[NODES, r]))) for r in rows]
    expected = np.array([textbook.ORDERS[name](job, now_us, SECOND) for job in listed])
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    if name in ROUNDED:
        assert scores.tolist() == [ROUNDED[name](job, now_us) for job in listed]
